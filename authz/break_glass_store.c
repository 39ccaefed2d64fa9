/* The rows of those who asked to break a glass, and the roles that documents and rows together give. */
#include <stdio.h>
#include <string.h>

#include "authz/break_glass.h"
#include "authz/break_glass_load_priv.h"
#include "authz/role.h"
#include "authz/snapshot_priv.h"
#include "authz/snapshot_rows_priv.h"
#include "base/memory.h"
#include "base/text.h"
#include "storage/pg_table.h"

/* clang-format off */
/* Each use sweeps a few rows that have ended, so the table holds little more than what is in force. */
static const struct pg_statement glass_holder_write_sql = {
    "glass_holder_write",
    "WITH swept AS (DELETE FROM break_glass_holder WHERE (name, principal) IN"
    " (SELECT name, principal FROM break_glass_holder WHERE until <= now() AND (name, principal) <> ($1, $2) ORDER BY until LIMIT 16)),"
    " written AS (INSERT INTO break_glass_holder (name, principal, issuer, subject, until) VALUES ($1, $2, $3, $4, $5)"
    " ON CONFLICT (name, principal) DO UPDATE SET until = excluded.until RETURNING 1)"
    " SELECT count(*) FROM written",
    "text text text text timestamptz", "int8"};
/* The place as the snapshot's places: one of a deleted organisation or project is told by the number of the log at the birth of the present one. */
static const struct pg_statement glass_load_sql = {
    "glass_load",
    "SELECT s.at, o.organisation_id, p.project_id, greatest(o.born, coalesce(p.born, 0)), h.issuer, h.subject"
    " FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS s(name, principal, place, at)"
    " JOIN break_glass_holder h ON h.name = s.name AND h.principal = s.principal AND h.until > now()"
    " JOIN organisation o ON o.name = split_part(s.place, '/', 1)"
    " LEFT JOIN project p ON p.organisation_id = o.organisation_id AND p.name = split_part(s.place, '/', 2)"
    " WHERE (strpos(s.place, '/') = 0 OR p.project_id IS NOT NULL) AND ($4 OR o.organisation_id = ANY($5))",
    "text[] text[] text[] bool uuid[]", "int8 uuid uuid int8 text text"};
static const struct pg_statement glass_holders_sql = {
    "glass_holders", "SELECT DISTINCT principal, issuer, subject FROM break_glass_holder WHERE until > now() LIMIT 256", "", "text text text"};
/* Also of one that has left: its roles that were revoked are rows still. Nobody finds an issuer and a subject that have another one's hash. Reads all roles: no index knows the hash. */
static const struct pg_statement glass_issuer_sql = {
    "glass_issuer",
    "SELECT coalesce(min(issuer), '') FROM binding WHERE robot_id IS NULL AND 'ext:' || encode(sha256(convert_to(issuer || E'\n' || subject, 'UTF8')), 'hex') = $1",
    "text", "text"};
static const struct pg_statement *const statements[] = {
    &glass_holder_write_sql, &glass_load_sql, &glass_holders_sql, &glass_issuer_sql,
};
/* clang-format on */
const struct pg_table break_glass_table = PG_TABLE(statements);

/* ---- asking ---- */

static struct result write_holder(const struct glass_draft_change *self, struct pg *pg, struct error *err)
{
    struct pg_arguments arguments = {0};
    char key[PRINCIPAL_KEY_SIZE];

    principal_key(self->holder, key);
    pg_add_text(&arguments, self->draft.row.document->name);
    pg_add_text(&arguments, key);
    pg_add_text(&arguments, self->holder->issuer);
    pg_add_text(&arguments, self->holder->subject);
    pg_add_time(&arguments, self->draft.row.document->expires_ms);
    return pg_run(pg, &glass_holder_write_sql, &arguments, NULL, err);
}

static struct result run_draft(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    static const struct resource where = {.kind = RESOURCE_SYSTEM};
    struct glass_draft_change *self = (struct glass_draft_change *)change; /* its first member */
    struct change *drafting = &self->draft.change;

    permit_require(permit, ACTION_BREAK_GLASS_ASK, &where);
    TRY(drafting->run(permit, drafting, pg, err));
    return write_holder(self, pg, err);
}

void glass_draft_change_init(struct glass_draft_change *change, const struct document_draft_row *row,
                             const struct principal *holder)
{
    change->change = (struct change){.run = run_draft, .invalidates = CHANGE_INVALIDATES_NOTHING};
    change->holder = holder;
    document_draft_change_init(&change->draft, row);
    change->change.detail = change->draft.change.detail;
}

