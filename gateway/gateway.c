#include "gateway/gateway.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "audit/job_permit.h"
#include "audit/log_verifier.h"
#include "audit/sequencer.h"
#include "authz/authenticate.h"
#include "authz/dpop_nonces.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/sandbox.h"
#include "crypto/keyd_client.h"
#include "documents/view.h"
#include "gateway/api/openapi.h"
#include "gateway/background/audit_index.h"
#include "gateway/background/copying.h"
#include "gateway/background/delivery.h"
#include "gateway/background/detection.h"
#include "gateway/background/introspect.h"
#include "gateway/background/issuer_watch.h"
#include "gateway/background/job_workers.h"
#include "gateway/background/maintenance.h"
#include "gateway/background/peering.h"
#include "gateway/background/region_watch.h"
#include "gateway/background/run_admission.h"
#include "gateway/background/run_dispatch.h"
#include "gateway/background/token_keys.h"
#include "gateway/background/witness_feed.h"
#include "gateway/http/condition.h"
#include "gateway/http/quota.h"
#include "gateway/pipeline/event_quota.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/lease_proofs.h"
#include "gateway/pipeline/passing.h"
#include "gateway/pipeline/run_endings.h"
#include "gateway/pipeline/serve.h"
#include "gateway/regions.h"
#include "gateway/routes.h"
#include "gateway/tables.h"
#include "policy/decider/decider.h"
#include "policy/set.h"
#include "registry/log_archive.h"
#include "registry/maintenance.h"
#include "registry/registry.h"
#include "storage/migrate.h"

#define DESCRIPTORS_SPARE 256  /* for database connections and keyd, beside connections and streams */
#define VERIFY_PATIENCE_S 3600 /* longer than ten rounds through the log should take */

static struct result open_worker(void *context, void **state_out, struct error *err)
{
    const struct gateway *gateway = context;
    struct pg *pg = NULL;

    TRY(pg_open_lazily(gateway->settings->database, gateway_tables, &pg, err));
    *state_out = pg;
    return SUCCESS;
}

static void close_worker(void *state)
{
    pg_free(state);
}

/* Opens a pool with a database connection for each worker. Its queue has no limit, because requests are refused before they are queued
 * (gateway/pipeline/callbacks.c). */
static struct result open_pool(struct gateway *gateway, struct work_options options, struct work_pool **pool_out,
                               struct error *err)
{
    options.queue_max = UINT_MAX;
    options.worker_new = open_worker;
    options.worker_free = close_worker;
    options.context = gateway;
    return work_pool_new(&options, pool_out, err);
}

static void notice(const char *what, const struct error *why)
{
    log_error(what, why);
}

static struct result open_log_verifier(struct gateway *gateway, struct error *err)
{
    const struct log_verifier_options options = {.conninfo = gateway->settings->database,
                                                 .sequencer = gateway->sequencer,
                                                 .rate = (unsigned)gateway->settings->audit_verify_rate,
                                                 .rest_s = (unsigned)gateway->settings->audit_verify_rest,
                                                 .patience_s = VERIFY_PATIENCE_S};

    return log_verifier_start(&options, &gateway->log_verifier, err);
}

static struct result open_sequencer(struct gateway *gateway, struct error *err)
{
    struct sequencer_options options = {.conninfo = gateway->settings->database,
                                        .tables = gateway_tables,
                                        .keyd = gateway->keyd,
                                        .notice = notice,
                                        .deadline_ms = (unsigned)gateway->settings->record_timeout};

    memcpy(options.origin, gateway->origin, sizeof options.origin);
    (void)snprintf(options.instance, sizeof options.instance, "%.63s", gateway->settings->instance);
    return sequencer_start(&options, &gateway->sequencer, err);
}

static struct result open_authenticator(struct gateway *gateway, const struct keyd_identity *identity, struct error *err)
{
    const struct authenticator_options options = {.issuer = gateway->settings->public_url,
                                                  .service = gateway->settings->service,
                                                  .token_kid = identity->token_kid,
                                                  .token_public = identity->token_public,
                                                  .directory = gateway->directory,
                                                  .wrong_secrets = {(unsigned)gateway->settings->wrong_secrets_per_network,
                                                                    (unsigned)gateway->settings->wrong_secrets_per_name}};
    return authenticator_new(&options, &gateway->authenticator, err);
}

