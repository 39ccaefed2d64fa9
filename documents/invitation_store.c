#include <assert.h>
#include <string.h>

#include "documents/invitation_find.h"
#include "storage/pg_table.h"

#define KEPT "interval '8 days'" /* after its use: a draft waits seven, and its approval needs the invitation */

/* clang-format off */
static const struct pg_statement invitation_expire_sql = {
    "invitation_expire",
    "DELETE FROM runner_invitation WHERE organisation_id IS NOT DISTINCT FROM $1 AND coalesce(used_at + " KEPT ", expires_at) <= now()",
    "uuid", ""};
static const struct pg_statement invitation_count_sql = {
    "invitation_count",
    "SELECT count(*), count(*) FILTER (WHERE invited_by = $2) FROM runner_invitation"
    " WHERE organisation_id IS NOT DISTINCT FROM $1 AND used_at IS NULL",
    "uuid text", "int8 int8"};
static const struct pg_statement invitation_insert_sql = {
    "invitation_insert",
    "INSERT INTO runner_invitation (runner, scope, organisation_id, code, envelope, invited_by, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7)"
    " ON CONFLICT DO NOTHING",
    "uuid text uuid bytea bytea text timestamptz", ""};
static const struct pg_statement invitation_remove_sql = {
    "invitation_remove", "DELETE FROM runner_invitation WHERE runner = $1 AND scope = $2", "uuid text", ""};
static const struct pg_statement invitation_use_sql = {
    "invitation_use",
    "UPDATE runner_invitation SET used_at = now(), name = $2, digest = $3 WHERE runner = $1 AND used_at IS NULL AND expires_at > now()",
    "uuid text bytea", ""};
static const struct pg_statement invitation_find_sql = {
    "invitation_find",
    "SELECT envelope, organisation_id, code, expires_at, used_at IS NOT NULL, coalesce(digest, '') FROM runner_invitation WHERE runner = $1",
    "uuid", "bytea uuid bytea timestamptz bool bytea"};
static const struct pg_statement invitation_list_sql = {
    "invitation_list",
    "SELECT runner, envelope, invited_by, coalesce(name, ''), invited_at, expires_at, used_at FROM runner_invitation"
    " WHERE scope = $1 AND ($2::uuid IS NULL OR runner = $2) AND coalesce(used_at + " KEPT ", expires_at) > now()"
    " ORDER BY invited_at LIMIT $3",
    "text uuid int8", "uuid bytea text text timestamptz timestamptz timestamptz"};
static const struct pg_statement *const statements[] = {
    &invitation_expire_sql, &invitation_count_sql, &invitation_insert_sql, &invitation_remove_sql,
    &invitation_use_sql, &invitation_find_sql, &invitation_list_sql,
};
/* clang-format on */
const struct pg_table invitation_table = PG_TABLE(statements);

static void require(const struct permit *permit, enum action action, const char *scope)
{
    assert(strncmp(action_name(action), "runner.", strlen("runner.")) == 0);
    assert(strcmp(permit_resource(permit, action)->name, scope) == 0);
}

/* ---- inviting ---- */

static struct result make_room(struct pg *pg, const struct invitation_change *inviting, struct error *err)
{
    struct pg_arguments expire = {0}, count = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&expire, inviting->organisation);
    TRY(pg_run(pg, &invitation_expire_sql, &expire, NULL, err));
    pg_add_uuid(&count, inviting->organisation);
    pg_add_text(&count, inviting->invited_by);
    TRY(pg_run(pg, &invitation_count_sql, &count, &rows, err));
    if (pg_int8(rows, 0, 1) >= INVITATIONS_EACH)
        return failure(err, ERROR_LIMIT,
                       "%d invitations of yours wait already: take one back (sijil runner reject), or let it expire",
                       INVITATIONS_EACH);
    if (pg_int8(rows, 0, 0) < INVITATIONS_MAX) return SUCCESS;
    return failure(err, ERROR_LIMIT, "%d invitations wait here already: take some back, or let them expire", INVITATIONS_MAX);
}

static struct result insert(struct pg *pg, const struct invitation_change *inviting, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &inviting->invitation->runner);
    pg_add_text(&arguments, inviting->invitation->scope);
    pg_add_uuid(&arguments, inviting->organisation);
    pg_add_bytes(&arguments, (struct bytes){inviting->code, sizeof inviting->code});
    pg_add_bytes(&arguments, inviting->envelope);
    pg_add_text(&arguments, inviting->invited_by);
    pg_add_time(&arguments, inviting->invitation->expires_ms);
    TRY(pg_run(pg, &invitation_insert_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 1) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "there is an invitation of this runner already: sign another one, with a new UUID");
}

