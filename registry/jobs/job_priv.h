/* registry/jobs/job_priv.h -- a running job, and the functions that all kinds share. */
#pragma once

#include "registry/jobs/maintenance.h"
#include "registry/registry_priv.h"

struct job_run {
    struct registry *registry;
    struct pg *pg;
    const struct job_options *options;
    struct job job;
    struct permit *permit; /* for job.run on `where` */
    struct resource where; /* the system, with the region */
    int64_t began_ms;      /* monotonic: when this gateway claimed it */
    int64_t saved_ms;
    bool is_lost;         /* another gateway has claimed it */
    int64_t next_read_us; /* monotonic: the earliest time of the next read */
    unsigned in_a_row;    /* consecutive findings, without a sound blob between them */
    struct buffer report; /* of a collection, saved with the rest; empty: none yet */
};

/** Saves the progress if it is time to. False: stop now, because the job is lost or must stop, or the gateway ends. */
bool job_go_on(struct job_run *run);
/** Saves the progress now. ERROR_CONFLICT if the job was lost. */
RESULT job_save(struct job_run *run, struct error *err);
/** Waits, and continues to save; false as job_go_on(). `why` is the shown reason. */
bool job_wait(struct job_run *run, unsigned wait_ms, const char *why);
/** Waits until so many more bytes may be read at the job's rate. */
bool job_pace(struct job_run *run, uint64_t bytes);

/** Records a finding: its row, the blob's mark (if `blob` is not NULL) and the event, once. */
RESULT job_report(struct job_run *run, const struct job_finding *finding, const struct resource *where, const struct uuid *blob,
                  struct error *err);

/** These return success also if they were stopped: job_go_on() tells. */
RESULT scrub_run(struct job_run *run, struct error *err);
RESULT scrub_manifests(struct job_run *run, struct error *err);
RESULT scrub_others(struct job_run *run, struct error *err);
struct scrub_blob;
struct blob_reader;
/** Does not use the cache of keys, so a scrub evicts no key that is in use. */
RESULT scrub_unwrap(const struct job_run *run, const struct scrub_blob *blob, struct secret **key_out, struct error *err);
/** Opens the blob at the job's rate. */
RESULT scrub_open(struct job_run *run, const struct scrub_blob *blob, const struct secret *key, struct blob_reader **reader_out,
                  struct error *err);
RESULT rewrap_run(struct job_run *run, struct error *err);
RESULT collection_run(struct job_run *run, struct error *err);
RESULT plan_run(struct job_run *run, struct error *err);

/* ---- job_store.c ---- */
/** Ids of the regions that this gateway serves. */
struct job_regions {
    size_t count;
    struct bytes ids[REGISTRY_REGIONS_MAX];
};
int64_t job_lease_ms(const struct job_options *options);
/** *found_out is false, and nothing written, when there is none. */
RESULT job_row_claim(struct pg *pg, const struct job_options *options, const struct job_regions *regions, struct job *job_out,
                     bool *found_out, struct error *err);
/** A save of a job's progress, and its effect. */
struct job_saving {
    int64_t lease_ms;    /* 0: any gateway may claim it */
    const char *report;  /* NULL: unchanged */
    const char *outcome; /* the end of the job (for changes); NULL: it continues */
};
/** *stop_out: a stop was requested. ERROR_CONFLICT if the job was lost. */
RESULT job_row_save(struct pg *pg, const struct job *job, const struct job_saving *saving, bool *stop_out, struct error *err);
/** Deletes the oldest ended jobs of the same kind and project, with their findings, a few at a time, so that `kept` stay. */
RESULT job_rows_prune(struct pg *pg, const struct job *job, unsigned kept, struct error *err);
/** Texts of a job; `rules` is NULL unless a dry run tries some, `input` NULL unless it is a plan. Views of *rows_out. */
struct job_texts {
    const char *rules, *report, *input;
};
/** `project` NULL: of any project, and of none. ERROR_NOT_FOUND. */
RESULT job_row_find(struct pg *pg, const struct uuid *id, const struct uuid *project, struct job *job_out, struct error *err);
RESULT job_row_texts(struct pg *pg, const struct uuid *id, struct job_texts *texts_out, struct pg_rows **rows_out,
                     struct error *err);
RESULT job_row_add_finding(struct pg *pg, const struct job *job, const struct job_finding *finding, struct error *err);
RESULT job_row_has_finding(struct pg *pg, const struct job *job, const struct job_finding *finding, bool *has_out,
                           struct error *err);
/** Begins a scheduled job, with its event. Succeeds if such a job runs already. */
RESULT job_begin_scheduled(struct registry *registry, const struct job *job, struct error *err);
/** Did the last scrub of the region begin longer ago? */
RESULT job_scrub_is_due(struct pg *pg, const char *region, int64_t interval_s, bool *is_due_out, struct error *err);
/** Did the last collection of all projects begin longer ago? */
RESULT job_collection_is_due(struct pg *pg, int64_t interval_s, bool *is_due_out, struct error *err);
