/* training/run_priv.h -- the rows behind the changes of training/run.h. The caller has checked the permit. */
#pragma once

#include "storage/pg.h"
#include "training/doubt.h"
#include "training/lease_jobs.h"
#include "training/work.h"

struct run_move {
    const struct uuid *run, *project;
    enum action action;
    enum run_state to;
    const char *reason; /* why the run ended; NULL: no reason */
};
/**
 * If the run ends, its open attempts end, too. ERROR_CONFLICT: no transition leads from the run's state to `to`, or there is no
 * such run.
 */
RESULT run_row_move(struct pg *pg, const struct run_move *move, struct error *err);
/** Ends the open leases of a run, with this outcome. `why` is for their runners; NULL: they see why the run ended. */
RESULT run_attempts_end(struct pg *pg, const struct uuid *run, const char *outcome, const char *why, struct error *err);
/** Never succeeds. ERROR_NOT_FOUND: the project has no such run; ERROR_CONFLICT names the state in which it can't be cancelled. */
RESULT run_row_why_not(struct pg *pg, const struct uuid *run, const struct uuid *project, struct error *err);
RESULT run_row_request(struct pg *pg, const struct run_request *request, struct error *err);
RESULT run_row_add_envelope(struct pg *pg, const struct uuid *run, const char *kind, const struct run_signed *added,
                            struct error *err);
RESULT run_row_approve(struct pg *pg, const struct run_approve *approve, struct error *err);

/** The project of a permit to read runs. Aborts if `action` is for something else. */
const struct resource *run_project_of(const struct permit *permit, enum action action);

/** An open run whose request has expired, and its project. */
struct due_run {
    struct uuid run;
    struct resource where;
};
RESULT run_rows_due(struct pg *pg, struct due_run *due_out, size_t capacity, size_t *count_out, struct error *err);

/* --- training/columns.c --- */

/** The project in three columns from `at` on: project, organisation, name. */
void run_read_where(const struct pg_rows *rows, size_t row, size_t at, struct resource *where_out);
/** Run, attempt, node and key: four arguments, which are views of `holder`. */
void run_add_holder(struct pg_arguments *arguments, const struct run_holder *holder);
/** The state in column `at`. ERROR_CORRUPT: a newer gateway has written one that this program does not know, so it must not act on the run. */
RESULT run_read_state(const struct pg_rows *rows, size_t row, size_t at, enum run_state *state_out, struct error *err);

/* --- training/order_store.c --- */

RESULT run_row_order(struct pg *pg, const struct run_order *order, struct error *err);

/* --- training/claim_store.c --- */

/** All nodes have their leases: nobody is kept for the run any more. */
RESULT run_row_gather_end(struct pg *pg, const struct uuid *run, struct error *err);
/** The runner with this key is kept for no other run than this one. */
RESULT run_row_gather_leave(struct pg *pg, const char *key, const struct uuid *run, struct error *err);

/* --- training/lease_store.c --- */

RESULT run_row_lease(struct pg *pg, const struct run_lease *lease, struct error *err);
/** How many nodes of the holder's attempt have not finished. ERROR_CONFLICT: the run is not running. */
RESULT run_nodes_left(struct pg *pg, const struct run_holder *holder, int64_t *left_out, struct error *err);
/** Keeps the certificate of the attempt's key. ERROR_CONFLICT: the attempt has ended, or had another one. */
RESULT run_certify(struct pg *pg, const struct run_holder *holder, struct bytes certificate, struct error *err);
/** Ends one attempt, with this outcome. ERROR_CONFLICT: it has ended, or is not this key's. */
RESULT run_attempt_end(struct pg *pg, const struct run_holder *holder, const char *outcome, struct error *err);
/** `why` is for the runners of the other nodes. ERROR_CONFLICT: its runner has sent something meanwhile. */
RESULT run_attempt_lose(struct pg *pg, const struct uuid *run, int64_t attempt, const char *why, struct error *err);

/**
 * The leases that sijil-keyd has signed: those of node 0 and of the newest attempt, the newest first. Columns: attempt, node, envelope.
 */
RESULT run_rows_leases(struct pg *pg, const struct uuid *run, struct pg_rows **rows_out, struct error *err);

