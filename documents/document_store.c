#include "documents/document_store_priv.h"

#include <assert.h>
#include <string.h>

#include "documents/format/signing_key.h"
#include "storage/pg_table.h"

#define WAIT "interval '7 days'" /* equal to SIGNING_KEY_WAIT_MS, the limit of sijil-keyd; docs/documents.md */
_Static_assert(SIGNING_KEY_WAIT_MS == INT64_C(7) * 86400000, "a draft waits no longer than it could be approved");

/* clang-format off */
static const struct pg_statement document_insert_sql = {
    "document_insert",
    "INSERT INTO document (kind, scope, name, version, digest, envelopes, recorded_by) VALUES ($1, $2, $3, $4, $5, $6, $7)"
    " ON CONFLICT (kind, detail) DO NOTHING",
    "int4 text text int8 bytea bytea[] text", ""};
static const struct pg_statement document_events_sql = {
    "document_events",
    "SELECT e.seq, e.leaf, coalesce(d.envelopes[1], ''), coalesce(d.envelopes[2], ''), coalesce(d.envelopes[3], ''),"
    " coalesce(d.envelopes[4], '') FROM document_events($1, $2, $3) e LEFT JOIN document d ON d.kind = $1 AND d.detail = e.detail"
    " ORDER BY e.seq",
    "int4 int8 int8", "int8 bytea bytea bytea bytea bytea"};
/* An event without a row is one of an action that failed afterwards. */
static const struct pg_statement document_since_sql = {
    "document_since",
    "SELECT e.seq FROM document_events($1, $2, 1000000) e JOIN document d ON d.kind = $1 AND d.detail = e.detail ORDER BY e.seq LIMIT 1", "int4 int8",
    "int8"};
static const struct pg_statement document_leaf_sql = {"document_leaf", "SELECT leaf FROM audit_entry WHERE seq = $1", "int8", "bytea"};
static const struct pg_statement document_count_sql = {
    "document_count", "SELECT count(*) FROM (SELECT 1 FROM document WHERE kind = $1 LIMIT $2) counted", "int4 int8", "int8"};
/*
 * Documents of a deleted organisation with this name have lower event numbers, so they do not count. A name without a row gets
 * the highest number, so no document counts for it.
 */
static const struct pg_statement document_scope_sql = {
    "document_scope",
    "SELECT CASE WHEN $1 = '' THEN 0 ELSE coalesce((SELECT greatest(o.born, p.born) FROM organisation o"
    " LEFT JOIN project p ON p.organisation_id = o.organisation_id AND p.name = split_part($1, '/', 2)"
    " WHERE o.name = split_part($1, '/', 1) AND (strpos($1, '/') = 0 OR p.project_id IS NOT NULL)), 9223372036854775807) END",
    "text", "int8"};
static const struct pg_statement document_pin_find_sql = {
    "document_pin_find", "SELECT count(*) > 0 FROM document_pin WHERE kind = $1 AND sequence = $2 AND digest = $3", "int4 int8 bytea",
    "bool"};
static const struct pg_statement document_pin_claim_sql = {
    "document_pin_claim", "INSERT INTO document_pin (kind, sequence, digest) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
    "int4 int8 bytea", ""};
static const struct pg_statement document_draft_expire_sql = {
    "document_draft_expire", "DELETE FROM document_draft WHERE organisation_id IS NOT DISTINCT FROM $1 AND expires_at <= now()", "uuid",
    ""};
static const struct pg_statement document_draft_count_sql = {
    "document_draft_count",
    "SELECT count(*), count(*) FILTER (WHERE drafted_by = $2), count(*) FILTER (WHERE kind = $3 AND digest = $4) > 0"
    " FROM document_draft WHERE organisation_id IS NOT DISTINCT FROM $1",
    "uuid text int4 bytea", "int8 int8 bool"};
static const struct pg_statement document_draft_insert_sql = {
    "document_draft_insert",
    "INSERT INTO document_draft (kind, scope, name, digest, envelopes, organisation_id, drafted_by, signed_by, expires_at)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, ARRAY[$7], now() + " WAIT ")",
    "int4 text text bytea bytea[] uuid text", ""};
/* The draft must have all other signatures already, so that no signature is lost when two persons sign at the same time. */
static const struct pg_statement document_draft_sign_sql = {
    "document_draft_sign",
    "UPDATE document_draft SET envelopes = $3, signed_by = signed_by || $4::text WHERE kind = $1 AND digest = $2 AND expires_at > now()"
    " AND cardinality($3) = cardinality(envelopes) + 1 AND $3[1:cardinality(envelopes)] = envelopes",
    "int4 bytea bytea[] text", ""};
static const struct pg_statement document_draft_take_sql = {
    "document_draft_take",
    "DELETE FROM document_draft WHERE kind = $1 AND digest = $2 AND expires_at > now()"
    " AND cardinality($3) = cardinality(envelopes) + 1 AND $3[1:cardinality(envelopes)] = envelopes",
    "int4 bytea bytea[]", ""};
