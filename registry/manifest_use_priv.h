/*
 * registry/manifest_use_priv.h -- notes in memory when manifests were last pulled, and writes that periodically.
 *
 * For rules that keep pulled manifests, and so that a manifest that a client was just told of is not collected as
 * unused. The times are accurate to an hour. Notes that were not written yet are lost if a gateway dies. A note never
 * blocks for long and never fails; for any number of threads. While the database is away the notes may reach their
 * bound: then a pull is only counted (sijil_pulls_not_noted_total), and noted when the manifest is pulled again.
 */
#pragma once

#include "base/owned.h"
#include "base/uuid.h"
#include "storage/pg.h"

struct manifest_uses;

RESULT manifest_uses_new(struct manifest_uses **uses_out, struct error *err);
void manifest_uses_note(struct manifest_uses *uses, const struct uuid *repository, const char *digest);
/** Are there so many notes that they should be written before the next period? */
bool manifest_uses_are_many(struct manifest_uses *uses);
/** Writes all notes; those that fail are kept for the next call. Blocks. */
RESULT manifest_uses_write(struct manifest_uses *uses, struct pg *pg, struct error *err);
void manifest_uses_free(struct manifest_uses *uses);
DEFINE_OWNED(manifest_uses);
