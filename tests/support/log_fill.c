/*
 * log_fill CONNINFO KEYD-SOCKET EPOCH SIZE...: appends events as a gateway does until the log has exactly SIZE entries, and has sijil-keyd
 * sign it, for each SIZE in turn. For tests that need a large log, or a checkpoint of one certain size. Prints each size and the time.
 */
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

#define AT_A_TIME 1000 /* records that wait together: as many as a group takes */

struct fill {
    struct sequencer *sequencer;
    struct record *records; /* AT_A_TIME */
    uint64_t epoch, size;
    pthread_mutex_t mutex;
    pthread_cond_t all_done;
    size_t left;
} fill = {.mutex = PTHREAD_MUTEX_INITIALIZER, .all_done = PTHREAD_COND_INITIALIZER};

static struct result decide(uint64_t number, struct decision **decision_out, struct error *err)
{
    struct decision_parts parts = {.verdict = VERDICT_ALLOW,
                                   .epoch = fill.epoch,
                                   .pair_count = 1,
                                   .pairs = {{ACTION_BLOB_READ, {.kind = RESOURCE_REPOSITORY, .region = "local/main"}}}};
    struct resource *resource = &parts.pairs[0].resource;

    (void)snprintf(resource->name, sizeof resource->name, "acme/models/repository-%u", (unsigned)(number % 256));
    (void)snprintf(resource->detail, sizeof resource->detail, "sha256:%064llx", (unsigned long long)number);
    return decision_make(&parts, decision_out, err);
}

static void one_done(struct record *record)
{
    (void)record;
    (void)pthread_mutex_lock(&fill.mutex);
    if (--fill.left == 0) (void)pthread_cond_signal(&fill.all_done);
    (void)pthread_mutex_unlock(&fill.mutex);
}

static struct result take(struct record *record, struct error *err)
{
    const bool is_done = record->status == RECORD_DONE;

    if (!is_done) *err = record->error;
    if (!is_done && err->message[0] == '\0') failure_write(err, ERROR_INVALID, "a record was not accepted: is the epoch right?");
    if (is_done && record->sequence >= fill.size) fill.size = record->sequence + 1;
    record_done(record);
    return (struct result){.ok = is_done};
}

static struct result append(size_t count, struct error *err)
{
    bool all_good = true;

    fill.left = count;
    for (size_t i = 0; i < count; i++) {
        fill.records[i] = (struct record){
            .done = one_done,
            .context = {.issuer = "fill", .subject = "robot$fill", .client_address = "192.0.2.7", .request_id = "fill"}};
        TRY(decide(fill.size + i, &fill.records[i].decision, err));
    }
    for (size_t i = 0; i < count; i++) sequencer_submit(fill.sequencer, &fill.records[i]);
    (void)pthread_mutex_lock(&fill.mutex);
    while (fill.left > 0) (void)pthread_cond_wait(&fill.all_done, &fill.mutex);
    (void)pthread_mutex_unlock(&fill.mutex);
    for (size_t i = 0; i < count; i++) all_good = take(&fill.records[i], err).ok && all_good;
    return (struct result){.ok = all_good};
}

static struct result fill_up_to(uint64_t size, struct error *err)
{
    struct signed_checkpoint checkpoint;

    while (fill.size < size) TRY(append(size - fill.size < AT_A_TIME ? (size_t)(size - fill.size) : AT_A_TIME, err));
    if (fill.size != size) return failure(err, ERROR_INVALID, "the log has %llu entries already", (unsigned long long)fill.size);
    TRY(sequencer_await_signed(fill.sequencer, size - 1, err));
    TRY(sequencer_checkpoint(fill.sequencer, &checkpoint, err));
    if (checkpoint.size != size) return failure(err, ERROR_CONFLICT, "somebody else appends to this log");
    return SUCCESS;
}

static struct result run(struct sequencer_options *options, char **sizes, struct error *err)
{
    struct keyd_identity identity;
    const int64_t started = clock_monotonic_ms();

    TRY(keyd_identify(options->keyd, &identity, err));
    (void)snprintf(options->origin, sizeof options->origin, "%s", identity.origin);
    fill.size = identity.log_size;
    fill.records = memory_zeroed(AT_A_TIME, sizeof *fill.records);
    if (fill.records == NULL) return failure(err, ERROR_NO_MEMORY, "no memory");
    TRY(sequencer_start(options, &fill.sequencer, err));
    for (; *sizes != NULL; sizes++) {
        uint64_t size = 0;
        if (!text_to_u64(bytes_of_text(*sizes), INT64_MAX, &size) || size == 0)
            return failure(err, ERROR_INVALID, "%s is no size", *sizes);
        TRY(fill_up_to(size, err));
        (void)printf("%llu entries are signed after %.1f s\n", (unsigned long long)size,
                     (double)(clock_monotonic_ms() - started) / 1000);
    }
    return SUCCESS;
}

int main(int argc, char **argv)
{
    struct sequencer_options options = {.instance = "log-fill"};
    OWNED(keyd_client) *keyd = NULL;
    struct error err = {0};

    if (argc < 5 || !text_to_u64(bytes_of_text(argv[3]), INT64_MAX, &fill.epoch)) {
        (void)fprintf(stderr, "usage: log_fill CONNINFO KEYD-SOCKET EPOCH SIZE...\n");
        return 2;
    }
    options.conninfo = argv[1];
    struct result result = keyd_client_new(argv[2], 5000, &keyd, &err);
    options.keyd = keyd;
    if (result.ok) result = run(&options, argv + 4, &err);
    sequencer_free(fill.sequencer);
    free(fill.records);
    if (!result.ok) (void)fprintf(stderr, "log_fill: %s\n", err.message);
    return result.ok ? 0 : 1;
}
