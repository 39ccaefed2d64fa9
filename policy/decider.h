/*
 * policy/decider.h -- the only place that says yes.
 *
 * Allow means: a valid credential, whose scope covers it, and a live role binding that permits it, and no policy
 * that denies or fails to prove what it requires. All of that is judged on one immutable snapshot of organisations,
 * projects, robots, bindings, policies and regions, which is replaced as a whole when PostgreSQL notifies (polled
 * every 5 s; older than 30 s denies everything). Deciding touches no database and takes no lock that is held over
 * I/O, so event threads may do it.
 */
#pragma once

#include <sys/socket.h>

#include "audit/decision.h"
#include "authz/snapshot.h"
#include "policy/label.h"

struct decider;
struct keyd_client;
struct sequencer;
struct authz_directory;

struct decider_options {
    const char *conninfo;        /* for the snapshot loader's own connection */
    struct keyd_client *keyd;    /* which policy set is pinned */
    struct sequencer *sequencer; /* has the log signed that proves to keyd that a set was loaded */
    void (*notice)(const char *what, const struct error *why); /* NULL, or told what a person should know; seldom */
    struct authz_directory *directory; /* each snapshot's robots and issuers are published here, for authenticate() */
    unsigned poll_ms, stale_ms;  /* 5000 and 30000 */
    const char *metadata_region; /* where PostgreSQL is, for the operations metadata and log; NULL: the home region */
};

/** Loads the first snapshot and starts the loader's thread. ERROR_CORRUPT when the stored policy set is not the one
 *  that keyd has pinned. */
RESULT decider_start(const struct decider_options *options, struct decider **decider_out, struct error *err);

struct decision_request {
    const struct principal *principal; /* of kind PRINCIPAL_NONE for a request without credentials */
    size_t pair_count;                 /* 1 to ACTION_PAIRS_MAX; all must be allowed */
    struct action_pair pairs[ACTION_PAIRS_MAX];
    const struct asked_label *asked;   /* a label that the first pair would give to its place; NULL: none */
    const struct sockaddr *client;     /* whose network zone gives the client's facts; NULL: unknown */
    int64_t now_ms;                    /* wall clock */
};
/** Decides; a denial is a decision, not an error. ERROR_NO_MEMORY only. The caller owns *decision_out. */
RESULT decider_decide(struct decider *decider, const struct decision_request *request,
                      struct decision **decision_out, struct error *err);

/**
 * What rights alone say of a pair, from memory, and the same whether or not there is what it names. Whoever would look
 * something up for a request asks this first: what the caller may not see must not cost more or less than what is not there.
 * The resource is as decider_resolve() left it; a repository's own id is not needed.
 */
enum judgement decider_rights(struct decider *decider, const struct principal *principal, const struct action_pair *pair,
                              int64_t now_ms);

/**
 * Where a robot or a binding belongs, by its id: kind and ids of the scope alone, because finding names takes longer for what is
 * there. False, and nothing is written: there is no such thing. A robot of the registry itself has the organisation nil.
 */
bool decider_find_robot(struct decider *decider, const struct uuid *id, struct resource *resource_out);
bool decider_find_binding(struct decider *decider, const struct uuid *id, struct resource *resource_out);
/** The name for the ids of an organisation or a project; once the caller may know of it. */
void decider_name(struct decider *decider, struct resource *resource);

/** Organisations and projects that the principal's bindings let it read: those listed, or all. */
struct readable_scopes {
    bool all;
    size_t organisation_count, project_count;
    struct uuid *organisations, *projects; /* as many as the principal has roles, of however many organisations */
};
RESULT decider_readable_scopes(struct decider *decider, const struct principal *principal, int64_t now_ms,
                               struct readable_scopes **scopes_out, struct error *err);
void readable_scopes_free(struct readable_scopes *scopes);
DEFINE_OWNED(readable_scopes);

/**
 * Fills in what the snapshot knows of a name: kind, ids of organisation and project, home region (nil and "" if
 * there is no such thing). Names of repositories have three or more segments: "organisation/project/path...";
 * the repository's own id is filled in by the registry, which knows them all.
 */
void decider_resolve(struct decider *decider, const char *name, struct resource *resource_out);

/** What of `wanted` the principal's bindings allow today; for minting tokens. Policies are asked per request. */
void decider_live_access(struct decider *decider, const struct principal *principal, const char *name,
                         int64_t now_ms, struct principal_access *access_out);
