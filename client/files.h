/*
 * client/files.h -- the files that a push names, one by one or as folders.
 *
 * A file keeps the relative path that it was named by; a file of a folder has its path below that folder, so that a pull
 * into an empty folder gives the folder again. Symbolic links to files are followed, those to folders are refused.
 */
#pragma once

#include "base/owned.h"
#include "client/layout.h"

#define PUSH_FILES_MAX 4096 /* a manifest of so many layers with names of 300 bytes is below the 4 MiB that registries take */

struct file_list {
    struct layer_file *files; /* `path` belongs to the list; digests are not there yet */
    size_t count, room;
};

/** Looks at every file; reads none. ERROR_NOT_FOUND, ERROR_INVALID names the file, ERROR_LIMIT for too many. */
RESULT file_list_add(struct file_list *list, const char *path, bool is_dataset, struct error *err);
/** ERROR_INVALID if two files have one name, or if there is none. */
RESULT file_list_check(const struct file_list *list, struct error *err);
void file_list_done(struct file_list *list);
#define OWNED_FILE_LIST __attribute__((cleanup(file_list_done))) struct file_list
