#include <stdio.h>
#include <string.h>

#include "audit/format/row_told.h"
#include "authz/scim_entry.h"
#include "authz/snapshot_priv.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/random.h"

static const struct authz_refusal malformed = {"SYS-GRANT", "a grant names a role and the principal that gets it"};
static const struct authz_refusal unknown_role = {"SYS-GRANT", "no signed document of a role with this name is in force here"};
static const struct authz_refusal misplaced = {"SYS-GRANT", "this role can't be given on a scope of this kind"};
static const struct authz_refusal not_yours = {"SYS-GRANT", "your role may not give this role to others"};
static const struct authz_refusal yourself = {"SYS-SELF-GRANT", "nobody can give a role to itself; ask another administrator"};
static const struct authz_refusal same_officer = {
    "SYS-BOTH-OFFICERS",
    "the second security officer must be another person than the first: a robot counts as everybody who made it or saw its secret"};
static const struct authz_refusal both_officers = {
    "SYS-BOTH-OFFICERS",
    "another person must appoint the second security officer than the first: a robot counts as everybody who made it or saw its secret"};

void authz_grant_detail(const struct authz_binding *wanted, char detail_out[RESOURCE_DETAIL_MAX + 1])
{
    char id[UUID_TEXT_SIZE];

    uuid_format(&wanted->robot, id);
    (void)snprintf(detail_out, RESOURCE_DETAIL_MAX + 1, "%s %s%s", binding_role_name(wanted),
                   wanted->kind == PRINCIPAL_ROBOT ? "robot:" : "external", wanted->kind == PRINCIPAL_ROBOT ? id : "");
}

void authz_grant_told(const struct authz_binding *wanted, int64_t lifetime_s, uint8_t salt_out[AUTHZ_SALT],
                      char told_out[AUTHZ_TOLD_SIZE])
{
    uint8_t text[AUTHZ_SALT + sizeof wanted->issuer + sizeof wanted->subject], hash[SHA256_SIZE];
    const size_t issuer = strlen(wanted->issuer) + 1, subject = strlen(wanted->subject);
    char digits[2 * SHA256_SIZE + 1];

    random_bytes(salt_out, AUTHZ_SALT);
    memcpy(text, salt_out, AUTHZ_SALT);
    memcpy(text + AUTHZ_SALT, wanted->issuer, issuer);
    memcpy(text + AUTHZ_SALT + issuer, wanted->subject, subject);
    sha256_of((struct bytes){text, AUTHZ_SALT + issuer + subject}, hash);
    text_hex(hash, sizeof hash, digits);
    digits[ROW_TOLD_DIGITS] = '\0';
    if (wanted->kind == PRINCIPAL_EXTERNAL)
        (void)snprintf(told_out, AUTHZ_TOLD_SIZE, " " BINDING_TOLD_SUBJECT "%.32s " ROW_TOLD_LIFETIME "%lld", digits,
                       (long long)lifetime_s);
    else (void)snprintf(told_out, AUTHZ_TOLD_SIZE, " " ROW_TOLD_LIFETIME "%lld", (long long)lifetime_s);
}

/* Splits "role grantee". */
static bool read_detail(const char *detail, struct authz_binding *wanted, const char **grantee_out)
{
    const char *blank = strchr(detail, ' ');
    char role[OWN_ROLE_NAME_MAX + 1];

    if (blank == NULL || blank[1] == '\0' || (size_t)(blank - detail) >= sizeof role) return false;
    (void)snprintf(role, sizeof role, "%.*s", (int)(blank - detail), detail);
    *grantee_out = blank + 1;
    return binding_read_role(wanted, role);
}

bool authz_grant_stands_alone(const char *detail)
{
    struct authz_binding wanted = {.role = 0};
    const char *grantee = NULL;

    return read_detail(detail, &wanted, &grantee) && !role_is_of_officers(wanted.role);
}

/* ---- a role, built-in or of a signed document ---- */

const char *binding_role_name(const struct authz_binding *binding)
{
    return binding->role == ROLE_OWN ? binding->own.name : role_name(binding->role);
}

bool binding_permits(const struct authz_binding *binding, enum action action)
{
    return binding->role == ROLE_OWN ? own_role_permits(&binding->own, action) : role_permits(binding->role, action);
}

bool binding_read_role(struct authz_binding *binding, const char *name)
{
    if (role_find(bytes_of_text(name), &binding->role)) return true;
    if (!own_role_name_is_valid(name)) return false;
    binding->role = ROLE_OWN;
    (void)text_copy(binding->own.name, sizeof binding->own.name, name);
    return true;
}

static bool is_name_letter(char letter)
{
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || strchr("._-/", letter) != NULL;
}

