/* detection/copies_priv.h -- where else the bytes lie that an event has brought into a repository, and whether under another label. */
#pragma once

#include "audit/format/leaf.h"
#include "detection/detective.h"
#include "detection/engine.h"
#include "storage/pg.h"

#define COPY_COMMON \
    3 /* bytes that more projects than these have without a label are common: the base of images, a public data set */
#define COPY_STRICT_MAX 8 /* places with a stricter label for which it is asked whether the bytes are common */

struct copy_source {
    struct pg *pg;
    const struct label_comparison *labels;
};
/** Fills known->copy in. `leaf` satisfies detector_is_arrival(). */
RESULT known_copy_of(const struct copy_source *source, const struct leaf *leaf, struct event_known *known, struct error *err)
    __attribute__((nonnull));
/** Bytes that everybody has: of nothing, of an empty object, of an empty layer. */
bool copy_is_trivial(const char *digest);
