/*
 * bench/log_mix.c -- appends events of a realistic mix to a gateway's log, by the sequencer that gateways use.
 *
 * usage: log_mix CONNINFO KEYD-SOCKET ORIGIN EVENTS EPOCH SEED
 * 2,000 robots of 20 organisations, 4,000 repositories, 400 networks in six countries, four regions. A few robots, repositories and digests have
 * most of the events. Robots use their own organisation; one event in 30 is denied, by one of twelve rules. One upload in ten fails.
 * Prints events/s, and how many events could not be recorded. With 0 events: waits for a round of the continuous verifier through the whole log.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "audit/decision_make.h"
#include "audit/log_verifier.h"
#include "audit/metrics.h"
#include "audit/sequencer.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/keyd_client.h"

#define SUBMITTERS   256
#define ACTORS       2000
#define ORGS         20
#define PROJECTS     10 /* of an organisation */
#define REPOSITORIES 20 /* of a project */
#define NETWORKS     400
#define DIGESTS      200000
#define RULES        12
#define ISSUER       "sijil:registry" /* of robots: a search by name finds them */

struct mix {
    struct sequencer *sequencer;
    pthread_mutex_t mutex;
    pthread_cond_t idle;
    uint64_t epoch, left, done, failed;
    size_t running;
};

struct source {
    struct record record; /* first */
    struct mix *mix;
    struct permit *permit; /* of an upload whose outcome comes next */
    bool is_upload;        /* the event that is recorded now allows an upload */
    uint64_t seed;
    char subject[32], address[24];
};

static const char *const countries[] = {"AE/DU", "AE/AZ", "SA/01", "DE/BE", "IN/MH", "US/VA"};
static const char *const regions[] = {"local/main", "ae/dubai", "ae/abu-dhabi", "eu/berlin"};
static const char *const classes[] = {"open", "confidential", "sensitive"};

/* xorshift64: the same seed gives the same events. */
static uint64_t draw(struct source *source, uint64_t below)
{
    source->seed ^= source->seed << 13;
    source->seed ^= source->seed >> 7;
    source->seed ^= source->seed << 17;
    return (source->seed >> 11) % below;
}

/* Small numbers come far more often: of 1,000, the first ten come in a fifth of all draws. */
static uint64_t draw_few(struct source *source, uint64_t below)
{
    const double part = (double)draw(source, 1U << 20) / (1U << 20);

    return (uint64_t)(part * part * part * (double)below);
}

enum detail { DETAIL_NONE, DETAIL_DIGEST, DETAIL_TAG, DETAIL_UPLOAD, DETAIL_RUN, DETAIL_ROBOT };
enum place { PLACE_REPOSITORY, PLACE_PROJECT, PLACE_ORGANISATION, PLACE_SYSTEM };

/* Of 100 events. */
static const struct kind {
    unsigned share;
    enum action action;
    enum place place;
    enum detail detail;
} kinds[] = {
    {48, ACTION_BLOB_READ, PLACE_REPOSITORY, DETAIL_DIGEST},   {18, ACTION_MANIFEST_READ, PLACE_REPOSITORY, DETAIL_TAG},
    {6, ACTION_BLOB_STAT, PLACE_REPOSITORY, DETAIL_DIGEST},    {5, ACTION_TAG_LIST, PLACE_REPOSITORY, DETAIL_NONE},
    {4, ACTION_UPLOAD_BEGIN, PLACE_REPOSITORY, DETAIL_NONE},   {5, ACTION_UPLOAD_COMMIT, PLACE_REPOSITORY, DETAIL_UPLOAD},
    {4, ACTION_MANIFEST_PUSH, PLACE_REPOSITORY, DETAIL_TAG},   {5, ACTION_TOKEN_MINT, PLACE_SYSTEM, DETAIL_ROBOT},
    {2, ACTION_CATALOG_LIST, PLACE_ORGANISATION, DETAIL_NONE}, {1, ACTION_RUN_READ, PLACE_PROJECT, DETAIL_RUN},
    {1, ACTION_TAG_DELETE, PLACE_REPOSITORY, DETAIL_TAG},      {1, ACTION_AUDIT_READ, PLACE_ORGANISATION, DETAIL_NONE},
};

