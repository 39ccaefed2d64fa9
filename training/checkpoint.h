/*
 * training/checkpoint.h -- the checkpoints of a run: kept while it goes on, and named by a request that continues from one (docs/runs.md).
 *
 * A checkpoint lies in the repository of the first output, so it has the label of all that the run reads, and a place that was decided before
 * the start. Before the call the caller finds the runner's key in a document in force.
 */
#pragma once

#include "registry/stored_manifest.h"
#include "training/lease.h"

extern const struct pg_table run_checkpoint_table;

#define RUN_CHECKPOINT_FILES_MAX 4096 /* as for the outputs of a run */
#define RUN_CHECKPOINTS_SHOWN    16   /* of a run; more than two only if open runs are to continue from older ones */

/**
 * Whether a manifest, whose bytes are `text`, is that of a checkpoint (docs/formats/run.md): its type, the empty config, no subject, a layer with a title for each
 * file, all layers here, and at most `bytes_max` of them. ERROR_INVALID, ERROR_DENIED.
 */
RESULT run_checkpoint_check(const struct manifest *manifest, struct bytes text, int64_t bytes_max, struct error *err);

/**
 * A change by the holder of a lease: keeps a checkpoint, and removes older ones of the run. The same one again becomes the newest. ERROR_CONFLICT: the
 * lease has ended. ERROR_INVALID: a blob is missing. The permit: run.checkpoint on `where`, the repository of the first output.
 */
struct run_checkpoint {
    struct change change;
    struct resource where;
    struct run_holder holder;
    const struct manifest_push *push; /* prepared; must outlive the change */
    char detail[CHANGE_DETAIL_MAX + 1];
};
void run_checkpoint_prepare(const struct resource *where, const struct run_holder *holder, const struct manifest_push *push,
                            struct run_checkpoint *checkpoint_out);

/** The kept checkpoints of a run, the newest first, at most RUN_CHECKPOINTS_SHOWN. Call run_find() first. The permit: of `action`, on the project. */
RESULT run_checkpoints(const struct permit *permit, struct pg *pg, enum action action, const struct uuid *run,
                       struct pg_rows **rows_out, struct error *err) __attribute__((nonnull));
enum run_checkpoint_column {
    RUN_CHECKPOINT_DIGEST,
    RUN_CHECKPOINT_REPOSITORY,
    RUN_CHECKPOINT_ATTEMPT,
    RUN_CHECKPOINT_BYTES,
    RUN_CHECKPOINT_KEPT,
    RUN_CHECKPOINT_UNTIL /* NULL while the run is open, or another one is to continue from it */
};
