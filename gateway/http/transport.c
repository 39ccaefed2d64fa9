#include "gateway/http/transport.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "gateway/http/proxy_head.h"

#define INBOX_SIZE  (BLOCK_SIZE / 2)      /* a slot of the ring, so that one read fills one slot */
#define GATHER_FROM ((uint64_t)32 * 1024) /* smaller bodies are sent as they come: two records gain nothing */

/* ---- In ---- */

static size_t inbox_take(struct transport *transport, void *destination, size_t size)
{
    const size_t left = transport->inbox_end - transport->inbox_at;
    const size_t part = size < left ? size : left;

    memcpy(destination, transport->inbox + transport->inbox_at, part);
    transport->inbox_at += part;
    return part;
}

static void inbox_release(struct transport *transport)
{
    blocks_give(transport->blocks, transport->inbox);
    transport->inbox = NULL;
    transport->inbox_at = transport->inbox_end = 0;
}

/* As recv(); GnuTLS reads errno before any other call sets it. */
static ssize_t receive(const struct transport *transport, void *destination, size_t size)
{
    const ssize_t received = recv(transport->fd, destination, size, 0);

    if (received < 0) gnutls_transport_set_errno(transport->session, errno);
    return received;
}

/* Reads the head, and no byte behind it. False: it is not all there yet, or the connection ends; errno of GnuTLS is set. */
static bool take_head(struct transport *transport)
{
    uint8_t bytes[256];

    for (size_t wanted; (wanted = proxy_head_wants(transport->head)) > 0;) {
        const ssize_t received = receive(transport, bytes, wanted < sizeof bytes ? wanted : sizeof bytes);
        if (received == 0) gnutls_transport_set_errno(transport->session, ECONNRESET);
        if (received <= 0) return false;
        proxy_head_take(transport->head, bytes, (size_t)received);
    }
    if (!transport->head_ended(transport->owner)) {
        gnutls_transport_set_errno(transport->session, ECONNRESET);
        return false;
    }
    transport->head = NULL;
    return true;
}

static ssize_t pull(gnutls_transport_ptr_t pointer, void *destination, size_t size)
{
    struct transport *transport = pointer;

    if (transport->head != NULL && !take_head(transport)) return -1;
    if (transport->inbox_at < transport->inbox_end) return (ssize_t)inbox_take(transport, destination, size);
    if (transport->is_receiving && transport->inbox == NULL) transport->inbox = blocks_take(transport->blocks);
    if (transport->is_receiving && transport->inbox != NULL) {
        const ssize_t received = receive(transport, transport->inbox, INBOX_SIZE);
        transport->inbox_at = 0;
        transport->inbox_end = received > 0 ? (size_t)received : 0;
        if (received > 0) return (ssize_t)inbox_take(transport, destination, size);
        inbox_release(transport);
        return received;
    }
    inbox_release(transport);
    return receive(transport, destination, size);
}

/* GnuTLS asks only when a handshake has a time limit; its default function would take the pointer for a descriptor. */
static int wait_for_data(gnutls_transport_ptr_t pointer, unsigned longest_ms)
{
    const struct transport *transport = pointer;
    struct pollfd wanted = {.fd = transport->fd, .events = POLLIN};

    if (transport->inbox_at < transport->inbox_end) return 1;
    return poll(&wanted, 1, longest_ms == GNUTLS_INDEFINITE_TIMEOUT ? -1 : (int)longest_ms);
}

/* ---- Out ---- */

static void outbox_release(struct transport *transport)
{
    blocks_give(transport->blocks, transport->outbox);
    transport->outbox = NULL;
    transport->outbox_at = transport->outbox_end = 0;
}

static size_t size_of(const giovec_t *pieces, int count)
{
    size_t size = 0;

    for (int i = 0; i < count; i++) size += pieces[i].iov_len;
    return size;
}

