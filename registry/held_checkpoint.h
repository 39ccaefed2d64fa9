/*
 * registry/held_checkpoint.h -- checkpoints of training runs (docs/runs.md, "Checkpoints"). Nobody can pull one; a run whose order names it gets it.
 *
 * They are sealed like manifests. Their blobs are not collected as long as the checkpoint is kept.
 */
#pragma once

#include "registry/stored_manifest.h"

extern const struct pg_table held_checkpoint_statements;

struct held_checkpoint {
    struct uuid run;
    int64_t attempt;
    const char *key;                  /* thumbprint of the runner's key */
    const struct manifest_push *push; /* manifest_push_prepare() has sealed it for this run */
    int64_t content_bytes;
};

/**
 * For changes: stores it. The same checkpoint of the same run again becomes the newest. ERROR_INVALID: a blob is not in the repository, is
 * damaged, or has another size. The permit: run.checkpoint on the repository.
 */
RESULT held_checkpoint_insert(const struct permit *permit, struct pg *pg, const struct held_checkpoint *checkpoint,
                              struct error *err) __attribute__((nonnull));

/**
 * The manifest of a checkpoint that is kept in the repository of the query, for query->run, whose order names it. It opens only as one of the run that
 * was noted when query->run was asked for: what becomes of that run's results has effect on this run's. The permit: run.fetch. ERROR_NOT_FOUND, ERROR_CORRUPT.
 */
RESULT held_checkpoint_find(const struct permit *permit, struct registry *registry, struct pg *pg,
                            const struct manifest_query *query, struct stored_manifest **manifest_out, struct error *err)
    __attribute__((nonnull));
/**
 * Whether the blob belongs to such a checkpoint: its own sealed manifest is asked, not the table of its blobs. ERROR_NOT_FOUND: it does not, or there is
 * no such checkpoint; ERROR_CORRUPT. The permit: run.fetch.
 */
RESULT held_checkpoint_has(const struct permit *permit, struct registry *registry, struct pg *pg,
                           const struct manifest_query *query, const char *blob, struct error *err) __attribute__((nonnull));
