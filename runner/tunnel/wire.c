#include "runner/tunnel/wire.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

#define IN_SIZE    (4 * (size_t)TUNNEL_FRAME_MAX)
#define QUEUE_MAX  ((size_t)64 << 20) /* no caller lets more wait */
#define TIDY_BYTES 262144             /* sent bytes at the queue's beginning that are worth a move of the rest */
#define TURN_BYTES ((size_t)1 << 20)  /* so that no connection keeps the others waiting */

struct wire {
    struct tls_peer *peer;
    bool is_shaken, is_over;
    enum tls_step reads, writes; /* what each direction waits for */
    struct buffer queue;
    size_t sent; /* of the queue */
    size_t length, taken;
    uint8_t in[IN_SIZE];
};

struct result wire_new(const struct tls_self *self, int fd, bool calls, struct wire **wire_out, struct error *err)
{
    OWNED(wire) *wire = memory_zeroed(1, sizeof *wire);

    if (wire == NULL) {
        (void)close(fd);
        return failure(err, ERROR_NO_MEMORY, "no memory for a connection between nodes");
    }
    wire->queue = BUFFER(QUEUE_MAX);
    wire->reads = calls ? TLS_WRITES : TLS_READS;
    wire->writes = TLS_DONE;
    TRY(tls_peer_new(self, fd, calls, &wire->peer, err));
    *wire_out = GIVE(wire);
    return SUCCESS;
}

bool wire_is_shaken(const struct wire *wire)
{
    return wire->is_shaken;
}

const char *wire_key(const struct wire *wire)
{
    return tls_peer_key(wire->peer);
}

int wire_descriptor(const struct wire *wire)
{
    return tls_peer_descriptor(wire->peer);
}

size_t wire_waiting(const struct wire *wire)
{
    return wire->queue.length - wire->sent;
}

static short event_of(enum tls_step step)
{
    return step == TLS_WRITES ? POLLOUT : POLLIN;
}

short wire_events(const struct wire *wire)
{
    short events = event_of(wire->reads);

    if (wire->is_shaken && wire_waiting(wire) > 0) events = (short)(events | (wire->writes == TLS_READS ? POLLIN : POLLOUT));
    return events;
}

/* ---- going on ---- */

static bool is_over(enum tls_step step)
{
    return step == TLS_ENDED || step == TLS_FAILED;
}

static void shake(struct wire *wire)
{
    wire->reads = tls_peer_shake(wire->peer);
    wire->is_shaken = wire->reads == TLS_DONE;
    wire->is_over = is_over(wire->reads);
    if (wire->is_shaken) wire->reads = TLS_READS;
}

/* What was taken makes room. Reads until there is no more, or no room. */
static void read_some(struct wire *wire)
{
    size_t got = 0;

    if (wire->taken > 0) memmove(wire->in, wire->in + wire->taken, wire->length - wire->taken);
    wire->length -= wire->taken;
    wire->taken = 0;
    while (wire->length < sizeof wire->in) {
        wire->reads = tls_peer_read(wire->peer, wire->in + wire->length, sizeof wire->in - wire->length, &got);
        if (wire->reads != TLS_DONE) break;
        wire->length += got;
    }
    wire->is_over = is_over(wire->reads);
}

static void tidy(struct wire *wire)
{
    if (wire_waiting(wire) == 0) {
        buffer_clear(&wire->queue);
        wire->sent = 0;
        return;
    }
    if (wire->sent < TIDY_BYTES || wire->sent < wire->queue.length / 2) return;
    memmove(wire->queue.data, wire->queue.data + wire->sent, wire_waiting(wire));
    buffer_truncate(&wire->queue, wire_waiting(wire));
    wire->sent = 0;
}

static void send_some(struct wire *wire)
{
    size_t done = 0;

    for (size_t turn = 0; wire_waiting(wire) > 0 && turn < TURN_BYTES; turn += done) {
        const struct bytes left = {wire->queue.data + wire->sent, wire_waiting(wire)};
        wire->writes = tls_peer_write(wire->peer, left, &done);
        if (wire->writes != TLS_DONE) break;
        wire->sent += done;
    }
    wire->is_over = wire->is_over || is_over(wire->writes);
    tidy(wire);
}

bool wire_has_more(const struct wire *wire)
{
    return wire->is_shaken && wire->reads == TLS_DONE;
}

bool wire_go_on(struct wire *wire)
{
    if (wire->is_over) return false;
    if (!wire->is_shaken) shake(wire);
    if (!wire->is_shaken) return !wire->is_over;
    read_some(wire);
    if (!wire->is_over) send_some(wire);
    return !wire->is_over || wire->length > wire->taken; /* what came before the end counts */
}

bool wire_next(struct wire *wire, struct tunnel_frame *frame_out, bool *valid_out)
{
    const struct bytes left = {wire->in + wire->taken, wire->length - wire->taken};
    struct error ignored;
    size_t length = 0;

    *valid_out = tunnel_frame_read(left, frame_out, &length, &ignored).ok;
    wire->taken += length;
    return length > 0;
}

bool wire_put(struct wire *wire, enum tunnel_kind kind, struct bytes content, size_t most)
{
    uint8_t head[TUNNEL_HEAD_SIZE];
    struct error ignored;

    if (wire_waiting(wire) + sizeof head + content.length > most) return false;
    tunnel_frame_head(kind, content.length, head);
    if (!buffer_add(&wire->queue, head, sizeof head, &ignored).ok) return false;
    if (content.length == 0 || buffer_add(&wire->queue, content.data, content.length, &ignored).ok) return true;
    buffer_truncate(&wire->queue, wire->queue.length - sizeof head);
    return false;
}

void wire_free(struct wire *wire)
{
    if (wire == NULL) return;
    tls_peer_free(wire->peer);
    buffer_done(&wire->queue);
    free(wire);
}
