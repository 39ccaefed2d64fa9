#include "gateway/http/tls.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/certificate.h"
#include "crypto/digest.h"
#include "crypto/secret.h"
#include "gateway/http/authorities.h"
#include "gateway/http/metrics.h"
#include "gateway/http/server_priv.h"

#define PEM_MAX ((size_t)CERTIFICATE_PEM_MAX)

/* GnuTLS takes these through pointers that are not const. */
static unsigned char protocol_name[] = "http/1.1";
static unsigned char client_purpose[] = GNUTLS_KP_TLS_WWW_CLIENT;

struct credentials {
    gnutls_certificate_credentials_t certificate;
    bool asks_client, has_authorities, takes_any, demands_client;
    uint64_t generation;
    _Atomic int uses;
};

struct tls {
    struct tls_files files;
    pthread_mutex_t mutex; /* for `current` and `generation` */
    struct credentials *current;
    uint64_t generation;
    struct buffer certificate_pem, key_pem;
};

static void credentials_free(struct credentials *credentials)
{
    if (credentials == NULL) return;
    if (credentials->certificate != NULL) gnutls_certificate_free_credentials(credentials->certificate);
    free(credentials);
}
DEFINE_OWNED(credentials);

/* Drops one reference; the last one frees the credentials. */
static void credentials_drop(struct credentials *credentials)
{
    if (credentials != NULL && atomic_fetch_sub(&credentials->uses, 1) == 1) credentials_free(credentials);
}

static struct credentials *credentials_keep(struct tls *tls)
{
    pthread_mutex_lock(&tls->mutex);
    struct credentials *credentials = tls->current;
    atomic_fetch_add(&credentials->uses, 1);
    pthread_mutex_unlock(&tls->mutex);
    return credentials;
}

static struct result read_pair(const struct tls_files *files, struct buffer *certificate, struct buffer *key, struct error *err)
{
    struct certificate_facts facts;

    TRY(file_read(files->certificate, certificate, err));
    TRY(file_read(files->key, key, err));
    return certificate_check_pair(buffer_bytes(certificate), buffer_bytes(key), &facts, err);
}

static gnutls_datum_t datum_of(const struct buffer *buffer)
{
    return (gnutls_datum_t){.data = buffer->data, .size = (unsigned)buffer->length};
}

static bool has_runners(const struct tls_files *files)
{
    return files->runner_authority[0] != 0;
}

static struct result fill(struct credentials *credentials, const struct tls_files *files, const struct buffer *certificate,
                          const struct buffer *key, struct error *err)
{
    const gnutls_datum_t chain = datum_of(certificate), private_key = datum_of(key);

    if (gnutls_certificate_allocate_credentials(&credentials->certificate) != GNUTLS_E_SUCCESS)
        return failure(err, ERROR_NO_MEMORY, "no memory for TLS credentials");
    int code = gnutls_certificate_set_x509_key_mem(credentials->certificate, &chain, &private_key, GNUTLS_X509_FMT_PEM);
    if (code < 0) return failure(err, ERROR_INVALID, "%s and %s: %s", files->certificate, files->key, gnutls_strerror(code));
    credentials->takes_any = files->takes_any;
    credentials->demands_client = files->demands_client;
    credentials->asks_client = has_runners(files) || files->takes_any;
    if (files->client_ca[0] == '\0') return SUCCESS;
    code = gnutls_certificate_set_x509_trust_file(credentials->certificate, files->client_ca, GNUTLS_X509_FMT_PEM);
    if (code <= 0) return failure(err, ERROR_INVALID, "%s holds no authority", files->client_ca);
    credentials->asks_client = credentials->has_authorities = true;
    return SUCCESS;
}

static struct result credentials_new(const struct tls_files *files, const struct buffer *certificate, const struct buffer *key,
                                     struct credentials **credentials_out, struct error *err)
{
    OWNED(credentials) *credentials = memory_zeroed(1, sizeof *credentials);

