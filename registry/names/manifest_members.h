/*
 * registry/names/manifest_members.h -- one document, one reading: names that don't look like others, values of their types.
 *
 * Go's encoding/json takes a member's name in any case, and with K (U+212A) and U+017F (long s) for k and s. Of {"layers":[A],"Layers":[B]} a Go
 * client pulls B and this registry would keep A. So a name that differs from a specified one by that folding alone is refused,
 * wherever the specification has names (image-spec 1.1: manifest.md, image-index.md, descriptor.md; Docker's schema 2).
 * Annotations are maps, whose keys are anybody's. A specified member of another type than the specified one (a text as "platform")
 * would be read here by nobody and end the reading of Go clients: it is refused as well. null is as if the member were not there.
 */
#pragma once

#include <jansson.h>

#include "base/result.h"

/** ERROR_INVALID names the member. `document` may be any JSON value. */
RESULT manifest_check_members(const json_t *document, struct error *err);
