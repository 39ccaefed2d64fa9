/* gateway/oci/manifest_evidence_priv.h -- the evidence that policies demand of a push (docs/policies.md, "Evidence"). */
#pragma once

#include "gateway/pipeline/handler.h"
#include "registry/stored_manifest.h"

#define EVIDENCE_ANNOTATION "sijil.evidence." /* and the name of the evidence */

/**
 * *goes_on_out is false if an answer was made: a policy demands evidence, and the manifest names none of its blobs as that. ERROR_UNAVAILABLE while the policies are not
 * known; ERROR_LIMIT.
 */
RESULT manifest_evidence_check(struct request *request, const struct manifest_push *push, bool *goes_on_out, struct error *err);
