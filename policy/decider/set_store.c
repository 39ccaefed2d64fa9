#include "policy/decider/set_store.h"

#include "crypto/digest.h"
#include "storage/pg_table.h"

/* clang-format off */
/* An event is only a hint: sijil-keyd checks the entry itself. */
static const struct pg_statement policy_set_raise_epoch_sql = {
    "policy_set_raise_epoch", "WITH raised AS (SELECT raise_authorization_epoch_of_set() AS epoch) SELECT epoch FROM raised", "", "int8"};
static const struct pg_statement policy_set_events_sql = {
    "policy_set_events", "SELECT seq, leaf, coalesce(policy_set_named(detail, $1), '') FROM policy_loads($2, $3)", "int8 int8 int8",
    "int8 bytea bytea"};
static const struct pg_statement policy_set_find_sql = {
    "policy_set_find",
    "SELECT l.seq, policy_set_named(l.detail, $1) FROM policy_loads($3, NULL) l"
    " WHERE right(l.detail, 73 + length($1::text)) = ' ' || $1::text || ' sha256:' || encode($2, 'hex')"
    " AND policy_set_named(l.detail, $1) IS NOT NULL ORDER BY l.seq LIMIT $4",
    "int8 bytea int8 int8", "int8 bytea"};
static const struct pg_statement policy_set_find_row_sql = {
    "policy_set_find_row", "SELECT -1::int8, envelopes[1] FROM document WHERE kind = 1 AND version = $1 AND digest = $2 LIMIT $3",
    "int8 bytea int8", "int8 bytea"};
static const struct pg_statement policy_set_is_awaited_sql = {
    "policy_set_is_awaited",
    "SELECT count(*) >= $3 OR count(*) FILTER (WHERE policy_set_named(detail, $1) IS NOT NULL) > 0 FROM policy_loads($2, $3)",
    "int8 int8 int8", "bool"};
static const struct pg_statement policy_sets_unrecorded_sql = {
    "policy_sets_unrecorded",
    "SELECT count(*), coalesce(max(epoch), 0) FROM policy_sets_after($1, $3)"
    " WHERE load_detail NOT IN (SELECT coalesce(detail, '') FROM policy_loads($2, $3))",
    "int8 int8 int8", "int8 int8"};
/*
 * Runs under the log's lock, and its time grows with the scope: 0.3 to 0.4 s for 10,000 repositories. It is rare
 * (docs/policies.md). Outside the lock, a repository that is made at the same time would miss its row.
 */
static const struct pg_statement stored_label_insert_sql = {
    "stored_label_insert",
    "INSERT INTO stored_label (repository_id, policy_id, label) SELECT repository_id, $1, $2 FROM repository"
    " WHERE full_name >= $3 AND full_name < $4 AND ('/' || full_name) ~ $5 ON CONFLICT DO NOTHING",
    "text text text text text", ""};
static const struct pg_statement policy_drafts_expire_sql = {
    "policy_drafts_expire", "DELETE FROM policy_draft WHERE expires_at <= now()", "", ""};
static const struct pg_statement policy_drafts_count_sql = {
    "policy_drafts_count",
    "SELECT count(*), count(*) FILTER (WHERE drafted_by = $2), count(*) FILTER (WHERE name = $1) FROM policy_draft", "text text", "int8 int8 int8"};
static const struct pg_statement policy_draft_insert_sql = {
    "policy_draft_insert",
    "INSERT INTO policy_draft (name, payload, drafted_by, expires_at, change, why)"
    " VALUES ($1, $2, $3, to_timestamp($4::int8 / 1000.0), $5::int8::int2, $6)", "text bytea text int8 int8 text", ""};
static const struct pg_statement policy_drafts_read_sql = {
    "policy_drafts_read",
    "SELECT name, payload, envelope, drafted_by, (extract(epoch FROM expires_at) * 1000)::int8, change::int8, why FROM policy_draft"
    " WHERE expires_at > now() AND ($1::text IS NULL OR name = $1) ORDER BY expires_at, name LIMIT $2",
    "text int8", "text bytea bytea text int8 int8 text"};
static const struct pg_statement policy_draft_sign_sql = {
    "policy_draft_sign",
    "WITH signed AS (UPDATE policy_draft SET envelope = $3 WHERE name = $1 AND sha256(envelope) = $2 AND expires_at > now() RETURNING 1)"
    " SELECT count(*) FROM signed", "text bytea bytea", "int8"};
static const struct pg_statement policy_draft_remove_sql = {
    "policy_draft_remove", "WITH gone AS (DELETE FROM policy_draft WHERE name = $1 RETURNING 1) SELECT count(*) FROM gone", "text", "int8"};
