/*
 * client/manifest.h -- fetches and puts manifests and indexes byte for byte, and verifies their digests.
 */
#pragma once

#include <jansson.h>

#include "client/reference.h"
#include "client/session.h"
#include "crypto/digest.h"

#define ACCEPTED_MANIFESTS "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
#define ACCEPTED_INDEXES   "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json"

struct manifest {
    struct buffer bytes;
    char digest[DIGEST_TEXT_SIZE], media_type[160];
    json_t *json;
};
void manifest_done(struct manifest *manifest);
#define OWNED_MANIFEST __attribute__((cleanup(manifest_done))) struct manifest
#define MANIFEST       ((struct manifest){.bytes = BUFFER(HTTP_ANSWER_MAX)})

/** `reference` is a tag or a digest of the repository. ERROR_CORRUPT if the bytes do not have the digest of the reference, or the one that
 *  the registry names; ERROR_NOT_FOUND. */
RESULT manifest_fetch(struct session *session, const char *scope, const struct remote_reference *reference, const char *accept,
                      struct manifest *manifest, struct error *err);
/** Puts the same bytes under the tag or digest of `target`. */
RESULT manifest_put(struct session *session, const char *scope, const struct remote_reference *target,
                    const struct manifest *manifest, struct error *err);
/** True for an index or a manifest list. */
bool manifest_is_index(const struct manifest *manifest);
