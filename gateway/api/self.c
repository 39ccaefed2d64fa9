/* GET /api/v1/self: the caller's identity, roles and expiry; only about the caller itself. */
#include <string.h>

#include "authz/group_entry.h"
#include "authz/trust_login.h"
#include "base/clock.h"
#include "documents/replacement.h"
#include "gateway/api/break_glass_priv.h"
#include "gateway/api/self_priv.h"
#include "policy/decider/decider.h"

PART(
    held_role, "a role that the credential has", HAS_TEXT("role", REQUIRED, FORM_FREE, 1, 64, "its name"),
    HAS_COUNT("role_version", OPTIONAL, "of a role of a signed document: the version that is in force"),
    HAS_TEXT("bound_as", OPTIONAL, FORM_FREE, 1, 64,
             "of an unsigned-officer: the role of its binding, which no document of officers makes count"),
    HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, 255, "where; empty: the registry"),
    HAS_TIME("expires", OPTIONAL, "when it ends; left out: with the credential"),
    HAS_WORD(
        "origin", REQUIRED, "binding rule group break-glass",
        "binding: somebody has granted it; rule: a trust rule grants it; group: a group of the newest token, or of SCIM, has it; break-glass: two persons gave it for an hour. The last three are signed"),
    HAS_TEXT(
        "document", OPTIONAL, FORM_FREE, 1, 63,
        "of a group: the name of the roles of groups that grant it; of a broken glass: its name; of a binding: of the document of officers that makes it count"),
    HAS_ID("binding", OPTIONAL, "of a binding"),
    HAS_TEXT("granted_by", OPTIONAL, FORM_FREE, 1, 79,
             "of a binding: the principal that granted it, as documents name it; system: the start of the registry"))

PART(own_glass, "a broken glass of the caller that nobody has reviewed",
     HAS_TEXT("name", REQUIRED, FORM_FREE, 1, BREAK_GLASS_NAME_MAX, "its name"),
     HAS_TEXT("on", OPTIONAL, FORM_FREE, 1, BREAK_GLASS_PLACE_MAX, "where; left out if it was ended early"),
     HAS_SIGNED_TIME("expires", REQUIRED, "of the newest document"),
     HAS_TEXT("approved_by", OPTIONAL, FORM_FREE, 1, 79, "the principal that approved it"),
     HAS_WORD("review", REQUIRED, "later open", "later: it is in force; open: another person must review it"))

PART(own_waiting_key, "a key of the caller that waits: withdraw it if it is not yours",
     HAS_TEXT("name", REQUIRED, FORM_FREE, 43, 43, "the key's RFC 7638 thumbprint"),
     HAS_TIME("since", REQUIRED, "when the wait began"), HAS_TIME("waits_until", REQUIRED, "when it may come into force"))

SCHEMA(
    credential, "the credential that asks",
    HAS_WORD("kind", REQUIRED, "robot external rule", "external: a subject of a trusted issuer; rule: a CI job, by a trust rule"),
    HAS_TEXT("name", REQUIRED, FORM_FREE, 1, 255, "the robot's name, the subject, or the rule's scope and id"),
    HAS_ID("id", OPTIONAL, "of a robot"), HAS_TEXT("issuer", OPTIONAL, FORM_URL, 1, 255, "of a subject"),
    HAS_TEXT("person", REQUIRED | NULLABLE, FORM_FREE, 1, 0,
             "the one person that it counts as, where two persons are needed; null: nobody, or several"),
    HAS_TEXTS("persons", OPTIONAL, 1, PERSONS_MAX, NULL, "if several are behind it: all that are known"),
    HAS_FLAG("one_person", OPTIONAL,
             "true: the administrator of a registry on one machine, which counts as one person whoever uses it"),
    HAS_WORD(
        "officers", REQUIRED, "bindings documents",
        "what gives the roles of administrators and officers: bindings alone still, or only those that a document makes count"),
    HAS_FLAG("unknown_person", OPTIONAL, "true: somebody whom nobody knows is behind it, so it is never the second of two"),
    HAS_LIST("roles", REQUIRED, 0, schema_held_role, "the roles that it has now"),
    HAS_FLAG("has_more", REQUIRED, "true: there are more roles than are shown"),
    HAS_LIST("break_glass", OPTIONAL, 0, schema_own_glass, "its broken glasses in force, and those that wait for a review"),
    HAS_LIST("waiting_keys", OPTIONAL, KEY_WAITING_MAX, schema_own_waiting_key, "its keys that replace another one and wait"),
    HAS_TEXTS("unknown", OPTIONAL, 1, 2, NULL, "members that can't be told now, because the registry's keys are out of reach"),
    HAS_TEXT("audience", REQUIRED, FORM_FREE, 1, 127, "the name of the log, which signed requests name"),
    HAS_TIME("token_expires", OPTIONAL, "when the token ends"),
    HAS_TIME("secret_expires", OPTIONAL, "when the secret of the robot ends"),
    HAS_TIME("previous_until", OPTIONAL, "until when the previous secret is also valid"),
    HAS_FLAG("secret_replaced", OPTIONAL, "true: it uses a secret that was replaced"))

