/*
 * registry/jobs/job.h -- work that goes over everything and takes hours: a scrub of a region's bytes, a re-wrap of all keys, a
 * collection of garbage.
 *
 * A job is a row. Any gateway takes one up whose lease has ended, saves how far it came every other second, and lets go
 * of it when it stops; the next one goes on from there, after kill -9 as well. Whatever a runner writes into the job names
 * the runner_epoch that it claimed, so one that was only slow changes no job any more. Beginning, end, each finding and each
 * removal are events; ended jobs are pruned. docs/scrubbing.md, docs/keys.md, docs/garbage-collection.md.
 */
#pragma once

#include "crypto/digest.h"
#include "policy/decider.h" /* struct policy_keeping */
#include "registry/registry.h"

/* X(constant, name, what begins it, what runs it, its three phases) */
#define JOB_KINDS(X)                                                                                      \
    X(JOB_SCRUB, "scrub", ACTION_SCRUB_START, scrub_run, "blobs", "manifests", "objects")                   \
    X(JOB_REWRAP, "rewrap", ACTION_REWRAP_START, rewrap_run, "keys of blobs", "keys of manifests",          \
      "keys of uploads")                                                                                    \
    X(JOB_COLLECTION, "collection", ACTION_STORAGE_COLLECT, collection_run, "sessions", "manifests", "blobs")
enum job_kind {
#define X(constant, name, action, run, first, second, third) constant,
    JOB_KINDS(X)
#undef X
    JOB_KIND_COUNT
};
const char *job_kind_name(enum job_kind kind);

/** What each kind goes over, in this order; a collection comes back to manifests with each project. */
enum job_phase {
    SCRUB_BLOBS = 0,
    SCRUB_MANIFESTS,
    SCRUB_OBJECTS, /* those without a row */
    REWRAP_BLOBS = 0,
    REWRAP_PROJECTS,
    REWRAP_UPLOADS,
    COLLECT_SESSIONS = 0,
    COLLECT_MANIFESTS,
    COLLECT_BLOBS,
    JOB_DONE
};

#define JOB_TEXT_SIZE  304
#define JOB_REPORT_MAX ((size_t)1 << 20) /* characters, as the table has it */
#define JOBS_KEPT      100               /* ended ones: a collection a day for three months */

struct job {
    struct uuid id;
    enum job_kind kind;
    char region[REGION_ID_MAX + 1]; /* of a scrub, else "" */
    bool with_digest;
    uint64_t rate_bytes; /* a second */
    struct uuid project; /* of a collection of one, else nil */
    char project_name[RESOURCE_NAME_MAX + 1]; /* "acme/models" */
    bool is_dry_run;
    /* How far it is. */
    enum job_phase phase;
    struct uuid cursor;
    char cursor_text[DIGEST_TEXT_SIZE];
    uint64_t cursor_bytes; /* scrub without digests: of the blob after the cursor; collection: blobs done at the cursor */
    uint64_t done, done_bytes, total, total_bytes, found;
    char waits_for[JOB_TEXT_SIZE]; /* why it does not go on just now; "" if it does */
    /* Who does it, since when, how it ended. */
    char runner[64];
    uint64_t runner_epoch;
    bool is_held; /* by a runner with a lease */
    bool stop_wanted;
    int64_t number, requested_ms, started_ms, ended_ms; /* wall time; 0: not yet */
    char outcome[12];               /* "completed", "stopped", "failed"; "" while it is not over */
};
const char *job_phase_name(const struct job *job);

/**
 * A change: begins a job. ERROR_CONFLICT while one of its kind, region and project is not over (a dry run is beside others);
 * ERROR_NOT_FOUND: no such region or project.
 */
struct job_begin {
    struct change change;
    struct resource where; /* the system, with the region; a collection's may be a project */
    enum action action;    /* as JOB_KINDS has it */
    struct job job;        /* id, kind, region, with_digest, rate_bytes, is_dry_run */
    const char *rules;     /* of a dry run of one project, to be tried instead of its own; NULL; must outlive the record */
};
void job_begin_prepare(const struct resource *where, const struct job *job, struct job_begin *begin_out);
struct scrub_schedule {
    int64_t interval_s;
    uint64_t rate_bytes;
};
/** Begins a scrub of each region that this gateway serves, with its event, if its last one was asked for longer ago. */
RESULT job_begin_scrubs_if_due(struct registry *registry, struct pg *pg, const struct scrub_schedule *schedule,
                               struct error *err);
/** Begins a collection of all projects, with its event, if the last one was asked for longer than interval_s ago. */
RESULT job_begin_collection_if_due(struct registry *registry, struct pg *pg, int64_t interval_s, struct error *err);
/**
 * A change: asks its runner to end it; if none has a lease, it is over with this change, and the event of job.stop is its end.
 * ERROR_NOT_FOUND, also when it is over already, or not of the project that `where` is.
 */
