#include "crypto/tls_peer.h"

#include <assert.h>
#include <openssl/err.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "crypto/ecdsa_priv.h"
#include "crypto/tls_priv.h"

struct tls_self {
    struct tls_self_options options;
    SSL_CTX *context;
};

struct tls_peer {
    SSL *ssl;
    int fd;
    bool has_ended; /* nothing can be sent any more, not even an end */
    char key[ECDSA_THUMBPRINT_SIZE];
};

static struct result no_memory(struct error *err)
{
    ERR_clear_error();
    return failure(err, ERROR_NO_MEMORY, "no memory for TLS");
}

/* ---- who is known ---- */

static bool thumbprint_of(X509 *certificate, char thumbprint_out[ECDSA_THUMBPRINT_SIZE])
{
    OWNED(ecdsa_key) *key = NULL;
    EVP_PKEY *pkey = certificate == NULL ? NULL : X509_get_pubkey(certificate);
    struct error ignored;

    if (pkey == NULL || !ecdsa_key_adopt(pkey, false, &key, &ignored).ok) return false;
    ecdsa_thumbprint(key->point, thumbprint_out);
    return true;
}

/* In the place of all that a certificate says. TLS itself shows that the other side has the private half. */
static int check_key(X509_STORE_CTX *store, void *argument)
{
    const struct tls_self *self = argument;
    char thumbprint[ECDSA_THUMBPRINT_SIZE];

    if (thumbprint_of(X509_STORE_CTX_get0_cert(store), thumbprint) && self->options.is_known(self->options.context, thumbprint))
        return 1;
    X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
    return 0;
}

static bool use_key(SSL_CTX *context, EVP_PKEY *key)
{
    X509 *certificate = X509_new();

    const bool is_used = certificate != NULL && tls_certificate_fill(certificate, key) &&
                         SSL_CTX_use_certificate(context, certificate) == 1 && SSL_CTX_use_PrivateKey(context, key) == 1;
    X509_free(certificate);
    return is_used;
}

struct result tls_self_new(const struct tls_self_options *options, struct tls_self **self_out, struct error *err)
{
    OWNED(tls_self) *self = memory_zeroed(1, sizeof *self);

    assert(options->key->is_private && options->key->remote.sign == NULL);
    if (self == NULL || (self->context = tls_context_new(TLS_method())) == NULL || !use_key(self->context, options->key->pkey))
        return no_memory(err);
    self->options = *options;
    (void)SSL_CTX_set_mode(self->context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_verify(self->context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_cert_verify_callback(self->context, check_key, self);
    *self_out = GIVE(self);
    return SUCCESS;
}

void tls_self_free(struct tls_self *self)
{
    if (self == NULL) return;
    SSL_CTX_free(self->context);
    free(self);
}

/* ---- a connection ---- */

struct result tls_peer_new(const struct tls_self *self, int fd, bool calls, struct tls_peer **peer_out, struct error *err)
{
    OWNED(tls_peer) *peer = memory_zeroed(1, sizeof *peer);

    if (peer == NULL) {
        (void)close(fd);
        return no_memory(err);
    }
    peer->fd = fd;
    peer->has_ended = true; /* until hands were shaken */
    if ((peer->ssl = SSL_new(self->context)) == NULL || SSL_set_fd(peer->ssl, fd) != 1) return no_memory(err);
    if (calls) SSL_set_connect_state(peer->ssl);
    else SSL_set_accept_state(peer->ssl);
    *peer_out = GIVE(peer);
    return SUCCESS;
}

/* After an operation of OpenSSL that did not succeed. */
static enum tls_step step_of(struct tls_peer *peer, int status)
{
    switch (SSL_get_error(peer->ssl, status)) {
    case SSL_ERROR_WANT_READ: return TLS_READS;
    case SSL_ERROR_WANT_WRITE: return TLS_WRITES;
    case SSL_ERROR_ZERO_RETURN: return TLS_ENDED;
    default: break;
    }
    peer->has_ended = true;
    ERR_clear_error();
    return TLS_FAILED;
}

enum tls_step tls_peer_shake(struct tls_peer *peer)
{
    ERR_clear_error();
    const int status = SSL_do_handshake(peer->ssl);
    if (status != 1) return step_of(peer, status);
    if (!thumbprint_of(SSL_get0_peer_certificate(peer->ssl), peer->key)) return TLS_FAILED;
    peer->has_ended = false;
    return TLS_DONE;
}

const char *tls_peer_key(const struct tls_peer *peer)
{
    return peer->key;
}

enum tls_step tls_peer_read(struct tls_peer *peer, uint8_t *into, size_t length, size_t *length_out)
{
    ERR_clear_error();
    const int status = SSL_read_ex(peer->ssl, into, length, length_out);
    return status == 1 ? TLS_DONE : step_of(peer, status);
}

enum tls_step tls_peer_write(struct tls_peer *peer, struct bytes bytes, size_t *length_out)
{
    ERR_clear_error();
    const int status = SSL_write_ex(peer->ssl, bytes.data, bytes.length, length_out);
    return status == 1 ? TLS_DONE : step_of(peer, status);
}

int tls_peer_descriptor(const struct tls_peer *peer)
{
    return peer->fd;
}

void tls_peer_free(struct tls_peer *peer)
{
    if (peer == NULL) return;
    if (peer->ssl != NULL && !peer->has_ended) (void)SSL_shutdown(peer->ssl);
    SSL_free(peer->ssl);
    ERR_clear_error();
    file_close_owned(&peer->fd);
    free(peer);
}
