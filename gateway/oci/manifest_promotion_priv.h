/* gateway/oci/manifest_promotion_priv.h -- which pushes are promotions (docs/policies.md, "Promotions"). */
#pragma once

#include "gateway/pipeline/handler.h"
#include "registry/stored_manifest.h"

/**
 * Sets push->is_promotion: a tag that the project's rules protect, or bytes that the client may read in another project. *goes_on_out is false if an answer
 * was made: the policies of that other repository let its content not be promoted to here. ERROR_UNAVAILABLE while the policies are not known; ERROR_LIMIT.
 */
RESULT manifest_promotion_find(struct request *request, struct pg *pg, struct manifest_push *push, bool *goes_on_out,
                               struct error *err);
