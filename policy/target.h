/*
 * policy/target.h -- what is known of a region or a client, and the named groups that documents speak of.
 *
 * An absent fact is unknown, never false: unknown denies and is named. Compiled forms are immutable and may be
 * read by any number of threads.
 */
#pragma once

#include "base/json.h"
#include "base/owned.h"

struct target;
struct policy_groups;

/**
 * Compiles {"geo", "regimes", "operator": {"name", "controlled_from"}, "attrs", "location_evidence",
 * "key": {"ring", "geo", "control"}, "site", "assurance", "recipient"}: each optional, nothing else is accepted.
 */
RESULT target_new(const json_t *json, struct target **target_out, struct error *err);
/** Its canonical JSON, as it enters a decision's id. */
const char *target_canonical(const struct target *target);
void target_free(struct target *target);
DEFINE_OWNED(target);

/** Compiles {name: {"kind": "geo" or "regime", "members": [...], "as_of", "note", "review_by"}}. */
RESULT policy_groups_new(const json_t *json, struct policy_groups **groups_out, struct error *err);
/** "sha256:..." of the canonical JSON. */
const char *policy_groups_digest(const struct policy_groups *groups);
void policy_groups_free(struct policy_groups *groups);
DEFINE_OWNED(policy_groups);
