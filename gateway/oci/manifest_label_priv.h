/* gateway/oci/manifest_label_priv.h -- the label that a pushed manifest, or a mounted blob, brings to its repository. */
#pragma once

#include "gateway/pipeline/handler.h"
#include "policy/label_annotation.h"
#include "registry/stored_blob.h"
#include "registry/stored_manifest.h"

/** Must outlive the record of the push. */
struct manifest_labelling {
    struct brought_label label;
    struct buffer text; /* of the label */
};
/**
 * Sets push->label if the manifest states a label that its repository does not have, or was made from content that has one. *goes_on_out is false if an answer was
 * made: the policies do not let the repository take it, or it names a base that the client may not see. manifest_labelling_done() follows, also after a failure.
 * ERROR_UNAVAILABLE while the policies are not known; ERROR_LIMIT.
 */
RESULT manifest_labelling_find(struct request *request, struct pg *pg, struct manifest_push *push,
                               struct manifest_labelling *labelling, bool *goes_on_out, struct error *err);
/**
 * The same for a mount: sets mount->label if the target does not have the label of the source. *goes_on_out is false if it can't take it; no answer is
 * made then. `pairs`: of the mount.
 */
RESULT mount_labelling_find(struct request *request, const struct action_pair *pairs, struct blob_mount *mount,
                            struct manifest_labelling *labelling, bool *goes_on_out, struct error *err);
/**
 * For a push whose content may not be in its repository: records that it failed, with the note, and shreds what only it has brought. ERROR_UNAVAILABLE:
 * nothing was shredded, and the answer says so.
 */
RESULT manifest_shred(struct request *request, const struct manifest *manifest, const char *note, struct error *err);
#define LABEL_IS_REFUSED "its label is refused, and what only this push has brought is shredded"
void manifest_labelling_done(struct manifest_labelling *labelling);
#define OWNED_LABELLING __attribute__((cleanup(manifest_labelling_done))) struct manifest_labelling
