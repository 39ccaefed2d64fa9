/*
 * authz/snapshot.h -- robots, bindings and issuers at one moment, and what they allow.
 *
 * A snapshot is immutable and shared: keep it with authz_snapshot_keep(). A check of rights uses hash tables, allocates
 * nothing and takes no lock. Resources must be resolved (decider_resolve()): scopes are compared by the ids of
 * organisation and project, and only the path below the project is compared by name.
 *
 * These functions ignore principal->expires_ms: authenticate() has refused expired credentials, and an upload session
 * outlives its token (docs/identity.md).
 */
#pragma once

#include "authz/issuer.h"
#include "authz/own_role_entry.h"
#include "authz/person.h"
#include "authz/role.h"
#include "authz/scim_persons.h"
#include "authz/trust_rules.h"
#include "base/owned.h"
#include "storage/pg.h"

#define ROBOT_NAME_SIZE            136 /* "robot$", organisation of 63, "+", name of 63, '\0' */
#define ROBOT_SECRET_HASH          32  /* SHA-256; the secret has 256 random bits, so nothing slower is needed */
#define ROBOT_DAYS_MAX             90
#define BINDING_PATTERN_SIZE       256 /* a repository's name, or "acme/models/" and an asterisk */
#define BINDINGS_PER_PRINCIPAL_MAX 256 /* in one organisation, and as many of the registry: a check walks both */

struct authz_robot {
    struct uuid id, organisation; /* organisation nil: of the registry itself */
    char name[ROBOT_NAME_SIZE];   /* "robot$acme+ci", "robot$admin" */
    uint8_t secret_hash[ROBOT_SECRET_HASH];
    bool enabled;
    int64_t expires_ms;
    int64_t previous_until_ms; /* end of the replaced secret and of the tokens made before; 0: none was replaced */
    int64_t asked_since_ms;    /* when a secret was replaced without a grace period: requests before count no more; 0: none was */
    uint8_t
        previous_hash[ROBOT_SECRET_HASH]; /* of the replaced secret during its grace period; else zeros, which no secret has */
    struct persons persons;               /* everybody who made it or has seen a secret of it */
};

/** A role given to one principal on one scope. */
struct authz_binding {
    struct uuid id;
    enum principal_kind kind; /* robot or external */
    struct uuid robot;
    char issuer[256], subject[256]; /* of an external principal */
    enum role role;
    struct own_role_use own; /* of ROLE_OWN: its name, and once it is in a snapshot what its document says */
    enum resource_kind scope;
    struct uuid organisation, project;   /* of the scope; nil above it */
    char pattern[BINDING_PATTERN_SIZE];  /* scope repository: a full name, or a prefix that ends in "/" and "*" */
    char granted_by[PRINCIPAL_KEY_SIZE]; /* principal_key() of the granter; "system" for the administrator's */
    struct person granting_person;       /* the person behind the granter at that moment; nobody if it was not one */
    int64_t expires_ms;                  /* 0: does not expire */
    bool is_brief;                       /* given for less than a week, or by a login: its end surprises nobody */
    bool is_unsigned;                    /* a role that no document of officers makes count: `role` is ROLE_UNSIGNED_OFFICER */
    enum role bound_as;                  /* then: what the row says */
};
/** What was given: of an unsigned role the one that the row says. */
static inline enum role binding_given(const struct authz_binding *binding)
{
    return binding->is_unsigned ? binding->bound_as : binding->role;
}

/** "publisher", or the name of a role of a signed document. */
const char *binding_role_name(const struct authz_binding *binding);
/** Whether its role permits the action, wherever it is and until when. */
bool binding_permits(const struct authz_binding *binding, enum action action);
/** Reads the name of a role that somebody wants to give. False: it is neither a built-in role nor the possible name of another one. */
bool binding_read_role(struct authz_binding *binding, const char *name);
/** Whether a text is a valid pattern of a binding: a repository's full name, or a project or path with "/" and an asterisk after
 *  it. */
bool binding_is_pattern(const char *text);

struct authz_snapshot;

/** The rows of a snapshot; all are copied. Duplicate ids or names are ERROR_CORRUPT. */
struct authz_parts {
    const struct authz_robot *robots;
    size_t robot_count;
    const struct authz_binding *bindings;
    size_t binding_count;
    const struct issuer_record *issuers;
    size_t issuer_count;
    const struct trust_rules *rules;    /* NULL: none; the snapshot adds an owner. Their grants are among the bindings */
    const struct scim_persons *persons; /* NULL: none, or those of the snapshot before; the snapshot adds an owner */
};
RESULT authz_snapshot_build(const struct authz_parts *parts, struct authz_snapshot **snapshot_out, struct error *err);

