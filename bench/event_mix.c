#include "bench/event_mix.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/decision_make.h"
#include "base/clock.h"

#define ORGS         20
#define PROJECTS     10 /* of an organisation */
#define REPOSITORIES 20 /* of a project */
#define NETWORKS     400
#define DIGESTS      200000
#define RULES        12
#define ISSUER       "sijil:registry" /* of robots: a search by name finds them */

static const char *const countries[] = {"AE/DU", "AE/AZ", "SA/01", "DE/BE", "IN/MH", "US/VA"};
static const char *const regions[] = {"local/main", "ae/dubai", "ae/abu-dhabi", "eu/berlin"};
static const char *const classes[] = {"open", "confidential", "sensitive"};

/* xorshift64: the same seed gives the same events. */
static uint64_t draw(struct mix_source *source, uint64_t below)
{
    source->seed ^= source->seed << 13;
    source->seed ^= source->seed >> 7;
    source->seed ^= source->seed << 17;
    return (source->seed >> 11) % below;
}

/* Small numbers come far more often: of 1,000, the first ten come in a fifth of all draws. */
static uint64_t draw_few(struct mix_source *source, uint64_t below)
{
    const double part = (double)draw(source, 1U << 20) / (1U << 20);

    return (uint64_t)(part * part * part * (double)below);
}

/* The clock, or the time that the caller gave it. */
static int64_t now_ms(const struct mix_source *source)
{
    return source->now_ms == 0 ? clock_wall_ms() : source->now_ms;
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

static const struct kind *draw_kind(struct mix_source *source)
{
    unsigned left = (unsigned)draw(source, 100);
    size_t i = 0;

    while (left >= kinds[i].share) left -= kinds[i++].share;
    return &kinds[i];
}

static void put_detail(struct mix_source *source, enum detail detail, struct resource *resource)
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
static uint64_t put_place(struct mix_source *source, const struct kind *kind, uint64_t organisation, struct resource *resource)
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

static void deny(struct mix_source *source, struct decision_parts *parts)
{
    struct denial *denial = &parts->denials[0];

    parts->verdict = VERDICT_DENY;
    parts->denial_count = 1;
    (void)snprintf(denial->rule, sizeof denial->rule, "R-RULE-%02u", (unsigned)draw_few(source, RULES));
    (void)snprintf(denial->policy, sizeof denial->policy, "health-ae@3");
    (void)snprintf(denial->message, sizeof denial->message, "The client is not where the data may be read.");
}

static struct decision *decide(struct mix_source *source, uint64_t actor, uint64_t network)
{
    const struct kind *kind = draw_kind(source);
    struct decision_parts parts = {.verdict = VERDICT_ALLOW,
                                   .epoch = source->epoch,
                                   .policy_digest = "sha256:fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210",
                                   .pair_count = 1,
                                   .decided_ms = now_ms(source)};
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

static void put_outcome(struct mix_source *source, struct record *record)
{
    const bool fails = draw(source, 10) == 0;

    *record = (struct record){.under = source->permit, .outcome = fails ? OUTCOME_FAILED : OUTCOME_COMPLETED};
    (void)snprintf(record->note, sizeof record->note, "%u bytes", (unsigned)draw(source, 1U << 30));
}

static void put_request(struct mix_source *source, struct record *record)
{
    const unsigned actor = (unsigned)draw_few(source, ACTORS), network = (actor + (unsigned)draw(source, 3) / 2 * 37) % NETWORKS;
    struct event_context *context = &record->context;

    *record = (struct record){.decision = decide(source, actor, network)};
    *context = (struct event_context){
        .issuer = ISSUER, .subject = source->subject, .client_address = source->address, .user_agent = "oras/1.2"};
    (void)snprintf(source->subject, sizeof source->subject, "robot$org%02u+m%u", actor % ORGS, actor);
    source->country = countries[network % 6];
    (void)snprintf(source->address, sizeof source->address, "10.%u.%u.%u", network % 6, network / 6, 1 + actor % 250);
    (void)snprintf(context->request_id, sizeof context->request_id, "%08" PRIx64 "-93a1-4c1a-8a4e-%012" PRIx64,
                   draw(source, UINT32_MAX), (uint64_t)clock_monotonic_us() & 0xffffffffffff);
}

void mix_seed(struct mix_source *source, uint64_t seed, uint64_t epoch)
{
    *source = (struct mix_source){.seed = seed * UINT64_C(0x9e3779b97f4a7c15), .epoch = epoch};
}

void mix_next(struct mix_source *source, struct record *record)
{
    if (source->permit != NULL) put_outcome(source, record);
    else put_request(source, record);
}

void mix_recorded(struct mix_source *source, struct record *record)
{
    struct permit *before = source->permit;

    source->permit = NULL;
    if (before == NULL && record->permit != NULL && source->is_upload) source->permit = GIVE(record->permit);
    record_done(record);
    permit_free(before);
}
