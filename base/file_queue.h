/*
 * base/file_queue.h -- asynchronous reads and writes of files (io_submit(2)), with direct I/O.
 *
 * The file must have O_DIRECT when a call begins. The flag may be removed during the call. The address, length and offset of the bytes are
 * multiples of FILE_QUEUE_ALIGNMENT. Most file systems wait for a write that makes the file longer: reserve the space
 * before (fallocate(2)). The file may be closed during a call, but the memory must stay valid.
 *
 * If a write fails, the next call returns the failure. All following calls return it too, until file_queue_wait() has returned it.
 * Between two calls of file_queue_wait() a queue is for reads only or for writes only. Errors as in base/file.h. For one thread
 * at a time.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"

#define FILE_QUEUE_DEPTH_MAX 4 /* measured with calls of 256 KiB: no disk was faster with more calls at a time */
#define FILE_QUEUE_ALIGNMENT 4096

struct file_queue;

/** A queue for up to `depth` calls at a time. ERROR_UNAVAILABLE if the kernel or the sandbox allows no (more) queues:
 *  then use ordinary reads and writes. */
RESULT file_queue_new(size_t depth, struct file_queue **queue_out, struct error *err);
/**
 * Begins a write; first waits while `depth` calls are running. The bytes must stay unchanged until
 * `depth` later calls, or file_queue_wait(), or file_queue_free() have returned. A call that fails counts too.
 */
RESULT file_queue_write(struct file_queue *queue, int fd, struct bytes bytes, uint64_t offset, struct error *err);
/** Begins a read; at most `depth` reads may run at a time. The kernel may write to `into` until file_queue_read_end()
 *  has returned this read, or file_queue_wait() or file_queue_free() returned. */
RESULT file_queue_read(struct file_queue *queue, int fd, uint8_t *into, size_t length, uint64_t offset, struct error *err);
/** Waits for the oldest read that was not ended. *length_out may be less than asked for, even before the end of the
 *  file. Then an ordinary read tells the reason. */
RESULT file_queue_read_end(struct file_queue *queue, size_t *length_out, struct error *err);
/** Begins an fsync(2) of a file or a folder. Like a write it takes a slot, and a later call returns its failure. */
RESULT file_queue_sync(struct file_queue *queue, int fd, struct error *err);
/** Waits until all calls have ended, with or without success. The queue is then empty and keeps no failure. */
RESULT file_queue_wait(struct file_queue *queue, struct error *err);
/** Waits until all calls have ended, then frees the queue. */
void file_queue_free(struct file_queue *queue);
DEFINE_OWNED(file_queue);
