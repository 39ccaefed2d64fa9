/* Many clients at once for a time, doing what a busy registry sees; one line of JSON for each interval. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "bench/load.h"
#include "crypto/random.h"

#define SAMPLES_MAX (1U << 20) /* of one interval; more are counted, and not looked at */

enum { MANIFEST, PULL, PUSH, KINDS };
static const char *const kind_names[KINDS] = {"manifest", "pull", "push"};

struct mixed {
    struct load *load;
    pthread_mutex_t mutex;
    unsigned counts[KINDS];
    float *samples[KINDS];
};

struct mixed_client {
    struct mixed *mixed;
    struct link link;
    pthread_t thread;
};

static void note(struct mixed *mixed, int kind, double ms)
{
    (void)pthread_mutex_lock(&mixed->mutex);
    const unsigned count = mixed->counts[kind]++;
    if (count < SAMPLES_MAX) mixed->samples[kind][count] = (float)ms;
    (void)pthread_mutex_unlock(&mixed->mutex);
}

/* Of twenty: thirteen manifests, four pulls, three pushes of what nobody has seen yet. */
static int choose(void)
{
    uint8_t number = 0;

    random_bytes(&number, sizeof number);
    number %= 20;
    return number < 13 ? MANIFEST : number < 17 ? PULL : PUSH;
}

static bool step(struct link *link, int kind)
{
    struct load *load = link->load;
    struct load_blob fresh;
    unsigned index = 0;

    if (kind == MANIFEST) return load_get_manifest(link);
    if (kind == PUSH) return load_make_blob(&fresh, load->options.size) && load_push_blob(link, &fresh, load->options.size);
    random_bytes((uint8_t *)&index, sizeof index);
    return load_pull_blob(link, &load->blobs[index % load->options.count], load->options.size);
}

static void *client_main(void *argument)
{
    struct mixed_client *client = argument;
    struct load *load = client->mixed->load;

    while (!atomic_load(&load->stop)) {
        const int kind = choose();
        const double start = load_now();
        const bool ok = step(&client->link, kind);
        note(client->mixed, kind, (load_now() - start) * 1000);
        if (!ok) atomic_fetch_add(&load->failures, 1);
    }
    return NULL;
}

static int compare_float(const void *a, const void *b)
{
    const float left = *(const float *)a, right = *(const float *)b;

    return (left > right) - (left < right);
}

static void print_kind(struct mixed *mixed, int kind)
{
    float *samples = mixed->samples[kind];
    const unsigned count = mixed->counts[kind], known = count < SAMPLES_MAX ? count : SAMPLES_MAX;

    qsort(samples, known, sizeof *samples, compare_float);
    (void)printf(",\"%s\":{\"count\":%u", kind_names[kind], count);
    if (known > 0)
        (void)printf(",\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f", (double)samples[known / 2],
                     (double)samples[(unsigned)(known * 0.99)], (double)samples[known - 1]);
    (void)printf("}");
    mixed->counts[kind] = 0;
}

static void print_interval(struct mixed *mixed, double second)
{
    (void)pthread_mutex_lock(&mixed->mutex);
    (void)printf("{\"second\":%.1f,\"failures\":%u", second, atomic_load(&mixed->load->failures));
    for (int kind = 0; kind < KINDS; kind++) print_kind(mixed, kind);
    (void)printf("}\n");
    (void)fflush(stdout);
    (void)pthread_mutex_unlock(&mixed->mutex);
}

static void report(struct mixed *mixed)
{
    const struct load_options *options = &mixed->load->options;
    const double start = load_now();

    for (unsigned done = 0; done < options->seconds;) {
        const unsigned left = options->seconds - done, now = left < options->interval ? left : options->interval;
        const struct timespec wait = {.tv_sec = now};
        (void)nanosleep(&wait, NULL);
        done += now;
        print_interval(mixed, load_now() - start);
    }
}

static bool run_clients(struct mixed *mixed, struct mixed_client *clients)
{
    struct load *load = mixed->load;
    unsigned started = 0;

    atomic_store(&load->stop, false);
    for (; started < load->options.clients; started++) {
        clients[started].mixed = mixed;
        if (!link_open(&clients[started].link, load) ||
            pthread_create(&clients[started].thread, NULL, client_main, &clients[started]) != 0)
            break;
    }
    if (started == load->options.clients) report(mixed);
    atomic_store(&load->stop, true);
    for (unsigned i = 0; i < started; i++) (void)pthread_join(clients[i].thread, NULL);
    for (unsigned i = 0; i < load->options.clients; i++) link_close(&clients[i].link);
    return started == load->options.clients && atomic_load(&load->failures) == 0;
}

bool load_run_mixed(struct load *load)
{
    struct mixed mixed = {.load = load, .mutex = PTHREAD_MUTEX_INITIALIZER};
    struct mixed_client *clients = memory_zeroed(load->options.clients, sizeof *clients);
    bool ok = clients != NULL;

    for (int kind = 0; kind < KINDS; kind++) {
        mixed.samples[kind] = memory_zeroed(SAMPLES_MAX, sizeof *mixed.samples[kind]);
        ok = ok && mixed.samples[kind] != NULL;
    }
    if (ok) ok = run_clients(&mixed, clients);
    for (int kind = 0; kind < KINDS; kind++) free(mixed.samples[kind]);
    free(clients);
    return ok;
}
