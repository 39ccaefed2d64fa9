/*
 * bench/load.h -- a load client for OCI registries: what its parts share.
 *
 * One client is one thread with one kept-alive TLS connection. Blobs are unique and hashed before the clock starts,
 * so that the client's own work does not show in the server's figures.
 */
#pragma once

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD_CLIENTS_MAX 256
#define LOAD_PIDS_MAX    16 /* processes whose CPU time and memory are counted as the server's */

struct load_options {
    const char *url, *repository, *ca_file, *login; /* "user:password" for /token, or NULL */
    uint64_t size;
    unsigned count, clients, requests, uploads;
    unsigned seconds, interval;                     /* of a mixed run */
    bool patch;                                     /* PATCH then PUT, as docker does; else one PUT */
    bool check;                                     /* compare what is pulled with what was pushed */
    const char *run;                                /* "push,pull,manifest,beside", or "mixed" */
    int pids[LOAD_PIDS_MAX];
    unsigned pid_count;
};

struct load_blob {
    uint8_t prefix[16]; /* makes it unique; the rest is the common pattern */
    char digest[136];
};

struct load {
    struct load_options options;
    struct load_blob *blobs;
    char manifest_path[512];
    pthread_mutex_t token_mutex;
    char token[12288];
    int64_t token_until_ms;
    _Atomic unsigned next, failures;
    _Atomic bool stop;
};

/** One connection; every call uses it again. */
struct link {
    struct load *load;
    CURL *curl;
    char location[2048];
    uint64_t received;
    const struct load_blob *expected; /* what a pull must bring, or NULL */
    bool differs;
    struct curl_slist *headers;
};

bool link_open(struct link *link, struct load *load);
void link_close(struct link *link);
/** One exchange; answers the status, or -1. `blob` NULL: no body, or `text`. */
struct exchange {
    const char *method, *path, *content_type, *accept, *text;
    const struct load_blob *blob;
    uint64_t length;
};
long link_call(struct link *link, const struct exchange *exchange);

bool load_push_blob(struct link *link, const struct load_blob *blob, uint64_t size);
bool load_pull_blob(struct link *link, const struct load_blob *blob, uint64_t size);
bool load_push_manifest(struct link *link);
bool load_get_manifest(struct link *link);
/** The common pattern that all blobs consist of, and the digests over it. */
bool load_make_blobs(struct load *load);
bool load_make_blob(struct load_blob *blob, uint64_t size);
void load_blob_bytes(const struct load_blob *blob, uint64_t offset, uint8_t *place, size_t length);
bool load_blob_matches(const struct load_blob *blob, uint64_t offset, const uint8_t *bytes, size_t length);

/** Clients that push, pull and get manifests for a time; prints a line of JSON for each interval. */
bool load_run_mixed(struct load *load);

/** CPU seconds and peak memory of the named processes. */
double load_cpu_seconds(const struct load_options *options);
double load_peak_mib(const struct load_options *options);
void load_reset_peak(const struct load_options *options);
double load_now(void);