static const struct kind *draw_kind(struct source *source)
{
    unsigned left = (unsigned)draw(source, 100);
    size_t i = 0;

    while (left >= kinds[i].share) left -= kinds[i++].share;
    return &kinds[i];
}

static void put_detail(struct source *source, enum detail detail, struct resource *resource)
{
    const uint64_t digest = draw_few(source, DIGESTS), tag = draw_few(source, 40);

    switch (detail) {
    case DETAIL_NONE: break;
    case DETAIL_DIGEST: (void)snprintf(resource->detail, sizeof resource->detail, "sha256:%064" PRIx64, digest); break;
    case DETAIL_TAG:
        (void)snprintf(resource->detail, sizeof resource->detail, "v%" PRIu64 " sha256:%064" PRIx64, tag, digest);
        break;
    case DETAIL_UPLOAD:
        (void)snprintf(resource->detail, sizeof resource->detail,
                       "%08" PRIx64 "-0000-4000-8000-%012" PRIx64 " sha256:%064" PRIx64, draw(source, UINT32_MAX),
                       draw(source, UINT32_MAX), digest);
        break;
    case DETAIL_RUN:
        (void)snprintf(resource->detail, sizeof resource->detail, "%08" PRIx64 "-0000-4000-8000-000000000000",
                       draw_few(source, 5000));
        break;
    case DETAIL_ROBOT:
        (void)snprintf(resource->detail, sizeof resource->detail, "00000000-0000-4000-8000-%012" PRIx64,
                       draw_few(source, ACTORS));
        break;
    }
}

/* Returns the number of the project, or of one of the organisation. */
static uint64_t put_place(struct source *source, const struct kind *kind, uint64_t organisation, struct resource *resource)
{
    const uint64_t project = draw_few(source, PROJECTS);
    static const enum resource_kind resource_kinds[] = {RESOURCE_REPOSITORY, RESOURCE_PROJECT, RESOURCE_ORGANISATION,
                                                        RESOURCE_SYSTEM};

    resource->kind = resource_kinds[kind->place];
    if (kind->place == PLACE_REPOSITORY)
        (void)snprintf(resource->name, sizeof resource->name, "org%02" PRIu64 "/project%" PRIu64 "/model-%" PRIu64, organisation,
                       project, draw_few(source, REPOSITORIES));
    if (kind->place == PLACE_PROJECT)
        (void)snprintf(resource->name, sizeof resource->name, "org%02" PRIu64 "/project%" PRIu64, organisation, project);
    if (kind->place == PLACE_ORGANISATION) (void)snprintf(resource->name, sizeof resource->name, "org%02" PRIu64, organisation);
    return organisation * PROJECTS + project;
}

#define FACTS                                                                                                                       \
    "{\"action\":\"%s\",\"digest\":true,\"judged\":[{\"label\":{\"attached\":[],\"class\":\"%s\",\"lineage\":\"unknown\","          \
    "\"pins\":[\"registry-default\"],\"subjects\":[]},\"operations\":[{\"op\":\"read\",\"target\":{\"assurance\":2,\"geo\":\"%s\"," \
    "\"recipient\":\"same-controller\"},\"target_id\":\"10.%u.0.0/16\"}],\"project\":\"00000000-0000-4000-8000-%012" PRIx64         \
    "\"}],"                                                                                                                         \
    "\"refused\":[],\"v\":1}"

static void deny(struct source *source, struct decision_parts *parts)
{
    struct denial *denial = &parts->denials[0];

    parts->verdict = VERDICT_DENY;
    parts->denial_count = 1;
    (void)snprintf(denial->rule, sizeof denial->rule, "R-RULE-%02u", (unsigned)draw_few(source, RULES));
    (void)snprintf(denial->policy, sizeof denial->policy, "health-ae@3");
    (void)snprintf(denial->message, sizeof denial->message, "The client is not where the data may be read.");
}

