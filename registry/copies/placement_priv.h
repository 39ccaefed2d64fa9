/* registry/copies/placement_priv.h -- the tables `misplaced_content` and `placement_review`. */
#pragma once

#include "policy/decider/copy_decision.h"
#include "policy/decider/place.h"
#include "registry/copies/placement.h"

#define PLACEMENT_PAGE_MAX 200

struct placed_repository {
    struct resource where; /* with the home */
    bool has_content;
    bool is_misplaced; /* as was found before: */
    char region[REGION_ID_MAX + 1], operation[9], rule[65];
};

/** Takes the look up, or begins another one. *after_out: the last repository; nil: none. *claimed_out is false if nothing is due. */
RESULT placement_claim(struct pg *pg, const char *instance, const struct place_version *version, struct uuid *after_out,
                       bool *claimed_out, struct error *err);
/** Repositories by id: *count_out is at most PLACEMENT_PAGE_MAX. The caller frees *page_out with free(). */
RESULT placement_page(struct pg *pg, const struct uuid *after, struct placed_repository **page_out, size_t *count_out,
                      struct error *err);
/** Ends the page; `after` NULL: and the look. ERROR_CONFLICT: another gateway has it. */
RESULT placement_save(struct pg *pg, const char *instance, const struct uuid *after, struct error *err);

/** For changes. ERROR_CONFLICT: it has nothing any more, is gone, or is at home elsewhere. */
RESULT misplaced_insert(struct pg *pg, const struct resource *where, const struct place_answer *answer, uint64_t set_epoch,
                        struct error *err);
/** For changes. ERROR_CONFLICT: somebody was first. */
RESULT misplaced_delete(struct pg *pg, const struct resource *where, struct error *err);
/** Of all, and the policy set of the last look that has ended. */
RESULT misplaced_count(struct pg *pg, uint64_t *count_out, uint64_t *version_out, struct error *err);
