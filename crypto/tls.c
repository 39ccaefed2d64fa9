#include "crypto/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/tls_priv.h"

#define LIFE_S  (90 * 24 * 3600) /* of a certificate that nobody reads: the client compares the key alone */
#define CIPHERS "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

struct tls_server {
    SSL_CTX *context;
    char pin[TLS_PIN_SIZE];
};

struct tls {
    SSL *ssl;
    int fd;
    bool has_failed; /* nothing can be sent any more, not even close_notify */
};

static struct result no_memory(struct error *err)
{
    ERR_clear_error();
    return failure(err, ERROR_NO_MEMORY, "no memory for TLS");
}

/* ---- keys ---- */

SSL_CTX *tls_context_new(const SSL_METHOD *method)
{
    SSL_CTX *context = SSL_CTX_new(method);

    if (context == NULL) return NULL;
    if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 && SSL_CTX_set_ciphersuites(context, CIPHERS) == 1 &&
        SSL_CTX_set_num_tickets(context, 0) == 1) {
        (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
        (void)SSL_CTX_set_mode(context, SSL_MODE_AUTO_RETRY);
        return context;
    }
    SSL_CTX_free(context);
    return NULL;
}

static bool pin_of(X509 *certificate, char pin_out[TLS_PIN_SIZE])
{
    uint8_t *bytes = NULL, sum[SHA256_SIZE];
    const int length = certificate == NULL ? -1 : i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &bytes);

    if (length <= 0) return false;
    sha256_of((struct bytes){bytes, (size_t)length}, sum);
    OPENSSL_free(bytes);
    text_hex(sum, sizeof sum, pin_out);
    return true;
}

bool tls_certificate_fill(X509 *certificate, EVP_PKEY *key)
{
    X509_NAME *name = X509_get_subject_name(certificate);

    return X509_set_version(certificate, X509_VERSION_3) == 1 && ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) == 1 &&
           X509_gmtime_adj(X509_getm_notBefore(certificate), -3600) != NULL &&
           X509_gmtime_adj(X509_getm_notAfter(certificate), LIFE_S) != NULL &&
           X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)"sijil", -1, -1, 0) == 1 &&
           X509_set_issuer_name(certificate, name) == 1 && X509_set_pubkey(certificate, key) == 1 &&
           X509_sign(certificate, key, EVP_sha256()) > 0;
}

static bool make_key(struct tls_server *server)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();

    const bool is_made = key != NULL && certificate != NULL && tls_certificate_fill(certificate, key) &&
                         pin_of(certificate, server->pin) && SSL_CTX_use_certificate(server->context, certificate) == 1 &&
                         SSL_CTX_use_PrivateKey(server->context, key) == 1;
    X509_free(certificate);
    EVP_PKEY_free(key);
    return is_made;
}

struct result tls_server_new(struct tls_server **server_out, struct error *err)
{
    OWNED(tls_server) *server = memory_zeroed(1, sizeof *server);

    if (server == NULL || (server->context = tls_context_new(TLS_server_method())) == NULL || !make_key(server))
        return no_memory(err);
    *server_out = GIVE(server);
    return SUCCESS;
}

const char *tls_server_pin(const struct tls_server *server)
{
    return server->pin;
}

void tls_server_free(struct tls_server *server)
{
    if (server == NULL) return;
    SSL_CTX_free(server->context);
    free(server);
}

/* Checks nothing of a certificate but its key: it must be the right one. TLS itself shows that the other side has the private key. */
static int compare_key(X509_STORE_CTX *store, void *argument)
{
    char pin[TLS_PIN_SIZE];

    if (pin_of(X509_STORE_CTX_get0_cert(store), pin) && strcmp(pin, argument) == 0) return 1;
    X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
}

/* ---- waiting ---- */

