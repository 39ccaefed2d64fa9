/*
 * policy/decider/decider.h -- decides requests. No other function allows one.
 *
 * A request is allowed if its credential is valid, the credential's scope covers it, a live role binding permits it,
 * no policy denies it, and every fact that a policy requires is proven. All of this is checked on one immutable
 * snapshot of organisations, projects, robots, bindings, policies and regions. The snapshot is replaced as a whole
 * when PostgreSQL notifies a change, and polled every 5 s; a snapshot older than 30 s denies everything. A decision
 * needs no database, and no lock that is held over I/O, so event threads may make one.
 */
#pragma once

#include <sys/socket.h>

#include "audit/decision.h"
#include "authz/snapshot.h"
#include "authz/token_demand.h"
#include "policy/label.h"
#include "policy/set.h"

struct decider;
struct keyd_client;
struct sequencer;
struct authz_directory;

struct decider_options {
    const char *conninfo;        /* for the snapshot loader's own connection */
    struct keyd_client *keyd;    /* knows which policy set is pinned */
    struct sequencer *sequencer; /* has the log signed, which proves to sijil-keyd that a set was loaded */
    void (*notice)(const char *what, const struct error *why); /* reports rare problems to a person; may be NULL */
    struct document_view *documents;   /* for the trust rules, and as long as the decider; NULL: there are none */
    struct authz_directory *directory; /* receives each snapshot's robots and issuers, for authenticate() */
    unsigned poll_ms, stale_ms;        /* 5000 and 30000 in a gateway */
    unsigned notice_days;              /* roles that end within so many days are counted and told */
    const char *metadata_region;       /* the region of PostgreSQL, for the operations metadata and log; NULL: the home region */
};

/**
 * Loads the first snapshot and starts the loader's thread. ERROR_CORRUPT if the policy set that sijil-keyd has pinned
 * is not stored.
 */
RESULT decider_start(const struct decider_options *options, struct decider **decider_out, struct error *err);

struct decision_request {
    const struct principal *principal; /* of kind PRINCIPAL_NONE for a request without credentials */
    size_t pair_count;                 /* 1 to ACTION_PAIRS_MAX; all must be allowed */
    struct action_pair pairs[ACTION_PAIRS_MAX];
    const struct asked_label *asked; /* the label that the first pair would set; NULL: none */
    struct policy_client client;     /* the policy set gives its facts */
    int64_t now_ms;                  /* wall clock */
    const struct permit
        *held; /* of the request, if it has one: the exceptions that its event has counted may be used up meanwhile; or NULL */
};
/** Decides a request. A denial is a decision, not an error. ERROR_NO_MEMORY only. The caller owns *decision_out. */
RESULT decider_decide(struct decider *decider, const struct decision_request *request, struct decision **decision_out,
                      struct error *err);

/**
 * Checks a pair against rights only, in memory. The result does not depend on whether the named thing exists. A
 * caller must ask this before it looks anything up for a request: a hidden thing must cost the same time as a missing
 * one. The resource must come from decider_resolve(); a repository's own id is not needed.
 */
enum authz_verdict decider_rights(struct decider *decider, const struct principal *principal, const struct action_pair *pair,
                                  int64_t now_ms);

/**
 * The scope of a robot or a binding, by its id: only kind and ids, because a look-up of names takes longer for things
 * that exist. False, with nothing written, if it does not exist. A robot of the registry itself has the nil
 * organisation.
 */
bool decider_find_robot(struct decider *decider, const struct uuid *id, struct resource *resource_out);
bool decider_find_binding(struct decider *decider, const struct uuid *id, struct resource *resource_out);
/** Id and organisation of a robot that is in force here, by its id or its name. */
bool decider_robot(struct decider *decider, const char *name, struct uuid *id_out, struct uuid *organisation_out);
/** Fills in the name of an organisation or a project by its ids. Only for a caller that may know of it. */
void decider_name(struct decider *decider, struct resource *resource);

/** The organisations and projects that the principal's bindings let it read: the listed ones, or all. */
struct readable_namespaces {
    bool all;
    size_t organisation_count, project_count;
    struct uuid *organisations, *projects; /* at most one for each role of the principal */
};
RESULT decider_readable_namespaces(struct decider *decider, const struct principal *principal, int64_t now_ms,
                                   struct readable_namespaces **namespaces_out, struct error *err);
void readable_namespaces_free(struct readable_namespaces *namespaces);
DEFINE_OWNED(readable_namespaces);

/**
 * Fills in the kind, the ids of organisation and project, and the home region of a name; nil and "" if it does not
 * exist. Names of repositories have three or more segments: "organisation/project/path...". registry_resolve() fills
 * in the repository's own id.
 */