static const struct pg_statement policy_sets_loaded_sql = {
    "policy_sets_loaded",
    "SELECT l.seq, d.version, encode(d.digest, 'hex'), d.recorded_by, (extract(epoch FROM d.recorded_at) * 1000)::int8, d.envelopes[1]"
    " FROM policy_loads($1, NULL) l JOIN document d ON d.kind = 1 AND d.detail = l.detail ORDER BY l.seq LIMIT $2",
    "int8 int8", "int8 int8 text text int8 bytea"};
static const struct pg_statement policy_set_loaded_sql = {
    "policy_set_loaded",
    "SELECT d.envelopes[1] FROM policy_loads(0, NULL) l JOIN document d ON d.kind = 1 AND d.detail = l.detail WHERE d.version = $1"
    " ORDER BY l.seq DESC LIMIT 1", "int8", "bytea"};
static const struct pg_statement policy_exception_uses_sql = {
    "policy_exception_uses",
    "SELECT exception, used, (extract(epoch FROM last_at) * 1000)::int8 FROM exception_use WHERE exception = ANY($1)", "bytea[]",
    "bytea int8 int8"};
/* An approver's key is of the registry. The number of the last event is given, so a page goes on behind it. */
static const struct pg_statement policy_approvers_sql = {
    "policy_approvers",
    "SELECT e.seq, e.leaf, d.envelopes[1], coalesce(d.envelopes[2], ''), coalesce(d.envelopes[3], ''), coalesce(d.envelopes[4], '')"
    " FROM document_events(2, $1, 1000000) e JOIN document d ON d.kind = 2 AND d.detail = e.detail WHERE d.scope = '' ORDER BY e.seq LIMIT $2",
    "int8 int8", "int8 bytea bytea bytea bytea bytea"};
static const struct pg_statement restriction_documents_sql = {
    "restriction_documents",
    "SELECT seq, leaf, envelopes[1], coalesce(envelopes[2], ''), coalesce(envelopes[3], ''), coalesce(envelopes[4], ''), recorded_by"
    " FROM restriction_documents($1, $2, $3) ORDER BY seq",
    "text int8 int8", "int8 bytea bytea bytea bytea bytea text"};
static const struct pg_statement *const statements[] = {
    &policy_approvers_sql, &restriction_documents_sql, &policy_drafts_expire_sql, &policy_drafts_count_sql, &policy_draft_insert_sql, &policy_drafts_read_sql, &policy_draft_sign_sql,
    &policy_draft_remove_sql, &policy_sets_loaded_sql, &policy_set_loaded_sql,
    &policy_set_raise_epoch_sql, &policy_set_events_sql, &policy_set_find_sql, &policy_set_find_row_sql,
    &policy_exception_uses_sql, &policy_set_is_awaited_sql, &policy_sets_unrecorded_sql, &stored_label_insert_sql,
};
/* clang-format on */
const struct pg_table policy_set_table = PG_TABLE(statements);

struct result policy_set_insert(const struct permit *permit, struct pg *pg, const struct document_row *row, struct error *err)
{
    struct pg_arguments none = {0};

    TRY(document_insert(permit, pg, row, err));
    return pg_run(pg, &policy_set_raise_epoch_sql, &none, NULL, err);
}

struct result policy_set_events(struct pg *pg, uint64_t least, uint64_t first, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)least);
    pg_add_int8(&arguments, (int64_t)first);
    pg_add_int8(&arguments, POLICY_SETS_READ);
    return pg_run(pg, &policy_set_events_sql, &arguments, rows_out, err);
}

struct result policy_set_find(struct pg *pg, const struct policy_set_row *row, uint64_t first, struct pg_rows **rows_out,
                              struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)row->epoch);
    pg_add_bytes(&arguments, (struct bytes){row->digest, SHA256_SIZE});
    pg_add_int8(&arguments, (int64_t)first);
    pg_add_int8(&arguments, POLICY_SETS_READ);
    return pg_run(pg, &policy_set_find_sql, &arguments, rows_out, err);
}

struct result policy_set_find_row(struct pg *pg, const struct policy_set_row *row, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)row->epoch);
    pg_add_bytes(&arguments, (struct bytes){row->digest, SHA256_SIZE});
    pg_add_int8(&arguments, POLICY_SETS_READ);
    return pg_run(pg, &policy_set_find_row_sql, &arguments, rows_out, err);
}

