/*
 * gateway/background/holds.h -- signed holds of content (docs/deletion.md, "Signed holds"): the statements that remove manifests see rows, and what counts are the
 * documents that sijil-keyd has pinned.
 */
#pragma once

#include "base/result.h"
#include "policy/decider/decider.h"

struct gateway;
struct pg;

/** Makes the rows what the documents say. For those that remove something, or have placed a hold; maintenance does it each half minute, and before each round of collections. */
RESULT holds_follow(struct gateway *gateway, struct pg *pg, struct error *err);
/** Adds to what policies say of a repository that a hold in force keeps all of it, as the documents in memory say. No row is read. */
RESULT holds_keep(const struct gateway *gateway, const char *repository, struct policy_retention *retention, struct error *err);
/** For a thread: holds_follow(), and says in the log what was not so. False: the rows may be others than the documents say, so nothing is to be removed. */
bool holds_watch(struct gateway *gateway, struct pg *pg);
