/*
 * authz/snapshot.h -- robots, bindings and issuers at one moment, and what they allow.
 *
 * Immutable and shared: keep it with authz_snapshot_keep(), never change it. Judging looks things up in hash tables,
 * allocates nothing and takes no lock. Resources must have been resolved (decider_resolve()): scopes are compared by
 * the ids of organisation and project, and only the part below the project by name.
 *
 * Judging does not look at principal->expires_ms: authenticate() has refused what was expired, and an upload session
 * outlives its token (docs/identity.md).
 */
#pragma once

#include "authz/issuer.h"
#include "authz/person.h"
#include "authz/role.h"
#include "base/owned.h"
#include "storage/pg.h"

#define ROBOT_NAME_SIZE       136        /* "robot$", organisation of 63, "+", name of 63, '\0' */
#define ROBOT_SECRET_HASH     32         /* SHA-256; the secret has 256 random bits, so nothing slower is needed */
#define ROBOT_DAYS_MAX        90
#define BINDING_PATTERN_SIZE  256        /* a repository's name, or "acme/models/" and an asterisk */
#define BINDINGS_PER_PRINCIPAL_MAX 256   /* in one organisation, and as many of the registry: judging walks both */

struct authz_robot {
    struct uuid id, organisation;        /* organisation nil: of the registry itself */
    char name[ROBOT_NAME_SIZE];          /* "robot$acme+ci", "robot$admin" */
    uint8_t secret_hash[ROBOT_SECRET_HASH];
    bool enabled;
    int64_t expires_ms;
    int64_t previous_until_ms;           /* when the secret before ends or ended, and with it the tokens of until then; 0: none */
    uint8_t previous_hash[ROBOT_SECRET_HASH]; /* of it, where it has a while left; else zeros, which no secret has */
    struct person person;                /* who made it, or who made the robot that did */
};

/** A role given to one principal on one scope. */
struct authz_binding {
    struct uuid id;
    enum principal_kind kind;            /* robot or external */
    struct uuid robot;
    char issuer[256], subject[256];      /* of an external principal */
    enum role role;
    enum resource_kind scope;
    struct uuid organisation, project;   /* of the scope; nil above it */
    char pattern[BINDING_PATTERN_SIZE];  /* scope repository: a full name, or a prefix that ends in "/" and "*" */
    char granted_by[PRINCIPAL_KEY_SIZE]; /* principal_key() of who gave it; "system" for the first */
    struct person giver;                 /* the person behind that, when it was given */
    int64_t expires_ms;                  /* 0: does not expire */
};

struct authz_snapshot;

/** Everything that a snapshot is made from; all of it is copied. Duplicate ids or names are ERROR_CORRUPT. */
struct authz_parts {
    const struct authz_robot *robots;
    size_t robot_count;
    const struct authz_binding *bindings;
    size_t binding_count;
    const struct issuer_record *issuers;
    size_t issuer_count;
};
RESULT authz_snapshot_build(const struct authz_parts *parts, struct authz_snapshot **snapshot_out,
                            struct error *err);

/** The statements that authz_snapshot_load() runs; give it to pg_open(). */
extern const struct pg_table authz_snapshot_table;
/**
 * Reads the live rows. Run it inside one repeatable-read transaction with whatever else belongs to the same moment,
 * or compare authorization_epoch before and after. An issuer whose keys can't be read is left out (its tokens are
 * refused) and counted in authz_snapshot_bad_issuers().
 */
RESULT authz_snapshot_load(struct pg *pg, struct authz_snapshot **snapshot_out, struct error *err);
/** Organisations in which something changed; the nil one stands for the registry: its robots and bindings, and issuers. */
struct rights_change {
    const struct uuid *organisations;
    size_t count;                        /* at most RIGHTS_CHANGE_MAX */
};
#define RIGHTS_CHANGE_MAX 64 /* what changed in more of them meanwhile is read as a whole */
/**
 * The same, from `before` and the rows of what changed since: all other organisations' robots and bindings are shared with it. In the
 * same transaction as that which said what changed.
 */
RESULT authz_snapshot_renew(struct pg *pg, const struct authz_snapshot *before, const struct rights_change *change,
                            struct authz_snapshot **snapshot_out, struct error *err);
size_t authz_snapshot_bad_issuers(const struct authz_snapshot *snapshot);

enum judgement {
    JUDGED_NOT_LIVE,     /* unknown, disabled or expired robot, untrusted issuer: challenge */
    JUDGED_OUT_OF_SCOPE, /* the token was not minted for this: challenge with error="insufficient_scope" */
    JUDGED_INVISIBLE,    /* no binding shows it: answer as for a thing that does not exist */
    JUDGED_NOT_ALLOWED,  /* 403: may be seen, but no binding permits this */
    JUDGED_ALLOWED
};
struct authz_judgement {
    enum judgement verdict;
    struct uuid binding; /* that allows it; nil for what needs none */
    const char *rule;    /* why not, for struct denial: "SYS-NO-BINDING"; static; NULL when allowed */
    const char *message; /* one sentence for a person; static; NULL when allowed */
};
/**
 * Judges one pair. For ACTION_BINDING_CREATE the resource is the scope to grant on, and its detail must come from
 * authz_grant_detail(): the role that is granted is judged with it (nobody to himself, none that the granter may not
 * give, not both officers). For ACTION_BINDING_REVOKE the detail is the binding's id in text.
 */
