/*
 * client/layout.h -- describes files as layers: CNCF ModelPack (model-spec v0.0.7) on an OCI image manifest.
 *
 * Titles come from a registry and are not trusted: a title is used as a path only if title_is_safe() allows it, and files are opened
 * folder by folder without following links.
 */
#pragma once

#include <jansson.h>

#include "base/bytes.h"
#include "registry/names/titles.h"

#define MODEL_ARTIFACT_TYPE "application/vnd.cncf.model.manifest.v1+json"
#define MODEL_CONFIG_TYPE   "application/vnd.cncf.model.config.v1+json"
#define IMAGE_MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define EMPTY_CONFIG_TYPE   "application/vnd.oci.empty.v1+json"
#define EMPTY_CONFIG        "{}" /* image-spec, "Guidance for an Empty Descriptor" */

struct pushed_folder;

/** A file that is pushed. */
struct layer_file {
    const char *path;                   /* its local path */
    const struct pushed_folder *folder; /* if set, the file is opened below this folder by its title; or NULL */
    char title[1024];                   /* its path below the target folder */
    const char *media_type;
    char digest[136];
    uint64_t size;
};

/** The title of a path: the path itself if it is safe; its last part if it is absolute or has "..". ERROR_INVALID if neither is safe. */
RESULT layer_title(const char *path, char *title_out, size_t room, struct error *err);
/** By the end of the name: weights, configuration, documents, code, data; all are dataset layers if `dataset`. */
const char *layer_media_type(const char *title, bool dataset);

/** Appends the config blob: descriptor with the `name` of the whole, digests of the layers, and the format if all weights have the same one. */
RESULT layout_config(const char *name, const struct layer_file *files, size_t count, struct buffer *text, struct error *err);
/** An artifact of any type. */
struct layout {
    const char *artifact_type, *config_type;
    struct bytes config;
    const struct layer_file *files;
    size_t count;
    const json_t *annotations; /* or NULL */
};
/** Appends the manifest. */
RESULT layout_write(const struct layout *layout, struct buffer *text, struct error *err);
/** Appends the manifest of a ModelPack artifact; annotations may be NULL. */
RESULT layout_manifest(const struct layer_file *files, size_t count, struct bytes config, const json_t *annotations,
                       struct buffer *text, struct error *err);

/**
 * Opens `title`, or its part file, below the folder for writing or reading; makes the folders above it if `flags` has O_CREAT. Never
 * follows a symbolic link below the folder.
 */
RESULT title_open(int folder, const char *title, int flags, int *fd_out, struct error *err);
/** Whether a file can get this name below the folder. ERROR_INVALID names the obstacle: a folder, a device, or a link or file in place of
 *  a parent folder. An existing file, or a link to one, will be replaced. */
RESULT title_check_place(int folder, const char *title, struct error *err);
/** Renames inside the folder of `title`, then syncs that folder. */
RESULT title_rename(int folder, const char *from, const char *to, struct error *err);
