/*
 * registry/manifest.h -- parses manifests. Their bytes are kept unchanged.
 *
 * Rule: parsing never changes or replaces the bytes; they are stored, digested and served verbatim, with unknown
 * fields. Supported are OCI image manifests and indexes (image-spec 1.1, manifest.md, image-index.md) and Docker's
 * schema 2 manifests and lists. ERROR_INVALID names the field; ERROR_LIMIT past the stated bounds.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "crypto/digest.h"

#define MANIFEST_SIZE_MAX                 ((size_t)4 << 20) /* distribution-spec: at least 4 MiB must be accepted */
#define MANIFEST_REFERRER_ANNOTATIONS_MAX ((size_t)2 << 20) /* as canonical JSON, of a manifest with a subject */
#define MANIFEST_REFERENCES_MAX           16384             /* descriptors; the shortest ones in 4 MiB would be twice as many */
#define MEDIA_TYPE_MAX                    255               /* RFC 6838, 4.2: 127 characters on each side of the slash */

#define BASE_NAME_MAX 255 /* of a repository: RESOURCE_NAME_MAX */

#define MEDIA_TYPE_IMAGE       "application/vnd.oci.image.manifest.v1+json"
#define MEDIA_TYPE_INDEX       "application/vnd.oci.image.index.v1+json"
#define MEDIA_TYPE_DOCKER      "application/vnd.docker.distribution.manifest.v2+json"
#define MEDIA_TYPE_DOCKER_LIST "application/vnd.docker.distribution.manifest.list.v2+json"

#define MANIFEST_BASES_MAX  16           /* repositories that a manifest names as what its content was made from */
#define BASE_ANNOTATION     "sijil.base" /* "organisation/project/name" or "...@digest", with spaces between */
#define OCI_BASE_ANNOTATION "org.opencontainers.image.base.name" /* image-spec, annotations.md */

enum manifest_kind { MANIFEST_IMAGE, MANIFEST_INDEX };

/** One descriptor: a config, a layer, or a child manifest. */
struct manifest_reference {
    char digest[DIGEST_TEXT_SIZE];
    int64_t size_bytes;
    const char *media_type; /* of a manifest, from the index: one of those above. NULL for blobs */
    bool is_manifest;
    bool is_required; /* must be in the repository at the push; false for layers that are non-distributable or have urls */
};

struct manifest {
    enum manifest_kind kind;
    char media_type[MEDIA_TYPE_MAX + 1];    /* as it will be served */
    char artifact_type[MEDIA_TYPE_MAX + 1]; /* artifactType, or else the config's media type; "" if neither */
    char config_type[MEDIA_TYPE_MAX + 1];   /* the config's media type; "" without one */
    char subject[DIGEST_TEXT_SIZE];         /* "" without one; it need not exist */
    size_t base_count;
    char (*bases)[BASE_NAME_MAX + 1]; /* names of repositories, from BASE_ANNOTATION; owned */
    char *
        oci_base; /* OCI_BASE_ANNOTATION, as it stands: "host/organisation/project/name:tag", or of any other registry; owned; NULL: none */
    char *label; /* canonical JSON of the label that it states of its content (policy/label_annotation.h); owned; NULL: none */
    size_t reference_count; /* each (digest, is_manifest) once, in byte order of the digest */
    struct manifest_reference *references;
};

/** Is it a supported media type for manifests? Parameters such as "; charset=utf-8" are ignored. */
bool manifest_media_type_is_known(struct bytes content_type);

/**
 * Parses at most MANIFEST_SIZE_MAX bytes. `content_type` is the request's, in upper or lower case, or empty. It must
 * agree with the document's mediaType if both are given. The caller owns *manifest_out.
 */
RESULT manifest_parse(struct bytes body, struct bytes content_type, struct manifest **manifest_out, struct error *err);
void manifest_free(struct manifest *manifest);
DEFINE_OWNED(manifest);
