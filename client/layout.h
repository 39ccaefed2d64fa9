/*
 * client/layout.h -- how files become layers: CNCF ModelPack (model-spec v0.0.7) on an OCI image manifest.
 *
 * Titles come back from a registry, so they come from strangers: a title is only used as a path after
 * title_is_safe() said yes, and files are opened folder by folder without following links.
 */
#pragma once

#include <jansson.h>

#include "base/bytes.h"

#define MODEL_ARTIFACT_TYPE "application/vnd.cncf.model.manifest.v1+json"
#define MODEL_CONFIG_TYPE   "application/vnd.cncf.model.config.v1+json"
#define IMAGE_MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"

struct pushed_folder;

/** A file that is pushed. */
struct layer_file {
    const char *path;          /* where it is here */
    const struct pushed_folder *folder; /* that it is opened below, by its title; or NULL */
    char title[1024];          /* where it belongs below the target folder */
    const char *media_type;
    char digest[136];
    uint64_t size;
};

/** A file called "x" is on its way as ".x.sijil-part" beside its place. */
#define PART_ENDING ".sijil-part"
/** Relative, no "." or ".." or empty part, no character that steers a terminal (client/terminal.h) and no backslash, each part at most 255 bytes and no name
 *  of a file on its way. */
bool title_is_safe(const char *title);
/** The title of a path: itself if it is safe, its last part if it is absolute or climbs. ERROR_INVALID for neither. */
RESULT layer_title(const char *path, char *title_out, size_t room, struct error *err);
/** By the name's end: weights, configuration, documents; all are dataset layers if `dataset`. */
const char *layer_media_type(const char *title, bool dataset);

/** Appends the config blob: descriptor, format, digests of the layers. */
RESULT layout_config(const struct layer_file *files, size_t count, struct buffer *text, struct error *err);
/** Appends the manifest; annotations may be NULL. */
RESULT layout_manifest(const struct layer_file *files, size_t count, struct bytes config, const json_t *annotations,
                       struct buffer *text, struct error *err);

/**
 * Opens `title`, or the name that it has on its way, below the folder for writing or reading, making the folders
 * above it if `flags` has O_CREAT; never follows a symbolic link below the folder.
 */
RESULT title_open(int folder, const char *title, int flags, int *fd_out, struct error *err);
/** Whether a file may get this name below the folder. ERROR_INVALID names what is in the way: a folder, a device, a link or a
 *  file instead of a folder above it. A file, or a link to one, will be replaced. */
RESULT title_check_place(int folder, const char *title, struct error *err);
/** Renames inside the folder that `title` lies in, then syncs it. */
RESULT title_rename(int folder, const char *from, const char *to, struct error *err);
