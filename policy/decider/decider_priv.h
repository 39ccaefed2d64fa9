/* policy/decider/decider_priv.h -- the state of the decider: the snapshot in use, and the thread that renews it. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "authz/snapshot.h"
#include "policy/decider/decider.h"
#include "policy/decider/snapshot_priv.h"

/** Regions whose own sijil-keyd opens no key, as this gateway knows it. Almost always none, which needs no lock. */
#define REGION_LACKS_MAX 32 /* as many as a gateway serves */
struct region_lacks {
    pthread_mutex_t lock;
    atomic_int lacking;
    size_t count;
    struct {
        char id[REGION_ID_MAX + 1];
        bool is_lacking;
    } each[REGION_LACKS_MAX];
};
RESULT region_lacks_set(struct region_lacks *lacks, const char *region, bool is_lacking, struct error *err);
bool region_lacks_has(struct region_lacks *lacks, const char *region);

struct decider {
    struct policy_set_source source; /* used by the loader's thread only, as is `reported` */
    struct document_view *documents; /* NULL: no trust rules */
    struct unrecorded_sets reported;
    bool is_behind_logged;       /* also used by the loader's thread only */
    int64_t looked_ms;           /* and this: of the last load that looked at policy set and documents; monotonic */
    int64_t counted_ms, told_ms; /* and these: when roles that end soon were counted, and when a person was told; 0: never */
    unsigned notice_days;
    int64_t rested_ms; /* so is this: until then, changes alone make no load; monotonic */
    void (*notice)(const char *what, const struct error *why);
    struct authz_directory *directory;
    unsigned poll_ms, stale_ms;
    char metadata_region[REGION_ID_MAX + 1]; /* "": the home region */

    pthread_mutex_t lock; /* never held over I/O; guards the members below */
    pthread_cond_t loaded;
    struct snapshot *snapshot;
    struct error problem;  /* of the last load; ERROR_NONE if it succeeded */
    uint64_t least_epoch;  /* the highest epoch that decider_await_newer() was given */
    uint64_t wanted, done; /* loads that decider_refresh() requested, and finished loads */
    bool wants_look;       /* decider_refresh(): all is looked at */
    bool is_stopping;

    struct region_lacks *lacks;

    pthread_t thread;
    bool has_thread;
    int wake; /* eventfd: wakes the loader */
};

/** The snapshot in use, with an owner added; never NULL after the start. */
struct snapshot *decider_take(struct decider *decider);
bool decider_is_stale(const struct decider *decider, struct snapshot *snapshot);

struct policy_decision;
struct policy_facts;
/** Sees how a decision is made, to explain it (explain.c). It changes nothing of it. */
struct decision_watch {
    struct result (*operation)(struct decision_watch *watch, const struct policy_facts *facts,
                               const struct policy_decision *decision, struct error *err);
};

/** The name of a binding's scope: "" for the registry, "acme", "acme/models", or a pattern (held.c). */
const char *held_scope(const struct tenancy *tenancy, const struct authz_binding *binding);

/** The inputs of one decision (decide.c). */
struct decision_context {
    const struct snapshot *snapshot;
    const struct decision_request *request;
    const char *metadata_region;
    bool is_stale;
    struct region_lacks *lacks;   /* NULL: of no region */
    bool is_of_server;            /* nobody's rights are asked (copy_decision.h) */
    struct decision_watch *watch; /* NULL: nobody asks why */
};
/** The state that one question is answered from. It points into `snapshot` and `request`. */
struct decision_context decider_context(const struct decider *decider, struct snapshot *snapshot,
                                        const struct decision_request *request);
RESULT decide_request(const struct decision_context *context, struct decision **decision_out, struct error *err);
/** A question about one repository, without a caller. The repository need not exist. */
struct repository_query {
    const char *name, *region; /* region NULL: the home region */
    enum policy_operation op;
    const struct label *label; /* NULL: the label that the repository has */
    const char *digest;        /* of the content; NULL: it is not known */
    bool is_there; /* `region` counts for each operation; else `metadata` and `log` are decided for the region of the database */
};
/** ERROR_UNAVAILABLE while the gateway does not know which policies are in force, or none are. */
RESULT policies_known(const struct decision_context *context, struct error *err);
struct store_answer store_answer_of(const struct decision_context *context, const struct policy_decision *decision);
RESULT evaluate_repository(const struct decision_context *context, const struct repository_query *query,
                           struct policy_decision **decision_out, struct error *err);
/** What must be allowed where content rests; see place.h. */
#define PLACE_OPERATIONS 3
extern const enum policy_operation place_operations[PLACE_OPERATIONS];
struct policy_denial;
/** Whether a denial of one of them means that what is there may not be there. */
bool place_is_broken_by(const struct policy_denial *denial);
struct place_answer;
/** `digest` NULL: of no content in particular. ERROR_UNAVAILABLE, ERROR_LIMIT. */
RESULT evaluate_place(const struct decision_context *context, const char *name, const char *digest,
                      struct place_answer *answer_out, struct error *err);
/** Whether the pair reads what is out of place; `digest`: of the content, or "". */
bool place_refuses(const struct decision_context *context, const struct action_pair *pair, const char *digest);

/** *is_labelled_out is false if the repository has no label. It borrows from the snapshot. ERROR_LIMIT. */
RESULT evaluate_label_of_repository(const struct decision_context *context, const char *name, struct label *label_out,
                                    bool *is_labelled_out, struct error *err);
RESULT evaluate_retention(const struct decision_context *context, const char *name, struct policy_retention *retention_out,
                          struct error *err);
/** Raises *duties to what the policies demand for a run with the repository `name`. */
struct run_duties;
RESULT evaluate_run_duties(const struct decision_context *context, const char *name, struct run_duties *duties,
                           struct error *err);
struct train_answer;
RESULT evaluate_delivery(const struct decision_context *context, const char *name, const char *region, bool *delivers_out,
                         struct error *err);
struct push_query;
RESULT evaluate_evidence(const struct decision_context *context, const struct push_query *push, struct buffer *names,
                         struct error *err);
RESULT evaluate_promotion(const struct decision_context *context, const struct push_query *push, struct store_answer *answer_out,
                          struct error *err);
RESULT evaluate_metadata(const struct decision_context *context, const char *name, const char *region, bool *shows_out,
                         struct error *err);
RESULT evaluate_train(const struct decision_context *context, const char *name, const char *region,
                      struct train_answer *answer_out, struct error *err);
struct store_answer;
RESULT evaluate_store(const struct decision_context *context, const char *name, struct store_answer *answer_out,
                      struct error *err);
struct carried_query;
struct carried_label;
RESULT evaluate_carried(const struct decision_context *context, const struct carried_query *query, struct carried_label *answer,
                        struct error *err);
RESULT evaluate_label_lacks(const struct decision_context *context, const char *name, const char *other, bool *lacks_out,
                            struct error *err);
/**
 * Evaluates the policies for the operation `list` on the repository `name`. A repository whose evaluation exceeds a
 * limit may not be listed.
 */
RESULT evaluate_listing(const struct decision_context *context, const char *name, bool *may_out, struct error *err);
