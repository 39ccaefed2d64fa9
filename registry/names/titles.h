/*
 * registry/names/titles.h -- the titles of layers, which become paths of files.
 *
 * A title comes from another person and is not trusted. What a registry vouches for, an output of a training run, has titles that leave no client a
 * choice: each makes the same files of it. All other functions of this folder allocate nothing; these need memory to compare titles.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/result.h"

/** While "x" is fetched, its part file ".x.sijil-part" is in the same folder. */
#define PART_ENDING ".sijil-part"

/** Relative, without "." or ".." or an empty part, without a backslash or a character that steers a terminal (base/terminal_text.h); each part
 *  has at most 255 bytes. A part file has such a path, too. */
bool title_is_path(const char *title);
/** The same, and it is not the name of a part file. */
bool title_is_safe(const char *title);

/** The title of a layer, or ModelPack's path; NULL: the layer has no name, and becomes no file. */
const char *title_of_layer(const json_t *layer);

/**
 * Whether the layers with names can be files of one folder: no two have the same name, and none is the folder of another. ERROR_INVALID,
 * ERROR_NO_MEMORY.
 */
RESULT titles_check_apart(const json_t *layers, struct error *err);

/**
 * Whether every client makes the same files of `layers`: also each layer has a title, which is safe; it has no other annotation, but ModelPack's path
 * with the same text; and nothing says that the layer is an archive to be unpacked. ERROR_INVALID, ERROR_NO_MEMORY.
 */
RESULT titles_check_files(const json_t *layers, struct error *err);
