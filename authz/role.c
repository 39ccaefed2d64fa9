#include "authz/role.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "crypto/digest.h"

/* The sets of actions in roles.def. audit/actions.def lists the sets of each action. */
enum {
    NOBODY = 0,           /* actions of the server only */
    FOR_ANYBODY = 1 << 0, /* any live credential; lists show visible entries only */
    CONTENT_READING = 1 << 1,
    CONTENT_WRITING = 1 << 2,
    CONTENT_PROMOTION = 1 << 3,
    CONTENT_DELETION = 1 << 4,
    GRANTING = 1 << 5,
    PROJECT_READING = 1 << 6,
    PROJECT_ADMINISTRATION = 1 << 7,
    ORGANISATION_ADMINISTRATION = 1 << 8,
    REGISTRY_ADMINISTRATION = 1 << 9,
    MAINTENANCE = 1 << 10,
    CERTIFYING = 1 << 11,
    LABELLING = 1 << 12,
    POLICY_READING = 1 << 13,
    POLICY_LOADING = 1 << 14,
    LOG_READING = 1 << 15,
    KEY_KEEPING = 1 << 16, /* sijil-keyd itself decides whose signature counts */
    KEY_APPROVING = 1 << 17,
    RUN_REQUESTING = 1 << 18,
    RUN_APPROVING = 1 << 19, /* another person than the requester; the handler compares them */
    RUN_READING = 1 << 20,
    FOR_RUNNERS = 1 << 21, /* no role has it: the runner's document permits it (snapshot_authorize.c) */
    FOR_RUNS = 1 << 22,    /* no role has it: the order of a run permits it (run_token.c) */
    LOG_WITNESSING = 1 << 23,
    FOR_PROVISIONERS = 1 << 24, /* no role has it: a signed document names the robot (scim_entry.c) */
    BY_SIGNATURES = 1 << 25     /* what counts by its signatures, whoever posts it */
};

static const unsigned sets[ACTION_COUNT] = {
#define X(constant, name, ocsf_type, operations, permitted) [constant] = (permitted),
#include "audit/actions.def"
#undef X
};

#define GRANTS(role)         (1U << (role))
#define GRANTS_NOTHING       0U
#define GRANTS_CONTENT_ROLES (GRANTS(ROLE_PUBLISHER) | GRANTS(ROLE_PROMOTER) | GRANTS(ROLE_CONSUMER) | GRANTS(ROLE_TRAINER))

enum { NOT_FOUND, FORBIDDEN };
enum {
    SCOPE_SYSTEM = 1 << RESOURCE_SYSTEM,
    SCOPE_ORGANISATION = 1 << RESOURCE_ORGANISATION,
    SCOPE_PROJECT = 1 << RESOURCE_PROJECT,
    SCOPE_REPOSITORY = 1 << RESOURCE_REPOSITORY
};

static const struct row {
    const char *name, *meaning;
    unsigned sets, scopes, grants;
    bool may_know_existence;
} rows[ROLE_COUNT] = {
#define ROLE(constant, name, refusal, scopes, actions, grants, meaning) \
    [constant] = {name, meaning, actions, scopes, grants, (refusal) == FORBIDDEN},
#include "authz/roles.def"
#undef ROLE
};

static const struct row *row_of(enum role role)
{
    assert(role < ROLE_COUNT);
    return &rows[role];
}

const char *role_name(enum role role)
{
    return row_of(role)->name;
}

const char *role_meaning(enum role role)
{
    return row_of(role)->meaning;
}

bool role_find(struct bytes name, enum role *role_out)
{
    for (enum role role = 0; role < ROLE_COUNT; role++)
        if (bytes_equal(name, bytes_of_text(rows[role].name))) {
            *role_out = role;
            return true;
        }
    return false;
}

bool role_permits(enum role role, enum action action)
{
    assert(action < ACTION_COUNT);
    return (row_of(role)->sets & sets[action]) != 0;
}

bool role_is_of_content(enum role role)
{
    assert(role < ROLE_COUNT);
    return (GRANTS_CONTENT_ROLES & GRANTS(role)) != 0;
}

bool role_is_of_officers(enum role role)
{
    return role != ROLE_OWN && (row_of(role)->sets & KEY_APPROVING) != 0; /* no role of an organisation's own approves keys */
}

