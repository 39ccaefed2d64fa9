/*
 * training/bundle.h -- makes the bundle of a run (docs/formats/run.md, "Bundle") from the database: for sijil-keyd's three messages, for the
 * answer to a lease, and for verifiers.
 *
 * Nothing is checked here: whoever gets the bundle checks all of it (training/format/bundle.h).
 */
#pragma once

#include "audit/sequencer.h"
#include "crypto/keyd_client.h"
#include "documents/view.h"
#include "policy/decider/decider.h"
#include "training/papers.h"

/** `pg` needs run_table, run_lease_table, document_table, policy_set_table, audit_query_table and audit_tree_table. */
struct run_bundle_source {
    struct pg *pg;
    struct keyd_client *keyd;
    struct sequencer *sequencer;
    struct document_view *documents;
    struct decider *decider;
};

struct run_bundle_query {
    struct run_papers_query papers;             /* for an order up to RUN_APPROVAL */
    uint64_t event;                             /* of the order, if there is none yet */
    const struct signed_checkpoint *checkpoint; /* of the event's proof; NULL: the newest */
    const struct signed_checkpoint *published;  /* in place of the newest, if it has what is proven: a cosigned one; NULL: none */
    const char *runner;                         /* thumbprint of a runner's key that has no lease yet; NULL: the lease's */
    bool is_whole;  /* with the policy sets that its envelopes name, and the decision of the order's event */
    bool is_of_day; /* for sijil-keyd: with the set in force instead, and the newest version of the trust rule that asked */
};

/** Appends the bundle. ERROR_NOT_FOUND: there is no such run; ERROR_CONFLICT: it has no order yet; ERROR_UNAVAILABLE. */
RESULT run_bundle_make(const struct permit *permit, const struct run_bundle_source *source, const struct run_bundle_query *query,
                       struct buffer *text, struct error *err) __attribute__((nonnull));
