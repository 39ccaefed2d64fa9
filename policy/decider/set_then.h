/*
 * policy/decider/set_then.h -- the policy set that was in force at an earlier moment, by the events of the log.
 *
 * It is read as any set is: the approver that sijil-keyd has pinned must have signed it. A set comes into force within seconds after its event; here
 * it counts from the event on. It is found back from the set in force, each from the one that replaced it, so a set that sijil-keyd has refused is none of
 * them. Rule: the permit is for authz.explain, or about oneself for authz.ask.
 */
#pragma once

#include "audit/permit.h"
#include "policy/set.h"
#include "storage/pg.h"

struct keyd_client;

/** Where the past is, and which moment of it. */
struct policy_past {
    enum action action; /* of the permit */
    struct pg *pg;      /* with policy_set_table */
    struct keyd_client *keyd;
    int64_t wall_ms;
};
/** *set_out NULL: none was loaded then. ERROR_CONFLICT: the set is not stored any more, or another approver had signed it. */
RESULT policy_set_then(const struct permit *permit, const struct policy_past *past, struct policy_set **set_out,
                       struct error *err) __attribute__((nonnull));