/** The statements that read a snapshot (authz/snapshot_load.h); give them to pg_open(). */
extern const struct pg_table authz_snapshot_table, persons_places_table, scim_load_table;
/** The trust rules in force; NULL: none. */
const struct trust_rules *authz_snapshot_rules(const struct authz_snapshot *snapshot);
/** The persons that SCIM has provisioned; NULL: nobody. */
const struct scim_persons *authz_snapshot_persons(const struct authz_snapshot *snapshot);
/** How many bindings have no end. */
size_t authz_snapshot_endless(const struct authz_snapshot *snapshot);
/** How many bindings end before `until_ms`, and were given for a week at least. Time: all bindings are looked at. */
size_t authz_snapshot_ending(const struct authz_snapshot *snapshot, int64_t now_ms, int64_t until_ms);
size_t authz_snapshot_bad_issuers(const struct authz_snapshot *snapshot);
/** How many bindings no document of officers makes count. */
size_t authz_snapshot_unsigned(const struct authz_snapshot *snapshot);

enum authz_verdict {
    AUTHZ_NOT_LIVE,     /* unknown, disabled or expired robot, untrusted issuer: challenge */
    AUTHZ_OUT_OF_SCOPE, /* outside the token's scope: challenge with error="insufficient_scope" */
    AUTHZ_INVISIBLE,    /* no binding makes it visible: answer as if it did not exist */
    AUTHZ_NOT_ALLOWED,  /* 403: visible, but no binding permits the action */
    AUTHZ_ALLOWED
};
struct authz_answer {
    enum authz_verdict verdict;
    struct uuid binding; /* the binding that allows it; nil for an action that needs none */
    const char *rule;    /* of a refusal, for struct denial: "SYS-NO-BINDING"; static; NULL when allowed */
    const char *message; /* one sentence for a person; static; NULL when allowed */
};
/**
 * Checks whether the principal's rights allow one pair. For ACTION_BINDING_CREATE the resource is the scope to grant
 * on, and its detail must come from authz_grant_detail(). Then the granted role is checked as well: a principal can't
 * grant to itself, nor a role that its own role may not give, and two security officers must be two persons. For
 * ACTION_BINDING_REVOKE the detail is the binding's id as text.
 */
struct authz_answer authz_snapshot_authorize(const struct authz_snapshot *snapshot, const struct principal *principal,
                                             enum action action, const struct resource *resource, int64_t now_ms);

/** Kind and ids of a live binding's scope, with the pattern as its name; false if there is no such binding. */
bool authz_snapshot_scope(const struct authz_snapshot *snapshot, const struct uuid *binding, struct resource *scope_out);

/**
 * Of role and grantee: "publisher robot:<uuid>", or "publisher external": an external subject may be personal data, so it is not written
 * into leaves.
 */
void authz_grant_detail(const struct authz_binding *wanted, char detail_out[RESOURCE_DETAIL_MAX + 1]);

#define AUTHZ_SALT      32
#define AUTHZ_TOLD_SIZE 80 /* " as=", 32 digits, " for=", a number */
/**
 * The words by which the event of a grant tells what stands in the row alone (audit/format/row_told.h): a digest of the subject, which is nobody's name without the new salt, and
 * the lifetime (0: without end). As told_subject() makes it in the database.
 */
void authz_grant_told(const struct authz_binding *wanted, int64_t lifetime_s, uint8_t salt_out[AUTHZ_SALT],
                      char told_out[AUTHZ_TOLD_SIZE]);
/** Whether nothing but what the granter and the grantee may do already was asked for the decision of this grant: other grants leave it as it is. Not for officers, who must be
 *  appointed by different persons. `detail` as above. */
bool authz_grant_stands_alone(const char *detail);
/** Whether the removal of an issuer or the end of a robot would end a security officer of another organisation than the resource's, who may be the last one there: the decision
 *  depends on who else is left in that organisation, too. Time: for these, all bindings are looked at. */
bool authz_ends_officer_elsewhere(const struct authz_snapshot *snapshot, enum action action, const struct resource *resource,
                                  int64_t now_ms);

/** Whether the end of a person of a directory would end the last registry-admin that a document of officers makes count: a binding without one is none that is left. False while
 *  bindings alone count. */
bool authz_scim_ends_administrators(const struct authz_snapshot *snapshot, const char *issuer, const char *external_id,
                                    int64_t now_ms);

/** Whether the credential behind a principal is still valid: the robot is enabled and not expired, or the issuer is trusted. */
bool authz_snapshot_is_live(const struct authz_snapshot *snapshot, const struct principal *principal, int64_t now_ms);

/**
 * Finds a principal by its principal_key(): a robot, or a subject of an issuer that has a binding in this organisation or in the
 * registry. False: there is none, so it has no rights there.
 */
bool authz_snapshot_principal(const struct authz_snapshot *snapshot, const char *key, const struct uuid *organisation,
                              struct principal *principal_out);

/** Whether the principal has any live binding. True for the server itself. */
bool authz_snapshot_has_role(const struct authz_snapshot *snapshot, const struct principal *principal, int64_t now_ms);
/**
 * The organisation of a principal: a robot's own; for an issuer's subject, the only organisation in which it has a
 * role. Nil: the registry, several, or none.
 */