/** The results of the nodes of an attempt beside node 0. Columns: attempt, node, envelope. */
RESULT run_rows_node_results(struct pg *pg, const struct uuid *run, int64_t attempt, struct pg_rows **rows_out,
                             struct error *err);

/** An attempt that is lost. */
struct lost_attempt {
    struct due_run run;
    int64_t attempt, attempts; /* attempts: how many the order allows */
    int64_t node, nodes;       /* node: the first silent one */
    bool is_incomplete;        /* not all nodes have leases */
};
RESULT run_rows_lost(struct pg *pg, struct lost_attempt *lost_out, size_t capacity, size_t *count_out, struct error *err);

/* --- training/doubt_store.c --- */

/** The runners of all runs that a run continues from, through checkpoints. Columns: key, the end of its last attempt. */
RESULT run_ancestors(struct pg *pg, const struct uuid *run, struct pg_rows **rows_out, struct error *err);

/** A run in which a withdrawn runner had a part. */
struct doubted_run {
    struct due_run run;
    enum run_state state; /* RUN_STATE_FINISHING or RUN_STATE_SUCCEEDED */
    char key[RUN_KEY_SIZE];
};
/** A part of a list of rows: at most so many, after the first ones. */
struct row_window {
    size_t skipped, most;
};
RESULT run_rows_doubted(struct pg *pg, const struct run_withdrawals *withdrawals, const struct row_window *window,
                        struct doubted_run *runs_out, size_t *count_out, struct error *err);
/** The leases of the key for a run, and for those that it continues from, of attempts that were not over then. Columns: run, attempt, node, envelope. */
RESULT run_rows_leases_of_key(struct pg *pg, const struct run_part *asked, size_t capacity, struct pg_rows **rows_out,
                              struct error *err);
/** Whether sijil-keyd has signed such a lease: rows alone prove nothing. False also for a key that is not in `withdrawals`. */
RESULT run_withdrawal_applies(struct pg *pg, const struct run_withdrawals *withdrawals, const struct uuid *run, const char *key,
                              bool *applies_out, struct error *err);
/** ERROR_CONFLICT: it is known. */
RESULT run_row_doubt(struct pg *pg, const struct uuid *run, const struct run_withdrawal *withdrawal, struct error *err);

/* --- training/session_store.c --- */

/** *is_only_out false: it is not the only session; reason_out is "", or why the key is suspended already. */
RESULT run_session_note(struct pg *pg, const struct run_session *session, bool *is_only_out, char reason_out[RUN_REASON_SIZE],
                        struct error *err);
/** reason_out: why the key is suspended; "": it is not. */
RESULT run_session_suspended(struct pg *pg, const char *key, char reason_out[RUN_REASON_SIZE], struct error *err);
/** Its leases are lost at once. */
RESULT run_session_suspend(struct pg *pg, const char *key, const char *reason, struct error *err);

/* --- training/lease.c --- */

/** Aborts unless the permit is for `action` on exactly this lease: the detail of its resource names it. */
void run_require_lease(const struct permit *permit, enum action action, const struct run_holder *holder);
/** The same for any lease of this run in this project. */
void run_require_run(const struct permit *permit, enum action action, const struct resource *where, const struct uuid *run);

/* --- training/run.c --- */

/** Records a change by the server itself, with its permit. The errors of the change; ERROR_UNAVAILABLE. */
RESULT run_record(struct sequencer *sequencer, const struct action_pair *pair, struct change *change, struct error *err);
/** The same for what another gateway may have done meanwhile (ERROR_CONFLICT): that is a success, with *is_new_out false. */
RESULT run_record_once(struct sequencer *sequencer, const struct action_pair *pair, struct change *change, bool *is_new_out,
                       struct error *err);

/** What one round of the server's own changes has done. A run that can't be changed must not keep the others waiting. */
struct run_round {
    size_t changed;
    struct error failed; /* the first failure; of the kind ERROR_NONE: none */
};
/** Notes the outcome for one run: whether it was changed, or why it failed. */
void run_round_note(struct run_round *round, struct result one, bool is_changed, const struct error *err);
/** At the end: the first failure, if there was one. */
RESULT run_round_end(const struct run_round *round, size_t *changed_out, struct error *err);
