/*
 * client/files.h -- the files that a push names, one by one or as folders.
 *
 * A file keeps the relative path that it was named by; a file of a folder has its path below that folder, so that a pull
 * into an empty folder gives the folder again. A file that is named itself is followed through symbolic links. Below a folder,
 * a link to a file of that folder is followed; a link out of it is refused, at each opening, unless the user wants it followed:
 * a folder may come from somebody else, and must not publish what the user can read. Links to folders are refused.
 */
#pragma once

#include <sys/types.h>

#include "base/owned.h"
#include "client/layout.h"

#define PUSH_FILES_MAX 4096 /* a manifest of so many layers with names of 300 bytes is below the 4 MiB that registries take */

/** A folder that was listed. It is opened again for each file, and must be the same. */
struct pushed_folder {
    struct pushed_folder *next;
    char *path;
    dev_t device;
    ino_t inode;
};

struct file_list {
    struct layer_file *files; /* `path` belongs to the list; digests are not there yet */
    size_t count, room;
    struct pushed_folder *folders; /* belong to the list */
    bool follows_links;            /* also out of a folder */
};

/** Looks at every file; reads none. ERROR_NOT_FOUND, ERROR_INVALID names the file or the link that leads out of its
 *  folder, ERROR_LIMIT for too many. */
RESULT file_list_add(struct file_list *list, const char *path, bool is_dataset, struct error *err);
/** ERROR_INVALID if two files have one name, or if there is none. */
RESULT file_list_check(const struct file_list *list, struct error *err);
/** Opens a listed file for reading. The errors of file_list_add(), also for what has changed since. */
RESULT file_list_open(const struct layer_file *file, int *fd_out, struct error *err);
void file_list_done(struct file_list *list);
#define OWNED_FILE_LIST __attribute__((cleanup(file_list_done))) struct file_list