    if (credentials == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for TLS credentials");
    atomic_init(&credentials->uses, 1);
    TRY(fill(credentials, files, certificate, key, err));
    *credentials_out = GIVE(credentials);
    return SUCCESS;
}

/* Keeps the earliest expiry: that certificate must be renewed first. */
static void take_expiry(gnutls_x509_crt_t certificate, int64_t *first_s)
{
    const int64_t ends_s = (int64_t)gnutls_x509_crt_get_expiration_time(certificate);

    if (*first_s == 0 || ends_s < *first_s) *first_s = ends_s;
}

static int64_t chain_expiry_s(const struct credentials *credentials)
{
    gnutls_x509_crt_t *chain = NULL;
    unsigned count = 0;
    int64_t first_s = 0;

    if (gnutls_certificate_get_x509_crt(credentials->certificate, 0, &chain, &count) != GNUTLS_E_SUCCESS) return 0;
    for (unsigned i = 0; i < count; i++) {
        take_expiry(chain[i], &first_s);
        gnutls_x509_crt_deinit(chain[i]);
    }
    gnutls_free(chain);
    return first_s;
}

static int64_t authorities_expiry_s(const struct credentials *credentials)
{
    gnutls_x509_trust_list_t authorities = NULL;
    gnutls_x509_trust_list_iter_t iterator = NULL;
    gnutls_x509_crt_t authority = NULL;
    int64_t first_s = 0;

    gnutls_certificate_get_trust_list(credentials->certificate, &authorities);
    while (authorities != NULL && gnutls_x509_trust_list_iter_get_ca(authorities, &iterator, &authority) == GNUTLS_E_SUCCESS) {
        take_expiry(authority, &first_s);
        gnutls_x509_crt_deinit(authority);
    }
    return first_s;
}

static void set_expiry_metrics(const struct credentials *credentials)
{
    if (credentials->demands_client) return;
    metric_set(&metrics_http[METRIC_EXPIRY_SERVER], chain_expiry_s(credentials));
    metric_set(&metrics_http[METRIC_EXPIRY_CLIENTS], authorities_expiry_s(credentials));
}

struct result tls_new(const struct tls_files *files, struct tls **tls_out, struct error *err)
{
    OWNED(tls) *tls = memory_zeroed(1, sizeof *tls);

    if (tls == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for TLS");
    pthread_mutex_init(&tls->mutex, NULL);
    tls->files = *files;
    tls->certificate_pem = BUFFER(PEM_MAX);
    tls->key_pem = BUFFER(PEM_MAX);
    TRY(read_pair(files, &tls->certificate_pem, &tls->key_pem, err));
    TRY(credentials_new(files, &tls->certificate_pem, &tls->key_pem, &tls->current, err));
    tls->current->generation = tls->generation = 1;
    set_expiry_metrics(tls->current);
    *tls_out = GIVE(tls);
    return SUCCESS;
}

static void wipe(struct buffer *buffer)
{
    if (buffer->data != NULL) secret_wipe(buffer->data, buffer->length);
    buffer_done(buffer);
}

struct result tls_reload(struct tls *tls, struct error *err)
{
    struct buffer OWNED_BUFFER certificate = BUFFER(PEM_MAX), key = BUFFER(PEM_MAX);
    struct credentials *fresh = NULL;

    struct result result = read_pair(&tls->files, &certificate, &key, err);
    if (result.ok) result = credentials_new(&tls->files, &certificate, &key, &fresh, err);
    wipe(&key);
    if (!result.ok) return result;