static struct result run_invite(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct invitation_change *inviting = (const struct invitation_change *)change; /* its first member */

    require(permit, inviting->action, inviting->invitation->scope);
    TRY(make_room(pg, inviting, err));
    return insert(pg, inviting, err);
}

void invitation_change_init(struct invitation_change *change)
{
    change->change = (struct change){.run = run_invite, .invalidates = CHANGE_INVALIDATES_NOTHING};
}

/* ---- taking back ---- */

static struct result run_end(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct invitation_end *ending = (const struct invitation_end *)change; /* its first member */
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    require(permit, ending->action, ending->scope);
    pg_add_uuid(&arguments, &ending->runner);
    pg_add_text(&arguments, ending->scope);
    TRY(pg_run(pg, &invitation_remove_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : failure(err, ERROR_NOT_FOUND, "there is no invitation of this runner here");
}

void invitation_end_init(struct invitation_end *change, enum action action, const char *scope, const struct uuid *runner)
{
    *change = (struct invitation_end){.change = {.run = run_end, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                      .action = action,
                                      .scope = scope,
                                      .runner = *runner};
}

/* ---- using a code ---- */

static struct result run_use(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct invitation_use *using = (struct invitation_use *)change; /* its first member */
    const struct document *document = using->draft.row.document;
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    require(permit, using->draft.row.action, document->scope);
    pg_add_uuid(&arguments, &using->runner);
    pg_add_text(&arguments, document->name);
    pg_add_bytes(&arguments, (struct bytes){document->digest, sizeof document->digest});
    TRY(pg_run(pg, &invitation_use_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) != 1) return failure(err, ERROR_CONFLICT, "the code was used meanwhile, or has expired");
    return using->draft.change.run(permit, &using->draft.change, pg, err);
}

void invitation_use_init(struct invitation_use *change, const struct document_draft_row *row, const struct uuid *runner)
{
    document_draft_change_init(&change->draft, row);
    change->runner = *runner;
    change->change =
        (struct change){.run = run_use, .invalidates = CHANGE_INVALIDATES_NOTHING, .detail = change->draft.change.detail};
}

/* ---- reading ---- */

static struct result read_found(const struct pg_rows *rows, struct found_invitation *found, struct error *err)
{
    const struct bytes code = pg_bytes(rows, 0, 2), digest = pg_bytes(rows, 0, 5);
    struct error refused = {0};

    if (!runner_invitation_read(pg_bytes(rows, 0, 0), &found->invitation, &refused).ok)
        return refused.kind == ERROR_NO_MEMORY ? failure(err, ERROR_NO_MEMORY, "%s", refused.message) : SUCCESS;
    found->organisation = pg_uuid(rows, 0, 1);
    if (code.length == sizeof found->code) memcpy(found->code, code.data, sizeof found->code);
    if (digest.length == sizeof found->digest) memcpy(found->digest, digest.data, sizeof found->digest);
    found->expires_ms = pg_time_ms(rows, 0, 3);
    found->is_used = pg_bool(rows, 0, 4);
    return SUCCESS;
}

struct result invitation_find(struct pg *pg, const struct uuid *runner, struct found_invitation *found_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    *found_out = (struct found_invitation){.invitation = NULL};
    pg_add_uuid(&arguments, runner);
    TRY(pg_run(pg, &invitation_find_sql, &arguments, &rows, err));
    return pg_rows_count(rows) == 0 ? SUCCESS : read_found(rows, found_out, err);
}

struct result invitation_visit(const struct permit *permit, struct pg *pg, const struct invitation_query *query,
                               invitation_visitor *visit, void *context, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    require(permit, query->action, query->scope);
    pg_add_text(&arguments, query->scope);
    pg_add_uuid(&arguments, query->runner);
    pg_add_int8(&arguments, 2 * INVITATIONS_MAX);
    TRY(pg_run(pg, &invitation_list_sql, &arguments, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        const struct invitation_row row = {.runner = pg_uuid(rows, i, 0),
                                           .envelope = pg_bytes(rows, i, 1),
                                           .invited_by = pg_text(rows, i, 2),
                                           .name = pg_text(rows, i, 3),
                                           .invited_ms = pg_time_ms(rows, i, 4),
                                           .expires_ms = pg_time_ms(rows, i, 5),
                                           .used_ms = pg_time_ms(rows, i, 6)};
        TRY(visit(context, &row, err));
    }
    return SUCCESS;
}
