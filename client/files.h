/*
 * client/files.h -- the files of a push, given one by one or as folders.
 *
 * A given file keeps its relative path. A file of a given folder has its path below that folder, so that a pull into an empty folder makes
 * the same folder. Symbolic links to given files are followed. Below a folder, a link to a file of that folder is followed; a link that
 * leaves it is refused, at each opening, unless the user allows it. The reason: the folder may come from another person, and must not
 * publish files that only the user can read. Links to folders are refused.
 */
#pragma once

#include <sys/types.h>

#include "base/owned.h"
#include "client/layout.h"

#define PUSH_FILES_MAX 4096 /* a manifest of this many layers with names of 300 bytes is below 4 MiB, the limit of registries */

/** A listed folder. It is opened again for each file, and must still be the same. */
struct pushed_folder {
    struct pushed_folder *next;
    char *path;
    dev_t device;
    ino_t inode;
};

struct file_list {
    struct layer_file *files; /* `path` belongs to the list; digests are not set yet */
    size_t count, room;
    struct pushed_folder *folders; /* belong to the list */
    bool follows_links;            /* also if they leave a folder */
};

/** Checks every file without reading any. ERROR_NOT_FOUND; ERROR_INVALID names the file, or the link that leaves its folder; ERROR_LIMIT
 *  for too many. */
RESULT file_list_add(struct file_list *list, const char *path, bool is_dataset, struct error *err);
/** ERROR_INVALID if two files have the same name, or if there is no file. */
RESULT file_list_check(const struct file_list *list, struct error *err);
/** Opens a listed file for reading. The errors of file_list_add(), also if the file has changed since. */
RESULT file_list_open(const struct layer_file *file, int *fd_out, struct error *err);
void file_list_done(struct file_list *list);
#define OWNED_FILE_LIST __attribute__((cleanup(file_list_done))) struct file_list
