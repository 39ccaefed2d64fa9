/*
 * runner/image/tree.h -- the files of an unpacked image: how much there is, and what must not be there.
 *
 * Whoever made the image chose every name, link and mode. So no link is followed, and everything is bounded.
 */
#pragma once

#include <stdint.h>

#include "base/result.h"

#define TREE_DEPTH_MAX 64 /* folders in folders */

struct tree_limits {
    int64_t bytes_max, files_max; /* files: also folders and links */
};

/** While the image is unpacked: ERROR_LIMIT if there is more than the limits allow. What goes away meanwhile is not counted. */
RESULT tree_measure(int root, const struct tree_limits *limits, struct error *err);
/**
 * Afterwards, when nobody writes any more: ERROR_INVALID for a device, pipe or socket, for folders that are too deep, and for an /etc that is no
 * folder; ERROR_LIMIT as above. Takes setuid, setgid and sticky bits away, lets the owner read everything, and makes /etc/passwd an ordinary file, for
 * the sandbox's own.
 */
RESULT tree_settle(int root, const struct tree_limits *limits, struct error *err);
