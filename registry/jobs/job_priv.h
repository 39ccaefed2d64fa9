/*
 * registry/jobs/job_priv.h -- a job that this gateway works on, and what its kinds have in common.
 */
#pragma once

#include "registry/jobs/job.h"
#include "registry/registry_priv.h"

struct job_run {
    struct registry *registry;
    struct pg *pg;
    const struct job_options *options;
    struct job job;
    struct permit *permit; /* for job.run on `where` */
    struct resource where; /* the system, with the region */
    int64_t began_ms; /* monotonic: when this gateway took it up */
    int64_t saved_ms;
    bool is_lost;          /* another gateway has it now */
    int64_t next_read_us;  /* monotonic: when the next bytes may be read */
    unsigned in_a_row;     /* findings without a sound blob between */
    struct buffer report;  /* of a collection, saved with the rest; empty: none yet */
};

/** Saves how far it is, if the last time was a while ago; false: stop now (lost, stop wanted, or the gateway ends). */
bool job_go_on(struct job_run *run);
/** The same at once. ERROR_CONFLICT when it was lost. */
RESULT job_save(struct job_run *run, struct error *err);
/** Waits, and goes on saving; false as job_go_on(). `why` is shown meanwhile. */
bool job_wait(struct job_run *run, unsigned wait_ms, const char *why);
/** Waits until so many bytes more may be read at the job's rate. */
bool job_pace(struct job_run *run, uint64_t bytes);

/** Records a finding: its row, the blob's mark (if `blob` is not NULL) and the event, once. */
RESULT job_report(struct job_run *run, const struct job_finding *finding, const struct resource *where,
                  const struct uuid *blob, struct error *err);

/** They return success also when they were stopped midway: job_go_on() says so. */
RESULT scrub_run(struct job_run *run, struct error *err);
RESULT scrub_manifests(struct job_run *run, struct error *err);
RESULT scrub_others(struct job_run *run, struct error *err);
struct scrub_blob;
struct blob_reader;
/** Not through the cache of keys: what is only checked is not kept, and puts out nothing that is served. */
RESULT scrub_unwrap(const struct job_run *run, const struct scrub_blob *blob, struct secret **key_out, struct error *err);
/** Opens it, at the job's pace. */
RESULT scrub_open(struct job_run *run, const struct scrub_blob *blob, const struct secret *key, struct blob_reader **reader_out,
                  struct error *err);
RESULT rewrap_run(struct job_run *run, struct error *err);
RESULT collection_run(struct job_run *run, struct error *err);

/* ---- job_store.c ---- */
/** Ids of the regions that this gateway serves. */
struct job_regions {
    size_t count;
    struct bytes ids[REGISTRY_REGIONS_MAX];
};
int64_t job_lease_ms(const struct job_options *options);
/** *found_out is false, and nothing written, when there is none. */
RESULT job_row_claim(struct pg *pg, const struct job_options *options, const struct job_regions *regions,
                     struct job *job_out, bool *found_out, struct error *err);
/** How far it is, and what comes then. */
struct job_saving {
    int64_t lease_ms;    /* 0: whoever comes first may take it up */
    const char *report;  /* NULL: as it was */
    const char *outcome; /* it is over (for changes); NULL: it goes on */
};
/** *stop_out: somebody wants it to end. ERROR_CONFLICT: lost. */
RESULT job_row_save(struct pg *pg, const struct job *job, const struct job_saving *saving, bool *stop_out, struct error *err);
/** Removes the oldest ended jobs like this one, a few at a time, so that `kept` stay; their findings go with them. */
RESULT job_rows_prune(struct pg *pg, const struct job *job, unsigned kept, struct error *err);
/** Two texts of a collection; the rules are NULL if it has none to try. Views of *rows_out. */
struct job_texts {
    const char *rules, *report;
};
RESULT job_row_texts(struct pg *pg, const struct uuid *id, struct job_texts *texts_out, struct pg_rows **rows_out,
                     struct error *err);
RESULT job_row_add_finding(struct pg *pg, const struct job *job, const struct job_finding *finding, struct error *err);
RESULT job_row_has_finding(struct pg *pg, const struct job *job, const struct job_finding *finding, bool *has_out,
                           struct error *err);
/** Begins a job that nobody asked for, with its event; one that is not over yet is as good. */
RESULT job_begin_by_clock(struct registry *registry, const struct job *job, struct error *err);
/** Was the last scrub of the region asked for longer ago? */
RESULT job_scrub_is_due(struct pg *pg, const char *region, int64_t interval_s, bool *is_due_out, struct error *err);
/** Was the last collection of all projects asked for longer ago? */
RESULT job_collection_is_due(struct pg *pg, int64_t interval_s, bool *is_due_out, struct error *err);
