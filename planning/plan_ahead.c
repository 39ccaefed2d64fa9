/* The next page of the log is read by a thread while this one is counted: the database, the copy and the counting take about the same time. */
#include "planning/plan_priv.h"

static void read_page(struct plan_ahead *ahead)
{
    ahead->read = plan_log_page(ahead->pg, ahead->from, ahead->until, &ahead->rows, &ahead->err);
}

static void *ahead_main(void *argument)
{
    read_page(argument);
    return NULL;
}

void plan_ahead_begin(struct plan_ahead *ahead, uint64_t from, uint64_t until)
{
    *ahead = (struct plan_ahead){.pg = ahead->pg, .from = from, .until = until};
    ahead->is_reading = pthread_create(&ahead->thread, NULL, ahead_main, ahead) == 0;
    if (!ahead->is_reading) read_page(ahead); /* without the thread it only takes longer */
}

void plan_ahead_settle(struct plan_ahead *ahead)
{
    if (ahead->is_reading) (void)pthread_join(ahead->thread, NULL);
    ahead->is_reading = false;
}

struct result plan_ahead_take(struct plan_ahead *ahead, struct pg_rows **rows_out, struct error *err)
{
    plan_ahead_settle(ahead);
    if (!ahead->read.ok) return failure(err, ahead->err.kind, "%s", ahead->err.message);
    *rows_out = ahead->rows;
    ahead->rows = NULL;
    return SUCCESS;
}

void plan_ahead_done(struct plan_ahead *ahead)
{
    plan_ahead_settle(ahead);
    pg_rows_free(ahead->rows);
    ahead->rows = NULL;
}
