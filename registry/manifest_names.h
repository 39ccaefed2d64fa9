/*
 * registry/manifest_names.h -- one document, one reading: no name in a manifest looks like another one.
 *
 * Go's encoding/json takes a member's name in any case, and with K (U+212A) and U+017F (long s) for k and s. Of {"layers":[A],"Layers":[B]} a Go
 * client pulls B and this registry would keep A. So a name that differs from a specified one by that folding alone is refused,
 * wherever the specification has names (image-spec 1.1: manifest.md, image-index.md, descriptor.md; Docker's schema 2).
 * Annotations are maps, whose keys are anybody's.
 */
#pragma once

#include <jansson.h>

#include "base/result.h"

/** ERROR_INVALID names the member. `document` may be any JSON value. */
RESULT manifest_check_names(const json_t *document, struct error *err);