/* Keeps the pieces back. False: they do not fit. */
static bool outbox_add(struct transport *transport, const giovec_t *pieces, int count, size_t size)
{
    if (transport->outbox == NULL && transport->promised < GATHER_FROM) return false;
    if (transport->outbox == NULL) transport->outbox = blocks_take(transport->blocks);
    if (transport->outbox == NULL || size > BLOCK_SIZE - transport->outbox_end) return false;
    for (int i = 0; i < count; i++) {
        memcpy(transport->outbox + transport->outbox_end, pieces[i].iov_base, pieces[i].iov_len);
        transport->outbox_end += pieces[i].iov_len;
    }
    return true;
}

#define PIECES_MAX 65 /* the kept records, and twice the pieces of the largest call of GnuTLS 3.7 */

/* Sends the kept records and then the pieces. Returns how many bytes of the pieces the kernel took, or -1. */
static ssize_t send_all(struct transport *transport, const giovec_t *pieces, int count, int flags)
{
    const size_t kept = transport->outbox_end - transport->outbox_at;
    struct iovec vector[PIECES_MAX];
    struct msghdr message = {.msg_iov = vector};

    if (kept > 0) vector[message.msg_iovlen++] = (struct iovec){transport->outbox + transport->outbox_at, kept};
    for (int i = 0; i < count && message.msg_iovlen < PIECES_MAX; i++) vector[message.msg_iovlen++] = pieces[i];
    const ssize_t sent = sendmsg(transport->fd, &message, MSG_NOSIGNAL | flags);
    if (sent < 0) gnutls_transport_set_errno(transport->session, errno);
    if (sent < 0) return -1;
    if ((size_t)sent <= kept) {
        transport->outbox_at += (size_t)sent;
        gnutls_transport_set_errno(transport->session, EAGAIN); /* the kernel's buffer is full */
        return -1;
    }
    outbox_release(transport);
    return sent - (ssize_t)kept;
}

static ssize_t push(gnutls_transport_ptr_t pointer, const giovec_t *pieces, int count)
{
    struct transport *transport = pointer;
    const size_t size = size_of(pieces, count);
    const int flags =
        transport->is_head_next ? MSG_MORE : 0; /* the kernel sends it after 0.2 s at the latest, also with MSG_MORE */

    /* `promised` counts plain bytes and `size` sealed ones, which are a little more: so fewer bytes are kept back than will follow. */
    if (!transport->is_head_next && transport->promised > size && outbox_add(transport, pieces, count, size)) {
        transport->promised -= size;
        return (ssize_t)size;
    }
    const ssize_t sent = send_all(transport, pieces, count, flags);
    if (sent <= 0) return sent;
    if (!transport->is_head_next)
        transport->promised = transport->promised > (uint64_t)sent ? transport->promised - (uint64_t)sent : 0;
    transport->is_head_next = false;
    return sent;
}

/* ---- The connection ---- */

void transport_enter(struct transport *transport, gnutls_session_t session, int fd, struct blocks *blocks)
{
    *transport = (struct transport){.session = session, .blocks = blocks, .fd = fd};
    gnutls_transport_set_ptr(session, transport);
    gnutls_transport_set_pull_function(session, pull);
    gnutls_transport_set_pull_timeout_function(session, wait_for_data);
    gnutls_transport_set_vec_push_function(session, push);
}

void transport_await_head(struct transport *transport, struct proxy_head *head, bool (*head_ended)(void *owner))
{
    transport->head = head;
    transport->head_ended = head_ended;
}

void transport_leave(struct transport *transport)
{
    if (transport->session == NULL) return;
    inbox_release(transport);
    outbox_release(transport);
    transport->session = NULL;
}

void transport_receive(struct transport *transport)
{
    transport->is_receiving = transport->session != NULL;
}

void transport_answer(struct transport *transport, bool follows, uint64_t length)
{
    transport->is_receiving = false;
    transport->is_head_next = follows;
    transport->promised = follows ? length : 0;
}

void transport_promise(struct transport *transport, uint64_t length)
{
    transport->promised += length;
}

void transport_rest(struct transport *transport)
{
    transport->is_receiving = transport->is_head_next = false;
    transport->promised = 0;
}
