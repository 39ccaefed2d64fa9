#include "base/write_queue.h"

#include <assert.h>
#include <errno.h>
#include <linux/aio_abi.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"

struct write_queue {
    aio_context_t context;
    struct iocb calls[WRITE_QUEUE_DEPTH];
    bool is_under_way[WRITE_QUEUE_DEPTH];
    size_t turn; /* the place of the next call, which is that of the oldest */
    bool has_failed;
    struct error reason;
};

struct result write_queue_new(struct write_queue **queue_out, struct error *err)
{
    struct write_queue *queue = memory_zeroed(1, sizeof *queue);

    if (queue == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a queue of writes");
    if (fault_is_due(FAULT_FILE) || syscall(SYS_io_setup, WRITE_QUEUE_DEPTH, &queue->context) != 0) {
        const int reason = errno;
        free(queue);
        return failure(err, ERROR_UNAVAILABLE, "no queue for writes is to be had: %s", strerror(reason));
    }
    *queue_out = queue;
    return SUCCESS;
}

static void remember(struct write_queue *queue, const struct error *reason)
{
    if (!queue->has_failed) queue->reason = *reason;
    queue->has_failed = true;
}

/* What came to an end early, for want of room as a rule, is tried as a usual write: that says why, or goes on. */
static void judge(struct write_queue *queue, const struct iocb *call, int64_t written)
{
    struct error err = {0};

    if (fault_is_due(FAULT_FILE)) written = -EIO;
    const size_t done = written < 0 ? 0 : (size_t)written;
    if (written < 0) {
        const bool is_full = written == -ENOSPC || written == -EDQUOT || written == -EFBIG;
        (void)failure(&err, is_full ? ERROR_FULL : ERROR_UNAVAILABLE, "can't write a file: %s", strerror((int)-written)).ok;
        remember(queue, &err);
    } else if (done < call->aio_nbytes &&
               !file_write_at((int)call->aio_fildes, (const uint8_t *)(uintptr_t)call->aio_buf + done,
                              call->aio_nbytes - done, (uint64_t)call->aio_offset + done, &err).ok) {
        remember(queue, &err);
    }
}

/* Waits for one at least. */
static void reap(struct write_queue *queue)
{
    struct io_event events[WRITE_QUEUE_DEPTH];
    long count = 0;

    do count = syscall(SYS_io_getevents, queue->context, 1, WRITE_QUEUE_DEPTH, events, NULL);
    while (count < 0 && errno == EINTR);
    assert(count > 0); /* it fails for a wrong address only; and the bytes may not be given back before the kernel is done */
    for (long i = 0; i < count; i++) {
        const size_t at = (size_t)events[i].data;
        queue->is_under_way[at] = false;
        judge(queue, &queue->calls[at], events[i].res);
    }
}

static struct result told(const struct write_queue *queue, struct error *err)
{
    if (!queue->has_failed) return SUCCESS;
    return failure(err, queue->reason.kind, "%s", queue->reason.message);
}

struct result write_queue_add(struct write_queue *queue, int fd, struct bytes bytes, uint64_t offset, struct error *err)
{
    const size_t at = queue->turn;
    struct iocb *call = &queue->calls[at];

    while (queue->is_under_way[at]) reap(queue);
    TRY(told(queue, err));
    *call = (struct iocb){.aio_data = at,
                          .aio_lio_opcode = IOCB_CMD_PWRITE,
                          .aio_fildes = (uint32_t)fd,
                          .aio_buf = (uintptr_t)bytes.data,
                          .aio_nbytes = bytes.length,
                          .aio_offset = (int64_t)offset};
    if (fault_is_due(FAULT_FILE) || syscall(SYS_io_submit, queue->context, 1, &call) != 1)
        return failure(err, ERROR_UNAVAILABLE, "can't begin to write a file: %s", strerror(errno));
    queue->is_under_way[at] = true;
    queue->turn = (at + 1) % WRITE_QUEUE_DEPTH;
    return SUCCESS;
}

struct result write_queue_wait(struct write_queue *queue, struct error *err)
{
    for (size_t i = 0; i < WRITE_QUEUE_DEPTH; i++)
        while (queue->is_under_way[i]) reap(queue);
    const struct result result = told(queue, err);
    queue->has_failed = false;
    return result;
}

void write_queue_free(struct write_queue *queue)
{
    struct error ignored; /* who still needs the bytes has waited */

    if (queue == NULL) return;
    (void)write_queue_wait(queue, &ignored).ok;
    (void)syscall(SYS_io_destroy, queue->context);
    free(queue);
}
