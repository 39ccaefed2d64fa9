/*
 * bench/audit_bench.c -- how many events a second one gateway records, and how long each waits.
 *
 * usage: audit_bench CONNINFO KEYD-SOCKET ORIGIN SUBMITTERS SECONDS [EPOCH]
 * Each submitter has one event under way at any time, as a suspended request has. Half of them are of one of 64
 * subjects and all concern one of 256 repositories of 16 projects, each with facts of its own; ids and addresses differ. Prints events/s, p50, p99 and the largest wait.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/decision_make.h"
#include "audit/sequencer.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/keyd_client.h"

#define WAITS_MAX 4000000 /* measured at most; later ones are counted only */

struct bench {
    struct sequencer *sequencer;
    pthread_mutex_t mutex;
    pthread_cond_t idle;
    int64_t ends_us;
    size_t running;
    uint64_t done, failed;
    uint32_t *waits_us;
};

/* One request that comes again as soon as it is recorded. */
struct submitter {
    struct record record; /* first */
    struct bench *bench;
    unsigned number;
    char subject[32]; /* "robot$bench+" and a number */
    char address[24]; /* "192.0.2.7" */
    int64_t submitted_us;
};

static uint64_t epoch = 1; /* of the rights, as the database has it */

/* Of a read that was allowed, as the decider writes it; the project differs. */
#define FACTS                                                                                                                               \
    "{\"action\":\"blob.read\",\"digest\":true,\"judged\":[{\"label\":{\"attached\":[],\"class\":\"confidential\",\"lineage\":\"unknown\"," \
    "\"pins\":[\"registry-default\"],\"subjects\":[]},\"operations\":[{\"op\":\"read\",\"target\":{\"assurance\":2,\"geo\":\"AE/DU\","      \
    "\"recipient\":\"same-controller\"},\"target_id\":\"10.1.0.0/16\"}],\"project\":\"00000000-0000-4000-8000-00000000000%x\"}],"           \
    "\"refused\":[],\"v\":1}"

static struct decision *decide(unsigned number)
{
    struct decision_parts parts = {.verdict = VERDICT_ALLOW,
                                   .epoch = epoch,
                                   .policy_digest = "sha256:fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210",
                                   .pair_count = 1,
                                   .pairs = {{ACTION_BLOB_READ, {.kind = RESOURCE_REPOSITORY, .region = "local/main"}}}};
    char facts[512];
    struct resource *resource = &parts.pairs[0].resource;
    struct decision *decision = NULL;
    struct error err = {0};

    (void)snprintf(parts.id, sizeof parts.id, "sha256:%056x%08x", 0, (unsigned)clock_monotonic_us());
    (void)snprintf(resource->name, sizeof resource->name, "acme/models/repository-%u", number % 256);
    (void)snprintf(resource->detail, sizeof resource->detail, "sha256:%064x", number);
    (void)snprintf(facts, sizeof facts, FACTS, number % 16);
    parts.facts[0] = bytes_of_text(facts);
    parts.decided_ms = clock_wall_ms();
    if (!decision_make(&parts, &decision, &err).ok) abort();
    return decision;
}

static void recorded(struct record *record);

static void submit(struct submitter *submitter)
{
    submitter->record = (struct record){.decision = decide(submitter->number), .done = recorded};
    submitter->record.context = (struct event_context){
        .issuer = "bench", .subject = submitter->subject, .client_address = submitter->address, .user_agent = "oras/1.2"};
    (void)snprintf(submitter->address, sizeof submitter->address, "192.0.2.%u", submitter->number % 251);
    (void)snprintf(submitter->record.context.request_id, sizeof submitter->record.context.request_id,
                   "5f0c8f0e-93a1-4c1a-8a4e-%012" PRIx64, (uint64_t)clock_monotonic_us() & 0xffffffffffff);
    submitter->submitted_us = clock_monotonic_us();
    sequencer_submit(submitter->bench->sequencer, &submitter->record);
}

