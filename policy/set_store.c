#include "policy/set_store.h"

#include "crypto/digest.h"

static const struct pg_statement statements[] = {
    {"policy_set_insert",
     "INSERT INTO policy_set (epoch, digest, envelope, loaded_by)"
     " SELECT $1::int8, $2::bytea, $3::bytea, $4::text WHERE NOT EXISTS (SELECT FROM policy_set WHERE epoch >= $1)"
     " ON CONFLICT DO NOTHING",
     "int8 bytea bytea text", ""},
    {"policy_set_lock", "SELECT 1::int8 FROM pg_advisory_xact_lock(7307, 1)", "", "int8"},
    {"policy_set_raise_epoch", "WITH raised AS (SELECT raise_authorization_epoch() AS epoch) SELECT epoch FROM raised", "", "int8"},
    {"policy_set_find", "SELECT EXISTS (SELECT FROM policy_set WHERE epoch = $1 AND digest = $2)", "int8 bytea", "bool"},
    {"policy_set_newest", /* the pinned one last, however many rows that nobody signed are newer */
     "SELECT envelope FROM ((SELECT epoch, envelope FROM policy_set WHERE epoch > $1 ORDER BY epoch DESC LIMIT $2)"
     " UNION ALL SELECT epoch, envelope FROM policy_set WHERE epoch = $1) candidate ORDER BY epoch DESC",
     "int8 int8", "bytea"},
    {"policy_set_has_newer", "SELECT EXISTS (SELECT FROM policy_set WHERE epoch > $1)", "int8", "bool"},
    {"stored_label_insert",
     "INSERT INTO stored_label (repository_id, policy_id, label) SELECT repository_id, $1, $2 FROM repository"
     " WHERE full_name >= $3 AND full_name < $4 AND ('/' || full_name) ~ $5 ON CONFLICT DO NOTHING",
     "text text text text text", ""},
};
const struct pg_table policy_set_table = PG_TABLE(statements);

struct result policy_set_insert(struct pg *pg, const struct policy_set_row *row, struct error *err)
{
    struct pg_arguments arguments = {0}, none = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, (int64_t)row->epoch);
    pg_add_bytes(&arguments, (struct bytes){row->digest, SHA256_SIZE});
    pg_add_bytes(&arguments, row->envelope);
    pg_add_text(&arguments, row->loaded_by);
    TRY(pg_run(pg, "policy_set_insert", &arguments, &rows, err));
    if (pg_rows_affected(rows) != 1)
        return failure(err, ERROR_CONFLICT, "policy epoch %llu, or a later one, is stored already: sign with a larger one",
                       (unsigned long long)row->epoch);
    return pg_run(pg, "policy_set_raise_epoch", &none, NULL, err);
}

struct result policy_set_lock(struct pg *pg, struct error *err)
{
    const struct pg_arguments none = {0};

    return pg_run(pg, "policy_set_lock", &none, NULL, err);
}

static struct result ask(struct pg *pg, const char *name, const struct pg_arguments *arguments, bool *answer_out,
                         struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, name, arguments, &rows, err));
    *answer_out = pg_rows_count(rows) == 1 && pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result policy_set_is_stored(struct pg *pg, const struct policy_set_row *row, bool *is_stored_out,
                                   struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)row->epoch);
    pg_add_bytes(&arguments, (struct bytes){row->digest, SHA256_SIZE});
    return ask(pg, "policy_set_find", &arguments, is_stored_out, err);
}

struct result policy_set_newest(struct pg *pg, uint64_t epoch, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)epoch);
    pg_add_int8(&arguments, POLICY_SETS_READ);
    return pg_run(pg, "policy_set_newest", &arguments, rows_out, err);
}

struct result policy_set_has_newer(struct pg *pg, uint64_t epoch, bool *has_newer_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)epoch);
    return ask(pg, "policy_set_has_newer", &arguments, has_newer_out, err);
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
