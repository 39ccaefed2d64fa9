/*
 * registry/jobs/job.h -- long jobs over all content: a scrub of a region, a re-wrap of all keys, a garbage
 * collection, the plan of a policy set.
 *
 * A job is a row. A gateway claims a job without a live lease, saves its progress every other second, and releases it
 * when it stops. The next gateway continues from there, also after a kill -9. Each write names the runner_epoch
 * that the gateway claimed, so a gateway that lost its lease can't change the job. Begin, end, each finding and
 * each removal are events; ended jobs are pruned. docs/scrubbing.md, docs/keys.md, docs/garbage-collection.md.
 */
#pragma once

#include "crypto/digest.h"
#include "policy/decider/decider.h" /* struct policy_retention */
#include "registry/registry.h"

/* X(constant, name, action that begins it, function that runs it, its three phases) */
#define JOB_KINDS(X)                                                                                                  \
    X(JOB_SCRUB, "scrub", ACTION_SCRUB_START, scrub_run, "blobs", "manifests", "objects")                             \
    X(JOB_REWRAP, "rewrap", ACTION_REWRAP_START, rewrap_run, "keys of blobs", "keys of manifests", "keys of uploads") \
    X(JOB_COLLECTION, "collection", ACTION_STORAGE_COLLECT, collection_run, "sessions", "manifests", "blobs")         \
    X(JOB_PLAN, "plan", ACTION_POLICY_PLAN, plan_run, "events", "content", "runs")
enum job_kind {
#define X(constant, name, action, run, first, second, third) constant,
    JOB_KINDS(X)
#undef X
        JOB_KIND_COUNT
};
const char *job_kind_name(enum job_kind kind);

#define JOB_ENDINGS(X) X(JOB_COMPLETED, "completed") X(JOB_STOPPED, "stopped") X(JOB_FAILED, "failed")
enum job_ending {
#define X(constant, name) constant,
    JOB_ENDINGS(X)
#undef X
        JOB_ENDING_COUNT
};

/** The phases of each kind, in this order; a collection repeats them for each project. */
enum job_phase {
    SCRUB_BLOBS = 0,
    SCRUB_MANIFESTS,
    SCRUB_OBJECTS, /* objects without a row */
    REWRAP_BLOBS = 0,
    REWRAP_PROJECTS,
    REWRAP_UPLOADS,
    COLLECT_SESSIONS = 0,
    COLLECT_MANIFESTS,
    COLLECT_BLOBS,
    PLAN_EVENTS = 0,
    PLAN_STOCK,
    PLAN_TRAINING,
    JOB_DONE
};

#define JOB_TEXT_SIZE  304
#define JOB_REPORT_MAX ((size_t)1 << 20) /* characters, as in the table */
#define JOBS_KEPT      100               /* ended jobs that are kept: a daily collection for three months */

struct job {
    struct uuid id;
    enum job_kind kind;
    char region[REGION_ID_MAX + 1]; /* of a scrub, else "" */
    bool with_digest;
    uint64_t rate_bytes;                      /* a second */
    struct uuid project;                      /* of a collection of one project, else nil */
    char project_name[RESOURCE_NAME_MAX + 1]; /* "acme/models" */
    bool is_dry_run;
    /* Its progress. */
    enum job_phase phase;
    struct uuid cursor;
    char cursor_text[DIGEST_TEXT_SIZE];
    uint64_t cursor_bytes; /* scrub without digests: of the blob after the cursor; collection: blobs done at the cursor */
    uint64_t done, done_bytes, total, total_bytes, found;
    char waits_for[JOB_TEXT_SIZE]; /* why it is waiting; "" if it is not */
    /* The gateway that runs it, its times, its end. */
    char runner[64];
    uint64_t runner_epoch;
    bool is_held; /* a gateway has a live lease */
    bool stop_wanted;
    int64_t number, requested_ms, started_ms, ended_ms; /* wall time; 0: not yet */
    char outcome[12];                                   /* of JOB_ENDINGS; "" while it is not over */
    char stopped_by[256];                               /* principal_key() of who had it stopped first; "" if nobody had */
};
const char *job_phase_name(const struct job *job);

