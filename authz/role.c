#include "authz/role.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "crypto/digest.h"
#include "base/text.h"

__extension__ typedef unsigned __int128 action_set;
#define SET(action) ((action_set)1 << (action))
_Static_assert(ACTION_COUNT <= 128, "a set of actions is one word of 128 bits");

/* The sets that roles.def is made of. */
#define CONTENT_READING                                                                               \
    (SET(ACTION_BLOB_READ) | SET(ACTION_BLOB_STAT) | SET(ACTION_MANIFEST_READ) | SET(ACTION_MANIFEST_STAT) |  \
     SET(ACTION_TAG_LIST) | SET(ACTION_REFERRER_LIST))
#define CONTENT_WRITING                                                                                     \
    (SET(ACTION_BLOB_MOUNT) | SET(ACTION_UPLOAD_PROBE) | SET(ACTION_UPLOAD_BEGIN) | SET(ACTION_UPLOAD_WRITE) | SET(ACTION_UPLOAD_COMMIT) | \
     SET(ACTION_UPLOAD_READ) | SET(ACTION_UPLOAD_CANCEL) | SET(ACTION_MANIFEST_PUSH))
#define CONTENT_PROMOTION (SET(ACTION_BLOB_MOUNT) | SET(ACTION_MANIFEST_PUSH))
#define CONTENT_DELETION  (SET(ACTION_BLOB_DELETE) | SET(ACTION_MANIFEST_DELETE) | SET(ACTION_TAG_DELETE))
#define GRANTING          (SET(ACTION_BINDING_CREATE) | SET(ACTION_BINDING_READ) | SET(ACTION_BINDING_REVOKE))
#define PROJECT_ADMINISTRATION \
    (SET(ACTION_PROJECT_READ) | SET(ACTION_ROBOT_READ) | SET(ACTION_PROJECT_RULES) | SET(ACTION_STORAGE_COLLECT) | \
     SET(ACTION_JOB_READ) | SET(ACTION_JOB_STOP) | SET(ACTION_REPOSITORY_DELETE) | SET(ACTION_DELETION_PLAN) | \
     SET(ACTION_UPLOAD_LIST) | SET(ACTION_UPLOAD_END))
#define ORGANISATION_ADMINISTRATION                                                                        \
    (PROJECT_ADMINISTRATION | SET(ACTION_PROJECT_CREATE) | SET(ACTION_PROJECT_QUOTA) | SET(ACTION_ROBOT_CREATE) | \
     SET(ACTION_ROBOT_REVOKE) | SET(ACTION_ROBOT_ROTATE) | SET(ACTION_PROJECT_DELETE))
#define REGISTRY_ADMINISTRATION \
    (SET(ACTION_ORGANISATION_CREATE) | SET(ACTION_ISSUER_TRUST) | SET(ACTION_ISSUER_READ) | SET(ACTION_ISSUER_REMOVE) | \
     SET(ACTION_REGION_READ) | SET(ACTION_ORGANISATION_DELETE))
#define UPKEEP                  (SET(ACTION_SCRUB_START) | SET(ACTION_REWRAP_START))
#define CERTIFYING              SET(ACTION_DELETION_CERTIFY)
#define LABELLING               (SET(ACTION_PROJECT_LABEL) | SET(ACTION_REPOSITORY_LABEL))
#define POLICY_READING          SET(ACTION_POLICY_READ)
#define POLICY_LOADING          SET(ACTION_POLICY_LOAD)
/* The lists show what their reader may see. */
#define FOR_ANYBODY \
    (SET(ACTION_PING) | SET(ACTION_TOKEN_MINT) | SET(ACTION_CREDENTIAL_READ) | SET(ACTION_CATALOG_LIST) | SET(ACTION_PROJECT_LIST))

#define GIVES(role)   (1U << (role))
#define GIVES_NOTHING 0U
#define GIVES_CONTENT_ROLES \
    (GIVES(ROLE_PUBLISHER) | GIVES(ROLE_PROMOTER) | GIVES(ROLE_CONSUMER) | GIVES(ROLE_TRAINER))

enum { BLIND, SEES };
enum {
    AT_SYSTEM = 1 << RESOURCE_SYSTEM,
    AT_ORGANISATION = 1 << RESOURCE_ORGANISATION,
    AT_PROJECT = 1 << RESOURCE_PROJECT,
    AT_REPOSITORY = 1 << RESOURCE_REPOSITORY
};

static const struct row {
    const char *name, *meaning;
    action_set actions;
    unsigned places, grants;
    bool sees;
} rows[ROLE_COUNT] = {
#define ROLE(constant, name, sight, places, actions, grants, meaning) \
    [constant] = {name, meaning, actions, places, grants, (sight) == SEES},
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
    return (row_of(role)->actions & SET(action)) != 0;
}

bool role_is_of_content(enum role role)
{
    assert(role < ROLE_COUNT);
    return (GIVES_CONTENT_ROLES & GIVES(role)) != 0;
}

bool role_sees(enum role role)
{
    return row_of(role)->sees;
}

bool role_fits(enum role role, enum resource_kind scope)
{
    return (row_of(role)->places & (1U << scope)) != 0;
}

bool role_may_grant(enum role role, enum role granted)
{
    assert(granted < ROLE_COUNT);
    return (row_of(role)->grants & GIVES(granted)) != 0;
}

bool action_needs_no_role(enum action action)
{
    assert(action < ACTION_COUNT);
    return (FOR_ANYBODY & SET(action)) != 0;
}

enum access_right action_right(enum action action)
{
    const action_set bit = SET(action);

    assert(action < ACTION_COUNT);
    if ((bit & (SET(ACTION_PING) | SET(ACTION_TOKEN_MINT) | SET(ACTION_CREDENTIAL_READ))) != 0) return RIGHT_NONE;
    if (bit == SET(ACTION_CATALOG_LIST)) return RIGHT_CATALOG;
    if ((bit & CONTENT_READING) != 0) return RIGHT_PULL;
    if ((bit & CONTENT_WRITING) != 0) return RIGHT_PUSH;
    if ((bit & CONTENT_DELETION) != 0) return RIGHT_DELETE;
    return RIGHT_ADMINISTRATION;
}

static bool access_covers(const struct principal_access *access, enum access_right right,
                          const struct resource *resource)
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

void principal_key(const struct principal *principal, char key_out[PRINCIPAL_KEY_SIZE])
{
    char id[UUID_TEXT_SIZE];

    if (principal->kind == PRINCIPAL_EXTERNAL) {
        key_of_external(principal, key_out);
        return;
    }
    uuid_format(&principal->id, id);
    (void)snprintf(key_out, PRINCIPAL_KEY_SIZE, "%s%s", principal->kind == PRINCIPAL_ROBOT ? "robot:" : "system",
                   principal->kind == PRINCIPAL_ROBOT ? id : "");
}
