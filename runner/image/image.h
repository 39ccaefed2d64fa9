/*
 * runner/image/image.h -- makes an OCI image the root of a run: fetched by digest, unpacked by umoci(1) in a sandbox of its own, and checked.
 *
 * The unpacker runs as the payload's user, without privileges and without a network: it writes into one folder, which is watched while it
 * grows. Everything lies in the folder of the run, and goes away with it: nothing of an image outlives its run.
 */
#pragma once

#include "base/bytes.h"
#include "runner/image/plan.h"
#include "runner/sandbox/sandbox.h"

#define IMAGE_TOOL        "/usr/bin/umoci"
#define IMAGE_BYTES_LEAST (INT64_C(1) << 20)
#define IMAGE_BYTES       (INT64_C(32) << 30) /* of an unpacked image, if nobody says otherwise */

struct image_source {
    /** Appends the manifest, which has the digest that was asked for. */
    RESULT (*manifest)(void *context, struct buffer *text, struct error *err);
    /** Writes a blob of this digest and size to the new file `name` in the open folder. ERROR_CORRUPT: it has other bytes. */
    RESULT (*blob)(void *context, const struct image_part *part, int folder, const char *name, struct error *err);
    void *context;
};

struct image_options {
    const struct image_source *source;
    int64_t bytes_max;                 /* of the unpacked files, and of the packed ones */
    const struct sandbox_options *run; /* work, user, inside, cgroup, isolation, addresses and cancelled are those of the run */
};

/** ERROR_NOT_FOUND, with the way out, if this machine has no umoci. */
RESULT image_tool_check(struct error *err);
/**
 * Writes the image as a layout into the run's folder. A repeated call begins anew. ERROR_INVALID, ERROR_CORRUPT: it can't be used;
 * ERROR_LIMIT: it is larger than allowed; ERROR_FULL: than the disk. Others are those of the source.
 */
RESULT image_fetch(const struct image_options *options, const struct sandbox_folder *folder, struct error *err);
/** Unpacks it to `root` in the run's folder, and removes the layout. Errors as above; ERROR_UNAVAILABLE: cancelled, or this machine failed. */
RESULT image_unpack(const struct image_options *options, const struct sandbox_folder *folder, struct error *err);
