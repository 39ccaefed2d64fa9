/*
 * The real server, pipeline and rings, with stand-ins behind them, and handlers that a test controls.
 *
 * usage: gateway_server FOLDER [parameter=number ...]
 * Makes an authority and a server certificate in FOLDER, prints "PORT n" and serves until SIGTERM.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "authz/authenticate.h"
#include "base/file.h"
#include "base/log.h"
#include "crypto/certificate.h"
#include "documents/view.h"
#include "gateway/http/quota.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/serve.h"
#include "tests/gateway/server_routes.h"

static struct result write_pem(const char *folder, const char *name, const struct buffer *pem, char *path, struct error *err)
{
    (void)snprintf(path, CONFIG_TEXT_SIZE, "%.400s/%s", folder, name);
    return file_replace(path, buffer_bytes(pem), 0600, err);
}

static struct result make_certificates(const char *folder, struct settings *settings, struct error *err)
{
    struct buffer OWNED_BUFFER authority = BUFFER(CERTIFICATE_PEM_MAX), certificate = BUFFER(CERTIFICATE_PEM_MAX);
    OWNED(ecdsa_key) *authority_key = NULL, *key = NULL;
    const char *const names[] = {"localhost", "127.0.0.1"};
    char path[CONFIG_TEXT_SIZE];

    TRY(ecdsa_key_new(&authority_key, err));
    TRY(ecdsa_key_new(&key, err));
    TRY(certificate_authority("test authority", authority_key, 30, &authority, err));
    const struct certificate_request request = {.key = key, .names = names, .name_count = 2, .days = 10};
    TRY(certificate_issue(&request, buffer_bytes(&authority), authority_key, &certificate, err));
    TRY(write_pem(folder, "ca.pem", &authority, path, err));
    TRY(write_pem(folder, "server.pem", &certificate, settings->tls_certificate, err));
    (void)snprintf(settings->tls_key, sizeof settings->tls_key, "%.400s/server.key", folder);
    TRY(ecdsa_key_save(key, settings->tls_key, err));
    buffer_done(&authority);
    buffer_done(&certificate);
    return SUCCESS;
}

#define NUMBER(name_)                                                           \
    if (strncmp(argument, #name_ "=", sizeof #name_) == 0) {                    \
        settings->name_ = (int64_t)strtoll(argument + sizeof #name_, NULL, 10); \
        return;                                                                 \
    }
static void set(struct settings *settings, const char *argument)
{
    NUMBER(idle_timeout)
    NUMBER(handshake_timeout)
    NUMBER(header_timeout)
    NUMBER(rate_window)
    NUMBER(rate_minimum)
    NUMBER(requests_per_address)
    NUMBER(connections_max)
    NUMBER(connections_per_address)
    NUMBER(connections_per_network)
    NUMBER(drain_size_max)
    NUMBER(shutdown_timeout)
    NUMBER(reader_threads)
    NUMBER(gathered_size_max)
    NUMBER(queue_max)
    NUMBER(streams_max)
    NUMBER(streams_per_organisation)
    NUMBER(streams_per_principal)
    NUMBER(rate_minimum_busy)
    NUMBER(queue_timeout)
    NUMBER(lease_time)
    NUMBER(lease_size)
    if (strncmp(argument, "listen_socket=", 14) == 0)
        (void)snprintf(settings->listen_socket, sizeof settings->listen_socket, "%s", argument + 14);
    if (strncmp(argument, "tls_client_ca=", 14) == 0)
        (void)snprintf(settings->tls_client_ca, sizeof settings->tls_client_ca, "%s", argument + 14);
    if (strncmp(argument, "proxy_networks=", 15) == 0)
        (void)snprintf(settings->proxy_networks, sizeof settings->proxy_networks, "%s", argument + 15);
    if (strcmp(argument, "tls_client_any=yes") == 0) settings->tls_client_any = true;
}

/* runner_authority=FILE: the key in PEM that signs certificates of runners. */
static struct result read_authority(struct gateway *gateway, const char *argument, struct error *err)
{
    static const char name[] = "runner_authority=";
    OWNED(ecdsa_key) *key = NULL;

