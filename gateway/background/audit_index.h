/*
 * gateway/background/audit_index.h -- the thread that writes the index of searches of the log (audit/search_index.h).
 *
 * It has a database connection. It looks for new entries a few times a second, and at once when a search waits for them.
 */
#pragma once

#include "base/owned.h"
#include "base/result.h"

struct gateway;
struct audit_index;

/** While the server runs: it must be freed after the server stops. */
RESULT audit_index_start(struct gateway *gateway, struct audit_index **index_out, struct error *err);
/** A search waits for the newest entries. Never blocks for long. */
void audit_index_wake(struct audit_index *index) __attribute__((nonnull));
void audit_index_free(struct audit_index *index);
DEFINE_OWNED(audit_index);
