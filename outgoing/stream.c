#include "outgoing/stream.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/memory.h"
#include "outgoing/call_priv.h"

#define URL_SIZE   512
#define LOOK_MS    100 /* between two looks at what the peer has confirmed, and at gives_up */
#define UNREAD_MAX 4096

struct outgoing_stream {
    CURL *curl;
    curl_socket_t socket;
};

static struct result ignore(void *context, long status, struct bytes piece, struct error *err)
{
    (void)context, (void)status, (void)piece, (void)err;
    return SUCCESS;
}

static struct result take(struct exchange *exchange, struct outgoing_stream **stream_out, struct error *err)
{
    struct outgoing_stream *stream = memory_zeroed(1, sizeof *stream);

    if (stream == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a connection");
    stream->socket = CURL_SOCKET_BAD;
    (void)curl_easy_getinfo(exchange->curl, CURLINFO_ACTIVESOCKET, &stream->socket);
    if (stream->socket == CURL_SOCKET_BAD) {
        free(stream);
        return failure(err, ERROR_UNAVAILABLE, "the connection was lost at once");
    }
    stream->curl = GIVE(exchange->curl);
    (void)curl_easy_setopt(stream->curl, CURLOPT_NOPROGRESS, 1L); /* its callback has the exchange, which ends now */
    *stream_out = stream;
    return SUCCESS;
}

/* libcurl makes the TLS connection of an https URL, and no request. */
static struct result dial(struct exchange *exchange, struct outgoing_stream **stream_out, struct outgoing_outcome *outcome_out,
                          struct error *err)
{
    TRY(outgoing_prepare(exchange));
    (void)curl_easy_setopt(exchange->curl, CURLOPT_CONNECT_ONLY, 1L);
    (void)curl_easy_setopt(exchange->curl, CURLOPT_SSL_ENABLE_ALPN, 0L);
    (void)curl_easy_setopt(exchange->curl, CURLOPT_FRESH_CONNECT, 1L);
    *outcome_out = outgoing_perform(exchange);
    return outcome_out->end == OUTGOING_ANSWERED ? take(exchange, stream_out, err) : SUCCESS;
}

struct result outgoing_stream_open(struct outgoing *outgoing, const struct outgoing_peer *peer,
                                   struct outgoing_stream **stream_out, struct outgoing_outcome *outcome_out, struct error *err)
{
    char url[URL_SIZE];
    const struct outgoing_request request = {.method = "GET",
                                             .url = url,
                                             .limits = {.connect_s = peer->connect_s, .whole_s = peer->connect_s},
                                             .gives_up = peer->gives_up,
                                             .take = ignore};
    struct exchange exchange = {.outgoing = outgoing, .request = &request, .result = SUCCESS, .err = err};

    *stream_out = NULL;
    if ((size_t)snprintf(url, sizeof url, "https://%s", peer->host) >= sizeof url)
        return failure(err, ERROR_INVALID, "the name of a host is too long");
    exchange.curl =
        fault_is_due(FAULT_MEMORY) ? NULL : curl_easy_init(); /* its own: a kept one may have a connection for calls */
    if (exchange.curl == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a connection");
    const struct result dialled = dial(&exchange, stream_out, outcome_out, err);
    outgoing_free_lines(exchange.lines);
    if (exchange.curl != NULL) curl_easy_cleanup(exchange.curl);
    else (void)curl_easy_setopt((*stream_out)->curl, CURLOPT_HTTPHEADER, NULL);
    return dialled;
}

/* What the peer sends is read and dropped: else its end would not be seen. */
bool outgoing_stream_is_open(struct outgoing_stream *stream)
{
    char unread[UNREAD_MAX];
    size_t length = 0;

    const CURLcode code = curl_easy_recv(stream->curl, unread, sizeof unread, &length);
    return code == CURLE_AGAIN || (code == CURLE_OK && length > 0);
}

static bool gives_up_now(const atomic_bool *gives_up)
{
    return gives_up != NULL && atomic_load(gives_up);
}

static struct result lost(struct error *err)
{
    return failure(err, ERROR_UNAVAILABLE, "the peer has closed the connection");
}

/* Waits for a moment; fails once it is too late. */
static struct result await(struct outgoing_stream *stream, short events, int64_t until_ms, const atomic_bool *gives_up,
                           struct error *err)
{
    struct pollfd polled = {.fd = stream->socket, .events = events};

    if (gives_up_now(gives_up)) return failure(err, ERROR_UNAVAILABLE, "the server ends");
    if (clock_monotonic_ms() >= until_ms) return failure(err, ERROR_UNAVAILABLE, "the peer took nothing for too long");
    if (poll(&polled, 1, LOOK_MS) < 0 && errno != EINTR) return failure(err, ERROR_UNAVAILABLE, "the connection is not usable");
    return SUCCESS;
}

static struct result write_all(struct outgoing_stream *stream, struct bytes left, unsigned silence_s, const atomic_bool *gives_up,
                               struct error *err)
{
    int64_t until_ms = clock_monotonic_ms() + (int64_t)silence_s * 1000;

    while (left.length > 0) {
        size_t sent = 0;
        const CURLcode code =
            fault_is_due(FAULT_SOCKET) ? CURLE_SEND_ERROR : curl_easy_send(stream->curl, left.data, left.length, &sent);
        if (code != CURLE_OK && code != CURLE_AGAIN) return lost(err);
        left.data += sent;
        left.length -= sent;
        if (sent > 0) until_ms = clock_monotonic_ms() + (int64_t)silence_s * 1000;
        else TRY(await(stream, POLLOUT, until_ms, gives_up, err));
    }
    return SUCCESS;
}

/* Until the kernel holds no byte that the other kernel has not confirmed. */
static struct result drain(struct outgoing_stream *stream, unsigned silence_s, const atomic_bool *gives_up, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + (int64_t)silence_s * 1000;
    int unconfirmed = 0;

    while (ioctl(stream->socket, SIOCOUTQ, &unconfirmed) == 0 && unconfirmed > 0) {
        if (!outgoing_stream_is_open(stream)) return lost(err);
        TRY(await(stream, 0, until_ms, gives_up, err));
    }
    return outgoing_stream_is_open(stream) ? SUCCESS : lost(err);
}

struct result outgoing_stream_send(struct outgoing_stream *stream, struct bytes bytes, unsigned silence_s,
                                   const atomic_bool *gives_up, struct error *err)
{
    if (!outgoing_stream_is_open(stream)) return lost(err);
    TRY(write_all(stream, bytes, silence_s, gives_up, err));
    return drain(stream, silence_s, gives_up, err);
}

void outgoing_stream_free(struct outgoing_stream *stream)
{
    if (stream == NULL) return;
    curl_easy_cleanup(stream->curl);
    free(stream);
}