struct authz_judgement authz_snapshot_judge(const struct authz_snapshot *snapshot, const struct principal *principal,
                                            enum action action, const struct resource *resource, int64_t now_ms);

/** Kind and ids of a live binding's scope, and the pattern as its name; false: there is no such binding. */
bool authz_snapshot_scope(const struct authz_snapshot *snapshot, const struct uuid *binding, struct resource *scope_out);

/** "publisher robot:<uuid>", or "publisher external": an external subject may be a person and stays out of leaves. */
void authz_grant_detail(enum role role, const struct authz_binding *grantee,
                        char detail_out[RESOURCE_DETAIL_MAX + 1]);

/** Is the credential behind a principal still good: robot enabled and not expired, issuer trusted? */
bool authz_snapshot_is_live(const struct authz_snapshot *snapshot, const struct principal *principal,
                            int64_t now_ms);

/** Has the principal any live binding? The server itself needs none. */
bool authz_snapshot_has_role(const struct authz_snapshot *snapshot, const struct principal *principal, int64_t now_ms);
/**
 * The organisation of which a principal is: a robot's own; of an issuer's subject the only one that has given it a role. Nil: the registry,
 * several, or none.
 */
struct uuid authz_snapshot_home(const struct authz_snapshot *snapshot, const struct principal *principal, int64_t now_ms);
/** No live binding gives the principal a role that governs others (role_is_of_content()). */
bool authz_snapshot_has_content_alone(const struct authz_snapshot *snapshot, const struct principal *principal, int64_t now_ms);

/** What live bindings allow on one resolved repository, for minting; the name is copied too. */
void authz_snapshot_access(const struct authz_snapshot *snapshot, const struct principal *principal,
                           const struct resource *repository, int64_t now_ms,
                           struct principal_access *access_out);

/** The principal's live bindings in one organisation (nil: on the registry) that permit `action`, at most BINDINGS_PER_PRINCIPAL_MAX:
 *  views of the snapshot. How many. */
size_t authz_snapshot_permitting(const struct authz_snapshot *snapshot, const struct uuid *organisation,
                                 const struct principal *principal, enum action action, int64_t now_ms,
                                 const struct authz_binding *bindings_out[]);
/** The same of all its live bindings, whatever they permit. */
size_t authz_snapshot_held(const struct authz_snapshot *snapshot, const struct uuid *organisation, const struct principal *principal,
                           int64_t now_ms, const struct authz_binding *bindings_out[]);
/** The id of the organisation number `number` of those that have robots or bindings; the registry's, nil, is the first. NULL: no more. */
const struct uuid *authz_snapshot_organisation(const struct authz_snapshot *snapshot, size_t number);

/**
 * The robot of this name if the secret is its own, it is enabled and not expired; else NULL, after the same work
 * for names that do not exist. The view lives as long as the snapshot.
 */
const struct authz_robot *authz_snapshot_login(const struct authz_snapshot *snapshot, struct bytes name,
                                               struct bytes secret, int64_t now_ms);
/** What a principal's replaced_ms is, of a robot that has shown this secret: it may be the one that was replaced. */
int64_t authz_robot_replaced(const struct authz_robot *robot, struct bytes secret);
const struct authz_robot *authz_snapshot_robot(const struct authz_snapshot *snapshot, const struct uuid *id);
/** By its exact URL, or by issuer_digest(); NULL if it is not trusted. */
const struct issuer *authz_snapshot_issuer(const struct authz_snapshot *snapshot, const char *url);
const struct issuer *authz_snapshot_issuer_by_digest(const struct authz_snapshot *snapshot, struct bytes digest);

/** One more owner. */
struct authz_snapshot *authz_snapshot_keep(const struct authz_snapshot *snapshot);
/** One owner less; the last one frees it. */
void authz_snapshot_free(struct authz_snapshot *snapshot);
DEFINE_OWNED(authz_snapshot);

/**
 * Where the newest snapshot stands: the decider's loader publishes each one here, authenticate() takes it.
 * Thread-safe; taking holds a lock for a few instructions only.
 */
struct authz_directory;
RESULT authz_directory_new(struct authz_directory **directory_out, struct error *err);
/** Keeps `snapshot` and lets go of the one before. */
void authz_directory_publish(struct authz_directory *directory, const struct authz_snapshot *snapshot);
/** NULL before the first; the caller frees it. */
struct authz_snapshot *authz_directory_take(struct authz_directory *directory);
void authz_directory_free(struct authz_directory *directory);
DEFINE_OWNED(authz_directory);
