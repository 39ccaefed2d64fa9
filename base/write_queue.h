/*
 * base/write_queue.h -- writes to a file that go on while the caller does something else.
 *
 * The kernel's asynchronous I/O (io_submit(2)), past the page cache: the file has O_DIRECT; place, length and offset of the
 * bytes are multiples of WRITE_QUEUE_ALIGNMENT. A write that makes the file longer is waited for by most file systems:
 * reserve the room before (fallocate(2)).
 *
 * A write that fails is told by a later call, and by all that follow until write_queue_wait() has told it. Errors as in
 * base/file.h. For one thread at a time.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"

#define WRITE_QUEUE_DEPTH     2 /* measured: with one that is written and one that waits, a disk is never idle */
#define WRITE_QUEUE_ALIGNMENT 4096

struct write_queue;

/** ERROR_UNAVAILABLE where the kernel, or what the process is held in, lends none (any more): then write as usual. */
RESULT write_queue_new(struct write_queue **queue_out, struct error *err);
/**
 * Begins to write; waits first while WRITE_QUEUE_DEPTH are under way. The bytes are read until WRITE_QUEUE_DEPTH calls
 * later, or until write_queue_wait() or _free() returned, whatever these return.
 */
RESULT write_queue_add(struct write_queue *queue, int fd, struct bytes bytes, uint64_t offset, struct error *err);
/** Until all are done, well or not; then the queue is as new. */
RESULT write_queue_wait(struct write_queue *queue, struct error *err);
/** Waits, too. */
void write_queue_free(struct write_queue *queue);
DEFINE_OWNED(write_queue);
