#include "authz/trust_rule.h"

#include <stdio.h>

#include "authz/rights_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
/* Each use sweeps a few rows that have ended, so the table holds little more than the tokens that are still valid. */
static const struct pg_statement trust_token_spend_sql = {
    "trust_token_spend",
    "WITH swept AS (DELETE FROM spent_token WHERE digest IN"
    " (SELECT digest FROM spent_token WHERE expires_at <= now() ORDER BY expires_at LIMIT 16)),"
    " spent AS (INSERT INTO spent_token (digest, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING digest)"
    " SELECT digest FROM spent",
    "bytea timestamptz", "bytea"};
static const struct pg_statement *const statements[] = {
    &trust_token_spend_sql,
};
/* clang-format on */
const struct pg_table trust_rule_table = PG_TABLE(statements);

static struct result run_change(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct trust_rule_change *self = (struct trust_rule_change *)change; /* its first member */
    struct change *recording = &self->recording.change;

    if (self->is_compared) TRY(document_check_latest(permit, pg, &self->recording.row, self->read_until, err));
    TRY(recording->run(permit, recording, pg, err));
    return rights_raise_all(pg, err);
}

void trust_rule_change_init(struct trust_rule_change *change, const struct document_row *row, bool ends_draft,
                            const struct authz_snapshot *compared)
{
    change->is_compared = compared != NULL;
    change->read_until = compared == NULL ? 0 : trust_rules_read_until(authz_snapshot_rules(compared));
    change->change = (struct change){.run = run_change, .raises_epoch = true};
    document_change_init(&change->recording, row, ends_draft);
    change->change.detail = change->recording.change.detail;
}

static struct result spend(const struct trust_use *use, struct pg *pg, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_bytes(&arguments, (struct bytes){use->spent, sizeof use->spent});
    pg_add_time(&arguments, use->spent_until_ms);
    TRY(pg_run(pg, &trust_token_spend_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 1) return SUCCESS;
    return failure(
        err, ERROR_CONFLICT,
        "this token was used before, and the trust rule %.100s lets each be used once: ask the CI system for another one",
        use->key);
}

static struct result run_mint(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    static const struct resource where = {.kind = RESOURCE_SYSTEM};
    const struct trust_mint *mint = (const struct trust_mint *)change; /* its first member */

    permit_require(permit, ACTION_TOKEN_MINT, &where);
    return mint->use->single_use ? spend(mint->use, pg, err) : SUCCESS;
}

void trust_mint_init(struct trust_mint *mint, const struct trust_use *use, const char *scope)
{
    mint->change = (struct change){.run = run_mint, .invalidates = CHANGE_INVALIDATES_NOTHING, .detail = mint->detail};
    mint->use = use;
    (void)snprintf(mint->detail, sizeof mint->detail, "%s%srule %s %s", scope, scope[0] == '\0' ? "" : " ", use->key,
                   use->digest);
}
