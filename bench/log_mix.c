/*
 * bench/log_mix.c -- appends events of a realistic mix to a gateway's log, by the sequencer that gateways use.
 *
 * usage: log_mix CONNINFO KEYD-SOCKET ORIGIN EVENTS EPOCH SEED
 * Prints events/s, and how many events could not be recorded. With 0 events: waits for a round of the continuous verifier through the whole log.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "audit/log_verifier.h"
#include "audit/metrics.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "bench/event_mix.h"
#include "crypto/keyd_client.h"

#define SUBMITTERS 256

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
    struct mix_source events;
};

static void recorded(struct record *record);

static void submit(struct source *source)
{
    mix_next(&source->events, &source->record);
    source->record.done = recorded;
    sequencer_submit(source->mix->sequencer, &source->record);
}

static void recorded(struct record *record)
{
    struct source *source = (struct source *)(void *)record;
    struct mix *mix = source->mix;
    const bool is_good = record->status == RECORD_DONE;

    (void)pthread_mutex_lock(&mix->mutex);
    mix->done += is_good ? 1 : 0;
    mix->failed += is_good ? 0 : 1;
    const bool goes_on = mix->left > 0 && is_good;
    if (goes_on) mix->left--;
    else if (--mix->running == 0) (void)pthread_cond_signal(&mix->idle);
    (void)pthread_mutex_unlock(&mix->mutex);
    mix_recorded(&source->events, record);
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
        mix_seed(&all[i].events, seed * SUBMITTERS + i + 1, mix->epoch);
        submit(&all[i]);
    }
    await_all(mix);
    (void)printf("%.0f events/s, %" PRIu64 " failed\n", (double)mix->done * 1e6 / (double)(clock_monotonic_us() - began_us),
                 mix->failed);
    sequencer_free(mix->sequencer);
    for (size_t i = 0; i < SUBMITTERS; i++) permit_free(all[i].events.permit);
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