/** Names n with from <= n < until, in byte order. */
struct name_range {
    char from[RESOURCE_NAME_MAX + 2], until[RESOURCE_NAME_MAX + 2]; /* one letter more than a name, to end after it */
};
struct name_ranges {
    size_t count;
    bool has_more;                    /* ask again, after `next` */
    char next[RESOURCE_NAME_MAX + 2]; /* what lies before it is known now */
    struct name_range ranges[BINDINGS_PER_PRINCIPAL_MAX];
};
/**
 * Which repositories the principal's bindings let it pull from today, whether or not they are there: ranges in byte
 * order that have no name in common. What decider_live_access() allows lies in one of them, and nothing else does. Those of one
 * organisation at least that do not end before `after`; how many organisations gave it roles is not bounded. ERROR_NO_MEMORY.
 */
RESULT decider_readable(struct decider *decider, const struct principal *principal, const char *after, int64_t now_ms,
                        struct name_ranges **ranges_out, struct error *err);
void name_ranges_free(struct name_ranges *ranges);
DEFINE_OWNED(name_ranges);

/** Would policies let this client list the repository `name`? Rights are not asked: decider_readable() does that. */
RESULT decider_may_list(struct decider *decider, const char *name, const struct sockaddr *client, int64_t now_ms,
                        bool *may_out, struct error *err);

/** A role that a principal has now. */
struct held_role {
    const char *role;                 /* static */
    char scope[RESOURCE_NAME_MAX + 1]; /* "" of the registry, "acme", "acme/models", or a pattern */
    int64_t expires_ms;               /* 0: without end */
};
struct held_roles {
    size_t count;
    bool has_more;                    /* than HELD_ROLES_MAX */
    struct held_role roles[];
};
#define HELD_ROLES_MAX 1000
/** All live roles of the principal, of all organisations. ERROR_NO_MEMORY. The caller frees *roles_out with free(). */
RESULT decider_roles(struct decider *decider, const struct principal *principal, int64_t now_ms, struct held_roles **roles_out,
                     struct error *err);

/** How long policies oblige to keep what is stored in a repository. */
struct policy_keeping {
    bool for_ever;   /* it stands under a policy that is not in force: a set that has it, or declassifies it, is the way out */
    int64_t days;    /* since it was stored; 0: no policy says so */
    char rule[65], policy[80]; /* that say so; "" if none does */
};
/**
 * What the duties retain_min_days of the policies say of the repository `name`, under the operations that a push asks, and whether it
 * is pinned to a policy that is gone. ERROR_UNAVAILABLE while the policies are not known; ERROR_LIMIT.
 */
RESULT decider_keeping(struct decider *decider, const char *name, int64_t now_ms, struct policy_keeping *keeping_out,
                       struct error *err);

/** Is the credential behind a principal still good (robot enabled, not expired, issuer trusted)? For sessions. */
bool decider_is_live(struct decider *decider, const struct principal *principal, int64_t now_ms);

/** person_of() in the newest snapshot. */
struct person decider_person(struct decider *decider, const struct principal *principal);
/** authz_snapshot_home(). */
struct uuid decider_home(struct decider *decider, const struct principal *principal, int64_t now_ms);
/** Has it any role that is live, whatever for? True while that can't be known. */
bool decider_has_role(struct decider *decider, const struct principal *principal, int64_t now_ms);

/** When the secret of the robot behind a principal ends (wall clock); 0 for anybody else. */
int64_t decider_robot_expires(struct decider *decider, const struct principal *principal);

/** When the secret before that of the robot behind a principal ends, while that is still good; else 0. */
int64_t decider_previous_until(struct decider *decider, const struct principal *principal, int64_t now_ms);

uint64_t decider_epoch(const struct decider *decider);
/** Another number once organisations, projects, repositories or labels may be others: what was found by a name holds for one. */
uint64_t decider_names_version(struct decider *decider);
/** The snapshot is younger than stale_ms: /readyz. */
bool decider_is_ready(const struct decider *decider, struct error *err);
/** Loads a new snapshot now and waits for it; for start-up and tests, never on an event thread. */
RESULT decider_refresh(struct decider *decider, struct error *err);

/**
 * For a decision that the sequencer called stale, and for whoever changed rights at `epoch`: waits (at most 2 s) for a newer snapshot,
 * so that deciding again does not do the same again. The caller knows that the database had a newer epoch: while it says less, nothing
 * of a snapshot is kept for the next. Never on an event thread. ERROR_UNAVAILABLE.
 */
RESULT decider_await_newer(struct decider *decider, uint64_t epoch, struct error *err);

struct policy_set;
/** The set in force, kept once more for the caller; NULL when there is none. */
struct policy_set *decider_policy_set(struct decider *decider);
/** Appends the active policy set for people (policy_set_describe()); ERROR_NOT_FOUND when there is none. */
RESULT decider_describe_policies(struct decider *decider, struct buffer *json, struct error *err);

void decider_free(struct decider *decider);
DEFINE_OWNED(decider);
