/*
 * base/file_queue.h -- reads and writes of files that go on while the caller does something else.
 *
 * The kernel's asynchronous I/O (io_submit(2)), past the page cache: the file has O_DIRECT when one begins (not necessarily
 * any longer); place, length and offset of the bytes are multiples of FILE_QUEUE_ALIGNMENT. A write that makes the file longer
 * is waited for by most file systems: reserve the room before (fallocate(2)). The file may be closed meanwhile, the bytes may not go.
 *
 * A write that fails is told by a later call, and by all that follow until file_queue_wait() has told it. Between two calls of
 * that a queue is for reads only or for writes only. Errors as in base/file.h. For one thread at a time.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"

#define FILE_QUEUE_DEPTH_MAX 4 /* more at a time than any disk measured was faster with, in pieces of 256 KiB */
#define FILE_QUEUE_ALIGNMENT 4096

struct file_queue;

/** For up to `depth` at a time. ERROR_UNAVAILABLE where the kernel, or what the process is held in, lends none (any more): then
 *  read and write as usual. */
RESULT file_queue_new(size_t depth, struct file_queue **queue_out, struct error *err);
/**
 * Begins to write; waits first while `depth` are under way. The bytes are read until `depth` calls later, or until
 * file_queue_wait() or _free() returned, whatever these return.
 */
RESULT file_queue_write(struct file_queue *queue, int fd, struct bytes bytes, uint64_t offset, struct error *err);
/** Begins to read: at most `depth` that were not ended. `into` is written to until file_queue_read_end() told of it, or until
 *  file_queue_wait() or _free() returned. */
RESULT file_queue_read(struct file_queue *queue, int fd, uint8_t *into, size_t length, uint64_t offset, struct error *err);
/** Waits for the oldest read that was not ended. *length_out may be less than was asked for, at the end of the file and
 *  elsewhere: a usual read says why. */
RESULT file_queue_read_end(struct file_queue *queue, size_t *length_out, struct error *err);
/** Begins to make durable what a file or a folder holds now (fsync(2)). As a write: it takes a place, and later calls tell. */
RESULT file_queue_sync(struct file_queue *queue, int fd, struct error *err);
/** Until all are done, well or not; then the queue is as new. */
RESULT file_queue_wait(struct file_queue *queue, struct error *err);
/** Waits, too. */
void file_queue_free(struct file_queue *queue);
DEFINE_OWNED(file_queue);
