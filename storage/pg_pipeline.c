#include <assert.h>
#include <string.h>

#include "storage/pg_priv.h"

static const struct pg_arguments none;

static struct result enqueue(struct pg *pg, const struct pg_prepared *prepared, const struct pg_arguments *arguments,
                             struct error *err)
{
    struct pg_encoded encoded;

    assert(!pg->is_lazy);
    TRY(pg_before_send(pg, err));
    if (pg->pipelined == 0 && !PQenterPipelineMode(pg->connection)) return pg_lost(pg, PQerrorMessage(pg->connection), err);
    TRY(pg_encode(prepared, arguments, &encoded, err));
    const int sent = PQsendQueryPrepared(pg->connection, prepared->statement->name, (int)prepared->count, encoded.values,
                                         encoded.lengths, encoded.formats, 1);
    pg_encoded_done(&encoded);
    if (!sent) return pg_lost(pg, PQerrorMessage(pg->connection), err);
    pg->pipelined++;
    if (prepared->is_change && !pg->in_transaction) pg->is_uncertain = true;
    return SUCCESS;
}

struct result pg_pipeline_add(struct pg *pg, const struct pg_statement *statement, const struct pg_arguments *arguments,
                              struct error *err)
{
    const struct result added = enqueue(pg, pg_find(pg, statement), arguments == NULL ? &none : arguments, err);

    if (!added.ok) pg_break(pg);
    return added;
}

struct result pg_pipeline_begin(struct pg *pg, struct error *err)
{
    assert(!pg->in_transaction && pg->pipelined == 0);
    const struct result added = enqueue(pg, pg_find(pg, &pg_begin_sql), &none, err);

    if (added.ok) pg->in_transaction = true;
    else pg_break(pg);
    return added;
}

struct result pg_pipeline_commit(struct pg *pg, struct error *err)
{
    assert(pg->connection == NULL || (pg->in_transaction && !pg->commits));
    pg->is_uncertain = pg->connection != NULL; /* set now: the server may commit before the run */
    const struct result added = enqueue(pg, pg_find(pg, &pg_commit_sql), &none, err);

    if (added.ok) pg->commits = true;
    else pg_break(pg);
    return added;
}

/* After a failed statement COMMIT answers ROLLBACK. */
static struct result check_commit(struct pg *pg, const struct pg_rows *last, struct error *err)
{
    if (!pg->commits) return SUCCESS;
    pg->commits = pg->in_transaction = false;
    if (strcmp(PQcmdStatus(last->result), "COMMIT") != 0)
        return failure(err, ERROR_INVALID, "a statement of the transaction had failed: nothing was committed");
    return SUCCESS;
}

/* Results come one by one. The first error is kept, and the rest is read up to the synchronisation point. */
static struct result collect(struct pg *pg, struct pg_rows **rows, size_t count, struct error *err)
{
    struct result outcome = SUCCESS;
    struct error later;

    for (size_t i = 0; i < count; i++) {
        struct result taken = pg_take(pg, "pipeline", &rows[i]->result, outcome.ok ? err : &later);
        if (outcome.ok) outcome = taken;
        if (pg->connection == NULL) return outcome;
    }
    return outcome;
}

static struct result finish(struct pg *pg, struct error *err)
{
    OWNED_RESULT end = NULL;

    TRY(pg_next(pg, pg_deadline(pg), &end, err));
    if (PQresultStatus(end) != PGRES_PIPELINE_SYNC || !PQexitPipelineMode(pg->connection))
        return pg_lost(pg, "a broken protocol", err);
    pg->pipelined = 0;
    pg->is_uncertain = false;
    return SUCCESS;
}

static struct result make_rows(struct pg_rows **rows, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++) TRY(pg_rows_new(&rows[i], err));
    return SUCCESS;
}

static struct result run(struct pg *pg, struct pg_rows **rows, size_t count, struct error *err)
{
    struct error later;

    TRY(pg_before_send(pg, err));
    /* The server may have read a part of a large pipeline, perhaps its COMMIT. Without memory for its answers, the outcome is
     * unknown. */
    if (!make_rows(rows, count, err).ok) return pg_lost(pg, "no memory for the answers", err);
    if (!PQpipelineSync(pg->connection)) return pg_lost(pg, PQerrorMessage(pg->connection), err);
    const struct result outcome = collect(pg, rows, count, err);
    if (pg->connection == NULL) return outcome;
    const struct result end = finish(pg, outcome.ok ? err : &later);
    if (!outcome.ok) {
        pg->commits = false;
        return outcome;
    }
    TRY(end);
    return check_commit(pg, rows[count - 1], err);
}

struct result pg_pipeline_run(struct pg *pg, struct pg_rows **rows_out, size_t count, struct error *err)
{
    assert(pg->connection == NULL || count == pg->pipelined);
    for (size_t i = 0; i < count; i++) rows_out[i] = NULL;
    if (count == 0) return SUCCESS;

    const struct result outcome = run(pg, rows_out, count, err);
    if (outcome.ok) return SUCCESS;
    for (size_t i = 0; i < count; i++) {
        pg_rows_free(rows_out[i]);
        rows_out[i] = NULL;
    }
    if (pg->pipelined > 0) pg_break(pg); /* the pipeline was never synchronised: no statement of it may take effect */
    return outcome;
}
