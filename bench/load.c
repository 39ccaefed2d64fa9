/* sijil-load: pushes and pulls against one registry and prints one JSON object. See --help. */
#include "bench/load.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/text.h"

/* One thread of one phase. */
struct runner {
    struct load *load;
    struct link link;
    pthread_t thread;
    bool (*step)(struct runner *runner, unsigned index);
    unsigned total;
    double *latencies_ms;
};

static bool step_push(struct runner *runner, unsigned index)
{
    return load_push_blob(&runner->link, &runner->load->blobs[index], runner->load->options.size);
}

static bool step_pull(struct runner *runner, unsigned index)
{
    return load_pull_blob(&runner->link, &runner->load->blobs[index], runner->load->options.size);
}

static bool step_manifest(struct runner *runner, unsigned index)
{
    (void)index;
    return load_get_manifest_again(&runner->link);
}

static bool step_artifact(struct runner *runner, unsigned index)
{
    return load_push_artifact(&runner->link, &runner->load->blobs[index], runner->load->options.size);
}

static bool step_token(struct runner *runner, unsigned index)
{
    (void)index;
    return load_get_token(&runner->link);
}

static bool step_ask(struct runner *runner, unsigned index)
{
    return load_ask(&runner->link, index);
}

/* When the request is due: a wait counts from then, so that a slow answer does not hide the waits behind it. */
static double await_turn(const struct load *load, unsigned index)
{
    const double now = load_now(), due = load->options.rate == 0 ? now : load->began + (double)index / load->options.rate;
    const double left = due - now;

    if (left > 0) {
        const struct timespec pause = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
        (void)nanosleep(&pause, NULL);
    }
    return due;
}

static void *runner_main(void *argument)
{
    struct runner *runner = argument;

    for (unsigned index; (index = atomic_fetch_add(&runner->load->next, 1)) < runner->total;) {
        const double start = await_turn(runner->load, index);
        if (!runner->step(runner, index)) atomic_fetch_add(&runner->load->failures, 1);
        runner->latencies_ms[index] = (load_now() - start) * 1000;
    }
    return NULL;
}

