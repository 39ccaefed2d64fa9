/*
 * bench/tls_sink.c -- what taking in a push costs before a byte of it is looked at: TLS, and nothing else. Or the least that a
 * push can be: TLS, hashing, sealing and writing in a straight line.
 *
 * usage: tls_sink PORT CERTIFICATE KEY [FOLDER]
 * Answers the POST and PUT of an upload on 127.0.0.1 and throws the body away, or keeps it in FOLDER, made into a region, with the
 * gateway's own functions. A thread for each connection, which waits in recv(); many records with one call of the kernel, as the
 * gateway reads them. Its CPU time under sijil-load is the part of a push that TLS needs, with the very client that pushes to the
 * registries; with FOLDER it is that of all parts when each has what the one before left in the cache. It asks nobody, records
 * nothing, and nothing else can run beside its bodies. Runs until it is killed.
 */
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "crypto/aead.h"
#include "crypto/digest.h"
#include "storage/driver.h"

enum {
    INBOX = 128 << 10,               /* as the gateway reads ahead */
    HEAD = 16 << 10,                 /* a head with a token of 12 KiB */
    PIECE = 64 << 10,                /* that is hashed, and sealed, at a time */
    APPEND = 256 << 10,              /* to a blob's file */
    TURNS = 1 + DRIVER_APPENDS_HELD, /* blocks that are appended from in turn */
    STRIDE = APPEND + 4096,          /* from one to the next: the last piece's tag goes behind a block */
};

struct connection {
    int fd;
    gnutls_session_t session;
    uint8_t inbox[INBOX];
    size_t at, end;
    char head[HEAD + 1];
};

static gnutls_certificate_credentials_t credentials;
static struct driver *driver; /* NULL: bodies are thrown away */

/* A body that is kept: hashed, and sealed into blocks which are appended to a file. */
struct keeping {
    struct hasher *hasher;
    struct gcm *gcm;
    struct driver_extent *extent;
    uint8_t *blocks;
    size_t length; /* in the block whose turn it is */
    unsigned turn;
    uint64_t sealed;
    uint8_t piece[PIECE];
};

static ssize_t pull(gnutls_transport_ptr_t context, void *place, size_t length)
{
    struct connection *connection = context;

    if (connection->at == connection->end) {
        const ssize_t count = recv(connection->fd, connection->inbox, INBOX, 0);
        if (count <= 0) return count;
        connection->at = 0;
        connection->end = (size_t)count;
    }
    const size_t there = connection->end - connection->at, count = there < length ? there : length;
    memcpy(place, connection->inbox + connection->at, count);
    connection->at += count;
    return (ssize_t)count;
}

static ssize_t push(gnutls_transport_ptr_t context, const void *bytes, size_t length)
{
    return send(((struct connection *)context)->fd, bytes, length, MSG_NOSIGNAL);
}

/* Reads a head; the body's bytes that came with it are counted in *taken_out. */
static bool read_head(struct connection *connection, uint64_t *body_out, uint64_t *taken_out)
{
    size_t length = 0;
    uint64_t body = 0;

    for (const char *end = NULL; end == NULL;) {
        const ssize_t count = gnutls_record_recv(connection->session, connection->head + length, HEAD - length);
        if (count <= 0) return false;
        length += (size_t)count;
        connection->head[length] = '\0';
        end = strstr(connection->head, "\r\n\r\n");
        if (end != NULL) *taken_out = length - (size_t)(end + 4 - connection->head);
    }
    const char *line = strcasestr(connection->head, "\r\ncontent-length:");
    if (line != NULL) {
        line += 17 + strspn(line + 17, " ");
        if (!text_to_u64((struct bytes){(const uint8_t *)line, strcspn(line, "\r")}, UINT64_MAX, &body)) return false;
    }
    *body_out = body;
    return true;
}

static bool append(struct keeping *keeping)
{
    const uint8_t *block = keeping->blocks + (size_t)keeping->turn * STRIDE;
    struct error err = {0};

    if (!driver->operations->extent_append(keeping->extent, (struct bytes){block, keeping->length}, &err).ok) return false;
    keeping->turn = (keeping->turn + 1) % TURNS;
    keeping->length = 0;
    return true;
}

/* What the gateway's receiver does with a piece, but for the tag, which the next piece overwrites. */
static bool keep(struct keeping *keeping, size_t length)
{
    uint8_t nonce[GCM_NONCE_SIZE] = {0};
    uint8_t *target = keeping->blocks + (size_t)keeping->turn * STRIDE + keeping->length;
    struct error err = {0};

    hasher_add(keeping->hasher, (struct bytes){keeping->piece, length});
    store_u64(nonce, keeping->sealed++);
    if (!gcm_seal(keeping->gcm, nonce, (struct bytes){0}, (struct bytes){keeping->piece, length}, target, &err).ok) return false;
    keeping->length += length;
    return keeping->length < APPEND || append(keeping);
}

static void keeping_end(struct keeping *keeping)
{
    if (keeping->extent != NULL) driver->operations->extent_close(keeping->extent);
    hasher_free(keeping->hasher);
    gcm_free(keeping->gcm);
    free(keeping->blocks);
    free(keeping);
}

