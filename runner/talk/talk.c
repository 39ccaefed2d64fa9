/* Messages, their limits, and the time that they may take. All sockets are non-blocking: the clock decides, never the other side. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "runner/talk/talk_priv.h"

#define HEAD_SIZE 5

SSL_CTX *talk_context(bool is_server)
{
    SSL_CTX *context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());

    if (context == NULL) return NULL;
    if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
        SSL_CTX_set_ciphersuites(context, "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256") == 1 &&
        SSL_CTX_set_num_tickets(context, 0) == 1) {
        (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
        (void)SSL_CTX_set_mode(context, SSL_MODE_AUTO_RETRY);
        return context;
    }
    SSL_CTX_free(context);
    return NULL;
}

bool talk_pin(X509 *certificate, char pin_out[TALK_PIN_SIZE])
{
    uint8_t *bytes = NULL, sum[SHA256_SIZE];
    const int length = certificate == NULL ? -1 : i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &bytes);

    if (length <= 0) return false;
    sha256_of((struct bytes){bytes, (size_t)length}, sum);
    OPENSSL_free(bytes);
    text_hex(sum, sizeof sum, pin_out);
    return true;
}

/* ---- waiting ---- */

static struct result gone(struct talk *talk, struct error *err)
{
    talk->has_failed = true;
    ERR_clear_error();
    return failure(err, ERROR_UNAVAILABLE, "the other side of the talk has gone, or is silent");
}