static int compare_double(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

/* What a phase took. */
struct spent {
    double seconds, server_cpu, client_cpu;
};

static struct spent spent_until_now(const struct load *load)
{
    return (struct spent){load_now(), load_cpu_seconds(&load->options), load_own_cpu_seconds()};
}

static void print_phase(struct load *load, const char *name, const double amounts[2], double *latencies_ms,
                        const struct spent *spent)
{
    static bool first = true;
    const unsigned total = (unsigned)amounts[0];
    const double seconds = spent->seconds, bytes = amounts[1];

    qsort(latencies_ms, total, sizeof *latencies_ms, compare_double);
    (void)printf(
        "%s\"%s\":{\"seconds\":%.4f,\"requests\":%u,\"failures\":%u,\"per_second\":%.1f,\"mb_per_second\":%.1f,"
        "\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f,\"server_cpu_seconds\":%.3f,\"client_cpu_seconds\":%.3f,\"server_peak_mib\":%.1f",
        first ? "{" : ",", name, seconds, total, atomic_load(&load->failures), total / seconds, bytes / seconds / 1e6,
        latencies_ms[total / 2], latencies_ms[(unsigned)(total * 0.99)], latencies_ms[total - 1], spent->server_cpu,
        spent->client_cpu, load_peak_mib(&load->options));
    if (bytes > 0)
        (void)printf(",\"server_cpu_seconds_per_gb\":%.3f,\"client_cpu_seconds_per_gb\":%.3f", spent->server_cpu / (bytes / 1e9),
                     spent->client_cpu / (bytes / 1e9));
    (void)printf("}");
    first = false;
}

struct phase {
    const char *name;
    unsigned clients, total;
    double bytes;
    bool (*step)(struct runner *, unsigned);
};

/* Runs all steps on the given number of clients; false if it can't even start. */
static bool run_phase(struct load *load, const struct phase *phase)
{
    const unsigned clients = phase->clients, total = phase->total;
    struct runner *runners = memory_zeroed(clients, sizeof *runners);
    double *latencies_ms = memory_zeroed(total, sizeof *latencies_ms);
    bool ok = runners != NULL && latencies_ms != NULL;

    atomic_store(&load->next, 0);
    atomic_store(&load->failures, 0);
    load_reset_peak(&load->options);
    const struct spent before = spent_until_now(load);
    load->began = before.seconds;
    for (unsigned i = 0; ok && i < clients; i++) {
        runners[i] = (struct runner){.load = load, .step = phase->step, .total = total, .latencies_ms = latencies_ms};
        ok = link_open(&runners[i].link, load) && pthread_create(&runners[i].thread, NULL, runner_main, &runners[i]) == 0;
    }
    for (unsigned i = 0; ok && i < clients; i++) (void)pthread_join(runners[i].thread, NULL);
    const struct spent after = spent_until_now(load);
    const struct spent spent = {after.seconds - before.seconds, after.server_cpu - before.server_cpu,
                                after.client_cpu - before.client_cpu};
    if (ok) print_phase(load, phase->name, (const double[2]){total, phase->bytes}, latencies_ms, &spent);
    for (unsigned i = 0; runners != NULL && i < clients; i++) link_close(&runners[i].link);
    free(runners);
    free(latencies_ms);
    return ok && atomic_load(&load->failures) == 0;
}

/* Uploads the blobs again and again until told to stop, to be in the way of others. */
static void *uploader_main(void *argument)
{
    struct load *load = argument;
    struct link link;
    struct load_blob blob = load->blobs[0];

    if (!link_open(&link, load)) return NULL;
    while (!atomic_load(&load->stop)) {
        if (!load_push_blob(&link, &blob, load->options.size)) atomic_fetch_add(&load->failures, 1);
    }
    link_close(&link);
    return NULL;
}

static bool run_beside(struct load *load)
{
    pthread_t uploaders[LOAD_CLIENTS_MAX];
    unsigned started = 0;

    atomic_store(&load->stop, false);
    for (; started < load->options.uploads; started++)
        if (pthread_create(&uploaders[started], NULL, uploader_main, load) != 0) break;
    const bool ok = run_phase(load, &(struct phase){"manifest_beside_uploads", 1, load->options.requests, 0, step_manifest});
    atomic_store(&load->stop, true);
    for (unsigned i = 0; i < started; i++) (void)pthread_join(uploaders[i], NULL);
    return ok && started == load->options.uploads;
}

/* The blobs and the manifest that the clients ask for are pushed first. */
static bool run_mixed(struct load *load)
{
    struct link link;
    bool ok = link_open(&link, load);

    for (unsigned i = 0; ok && i < load->options.count; i++) ok = load_push_blob(&link, &load->blobs[i], load->options.size);
    ok = ok && load_push_manifest(&link);
    link_close(&link);
    return ok && load_run_mixed(load);
}

static bool run_all(struct load *load)
{
    const struct load_options *options = &load->options;
    const double bytes = (double)options->size * options->count;
    struct link link;
    bool ok = true;

    if (strcmp(options->run, "mixed") == 0) return run_mixed(load);
    if (strstr(options->run, "token") != NULL)
        ok = run_phase(load, &(struct phase){"token", options->clients, options->requests, 0, step_token});
    if (ok && strstr(options->run, "ask") != NULL)
        ok = load_read_paths(load) && run_phase(load, &(struct phase){"ask", options->clients, options->requests, 0, step_ask});
    if (ok && strstr(options->run, "artifact") != NULL) {
        ok = link_open(&link, load) && load_push_empty(&link);
        link_close(&link);
        if (ok) ok = run_phase(load, &(struct phase){"artifact", options->clients, options->count, 0, step_artifact});
    }
    if (ok && strstr(options->run, "push") != NULL)
        ok = run_phase(load, &(struct phase){"push", options->clients, options->count, bytes, step_push});
    if (ok && strstr(options->run, "pull") != NULL)
        ok = run_phase(load, &(struct phase){"pull", options->clients, options->count, bytes, step_pull});
    if (ok && strstr(options->run, "again") != NULL)
        ok = run_phase(load, &(struct phase){"again", options->clients, options->count, bytes, step_pull});
    if (ok && (strstr(options->run, "manifest") != NULL || strstr(options->run, "beside") != NULL)) {
        ok = link_open(&link, load) && load_push_manifest(&link);
        link_close(&link);
    }
    if (ok && strstr(options->run, "manifest") != NULL)
        ok = run_phase(load, &(struct phase){"manifest", options->clients, options->requests, 0, step_manifest});
    if (ok && strstr(options->run, "beside") != NULL) ok = run_beside(load);
    (void)printf("}\n");
    return ok;
}

static void usage(FILE *out)
{
    (void)fputs(
        "usage: sijil-load --url https://HOST:PORT --repository NAME [OPTION...]\n"
        "Loads an OCI registry and prints what it saw as JSON.\n"
        "  --ca-file FILE      certificates to trust\n"
        "  --login USER:PASS   for tokens at /token (default: no authentication)\n"
        "  --run LIST          of token,ask,artifact,push,pull,again,manifest,beside (default: push,pull); again pulls once\n"
        "                      more; or mixed: all at once, for a time\n"
        "  --size BYTES        of each blob (default 1048576; at least 16)\n"
        "  --count NUMBER      blobs (default 10)\n"
        "  --clients NUMBER    at a time (default 1)\n"
        "  --requests NUMBER   of manifests, tokens, asked paths (default 1000)\n"
        "  --rate NUMBER       requests a second, of all clients together (default: as fast as they can)\n"
        "  --scope SCOPE       of tokens (default: pull and push of the repository)\n"
        "  --paths FILE        what to ask for in turn: lines of GET or HEAD, a blank, and a path\n"
        "  --uploads NUMBER    beside the manifests (default 3)\n"
        "  --seconds NUMBER    that a mixed run takes (default 10)\n"
        "  --interval NUMBER   seconds for which a mixed run prints one line (default 10)\n"
        "  --patch             POST, PATCH, PUT instead of POST, PUT\n"
        "  --whole             POST with the digest and all bytes, where the registry takes that\n"
        "  --check             compare the bytes of each pull with those that were pushed\n"
        "  --pid NUMBER        a process of the server, for CPU time and memory; may be repeated\n"
        "  --database-pid NUMBER  another one, for CPU time only\n",
        out);
}

static bool take_number(const char *text, uint64_t least, uint64_t most, uint64_t *place)
{
    uint64_t value = 0;

    if (!text_to_u64(bytes_of_text(text), most, &value) || value < least) return false;
    *place = value;
    return true;
}

static bool take_option(struct load_options *options, int letter, const char *text)
{
    uint64_t number = 0;

    switch (letter) {
    case 'u': options->url = text; return true;
    case 'r': options->repository = text; return true;
    case 'c': options->ca_file = text; return true;
    case 'l': options->login = text; return true;
    case 'x': options->run = text; return true;
    case 'P': options->patch = true; return true;
    case 'w': options->whole = true; return true;
    case 'C': options->check = true; return true;
    case 'o': options->scope = text; return true;
    case 'a': options->paths_file = text; return true;
    case 's': return take_number(text, 16, (uint64_t)1 << 50, &options->size);
    default: break;
    }
    if (!take_number(text, 1, letter == 'n' ? LOAD_CLIENTS_MAX : INT32_MAX, &number)) return false;
    if (letter == 'n') options->clients = (unsigned)number;
    if (letter == 'k') options->count = (unsigned)number;
    if (letter == 'q') options->requests = (unsigned)number;
    if (letter == 'v') options->rate = (unsigned)number;
    if (letter == 't') options->seconds = (unsigned)number;
    if (letter == 'i') options->interval = (unsigned)number;
    if (letter == 'b') options->uploads = number > LOAD_CLIENTS_MAX ? LOAD_CLIENTS_MAX : (unsigned)number;
    if (letter == 'p' && options->pid_count < LOAD_PIDS_MAX) options->pids[options->pid_count++] = (int)number;
    if (letter == 'd' && options->database_pid_count < LOAD_PIDS_MAX)
        options->database_pids[options->database_pid_count++] = (int)number;
    return true;
}

static const struct option longs[] = {{"url", required_argument, NULL, 'u'},      {"repository", required_argument, NULL, 'r'},
                                      {"ca-file", required_argument, NULL, 'c'},  {"login", required_argument, NULL, 'l'},
                                      {"run", required_argument, NULL, 'x'},      {"size", required_argument, NULL, 's'},
                                      {"count", required_argument, NULL, 'k'},    {"clients", required_argument, NULL, 'n'},
                                      {"requests", required_argument, NULL, 'q'}, {"uploads", required_argument, NULL, 'b'},
                                      {"seconds", required_argument, NULL, 't'},  {"interval", required_argument, NULL, 'i'},
                                      {"check", no_argument, NULL, 'C'},          {"whole", no_argument, NULL, 'w'},
                                      {"patch", no_argument, NULL, 'P'},          {"pid", required_argument, NULL, 'p'},
                                      {"rate", required_argument, NULL, 'v'},     {"scope", required_argument, NULL, 'o'},
                                      {"paths", required_argument, NULL, 'a'},    {"database-pid", required_argument, NULL, 'd'},
                                      {"help", no_argument, NULL, 'h'},           {0}};

int main(int argc, char **argv)
{
    static struct load load = {.options = {.run = "push,pull",
                                           .size = 1 << 20,
                                           .count = 10,
                                           .clients = 1,
                                           .requests = 1000,
                                           .uploads = 3,
                                           .seconds = 10,
                                           .interval = 10},
                               .token_mutex = PTHREAD_MUTEX_INITIALIZER};

    for (int letter; (letter = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        if (letter == 'h') {
            usage(stdout);
            return 0;
        }
        if (letter == '?' || !take_option(&load.options, letter, optarg)) {
            usage(stderr);
            return 2;
        }
    }
    if (load.options.url == NULL || load.options.repository == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != 0) {
        usage(stderr);
        return 2;
    }
    load.blobs = memory_zeroed(load.options.count, sizeof *load.blobs);
    if (load.blobs == NULL || !load_make_blobs(&load)) return 1;
    const bool ok = run_all(&load);
    load_free_paths(&load);
    free(load.blobs);
    return ok ? 0 : 1;
}