static struct keeping *keeping_begin(uint64_t length)
{
    static const uint8_t key[GCM_KEY_SIZE];
    const struct driver_history nothing = {.expected = length};
    const struct uuid blob = uuid_random();
    struct keeping *keeping = memory_zeroed(1, sizeof *keeping);
    struct error err = {0};

    if (keeping == NULL) return NULL;
    keeping->blocks = aligned_alloc(4096, (size_t)TURNS * STRIDE);
    if (keeping->blocks != NULL && hasher_new(DIGEST_SHA256, &keeping->hasher, &err).ok && gcm_new(key, &keeping->gcm, &err).ok &&
        driver->operations->extent_create(driver, &blob, &nothing, &keeping->extent, &err).ok)
        return keeping;
    keeping_end(keeping);
    return NULL;
}

/* Reads up to PIECE bytes; how many there were, 0 at a broken connection. */
static size_t read_piece(struct connection *connection, uint8_t *piece, uint64_t left)
{
    const size_t wanted = left < PIECE ? (size_t)left : PIECE;
    size_t length = 0;

    while (length < wanted) {
        const ssize_t count = gnutls_record_recv(connection->session, piece + length, wanted - length);
        if (count <= 0) return 0;
        length += (size_t)count;
    }
    return length;
}

static bool throw_body(struct connection *connection, uint64_t left)
{
    static _Thread_local uint8_t piece[INBOX];

    while (left > 0) {
        const ssize_t count = gnutls_record_recv(connection->session, piece, left < sizeof piece ? (size_t)left : sizeof piece);
        if (count <= 0) return false;
        left -= (uint64_t)count;
    }
    return true;
}

static bool keep_body(struct connection *connection, uint64_t left)
{
    struct keeping *keeping = keeping_begin(left);
    struct error err = {0};
    bool ok = keeping != NULL;

    for (size_t count; ok && left > 0; left -= count) {
        count = read_piece(connection, keeping->piece, left);
        ok = count > 0 && keep(keeping, count);
    }
    if (ok && keeping->length > 0) ok = append(keeping);
    if (ok) ok = driver->operations->extent_finish(keeping->extent, &err).ok;
    if (keeping != NULL) keeping_end(keeping);
    return ok;
}

static bool take_body(struct connection *connection, uint64_t left)
{
    return driver == NULL || left == 0 ? throw_body(connection, left) : keep_body(connection, left);
}

static bool serve_one(struct connection *connection)
{
    static const char accepted[] = "HTTP/1.1 202 Accepted\r\nLocation: /v2/sink/blobs/uploads/1\r\nContent-Length: 0\r\n\r\n";
    static const char created[] = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
    uint64_t body = 0, taken = 0;

    if (!read_head(connection, &body, &taken) || taken > body || !take_body(connection, body - taken)) return false;
    const char *answer = strncmp(connection->head, "POST", 4) == 0 ? accepted : created;
    return gnutls_record_send(connection->session, answer, strlen(answer)) > 0;
}

static void *serve(void *argument)
{
    struct connection *connection = argument;
    int shaken = -1;

    if (gnutls_init(&connection->session, GNUTLS_SERVER) != GNUTLS_E_SUCCESS) exit(1);
    (void)gnutls_credentials_set(connection->session, GNUTLS_CRD_CERTIFICATE, credentials);
    (void)gnutls_priority_set_direct(connection->session, "NORMAL:-VERS-ALL:+VERS-TLS1.3", NULL);
    gnutls_transport_set_ptr(connection->session, connection);
    gnutls_transport_set_pull_function(connection->session, pull);
    gnutls_transport_set_push_function(connection->session, push);
    do shaken = gnutls_handshake(connection->session);
    while (shaken < 0 && !gnutls_error_is_fatal(shaken));
    while (shaken == GNUTLS_E_SUCCESS && serve_one(connection)) continue;
    gnutls_deinit(connection->session);
    (void)close(connection->fd);
    free(connection);
    return NULL;
}

static int listen_on(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    const int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1;

    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    return bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 128) == 0 ? fd : -1;
}

int main(int count, char **words)
{
    uint64_t port = 0;

    if (count < 4 || count > 5 || !text_to_u64(bytes_of_text(words[1]), 65535, &port)) {
        (void)fprintf(stderr, "usage: tls_sink PORT CERTIFICATE KEY [FOLDER]\n");
        return 2;
    }
    struct error err = {0};
    if (count == 5 && !driver_fs_open(words[4], 64 << 20, &driver, &err).ok) {
        (void)fprintf(stderr, "tls_sink: %s\n", err.message);
        return 1;
    }
    const int listener = listen_on((uint16_t)port);
    if (listener < 0 || gnutls_certificate_allocate_credentials(&credentials) != 0 ||
        gnutls_certificate_set_x509_key_file(credentials, words[2], words[3], GNUTLS_X509_FMT_PEM) < 0) {
        (void)fprintf(stderr, "tls_sink: can't listen there, or can't read the certificate\n");
        return 1;
    }
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0;) {
        struct connection *connection = memory_zeroed(1, sizeof *connection);
        const int yes = 1;
        pthread_t thread;
        if (connection == NULL) return 1;
        connection->fd = fd;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        if (pthread_create(&thread, NULL, serve, connection) != 0 || pthread_detach(thread) != 0) return 1;
    }
    return 1;
}
