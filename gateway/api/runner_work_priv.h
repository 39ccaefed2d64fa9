/*
 * gateway/api/runner_work_priv.h -- what the handlers of runners' requests share (docs/runs.md).
 */
#pragma once

#include "gateway/api/api_priv.h"
#include "gateway/pipeline/runner_gate.h"
#include "training/bundle.h"
#include "training/work.h"

/** Where bundles are made from. */
struct run_bundle_source bundle_source(const struct request *request, struct pg *pg);

/** A long answer, in the state of its handler; the handler's `release` is bundle_release(). */
struct bundle_answer {
    struct buffer text;
};
/** Call it once; NULL: out of memory. */
struct bundle_answer *bundle_answer_new(struct request *request);
/** Makes the bundle and the answer 200. */
RESULT bundle_answer(struct request *request, struct pg *pg, const struct run_bundle_query *query, struct error *err);
void bundle_release(struct request *request);

/** A run that is decided again, for the runner that asks. */
struct runner_again {
    const struct run_envelope *order, *asked; /* asked: the request of the run */
    const struct resource *where;             /* the project */
};
enum runner_verdict { RUNNER_MAY, RUNNER_MAY_NOT_HERE, RUNNER_MAY_NOT };
/**
 * With today's labels, rights of the requester, duties, and `train` for each repository of the order, in the region of the runner. reason_out:
 * "", or why it may not; a denial of `train` is recorded.
 */
RESULT runner_decide_again(struct request *request, const struct runner_again *again, enum runner_verdict *verdict_out,
                           char reason_out[RUN_REASON_SIZE], struct error *err);

/**
 * The session that a runner names, as rows have it: the first bytes of its SHA-256. So whoever reads the database, and has the runner's key, has not its session.
 * ERROR_INVALID: `text`, of `where`, is not 32 hex digits.
 */
RESULT runner_read_session(const char *text, const char *where, uint8_t session_out[RUN_SESSION_SIZE], struct error *err);
/**
 * Checks that the runner's key has this session alone; records runner.ask for a new one. If the key is suspended, the answer is made: 409.
 * It is 204 for an old question: one that was overtaken, or one that has waited while its key began another session.
 */
RESULT runner_check_session(struct request *request, struct pg *pg, const struct run_session *session, bool has_waited,
                            struct error *err);
/** Records runner.ask, unless this request has. */
RESULT runner_record_asking(struct request *request, struct error *err);
/** The one pair of a request of runner.ask, from the scope of the runner's document. */
RESULT runner_target_ask(struct request *request, struct error *err);

/** Writes "RUN ATTEMPT NODE": the detail of the resource of a pair about this lease. */
void runner_name_lease(const struct run_holder *holder, char detail_out[RESOURCE_DETAIL_MAX + 1]);

/** The lease that the body names, of the runner that asks. */
RESULT runner_read_holder(struct request *request, struct run_holder *holder_out, struct error *err);
/**
 * Whether the session that the request names may report about this lease (the header Sijil-Runner-Session; RUN_REPORTER_NEWEST for a result or
 * a refusal). ERROR_INVALID: it names none; ERROR_CONFLICT.
 */
RESULT runner_check_reporter(const struct request *request, const struct run_held *held, struct error *err);
/** The same, with its row, and the session checked. ERROR_NOT_FOUND, and those of runner_check_reporter(). */
RESULT runner_find_lease(struct request *request, struct pg *pg, struct run_holder *holder_out, struct run_held *held_out,
                         struct error *err);
/** Adds the pair of a report about this lease. */
void runner_pair_of_lease(struct request *request, enum action action, const struct run_holder *holder,
                          const struct run_held *held);

/** For target functions of routes whose body names attempt and node: a pair for the lease of the runner that asks. If it has no such lease, the answer is 404. */
RESULT runner_target_lease(struct request *request, struct lookup *lookup, enum action action, struct error *err);
#define RUNNER_NODE_SIZE 12 /* "node 255: " */
/** What a reason begins with: of which node of several it is; "" if the run has one. */
void runner_name_node(const struct run_held *held, const struct run_holder *holder, char text_out[RUNNER_NODE_SIZE]);

/** Whether the attempt has ended, or the run. */
bool runner_lease_has_ended(const struct run_held *held);
