/*
 * runner/image/plan.h -- which blobs an OCI image has, read from its manifest (image-spec, manifest.md).
 *
 * Nothing of a manifest is trusted: the unpacker gets a manifest that is written here, from the checked parts alone.
 */
#pragma once

#include "crypto/digest.h"

#define IMAGE_LAYERS_MAX   128 /* overlayfs and container engines take no more */
#define IMAGE_MANIFEST_MAX ((size_t)4 << 20)
#define IMAGE_CONFIG_MAX   (1 << 20)

struct image_part {
    char digest[DIGEST_TEXT_SIZE]; /* of SHA-256 */
    int64_t size;
    bool is_gzip; /* of a layer: else a plain tar */
};

struct image_plan {
    struct image_part config;
    size_t count;
    struct image_part layers[IMAGE_LAYERS_MAX];
};

/**
 * ERROR_INVALID: it is no image of tar layers, plain or with gzip (OCI's or Docker's media types); the message says what to do about an index, and
 * about other layers. ERROR_LIMIT: too many layers, or too large.
 */
RESULT image_plan_read(struct bytes manifest, struct image_plan *plan_out, struct error *err);
/** Appends an OCI manifest of these parts. */
RESULT image_plan_write(const struct image_plan *plan, struct buffer *text, struct error *err);
/** The hex digits of the digest: the name of its file in an image layout. */
const char *image_part_name(const struct image_part *part);
