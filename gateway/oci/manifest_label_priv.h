/* gateway/oci/manifest_label_priv.h -- the label that a pushed manifest brings to its repository. */
#pragma once

#include "gateway/pipeline/handler.h"
#include "policy/label_annotation.h"
#include "registry/stored_manifest.h"

/** Must outlive the record of the push. */
struct manifest_labelling {
    struct brought_label label;
    struct buffer text; /* of the label */
};
/**
 * Sets push->label if the manifest states a label that its repository does not have. *goes_on_out is false if an answer was made: the policies
 * do not let the repository take it. manifest_labelling_done() follows, also after a failure. ERROR_UNAVAILABLE while the policies are not known; ERROR_LIMIT.
 */
RESULT manifest_labelling_find(struct request *request, struct manifest_push *push, struct manifest_labelling *labelling,
                               bool *goes_on_out, struct error *err);
void manifest_labelling_done(struct manifest_labelling *labelling);
#define OWNED_LABELLING __attribute__((cleanup(manifest_labelling_done))) struct manifest_labelling
