/*
 * training/result.h -- the result of a leased node, with the manifests of what it made (docs/runs.md, "Results").
 *
 * Before the call the caller has checked the signature of the result, and the result against the envelopes before it.
 */
#pragma once

#include "training/work.h"

extern const struct pg_table run_result_table;

#define RUN_SUBJECTS_MAX HELD_MANIFESTS_MAX
#define RUN_LATE_MAX     8 /* late results of one run that are kept; whoever has a lease could send any number */

/** Where a result belongs, and why the run ended so. */
struct run_outcome run_outcome_of(const struct run_envelope *result);

/** An artifact that a result names: views of both envelopes. */
struct run_made {
    const char *name;       /* of an output; "log", "metrics" */
    const char *hex;        /* digest of its manifest */
    const char *repository; /* by the order */
    const char *type;       /* that its manifest must have */
    bool is_output;
};
struct run_makes {
    size_t count;
    struct run_made each[RUN_SUBJECTS_MAX];
};
/** The subjects of a result in their order, then its metrics. Both envelopes were checked against each other. */
void run_makes_of(const struct run_envelope *order, const struct run_envelope *result, struct run_makes *makes_out);
/**
 * Whether a manifest is the one that the result names: digest, type, config, no subject, all layers are blobs of the registry, every client
 * makes the same files of it (registry/names/titles.h), and log and metrics have their one layer. `text`: the manifest. ERROR_INVALID says what differs.
 */
RESULT run_made_check(const struct run_made *made, const struct held_manifest *held, struct bytes text, struct error *err);

/** Whether all outputs together have at most the order's output_bytes, beside their configs. ERROR_INVALID. */
RESULT run_makes_check_amount(const struct run_envelope *order, const struct run_makes *makes, const struct held_manifests *held,
                              struct error *err);

/** As what the very same envelope is stored already: "result", "node result", "late"; "" if it is new. The permit: run.finish. */
RESULT run_result_find(const struct permit *permit, struct pg *pg, const struct uuid *run, const struct run_envelope *result,
                       char kind_out[16], struct error *err) __attribute__((nonnull));

/** A result that came after the end of its attempt. It is kept, and nothing follows from it. */
struct run_late {
    const struct resource *where; /* the project */
    const struct uuid *run;
    const struct run_signed *result;
    const struct held_manifests *held; /* log and metrics: what failed or was cancelled can be looked into; NULL: none */
};
/** A repeated call changes nothing. ERROR_LIMIT: RUN_LATE_MAX are kept. The permit: run.finish. */
RESULT run_result_keep_late(const struct permit *permit, struct sequencer *sequencer, const struct run_late *late,
                            struct error *err) __attribute__((nonnull));

/** A result, and the lease that it is of. */
struct run_second {
    const struct run_holder *holder;
    const struct run_held *held;
    const struct run_envelope *result;
    const struct run_envelope *certificate; /* of the key that the attempt has: what a row has must be signed with it */
    const char *principal;                  /* principal_key() of the runner */
};
/**
 * Whether another result of the same lease was signed with the attempt's key before. An honest runner signs one: so two runners have the key. The
 * permit: run.finish.
 */
RESULT run_result_is_second(const struct permit *permit, struct pg *pg, const struct run_second *second, bool *is_second_out,
                            struct error *err) __attribute__((nonnull));
#define RUN_SECOND_REASON "two different results of one lease are signed under this key"
/**
 * Suspends the runner's key: its leases are lost, and nothing of it is admitted. If the run was admitted, a doubt is added to it. A repeated call changes
 * nothing. The permit: run.finish.
 */
RESULT run_second_result(const struct permit *permit, struct sequencer *sequencer, struct pg *pg, const struct run_second *second,
                         struct error *err) __attribute__((nonnull));