struct uuid authz_snapshot_home(const struct authz_snapshot *snapshot, const struct principal *principal, int64_t now_ms);
/** True if all live bindings of the principal have roles on content only (role_is_of_content()). */
bool authz_snapshot_has_content_alone(const struct authz_snapshot *snapshot, const struct principal *principal, int64_t now_ms);

/** The rights that live bindings give on one resolved repository, for minting; copies the name too. */
void authz_snapshot_access(const struct authz_snapshot *snapshot, const struct principal *principal,
                           const struct resource *repository, int64_t now_ms, struct principal_access *access_out);

/**
 * Writes views of the principal's live bindings that permit `action`, in one organisation (nil: on the registry), at
 * most BINDINGS_PER_PRINCIPAL_MAX. Returns how many.
 */
size_t authz_snapshot_permitting(const struct authz_snapshot *snapshot, const struct uuid *organisation,
                                 const struct principal *principal, enum action action, int64_t now_ms,
                                 const struct authz_binding *bindings_out[]);
/** As authz_snapshot_permitting(), for all live bindings of the principal, whatever actions they permit. */
size_t authz_snapshot_held(const struct authz_snapshot *snapshot, const struct uuid *organisation,
                           const struct principal *principal, int64_t now_ms, const struct authz_binding *bindings_out[]);
/**
 * The live bindings inside the scope (the registry: of all organisations; an organisation; a project) whose ids are greater than `after` (nil: from the
 * first), in the order of their ids, at most `most`. Returns how many. Time: all bindings of the organisation are looked at.
 */
size_t authz_snapshot_page(const struct authz_snapshot *snapshot, const struct resource *scope, const struct uuid *after,
                           int64_t now_ms, const struct authz_binding *bindings_out[], size_t most);
#define BINDINGS_COVERING_MAX (2 * BINDINGS_PER_PRINCIPAL_MAX)
/** The live bindings of the principal whose scope contains the resource, in the order in which a check walks them. Returns how many. */
size_t authz_snapshot_covering(const struct authz_snapshot *snapshot, const struct principal *principal,
                               const struct resource *resource, int64_t now_ms,
                               const struct authz_binding *bindings_out[BINDINGS_COVERING_MAX]);
/**
 * The id of the organisation number `number` among those that have robots or bindings. Number 0 is the registry, with
 * the nil id. NULL after the last.
 */
const struct uuid *authz_snapshot_organisation(const struct authz_snapshot *snapshot, size_t number);

/**
 * The robot of this name if the secret is right and the robot is enabled and not expired; else NULL. An unknown name
 * costs the same work. The view lives as long as the snapshot.
 */
const struct authz_robot *authz_snapshot_login(const struct authz_snapshot *snapshot, struct bytes name, struct bytes secret,
                                               int64_t now_ms);
/** The value of principal.replaced_ms for a robot that authenticated with this secret, which may be the replaced one. */
int64_t authz_robot_replaced(const struct authz_robot *robot, struct bytes secret);
const struct authz_robot *authz_snapshot_robot(const struct authz_snapshot *snapshot, const struct uuid *id);
/** By its name; NULL if there is none. */
const struct authz_robot *authz_snapshot_robot_named(const struct authz_snapshot *snapshot, struct bytes name);
/** By its exact URL, or by issuer_digest(). NULL if the issuer is not trusted. */
const struct issuer *authz_snapshot_issuer(const struct authz_snapshot *snapshot, const char *url);
const struct issuer *authz_snapshot_issuer_by_digest(const struct authz_snapshot *snapshot, struct bytes digest);

/** Writes the ids of issuers whose keys should be fetched (issuer_take_wish()); those beyond `room` are left for the next call. */
size_t authz_snapshot_wishes(const struct authz_snapshot *snapshot, struct uuid *ids, size_t room);

/** The issuer of this URL has confirmed its keys (issuer_confirm()). */
void authz_snapshot_confirm(const struct authz_snapshot *snapshot, const char *url, int64_t confirmed_ms);

/** Adds an owner. */
struct authz_snapshot *authz_snapshot_keep(const struct authz_snapshot *snapshot);
/** Removes an owner; the last one frees the snapshot. */
void authz_snapshot_free(struct authz_snapshot *snapshot);
DEFINE_OWNED(authz_snapshot);

/**
 * Holds the newest snapshot: the decider's loader publishes each one, authenticate() takes it. Thread-safe; taking
 * holds a lock for a few instructions only.
 */
struct authz_directory;
RESULT authz_directory_new(struct authz_directory **directory_out, struct error *err);
/** Adds an owner to `snapshot` and releases the previous one. */
void authz_directory_publish(struct authz_directory *directory, const struct authz_snapshot *snapshot);
/** NULL before the first one. The caller frees it. */
struct authz_snapshot *authz_directory_take(struct authz_directory *directory);
void authz_directory_free(struct authz_directory *directory);
DEFINE_OWNED(authz_directory);