/**
 * A change: begins a job. ERROR_CONFLICT while a job of the same kind, region and project runs (a dry run may run
 * beside others); ERROR_NOT_FOUND: no such region or project.
 */
struct job_begin {
    struct change change;
    struct resource where; /* the system, with the region; a collection's may be a project */
    enum action action;    /* from JOB_KINDS */
    struct job job;        /* id, kind, region, with_digest, rate_bytes, is_dry_run */
    const char *rules;     /* of a dry run of one project: rules to try instead of its own, or NULL; must outlive the record */
    const char *input;     /* of a plan: the proposed set, {"days", "set"}; likewise */
};
void job_begin_prepare(const struct resource *where, const struct job *job, struct job_begin *begin_out);
/**
 * A change: asks the gateway that runs the job to end it. If no gateway has a lease, the change ends it, and the event of job.stop
 * is its end. ERROR_NOT_FOUND, also if it has ended, or is of another project than `where`.
 */
struct job_stop {
    struct change change;
    struct resource where;
    struct uuid job;
    unsigned kept;
    const char *by;  /* principal_key() of who asks; must outlive the record. NULL: not known */
    bool is_of_plan; /* the permit is for policy.stop, and only a plan is stopped */
};
/** `kept` as in struct job_options. The caller may set the last two. */
void job_stop_prepare(const struct resource *where, const struct uuid *job, unsigned kept, struct job_stop *stop_out);

/** A page of a list. The permit is for job.read: on the system for all jobs, on a project for its collections. */
struct job_page {
    const struct uuid *job; /* for findings */
    int64_t from;           /* jobs: before this number (INT64_MAX: the newest); findings: after it (0: the first) */
    size_t limit;
};
/** Newest first. The caller owns *jobs_out (free()). */
RESULT job_list(const struct permit *permit, struct pg *pg, const struct job_page *page, struct job **jobs_out, size_t *count_out,
                struct error *err) __attribute__((nonnull));
/** ERROR_NOT_FOUND. */
RESULT job_find(const struct permit *permit, struct pg *pg, const struct uuid *id, struct job *job_out, struct error *err)
    __attribute__((nonnull));
/**
 * The report of a collection: what it has removed, or would remove, as a JSON object. Call job_find() first. The
 * caller owns *rows_out.
 */
RESULT job_report_text(const struct permit *permit, struct pg *pg, const struct uuid *id, struct pg_rows **rows_out,
                       const char **report_out, struct error *err) __attribute__((nonnull));

/** A plan of a policy set. */
struct job_plan {
    struct job job;
    const char *report; /* "{}" until it is made; a view of `rows` */
    struct pg_rows *rows;
};
/** The permit is for policy.plan. The caller owns plan_out->rows. ERROR_NOT_FOUND. */
RESULT job_find_plan(const struct permit *permit, struct pg *pg, const struct uuid *id, struct job_plan *plan_out,
                     struct error *err) __attribute__((nonnull));

#define JOB_FINDING_KINDS(X)                                                                       \
    X(FINDING_DAMAGED, "damaged")       /* a blob that does not verify: marked */                  \
    X(FINDING_MISSING, "missing")       /* a blob whose object is not there: marked */             \
    X(FINDING_UNREADABLE, "unreadable") /* a blob that could not be read, again and again */       \
    X(FINDING_KEY, "key")               /* a blob or manifest whose key does not unwrap */         \
    X(FINDING_MANIFEST, "manifest")     /* a manifest that does not open, or has another digest */ \
    X(FINDING_STRAY, "stray")           /* an object that is in no row and in no trailer of a closed blob */
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

/** Tables with keys, in the order of a re-wrap's phases. */
enum key_table { KEYS_OF_BLOBS, KEYS_OF_PROJECTS, KEYS_OF_UPLOADS, KEY_TABLE_COUNT };

/** The number of keys under a version, in each table. */
struct key_count {
    uint32_t version;
    uint64_t keys[KEY_TABLE_COUNT];
};
#define KEY_COUNTS_MAX 64 /* as many as there are versions */
/** By version, ascending. The permit is for ACTION_JOB_READ. */
RESULT job_count_keys(const struct permit *permit, struct pg *pg, struct key_count counts_out[KEY_COUNTS_MAX], size_t *count_out,
                      struct error *err) __attribute__((nonnull));
