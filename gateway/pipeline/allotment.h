/*
 * gateway/pipeline/allotment.h -- how many requests a minute the projects with a quota of events may still make here.
 *
 * All gateways together never let more through than the quota says: each takes portions of the minute out of the database
 * (registry/quota.h), and what a gateway has not used when the minute ends is gone. Projects without such a quota cost one
 * look at a number. docs/quotas.md.
 */
#pragma once

#include "base/owned.h"
#include "base/result.h"
#include "base/uuid.h"
#include "storage/pg.h"

struct allotment;

enum allotted {
    ALLOTTED,         /* go on */
    ALLOTTED_LATER,   /* ask again with a database connection, where that may block */
    ALLOTTED_NOTHING  /* until the next minute */
};

RESULT allotment_new(struct allotment **allotment_out, struct error *err);
/** Reads which projects have a quota; a failure leaves what was known. Blocks. */
void allotment_refresh(struct allotment *allotment, struct pg *pg);
struct allotted_now {
    enum allotted allotted;
    unsigned wait_s; /* with ALLOTTED_NOTHING: until the next minute, of the database's clock */
};
/** One request of `project`. `pg` NULL: never blocks. ERROR_UNAVAILABLE when the database can't be asked. */
RESULT allotment_take(struct allotment *allotment, const struct uuid *project, struct pg *pg, struct allotted_now *now_out,
                      struct error *err);
void allotment_free(struct allotment *allotment);
DEFINE_OWNED(allotment);
