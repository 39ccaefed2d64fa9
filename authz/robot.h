/*
 * authz/robot.h -- robots: accounts for programs, each with one secret that is shown once.
 *
 * A robot belongs to an organisation, or to the registry itself, and lives at most ROBOT_DAYS_MAX days. Only the
 * SHA-256 of its secret is stored. Changes run in the sequencer (audit/sequencer.h) and raise the authorization
 * epoch.
 */
#pragma once

#include "audit/sequencer.h"
#include "authz/robot_certificate.h"
#include "authz/snapshot.h"
#include "crypto/secret.h"
#include "storage/lookup.h"

/** Statements of the functions and changes below, for pg_open() and struct sequencer_options. */
extern const struct pg_table robot_table, robot_rotate_table;

#define ROBOT_SECRET_PREFIX "sijil_" /* secret scanners look for it */
#define ROBOT_SECRET_SIZE   50       /* prefix, 43 letters of base64url for 32 random bytes, '\0' */
#define ROBOT_TOLD_SIZE     64       /* what robot_told() writes: " secret=", 32 digits, " for=", a number */
#define ROBOT_SECONDS_MAX   (INT64_C(86400) * ROBOT_DAYS_MAX)

/** Whether a text has the form of a robot's name, and at most ROBOT_NAME_SIZE - 1 bytes. */
bool robot_name_is_possible(struct bytes name);
/** Writes "robot$acme+ci", or "robot$ci" if organisation is NULL; ERROR_INVALID for an invalid name. */
RESULT robot_name(const char *organisation, struct bytes name, char name_out[ROBOT_NAME_SIZE], struct error *err);

/**
 * Makes a robot under a permit for ACTION_ROBOT_CREATE on its organisation, or on the system. robot_create_init()
 * generates id and secret; the change sets expires_ms. ERROR_CONFLICT if a live robot has the name.
 */
struct robot_create {
    struct change change; /* points into what follows: don't copy it */
    struct authz_robot robot;
    struct secret *secret; /* the text with its prefix and '\0'; owned until robot_create_done() */
    int64_t lifetime_s;
    char created_by[PRINCIPAL_KEY_SIZE]; /* principal_key() of the maker, whose person becomes the robot's; or "system" */
    char maker_issuer[256];              /* of a subject */
    bool is_administrator;               /* made by "system": counts as the person PERSON_ADMINISTRATOR */
    char detail[ROBOT_NAME_SIZE + UUID_TEXT_SIZE + ROBOT_TOLD_SIZE]; /* of the event: name, id, and what robot_told() writes */
};
RESULT robot_create_init(struct robot_create *create, const char *name, const struct uuid *organisation, int64_t lifetime_s,
                         struct error *err);
void robot_create_done(struct robot_create *create);
/** A new secret as text with '\0', and its hash for the row. The caller owns *secret_out. */
RESULT robot_secret_new(struct secret **secret_out, uint8_t hash_out[ROBOT_SECRET_HASH], struct error *err);
/** The words by which an event tells secret and end (audit/format/row_told.h), with a blank before each. The hash is of random bits, or of a certificate. */
void robot_told(const uint8_t hash[ROBOT_SECRET_HASH], int64_t lifetime_s, char told_out[ROBOT_TOLD_SIZE]);

/**
 * Replaces a robot's secret, under ACTION_ROBOT_ROTATE on its organisation or the system. The robot then lives
 * `lifetime_s` from now. The old secret, and tokens made from it, end after grace_s, at a whole second. With a
 * grace_s of 0 the old secret ends with the change, and its tokens within two seconds, at previous_until_ms. A secret
 * in the grace period of an earlier rotation ends at once. The caller sees the new secret and can act as the robot:
 * from then on, what the robot does counts as done by the caller, too. ERROR_NOT_FOUND.
 */
#define ROBOT_GRACE_SECONDS_MAX (INT64_C(86400) * 7)
/**
 * A condition for statements: true if a rotation could have written this previous_until. The minute covers the time
 * from the start of a transaction to its change.
 */
#define ROBOT_GRACE_IS_POSSIBLE "previous_until <= least(secret_since, now()) + interval '168 hours 1 minute'"
struct robot_rotate {
    struct change change;            /* points into what follows: don't copy it */
    struct uuid robot, organisation; /* organisation nil: of the registry */
    struct secret *secret;           /* the text with its prefix and '\0'; owned until robot_rotate_done() */
    uint8_t secret_hash[ROBOT_SECRET_HASH];
    char certificate[ROBOT_CERTIFICATE_SIZE]; /* "": it gets a secret */
    int64_t lifetime_s, grace_s;
    char rotated_by[PRINCIPAL_KEY_SIZE]; /* principal_key() */
    char rotator_issuer[256];            /* of a subject */
    char name[ROBOT_NAME_SIZE];          /* set by the change, like the next members */
    int64_t expires_ms, previous_until_ms;
    char detail[UUID_TEXT_SIZE + ROBOT_TOLD_SIZE]; /* of the event: the id, and what robot_told() writes */
};
RESULT robot_rotate_init(struct robot_rotate *rotate, const struct uuid *robot, const struct uuid *organisation,
                         int64_t lifetime_s, int64_t grace_s, struct error *err);
/** It gets no secret, but logs in by this certificate. ERROR_INVALID: the text names none. */
RESULT robot_rotate_to(struct robot_rotate *rotate, const char *certificate, struct error *err);
void robot_rotate_done(struct robot_rotate *rotate);

/** Ends a robot and all of its bindings, under ACTION_ROBOT_REVOKE on its organisation or the system. */
struct robot_revoke {
    struct change change;
    struct uuid robot, organisation;     /* organisation nil: of the registry */
    char revoked_by[PRINCIPAL_KEY_SIZE]; /* principal_key() */
};
void robot_revoke_init(struct robot_revoke *revoke, const struct uuid *robot, const struct uuid *organisation,
                       const struct principal *by);

/** A row for answers of the API. */
struct robot_row {
    struct authz_robot robot; /* without hashes; previous_until_ms is 0 unless the replaced secret is still valid */
    char organisation[64];    /* its name; "" of the registry */
    char certificate[ROBOT_CERTIFICATE_SIZE]; /* "": it has a secret */
    int64_t created_ms;
};
struct robot_page {
    struct robot_row *rows;
    size_t count;
};
#define ROBOT_PAGE_MAX 1001 /* a page of the API, and one more that tells whether another page follows */
/**
 * The next `limit` (at most ROBOT_PAGE_MAX) live robots after the name `after` (NULL: from the first), by name, of
 * the organisation that the permit for ACTION_ROBOT_READ is for; of all organisations if it is for the system. The
 * caller frees page_out->rows with free().
 */
RESULT robot_list(const struct permit *permit, struct pg *pg, const char *after, size_t limit, struct robot_page *page_out,
                  struct error *err) __attribute__((nonnull(1, 2, 5, 6)));

/** The ids behind a robot's name, for the resource of a decision. */
struct robot_identity {
    struct uuid id, organisation; /* organisation nil: of the registry */
};
/** ERROR_NOT_FOUND, also for a revoked robot. */
RESULT robot_resolve(struct lookup *lookup, const char *name, struct robot_identity *identity_out, struct error *err)
    __attribute__((nonnull));

/** The name of a robot, also of one that was revoked; "" if there is none. The permit: `action`. The caller has to check that names may be shown. */
RESULT robot_shown(const struct permit *permit, struct pg *pg, enum action action, const struct uuid *id,
                   char name_out[ROBOT_NAME_SIZE], struct error *err) __attribute__((nonnull));
