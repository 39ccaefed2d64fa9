/*
 * registry/collection.h -- runs of the garbage collection: asked for, done in the background, reported.
 *
 * A run is a row. Any gateway takes the oldest one that waits, and one whose gateway has died meanwhile; what it
 * removes is recorded piece by piece, so nothing depends on a run's end. docs/garbage-collection.md.
 */
#pragma once

#include "registry/registry.h"

#define COLLECTION_REPORT_MAX ((size_t)1 << 20) /* characters, as the table has it */

/** A change: a run that waits. The permit: storage.collect on the system, or on one project. */
struct collection_request {
    struct change change;
    struct resource where;
    struct uuid collection; /* made by prepare */
    bool is_dry_run;
    const char *rules;      /* of a dry run of one project: to be tried instead of its own; NULL; must outlive the record */
};
/** ERROR_NOT_FOUND: no such project. ERROR_INVALID: rules without a dry run, or of all projects. */
RESULT collection_request_prepare(const struct resource *where, bool is_dry_run, const char *rules,
                                  struct collection_request *request_out, struct error *err);

struct collection_record {
    struct uuid id;
    char project[RESOURCE_NAME_MAX + 1]; /* "acme/models", "" for all */
    char state[8];                       /* "waiting", "running", "done", "failed" */
    bool is_dry_run;
    int64_t requested_ms, begun_ms, ended_ms; /* 0: not yet */
    const char *report;                  /* JSON; a view of the page's rows */
};
struct collection_page {
    size_t count;
    struct collection_record *records;
    bool has_more;
    struct pg_rows *rows;
};
struct collection_query {
    const struct permit *permit;  /* for storage.collect on `where` */
    const struct resource *where; /* the system: all runs; or one project: those of it alone */
    struct uuid id;               /* this one alone; nil: all, newest first */
    struct uuid last;             /* the page begins after this one */
    unsigned limit;
};
RESULT collection_list(struct pg *pg, const struct collection_query *query, struct collection_page **page_out,
                       struct error *err);
void collection_page_free(struct collection_page *page);
DEFINE_OWNED(collection_page);

/** Begins a run of all projects, with its event, if the last one was asked for longer than interval_s ago. */
RESULT collection_begin_if_due(struct registry *registry, struct pg *pg, int64_t interval_s, struct error *err);

/** Who does runs. */
struct collection_runner {
    struct uuid id;                      /* of this gateway's start */
    bool (*is_stopping)(void *context);  /* asked between small steps: true leaves the run to others */
    void *context;
};
/** Does one run, if one waits. *found_out: there was one, so there may be more. Blocks for as long as it takes. */
RESULT collection_run_next(struct registry *registry, struct pg *pg, const struct collection_runner *runner,
                           bool *found_out, struct error *err);
/** Notes that are kept in memory go to the database. */
RESULT collection_write_notes(struct registry *registry, struct pg *pg, struct error *err);
