/* Deliveries to a file that another program follows: one line of JSON for each message, durable before the position moves. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "delivery/peer_priv.h"

#define TEXT_MAX (2 * DELIVERY_BYTES_MAX)

struct file_peer {
    struct peer peer; /* first member */
    const struct peer_options *options;
    struct buffer text;
};

static struct result connect_nothing(struct peer *peer, bool *is_new_out, struct peer_outcome *outcome, struct error *err)
{
    const struct file_peer *self = (const struct file_peer *)peer; /* its first member */

    (void)err;
    *is_new_out = false;
    outcome->is_taken = true;
    if (self->options->folder[0] == '\0') peer_refuse(outcome, "this gateway writes no files: the setting delivery_folder");
    return SUCCESS;
}

/* A kill may have left a part of a line. It becomes a line of its own, which is no JSON, because its reader may have seen it already. */
static struct result end_line(int fd, const struct stat *status, struct error *err)
{
    char last = '\n';

    if (status->st_size == 0) return SUCCESS;
    TRY(file_read_at(fd, &last, 1, (uint64_t)status->st_size - 1, err));
    return last == '\n' ? SUCCESS : file_write_all(fd, "\n", 1, err);
}

/* It is opened for each batch. So after a rotation a new file begins, and no line is written to the old one later. */
static struct result append(int folder, const char *name, struct bytes text, struct error *err)
{
    OWNED_FD fd = -1;
    struct stat status;

    TRY(file_open_at(folder, name, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0640, &fd, err));
    TRY(file_status(fd, &status, err));
    if (!S_ISREG(status.st_mode)) return failure(err, ERROR_INVALID, "it is no regular file");
    if (status.st_size == 0 && fchmod(fd, 0640) != 0) return failure(err, ERROR_UNAVAILABLE, "its mode can't be set");
    TRY(end_line(fd, &status, err));
    TRY(file_write_all(fd, text.data, text.length, err));
    TRY(file_sync(fd, err));
    if (status.st_size == 0) TRY(file_sync(folder, err));
    TRY(file_status(fd, &status, err));
    if (status.st_nlink > 0) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "it was removed while it was written");
}

static struct result write_lines(const struct delivery_batch *batch, struct buffer *text, struct error *err)
{
    buffer_clear(text);
    for (size_t i = 0; i < batch->count; i++) {
        const struct bytes line = delivery_batch_text(batch, i);
        TRY(buffer_add(text, line.data, line.length, err));
        TRY(buffer_add_u8(text, '\n', err));
    }
    return SUCCESS;
}

static struct result append_in_folder(const struct file_peer *self, struct error *err)
{
    OWNED_FD folder = -1;

    TRY(file_open(self->options->folder, O_RDONLY | O_DIRECTORY, 0, &folder, err));
    return append(folder, self->options->sink->address, buffer_bytes(&self->text), err);
}

static struct result send_batch(struct peer *peer, const struct delivery_batch *batch, const struct sink_state *state,
                                struct peer_outcome *outcome, struct error *err)
{
    struct file_peer *self = (struct file_peer *)peer;
    struct error why = {0};

    (void)state;
    TRY(write_lines(batch, &self->text, err));
    outcome->is_taken = append_in_folder(self, &why).ok;
    if (!outcome->is_taken) peer_refuse(outcome, "the file can't be written: %.200s", why.message);
    return SUCCESS;
}

static void free_peer(struct peer *peer)
{
    struct file_peer *self = (struct file_peer *)peer;

    buffer_done(&self->text);
    free(self);
}

struct result peer_file_new(const struct peer_options *options, struct peer **peer_out, struct error *err)
{
    struct file_peer *self = memory_zeroed(1, sizeof *self);

    if (self == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a sink");
    *self = (struct file_peer){.peer = {connect_nothing, send_batch, free_peer}, .options = options, .text = BUFFER(TEXT_MAX)};
    *peer_out = &self->peer;
    return SUCCESS;
}