static struct decision *decide(struct source *source, uint64_t actor, uint64_t network)
{
    const struct kind *kind = draw_kind(source);
    struct decision_parts parts = {.verdict = VERDICT_ALLOW,
                                   .epoch = source->mix->epoch,
                                   .policy_digest = "sha256:fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210",
                                   .pair_count = 1,
                                   .decided_ms = clock_wall_ms()};
    struct resource *resource = &parts.pairs[0].resource;
    char facts[768];
    struct decision *decision = NULL;
    struct error err = {0};

    (void)snprintf(parts.id, sizeof parts.id, "sha256:%016" PRIx64 "%048" PRIx64, draw(source, UINT64_MAX),
                   (uint64_t)clock_monotonic_us());
    parts.pairs[0].action = kind->action;
    source->is_upload = kind->action == ACTION_UPLOAD_COMMIT;
    const uint64_t project = put_place(source, kind, actor % ORGS, resource);
    put_detail(source, kind->detail, resource);
    if (kind->place == PLACE_REPOSITORY) (void)snprintf(resource->region, sizeof resource->region, "%s", regions[project % 4]);
    if (kind->place == PLACE_REPOSITORY && draw(source, 30) == 0) deny(source, &parts);
    (void)snprintf(facts, sizeof facts, FACTS, action_name(kind->action), classes[project % 3], countries[network % 6],
                   (unsigned)(network % 6), project);
    parts.facts[0] = bytes_of_text(facts);
    if (!decision_make(&parts, &decision, &err).ok) abort();
    return decision;
}

static void recorded(struct record *record);

static void put_outcome(struct source *source)
{
    const bool fails = draw(source, 10) == 0;

    source->record =
        (struct record){.under = source->permit, .outcome = fails ? OUTCOME_FAILED : OUTCOME_COMPLETED, .done = recorded};
    (void)snprintf(source->record.note, sizeof source->record.note, "%u bytes", (unsigned)draw(source, 1U << 30));
}

static void put_request(struct source *source)
{
    const unsigned actor = (unsigned)draw_few(source, ACTORS), network = (actor + (unsigned)draw(source, 3) / 2 * 37) % NETWORKS;
    struct event_context *context = &source->record.context;

    source->record = (struct record){.decision = decide(source, actor, network), .done = recorded};
    *context = (struct event_context){
        .issuer = ISSUER, .subject = source->subject, .client_address = source->address, .user_agent = "oras/1.2"};
    (void)snprintf(source->subject, sizeof source->subject, "robot$org%02u+m%u", actor % ORGS, actor);
    (void)snprintf(source->address, sizeof source->address, "10.%u.%u.%u", network % 6, network / 6, 1 + actor % 250);
    (void)snprintf(context->request_id, sizeof context->request_id, "%08" PRIx64 "-93a1-4c1a-8a4e-%012" PRIx64,
                   draw(source, UINT32_MAX), (uint64_t)clock_monotonic_us() & 0xffffffffffff);
}

/* The outcome of the upload before, or the next request. */
static void submit(struct source *source)
{
    if (source->permit != NULL) put_outcome(source);
    else put_request(source);
    sequencer_submit(source->mix->sequencer, &source->record);
}

static void recorded(struct record *record)
{
    struct source *source = (struct source *)(void *)record;
    struct mix *mix = source->mix;
    struct permit *before = source->permit;
    const bool is_good = record->status == RECORD_DONE;

    source->permit = NULL;
    if (before == NULL && is_good && record->permit != NULL && source->is_upload) source->permit = GIVE(record->permit);
    (void)pthread_mutex_lock(&mix->mutex);
    mix->done += is_good ? 1 : 0;
    mix->failed += is_good ? 0 : 1;
    const bool goes_on = mix->left > 0 && is_good;
    if (goes_on) mix->left--;
    else if (--mix->running == 0) (void)pthread_cond_signal(&mix->idle);
    (void)pthread_mutex_unlock(&mix->mutex);
    record_done(record);
    permit_free(before);
    if (goes_on) submit(source);
}

