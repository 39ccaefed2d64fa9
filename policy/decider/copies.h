/*
 * policy/decider/copies.h -- copies of content in further regions: where a reader finds them, and what the policies demand of them (docs/replication.md).
 */
#pragma once

#include "policy/decider/decider.h"

/** A region that has the content of a repository. */
struct placed_region {
    char region[REGION_ID_MAX + 1];
    int64_t stale_s; /* age of the oldest content that it lacks; 0: it has all */
};
/** The content of the repository `name`, and the regions that are to have it. */
struct placed_query {
    const char *name;
    const struct placed_region *regions;
    size_t count;
};
/** What the policies demand of the places of content, and what there is of it. */
struct placed_copies {
    int64_t min_sites, sites; /* regions with one `site` in the signed set are one site; only those with all content count */
    size_t anchors, met;      /* an anchor is met by a region in its place that lacks nothing for longer than it may */
};
/** ERROR_UNAVAILABLE while the policies are not known; ERROR_LIMIT. */
RESULT decider_placed(struct decider *decider, const struct placed_query *query, struct placed_copies *copies_out,
                      struct error *err);

/** The region that content of `name` is read in now. */
struct reading_region {
    bool (*can_use)(void *context, const char *region); /* whether this gateway can read there */
    void *context;
    char region[REGION_ID_MAX + 1]; /* set if it is not the home region */
};
/** False: the home region, because it can be used, or because no other one can. True: a further region of the project, for copies. */
bool decider_reads_elsewhere(struct decider *decider, const char *name, struct reading_region *reading);
