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
#define LOAD_PIDS_MAX    64 /* processes whose CPU time is counted as the server's */
#define LOAD_PATHS_MAX   65536

struct load_options {
    const char *url, *repository, *ca_file, *login; /* "user:password" for /token, or NULL */
    uint64_t size;
    unsigned count, clients, requests, uploads;
    unsigned rate;              /* requests a second of all clients together; 0: as fast as they can */
    unsigned seconds, interval; /* of a mixed run */
    bool patch;                 /* PATCH then PUT, as docker does; else one PUT */
    bool whole;                 /* one POST with the digest, where the registry takes it */
    bool check;                 /* compare what is pulled with what was pushed */
    const char *run;            /* "push,pull,again,artifact,manifest,token,ask,beside", or "mixed" */
    const char *scope;          /* of tokens; NULL: pull and push of the repository */
    const char *paths_file;     /* lines "METHOD PATH", asked for in turn */
    int pids[LOAD_PIDS_MAX];
    unsigned pid_count;
    int database_pids[LOAD_PIDS_MAX]; /* CPU time only: what they have in memory is shared */
    unsigned database_pid_count;
};

struct load_blob {
    uint8_t prefix[16]; /* makes it unique; the rest is the common pattern */
    char digest[136];
};

struct load {
    struct load_options options;
    struct load_blob *blobs;
    char manifest_path[512];
    char **paths;
    unsigned path_count;
    pthread_mutex_t token_mutex;
    char token[12288];
    int64_t token_until_ms;
    double began; /* of the phase */
    _Atomic unsigned next, failures;
    _Atomic bool stop, wants_sessions; /* it answered a whole POST with a session */
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
    struct again *again; /* a second connection, once there was a link_get_again() */
};

bool link_open(struct link *link, struct load *load);
void link_close(struct link *link);
/** What all requests have in common. */
void link_set_common(struct link *link, CURL *curl);
/** "Authorization: Bearer TOKEN", renewed if need be. */
bool link_authorization(struct link *link, char *line, size_t size);
/** One exchange; answers the status, or -1. `blob` NULL: no body, or `text`. */
struct exchange {
    const char *method, *path, *content_type, *accept, *text;
    const struct load_blob *blob;
    uint64_t length;
};
long link_call(struct link *link, const struct exchange *exchange);

/** A GET with a small answer, on a connection of its own that costs the client little; answers the status, or -1. */
long link_get_again(struct link *link, const char *path, const char *accept);
void link_close_again(struct link *link);

bool load_push_blob(struct link *link, const struct load_blob *blob, uint64_t size);
bool load_pull_blob(struct link *link, const struct load_blob *blob, uint64_t size);
bool load_push_manifest(struct link *link);
bool load_get_manifest(struct link *link);
/** The same, by link_get_again(). */
bool load_get_manifest_again(struct link *link);
/** The config that all manifests here have. */
bool load_push_empty(struct link *link);
/** A blob and a manifest with a tag of its own: three requests. */
bool load_push_artifact(struct link *link, const struct load_blob *blob, uint64_t size);
/** A new token, which nobody uses. */
bool load_get_token(struct link *link);
bool load_read_paths(struct load *load);
void load_free_paths(struct load *load);
/** Path number `index`, counted around. */
bool load_ask(struct link *link, unsigned index);
/** The common pattern that all blobs consist of, and the digests over it. */
bool load_make_blobs(struct load *load);
bool load_make_blob(struct load_blob *blob, uint64_t size);
void load_blob_bytes(const struct load_blob *blob, uint64_t offset, uint8_t *place, size_t length);
bool load_blob_matches(const struct load_blob *blob, uint64_t offset, const uint8_t *bytes, size_t length);

/** Clients that push, pull and get manifests for a time; prints a line of JSON for each interval. */
bool load_run_mixed(struct load *load);

/** CPU seconds and peak memory of the named processes. */
double load_cpu_seconds(const struct load_options *options);
double load_own_cpu_seconds(void);
double load_peak_mib(const struct load_options *options);
void load_reset_peak(const struct load_options *options);
double load_now(void);