void decider_resolve(struct decider *decider, const char *name, struct resource *resource_out);

/**
 * The rights that the principal's bindings give on the repository `name` now, for minting tokens. Policies are
 * evaluated for each request.
 */
void decider_live_access(struct decider *decider, const struct principal *principal, const char *name, int64_t now_ms,
                         struct principal_access *access_out);
/** Names n with from <= n < until, in byte order. */
struct name_range {
    char from[RESOURCE_NAME_MAX + 2], until[RESOURCE_NAME_MAX + 2]; /* one byte more than a name, to end after it */
};
struct name_ranges {
    size_t count;
    bool has_more;                    /* ask again, after `next` */
    char next[RESOURCE_NAME_MAX + 2]; /* all names before it have been covered */
    struct name_range ranges[BINDINGS_PER_PRINCIPAL_MAX];
};
/**
 * The names of repositories that the principal's bindings let it pull from, whether or not they exist: disjoint
 * ranges in byte order. A name is in a range exactly if decider_live_access() allows a pull. Ranges that end before
 * `after` are left out. One call returns the ranges of at least one organisation, because the number of organisations
 * is not bounded. ERROR_NO_MEMORY.
 */
RESULT decider_readable(struct decider *decider, const struct principal *principal, const char *after, int64_t now_ms,
                        struct name_ranges **ranges_out, struct error *err);
void name_ranges_free(struct name_ranges *ranges);
DEFINE_OWNED(name_ranges);

/** Whether policies let this client list the repository `name`. Rights are not checked: use decider_readable() for them. */
RESULT decider_may_list(struct decider *decider, const char *name, const struct policy_client *client, int64_t now_ms,
                        bool *may_out, struct error *err);

/** A role that a principal has now. */
struct held_role {
    char role[OWN_ROLE_NAME_MAX + 1];
    uint64_t version;     /* of a role of a signed document; else 0 */
    const char *bound_as; /* of a binding that no document of officers makes count: the role that it has; else NULL */
    char document[64];    /* of officers, that makes a binding count; else "" */
    char scope[RESOURCE_NAME_MAX + 1]; /* "" for the registry, "acme", "acme/models", or a pattern */
    int64_t expires_ms;                /* 0: without end */
    struct uuid binding;
    char granted_by
        [PRINCIPAL_KEY_SIZE]; /* principal_key() of the granter; "system" for the administrator's, "rule" for those of a trust rule; GROUP_GIVER and a name for those of a group */
};
struct held_roles {
    size_t count;
    bool has_more; /* there are more than HELD_ROLES_MAX */
    struct held_role roles[];
};
#define HELD_ROLES_MAX 1000
/** All live roles of the principal, in all organisations. ERROR_NO_MEMORY. The caller frees *roles_out with free(). */
RESULT decider_roles(struct decider *decider, const struct principal *principal, int64_t now_ms, struct held_roles **roles_out,
                     struct error *err);

/** Whether bindings alone give no role of administrators and officers any more (authz/officer_entry.h). */
bool decider_demands_officers(struct decider *decider);

/** How long policies require the content of a repository to be kept. */
struct policy_retention {
    bool for_ever; /* its label pins a policy that is not in force; until a set has this policy or declassifies the repository */
    int64_t days;  /* since it was stored; 0: no policy requires it */
    char rule[65], policy[80]; /* that require it; "" if none does */
    bool has_maximum;          /* a policy ends it: */
    int64_t maximum_days;      /* since it was stored */
    char ending_rule[65], ending_policy[80];
    int64_t min_sites; /* that must have it; 0: no policy says */
    size_t anchors;    /* copies that must be elsewhere */
};
/**
 * The longest retain_min_days, the shortest retain_max_days and the copies that are demanded by the policies for the repository `name`, over the operations of a push; and whether
 * its label pins a policy that is not in force. ERROR_UNAVAILABLE while the policies are not known; ERROR_LIMIT.
 */
RESULT decider_retention(struct decider *decider, const char *name, int64_t now_ms, struct policy_retention *retention_out,
                         struct error *err);

/** What the policies demand of a training run, wherever it is. */
struct run_duties {
    int64_t approvals;   /* the number of persons that must approve */
    bool signed_request; /* the requester must have signed with an enrolled key */
};
/**
 * Raises *duties to those for a training run which reads or writes the repository `name`. ERROR_UNAVAILABLE while the policies are not known;
 * ERROR_LIMIT.
 */
RESULT decider_run_duties(struct decider *decider, const char *name, int64_t now_ms, struct run_duties *duties,
                          struct error *err);

