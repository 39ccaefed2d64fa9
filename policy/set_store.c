#include "policy/set_store.h"

#include "crypto/digest.h"

/* The event that loaded the row p of policy_set. Only a hint: sijil-keyd judges the entry itself. */
#define LOADING                                                                                            \
    " FROM audit_entry e WHERE e.action = 'policy.load' AND e.outcome = 'allowed' AND e.seq < (SELECT size FROM audit_log)" \
    " AND position(convert_to('\"res\":\"#' || p.load_detail || '\"', 'UTF8') IN e.leaf) > 0"

static const struct pg_statement statements[] = {
    {"policy_set_insert",
     "INSERT INTO policy_set (epoch, digest, envelope, loaded_by)"
     " SELECT $1::int8, $2::bytea, $3::bytea, $4::text"
     " WHERE NOT EXISTS (SELECT FROM policy_set p WHERE epoch >= $1 AND EXISTS (SELECT" LOADING "))"
     " ON CONFLICT DO NOTHING",
     "int8 bytea bytea text", ""},
    {"policy_set_raise_epoch", "WITH raised AS (SELECT raise_authorization_epoch() AS epoch) SELECT epoch FROM raised", "", "int8"},
    {"policy_set_is_unused", /* exactly this row is there, and neither it nor a later one was loaded */
     "SELECT EXISTS (SELECT FROM policy_set WHERE epoch = $1 AND digest = $2 AND envelope = $3)"
     " AND NOT EXISTS (SELECT FROM policy_set p WHERE epoch >= $1 AND EXISTS (SELECT" LOADING "))",
     "int8 bytea bytea", "bool"},
    {"policy_set_newest", /* the pinned one last, however many rows are newer */
     "SELECT envelope, seq, leaf FROM ((SELECT p.epoch, p.envelope, l.seq, l.leaf FROM policy_set p JOIN LATERAL"
     " (SELECT e.seq, e.leaf" LOADING " ORDER BY e.seq LIMIT 1) l ON true WHERE p.epoch > $1 ORDER BY p.epoch DESC LIMIT $2)"
     " UNION ALL SELECT epoch, envelope, -1, ''::bytea FROM policy_set WHERE epoch = $1) candidate ORDER BY epoch DESC",
     "int8 int8", "bytea int8 bytea"},
    {"policy_set_news",
     "SELECT count(*) FILTER (WHERE is_loaded), count(*) FILTER (WHERE NOT is_loaded),"
     " coalesce(max(epoch) FILTER (WHERE NOT is_loaded), 0)"
     " FROM (SELECT epoch, EXISTS (SELECT" LOADING ") AS is_loaded FROM policy_set p WHERE epoch > $1) newer",
     "int8", "int8 int8 int8"},
    {"stored_label_insert",
     "INSERT INTO stored_label (repository_id, policy_id, label) SELECT repository_id, $1, $2 FROM repository"
     " WHERE full_name >= $3 AND full_name < $4 AND ('/' || full_name) ~ $5 ON CONFLICT DO NOTHING",
     "text text text text text", ""},
};
const struct pg_table policy_set_table = PG_TABLE(statements);

/* Whoever wrote the very same row before, past the application, is in nobody's way: now it is loaded. */
static struct result check_inserted(struct pg *pg, const struct policy_set_row *row, const struct pg_rows *inserted, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *same = NULL;

    if (pg_rows_affected(inserted) == 1) return SUCCESS;
    pg_add_int8(&arguments, (int64_t)row->epoch);
    pg_add_bytes(&arguments, (struct bytes){row->digest, SHA256_SIZE});
    pg_add_bytes(&arguments, row->envelope);
    TRY(pg_run(pg, "policy_set_is_unused", &arguments, &same, err));
    if (pg_rows_count(same) == 1 && pg_bool(same, 0, 0)) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "policy epoch %llu, or a later one, is stored already: sign with a larger one",
                   (unsigned long long)row->epoch);
}

struct result policy_set_insert(struct pg *pg, const struct policy_set_row *row, struct error *err)
{
    struct pg_arguments arguments = {0}, none = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, (int64_t)row->epoch);
    pg_add_bytes(&arguments, (struct bytes){row->digest, SHA256_SIZE});
    pg_add_bytes(&arguments, row->envelope);
    pg_add_text(&arguments, row->loaded_by);
    TRY(pg_run(pg, "policy_set_insert", &arguments, &rows, err));
    TRY(check_inserted(pg, row, rows, err));
    return pg_run(pg, "policy_set_raise_epoch", &none, NULL, err);
}

struct result policy_set_newest(struct pg *pg, uint64_t epoch, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)epoch);
    pg_add_int8(&arguments, POLICY_SETS_READ);
    return pg_run(pg, "policy_set_newest", &arguments, rows_out, err);
}

struct result policy_set_news(struct pg *pg, uint64_t epoch, struct policy_set_news *news_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, (int64_t)epoch);
    TRY(pg_run(pg, "policy_set_news", &arguments, &rows, err));
    news_out->has_loaded = pg_int8(rows, 0, 0) > 0;
    news_out->strange = (struct strange_sets){(uint64_t)pg_int8(rows, 0, 1), (uint64_t)pg_int8(rows, 0, 2)};
    return SUCCESS;
}

struct result stored_label_insert(struct pg *pg, const struct stored_label_row *row, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, row->policy);
    pg_add_text(&arguments, row->label);
    pg_add_text(&arguments, row->from);
    pg_add_text(&arguments, row->until);
    pg_add_text(&arguments, row->matching);
    return pg_run(pg, "stored_label_insert", &arguments, NULL, err);
}