static void await_all(struct mix *mix)
{
    (void)pthread_mutex_lock(&mix->mutex);
    while (mix->running > 0) (void)pthread_cond_wait(&mix->idle, &mix->mutex);
    (void)pthread_mutex_unlock(&mix->mutex);
}

static struct result fill(const struct sequencer_options *options, struct mix *mix, uint64_t seed, struct error *err)
{
    struct source *all = memory_zeroed(SUBMITTERS, sizeof *all);
    const int64_t began_us = clock_monotonic_us();

    if (all == NULL) return failure(err, ERROR_NO_MEMORY, "no memory");
    TRY(sequencer_start(options, &mix->sequencer, err));
    mix->running = SUBMITTERS;
    mix->left -= mix->left < SUBMITTERS ? mix->left : SUBMITTERS;
    for (size_t i = 0; i < SUBMITTERS; i++) {
        all[i].mix = mix;
        all[i].seed = (seed * SUBMITTERS + i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        submit(&all[i]);
    }
    await_all(mix);
    (void)printf("%.0f events/s, %" PRIu64 " failed\n", (double)mix->done * 1e6 / (double)(clock_monotonic_us() - began_us),
                 mix->failed);
    sequencer_free(mix->sequencer);
    for (size_t i = 0; i < SUBMITTERS; i++) permit_free(all[i].permit);
    free(all);
    return SUCCESS;
}

/* A difference ends the round with a failure of the sequencer: it is not ready any more. */
static struct result verify(const struct sequencer_options *options, struct error *err)
{
    const struct timespec wait = {.tv_nsec = 100000000};
    const int64_t began_us = clock_monotonic_us();
    OWNED(sequencer) *sequencer = NULL;
    struct log_verifier *verifier = NULL;

    TRY(sequencer_start(options, &sequencer, err));
    TRY(log_verifier_start(&(struct log_verifier_options){options->conninfo, sequencer, 1000000, 1, 3600}, &verifier, err));
    struct result result = SUCCESS;
    while (result.ok && metric_value(AUDIT_METRIC(audit_verify_rounds)) == 0) {
        (void)nanosleep(&wait, NULL);
        result = sequencer_is_ready(sequencer, err) ? SUCCESS : failure(err, err->kind, "%s", err->message);
    }
    log_verifier_free(verifier);
    if (result.ok)
        (void)printf("%.0f entries/s, 0 failed\n",
                     (double)metric_value(AUDIT_METRIC(audit_verify_size)) * 1e6 / (double)(clock_monotonic_us() - began_us));
    return result;
}

int main(int argc, char **argv)
{
    struct sequencer_options options = {.instance = "mix"};
    struct mix mix = {.mutex = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER};
    OWNED(keyd_client) *keyd = NULL;
    struct error err = {0};
    uint64_t seed = 0;

    if (argc != 7 || !text_to_u64(bytes_of_text(argv[4]), 100000000, &mix.left) ||
        !text_to_u64(bytes_of_text(argv[5]), INT64_MAX, &mix.epoch) || !text_to_u64(bytes_of_text(argv[6]), INT32_MAX, &seed)) {
        (void)fprintf(stderr, "usage: log_mix CONNINFO KEYD-SOCKET ORIGIN EVENTS EPOCH SEED\n");
        return 2;
    }
    struct result result = keyd_client_new(argv[2], 2000, &keyd, &err);
    options.conninfo = argv[1];
    options.keyd = keyd;
    (void)snprintf(options.origin, sizeof options.origin, "%s", argv[3]);
    if (result.ok) result = mix.left == 0 ? verify(&options, &err) : fill(&options, &mix, seed, &err);
    if (!result.ok) (void)fprintf(stderr, "log_mix: %s\n", err.message);
    return result.ok && mix.failed == 0 ? 0 : 1;
}
