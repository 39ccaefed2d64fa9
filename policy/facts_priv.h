/* policy/facts_priv.h -- the canonical form of facts, which a decision's id is computed over. */
#pragma once

#include "policy/compiled_priv.h"
#include "policy/evaluate.h"

#define POLICY_FACTS_BYTES_MAX (1024 * 1024) /* exceptions are most of it */

/** Appends the canonical JSON of facts. */
RESULT facts_write(struct buffer *buffer, const struct policy_facts *facts, struct error *err);
/** For struct policy_exception *, by canonical text. */
int compare_exceptions(const void *a, const void *b);