struct result policy_set_is_awaited(struct pg *pg, uint64_t least, uint64_t first, bool *is_awaited_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, (int64_t)least);
    pg_add_int8(&arguments, (int64_t)first);
    pg_add_int8(&arguments, UNRECORDED_SETS_MAX);
    TRY(pg_run(pg, &policy_set_is_awaited_sql, &arguments, &rows, err));
    *is_awaited_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result policy_sets_unrecorded(struct pg *pg, uint64_t after, uint64_t first, struct unrecorded_sets *unrecorded_out,
                                     struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, (int64_t)after);
    pg_add_int8(&arguments, (int64_t)first);
    pg_add_int8(&arguments, UNRECORDED_SETS_MAX);
    TRY(pg_run(pg, &policy_sets_unrecorded_sql, &arguments, &rows, err));
    *unrecorded_out = (struct unrecorded_sets){(uint64_t)pg_int8(rows, 0, 0), (uint64_t)pg_int8(rows, 0, 1)};
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
    return pg_run(pg, &stored_label_insert_sql, &arguments, NULL, err);
}

/* --- drafts --- */

struct result policy_drafts_count(struct pg *pg, const char *name, const char *principal,
                                  struct policy_drafts_waiting *waiting_out, struct error *err)
{
    struct pg_arguments none = {0}, arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &policy_drafts_expire_sql, &none, NULL, err));
    pg_add_text(&arguments, name);
    pg_add_text(&arguments, principal);
    TRY(pg_run(pg, &policy_drafts_count_sql, &arguments, &rows, err));
    *waiting_out = (struct policy_drafts_waiting){pg_int8(rows, 0, 0), pg_int8(rows, 0, 1), pg_int8(rows, 0, 2) > 0};
    return SUCCESS;
}

struct result policy_draft_insert(struct pg *pg, const struct policy_draft_row *row, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, row->name);
    pg_add_bytes(&arguments, row->payload);
    pg_add_text(&arguments, row->drafted_by);
    pg_add_int8(&arguments, row->expires_ms);
    pg_add_int8(&arguments, row->change);
    pg_add_text(&arguments, row->why);
    return pg_run(pg, &policy_draft_insert_sql, &arguments, NULL, err);
}

struct result policy_drafts_read(struct pg *pg, const char *name, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, name);
    pg_add_int8(&arguments, POLICY_SETS_READ);
    return pg_run(pg, &policy_drafts_read_sql, &arguments, rows_out, err);
}

struct result policy_drafts_lookup(struct lookup *lookup, const char *name, struct pg_rows **rows_out, struct error *err)
{
    return policy_drafts_read(lookup_connection(lookup), name, rows_out, err);
}

/* Statements that count what they have changed. */
static struct result run_and_count(struct pg *pg, const struct pg_statement *statement, const struct pg_arguments *arguments,
                                   bool *any_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, statement, arguments, &rows, err));
    *any_out = pg_int8(rows, 0, 0) > 0;
    return SUCCESS;
}

struct result policy_draft_sign(struct pg *pg, const char *name, struct bytes before, struct bytes envelope, bool *is_signed_out,
                                struct error *err)
{
    struct pg_arguments arguments = {0};
    uint8_t digest[SHA256_SIZE];

    sha256_of(before, digest);
    pg_add_text(&arguments, name);
    pg_add_bytes(&arguments, (struct bytes){digest, sizeof digest});
    pg_add_bytes(&arguments, envelope);
    return run_and_count(pg, &policy_draft_sign_sql, &arguments, is_signed_out, err);
}

struct result policy_draft_remove(struct pg *pg, const char *name, bool *was_there_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, name);
    return run_and_count(pg, &policy_draft_remove_sql, &arguments, was_there_out, err);
}

/* --- the past --- */

struct result policy_sets_loaded(struct pg *pg, uint64_t first, size_t limit, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)first);
    pg_add_int8(&arguments, (int64_t)limit);
    return pg_run(pg, &policy_sets_loaded_sql, &arguments, rows_out, err);
}

struct result policy_set_loaded(struct pg *pg, uint64_t epoch, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)epoch);
    return pg_run(pg, &policy_set_loaded_sql, &arguments, rows_out, err);
}

struct result policy_exception_uses(struct pg *pg, const struct bytes *keys, size_t count, struct pg_rows **rows_out,
                                    struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_bytes_array(&arguments, keys, count);
    return pg_run(pg, &policy_exception_uses_sql, &arguments, rows_out, err);
}

struct result policy_approvers(struct pg *pg, uint64_t first, size_t limit, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)first);
    pg_add_int8(&arguments, (int64_t)limit);
    return pg_run(pg, &policy_approvers_sql, &arguments, rows_out, err);
}

struct result restriction_documents(struct pg *pg, const char *organisation, uint64_t first, size_t limit,
                                    struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, organisation);
    pg_add_int8(&arguments, (int64_t)first);
    pg_add_int8(&arguments, (int64_t)limit);
    return pg_run(pg, &restriction_documents_sql, &arguments, rows_out, err);
}