static struct result open_decider(struct gateway *gateway, struct error *err)
{
    const struct decider_options options = {.conninfo = gateway->settings->database,
                                            .keyd = gateway->keyd,
                                            .sequencer = gateway->sequencer,
                                            .notice = notice,
                                            .documents = gateway->documents,
                                            .directory = gateway->directory,
                                            .poll_ms = 5000,
                                            .stale_ms = 30000,
                                            .notice_days = (unsigned)gateway->settings->role_notice_days,
                                            .metadata_region = gateway->settings->metadata_region};
    return decider_start(&options, &gateway->decider, err);
}

static struct result open_registry(struct gateway *gateway, struct error *err)
{
    const struct settings *settings = gateway->settings;
    struct registry_region regions[SETTINGS_REGIONS_MAX];
    struct registry_options options = {
        .keyd = gateway->keyd,
        .sequencer = gateway->sequencer,
        .database = settings->database,
        .region_count = settings->region_count,
        .regions = regions,
        .recorded = {.folder = settings->region_folder,
                     .key_folder = settings->region_key_folder,
                     .networks = settings->region_networks,
                     .ca_file = settings->region_ca_file,
                     .keyd_folder = settings->region_keyd_folder,
                     .page_cache_blob_max = (uint64_t)settings->page_cache_blob_max},
        .key_lifetime_ms = 60000,
        .key_count = 4096,
        .uploads_max = (unsigned)settings->streams_max,
        .uploads_idle_max = 32,
        .uploads_open = {(unsigned)settings->uploads_per_project, (unsigned)settings->uploads_per_client,
                         (unsigned)settings->uploads_per_organisation, (unsigned)settings->upload_idle},
        .namespaces = {(unsigned)settings->projects_per_organisation, (unsigned)settings->repositories_per_project},
        .lease_s = (unsigned)settings->blob_lease};

    regions_of(settings, regions);
    TRY(peers_parse("region_peers", settings->region_peers, &options.elsewhere, err));
    TRY(registry_new(&options, &gateway->registry, err));
    archive_use(registry_log_archive(gateway->registry));
    return SUCCESS;
}

static struct result check_regions(struct gateway *gateway, struct error *err)
{
    OWNED(pg) *pg = NULL;
    struct error weak;

    TRY(pg_open_lazily(gateway->settings->database, gateway_tables, &pg, err));
    if (!pg_standby_check(pg, &weak).ok) log_line(LOG_WARNING, "a standby may lack events", "why", weak.message, NULL);
    if (!registry_follow_keys(gateway->registry, gateway->decider, &weak).ok)
        log_line(LOG_WARNING, "the sijil-keyd of a region is not as it must be", "why", weak.message, NULL);
    if (!registry_open_recorded(gateway->registry, gateway->decider, &weak).ok)
        log_line(LOG_WARNING, "a region of the policy set can't be served here", "why", weak.message, NULL);
    TRY(registry_check_served(gateway->registry, pg, err));
    return registry_check_regions(gateway->registry, pg, err);
}

static struct result open_keyd(struct gateway *gateway, struct keyd_identity *identity_out, struct error *err)
{
    const struct settings *settings = gateway->settings;
    struct note_key key;

    TRY(keyd_client_new(settings->keyd_socket, (unsigned)settings->keyd_timeout, &gateway->keyd, err));
    TRY(keyd_identify(gateway->keyd, identity_out, err));
    memcpy(gateway->origin, identity_out->origin, sizeof gateway->origin);
    TRY(note_key_read(bytes_of_text(identity_out->log_vkey), &key, err));
    (void)snprintf(gateway->log_name, sizeof gateway->log_name, "%.127s", key.name);
    memcpy(gateway->runner_authority, identity_out->runner_authority, sizeof gateway->runner_authority);
    return SUCCESS;
}

/* Before the log is signed: sijil-keyd may wait for the witnesses. */
static struct result open_witnesses(struct gateway *gateway, const struct keyd_identity *identity, struct error *err)
{
    const struct witness_feed_options options = {gateway->settings, gateway->keyd, identity};

    TRY(witness_feed_new(&options, &gateway->witness_feed, err));
    if (gateway->witness_feed != NULL) return witness_feed_open_keyd(gateway->witness_feed, err);
    log_line(LOG_INFO,
             "no witnesses are configured: nobody elsewhere could tell that this log shows two histories (witness_policy)", NULL);
    return SUCCESS;
}

/* Opens the parts that decide and record. */
static struct result open_rights(struct gateway *gateway, struct error *err)
{
    struct keyd_identity identity;

