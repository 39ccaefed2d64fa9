#include "supervision/child_pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"

#define PIECE_MAX 65536 /* the capacity of a pipe */

struct child_output {
    struct child_output_options options;
    uint64_t taken, dropped; /* bytes */
    int read_ends[CHILD_STREAMS], write_ends[CHILD_STREAMS];
    uint8_t piece[PIECE_MAX];
};

struct result child_input(struct bytes input, int *read_end_out, struct error *err)
{
    int ends[2];

    if (fault_is_due(FAULT_FILE) || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return failure(err, ERROR_UNAVAILABLE, "no pipe: %s", strerror(errno));
    const ssize_t written = write(ends[1], input.data, input.length);
    (void)close(ends[1]);
    if (written != (ssize_t)input.length) {
        (void)close(ends[0]);
        return failure(err, ERROR_LIMIT, "%zu bytes do not fit into a pipe", input.length);
    }
    (void)fcntl(ends[0], F_SETFL, 0);
    *read_end_out = ends[0];
    return SUCCESS;
}

/* The program's end of the pipe blocks, as every program expects; our end does not. */
static struct result open_stream(struct child_output *output, enum child_stream stream, struct error *err)
{
    int ends[2];

    if (fault_is_due(FAULT_FILE) || pipe2(ends, O_CLOEXEC) != 0)
        return failure(err, ERROR_UNAVAILABLE, "no pipe: %s", strerror(errno));
    output->read_ends[stream] = ends[0];
    output->write_ends[stream] = ends[1];
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
        return failure(err, ERROR_UNAVAILABLE, "a pipe can't be read without waiting: %s", strerror(errno));
    return SUCCESS;
}

struct result child_output_new(const struct child_output_options *options, struct child_output **output_out, struct error *err)
{
    OWNED(child_output) *output = memory_zeroed(1, sizeof *output);

    if (output == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a program's output");
    output->options = *options;
    for (enum child_stream stream = 0; stream < CHILD_STREAMS; stream++)
        output->read_ends[stream] = output->write_ends[stream] = -1;
    for (enum child_stream stream = 0; stream < CHILD_STREAMS; stream++) TRY(open_stream(output, stream, err));
    *output_out = GIVE(output);
    return SUCCESS;
}

void child_output_ends(const struct child_output *output, struct child_descriptor ends_out[CHILD_STREAMS])
{
    ends_out[CHILD_OUTPUT] = (struct child_descriptor){output->write_ends[CHILD_OUTPUT], STDOUT_FILENO};
    ends_out[CHILD_ERRORS] = (struct child_descriptor){output->write_ends[CHILD_ERRORS], STDERR_FILENO};
}

static struct result take(struct child_output *output, enum child_stream stream, size_t length, struct error *err)
{
    const uint64_t room = output->options.maximum - output->taken;
    const size_t kept = length < room ? length : (size_t)room;

    output->taken += kept;
    output->dropped += length - kept;
    if (kept == 0) return SUCCESS;
    return output->options.take(output->options.context, stream, (struct bytes){output->piece, kept}, err);
}

static ssize_t read_piece(struct child_output *output, enum child_stream stream)
{
    if (!fault_is_due(FAULT_FILE)) return read(output->read_ends[stream], output->piece, sizeof output->piece);
    errno = EIO;
    return -1;
}

static struct result read_stream(struct child_output *output, enum child_stream stream, struct error *err)
{
    const ssize_t length = read_piece(output, stream);

    if (length > 0) return take(output, stream, (size_t)length, err);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) return SUCCESS;
    file_close_owned(&output->read_ends[stream]);
    output->read_ends[stream] = -1;
    return length == 0 ? SUCCESS : failure(err, ERROR_UNAVAILABLE, "a program's output can't be read: %s", strerror(errno));
}

struct result child_output_read(struct child_output *output, int patience_ms, bool *open_out, struct error *err)
{
    struct pollfd polled[CHILD_STREAMS];
    bool open = false;

    for (enum child_stream stream = 0; stream < CHILD_STREAMS; stream++) {
        file_close_owned(&output->write_ends[stream]);
        output->write_ends[stream] = -1;
        polled[stream] = (struct pollfd){.fd = output->read_ends[stream], .events = POLLIN};
        open = open || output->read_ends[stream] >= 0;
    }
    if (open && poll(polled, CHILD_STREAMS, patience_ms) < 0 && errno != EINTR)
        return failure(err, ERROR_UNAVAILABLE, "can't wait for a program's output: %s", strerror(errno));
    for (enum child_stream stream = 0; stream < CHILD_STREAMS; stream++)
        if (open && polled[stream].revents != 0) TRY(read_stream(output, stream, err));
    *open_out = output->read_ends[CHILD_OUTPUT] >= 0 || output->read_ends[CHILD_ERRORS] >= 0;
    return SUCCESS;
}

uint64_t child_output_dropped(const struct child_output *output)
{
    return output->dropped;
}

void child_output_free(struct child_output *output)
{
    if (output == NULL) return;
    for (enum child_stream stream = 0; stream < CHILD_STREAMS; stream++) {
        file_close_owned(&output->read_ends[stream]);
        file_close_owned(&output->write_ends[stream]);
    }
    free(output);
}