bool role_may_know_existence(enum role role)
{
    return row_of(role)->may_know_existence;
}

bool role_allows_scope(enum role role, enum resource_kind scope)
{
    return (row_of(role)->scopes & (1U << scope)) != 0;
}

bool role_may_grant(enum role role, enum role granted)
{
    assert(granted < ROLE_COUNT);
    return (row_of(role)->grants & GRANTS(granted)) != 0;
}

bool action_needs_no_role(enum action action)
{
    assert(action < ACTION_COUNT);
    return (sets[action] & FOR_ANYBODY) != 0;
}

bool action_is_for_runners(enum action action)
{
    assert(action < ACTION_COUNT);
    return (sets[action] & FOR_RUNNERS) != 0;
}

bool action_is_for_provisioners(enum action action)
{
    assert(action < ACTION_COUNT);
    return (sets[action] & FOR_PROVISIONERS) != 0;
}

enum access_right action_right(enum action action)
{
    assert(action < ACTION_COUNT);
    if (action == ACTION_PING || action == ACTION_TOKEN_MINT || action == ACTION_CREDENTIAL_READ || action == ACTION_AUTHZ_ASK)
        return RIGHT_NONE;
    if (action == ACTION_CATALOG_LIST) return RIGHT_CATALOG;
    if (action == ACTION_RUN_LOG) return RIGHT_ADMINISTRATION; /* content, on a route of /api/v1 */
    if ((sets[action] & (CONTENT_READING | FOR_RUNS)) != 0) return RIGHT_PULL;
    if ((sets[action] & CONTENT_WRITING) != 0) return RIGHT_PUSH;
    if ((sets[action] & CONTENT_DELETION) != 0) return RIGHT_DELETE;
    return RIGHT_ADMINISTRATION;
}

static bool access_covers(const struct principal_access *access, enum access_right right, const struct resource *resource)
{
    if (strcmp(access->name, resource->name) != 0) return false;
    if (!uuid_is_nil(&access->repository) && !uuid_is_nil(&resource->repository) &&
        !uuid_equal(&access->repository, &resource->repository))
        return false;
    return (right == RIGHT_PULL && access->pull) || (right == RIGHT_PUSH && access->push) ||
           (right == RIGHT_DELETE && access->remove);
}

bool principal_covers(const struct principal *principal, enum action action, const struct resource *resource)
{
    const enum access_right right = action_right(action);

    if (!principal->is_limited || right == RIGHT_NONE) return true;
    if (right == RIGHT_CATALOG) return principal->catalog;
    if (right == RIGHT_ADMINISTRATION) return principal->administration;
    for (size_t i = 0; i < principal->access_count; i++)
        if (access_covers(&principal->access[i], right, resource)) return true;
    return false;
}

static void key_of_external(const struct principal *principal, char key_out[PRINCIPAL_KEY_SIZE])
{
    char text[sizeof principal->issuer + sizeof principal->subject + 1]; /* both, and the newline between */
    uint8_t digest[SHA256_SIZE];

    const int length = snprintf(text, sizeof text, "%s\n%s", principal->issuer, principal->subject);
    assert(length > 0 && (size_t)length < sizeof text);
    sha256_of((struct bytes){(const uint8_t *)text, (size_t)length}, digest);
    (void)snprintf(key_out, PRINCIPAL_KEY_SIZE, "ext:");
    text_hex(digest, sizeof digest, key_out + 4);
}

static const char *prefix_of(enum principal_kind kind)
{
    if (kind == PRINCIPAL_ROBOT) return "robot:";
    if (kind == PRINCIPAL_RUN) return "run:";
    return kind == PRINCIPAL_RUNNER ? "runner:" : "system";
}

void principal_key(const struct principal *principal, char key_out[PRINCIPAL_KEY_SIZE])
{
    char id[UUID_TEXT_SIZE];

    if (principal->kind == PRINCIPAL_EXTERNAL) {
        key_of_external(principal, key_out);
        return;
    }
    const char *prefix = prefix_of(principal->kind);
    uuid_format(&principal->id, id);
    (void)snprintf(key_out, PRINCIPAL_KEY_SIZE, "%s%s", prefix, prefix[strlen(prefix) - 1] == ':' ? id : "");
}
