/*
 * training/standing.h -- whether an ordered run may still go on (docs/runs.md, "What can end an order").
 *
 * An order lives for up to 30 days. Meanwhile its requester can lose a role, its key or its trust rule, and a set of policies can demand more. Each lease,
 * heartbeat and admission asks again. Nothing here asks the database.
 */
#pragma once

#include "documents/view.h"
#include "policy/decider/decider.h"
#include "training/run.h"

struct run_standing {
    struct decider *decider;
    struct document_view *documents;
    const struct uuid *organisation;            /* of the run's project */
    const struct run_envelope *order, *request; /* the request's digest is the order's */
};
/**
 * Whether the requester still has the rights that a run needs, and nobody has withdrawn the key that has signed the request, or replaced the secret with which
 * a robot has asked. reason_out: "", or what is
 * missing. ERROR_UNAVAILABLE while rights or documents are not known; ERROR_CORRUPT: the request is not that of the order.
 */
RESULT run_standing_check(const struct run_standing *standing, char reason_out[RUN_REASON_SIZE], struct error *err);

/** The stricter of both. */
void run_duties_raise(struct run_duties *duties, const struct train_answer *answer);
/** Who asks, for the approvals that a request needs. */
struct run_asker {
    struct decider *decider;
    const struct uuid *organisation; /* of the run's project */
    const struct run_envelope *request;
};
/**
 * Whether the secret with whose token a robot has asked was replaced since, without a grace period. reason_out is written then alone. Requests that a key
 * has signed do not depend on a secret. ERROR_UNAVAILABLE while the rights are not known.
 */
RESULT run_secret_check(const struct run_asker *asker, char reason_out[RUN_REASON_SIZE], struct error *err);
/**
 * As run_approvals_needed(), which sijil-keyd, runners and verifiers demand; and one more by the token of a subject that is no person of the organisation, or that may be a job which a binding
 * names (decider_may_be_machine()): the registry alone knows that.
 */
int64_t run_approvals_wanted(const struct run_asker *asker, int64_t asked);
/** Whether a request with so many approvals does what the policies ask for. reason_out: "", or what is missing. */
void run_duties_check(const struct run_asker *asker, int64_t approvals, const struct run_duties *duties,
                      char reason_out[RUN_REASON_SIZE]);
/** How many approvals an order names. */
int64_t run_order_approvals(const struct run_envelope *order);