static const struct pg_statement document_draft_remove_sql = {
    "document_draft_remove",
    "DELETE FROM document_draft WHERE kind = $1 AND scope = $2 AND name = $3 AND ($4::text IS NULL OR drafted_by = $4)"
    " RETURNING expires_at > now()",
    "int4 text text text", "bool"};
static const struct pg_statement document_drafts_sql = {
    "document_drafts",
    "SELECT envelopes[1], coalesce(envelopes[2], ''), coalesce(envelopes[3], ''), coalesce(envelopes[4], ''),"
    " array_to_string(signed_by, ' ') FROM document_draft WHERE kind = $1 AND scope = $2 AND ($3::text IS NULL OR name = $3)"
    " AND expires_at > now() ORDER BY drafted_at LIMIT $4",
    "int4 text text int8", "bytea bytea bytea bytea text"};
static const struct pg_statement *const statements[] = {
    &document_insert_sql, &document_events_sql, &document_leaf_sql, &document_since_sql, &document_count_sql, &document_scope_sql, &document_pin_find_sql, &document_pin_claim_sql,
    &document_draft_expire_sql, &document_draft_count_sql, &document_draft_insert_sql, &document_draft_sign_sql, &document_draft_take_sql,
    &document_draft_remove_sql, &document_drafts_sql,
};
/* clang-format on */
const struct pg_table document_table = PG_TABLE(statements);

/* Whether `action` is about documents of this kind: up to the '.' its name is as the kind's own action, or as the kind. */
static bool is_about(enum action action, enum document_kind kind)
{
    const char *name = action_name(action), *own = document_kind(kind)->action, *noun = document_kind(kind)->name;
    const size_t length = strcspn(name, ".");

    return strncmp(name, own, length + 1) == 0 || (strlen(noun) == length && strncmp(name, noun, length) == 0);
}

/* A document's scope must be the resource that was decided on, and the action one of its kind. */
static void require(const struct permit *permit, enum action action, enum document_kind kind, const char *scope)
{
    assert(is_about(action, kind));
    assert(strcmp(permit_resource(permit, action)->name, scope) == 0);
}

static int32_t number_of(enum document_kind kind)
{
    return document_kind(kind)->number;
}

static struct bytes digest_bytes(const uint8_t digest[DOCUMENT_DIGEST_SIZE])
{
    return (struct bytes){digest, DOCUMENT_DIGEST_SIZE};
}

/* An equal row that was written outside the application does no harm. */
struct result document_insert(const struct permit *permit, struct pg *pg, const struct document_row *row, struct error *err)
{
    const struct document *document = row->document;
    struct pg_arguments arguments = {0};

    assert(strcmp(action_name(row->action), document_action(document)) == 0);
    require(permit, row->action, document->kind, document->scope);
    pg_add_int4(&arguments, number_of(document->kind));
    pg_add_text(&arguments, document->scope);
    pg_add_text(&arguments, document->name);
    pg_add_int8(&arguments, (int64_t)document->version);
    pg_add_bytes(&arguments, digest_bytes(document->digest));
    pg_add_bytes_array(&arguments, row->envelopes, row->envelope_count);
    pg_add_text(&arguments, row->recorded_by);
    return pg_run(pg, &document_insert_sql, &arguments, NULL, err);
}

struct result document_events(struct pg *pg, enum document_kind kind, uint64_t first, struct pg_rows **rows_out,
                              struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int4(&arguments, number_of(kind));
    pg_add_int8(&arguments, (int64_t)first);
    pg_add_int8(&arguments, DOCUMENT_EVENTS_READ);
    return pg_run(pg, &document_events_sql, &arguments, rows_out, err);
}

struct result document_leaf(struct pg *pg, uint64_t sequence, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, (int64_t)sequence);
    TRY(pg_run(pg, &document_leaf_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0)
        return failure(err, ERROR_NOT_FOUND, "event %llu is not in the log", (unsigned long long)sequence);
    *rows_out = GIVE(rows);
    return SUCCESS;
}