bool binding_is_pattern(const char *text)
{
    const size_t length = strlen(text);
    const bool has_star = length >= 2 && strcmp(text + length - 2, "/*") == 0;
    const size_t end = has_star ? length - 2 : length;
    size_t slashes = 0;

    if (end == 0 || length >= BINDING_PATTERN_SIZE || text[0] == '/' || text[end - 1] == '/') return false;
    for (size_t i = 0; i < end; i++) {
        if (text[i] == '\0' || !is_name_letter(text[i])) return false;
        if (text[i] == '/' && text[i + 1] == '/') return false;
        slashes += text[i] == '/';
    }
    return slashes >= (has_star ? 1 : 2); /* a pattern names at least a whole organisation and a whole project */
}

bool binding_allows_scope(const struct authz_binding *binding, enum resource_kind scope)
{
    return binding->role == ROLE_OWN ? scope != RESOURCE_SYSTEM : role_allows_scope(binding->role, scope);
}

bool binding_may_be_granted(enum role held, const struct authz_binding *binding)
{
    if (held == ROLE_OWN) return false; /* no document gives the right to grant */
    return binding->role == ROLE_OWN ? own_role_may_be_granted(held, &binding->own)
                                     : role_may_grant(held, binding_given(binding));
}

/* ---- grants ---- */

/* Whether the scopes overlap: one of them contains the other. */
static bool scopes_meet(const struct authz_binding *officer, const struct resource *scope)
{
    return binding_covers(officer, scope) || binding_is_inside(officer, scope);
}

/* The grant of the role to one more security officer. */
struct appointment {
    const struct authz_snapshot *snapshot;
    const struct resource *scope;
    struct persons_scope where;
    struct persons granter;
    struct principal robot; /* the grantee; PRINCIPAL_NONE: a subject, which binding_insert() compares */
    int64_t now_ms;
};

/* Two different persons must appoint two different persons. A principal that is nobody can't be told from another person. */
static const struct authz_refusal *appointment_refusal_beside(const struct appointment *appointment,
                                                              const struct authz_binding *officer)
{
    const struct principal other = {.kind = PRINCIPAL_ROBOT, .id = officer->robot};
    struct principal subject = {.kind = PRINCIPAL_EXTERNAL};

    const struct persons stored = {1, false, false, {officer->granting_person}};
    const struct persons giver = persons_as_of_now(&appointment->where, &stored);
    if (officer->granting_person.key[0] == '\0' || !persons_are_others(&giver, &appointment->granter)) return &both_officers;
    const bool is_same_robot = officer->kind == PRINCIPAL_ROBOT && uuid_equal(&officer->robot, &appointment->robot.id);
    if (appointment->robot.kind == PRINCIPAL_NONE || is_same_robot) return NULL;
    memcpy(subject.issuer, officer->issuer, sizeof subject.issuer);
    memcpy(subject.subject, officer->subject, sizeof subject.subject);
    const struct persons first = persons_of(&appointment->where, officer->kind == PRINCIPAL_ROBOT ? &other : &subject);
    const struct persons second = persons_of(&appointment->where, &appointment->robot);
    return persons_are_others(&first, &second) ? NULL : &same_officer;
}

static const struct authz_refusal *appointment_refusal_in(const struct appointment *appointment, const struct rights_part *part)
{
    const struct authz_binding *binding = NULL;
    const struct authz_refusal *why = NULL;
    struct part_walk walk = {0};

    while (why == NULL && (binding = part_next_binding(part, &walk)) != NULL) {
        if (binding_given(binding) == ROLE_SECURITY_OFFICER && binding_is_live(binding, appointment->now_ms) &&
            scopes_meet(binding, appointment->scope))
            why = appointment_refusal_beside(appointment, binding);
    }
    return why;
}

/* Officers of the registry's scope overlap with all others. */
static const struct authz_refusal *appointment_refusal(const struct appointment *appointment)
{
    const struct authz_snapshot *snapshot = appointment->snapshot;
    const struct authz_refusal *why = NULL;
    const struct rights_part *part = NULL;

    if (appointment->scope->kind == RESOURCE_SYSTEM) {
        for (size_t i = 0; i < snapshot->part_count && why == NULL; i++)
            why = appointment_refusal_in(appointment, snapshot->parts[i]);
        return why;
    }
    for (unsigned at = 0; why == NULL && snapshot_next_part(snapshot, &appointment->scope->organisation, &at, &part);)
        why = appointment_refusal_in(appointment, part);
    return why;
}