static void recorded(struct record *record)
{
    struct submitter *submitter = (struct submitter *)(void *)record;
    struct bench *bench = submitter->bench;
    const int64_t now = clock_monotonic_us();
    const bool goes_on = now < bench->ends_us;

    (void)pthread_mutex_lock(&bench->mutex);
    if (record->status != RECORD_DONE) bench->failed++;
    else if (bench->done < WAITS_MAX) bench->waits_us[bench->done] = (uint32_t)(now - submitter->submitted_us);
    bench->done += record->status == RECORD_DONE ? 1 : 0;
    if (!goes_on && --bench->running == 0) (void)pthread_cond_signal(&bench->idle);
    (void)pthread_mutex_unlock(&bench->mutex);
    record_done(record);
    submitter->number += 7;
    if (goes_on) submit(submitter);
}

static int compare(const void *a, const void *b)
{
    const uint32_t *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

static void report(struct bench *bench, int64_t elapsed_us)
{
    const size_t count = bench->done < WAITS_MAX ? bench->done : WAITS_MAX;

    qsort(bench->waits_us, count, sizeof *bench->waits_us, compare);
    (void)printf("%.0f events/s, p50 %.2f ms, p99 %.2f ms, longest %.2f ms, %llu failed\n",
                 (double)bench->done * 1e6 / (double)elapsed_us, bench->waits_us[count / 2] / 1000.0,
                 bench->waits_us[count * 99 / 100] / 1000.0, bench->waits_us[count - 1] / 1000.0,
                 (unsigned long long)bench->failed);
}

static struct result measure(const struct sequencer_options *options, size_t submitters, unsigned seconds, struct error *err)
{
    struct bench bench = {.running = submitters};
    struct submitter *all = memory_zeroed(submitters, sizeof *all);

    bench.waits_us = memory_zeroed(WAITS_MAX, sizeof *bench.waits_us);
    if (all == NULL || bench.waits_us == NULL) return failure(err, ERROR_NO_MEMORY, "no memory");
    (void)pthread_mutex_init(&bench.mutex, NULL);
    (void)pthread_cond_init(&bench.idle, NULL);
    TRY(sequencer_start(options, &bench.sequencer, err));
    const int64_t started = clock_monotonic_us();
    bench.ends_us = started + (int64_t)seconds * 1000000;
    for (size_t i = 0; i < submitters; i++) {
        all[i].bench = &bench;
        all[i].number = (unsigned)i;
        (void)snprintf(all[i].subject, sizeof all[i].subject, "robot$bench+%zu", i % 64);
        submit(&all[i]);
    }
    (void)pthread_mutex_lock(&bench.mutex);
    while (bench.running > 0) (void)pthread_cond_wait(&bench.idle, &bench.mutex);
    (void)pthread_mutex_unlock(&bench.mutex);
    report(&bench, clock_monotonic_us() - started);
    sequencer_free(bench.sequencer);
    free(bench.waits_us);
    free(all);
    return SUCCESS;
}

int main(int argc, char **argv)
{
    struct sequencer_options options = {.instance = "bench"};
    OWNED(keyd_client) *keyd = NULL;
    struct error err = {0};
    uint64_t submitters = 0, seconds = 0;

    if (argc < 6 || argc > 7 || !text_to_u64(bytes_of_text(argv[4]), 60000, &submitters) || submitters == 0 ||
        !text_to_u64(bytes_of_text(argv[5]), 3600, &seconds) || seconds == 0 ||
        (argc == 7 && !text_to_u64(bytes_of_text(argv[6]), INT64_MAX, &epoch))) {
        (void)fprintf(stderr, "usage: audit_bench CONNINFO KEYD-SOCKET ORIGIN SUBMITTERS SECONDS [EPOCH]\n");
        return 2;
    }
    struct result result = keyd_client_new(argv[2], 2000, &keyd, &err);
    options.conninfo = argv[1];
    options.keyd = keyd;
    (void)snprintf(options.origin, sizeof options.origin, "%s", argv[3]);
    if (result.ok) result = measure(&options, submitters, (unsigned)seconds, &err);
    if (!result.ok) (void)fprintf(stderr, "audit_bench: %s\n", err.message);
    return result.ok ? 0 : 1;
}