    TRY(storage_check_schema(gateway->settings->database, err));
    TRY(storage_check_role(gateway->settings->database, err));
    TRY(open_keyd(gateway, &identity, err));
    TRY(open_witnesses(gateway, &identity, err));
    TRY(open_sequencer(gateway, err));
    TRY(open_log_verifier(gateway, err));
    TRY(document_view_new(&gateway->documents, err));
    TRY(run_endings_new((size_t)gateway->settings->connections_max, &gateway->run_endings, err));
    TRY(lease_proofs_new(&gateway->lease_proofs, err));
    TRY(authz_directory_new(&gateway->directory, err));
    TRY(open_decider(gateway, err));
    TRY(open_authenticator(gateway, &identity, err));
    TRY(dpop_nonces_new(&gateway->nonces, err));
    return token_keys_start(gateway, &gateway->token_keys, err);
}

static struct result open_senders(struct gateway *gateway, struct error *err)
{
    const struct settings *settings = gateway->settings;
    const struct work_options options = {
        .name = "sender", .threads = (unsigned)settings->sender_threads, .queue_max = UINT_MAX, .is_background = true};

    return work_pool_new(&options, &gateway->senders, err);
}

static struct result gateway_open(struct gateway *gateway, struct error *err)
{
    const struct settings *settings = gateway->settings;

    TRY(openapi_write(gateway->routes, &gateway->description, err));
    entity_tag_of(buffer_bytes(&gateway->description), gateway->description_etag);
    TRY(quota_new(2 * (unsigned)settings->connections_max, &gateway->quota, err));
    TRY(open_rights(gateway, err));
    TRY(open_registry(gateway, err));
    TRY(passings_new(settings, &gateway->passings, err));
    TRY(check_regions(gateway, err));
    const struct work_options readers = {.name = "reader", .threads = (unsigned)settings->reader_threads, .is_shared = true};
    const struct work_options receivers = {
        .name = "receiver", .threads = (unsigned)settings->mover_threads, .is_background = true};
    TRY(open_pool(gateway, readers, &gateway->readers, err));
    TRY(open_pool(gateway, receivers, &gateway->receivers, err));
    TRY(open_senders(gateway, err));
    TRY(event_quota_new(&gateway->event_quota, err));
    TRY(audit_index_start(gateway, &gateway->audit_index, err));
    TRY(delivery_start(gateway, &gateway->delivery, err));
    TRY(detection_start(gateway, &gateway->detection, err));
    TRY(issuer_watch_start(gateway, &gateway->issuer_watch, err));
    TRY(introspect_start(gateway, &gateway->introspect, err));
    TRY(maintenance_start(gateway, &gateway->maintenance, err));
    TRY(region_watch_start(gateway, &gateway->region_watch, err));
    if (gateway->witness_feed != NULL)
        TRY(witness_feed_start(gateway->witness_feed, gateway->sequencer, &gateway->is_without_quorum, err));
    TRY(copying_start(gateway, &gateway->copying, err));
    return job_workers_start(gateway, &gateway->job_workers, err);
}

/* In the opposite order of opening: users of a part are closed before the part. */
static void gateway_close(struct gateway *gateway)
{
    job_workers_free(gateway->job_workers);
    copying_free(gateway->copying);
    witness_feed_free(gateway->witness_feed);
    region_watch_free(gateway->region_watch);
    maintenance_free(gateway->maintenance);
    introspect_free(gateway->introspect);
    issuer_watch_free(gateway->issuer_watch);
    detection_free(gateway->detection);
    delivery_free(gateway->delivery);
    audit_index_free(gateway->audit_index);
    work_pool_free(gateway->senders);
    work_pool_free(gateway->receivers);
    work_pool_free(gateway->readers);
    log_verifier_free(gateway->log_verifier); /* it may read from a region */
    archive_use(NULL);
    passings_free(gateway->passings);
    registry_free(gateway->registry);
    token_keys_watch_free(gateway->token_keys);
    dpop_nonces_free(gateway->nonces);
    authenticator_free(gateway->authenticator);
    decider_free(gateway->decider);
    document_view_free(gateway->documents);
    lease_proofs_free(gateway->lease_proofs);
    run_endings_free(gateway->run_endings);
    authz_directory_free(gateway->directory);
    sequencer_free(gateway->sequencer);
    quota_free(gateway->quota);
    event_quota_free(gateway->event_quota);
    keyd_client_free(gateway->keyd);
    buffer_done(&gateway->description);
}

