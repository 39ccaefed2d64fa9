/*
 * bench/tls_bench.c -- what TLS alone costs here: one direction, one connection over loopback, nothing else done.
 *
 * usage: tls_bench [MIB]
 * GnuTLS at both ends, TLS 1.3, AES-256-GCM as curl negotiates it (Go's clients take AES-128). Prints wall MB/s, and CPU seconds per GB of the sending and of the receiving thread: the bounds of a
 * pull and of a push before a byte was hashed, sealed or stored.
 */
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"

#define PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-256-GCM"

static uint64_t total;

struct side {
    int fd;
    bool sends;
    unsigned role; /* GNUTLS_SERVER or GNUTLS_CLIENT */
    double cpu;
    bool is_done;
};

static double seconds(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The server's certificate is made here and good for nothing else; the client does not look at it. */
static bool certify(gnutls_certificate_credentials_t credentials)
{
    gnutls_x509_privkey_t key = NULL;
    gnutls_x509_crt_t certificate = NULL;

    const bool is_made =
        gnutls_x509_privkey_init(&key) == 0 && gnutls_x509_crt_init(&certificate) == 0 &&
        gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0) == 0 &&
        gnutls_x509_crt_set_version(certificate, 3) == 0 && gnutls_x509_crt_set_serial(certificate, "\1", 1) == 0 &&
        gnutls_x509_crt_set_activation_time(certificate, time(NULL) - 60) == 0 &&
        gnutls_x509_crt_set_expiration_time(certificate, time(NULL) + 3600) == 0 &&
        gnutls_x509_crt_set_key(certificate, key) == 0 &&
        gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA256, 0) == 0 &&
        gnutls_certificate_set_x509_key(credentials, &certificate, 1, key) == 0;
    gnutls_x509_crt_deinit(certificate);
    gnutls_x509_privkey_deinit(key);
    return is_made;
}

static bool move(gnutls_session_t session, bool sends)
{
    static const size_t block = 64 << 10;
    uint8_t *bytes = memory_zeroed(1, block);
    uint64_t moved = 0;

    if (bytes == NULL) return false;
    while (moved < total) {
        const ssize_t part = sends ? gnutls_record_send(session, bytes, block) : gnutls_record_recv(session, bytes, block);
        if (part <= 0) break;
        moved += (uint64_t)part;
    }
    free(bytes);
    return moved >= total;
}

static bool shake_hands(gnutls_session_t session, const struct side *side, gnutls_certificate_credentials_t *credentials_out)
{
    int shaken = -1;

    if (gnutls_certificate_allocate_credentials(credentials_out) != 0) return false;
    if (side->role == GNUTLS_SERVER && !certify(*credentials_out)) return false;
    (void)gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, *credentials_out);
    (void)gnutls_priority_set_direct(session, PRIORITIES, NULL);
    gnutls_transport_set_int(session, side->fd);
    do shaken = gnutls_handshake(session);
    while (shaken < 0 && !gnutls_error_is_fatal(shaken));
    return shaken == GNUTLS_E_SUCCESS;
}

static void *run(void *argument)
{
    struct side *side = argument;
    gnutls_session_t session = NULL;
    gnutls_certificate_credentials_t credentials = NULL;

    if (gnutls_init(&session, side->role) != GNUTLS_E_SUCCESS) return NULL;
    const bool is_ready = shake_hands(session, side, &credentials);
    const double start = seconds(CLOCK_THREAD_CPUTIME_ID);
    side->is_done = is_ready && move(session, side->sends);
    side->cpu = seconds(CLOCK_THREAD_CPUTIME_ID) - start;
    (void)shutdown(side->fd, SHUT_RDWR); /* so that the other end never waits for one that failed */
    gnutls_deinit(session);
    gnutls_certificate_free_credentials(credentials);
    return NULL;
}

/* Two ends of a TCP connection over loopback. */
static bool connect_both(int ends[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);

    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    const bool is_ready = listener >= 0 && ends[0] >= 0 && bind(listener, (struct sockaddr *)&address, sizeof address) == 0 &&
                          listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&address, &length) == 0 &&
                          connect(ends[0], (struct sockaddr *)&address, length) == 0;
    ends[1] = is_ready ? accept(listener, NULL, NULL) : -1;
    if (listener >= 0) (void)close(listener);
    return ends[1] >= 0;
}

int main(int count, char **words)
{
    uint64_t mebibytes = 1024;
    int ends[2];
    pthread_t other;

    if (count > 1 && !text_to_u64(bytes_of_text(words[1]), 1 << 20, &mebibytes)) {
        (void)fprintf(stderr, "usage: tls_bench [MIB]\n");
        return 2;
    }
    total = mebibytes << 20;
    if (!connect_both(ends)) {
        perror("tls_bench: loopback");
        return 1;
    }
    struct side sender = {.fd = ends[0], .sends = true, .role = GNUTLS_CLIENT};
    struct side receiver = {.fd = ends[1], .role = GNUTLS_SERVER};
    const double start = seconds(CLOCK_MONOTONIC);
    if (pthread_create(&other, NULL, run, &sender) != 0) return 1;
    (void)run(&receiver);
    (void)pthread_join(other, NULL);
    const double wall = seconds(CLOCK_MONOTONIC) - start, gigabytes = (double)total / 1e9;
    if (!sender.is_done || !receiver.is_done) {
        (void)fprintf(stderr, "tls_bench: the connection failed\n");
        return 1;
    }
    (void)printf("tls: %.0f MB/s, send %.2f s/GB, receive %.2f s/GB\n", gigabytes * 1000 / wall, sender.cpu / gigabytes,
                 receiver.cpu / gigabytes);
    return 0;
}