    set_expiry_metrics(fresh);
    pthread_mutex_lock(&tls->mutex);
    struct credentials *old = tls->current;
    tls->current = fresh;
    fresh->generation = ++tls->generation;
    pthread_mutex_unlock(&tls->mutex);
    credentials_drop(old);
    buffer_done(&certificate);
    return SUCCESS;
}

char *tls_certificate_pem(struct tls *tls)
{
    return (char *)tls->certificate_pem.data;
}

char *tls_key_pem(struct tls *tls)
{
    return (char *)tls->key_pem.data;
}

static gnutls_session_t session_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return info == NULL ? NULL : info->tls_session;
}

#define SUPPORTED_VERSIONS 43     /* extension of RFC 8446 section 4.2.1 */
#define TLS_1_3            0x0304 /* the value for TLS 1.3 in that extension */

static int find_version(void *context, unsigned extension, const unsigned char *data, unsigned size)
{
    bool *is_offered = context;

    for (unsigned at = 1; extension == SUPPORTED_VERSIONS && at + 1 < size; at += 2)
        if ((data[at] << 8 | data[at + 1]) == TLS_1_3) *is_offered = true;
    return 0;
}

/* libmicrohttpd closes a connection whose handshake fails, and sends no alert: a client could only guess why. */
static int require_version(gnutls_session_t session, const gnutls_datum_t *hello)
{
    bool is_offered = false;

    if (gnutls_ext_raw_parse(&is_offered, find_version, hello, GNUTLS_EXT_RAW_FLAG_TLS_CLIENT_HELLO) < 0 || is_offered) return 0;
    (void)gnutls_alert_send(session, GNUTLS_AL_FATAL, GNUTLS_A_PROTOCOL_VERSION);
    return GNUTLS_E_UNSUPPORTED_VERSION_PACKET;
}

/* After the client's last message of the handshake the time limit of a head counts. */
static int on_handshake(gnutls_session_t session, unsigned message, unsigned when, unsigned is_incoming,
                        const gnutls_datum_t *text)
{
    const struct transport *transport = gnutls_transport_get_ptr(session);

    if (!is_incoming) return 0;
    if (message == GNUTLS_HANDSHAKE_CLIENT_HELLO && when == GNUTLS_HOOK_PRE) return require_version(session, text);
    if (message == GNUTLS_HANDSHAKE_FINISHED && when == GNUTLS_HOOK_POST) connection_enter(transport->owner, CONNECTION_WAITING);
    return 0;
}

static gnutls_certificate_request_t demand_of(const struct credentials *credentials)
{
    if (credentials->demands_client) return GNUTLS_CERT_REQUIRE;
    return credentials->asks_client ? GNUTLS_CERT_REQUEST : GNUTLS_CERT_IGNORE;
}

void tls_enter(struct tls *tls, struct connection *connection, struct MHD_Connection *mhd, struct blocks *blocks)
{
    static const gnutls_datum_t protocol = {.data = protocol_name, .size = sizeof protocol_name - 1};
    gnutls_session_t session = session_of(mhd);

    if (session == NULL) return; /* the unix socket */
    connection->credentials = credentials_keep(tls);
    (void)gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, connection->credentials->certificate);
    gnutls_certificate_server_set_request(session, demand_of(connection->credentials));
    if (connection->credentials->takes_any) /* a client that reads their names would send no other certificate */
        gnutls_certificate_send_x509_rdn_sequence(session, 1);
    (void)gnutls_alpn_set_protocols(session, &protocol, 1, 0);
    connection_enter(connection, CONNECTION_HANDSHAKE);
    transport_enter(&connection->transport, session, connection->fd, blocks);
    connection->transport.owner = connection;
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_ANY, GNUTLS_HOOK_BOTH, on_handshake);
}

void tls_leave(struct connection *connection)
{
    transport_leave(&connection->transport);
    credentials_drop(connection->credentials);
    connection->credentials = NULL;
}

/* RFC 8705: base64url of the SHA-256 of the DER. */
static bool set_confirmation(struct connection *connection, const gnutls_datum_t *certificate)
{
    struct buffer OWNED_BUFFER text = BUFFER(sizeof connection->confirmation);
    struct error err = {0};
    uint8_t digest[SHA256_SIZE];

    sha256_of((struct bytes){certificate->data, certificate->size}, digest);
    if (!text_base64(&text, BASE64_URL, (struct bytes){digest, sizeof digest}, &err).ok) return false;
    memcpy(connection->confirmation, buffer_text(&text), text.length + 1);
    return true;
}

#define NAMES_MAX 16 /* alternative names of a certificate that are looked at */
#define CHAIN_MAX 8  /* certificates; real clients send at most three */

/* Imports all certificates or none, and returns how many. The caller frees them. */
static unsigned import_chain(const gnutls_datum_t *chain, unsigned count, gnutls_x509_crt_t certificates[CHAIN_MAX],
                             bool *all_out)
{
    unsigned imported = 0;

    *all_out = false;
    if (count > CHAIN_MAX) return 0;
    while (imported < count) {
        gnutls_x509_crt_t *certificate = &certificates[imported];
        if (gnutls_x509_crt_init(certificate) != GNUTLS_E_SUCCESS) return imported;
        const gnutls_datum_t *der = &chain[imported++];
        if (gnutls_x509_crt_import(*certificate, der, GNUTLS_X509_FMT_DER) < 0) return imported;
    }
    *all_out = true;
    return imported;
}

/* A name with letters that a line can't have is left out, and so is one that does not fit. */
static void note_name(struct connection *connection, const char *kind, const char *name, size_t length)
{
    const size_t used = strlen(connection->names);

    for (size_t i = 0; i < length; i++)
        if (name[i] <= ' ' || name[i] > '~') return;
    if (length > 0 && used + strlen(kind) + length + 2 <= sizeof connection->names)
        (void)snprintf(connection->names + used, sizeof connection->names - used, "%s%.*s\n", kind, (int)length, name);
}

