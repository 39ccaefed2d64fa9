/*
 * registry/stored_blob_priv.h -- the mark of a damaged blob. Removing it has no permit of a client: it records its own, for a job.
 */
#pragma once

#include "registry/stored_blob.h"

/** Marks a blob whose bytes do not verify, with an event; `where` has its region and digest. If that fails, the next read finds the damage again. Blocks. */
void stored_blob_mark(struct registry *registry, const struct resource *where, const struct uuid *blob);
/** Removes the mark, with an event. Call it after all of the blob was verified. Succeeds if there is no mark. */
RESULT stored_blob_unmark(struct registry *registry, const struct resource *where, const struct uuid *blob, struct error *err);
