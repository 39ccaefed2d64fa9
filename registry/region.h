/*
 * registry/region.h -- what becomes of a region: its store is compared with its signed record, it is quarantined and released, drained and
 * retired (docs/regions.md).
 *
 * Rule: nothing here moves bytes. What a region's state forbids, decisions refuse (policy/decider/region_state.h).
 */
#pragma once

#include "policy/decider/region_state.h"
#include "registry/registry.h"

struct decider;

/* ---- What the store says, and what its record says ---- */

#define REGION_FINDINGS_MAX 12
struct region_finding {
    bool is_grave;     /* the region is quarantined for it; else it is said, and nothing follows */
    const char *about; /* "mark", "location"; static */
    char what[240];
};

struct region_report {
    bool is_served, is_told;     /* this gateway serves it; its store answered */
    char trouble[256];           /* why not; "" */
    char mark[REGION_MARK_SIZE]; /* "": it has none */
    char place[64];              /* of a folder: its kind of file system; of a bucket: its location */
    size_t count;
    struct region_finding findings[REGION_FINDINGS_MAX];
};

bool region_report_is_grave(const struct region_report *report);
/**
 * Asks the store of a region now, and draws the consequences: a region that disagrees is quarantined, and one that agrees is released. The permit is
 * for region.check. `adopts`: a store without a mark gets the one that its record or the database names. ERROR_NOT_FOUND: no such region.
 */
struct region_question {
    const char *region;
    bool adopts;
};
RESULT registry_region_check(const struct permit *permit, struct registry *registry, struct decider *decider,
                             const struct region_question *question, struct region_report *report_out, struct error *err)
    __attribute__((nonnull));

/* ---- Draining and retiring ---- */

enum region_turn { REGION_TURN_DRAIN, REGION_TURN_REOPEN, REGION_TURN_RETIRE };

/**
 * A change: no new bytes in the region from now on (region.drain), or new ones again (region.reopen); or nothing any more (region.retire), which needs a
 * draining region with nothing in it, and of no project. ERROR_NOT_FOUND, ERROR_CONFLICT.
 */
struct region_change {
    struct change change;
    struct resource where; /* the system, with the region */
    enum region_turn turn;
};
void region_change_prepare(const struct resource *where, enum region_turn turn, struct region_change *change_out);

/** What a region holds. */
struct region_content {
    uint64_t blobs, bytes, projects; /* of blobs; projects whose home it is */
    uint64_t others;    /* uploads, logs and checkpoints of runs, pieces of the audit log, objects that wait for their removal */
    uint64_t forgotten; /* keys of its blobs that were forgotten: their certificates prove that (docs/deletion.md) */
};
/** The permit is for region.read. */
RESULT region_content_count(const struct permit *permit, struct pg *pg, const char *region, struct region_content *content_out,
                            struct error *err) __attribute__((nonnull));

struct region_project {
    char name[RESOURCE_NAME_MAX + 1];
    bool is_home;
    uint64_t blobs, bytes;
};
/** A page of the projects that are at home in a region or have blobs there, by name after `after`. */
struct region_page {
    const char *region, *after;
    size_t limit;
};
struct region_projects {
    struct region_project *projects; /* the caller frees it */
    size_t count;
};
/** The permit is for region.read. */
RESULT region_content_list(const struct permit *permit, struct pg *pg, const struct region_page *page,
                           struct region_projects *projects_out, struct error *err) __attribute__((nonnull));

extern const struct pg_table region_state_statements;