struct result glass_holders_visit(const struct permit *permit, struct pg *pg, const struct glass_holders *holders,
                                  struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    (void)permit_resource(permit, ACTION_BREAK_GLASS_READ);
    TRY(pg_run(pg, &glass_holders_sql, NULL, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++)
        TRY(holders->take(holders->context, pg_text(rows, i, 0), pg_text(rows, i, 1), pg_text(rows, i, 2), err));
    return SUCCESS;
}

struct result glass_issuer_of(struct lookup *lookup, const char *principal, char issuer_out[256], struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    pg_add_text(&arguments, principal);
    TRY(pg_run(lookup_connection(lookup), &glass_issuer_sql, &arguments, &rows, err));
    (void)text_copy(issuer_out, 256, pg_text(rows, 0, 0));
    return SUCCESS;
}

/* ---- what a snapshot has of them ---- */

struct result glass_load(struct pg *pg, const struct trust_rules *rules, const struct rights_change *change,
                         struct pg_rows **rows_out, struct error *err)
{
    const size_t count = glass_entries_count(rules), changed = change == NULL ? 0 : change->count;
    struct bytes names[GLASS_ENTRIES_MAX], principals[GLASS_ENTRIES_MAX], places[GLASS_ENTRIES_MAX], ids[RIGHTS_CHANGE_MAX];
    struct pg_arguments arguments = {0};

    if (count == 0) return SUCCESS;
    for (size_t i = 0; i < count; i++) {
        const struct glass_entry *entry = glass_entries_at(rules, i);
        names[i] = bytes_of_text(entry->name);
        principals[i] = bytes_of_text(entry->glass.principal);
        places[i] = bytes_of_text(entry->glass.on);
    }
    for (size_t i = 0; i < changed; i++) ids[i] = uuid_bytes(&change->organisations[i]);
    pg_add_text_array(&arguments, names, count);
    pg_add_text_array(&arguments, principals, count);
    pg_add_text_array(&arguments, places, count);
    pg_add_bool(&arguments, change == NULL);
    pg_add_uuid_array(&arguments, ids, changed);
    return pg_run(pg, &glass_load_sql, &arguments, rows_out, err);
}

/* Always the same for the same document, and no row of the database has it. */
static struct uuid id_of(const struct glass_entry *entry)
{
    char text[sizeof GLASS_GIVER + BREAK_GLASS_NAME_MAX + DIGEST_TEXT_SIZE];
    uint8_t hash[SHA256_SIZE];
    struct uuid id;

    (void)snprintf(text, sizeof text, "%s%s\n%s", GLASS_GIVER, entry->name, entry->pinned.digest);
    sha256_of(bytes_of_text(text), hash);
    memcpy(id.bytes, hash, sizeof id.bytes);
    return id;
}

/* Whoever writes into the database can name anybody in the row, but not with this hash. */
static bool is_holder(const struct glass_entry *entry, const char *issuer, const char *subject)
{
    struct principal principal = {.kind = PRINCIPAL_EXTERNAL};
    char key[PRINCIPAL_KEY_SIZE];

    if (!text_copy(principal.issuer, sizeof principal.issuer, issuer) ||
        !text_copy(principal.subject, sizeof principal.subject, subject))
        return false;
    principal_key(&principal, key);
    return strcmp(key, entry->glass.principal) == 0;
}

static bool read_row(const struct trust_rules *rules, const struct pg_rows *rows, size_t row, struct authz_binding *binding)
{
    const struct glass_entry *entry = glass_entries_at(rules, (size_t)pg_int8(rows, row, 0) - 1);

    if ((uint64_t)pg_int8(rows, row, 3) > entry->pinned.sequence) return false;
    if (!is_holder(entry, pg_text(rows, row, 4), pg_text(rows, row, 5))) return false;
    *binding = (struct authz_binding){.id = id_of(entry),
                                      .kind = PRINCIPAL_EXTERNAL,
                                      .role = ROLE_BREAK_GLASS,
                                      .organisation = pg_uuid(rows, row, 1),
                                      .project = snapshot_uuid_or_nil(rows, row, 2),
                                      .expires_ms = entry->pinned.expires_ms,
                                      .is_brief = true};
    (void)text_copy(binding->issuer, sizeof binding->issuer, pg_text(rows, row, 4));
    (void)text_copy(binding->subject, sizeof binding->subject, pg_text(rows, row, 5));
    (void)snprintf(binding->granted_by, sizeof binding->granted_by, "%s%s", GLASS_GIVER, entry->name);
    binding->scope = binding_scope(binding);
    return true;
}

size_t glass_bindings(const struct trust_rules *rules, const struct pg_rows *rows, struct authz_binding *bindings)
{
    size_t count = 0;

    for (size_t i = 0; rows != NULL && i < pg_rows_count(rows); i++)
        if (read_row(rules, rows, i, &bindings[count])) count++;
    return count;
}
