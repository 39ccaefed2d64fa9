/*
 * policy/decider/region_state.h -- whether bytes may be in a region at all, whatever the policies say: a region may be draining, quarantined or
 * retired (docs/regions.md).
 *
 * The states are a part of the snapshot, so each decision is about the state of its epoch.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "audit/action.h"
#include "base/result.h"

#define REGION_MARK_SIZE 33  /* 32 hex digits */
#define REGION_WHY_SIZE  601 /* as in the table */

struct region_state {
    char id[REGION_ID_MAX + 1];
    char mark[REGION_MARK_SIZE]; /* "": its store was not read yet */
    char why[REGION_WHY_SIZE];   /* what disagrees with the record: quarantined; "": it is not */
    char keyd[44];               /* thumbprint of the key of its own sijil-keyd; "": its keys are under the main one */
    uint64_t quarantined_epoch;  /* of the policy set whose record it disagrees with */
    bool is_draining, is_retired;
};

struct decider;
/** False, with nothing written, if the database has no such region. */
bool decider_region_state(struct decider *decider, const char *region, struct region_state *state_out);
#define REGION_RULE_CURRENT "SYS-NOT-CURRENT"
/** Whether a region's own sijil-keyd opens no key, as this gateway knows it, because it was not told which policy set is in force. ERROR_LIMIT. */
RESULT decider_region_lacks(struct decider *decider, const char *region, bool lacks, struct error *err);
/** "active", "draining", "quarantined" or "retired". */
const char *region_state_name(const struct region_state *state);

#define REGION_RULE_QUARANTINE "SYS-QUARANTINE"
#define REGION_RULE_RETIRED    "SYS-RETIRED"
/** Why an action may not touch bytes of a region. NULL: the region's state forbids nothing. Rules of the system (docs/policies.md). */
struct region_refusal {
    const char *rule, *message;
};
const struct region_refusal *region_refusal_of(const struct region_state *state, enum action action);
/** The same for a region whose own sijil-keyd opens no key. */
const struct region_refusal *region_refusal_without_keys(enum action action);