/** What the policies say of a training run that uses or writes one repository in one region. */
struct train_answer {
    bool is_allowed;
    bool signed_request; /* the requester must have signed with an enrolled key */
    int64_t approvals;   /* the number of persons that must approve */
    char rule[65];       /* that denies it; "" if it is allowed */
    char policies[72];   /* digest of the set that was asked */
};
/**
 * Allowed only if the set allows it both with the repository's real label and as a runner decides it again (policy/train.h).
 * ERROR_UNAVAILABLE while the policies are not known; ERROR_LIMIT.
 */
RESULT decider_train(struct decider *decider, const char *name, const char *region, int64_t now_ms,
                     struct train_answer *answer_out, struct error *err);

/** Whether the policies let content be stored in a repository at its home, with the label that the repository has. */
struct store_answer {
    bool is_allowed;   /* `ingest`, `metadata` and `log` */
    char rule[65];     /* that denies one of them; "" if all are allowed */
    char policies[72]; /* digest of the set that was asked */
};
/** For content that the server itself stores. ERROR_UNAVAILABLE while the policies are not known; ERROR_LIMIT. */
RESULT decider_store(struct decider *decider, const char *name, int64_t now_ms, struct store_answer *answer_out,
                     struct error *err);

/** A push, and the repository whose policies are asked about it. */
struct push_query {
    const char *name;   /* where it goes to, or where its content comes from */
    const char *region; /* where it goes to; NULL: the home region of `name` */
    struct bytes label; /* canonical JSON of the label that the push brings to `name`; empty: the label that `name` has */
    bool promotes;
    int64_t now_ms;
};
/** Whether the policies let content of `name` be promoted into the region. Errors as of decider_store(). */
RESULT decider_promotes(struct decider *decider, const struct push_query *query, struct store_answer *answer_out,
                        struct error *err);

/** Appends the names of the evidence that the policies demand of the push, each once and with its zero. ERROR_UNAVAILABLE while the policies are not known; ERROR_LIMIT. */
RESULT decider_evidence(struct decider *decider, const struct push_query *query, struct buffer *names, struct error *err);

/** What a training run writes, and all that it reads; or a push. */
struct carried_query {
    const char *output; /* a repository, which need not exist */
    const char *const *uses;
    size_t use_count;
    const char *stated; /* canonical JSON of a label that the content's own manifest states; NULL: none */
    int64_t now_ms;
    bool only_checks; /* nothing but is_carried is wanted */
};
/** The label of content that was made from all that the run reads, and of what it states itself. */
struct carried_label {
    bool is_carried;     /* the output's repository has this label, or a stricter one; or a set lifts there what content brings */
    bool is_allowed;     /* the policies let the repository take it at its home */
    char rule[65];       /* the rule that forbids it; "": none */
    struct buffer label; /* the caller's buffer: canonical JSON of the label, if is_carried is false */
};
/** ERROR_UNAVAILABLE while the policies are not known; ERROR_LIMIT. */
RESULT decider_carried_label(struct decider *decider, const struct carried_query *query, struct carried_label *answer,
                             struct error *err);

/**
 * Whether content of the repository `other` has a class, subjects or regimes that `name` has not. Neither need exist. ERROR_UNAVAILABLE while the
 * policies are not known; ERROR_LIMIT.
 */
RESULT decider_label_lacks(struct decider *decider, const char *name, const char *other, int64_t now_ms, bool *lacks_out,
                           struct error *err);

/**
 * Whether the policies allow `metadata` of the repository `name` in a region: whether somebody there may know that it is used, and how much. An
 * unknown region allows nothing. ERROR_UNAVAILABLE while the policies are not known; ERROR_LIMIT.
 */
RESULT decider_shows(struct decider *decider, const char *name, const char *region, int64_t now_ms, bool *shows_out,
                     struct error *err);

/**
 * Whether the policies allow `log` and `export` of what is known about `name` to a region: an organisation, a project or a repository, or ""
 * for the registry. An unknown region gets nothing. ERROR_UNAVAILABLE while the policies are not known; ERROR_LIMIT.
 */
RESULT decider_delivers(struct decider *decider, const char *name, const char *region, int64_t now_ms, bool *delivers_out,
                        struct error *err);

/**
 * The principal with this principal_key(): a robot, or a subject of an issuer with a role in the organisation or the registry. False:
 * there is none, so it has no rights there.
 */
bool decider_principal(struct decider *decider, const char *key, const struct uuid *organisation,
                       struct principal *principal_out);