static void note_names(struct connection *connection, gnutls_x509_crt_t certificate)
{
    char name[CONNECTION_NAMES_SIZE];

    connection->names[0] = '\0';
    for (unsigned i = 0; i < NAMES_MAX; i++) {
        size_t length = sizeof name;
        const int type = gnutls_x509_crt_get_subject_alt_name(certificate, i, name, &length, NULL);
        if (type == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE) return;
        if (type == GNUTLS_SAN_DNSNAME) note_name(connection, "dns:", name, length);
        if (type == GNUTLS_SAN_URI) note_name(connection, "uri:", name, length);
    }
}

/* Verifies by the newest authorities, not by those of the handshake. The status counts, not only the return code. */
static bool is_trusted(struct tls *tls, struct connection *connection, const gnutls_datum_t *chain, unsigned count)
{
    struct credentials *newest = credentials_keep(tls);
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID, .data = client_purpose};
    gnutls_x509_crt_t certificates[CHAIN_MAX];
    gnutls_x509_trust_list_t authorities = NULL;
    unsigned status = GNUTLS_CERT_INVALID;
    bool all = false;

    const unsigned imported = import_chain(chain, count, certificates, &all);
    gnutls_certificate_get_trust_list(newest->certificate, &authorities);
    const bool verified = all && authorities != NULL &&
                          gnutls_x509_trust_list_verify_crt2(authorities, certificates, imported, &purpose, 1, 0, &status,
                                                             NULL) == GNUTLS_E_SUCCESS;
    connection->authorities[0] = '\0';
    if (verified && status == 0) {
        note_names(connection, certificates[0]);
        if (connection->knows_authorities) authorities_find(authorities, certificates, imported, connection->authorities);
    }
    for (unsigned i = 0; i < imported; i++) gnutls_x509_crt_deinit(certificates[i]);
    credentials_drop(newest);
    return verified && status == 0;
}

/* To find them, each authority verifies the chain once more, so it is done only while the policies say where the clients of one are. */
static bool asks_authorities(const struct connection *connection)
{
    const struct http_options *options = &connection->server->options;

    return options->asks_authorities != NULL && options->asks_authorities(options->context);
}

/* By the newest authorities, and also those that a policy set has begun to name. */
static bool is_verified(const struct connection *connection, uint64_t newest)
{
    const bool is_known = connection->knows_authorities || connection->confirmation[0] == '\0';

    return connection->verified_by == newest && (is_known || !asks_authorities(connection));
}

/* The handshake has proven that the client has the key. A certificate of this form counts only as a runner's, whichever authorities there are. */
static bool is_runner(const struct tls *tls, struct connection *connection, const gnutls_datum_t *certificate)
{
    const struct bytes der = {certificate->data, certificate->size};
    struct error err = {0};

    return has_runners(&tls->files) && runner_certificate_read(der, tls->files.runner_authority, &connection->runner, &err).ok;
}

/* Without authorities of clients, a certificate that is not a runner's counts as no certificate: clients were asked for a certificate only because
 * of runners. Any certificate names a key, which the handshake has proven: it makes no principal, so nothing else has to be true of it. */
static bool take_certificate(struct tls *tls, struct connection *connection, const gnutls_datum_t *chain, unsigned count)
{
    if (is_runner(tls, connection, &chain[0])) return set_confirmation(connection, &chain[0]);
    if (connection->credentials->takes_any) { /* its names count only if an authority of clients has signed it */
        connection->names[0] = '\0';
        if (connection->credentials->has_authorities) (void)is_trusted(tls, connection, chain, count);
        return set_confirmation(connection, &chain[0]);
    }
    if (!connection->credentials->has_authorities) return true;
    return is_trusted(tls, connection, chain, count) && set_confirmation(connection, &chain[0]);
}

bool tls_check_client(struct tls *tls, struct connection *connection, struct MHD_Connection *mhd)
{
    gnutls_session_t session = session_of(mhd);
    unsigned count = 0;

    if (session == NULL || connection->credentials == NULL || !connection->credentials->asks_client) return true;
    pthread_mutex_lock(&tls->mutex);
    const uint64_t newest = tls->generation;
    pthread_mutex_unlock(&tls->mutex);
    if (is_verified(connection, newest)) return true;

    const gnutls_datum_t *chain = gnutls_certificate_get_peers(session, &count);
    connection->knows_authorities = asks_authorities(connection);
    if (chain != NULL && count > 0 && !take_certificate(tls, connection, chain, count)) return false;
    connection->verified_by = newest;
    return true;
}

void tls_free(struct tls *tls)
{
    if (tls == NULL) return;
    credentials_drop(tls->current);
    wipe(&tls->key_pem);
    buffer_done(&tls->certificate_pem);
    pthread_mutex_destroy(&tls->mutex);
    free(tls);
}
