#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "storage/pg_priv.h"

static int by_name(const void *one, const void *other)
{
    const struct pg_prepared *a = one, *b = other;
    return strcmp(a->statement->name, b->statement->name);
}

static int by_address(const void *one, const void *other)
{
    const uintptr_t a = (uintptr_t)((const struct pg_prepared *)one)->statement;
    const uintptr_t b = (uintptr_t)((const struct pg_prepared *)other)->statement;
    return (a > b) - (a < b);
}

static bool is_change(const char *sql)
{
    const char *word = sql + strspn(sql, " \n\t");

    return strncasecmp(word, "SELECT", strlen("SELECT")) != 0 && strcmp(word, "BEGIN") != 0;
}

static struct result collect_table(struct pg *pg, const struct pg_table *table, struct error *err)
{
    for (size_t i = 0; i < table->count; i++) {
        struct pg_prepared *prepared = &pg->prepared[pg->prepared_count++];
        prepared->statement = table->statements[i];
        prepared->is_change = is_change(table->statements[i]->sql);
        TRY(pg_types_of(table->statements[i]->parameters, PG_PARAMETERS_MAX, prepared->types, &prepared->count, err));
    }
    return SUCCESS;
}

/* Every connection with statements prepares these, because pipelines begin and end with them. */
const struct pg_statement pg_begin_sql = {"BEGIN", "BEGIN", "", ""};
const struct pg_statement pg_commit_sql = {"COMMIT", "COMMIT", "", ""};
static const struct pg_statement *const transaction[] = {&pg_begin_sql, &pg_commit_sql};
static const struct pg_table transaction_table = PG_TABLE(transaction);

struct result pg_collect(struct pg *pg, const struct pg_table *const *tables, struct error *err)
{
    size_t count = 0;

    for (size_t i = 0; tables != NULL && tables[i] != NULL; i++) count += tables[i]->count;
    if (count == 0) return SUCCESS;
    count += transaction_table.count;
    pg->prepared = memory_zeroed(count, sizeof *pg->prepared);
    if (pg->prepared == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for %zu statements", count);

    for (size_t i = 0; tables[i] != NULL; i++) TRY(collect_table(pg, tables[i], err));
    TRY(collect_table(pg, &transaction_table, err));
    qsort(pg->prepared, count, sizeof *pg->prepared, by_name);
    for (size_t i = 1; i < count; i++)
        if (by_name(&pg->prepared[i - 1], &pg->prepared[i]) == 0)
            return failure(err, ERROR_INVALID, "two statements are called %s", pg->prepared[i].statement->name);
    qsort(pg->prepared, count, sizeof *pg->prepared, by_address);
    return SUCCESS;
}

const struct pg_prepared *pg_find(const struct pg *pg, const struct pg_statement *statement)
{
    const struct pg_prepared key = {.statement = statement};
    const struct pg_prepared *found =
        pg->prepared_count == 0 ? NULL : bsearch(&key, pg->prepared, pg->prepared_count, sizeof *pg->prepared, by_address);

    assert(found != NULL);
    return found;
}

static struct result check_parameters(const struct pg_prepared *prepared, const PGresult *description, struct error *err)
{
    const size_t count = (size_t)PQnparams(description);

    if (count != prepared->count)
        return failure(err, ERROR_INVALID, "statement %s has %zu parameters, not the %zu that are declared",
                       prepared->statement->name, count, prepared->count);
    for (size_t i = 0; i < count; i++) {
        const Oid type = PQparamtype(description, (int)i);
        if (type != prepared->types[i])
            return failure(err, ERROR_INVALID, "parameter $%zu of statement %s is of type %s, not %s", i + 1,
                           prepared->statement->name, pg_type_name(type), pg_type_name(prepared->types[i]));
    }
    return SUCCESS;
}

static struct result check_columns(const struct pg_statement *statement, const PGresult *description, struct error *err)
{
    Oid types[PG_COLUMNS_MAX];
    const size_t count = (size_t)PQnfields(description);
    size_t declared = 0;

    TRY(pg_types_of(statement->columns, PG_COLUMNS_MAX, types, &declared, err));
    if (count != declared)
        return failure(err, ERROR_INVALID, "statement %s yields %zu columns, not the %zu that are declared", statement->name,
                       count, declared);
    for (size_t i = 0; i < count; i++) {
        const Oid type = PQftype(description, (int)i);
        if (type != types[i])
            return failure(err, ERROR_INVALID, "column %s of statement %s is of type %s, not %s", PQfname(description, (int)i),
                           statement->name, pg_type_name(type), pg_type_name(types[i]));
    }
    return SUCCESS;
}

static struct result send_some(struct pg *pg, const struct pg_prepared *some, size_t count, struct error *err)
{
    TRY(pg_before_send(pg, err));
    bool ok = PQenterPipelineMode(pg->connection) == 1;
    for (size_t i = 0; ok && i < count; i++) {
        const struct pg_statement *statement = some[i].statement;
        ok = PQsendPrepare(pg->connection, statement->name, statement->sql, (int)some[i].count, some[i].types) &&
             PQsendDescribePrepared(pg->connection, statement->name);
    }
    if (!ok || !PQpipelineSync(pg->connection)) return pg_lost(pg, PQerrorMessage(pg->connection), err);
    return SUCCESS;
}

static struct result check_one(struct pg *pg, const struct pg_prepared *prepared, struct error *err)
{
    OWNED_RESULT parsed = NULL;
    OWNED_RESULT description = NULL;

    TRY(pg_take(pg, prepared->statement->name, &parsed, err));
    TRY(pg_take(pg, prepared->statement->name, &description, err));
    TRY(check_parameters(prepared, description, err));
    return check_columns(prepared->statement, description, err);
}

static struct result prepare_some(struct pg *pg, struct pg_prepared *some, size_t count, struct error *err)
{
    OWNED_RESULT end = NULL;

    TRY(send_some(pg, some, count, err));
    for (size_t i = 0; i < count; i++) TRY(check_one(pg, &some[i], err));
    TRY(pg_next(pg, pg_deadline(pg), &end, err));
    if (PQresultStatus(end) != PGRES_PIPELINE_SYNC || !PQexitPipelineMode(pg->connection))
        return pg_lost(pg, "a broken protocol", err);
    for (size_t i = 0; i < count; i++) some[i].is_ready = true;
    return SUCCESS;
}

struct result pg_prepare_all(struct pg *pg, struct error *err)
{
    for (size_t i = 0; i < pg->prepared_count; i++) pg->prepared[i].is_ready = false;
    return pg->is_lazy || pg->prepared_count == 0 ? SUCCESS : prepare_some(pg, pg->prepared, pg->prepared_count, err);
}

struct result pg_make_ready(struct pg *pg, const struct pg_prepared *prepared, struct error *err)
{
    if (prepared->is_ready) return SUCCESS;
    const struct result ready = prepare_some(pg, &pg->prepared[prepared - pg->prepared], 1, err);
    if (!ready.ok) pg_break(pg); /* answers are left, in the middle of a pipeline */
    return ready;
}

/* A lookup is the connection under another type. No function with that type changes anything. */
struct lookup *lookup_of(struct pg *pg)
{
    return (struct lookup *)(void *)pg;
}

struct pg *lookup_connection(struct lookup *lookup)
{
    return (struct pg *)(void *)lookup;
}
