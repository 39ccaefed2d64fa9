/*
 * registry/manifest_use.h -- which manifests were asked for, noted in memory and written now and then.
 *
 * For rules that keep what is pulled, and so that a manifest that a client was just told of is not collected as unused. A
 * hint to an hour: what a gateway noted since its last writing is lost with it. Noting never blocks for long and never
 * fails; for any number of threads. Past a bound, which takes a database that is away, a pull is only counted
 * (sijil_pulls_not_noted_total), and noted when the manifest is pulled again.
 */
#pragma once

#include "base/owned.h"
#include "base/uuid.h"
#include "storage/pg.h"

struct manifest_uses;

RESULT manifest_uses_new(struct manifest_uses **uses_out, struct error *err);
void manifest_uses_note(struct manifest_uses *uses, const struct uuid *repository, const char *digest);
/** So many wait that they should be written now, not when the clock says so. */
bool manifest_uses_are_many(struct manifest_uses *uses);
/** Writes what was noted since the last time; what fails is kept for the next time. Blocks. */
RESULT manifest_uses_write(struct manifest_uses *uses, struct pg *pg, struct error *err);
void manifest_uses_free(struct manifest_uses *uses);
DEFINE_OWNED(manifest_uses);
