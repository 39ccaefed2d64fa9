/* Deliveries by syslog: RFC 5424 over TLS with client authentication (RFC 5425). */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "delivery/peer_priv.h"
#include "outgoing/stream.h"

#define TEXT_MAX    (2 * DELIVERY_BYTES_MAX)
#define HEAD_SIZE   512
#define FACILITY    13 /* log audit */
#define WARNING     4
#define INFORMATION 6
#define CONNECT_S   10
#define SILENCE_S   30

struct syslog_peer {
    struct peer peer; /* first member */
    const struct peer_options *options;
    struct outgoing *outgoing;
    struct outgoing_stream *stream; /* NULL: no connection */
    struct buffer text;
};

/* ---- what is written ---- */

/* The name of the log's host: of "registry.example/audit" the first part. */
static int host_length(const char *origin)
{
    const size_t length = strcspn(origin, "/");

    return length > 255 ? 255 : (int)length;
}

static struct result write_message(const struct delivery_batch *batch, size_t index, const char *origin, struct buffer *text,
                                   struct error *err)
{
    const struct delivery_message *message = &batch->messages[index];
    const struct bytes data = delivery_batch_text(batch, index);
    char time[CLOCK_TEXT_SIZE], head[HEAD_SIZE];

    clock_format(message->time_ms, time);
    const int length =
        snprintf(head, sizeof head, "<%d>1 %s %.*s sijil - %s - ", FACILITY * 8 + (message->has_failed ? WARNING : INFORMATION),
                 time, host_length(origin), origin, message->is_withheld ? "withheld" : "event");
    TRY(buffer_format(text, err, "%zu %s", (size_t)length + data.length, head));
    return buffer_add(text, data.data, data.length, err);
}

struct result syslog_write(const struct delivery_batch *batch, const char *origin, struct buffer *text, struct error *err)
{
    for (size_t i = 0; i < batch->count; i++) TRY(write_message(batch, i, origin, text, err));
    return SUCCESS;
}

/* ---- the connection ---- */

static struct result connect_peer(struct peer *peer, bool *is_new_out, struct peer_outcome *outcome, struct error *err)
{
    struct syslog_peer *self = (struct syslog_peer *)peer; /* its first member */
    const struct peer_options *options = self->options;
    struct outgoing_outcome answer = {.end = OUTGOING_ANSWERED};

    *is_new_out = false;
    outcome->is_taken = true;
    if (self->stream != NULL && outgoing_stream_is_open(self->stream)) return SUCCESS;
    outgoing_stream_free(GIVE(self->stream));
    if (options->certificate[0] == '\0') {
        peer_refuse(outcome, "this gateway has no certificate for syslog: the settings delivery_certificate and delivery_key");
        return SUCCESS;
    }
    const struct outgoing_peer where = {options->sink->address, CONNECT_S, options->gives_up};
    TRY(outgoing_stream_open(self->outgoing, &where, &self->stream, &answer, err));
    *is_new_out = self->stream != NULL;
    if (self->stream == NULL) peer_refuse(outcome, "%s", answer.reason);
    return SUCCESS;
}

/* A connection that failed is closed: what it had sent is sent again over the next one. */
static struct result send_batch(struct peer *peer, const struct delivery_batch *batch, const struct sink_state *state,
                                struct peer_outcome *outcome, struct error *err)
{
    struct syslog_peer *self = (struct syslog_peer *)peer;
    struct error lost = {0};

    (void)state;
    buffer_clear(&self->text);
    TRY(syslog_write(batch, self->options->origin, &self->text, err));
    outcome->is_taken =
        outgoing_stream_send(self->stream, buffer_bytes(&self->text), SILENCE_S, self->options->gives_up, &lost).ok;
    if (outcome->is_taken) return SUCCESS;
    outgoing_stream_free(GIVE(self->stream));
    peer_refuse(outcome, "%s", lost.message);
    return SUCCESS;
}

static void free_peer(struct peer *peer)
{
    struct syslog_peer *self = (struct syslog_peer *)peer;

    outgoing_stream_free(self->stream);
    outgoing_free(self->outgoing);
    buffer_done(&self->text);
    free(self);
}

struct result peer_syslog_new(const struct peer_options *options, struct peer **peer_out, struct error *err)
{
    OWNED(outgoing) *outgoing = NULL;

    TRY(peer_outgoing(options, &outgoing, err));
    struct syslog_peer *self = memory_zeroed(1, sizeof *self);
    if (self == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a sink");
    *self = (struct syslog_peer){
        .peer = {connect_peer, send_batch, free_peer}, .options = options, .outgoing = GIVE(outgoing), .text = BUFFER(TEXT_MAX)};
    *peer_out = &self->peer;
    return SUCCESS;
}
