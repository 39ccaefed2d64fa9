/*
 * authz/robot.h -- robots: names for programs, each with one secret that is shown once.
 *
 * A robot belongs to an organisation, or to the registry itself, and lives at most ROBOT_DAYS_MAX days. Only the
 * SHA-256 of its secret is stored. Changes are made inside the sequencer (audit/sequencer.h) and raise the
 * authorization epoch.
 */
#pragma once

#include "audit/sequencer.h"
#include "authz/snapshot.h"
#include "crypto/secret.h"
#include "storage/lookup.h"

/** Statements of the functions and changes below, for pg_open() and struct sequencer_options. */
extern const struct pg_table robot_table, robot_rotate_table;

#define ROBOT_SECRET_PREFIX "sijil_" /* secret scanners look for it */
#define ROBOT_SECRET_SIZE   50       /* prefix, 43 letters of base64url for 32 random bytes, '\0' */
#define ROBOT_SECONDS_MAX   (INT64_C(86400) * ROBOT_DAYS_MAX)

/** Whether it has the form of a robot's name, of at most ROBOT_NAME_SIZE - 1 bytes. */
bool robot_name_is_possible(struct bytes name);
/** Writes "robot$acme+ci", or "robot$ci" if organisation is NULL; ERROR_INVALID for a name that can't be one. */
RESULT robot_name(const char *organisation, struct bytes name, char name_out[ROBOT_NAME_SIZE], struct error *err);

/**
 * Makes a robot under a permit for ACTION_ROBOT_CREATE on its organisation, or on the system. robot_create_init()
 * draws id and secret; expires_ms is set by the change. ERROR_CONFLICT if a live robot has the name.
 */
struct robot_create {
    struct change change;                 /* points into what follows: don't copy it */
    struct authz_robot robot;
    struct secret *secret;                /* the text with its prefix and '\0'; owned until robot_create_done() */
    int64_t lifetime_s;
    char created_by[PRINCIPAL_KEY_SIZE];  /* principal_key(), whose person is its own; or "system" */
    bool is_administrator;                /* of "system": it counts as one person, PERSON_ADMINISTRATOR */
    char detail[ROBOT_NAME_SIZE + UUID_TEXT_SIZE]; /* what the event says: name and id */
};
RESULT robot_create_init(struct robot_create *create, const char *name, const struct uuid *organisation,
                         int64_t lifetime_s, struct error *err);
void robot_create_done(struct robot_create *create);
/** A new secret as text with '\0', and the hash that is kept of it. The caller owns *secret_out. */
RESULT robot_secret_new(struct secret **secret_out, uint8_t hash_out[ROBOT_SECRET_HASH], struct error *err);

/**
 * Replaces a robot's secret, under ACTION_ROBOT_ROTATE on its organisation or the system; it lives `lifetime_s` from now. The old
 * secret, and tokens made from it, end after grace_s, at a whole second; without any the secret ends with the change, and the tokens
 * within two seconds, at previous_until_ms. ERROR_NOT_FOUND. A secret that had a while left from an earlier
 * rotation ends at once. Who sees the new secret is the robot: if that is another person than the robot's, it is nobody's from then on.
 */
#define ROBOT_GRACE_SECONDS_MAX (INT64_C(86400) * 7)
/** In statements: a rotation could have written previous_until. A minute is for the time from a transaction's begin to its change. */
#define ROBOT_GRACE_IS_POSSIBLE "previous_until <= least(secret_since, now()) + interval '168 hours 1 minute'"
struct robot_rotate {
    struct change change;                 /* points into what follows: don't copy it */
    struct uuid robot, organisation;      /* organisation nil: of the registry */
    struct secret *secret;                /* the text with its prefix and '\0'; owned until robot_rotate_done() */
    uint8_t secret_hash[ROBOT_SECRET_HASH];
    int64_t lifetime_s, grace_s;
    char rotated_by[PRINCIPAL_KEY_SIZE];  /* principal_key() */
    char name[ROBOT_NAME_SIZE];           /* set by the change, as are the next */
    int64_t expires_ms, previous_until_ms;
};
RESULT robot_rotate_init(struct robot_rotate *rotate, const struct uuid *robot, const struct uuid *organisation, int64_t lifetime_s,
                         int64_t grace_s, struct error *err);
void robot_rotate_done(struct robot_rotate *rotate);

/** Ends a robot and all of its bindings, under ACTION_ROBOT_REVOKE on its organisation or the system. */
struct robot_revoke {
    struct change change;
    struct uuid robot, organisation; /* organisation nil: of the registry */
};
void robot_revoke_init(struct robot_revoke *revoke, const struct uuid *robot, const struct uuid *organisation);

/** A row for people. */
struct robot_row {
    struct authz_robot robot;            /* without hashes; previous_until_ms is 0 unless the secret before is still good */
    char organisation[64];               /* its name; "" of the registry */
    int64_t created_ms;
};
struct robot_page {
    struct robot_row *rows;
    size_t count;
};
#define ROBOT_PAGE_MAX 1001 /* a page of the API, and one more to see whether more follow */
/**
 * Live robots by name, the next `limit` (at most ROBOT_PAGE_MAX) after `after` (NULL: from the first), of the organisation that the
 * permit for ACTION_ROBOT_READ is for; of all if it is for the system. The caller frees page_out->rows with free().
 */
RESULT robot_list(const struct permit *permit, struct pg *pg, const char *after, size_t limit, struct robot_page *page_out,
                  struct error *err) __attribute__((nonnull(1, 2, 5, 6)));

/** What stands behind a robot's id or name, for what is to be decided. */
struct robot_identity {
    struct uuid id, organisation; /* organisation nil: of the registry */
};
/** ERROR_NOT_FOUND also for a revoked one. */
RESULT robot_resolve(struct lookup *lookup, const char *name, struct robot_identity *identity_out, struct error *err)
    __attribute__((nonnull));
