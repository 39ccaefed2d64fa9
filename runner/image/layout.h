/*
 * runner/image/layout.h -- an image in a folder of this machine (image-spec, image-layout.md), for `sijil-runner try`.
 */
#pragma once

#include "runner/image/image.h"

struct image_layout;
/** ERROR_INVALID: the folder is no layout with exactly one image. */
RESULT image_layout_open(const char *path, struct image_layout **layout_out, struct error *err);
/** As a source; it lives as long as the layout. */
const struct image_source *image_layout_source(const struct image_layout *layout);
void image_layout_free(struct image_layout *layout);
DEFINE_OWNED(image_layout);
