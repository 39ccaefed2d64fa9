/*
 * Somebody can always name the next administrator: what would end the last one that counts is refused. So is what would end the last security officer of a place by another
 * hand than the one that appointed it. Before documents are demanded, the change itself looks at the rows (authz/rights_priv.h).
 */
#include <string.h>

#include "authz/officer_entry.h"
#include "authz/scim_entry.h"
#include "authz/scim_persons.h"
#include "authz/snapshot_priv.h"

/* What the action ends. */
struct loss {
    const struct authz_snapshot *snapshot;
    const struct principal *principal; /* that ends it */
    enum action action;
    const char *detail;              /* of the pair: an id, or the name of a document; of ACTION_SCIM_END: an externalId ... */
    const struct uuid *organisation; /* of the pair */
    int64_t now_ms;
    const char *issuer; /* ... and whose */
};

static bool is_detail(const struct loss *loss, const struct uuid *id)
{
    char text[UUID_TEXT_SIZE];

    uuid_format(id, text);
    return strcmp(text, loss->detail) == 0;
}

/* A person whose token never came has no subject yet; where the claim is `sub`, its externalId is one. */
static bool is_of_person(const struct loss *loss, const struct authz_binding *binding)
{
    if (binding->kind != PRINCIPAL_EXTERNAL || strcmp(binding->issuer, loss->issuer) != 0) return false;
    const struct scim_person *person =
        scim_persons_of_subject(authz_snapshot_persons(loss->snapshot), binding->issuer, binding->subject);
    return strcmp(person == NULL ? binding->subject : person->external_id, loss->detail) == 0;
}

static bool loses(const struct loss *loss, const struct authz_binding *binding)
{
    if (loss->action == ACTION_SCIM_END) return is_of_person(loss, binding);
    if (loss->action == ACTION_BINDING_REVOKE) return is_detail(loss, &binding->id);
    if (loss->action == ACTION_ROBOT_REVOKE) return binding->kind == PRINCIPAL_ROBOT && is_detail(loss, &binding->robot);
    if (loss->action == ACTION_ISSUER_REMOVE) {
        const struct issuer *issuer = authz_snapshot_issuer(loss->snapshot, binding->issuer);
        return issuer != NULL && is_detail(loss, &issuer_record_of(issuer)->id);
    }
    const struct officer_entry *entry = officer_entry_of(loss->snapshot->rules, binding, loss->now_ms);
    return entry != NULL && strcmp(entry->name, loss->detail) == 0;
}

static bool can_log_in(const struct authz_snapshot *snapshot, const struct authz_binding *binding, int64_t now_ms)
{
    if (binding->kind == PRINCIPAL_ROBOT) {
        const struct authz_robot *robot = authz_snapshot_robot(snapshot, &binding->robot);
        return robot != NULL && robot->enabled && now_ms < robot->expires_ms;
    }
    return authz_snapshot_issuer(snapshot, binding->issuer) != NULL &&
           scim_admits(snapshot, binding->issuer, binding->subject, now_ms);
}

static bool is_guarded(enum action action)
{
    return action == ACTION_BINDING_REVOKE || action == ACTION_ROBOT_REVOKE || action == ACTION_ISSUER_REMOVE ||
           action == ACTION_OFFICERS_REVOKE;
}

/* A role that no document makes count is another one: ROLE_UNSIGNED_OFFICER. */
static bool counts_as(const struct loss *loss, const struct authz_binding *binding, enum role role)
{
    return binding->role == role && binding_is_live(binding, loss->now_ms) && can_log_in(loss->snapshot, binding, loss->now_ms);
}

static bool ends_administrators(const struct loss *loss)
{
    static const struct uuid registry;
    const struct rights_part *part = snapshot_part(loss->snapshot, &registry);
    const struct authz_binding *binding = NULL;
    struct part_walk walk = {0};
    bool is_lost = false;

    while (part != NULL && (binding = part_next_binding(part, &walk)) != NULL) {
        if (!counts_as(loss, binding, ROLE_REGISTRY_ADMIN)) continue;
        if (!loses(loss, binding)) return false;
        is_lost = true;
    }
    return is_lost;
}

