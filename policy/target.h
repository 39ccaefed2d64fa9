/*
 * policy/target.h -- the known facts of a region or a client, and the named groups in documents.
 *
 * An absent fact is unknown, never false. A rule that needs an unknown fact denies, and the denial names the fact.
 * Compiled forms are immutable and may be read by any number of threads.
 */
#pragma once

#include "base/json.h"
#include "base/owned.h"

struct policy_target;
struct policy_groups;

/**
 * Compiles {"geo", "operator": {"name", "controlled_from"}, "key": {"ring", "geo", "control"}, "location_evidence", "site"}
 * and the facts of policy/facts.def. Each member is optional; no other member is accepted.
 */
RESULT policy_target_new(const json_t *json, struct policy_target **target_out, struct error *err);
/** The canonical JSON of the target, for the id of a decision. */
const char *policy_target_canonical(const struct policy_target *target);
void policy_target_free(struct policy_target *target);
DEFINE_OWNED(policy_target);

/** Compiles {name: {"kind": "geo" or "regime", "members": [...], "as_of", "note", "review_by"}}. */
RESULT policy_groups_new(const json_t *json, struct policy_groups **groups_out, struct error *err);
void policy_groups_free(struct policy_groups *groups);
DEFINE_OWNED(policy_groups);
