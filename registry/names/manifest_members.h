/*
 * registry/names/manifest_members.h -- refuses documents that different parsers would read differently.
 *
 * Go's encoding/json accepts a member's name in any case. It also accepts U+212A (Kelvin sign) for k, and U+017F
 * (long s) for s. For {"layers":[A],"Layers":[B]} a Go client pulls B and this registry would keep A. So a name that
 * differs from a specified name only in case or by these two characters is refused, wherever the specification has names
 * (image-spec 1.1: manifest.md, image-index.md, descriptor.md; Docker's schema 2). Annotations are maps with free keys, so they
 * are not checked. A specified member of another type than the specified one (a text as "platform") would be ignored here and
 * make Go clients fail: it is refused as well. null counts as an absent member.
 */
#pragma once

#include <jansson.h>

#include "base/result.h"

/** ERROR_INVALID names the member. `document` may be any JSON value. */
RESULT manifest_check_members(const json_t *document, struct error *err);