static bool waits_for(const struct tls *tls, short events, int64_t until_ms)
{
    struct pollfd polled = {.fd = tls->fd, .events = events};

    for (;;) {
        const int64_t left_ms = until_ms - clock_monotonic_ms();
        const int found = poll(&polled, 1, left_ms <= 0 ? 0 : left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
        if (found > 0) return true;
        if (found == 0 || errno != EINTR) return false;
    }
}

/* Whether an operation of OpenSSL that did not succeed must be repeated. Waits until it can be. */
static bool may_retry(const struct tls *tls, int status, int64_t until_ms)
{
    switch (SSL_get_error(tls->ssl, status)) {
    case SSL_ERROR_WANT_READ: return waits_for(tls, POLLIN, until_ms);
    case SSL_ERROR_WANT_WRITE: return waits_for(tls, POLLOUT, until_ms);
    default: return false;
    }
}

static struct result gone(struct tls *tls, struct error *err)
{
    tls->has_failed = true;
    ERR_clear_error();
    return failure(err, ERROR_UNAVAILABLE, "the other side has gone, or is silent");
}

/* ---- the beginning ---- */

static struct result shake_hands(struct tls *tls, int64_t until_ms, struct error *err)
{
    for (;;) {
        ERR_clear_error();
        const int status = SSL_connect(tls->ssl);
        if (status == 1) return SUCCESS;
        if (may_retry(tls, status, until_ms)) continue;
        if (SSL_get_verify_result(tls->ssl) != X509_V_ERR_APPLICATION_VERIFICATION) return gone(tls, err);
        (void)gone(tls, err);
        return failure(err, ERROR_DENIED, "the other side does not have the key that it should have");
    }
}

static struct result make(int fd, SSL_CTX *context, struct tls **tls_out, struct error *err)
{
    OWNED(tls) *tls = memory_zeroed(1, sizeof *tls);

    if (tls == NULL) {
        (void)close(fd);
        return no_memory(err);
    }
    tls->fd = fd;
    tls->has_failed = true; /* until the handshake has succeeded */
    if (context == NULL || (tls->ssl = SSL_new(context)) == NULL || SSL_set_fd(tls->ssl, fd) != 1) return no_memory(err);
    *tls_out = GIVE(tls);
    return SUCCESS;
}

static struct result begin(int fd, SSL_CTX *context, int64_t until_ms, struct tls **tls_out, struct error *err)
{
    OWNED(tls) *tls = NULL;

    TRY(make(fd, context, &tls, err));
    TRY(shake_hands(tls, until_ms, err));
    tls->has_failed = false;
    *tls_out = GIVE(tls);
    return SUCCESS;
}

struct result tls_await(int fd, const struct tls_server *server, struct tls **tls_out, struct error *err)
{
    return make(fd, server->context, tls_out, err);
}

static enum tls_step again_or_gone(struct tls *tls, int status, short *events_out)
{
    const int why = SSL_get_error(tls->ssl, status);

    *events_out = why == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) return TLS_AGAIN;
    tls->has_failed = true;
    ERR_clear_error();
    return TLS_GONE;
}

enum tls_step tls_shake(struct tls *tls, short *events_out)
{
    ERR_clear_error();
    const int status = SSL_accept(tls->ssl);
    if (status != 1) return again_or_gone(tls, status, events_out);
    tls->has_failed = false;
    return TLS_DONE;
}

enum tls_step tls_take(struct tls *tls, uint8_t *into, size_t length, size_t *length_out, short *events_out)
{
    ERR_clear_error();
    const int status = SSL_read_ex(tls->ssl, into, length, length_out);
    return status == 1 ? TLS_DONE : again_or_gone(tls, status, events_out);
}

struct result tls_connect(int fd, const char *pin, int64_t until_ms, struct tls **tls_out, struct error *err)
{
    SSL_CTX *context = tls_context_new(TLS_client_method());
    char wanted[TLS_PIN_SIZE] = "";

    if (strlen(pin) == sizeof wanted - 1) memcpy(wanted, pin, sizeof wanted); /* a pin of another length fits no key */
    if (context != NULL) {
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_cert_verify_callback(context, compare_key, wanted);
    }
    const struct result begun = begin(fd, context, until_ms, tls_out, err);
    SSL_CTX_free(context); /* the connection has its own reference; `wanted` was used during the handshake only */
    return begun;
}

/* ---- bytes ---- */

struct result tls_write(struct tls *tls, struct bytes bytes, int64_t until_ms, struct error *err)
{
    size_t done = 0;

    if (tls->has_failed) return gone(tls, err);
    for (size_t at = 0; at < bytes.length;) {
        ERR_clear_error();
        const int status = SSL_write_ex(tls->ssl, bytes.data + at, bytes.length - at, &done);
        if (status == 1) at += done;
        else if (!may_retry(tls, status, until_ms)) return gone(tls, err);
    }
    return SUCCESS;
}

struct result tls_read(struct tls *tls, uint8_t *into, size_t length, int64_t until_ms, size_t *length_out, struct error *err)
{
    size_t got = 0;

    for (;;) {
        ERR_clear_error();
        const int status = SSL_read_ex(tls->ssl, into, length, &got);
        if (status == 1 || SSL_get_error(tls->ssl, status) == SSL_ERROR_ZERO_RETURN) break;
        if (!may_retry(tls, status, until_ms)) return gone(tls, err);
    }
    *length_out = got;
    return SUCCESS;
}

bool tls_waits(const struct tls *tls, int64_t until_ms)
{
    return waits_for(tls, POLLIN, until_ms);
}

bool tls_has_more(const struct tls *tls)
{
    return SSL_has_pending(tls->ssl) == 1;
}

int tls_descriptor(const struct tls *tls)
{
    return tls->fd;
}

void tls_free(struct tls *tls)
{
    if (tls == NULL) return;
    if (tls->ssl != NULL && !tls->has_failed) (void)SSL_shutdown(tls->ssl);
    SSL_free(tls->ssl);
    ERR_clear_error();
    file_close_owned(&tls->fd);
    free(tls);
}
