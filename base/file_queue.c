#include "base/file_queue.h"

#include <assert.h>
#include <errno.h>
#include <linux/aio_abi.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"

struct file_queue {
    aio_context_t context;
    size_t depth;
    struct iocb calls[FILE_QUEUE_DEPTH_MAX];
    bool is_pending[FILE_QUEUE_DEPTH_MAX];
    int64_t read[FILE_QUEUE_DEPTH_MAX]; /* bytes, or a negative errno */
    size_t next;                        /* the slot of the next call; for writes it is also the oldest one */
    size_t reads;                       /* reads that are running: they are in the slots before `next` */
    bool has_failed;
    struct error reason;
};

struct result file_queue_new(size_t depth, struct file_queue **queue_out, struct error *err)
{
    struct file_queue *queue = NULL;

    assert(depth >= 1 && depth <= FILE_QUEUE_DEPTH_MAX);
    queue = memory_zeroed(1, sizeof *queue);
    if (queue == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a queue of reads or writes");
    queue->depth = depth;
    if (fault_is_due(FAULT_FILE) || syscall(SYS_io_setup, depth, &queue->context) != 0) {
        const int reason = errno;
        free(queue);
        return failure(err, ERROR_UNAVAILABLE, "the kernel gives no queue for reads or writes: %s", strerror(reason));
    }
    *queue_out = queue;
    return SUCCESS;
}

static void remember(struct file_queue *queue, const struct error *reason)
{
    if (!queue->has_failed) queue->reason = *reason;
    queue->has_failed = true;
}

static void remember_why(struct file_queue *queue, const char *what, int64_t outcome)
{
    const bool is_full = outcome == -ENOSPC || outcome == -EDQUOT || outcome == -EFBIG;
    struct error err = {0};

    (void)failure(&err, is_full ? ERROR_FULL : ERROR_UNAVAILABLE, "can't %s: %s", what, strerror((int)-outcome)).ok;
    remember(queue, &err);
}

/* A write that ended early, mostly for lack of space, is continued as an ordinary write: that one succeeds or returns the
 * reason. */
static void check_write(struct file_queue *queue, const struct iocb *call, int64_t written)
{
    struct error err = {0};

    const size_t done = written < 0 ? 0 : (size_t)written;
    if (written < 0) remember_why(queue, "write a file", written);
    else if (done < call->aio_nbytes && !file_write_at((int)call->aio_fildes, (const uint8_t *)(uintptr_t)call->aio_buf + done,
                                                       call->aio_nbytes - done, (uint64_t)call->aio_offset + done, &err)
                                             .ok)
        remember(queue, &err);
}

/* Waits for at least one. */
static void reap(struct file_queue *queue)
{
    struct io_event events[FILE_QUEUE_DEPTH_MAX];
    long count = 0;

    do count = syscall(SYS_io_getevents, queue->context, 1, FILE_QUEUE_DEPTH_MAX, events, NULL);
    while (count < 0 && errno == EINTR);
    assert(count > 0); /* the call fails only for a wrong address; the memory must stay until the kernel has finished */
    for (long i = 0; i < count; i++) {
        const size_t at = (size_t)events[i].data;
        const int64_t outcome = fault_is_due(FAULT_FILE) ? -EIO : events[i].res;
        queue->is_pending[at] = false;
        queue->read[at] = outcome;
        if (queue->calls[at].aio_lio_opcode == IOCB_CMD_PWRITE) check_write(queue, &queue->calls[at], outcome);
        if (queue->calls[at].aio_lio_opcode == IOCB_CMD_FSYNC && outcome != 0)
            remember_why(queue, "make a file durable", outcome); /* on some file systems a full disk shows only at fsync */
    }
}

static struct result first_failure(const struct file_queue *queue, struct error *err)
{
    if (!queue->has_failed) return SUCCESS;
    return failure(err, queue->reason.kind, "%s", queue->reason.message);
}

/* Begins in slot `next`. */
static struct result begin(struct file_queue *queue, struct iocb call, const char *what, struct error *err)
{
    struct iocb *slot = &queue->calls[queue->next];

    *slot = call;
    slot->aio_data = queue->next;
    if (fault_is_due(FAULT_FILE) || syscall(SYS_io_submit, queue->context, 1, &slot) != 1)
        return failure(err, ERROR_UNAVAILABLE, "can't begin to %s a file: %s", what, strerror(errno));
    queue->is_pending[queue->next] = true;
    queue->next = (queue->next + 1) % queue->depth;
    return SUCCESS;
}

/* Waits until slot `next` is free, then begins. */
static struct result begin_lasting(struct file_queue *queue, struct iocb call, const char *what, struct error *err)
{
    assert(queue->reads == 0);
    while (queue->is_pending[queue->next]) reap(queue);
    TRY(first_failure(queue, err));
    return begin(queue, call, what, err);
}

struct result file_queue_write(struct file_queue *queue, int fd, struct bytes bytes, uint64_t offset, struct error *err)
{
    return begin_lasting(queue,
                         (struct iocb){.aio_lio_opcode = IOCB_CMD_PWRITE,
                                       .aio_fildes = (uint32_t)fd,
                                       .aio_buf = (uintptr_t)bytes.data,
                                       .aio_nbytes = bytes.length,
                                       .aio_offset = (int64_t)offset},
                         "write", err);
}

struct result file_queue_sync(struct file_queue *queue, int fd, struct error *err)
{
    return begin_lasting(queue, (struct iocb){.aio_lio_opcode = IOCB_CMD_FSYNC, .aio_fildes = (uint32_t)fd}, "sync", err);
}

struct result file_queue_read(struct file_queue *queue, int fd, uint8_t *into, size_t length, uint64_t offset, struct error *err)
{
    assert(queue->reads < queue->depth && !queue->is_pending[queue->next]);
    TRY(begin(queue,
              (struct iocb){.aio_lio_opcode = IOCB_CMD_PREAD,
                            .aio_fildes = (uint32_t)fd,
                            .aio_buf = (uintptr_t)into,
                            .aio_nbytes = length,
                            .aio_offset = (int64_t)offset},
              "read", err));
    queue->reads++;
    return SUCCESS;
}

struct result file_queue_read_end(struct file_queue *queue, size_t *length_out, struct error *err)
{
    const size_t oldest = (queue->next + queue->depth - queue->reads) % queue->depth;

    assert(queue->reads > 0);
    while (queue->is_pending[oldest]) reap(queue);
    queue->reads--;
    if (queue->read[oldest] < 0)
        return failure(err, ERROR_UNAVAILABLE, "can't read a file: %s", strerror((int)-queue->read[oldest]));
    *length_out = (size_t)queue->read[oldest];
    return SUCCESS;
}

struct result file_queue_wait(struct file_queue *queue, struct error *err)
{
    for (size_t i = 0; i < queue->depth; i++)
        while (queue->is_pending[i]) reap(queue);
    queue->reads = 0;
    const struct result result = first_failure(queue, err);
    queue->has_failed = false;
    return result;
}

void file_queue_free(struct file_queue *queue)
{
    struct error ignored; /* a caller that needs the bytes has called file_queue_wait() before */

    if (queue == NULL) return;
    (void)file_queue_wait(queue, &ignored).ok;
    (void)syscall(SYS_io_destroy, queue->context);
    free(queue);
}
