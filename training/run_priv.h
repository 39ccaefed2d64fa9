/* training/run_priv.h -- the rows behind the changes of training/run.h. The caller has checked the permit. */
#pragma once

#include "storage/pg.h"
#include "training/run.h"

struct run_move {
    const struct uuid *run, *project;
    enum action action;
    enum run_state to;
};
/** ERROR_CONFLICT: no transition leads from the run's state to `to`; also if there is no such run. */
RESULT run_row_move(struct pg *pg, const struct run_move *move, struct error *err);
RESULT run_row_request(struct pg *pg, const struct run_request *request, struct error *err);
RESULT run_row_approve(struct pg *pg, const struct run_approve *approve, struct error *err);

/** An open run whose request has expired, and its project. */
struct due_run {
    struct uuid run;
    struct resource where;
};
RESULT run_rows_due(struct pg *pg, struct due_run *due_out, size_t capacity, size_t *count_out, struct error *err);
