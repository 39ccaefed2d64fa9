#include <stdio.h>
#include <string.h>

#include "authz/group_login.h"
#include "authz/rights_priv.h"
#include "authz/scim_rights_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
/* A row of a newer token stays. Each use sweeps a few rows that have ended. The event tells the digest of what the row says. */
static const struct pg_statement group_login_write_sql = {
    "group_login_write",
    "WITH swept AS (DELETE FROM group_login WHERE (issuer, subject) IN"
    " (SELECT issuer, subject FROM group_login WHERE until <= now() AND (issuer, subject) <> ($1, $2) ORDER BY until LIMIT 16)),"
    " written AS (INSERT INTO group_login AS l (issuer, subject, groups, issued_at, until, told) VALUES ($1, $2, $3, $4, now() + interval '24 hours', $5)"
    " ON CONFLICT (issuer, subject) DO UPDATE SET groups = excluded.groups, issued_at = excluded.issued_at, until = excluded.until,"
    " told = excluded.told, salt = excluded.salt"
    " WHERE l.issued_at <= excluded.issued_at RETURNING told_groups(salt, issuer, subject, groups) AS digest)"
    " SELECT digest FROM written",
    "text text text[] timestamptz int8", "text"};
static const struct pg_statement group_login_raise_sql = {
    "group_login_raise",
    "WITH raised AS (SELECT raise_authorization_epoch(organisation_id, false) AS epoch FROM organisation"
    " WHERE name = ANY($1) OR organisation_id = ANY($2)) SELECT count(*) FROM raised",
    "text[] uuid[]", "int8"};
static const struct pg_statement *const statements[] = {
    &group_login_write_sql, &group_login_raise_sql,
};
/* clang-format on */
const struct pg_table group_login_table = PG_TABLE(statements);

/* Appends to the detail of the event. */
static void tell(struct group_mint *mint, const char *word, const char *what)
{
    const size_t length = strlen(mint->detail);

    (void)snprintf(mint->detail + length, sizeof mint->detail - length, "%s%s", word, what);
}

static struct result write_row(struct group_mint *mint, struct pg *pg, uint64_t entry, struct error *err)
{
    const struct group_use *use = mint->use;
    struct pg_arguments arguments = {0};
    struct bytes groups[GROUP_LOGIN_MAX];
    OWNED(pg_rows) *rows = NULL;

    for (size_t i = 0; i < use->count; i++) groups[i] = bytes_of_text(use->groups[i]);
    pg_add_text(&arguments, use->issuer);
    pg_add_text(&arguments, use->subject);
    pg_add_text_array(&arguments, groups, use->count);
    pg_add_time(&arguments, use->issued_ms);
    pg_add_int8(&arguments, (int64_t)entry);
    TRY(pg_run(pg, &group_login_write_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 1) tell(mint, " " GROUP_LOGIN_TOLD, pg_text(rows, 0, 0));
    return SUCCESS;
}

static struct result raise_epoch(const struct group_use *use, struct pg *pg, struct error *err)
{
    struct pg_arguments arguments = {0};
    struct bytes names[GROUP_ORGANISATIONS_MAX], left[GROUP_ORGANISATIONS_MAX];
    OWNED(pg_rows) *rows = NULL;

    if (use->is_everywhere) return rights_raise_all(pg, err);
    for (size_t i = 0; i < use->organisation_count; i++) names[i] = bytes_of_text(use->organisations[i]);
    for (size_t i = 0; i < use->left_count; i++) left[i] = uuid_bytes(&use->left[i]);
    pg_add_text_array(&arguments, names, use->organisation_count);
    pg_add_uuid_array(&arguments, left, use->left_count);
    TRY(pg_run(pg, &group_login_raise_sql, &arguments, &rows, err));
    /* If the organisations were deleted since: the change has said that it raises the epoch. */
    return pg_int8(rows, 0, 0) > 0 ? SUCCESS : rights_raise_all(pg, err);
}

static struct result join(struct group_mint *mint, struct pg *pg, uint64_t entry, struct error *err)
{
    const struct scim_joining joining = {mint->use->issuer, mint->use->subject, mint->use->external_id, entry};
    char told[SCIM_TOLD_SIZE];

    TRY(scim_join(pg, &joining, told, err));
    tell(mint, "", told);
    return rights_raise_epoch(pg, &(const struct uuid){{0}}, err);
}

static struct result run_mint(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    static const struct resource where = {.kind = RESOURCE_SYSTEM};
    struct group_mint *mint = (struct group_mint *)(void *)change; /* its first member */

    permit_require(permit, ACTION_TOKEN_MINT, &where);
    mint->detail[mint->length] = '\0'; /* the change may run again */
    if (mint->use->is_new) TRY(write_row(mint, pg, permit_sequence(permit), err));
    if (mint->use->external_id[0] != '\0') TRY(join(mint, pg, permit_sequence(permit), err));
    return raise_epoch(mint->use, pg, err);
}

void group_mint_init(struct group_mint *mint, const struct group_use *use, const char *scope)
{
    mint->change =
        (struct change){.run = run_mint, .raises_epoch = true, .invalidates = CHANGE_INVALIDATES_NOTHING, .detail = mint->detail};
    mint->use = use;
    (void)snprintf(mint->detail, sizeof mint->detail, "%s%sgroups %zu", scope, scope[0] == '\0' ? "" : " ", use->count);
    mint->length = strlen(mint->detail);
    if (use->external_id[0] == '\0') return;
    mint->change.concerns_issuer = use->issuer;
    mint->change.concerns_subject = use->external_id;
}