struct result target_credential_read(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    (void)request_add_pair(request, ACTION_CREDENTIAL_READ, "");
    return SUCCESS;
}

static json_t *describe_role(const struct held_role *held)
{
    const bool is_of_rule = strcmp(held->granted_by, "rule") == 0;
    const char *group = group_giver(held->granted_by), *glass = glass_giver(held->granted_by);
    const bool is_bound = !is_of_rule && group == NULL && glass == NULL;
    char id[UUID_TEXT_SIZE];

    uuid_format(&held->binding, id);
    return json_pack("{s:s, s:o*, s:s*, s:s, s:s, s:s*, s:s*, s:s*}", "role", held->role, "role_version",
                     held->version == 0 ? NULL : json_integer((json_int_t)held->version), "bound_as", held->bound_as, "scope",
                     held->scope, "origin",
                     is_of_rule      ? "rule"
                     : group != NULL ? "group"
                     : glass != NULL ? "break-glass"
                                     : "binding",
                     "document",
                     group != NULL               ? group
                     : held->document[0] != '\0' ? held->document
                                                 : glass,
                     "binding", is_bound ? id : NULL, "granted_by", is_bound ? held->granted_by : NULL);
}

static struct result add_roles(const struct held_roles *held, json_t *list, struct error *err)
{
    for (size_t i = 0; i < held->count; i++) {
        json_t *role = describe_role(&held->roles[i]);
        if (role == NULL || !api_set_time(role, "expires", held->roles[i].expires_ms) || json_array_append_new(list, role) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for roles");
    }
    return SUCCESS;
}

/* As its home counts persons: of a subject the registry, of a robot its organisation. */
static bool set_persons(const struct request *request, json_t *value)
{
    const struct persons persons =
        decider_persons(request->gateway->decider, request->principal, &request->principal->organisation);
    json_t *person = persons_are_one(&persons) ? json_string(persons.each[0].key) : json_null();
    OWNED_JSON list = json_array();

    if (list == NULL || json_object_set_new(value, "person", person) != 0) return false;
    for (size_t i = 0; i < persons.count; i++)
        if (json_array_append_new(list, json_string(persons.each[i].key)) != 0) return false;
    if (persons_are_one(&persons) && strcmp(persons.each[0].key, PERSON_ADMINISTRATOR) == 0 &&
        json_object_set_new(value, "one_person", json_true()) != 0)
        return false;
    if (persons.has_unknown && json_object_set_new(value, "unknown_person", json_true()) != 0) return false;
    return persons_are_one(&persons) || persons.count == 0 || json_object_set(value, "persons", list) == 0;
}

static struct result describe(const struct request *request, json_t *roles, bool has_more, json_t **value_out, struct error *err)
{
    const struct principal *principal = request->principal;
    const bool is_robot = principal->kind == PRINCIPAL_ROBOT, is_rule = trust_is_rule(principal);
    char id[UUID_TEXT_SIZE];

    uuid_format(&principal->id, id);
    OWNED_JSON value = json_pack("{s:s, s:s, s:s*, s:s*, s:O, s:b, s:s}", "kind",
                                 is_robot  ? "robot"
                                 : is_rule ? "rule"
                                           : "external",
                                 "name", principal->subject, "id", is_robot ? id : NULL, "issuer",
                                 is_robot || is_rule ? NULL : principal->issuer, "roles", roles, "has_more", has_more ? 1 : 0,
                                 "audience", request->gateway->origin);
    const char *officers = decider_demands_officers(request->gateway->decider) ? "documents" : "bindings";
    if (value == NULL || !set_persons(request, value) || json_object_set_new(value, "officers", json_string(officers)) != 0 ||
        !api_set_time(value, "token_expires", principal->expires_ms) ||
        !api_set_time(value, "secret_expires", decider_robot_expires(request->gateway->decider, principal)) ||
        !api_set_time(value, "previous_until", decider_previous_until(request->gateway->decider, principal, clock_wall_ms())) ||
        (is_robot && principal->replaced_ms == -1 && json_object_set_new(value, "secret_replaced", json_true()) != 0))
        return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    *value_out = GIVE(value);
    return SUCCESS;
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    struct held_roles *held = NULL;
    OWNED_JSON roles = json_array();
    OWNED_JSON value = NULL;

    (void)pg;
    if (roles == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for roles");
    TRY(decider_roles(request->gateway->decider, request->principal, clock_wall_ms(), &held, err));
    const struct result added = add_roles(held, roles, err);
    const bool has_more = held->has_more;
    free(held);
    TRY(added);
    TRY(describe(request, roles, has_more, &value, err));
    TRY(break_glass_add_own(request, value, err));
    TRY(self_add_waiting_keys(request, value, err));
    response_json(request, 200, value);
    response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

const struct handler handler_credential_read = {.handle = handle};