/* Each connection may have a file open too, and an upload one more; the soft limit is often 1024. */
static void raise_descriptors(const struct settings *settings)
{
    struct rlimit limit;
    const rlim_t wanted = 2 * (rlim_t)settings->connections_max + (rlim_t)settings->streams_max + DESCRIPTORS_SPARE;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted)
        log_line(LOG_WARNING, "too few file descriptors for connections_max; raise the limit (ulimit -n)", NULL);
}

static void signals_of_interest(sigset_t *signals)
{
    (void)sigemptyset(signals);
    (void)sigaddset(signals, SIGTERM);
    (void)sigaddset(signals, SIGINT);
    (void)sigaddset(signals, SIGHUP);
}

static void serve(const struct gateway *gateway, struct server *server, const sigset_t *signals)
{
    struct error err = {0};
    int caught = 0;

    while (sigwait(signals, &caught) == 0 && caught == SIGHUP) {
        if (server_reload(server, &err).ok && peering_reload(gateway->peering, &err).ok)
            log_line(LOG_INFO, "certificates were read again", NULL);
        else log_error("the old certificates stay", &err);
    }
    log_line(LOG_INFO, "stopping", "signal", caught == SIGINT ? "SIGINT" : "SIGTERM", NULL);
}

/* Else the log of a registry that was never founded does not say why everything is refused. */
static void warn_if_unfounded(struct gateway *gateway)
{
    OWNED(policy_set) *set = decider_policy_set(gateway->decider);

    if (set == NULL)
        log_line(LOG_WARNING, "no policy set is in force, so all content is refused: sijild --found=FILE founds the registry",
                 NULL);
}

/* Records the start of this gateway, which also explains a gap in the log. */
static struct result record_start(struct gateway *gateway, struct error *err)
{
    struct action_pair pair = {.action = ACTION_SERVER_START, .resource.kind = RESOURCE_SYSTEM};
    OWNED(permit) *permit = NULL;

    (void)snprintf(pair.resource.detail, sizeof pair.resource.detail, "%.63s", gateway->settings->instance);
    return permit_for_job(gateway->sequencer, &pair, &permit, err);
}

/* Everything that needs the server; then this process closes itself off. */
static struct result begin_service(struct gateway *gateway, struct error *err)
{
    TRY(peering_start(gateway, &gateway->peering, err));
    TRY(run_dispatch_start(gateway, &gateway->run_dispatch, err));
    TRY(run_admission_start(gateway, &gateway->run_admission, err));
    TRY(sandbox_enter_gateway(err));
    atomic_store(&gateway->is_starting, false);
    return SUCCESS;
}

static void stop_service(struct gateway *gateway, struct server *server)
{
    peering_free(GIVE(gateway->peering));
    run_admission_free(GIVE(gateway->run_admission));
    run_dispatch_free(GIVE(gateway->run_dispatch)); /* it wakes requests that the server still holds */
    serve_stop(gateway, server);
}

static struct result gateway_serve(struct gateway *gateway, const sigset_t *signals, struct error *err)
{
    struct server *server = NULL;
    struct error untold;
    char port[8];

    TRY(gateway_open(gateway, err));
    TRY(record_start(gateway, err));
    warn_if_unfounded(gateway);
    TRY(serve_start(gateway, &server, err));
    (void)snprintf(port, sizeof port, "%d", server_port(server));
    const struct result begun = begin_service(gateway, err);
    if (!begun.ok) {
        stop_service(gateway, server);
        return begun;
    }
    log_line(LOG_INFO, "listening", "address", gateway->settings->listen_address, "port", port, "url",
             gateway->settings->public_url, NULL);
    if (!notify_connect(&untold).ok) log_error("the service manager is not told", &untold);
    (void)notify_send("READY=1");
    serve(gateway, server, signals);
    (void)notify_send("STOPPING=1");
    stop_service(gateway, server);
    return SUCCESS;
}

struct result gateway_run(const struct settings *settings, struct error *err)
{
    struct gateway gateway = {.settings = settings,
                              .routes = &route_table,
                              .tables = gateway_tables,
                              .description = BUFFER(OPENAPI_MAX),
                              .is_starting = true};
    enum log_level level = LOG_INFO;
    sigset_t signals, before;

    if (log_level_find(settings->log_level, &level)) log_set_level(level);
    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    raise_descriptors(settings);
    signals_of_interest(&signals);
    (void)pthread_sigmask(SIG_BLOCK, &signals, &before); /* in all threads, because sigwait() takes them */
    const struct result result = gateway_serve(&gateway, &signals, err);
    gateway_close(&gateway);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}
