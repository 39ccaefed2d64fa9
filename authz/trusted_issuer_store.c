#include "authz/trusted_issuer.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "authz/rights_priv.h"
#include "base/memory.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement trusted_issuer_put_sql = {
    "trusted_issuer_put",
    "INSERT INTO trusted_issuer (issuer_id, url, audience, algorithms, lifetime_max_s, jwks)"
    " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (url) DO UPDATE SET audience = $3, algorithms = $4,"
    " lifetime_max_s = $5, jwks = $6 RETURNING issuer_id",
    "uuid text text text[] int8 text", "uuid"};
static const struct pg_statement trusted_issuer_remove_sql = {
    "trusted_issuer_remove", "DELETE FROM trusted_issuer WHERE issuer_id = $1", "uuid", ""};
static const struct pg_statement trusted_issuer_list_sql = {
    "trusted_issuer_list",
    "SELECT issuer_id, url, audience, array_to_string(algorithms, ' '), lifetime_max_s, created_at"
    " FROM trusted_issuer WHERE url > $1 COLLATE \"C\" ORDER BY url COLLATE \"C\" LIMIT $2",
    "text int8", "uuid text text text int8 timestamptz"};
static const struct pg_statement *const statements[] = {
    &trusted_issuer_put_sql, &trusted_issuer_remove_sql, &trusted_issuer_list_sql,
};
/* clang-format on */
const struct pg_table trusted_issuer_table = PG_TABLE(statements);

static struct result try_keys(const struct issuer_record *record, struct error *err)
{
    OWNED(issuer) *issuer = NULL;

    return issuer_new(record, &issuer, err);
}

static struct result put(struct pg *pg, const struct issuer_record *record, struct uuid *id_out, struct error *err)
{
    struct bytes algorithms[JOSE_ALGORITHM_COUNT];
    const struct uuid id = uuid_random();
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};
    size_t count = 0;

    for (enum jose_algorithm i = 0; i < JOSE_ALGORITHM_COUNT; i++)
        if ((record->algorithms & 1U << i) != 0) algorithms[count++] = bytes_of_text(jose_algorithm_name(i));
    pg_add_uuid(&arguments, &id);
    pg_add_text(&arguments, record->url);
    pg_add_text(&arguments, record->audience);
    pg_add_text_array(&arguments, algorithms, count);
    pg_add_int8(&arguments, record->lifetime_max_s);
    pg_add_text(&arguments, record->jwks);
    TRY(pg_run(pg, &trusted_issuer_put_sql, &arguments, &rows, err));
    TRY(rights_raise_epoch(pg, &(struct uuid){{0}}, err));
    *id_out = pg_uuid(rows, 0, 0);
    return SUCCESS;
}

static struct result run_trust(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct issuer_trust *trust = (struct issuer_trust *)change;

    assert(permit_resource(permit, ACTION_ISSUER_TRUST)->kind == RESOURCE_SYSTEM);
    return put(pg, trust->record, &trust->id, err);
}

struct result issuer_trust_init(struct issuer_trust *trust, const struct issuer_record *record, struct error *err)
{
    TRY(try_keys(record, err));
    *trust = (struct issuer_trust){.change = {.run = run_trust, .raises_epoch = true}, .record = record};
    return SUCCESS;
}

static struct result run_remove(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct issuer_remove *remove = (const struct issuer_remove *)change;
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};
    int64_t before = 0;

    assert(permit_resource(permit, ACTION_ISSUER_REMOVE)->kind == RESOURCE_SYSTEM);
    TRY(rights_count_administrators(pg, &before, err));
    pg_add_uuid(&arguments, &remove->id);
    TRY(pg_run(pg, &trusted_issuer_remove_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such issuer");
    TRY(rights_keep_administrator(pg, before, err));
    return rights_raise_epoch(pg, &(struct uuid){{0}}, err);
}

void issuer_remove_init(struct issuer_remove *remove, const struct uuid *id)
{
    *remove = (struct issuer_remove){.change = {.run = run_remove, .raises_epoch = true}, .id = *id};
}

static void row_of(const struct pg_rows *rows, size_t row, struct issuer_row *row_out)
{
    struct issuer_row made = {.record = {.id = pg_uuid(rows, row, 0),
                                         .algorithms = jose_algorithms_of(pg_text(rows, row, 3)),
                                         .types = ISSUER_TYPES,
                                         .lifetime_max_s = (unsigned)pg_int8(rows, row, 4)},
                              .created_ms = pg_time_ms(rows, row, 5)};

    (void)snprintf(made.record.url, sizeof made.record.url, "%s", pg_text(rows, row, 1));
    (void)snprintf(made.record.audience, sizeof made.record.audience, "%s", pg_text(rows, row, 2));
    *row_out = made;
}

struct result issuer_list(const struct permit *permit, struct pg *pg, const char *after, size_t limit,
                          struct issuer_page *page_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    assert(limit <= ISSUER_PAGE_MAX && permit_resource(permit, ACTION_ISSUER_READ)->kind == RESOURCE_SYSTEM);
    pg_add_text(&arguments, after == NULL ? "" : after);
    pg_add_int8(&arguments, (int64_t)limit);
    TRY(pg_run(pg, &trusted_issuer_list_sql, &arguments, &rows, err));
    struct issuer_page page = {.count = pg_rows_count(rows)};
    page.rows = memory_zeroed(page.count + 1, sizeof *page.rows);
    if (page.rows == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for %zu issuers", page.count);
    for (size_t i = 0; i < page.count; i++) row_of(rows, i, &page.rows[i]);
    *page_out = page;
    return SUCCESS;
}
