/*
 * client/layers.h -- the named layers of a manifest, which become files of a folder.
 *
 * Nothing here is trusted: all names are checked before the first byte is written.
 */
#pragma once

#include <jansson.h>

#include "client/session.h"
#include "registry/names/titles.h"

#define LAYERS_MAX 10000 /* more than any model has files */

/** Whether `layers`, of a manifest, is a list of layers with safe names that can all be files of one folder. ERROR_INVALID, ERROR_NO_MEMORY. */
RESULT layers_check(const json_t *layers, struct error *err);

/** A layer with a name. Views into the manifest. */
struct layer {
    const char *title, *digest;
    uint64_t size;
};
/** ERROR_INVALID for a name that is not safe; ERROR_CORRUPT: it has no digest or size. */
RESULT layer_read(const json_t *layer, struct layer *layer_out, struct error *err);

/** Where an artifact is. */
struct layer_source {
    struct session *session;
    const char *repository, *scope;
};
/**
 * Fetches a layer to its title below `folder`, which has no such file, and compares it with its digest. *fd_out is the file, open. For
 * an interrupted fetch nothing is kept. ERROR_CORRUPT, and the errors of fetch_blob().
 */
RESULT layer_fetch(const struct layer_source *source, const struct layer *layer, int folder, int *fd_out, struct error *err);