    if (strncmp(argument, name, sizeof name - 1) != 0) return SUCCESS;
    TRY(ecdsa_key_load(argument + sizeof name - 1, &key, err));
    ecdsa_key_public(key, gateway->runner_authority);
    return SUCCESS;
}

static struct result open_parts(struct gateway *gateway, struct error *err)
{
    OWNED(authz_snapshot) *snapshot = NULL;
    OWNED(ecdsa_key) *key = NULL;
    uint8_t public_point[65];
    const struct work_options readers = {
        .name = "reader", .threads = (unsigned)gateway->settings->reader_threads, .queue_max = 1 << 20, .is_shared = true};
    const struct work_options senders = {.name = "sender", .threads = 4, .queue_max = 1 << 20};
    const struct work_options receivers = {.name = "receiver", .threads = 4, .queue_max = 1 << 20};

    TRY(ecdsa_key_new(&key, err));
    char thumbprint[ECDSA_THUMBPRINT_SIZE];

    ecdsa_key_public(key, public_point);
    ecdsa_thumbprint(public_point, thumbprint);
    const struct authenticator_options options = {.issuer = "https://localhost",
                                                  .service = "sijil",
                                                  .token_kid = thumbprint,
                                                  .token_public = public_point,
                                                  .directory = gateway->directory};
    TRY(authz_snapshot_build(&(struct authz_parts){0}, &snapshot, err));
    authz_directory_publish(gateway->directory, snapshot);
    TRY(authenticator_new(&options, &gateway->authenticator, err));
    TRY(sequencer_start(&(struct sequencer_options){0}, &gateway->sequencer, err));
    TRY(quota_new(1000, &gateway->quota, err));
    TRY(work_pool_new(&readers, &gateway->readers, err));
    TRY(work_pool_new(&receivers, &gateway->receivers, err));
    return work_pool_new(&senders, &gateway->senders, err);
}

static struct result serve(struct gateway *gateway, const sigset_t *signals, struct error *err)
{
    struct server *server = NULL;
    int caught = 0;

    TRY(serve_start(gateway, &server, err));
    (void)printf("PORT %d\n", server_port(server));
    (void)fflush(stdout);
    while (sigwait(signals, &caught) == 0 && caught == SIGHUP)
        if (!server_reload(server, err).ok) log_error("reload", err);
    serve_stop(gateway, server);
    return SUCCESS;
}

static struct result run(char **arguments, struct settings *settings, const sigset_t *signals, struct error *err)
{
    struct gateway gateway = {.settings = settings, .routes = &server_routes, .origin = "test/audit"};

    TRY(make_certificates(arguments[1], settings, err));
    for (int i = 2; arguments[i] != NULL; i++) TRY(read_authority(&gateway, arguments[i], err));
    TRY(authz_directory_new(&gateway.directory, err));
    TRY(document_view_new(&gateway.documents, err));
    struct result result = open_parts(&gateway, err);
    if (result.ok) result = serve(&gateway, signals, err);
    work_pool_free(gateway.senders);
    work_pool_free(gateway.receivers);
    work_pool_free(gateway.readers);
    authenticator_free(gateway.authenticator);
    authz_directory_free(gateway.directory);
    document_view_free(gateway.documents);
    sequencer_free(gateway.sequencer);
    quota_free(gateway.quota);
    return result;
}

int main(int argc, char **argv)
{
    static struct settings settings;
    struct error err = {0};
    sigset_t signals;

    if (argc < 2 || !settings_init(&settings, &err).ok) return 2;
    settings.listen_port = 0;
    (void)snprintf(settings.public_url, sizeof settings.public_url, "https://localhost");
    for (int i = 2; i < argc; i++) set(&settings, argv[i]);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (run(argv, &settings, &signals, &err).ok) return 0;
    log_error("the test server", &err);
    return 1;
}