struct result document_check_latest(const struct permit *permit, struct pg *pg, const struct document_row *row,
                                    uint64_t read_until, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    require(permit, row->action, row->document->kind, row->document->scope);
    pg_add_int4(&arguments, number_of(row->document->kind));
    pg_add_int8(&arguments, (int64_t)read_until);
    TRY(pg_run(pg, &document_since_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return SUCCESS;
    return failure(err, ERROR_CONFLICT,
                   "event %lld has recorded another document of this kind meanwhile: compare again, and send it again",
                   (long long)pg_int8(rows, 0, 0));
}

struct result document_count(struct pg *pg, enum document_kind kind, uint64_t most, uint64_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int4(&arguments, number_of(kind));
    pg_add_int8(&arguments, (int64_t)most);
    TRY(pg_run(pg, &document_count_sql, &arguments, &rows, err));
    *count_out = (uint64_t)pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result document_scope_find(struct lookup *lookup, const char *name, struct document_scope *scope_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, name);
    TRY(pg_run(lookup_connection(lookup), &document_scope_sql, &arguments, &rows, err));
    *scope_out = (struct document_scope){name, (uint64_t)pg_int8(rows, 0, 0)};
    return SUCCESS;
}

static struct pg_arguments pin_arguments(enum document_kind kind, const struct document_pin *pin)
{
    struct pg_arguments arguments = {0};

    pg_add_int4(&arguments, number_of(kind));
    pg_add_int8(&arguments, (int64_t)pin->epoch);
    pg_add_bytes(&arguments, digest_bytes(pin->digest));
    return arguments;
}

struct result document_pin_is_claimed(struct pg *pg, enum document_kind kind, const struct document_pin *pin,
                                      bool *is_claimed_out, struct error *err)
{
    const struct pg_arguments arguments = pin_arguments(kind, pin);
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &document_pin_find_sql, &arguments, &rows, err));
    *is_claimed_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result document_pin_claim(struct pg *pg, enum document_kind kind, const struct document_pin *pin, struct error *err)
{
    const struct pg_arguments arguments = pin_arguments(kind, pin);

    return pg_run(pg, &document_pin_claim_sql, &arguments, NULL, err);
}

static struct result expire(struct pg *pg, const struct uuid *organisation, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, organisation);
    return pg_run(pg, &document_draft_expire_sql, &arguments, NULL, err);
}

struct result document_draft_count(const struct permit *permit, struct pg *pg, const struct document_draft_row *row,
                                   struct document_drafts_waiting *waiting_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    require(permit, row->action, row->document->kind, row->document->scope);
    TRY(expire(pg, row->organisation, err));
    pg_add_uuid(&arguments, row->organisation);
    pg_add_text(&arguments, row->drafted_by);
    pg_add_int4(&arguments, number_of(row->document->kind));
    pg_add_bytes(&arguments, digest_bytes(row->document->digest));
    TRY(pg_run(pg, &document_draft_count_sql, &arguments, &rows, err));
    *waiting_out = (struct document_drafts_waiting){pg_int8(rows, 0, 0), pg_int8(rows, 0, 1), pg_bool(rows, 0, 2)};
    return SUCCESS;
}

struct result document_draft_insert(const struct permit *permit, struct pg *pg, const struct document_draft_row *row,
                                    struct error *err)
{
    const struct document *document = row->document;
    struct pg_arguments arguments = {0};

    require(permit, row->action, document->kind, document->scope);
    pg_add_int4(&arguments, number_of(document->kind));
    pg_add_text(&arguments, document->scope);
    pg_add_text(&arguments, document->name);
    pg_add_bytes(&arguments, digest_bytes(document->digest));
    pg_add_bytes_array(&arguments, row->envelopes, row->envelope_count);
    pg_add_uuid(&arguments, row->organisation);
    pg_add_text(&arguments, row->drafted_by);
    return pg_run(pg, &document_draft_insert_sql, &arguments, NULL, err);
}

struct result document_draft_sign(const struct permit *permit, struct pg *pg, const struct document_draft_row *row,
                                  struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    require(permit, row->action, row->document->kind, row->document->scope);
    pg_add_int4(&arguments, number_of(row->document->kind));
    pg_add_bytes(&arguments, digest_bytes(row->document->digest));
    pg_add_bytes_array(&arguments, row->envelopes, row->envelope_count);
    pg_add_text(&arguments, row->drafted_by);
    TRY(pg_run(pg, &document_draft_sign_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 1) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "the draft has other signatures by now, or is gone: read it again");
}

struct result document_draft_take(const struct permit *permit, struct pg *pg, const struct document_row *row, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    require(permit, row->action, row->document->kind, row->document->scope);
    pg_add_int4(&arguments, number_of(row->document->kind));
    pg_add_bytes(&arguments, digest_bytes(row->document->digest));
    pg_add_bytes_array(&arguments, row->envelopes, row->envelope_count);
    TRY(pg_run(pg, &document_draft_take_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 1) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "no draft of this document waits for its last signature: read the list again");
}

struct result document_draft_remove(const struct permit *permit, struct pg *pg, const struct document_draft_removal *removal,
                                    size_t *removed_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    size_t removed = 0;

    require(permit, removal->action, removal->kind, removal->scope);
    pg_add_int4(&arguments, number_of(removal->kind));
    pg_add_text(&arguments, removal->scope);
    pg_add_text(&arguments, removal->name);
    pg_add_text(&arguments, removal->drafted_by);
    TRY(pg_run(pg, &document_draft_remove_sql, &arguments, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) removed += pg_bool(rows, i, 0);
    *removed_out = removed;
    return SUCCESS;
}

struct result document_drafts(const struct permit *permit, struct pg *pg, const struct document_draft_query *query,
                              struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    require(permit, query->action, query->kind, query->scope);
    pg_add_int4(&arguments, number_of(query->kind));
    pg_add_text(&arguments, query->scope);
    pg_add_text(&arguments, query->name);
    pg_add_int8(&arguments, DOCUMENT_DRAFTS_MAX);
    return pg_run(pg, &document_drafts_sql, &arguments, rows_out, err);
}
