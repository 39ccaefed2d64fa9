/*
 * base/file.h -- files; tests can make each system call fail.
 *
 * Errors name the path and the reason. A full disk is ERROR_FULL, any other failure of the disk ERROR_UNAVAILABLE, a
 * missing file ERROR_NOT_FOUND. A failed fsync is never retried: the kernel has dropped the pages, so the bytes are lost.
 */
#pragma once

#include <dirent.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/bytes.h"

/** A descriptor that closes itself: `OWNED_FD fd = -1;` */
void file_close_owned(int *fd);
#define OWNED_FD __attribute__((cleanup(file_close_owned))) int

/** The open list of a folder, which closes itself: `OWNED_LISTING listing = NULL;` */
void file_close_listing(DIR **listing);
#define OWNED_LISTING __attribute__((cleanup(file_close_listing))) DIR *

/** open(2) with O_CLOEXEC added. ERROR_CONFLICT for O_EXCL on an existing file. */
RESULT file_open(const char *path, int flags, mode_t mode, int *fd_out, struct error *err);
RESULT file_open_at(int directory, const char *name, int flags, mode_t mode, int *fd_out, struct error *err);
/** Opens an existing file for reading, never through a symbolic link, if the kernel has its name in memory. False: opening
 *  it would have to wait, or would fail. */
bool file_open_cached(int directory, const char *name, int *fd_out);
/** Reads exactly `length` bytes at `offset`. ERROR_CORRUPT if the file ends before. */
RESULT file_read_at(int fd, void *into, size_t length, uint64_t offset, struct error *err);
/** Reads up to `length` bytes; *length_out is less only at the end of the file. */
RESULT file_read_some(int fd, void *into, size_t length, uint64_t offset, size_t *length_out, struct error *err);
/** Reads exactly `length` bytes at `offset` if the kernel has all of them in memory. False: the read would have to wait, or would
 *  fail. */
bool file_read_cached(int fd, void *into, size_t length, uint64_t offset);
RESULT file_write_at(int fd, const void *from, size_t length, uint64_t offset, struct error *err);
RESULT file_write_all(int fd, const void *from, size_t length, struct error *err);
RESULT file_sync(int fd, struct error *err);      /* fsync */
RESULT file_sync_data(int fd, struct error *err); /* fdatasync */
RESULT file_size(int fd, uint64_t *size_out, struct error *err);

/** Appends the whole file. ERROR_LIMIT if it is larger than the buffer's maximum, ERROR_INVALID for a folder. */
RESULT file_read(const char *path, struct buffer *content, struct error *err);
/** As file_read(), for a secret. ERROR_DENIED if others may read it. */
RESULT file_read_private(const char *path, struct buffer *content, struct error *err);
/**
 * Replaces `path`. After a crash either the old or the new content is there: temporary file in the same folder, fsync,
 * rename, fsync of the folder.
 */
RESULT file_replace(const char *path, struct bytes content, mode_t mode, struct error *err);
/** As file_replace(), for a name in an open folder. */
RESULT file_replace_at(int directory, const char *name, struct bytes content, mode_t mode, struct error *err);
/** Removes the name, and what a killed process has left of its file_replace_at(). There may be neither. */
void file_remove_at(int directory, const char *name);
/**
 * Writes output to a path that the user named; "-" is standard output. A regular file, also one behind a symbolic link, is
 * replaced as by file_replace(), in its own folder; the link stays. Another file, such as a device or a pipe, is opened and
 * written to. ERROR_INVALID for a folder, and for a link to nothing.
 */
RESULT file_write_output(const char *path, struct bytes content, mode_t mode, struct error *err);
/**
 * Opens a path below `directory`. Symbolic links are followed as long as they stay below it (openat2(2), RESOLVE_BENEATH).
 * ERROR_DENIED for a link that leads out; ERROR_INVALID if the kernel does not support this.
 */
RESULT file_open_beneath(int directory, const char *path, int flags, int *fd_out, struct error *err);
/** mkdir(2); an existing folder is fine. The parent folder is fsynced. */
RESULT file_make_directory(const char *path, mode_t mode, struct error *err);
/** rename(2) inside one folder, and fsync of the folder. If only the fsync fails, the new name is there, but may be gone after a
 *  crash. */
RESULT file_rename(const char *from, const char *to, struct error *err);
RESULT file_rename_at(int directory, const char *from, const char *to, struct error *err);
/** Whether a file of this name exists. A failed check is an error, and never means that the file does not exist. */
RESULT file_is_there(const char *path, bool *there_out, struct error *err);
/** fstat(2) of an open file. */
RESULT file_status(int fd, struct stat *status_out, struct error *err);
/** fstatat(2) of a name in an open folder. A symbolic link is not followed. */
RESULT file_status_at(int directory, const char *name, struct stat *status_out, struct error *err);
/** The list of an open folder, from its beginning; `folder` stays open, and its position stays as it is. NULL: errno says why. */
DIR *file_list(int folder);
/** The next name of a folder except "." and ".."; valid until the next call. NULL at the end. */
RESULT file_list_next(DIR *listing, const char **name_out, struct error *err);