/* Whether the principal may grant the role of this binding on the binding's scope. */
static bool may_give(const struct authz_snapshot *snapshot, const struct principal *principal, const struct authz_binding *given,
                     int64_t now_ms)
{
    struct resource scope = {.kind = given->scope, .organisation = given->organisation, .project = given->project};
    const struct rights_part *part = NULL;

    (void)snprintf(scope.name, sizeof scope.name, "%s", given->pattern);
    for (unsigned at = 0; snapshot_next_part(snapshot, &scope.organisation, &at, &part);) {
        size_t count = 0;
        const struct authz_binding *own = part_bindings_of(part, principal, &count);
        for (size_t i = 0; i < count; i++)
            if (binding_is_live(&own[i], now_ms) && binding_permits(&own[i], ACTION_BINDING_CREATE) &&
                binding_may_be_granted(own[i].role, given) && binding_covers(&own[i], &scope))
                return true;
    }
    return false;
}

static const struct authz_refusal *rotation_refusal_in(const struct authz_snapshot *snapshot, const struct rights_part *part,
                                                       const struct principal *principal, const struct principal *robot,
                                                       int64_t now_ms)
{
    static const struct authz_refusal roles = {"SYS-GRANT",
                                               "you may not give each role that this robot has, so you may not see its secret"};
    static const struct authz_refusal officer = {
        "SYS-BOTH-OFFICERS", "you did not appoint this security officer, so you may not have its secret: revoke it"};
    char granter[PRINCIPAL_KEY_SIZE];
    size_t count = 0;
    const struct authz_binding *given = part_bindings_of(part, robot, &count);

    const struct persons_scope where = {snapshot, &part->organisation, now_ms};
    const struct persons persons = persons_of(&where, principal);
    principal_key(principal, granter);
    for (size_t i = 0; i < count; i++) {
        if (!binding_is_kept(&given[i], now_ms)) continue;
        if (!may_give(snapshot, principal, &given[i], now_ms)) return &roles;
        const struct persons giver = {1, false, false, {given[i].granting_person}};
        const bool gave_it =
            strcmp(given[i].granted_by, granter) == 0 || (persons_are_one(&persons) && persons_meet(&giver, &persons));
        if (binding_given(&given[i]) == ROLE_SECURITY_OFFICER && !gave_it) return &officer;
    }
    return NULL;
}

const struct authz_refusal *rotation_refusal(const struct authz_snapshot *snapshot, const struct principal *principal,
                                             const struct resource *resource, int64_t now_ms)
{
    static const struct authz_refusal unknown = {"SYS-NO-BINDING", "there is no such robot in this organisation"};
    static const struct authz_refusal directory = {
        "SYS-GRANT",
        "two approvers have signed that this robot provisions persons (SCIM): make another robot, and have them sign the document with it"};
    struct principal robot = {.kind = PRINCIPAL_ROBOT};

    if (!uuid_parse(bytes_of_text(resource->detail), &robot.id)) return &unknown;
    const struct authz_robot *found = authz_snapshot_robot(snapshot, &robot.id);
    if (found == NULL || !uuid_equal(&found->organisation, &resource->organisation)) return &unknown;
    if (principal->kind == PRINCIPAL_ROBOT && uuid_equal(&principal->id, &robot.id)) return &yourself;
    if (scim_entry_names(snapshot->rules, &robot, now_ms)) return &directory;
    for (size_t i = 0; i < snapshot->part_count; i++) {
        const struct authz_refusal *why = rotation_refusal_in(snapshot, snapshot->parts[i], principal, &robot, now_ms);
        if (why != NULL) return why;
    }
    return NULL;
}

const struct authz_refusal *grant_refusal(const struct authz_snapshot *snapshot, const struct principal *principal,
                                          enum role held, const struct resource *resource, int64_t now_ms)
{
    char granter[PRINCIPAL_KEY_SIZE];
    const char *grantee = NULL;
    struct authz_binding wanted = {.role = 0};

    if (!read_detail(resource->detail, &wanted, &grantee)) return &malformed;
    if (!binding_allows_scope(&wanted, resource->kind)) return &misplaced;
    if (wanted.role == ROLE_OWN) own_role_resolve(snapshot->rules, &resource->organisation, &wanted.own);
    if (wanted.role == ROLE_OWN && !own_role_is_in_force(&wanted.own, now_ms)) return &unknown_role;
    if (!binding_may_be_granted(held, &wanted)) return &not_yours;
    principal_key(principal, granter);
    if (strcmp(grantee, granter) == 0) return &yourself;
    if (wanted.role != ROLE_SECURITY_OFFICER) return NULL;
    const struct persons_scope where = {snapshot, &resource->organisation, now_ms};
    struct appointment appointment = {
        .snapshot = snapshot, .scope = resource, .where = where, .granter = persons_of(&where, principal), .now_ms = now_ms};
    /* A nil id asks whether the role may be granted at all, before the robot is looked up. */
    if (strncmp(grantee, "robot:", 6) == 0 && uuid_parse(bytes_of_text(grantee + 6), &appointment.robot.id) &&
        !uuid_is_nil(&appointment.robot.id))
        appointment.robot.kind = PRINCIPAL_ROBOT;
    return appointment_refusal(&appointment);
}