struct job_stop {
    struct change change;
    struct resource where;
    struct uuid job;
    unsigned kept;
};
/** `kept` as job_options has it. */
void job_stop_prepare(const struct resource *where, const struct uuid *job, unsigned kept, struct job_stop *stop_out);

/** A piece of a list. The permit is for job.read: on the system all jobs are seen, on a project its collections. */
struct job_page {
    const struct uuid *job; /* of findings */
    int64_t from;           /* jobs: before this number (INT64_MAX: the newest); findings: after it (0: the first) */
    size_t limit;
};
/** Newest first. The caller owns *jobs_out (free()). */
RESULT job_list(const struct permit *permit, struct pg *pg, const struct job_page *page, struct job **jobs_out, size_t *count_out,
                struct error *err) __attribute__((nonnull));
/** ERROR_NOT_FOUND. */
RESULT job_find(const struct permit *permit, struct pg *pg, const struct uuid *id, struct job *job_out, struct error *err)
    __attribute__((nonnull));
/** What a collection that was found has removed so far, or would remove: a JSON object. The caller owns *rows_out. */
RESULT job_report_text(const struct permit *permit, struct pg *pg, const struct uuid *id, struct pg_rows **rows_out,
                       const char **report_out, struct error *err) __attribute__((nonnull));

#define JOB_FINDING_KINDS(X)                                                                    \
    X(FINDING_DAMAGED, "damaged")       /* a blob that does not verify: marked */               \
    X(FINDING_MISSING, "missing")       /* a blob whose object is not there: marked */          \
    X(FINDING_UNREADABLE, "unreadable") /* a blob that could not be read, again and again */    \
    X(FINDING_KEY, "key")               /* a blob or manifest whose key does not unwrap */      \
    X(FINDING_MANIFEST, "manifest")     /* a manifest that does not open, or is not its digest */ \
    X(FINDING_STRAY, "stray")           /* an object that no row and no closed blob's trailer names */
enum finding_kind {
#define X(constant, name) constant,
    JOB_FINDING_KINDS(X)
#undef X
};

struct job_finding {
    enum finding_kind kind;
    int64_t number, found_ms;
    char subject[304]; /* an object's name, or repository and digest: once each */
    char name[RESOURCE_NAME_MAX + 1];
    char digest[DIGEST_TEXT_SIZE];
    char detail[JOB_TEXT_SIZE]; /* what does not fit: "record 17: ..." */
};
const char *finding_kind_name(enum finding_kind kind);
/** Oldest first. The caller owns *findings_out (free()). */
RESULT job_findings(const struct permit *permit, struct pg *pg, const struct job_page *page, struct job_finding **findings_out,
                    size_t *count_out, struct error *err) __attribute__((nonnull));

/** Where keys are; in the order of a re-wrap's phases. */
enum key_table { KEYS_OF_BLOBS, KEYS_OF_PROJECTS, KEYS_OF_UPLOADS, KEY_TABLE_COUNT };

/** How many keys are under a version, in each table. */
struct key_count {
    uint32_t version;
    uint64_t keys[KEY_TABLE_COUNT];
};
#define KEY_COUNTS_MAX 64 /* as many as there are versions */
/** By version, ascending. The permit is of ACTION_JOB_READ. */
RESULT job_count_keys(const struct permit *permit, struct pg *pg, struct key_count counts_out[KEY_COUNTS_MAX], size_t *count_out,
                      struct error *err) __attribute__((nonnull));

/** Who runs jobs. */
struct job_options {
    enum job_kind kind;
    const char *instance;              /* of this gateway, for people */
    bool (*is_stopping)(void *context); /* asked several times a second */
    void *context;
    unsigned lease_ms;                 /* 0: 30 s; another gateway takes over after that */
    unsigned settle_ms;                /* 0: 60 s; no re-wrap ends sooner (registry/jobs/rewrap.c) */
    /* What policies oblige to keep of a repository: decider_keeping(). NULL: nothing is kept. */
    RESULT (*keeping)(void *context, const char *repository, struct policy_keeping *keeping_out, struct error *err);
    unsigned kept;                     /* ended jobs of a kind and project; 0: JOBS_KEPT */
};
/**
 * Takes up at most one job of the kind, in a region that this gateway serves, and works on it until it is over, it was
 * lost to another, or is_stopping(). *worked_out: there was one. Blocks; for a thread of its own with its own `pg`.
 */
RESULT registry_work(struct registry *registry, struct pg *pg, const struct job_options *options, bool *worked_out,
                     struct error *err);
