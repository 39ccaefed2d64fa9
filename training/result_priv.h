/* training/result_priv.h -- the rows of results and of their admission. The caller has checked the permit. */
#pragma once

#include "training/admit_jobs.h"
#include "training/result.h"

/** The results of a run that this principal has signed, also late ones. Column: the envelope. */
RESULT run_rows_results(struct pg *pg, const struct uuid *run, const char *principal, struct pg_rows **rows_out,
                        struct error *err);
RESULT run_rows_late(struct pg *pg, const struct uuid *run, int64_t *count_out, struct error *err);

/** A run that waits for its admission. */
struct run_finishing {
    struct uuid run;
    struct resource where; /* the project; the detail is the run */
};
/** Keeps other gateways away from the run; each time for longer. */
RESULT run_row_finishing(struct pg *pg, const char *instance, struct run_finishing *finishing_out, bool *found_out,
                         struct error *err);

/** The policy set that was in force when sijil-keyd was asked first. If it was not asked yet, `set` is kept; else it becomes the earlier one. */
struct run_admission_set {
    uint64_t epoch;
    uint8_t digest[SHA256_SIZE];
};
RESULT run_row_admission(struct pg *pg, const struct uuid *run, struct run_admission_set *set, struct error *err);

/** What a run was made from, and what it made. */
struct run_lineage {
    size_t count;
    struct bytes roles[3 + 64 + 16], names[3 + 64 + 16], repositories[3 + 64 + 16], digests[3 + 64 + 16];
};
RESULT run_rows_lineage(struct pg *pg, const struct uuid *run, const struct run_lineage *lineage, struct error *err);