/** What somebody who does not ask just now must be allowed to do, by rights alone: the policies are asked apart from them. */
struct held_right {
    enum action action;
    const char *name; /* of the project or repository, which need not exist */
};
struct rights_query {
    const char *principal;           /* principal_key() */
    const struct uuid *organisation; /* where it must have a role */
    const struct held_right *rights;
    size_t count;
    int64_t asked_ms; /* when a token of it asked; 0: it has signed with a key */
    int64_t now_ms;
};
struct rights_answer {
    bool is_somebody; /* the principal has a role there, or is a robot */
    bool is_outdated; /* its secret was replaced since, without a grace period: what was asked with the old one counts no more */
    bool has_all;
    size_t lacks; /* the first of the rights that it does not have, if it is somebody and has not all */
};
/** All of one snapshot. ERROR_UNAVAILABLE while the rights are not known: then nobody has lost any. */
RESULT decider_holds(struct decider *decider, const struct rights_query *query, struct rights_answer *answer_out,
                     struct error *err);

/**
 * Whether the principal with this principal_key() is a subject of an issuer for which there are trust rules, of anybody: such an issuer gives tokens to
 * jobs, so its subject may be one that a binding names. The subject of a rule is none.
 */
bool decider_may_be_machine(struct decider *decider, const char *principal, const struct uuid *organisation);

/** authz_snapshot_is_live() in the newest snapshot, for upload sessions. */
bool decider_is_live(struct decider *decider, const struct principal *principal, int64_t now_ms);

/** persons_of() in the newest snapshot, as the organisation (nil: the registry) has its persons. */
struct persons decider_persons(struct decider *decider, const struct principal *principal, const struct uuid *organisation);
/** persons_of_key() in the newest snapshot; of a trust rule those that have signed its version in force, and an unknown one. */
struct persons decider_persons_of_key(struct decider *decider, const char *principal, const struct uuid *organisation);
/** persons_as_of_now() in the newest snapshot. */
struct persons decider_persons_now(struct decider *decider, const struct persons *stored, const struct uuid *organisation);
/** persons_entries_name() in the newest snapshot. */
bool decider_persons_come_from(struct decider *decider, const char *issuer);
/** persons_separated() in the newest snapshot. */
void decider_separated(struct decider *decider, const struct uuid *organisation, struct persons_separated *separated_out);
/** What the organisation (nil: the registry) demands of tokens, in the newest snapshot (authz/token_demand.h). */
struct token_demand decider_token_demand(struct decider *decider, const struct uuid *organisation, int64_t now_ms);
/** token_demand_shortest(), in the newest snapshot. */
unsigned decider_shortest_token(struct decider *decider, int64_t now_ms);
/** authz_snapshot_home(). */
struct uuid decider_home(struct decider *decider, const struct principal *principal, int64_t now_ms);
/** Whether the principal has any live role. True while the snapshot is too old to tell. */
bool decider_has_role(struct decider *decider, const struct principal *principal, int64_t now_ms);

/** The end of the robot's secret (wall clock); 0 if the principal is no robot. */
int64_t decider_robot_expires(struct decider *decider, const struct principal *principal);

/** The end of the robot's replaced secret while that is valid; else 0. */
int64_t decider_previous_until(struct decider *decider, const struct principal *principal, int64_t now_ms);

uint64_t decider_epoch(const struct decider *decider);
/** Whether the policy set in force has exceptions for the project. */
bool decider_has_exceptions(struct decider *decider, const struct uuid *project);
/**
 * Changes whenever organisations, projects, repositories or labels may have changed. The result of a look-up by name
 * is valid for one version.
 */
uint64_t decider_names_version(struct decider *decider);
/** Whether the snapshot is younger than stale_ms. For /readyz. */
bool decider_is_ready(const struct decider *decider, struct error *err);
/** Loads a new snapshot and waits for it. For the start and for tests, never on an event thread. */
RESULT decider_refresh(struct decider *decider, struct error *err);

/**
 * Waits at most 2 s for a snapshot that is newer than `epoch`. Call it before a stale decision is made again, and
 * after a change of rights. The caller knows that the database had this epoch: if the database has a lower one, the
 * loader reads everything again. Never on an event thread. ERROR_UNAVAILABLE.
 */
RESULT decider_await_newer(struct decider *decider, uint64_t epoch, struct error *err);

struct policy_set;
/** The set in force, with an owner added for the caller; NULL if there is none. */
struct policy_set *decider_policy_set(struct decider *decider);
/** Whether it says where the clients of an authority are. */
bool decider_places_authorities(const struct decider *decider);

void decider_free(struct decider *decider);
DEFINE_OWNED(decider);
