/* registry/manifest_use_store.h -- the table `manifest_use`: when a manifest was last pulled. */
#pragma once

#include "crypto/digest.h"
#include "storage/pg.h"

struct manifest_use {
    struct uuid repository;
    char digest[DIGEST_TEXT_SIZE];
};
RESULT manifest_uses_insert(struct pg *pg, const struct manifest_use *uses, size_t count, struct error *err);
/** Deletes rows of manifests that do not exist any more. */
RESULT manifest_uses_clean(struct pg *pg, const struct uuid *repository, struct error *err);
/** The same for the next few thousand rows after *last, of all projects; sets *last to the last of them. */
RESULT manifest_uses_clean_some(struct pg *pg, struct manifest_use *last, bool *found_out, struct error *err);