bool authz_scim_ends_administrators(const struct authz_snapshot *snapshot, const char *issuer, const char *external_id,
                                    int64_t now_ms)
{
    const struct loss loss = {
        .snapshot = snapshot, .action = ACTION_SCIM_END, .detail = external_id, .now_ms = now_ms, .issuer = issuer};

    return officers_are_demanded(snapshot->rules) && ends_administrators(&loss);
}

static bool has_appointed(const struct loss *loss, const struct authz_binding *officer)
{
    const struct persons_scope where = {loss->snapshot, &officer->organisation, loss->now_ms};
    const struct persons ending = persons_of(&where, loss->principal), giver = {1, false, false, {officer->granting_person}};
    char key[PRINCIPAL_KEY_SIZE];

    principal_key(loss->principal, key); /* a robot that others have seen, too, may be their hand */
    return strcmp(officer->granted_by, key) == 0 || (persons_are_one(&ending) && persons_meet(&giver, &ending));
}

/* A binding is of one place, and the robot of an organisation has roles in it alone. */
static bool is_of_one_place(enum action action, const struct uuid *organisation)
{
    return action == ACTION_BINDING_REVOKE || (action == ACTION_ROBOT_REVOKE && !uuid_is_nil(organisation));
}

static bool ends_officers_in(const struct loss *loss, const struct rights_part *part)
{
    const struct authz_binding *binding = NULL;
    struct part_walk walk = {0};
    bool is_lost = false;

    while ((binding = part_next_binding(part, &walk)) != NULL) {
        if (!counts_as(loss, binding, ROLE_SECURITY_OFFICER)) continue;
        if (!loses(loss, binding)) return false;
        is_lost = is_lost || !has_appointed(loss, binding);
    }
    return is_lost;
}

static bool ends_officers(const struct loss *loss)
{
    const struct authz_snapshot *snapshot = loss->snapshot;

    if (is_of_one_place(loss->action, loss->organisation)) {
        const struct rights_part *part = snapshot_part(snapshot, loss->organisation);
        return part != NULL && ends_officers_in(loss, part);
    }
    for (size_t i = 0; i < snapshot->part_count; i++)
        if (ends_officers_in(loss, snapshot->parts[i])) return true;
    return false;
}

static bool ends_one_in(const struct loss *loss, const struct rights_part *part)
{
    const struct authz_binding *binding = NULL;
    struct part_walk walk = {0};

    while ((binding = part_next_binding(part, &walk)) != NULL)
        if (counts_as(loss, binding, ROLE_SECURITY_OFFICER) && loses(loss, binding)) return true;
    return false;
}

bool authz_ends_officer_elsewhere(const struct authz_snapshot *snapshot, enum action action, const struct resource *resource,
                                  int64_t now_ms)
{
    const struct loss loss = {snapshot, NULL, action, resource->detail, &resource->organisation, now_ms, NULL};

    if (action != ACTION_ISSUER_REMOVE && action != ACTION_ROBOT_REVOKE) return false;
    if (is_of_one_place(action, &resource->organisation) || !officers_are_demanded(snapshot->rules)) return false;
    for (size_t i = 1; i < snapshot->part_count; i++) /* each decision depends on the registry's, which is the first */
        if (ends_one_in(&loss, snapshot->parts[i])) return true;
    return false;
}

const struct authz_refusal *last_officer_refusal(const struct authz_snapshot *snapshot, const struct principal *principal,
                                                 enum action action, const struct resource *resource, int64_t now_ms)
{
    static const struct authz_refusal administrator = {
        "SYS-LAST-OFFICER",
        "this ends the last registry-admin that a document of officers names, and nobody could name another: sign a document for another one first"};
    static const struct authz_refusal officer = {
        "SYS-LAST-OFFICER",
        "this ends the last security officer of its place that a document of officers names, and another person has appointed it: appoint another one, and sign its document, first"};
    const struct loss loss = {snapshot, principal, action, resource->detail, &resource->organisation, now_ms, NULL};

    if (!is_guarded(action) || !officers_are_demanded(snapshot->rules)) return NULL;
    if (ends_administrators(&loss)) return &administrator;
    return action != ACTION_OFFICERS_REVOKE && ends_officers(&loss) ? &officer : NULL;
}
