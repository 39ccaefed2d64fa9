/*
 * authz/history.h -- the rights that a principal had at an earlier moment, as rows of robots and bindings say.
 *
 * Rows keep when they were made and when they ended. What has no history is as it is now: issuers, trust rules, the end of a robot's secret, and the
 * person that it counts as. Roles by signed documents are left out. Connections need rights_table.
 * Rule: the permit is for authz.explain, or about oneself for authz.ask.
 */
#pragma once

#include "audit/permit.h"
#include "authz/snapshot.h"

struct history_question {
    enum action action;           /* of the permit */
    const char *robot;            /* its name then; NULL: a subject */
    const char *issuer, *subject; /* of a subject */
    const struct uuid *organisation;
    int64_t wall_ms;
};
/**
 * A snapshot that has this principal alone, with the roles that it had in the organisation and on the registry; issuers and rules are those of
 * `now`. A robot that was not there then is not in it.
 */
RESULT authz_history(const struct permit *permit, struct pg *pg, const struct authz_snapshot *now,
                     const struct history_question *question, struct authz_snapshot **then_out, struct error *err)
    __attribute__((nonnull));