static bool waits(const struct talk *talk, short events, int64_t until_ms)
{
    struct pollfd polled = {.fd = talk->fd, .events = events};

    for (;;) {
        const int64_t left_ms = until_ms - clock_monotonic_ms();
        const int found = poll(&polled, 1, left_ms <= 0 ? 0 : left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
        if (found > 0) return true;
        if (found == 0 || errno != EINTR) return false;
    }
}

/* What an operation of OpenSSL that did not succeed waits for. 0: it has failed. */
static short awaits(const struct talk *talk, int status)
{
    switch (SSL_get_error(talk->tls, status)) {
    case SSL_ERROR_WANT_READ: return POLLIN;
    case SSL_ERROR_WANT_WRITE: return POLLOUT;
    default: return 0;
    }
}

/* A peer that is gone without a word must be noticed by a side that only waits. */
static void watch_peer(int fd)
{
    const int on = 1, idle_s = 10, count = 3;
    const unsigned silence_ms = TALK_SILENCE_MS;

    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static struct result shake_hands(struct talk *talk, bool is_server, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + TALK_SILENCE_MS / 6;

    for (;;) {
        ERR_clear_error();
        const int status = is_server ? SSL_accept(talk->tls) : SSL_connect(talk->tls);
        if (status == 1) return SUCCESS;
        const short events = awaits(talk, status);
        if (events != 0 && waits(talk, events, until_ms)) continue;
        if (SSL_get_verify_result(talk->tls) == X509_V_ERR_APPLICATION_VERIFICATION) {
            talk->has_failed = true;
            return failure(err, ERROR_DENIED, "the runner has not the key that it should have");
        }
        return gone(talk, err);
    }
}

struct result talk_begin(int fd, SSL_CTX *context, bool is_server, struct talk **talk_out, struct error *err)
{
    OWNED(talk) *talk = memory_zeroed(1, sizeof *talk);

    if (talk == NULL) {
        (void)close(fd);
        return failure(err, ERROR_NO_MEMORY, "no memory for a talk");
    }
    talk->fd = fd;
    talk->tls = SSL_new(context);
    if (talk->tls == NULL || SSL_set_fd(talk->tls, fd) != 1) return failure(err, ERROR_NO_MEMORY, "no memory for a talk");
    watch_peer(fd);
    TRY(shake_hands(talk, is_server, err));
    *talk_out = GIVE(talk);
    return SUCCESS;
}

/* ---- sending ---- */

static struct result write_all(struct talk *talk, const uint8_t *from, size_t length, int64_t until_ms, struct error *err)
{
    size_t done = 0;

    while (length > 0) {
        ERR_clear_error();
        const int status = SSL_write_ex(talk->tls, from, length, &done);
        if (status == 1) {
            from += done;
            length -= done;
            continue;
        }
        const short events = awaits(talk, status);
        if (events == 0 || !waits(talk, events, until_ms)) return gone(talk, err);
    }
    return SUCCESS;
}

struct result talk_send(struct talk *talk, enum talk_kind kind, struct bytes content, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + TALK_SILENCE_MS;
    const uint8_t head[HEAD_SIZE] = {(uint8_t)kind, (uint8_t)(content.length >> 24), (uint8_t)(content.length >> 16),
                                     (uint8_t)(content.length >> 8), (uint8_t)content.length};

    if (content.length > TALK_MESSAGE_MAX) return failure(err, ERROR_LIMIT, "a message of a talk is too long");
    if (talk->has_failed) return gone(talk, err);
    TRY(write_all(talk, head, sizeof head, until_ms, err));
    return write_all(talk, content.data, content.length, until_ms, err);
}

struct result talk_send_texts(struct talk *talk, enum talk_kind kind, const char *const *texts, size_t count, struct error *err)
{
    struct buffer OWNED_BUFFER content = BUFFER(TALK_MESSAGE_MAX);

    for (size_t i = 0; i < count; i++) TRY(buffer_add(&content, texts[i], strlen(texts[i]) + 1, err));
    return talk_send(talk, kind, buffer_bytes(&content), err);
}

/* ---- receiving ---- */

/* *length_out 0: the other side has ended it in order. */
static struct result read_some(struct talk *talk, uint8_t *into, size_t length, int64_t until_ms, size_t *length_out,
                               struct error *err)
{
    *length_out = 0;
    for (;;) {
        ERR_clear_error();
        const int status = SSL_read_ex(talk->tls, into, length, length_out);
        if (status == 1) return SUCCESS;
        if (SSL_get_error(talk->tls, status) == SSL_ERROR_ZERO_RETURN) return SUCCESS;
        const short events = awaits(talk, status);
        if (events == 0 || !waits(talk, events, until_ms)) return gone(talk, err);
    }
}

static struct result read_all(struct talk *talk, uint8_t *into, size_t length, int64_t until_ms, struct error *err)
{
    size_t got = 0;

    for (; length > 0; into += got, length -= got) {
        TRY(read_some(talk, into, length, until_ms, &got, err));
        if (got == 0) return gone(talk, err);
    }
    return SUCCESS;
}

bool talk_is_ready(const struct talk *talk)
{
    return SSL_has_pending(talk->tls) == 1;
}

int talk_descriptor(const struct talk *talk)
{
    return talk->fd;
}

static bool is_known(uint8_t letter)
{
    return letter != 0 && strchr("tcsrfpwglbueqkoxy", letter) != NULL;
}

struct result talk_receive(struct talk *talk, int64_t patience_ms, struct talk_message *message, struct error *err)
{
    uint8_t head[HEAD_SIZE], *room = NULL;
    size_t got = 0;

    buffer_clear(&message->content);
    message->kind = TALK_END;
    message->count = 0;
    if (!talk_is_ready(talk) && !waits(talk, POLLIN, clock_monotonic_ms() + patience_ms))
        return failure(err, ERROR_NOT_FOUND, "the other side says nothing");
    const int64_t until_ms = clock_monotonic_ms() + TALK_SILENCE_MS;
    TRY(read_some(talk, head, 1, until_ms, &got, err));
    if (got == 0) return SUCCESS;
    TRY(read_all(talk, head + 1, sizeof head - 1, until_ms, err));
    const size_t length = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
    if (!is_known(head[0]) || length > TALK_MESSAGE_MAX) return failure(err, ERROR_INVALID, "what came is no message of a talk");
    if (length > 0) {
        TRY(buffer_reserve(&message->content, length, &room, err));
        TRY(read_all(talk, room, length, until_ms, err));
        message->content.length += length;
    }
    message->kind = (enum talk_kind)head[0];
    return SUCCESS;
}

struct result talk_texts(struct talk_message *message, size_t least, struct error *err)
{
    const struct bytes content = buffer_bytes(&message->content);
    const char *texts = (const char *)content.data;

    message->count = 0;
    if (content.length > 0 && texts[content.length - 1] != '\0')
        return failure(err, ERROR_INVALID, "a text of a talk has no end");
    for (size_t at = 0; at < content.length; at += strlen(texts + at) + 1) {
        if (message->count == TALK_TEXTS_MAX) return failure(err, ERROR_INVALID, "a message of a talk has too many texts");
        message->texts[message->count++] = texts + at;
    }
    message->texts[message->count] = NULL;
    return message->count >= least ? SUCCESS : failure(err, ERROR_INVALID, "a message of a talk has too few texts");
}

void talk_free(struct talk *talk)
{
    if (talk == NULL) return;
    if (talk->tls != NULL && !talk->has_failed) (void)SSL_shutdown(talk->tls);
    SSL_free(talk->tls);
    ERR_clear_error();
    file_close_owned(&talk->fd);
    free(talk);
}
