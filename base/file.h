/*
 * base/file.h -- files, with every system call that can fail made to fail in tests.
 *
 * Errors name the path and the reason. A disk without room is ERROR_FULL; everything else that the disk does is
 * ERROR_UNAVAILABLE; a file that is not there is ERROR_NOT_FOUND. An fsync that failed is never retried: the kernel
 * has dropped the pages, so the bytes are lost.
 */
#pragma once

#include <dirent.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/bytes.h"

/** A descriptor that closes itself: `OWNED_FD fd = -1;` */
void file_close_owned(int *fd);
#define OWNED_FD __attribute__((cleanup(file_close_owned))) int

/** open(2) with O_CLOEXEC added. ERROR_CONFLICT for O_EXCL on an existing file. */
RESULT file_open(const char *path, int flags, mode_t mode, int *fd_out, struct error *err);
RESULT file_open_at(int directory, const char *name, int flags, mode_t mode, int *fd_out, struct error *err);
/** Opens an existing file for reading, never through a symbolic link, if the kernel knows its name without asking a disk; false: not
 *  without waiting, or not at all. */
bool file_open_at_once(int directory, const char *name, int *fd_out);
/** Exactly `length` bytes at `offset`; a file that ends before is ERROR_CORRUPT. */
RESULT file_read_at(int fd, void *into, size_t length, uint64_t offset, struct error *err);
/** Up to `length` bytes; *length_out is less only at the end. */
RESULT file_read_some(int fd, void *into, size_t length, uint64_t offset, size_t *length_out, struct error *err);
/** Exactly `length` bytes at `offset` if the kernel has them all in memory; false: not without waiting, or not at all. */
bool file_read_at_once(int fd, void *into, size_t length, uint64_t offset);
RESULT file_write_at(int fd, const void *from, size_t length, uint64_t offset, struct error *err);
RESULT file_write_all(int fd, const void *from, size_t length, struct error *err);
RESULT file_sync(int fd, struct error *err);      /* fsync */
RESULT file_sync_data(int fd, struct error *err); /* fdatasync */
RESULT file_size(int fd, uint64_t *size_out, struct error *err);

/** The whole file, at most the buffer's maximum (then ERROR_LIMIT). Appends. */
RESULT file_read(const char *path, struct buffer *content, struct error *err);
/**
 * Replaces `path` so that after a crash either the old or the new content is there: temporary file beside it,
 * fsync, rename, fsync of the folder.
 */
RESULT file_replace(const char *path, struct bytes content, mode_t mode, struct error *err);
/** The same inside an open folder. */
RESULT file_replace_at(int directory, const char *name, struct bytes content, mode_t mode, struct error *err);
/**
 * Writes what a user asked to have in a place that the user named. "-" is standard output. A regular file, also one behind a
 * symbolic link, is replaced as file_replace() does, in its own folder: the link stays. What is no regular file (a device, a
 * pipe) is opened and written to. ERROR_INVALID for a folder, and for a link to nothing.
 */
RESULT file_write_output(const char *path, struct bytes content, mode_t mode, struct error *err);
/**
 * Opens what lies below `directory`, wherever the symbolic links on the way lead, as long as they stay below it (openat2(2),
 * RESOLVE_BENEATH). ERROR_DENIED for one that leads out; ERROR_INVALID if the kernel can't tell.
 */
RESULT file_open_beneath(int directory, const char *path, int flags, int *fd_out, struct error *err);
/** mkdir(2); an existing folder is fine. The parent folder is fsynced. */
RESULT file_make_directory(const char *path, mode_t mode, struct error *err);
/** unlink and fsync of the folder; a file that is not there is fine. */
RESULT file_remove_at(int directory, const char *name, struct error *err);
/**
 * rename(2) and fsync of the folder, which both lie in. When only the fsync fails, the new name may be there, and may be
 * gone after a crash.
 */
RESULT file_rename(const char *from, const char *to, struct error *err);
RESULT file_rename_at(int directory, const char *from, const char *to, struct error *err);
/** Whether anything has this name. What can't be looked at is an error, never "not there". */
RESULT file_is_there(const char *path, bool *there_out, struct error *err);
/** fstat(2), and that of a name in an open folder, of a symbolic link itself. */
RESULT file_status(int fd, struct stat *status_out, struct error *err);
RESULT file_status_at(int directory, const char *name, struct stat *status_out, struct error *err);
/** The next name of a folder but "." and "..", good until the next call; NULL at the end. */
RESULT file_list_next(DIR *listing, const char **name_out, struct error *err);
