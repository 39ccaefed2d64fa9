#include "authz/trusted_issuer.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "authz/issuer_jobs.h"
#include "authz/rights_priv.h"
#include "base/memory.h"
#include "base/text.h"
#include "storage/pg_table.h"

/* clang-format off */
#define COLUMNS                                                                                                   \
    "t.issuer_id, t.url, t.audience, array_to_string(t.algorithms, ' '), t.lifetime_max_s, t.created_at, t.follows," \
    " coalesce(t.keys_url, ''), f.confirmed_at, f.attempted_at, f.ended_at, f.due_at, coalesce(f.problem, '')"
#define COLUMN_TYPES "uuid text text text int8 timestamptz bool text timestamptz timestamptz timestamptz timestamptz text"

static const struct pg_statement trusted_issuer_put_sql = {
    "trusted_issuer_put",
    "INSERT INTO trusted_issuer AS t (issuer_id, url, audience, algorithms, lifetime_max_s, jwks, follows, keys_url)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (url) DO UPDATE SET audience = $3, algorithms = $4,"
    " lifetime_max_s = $5, jwks = CASE WHEN $7 THEN t.jwks ELSE $6 END, follows = $7, keys_url = $8 RETURNING issuer_id",
    "uuid text text text[] int8 text bool text", "uuid"};
/*
 * Keys that were given by hand count until the issuer is asked, and at most for as long as it would have confirmed them now. What an attempt brings that is
 * under way is thrown away, because it asks where the keys were.
 */
static const struct pg_statement trusted_issuer_follow_sql = {
    "trusted_issuer_follow",
    "INSERT INTO issuer_fetch (issuer_id, confirmed_at) SELECT issuer_id, CASE WHEN jwks <> '' THEN now() END FROM trusted_issuer WHERE issuer_id = $1"
    " ON CONFLICT (issuer_id) DO UPDATE SET due_at = now(), failures = 0, attempted_at = NULL, ended_at = NULL, problem = NULL, report = NULL",
    "uuid", ""};
static const struct pg_statement trusted_issuer_leave_sql = {
    "trusted_issuer_leave", "DELETE FROM issuer_fetch WHERE issuer_id = $1", "uuid", ""};
static const struct pg_statement trusted_issuer_check_sql = {
    "trusted_issuer_check",
    "UPDATE issuer_fetch SET due_at = least(due_at, greatest(now(), coalesce(attempted_at, now()) + make_interval(secs => ($2::int8)::float8))),"
    " ended_at = NULL WHERE issuer_id = $1",
    "uuid int8", ""};
static const struct pg_statement trusted_issuer_remove_sql = {
    "trusted_issuer_remove", "DELETE FROM trusted_issuer WHERE issuer_id = $1", "uuid", ""};
static const struct pg_statement trusted_issuer_list_sql = {
    "trusted_issuer_list",
    "SELECT " COLUMNS " FROM trusted_issuer t LEFT JOIN issuer_fetch f USING (issuer_id)"
    " WHERE url > $1 COLLATE \"C\" ORDER BY url COLLATE \"C\" LIMIT $2",
    "text int8", COLUMN_TYPES};
static const struct pg_statement trusted_issuer_find_sql = {
    "trusted_issuer_find",
    "SELECT " COLUMNS ", f.report, t.jwks FROM trusted_issuer t LEFT JOIN issuer_fetch f USING (issuer_id) WHERE t.issuer_id = $1",
    "uuid", COLUMN_TYPES " text text"};
static const struct pg_statement *const statements[] = {
    &trusted_issuer_put_sql,   &trusted_issuer_follow_sql, &trusted_issuer_leave_sql, &trusted_issuer_check_sql,
    &trusted_issuer_remove_sql, &trusted_issuer_list_sql,   &trusted_issuer_find_sql,
};
/* clang-format on */
const struct pg_table trusted_issuer_table = PG_TABLE(statements);

static struct result try_keys(const struct issuer_record *record, struct error *err)
{
    OWNED(issuer) *issuer = NULL;

    return issuer_new(record, &issuer, err);
}

static struct result follow(struct pg *pg, const struct uuid *id, bool follows, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, id);
    return pg_run(pg, follows ? &trusted_issuer_follow_sql : &trusted_issuer_leave_sql, &arguments, NULL, err);
}

static struct result put(struct pg *pg, const struct issuer_record *record, const char *keys_url, struct uuid *id_out,
                         struct error *err)
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
    pg_add_bool(&arguments, record->follows);
    pg_add_text(&arguments, keys_url);
    TRY(pg_run(pg, &trusted_issuer_put_sql, &arguments, &rows, err));
    *id_out = pg_uuid(rows, 0, 0);
    TRY(follow(pg, id_out, record->follows, err));
    return rights_raise_epoch(pg, &(struct uuid){{0}}, err);
}

static struct result run_trust(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct issuer_trust *trust = (struct issuer_trust *)change;

    assert(permit_resource(permit, ACTION_ISSUER_TRUST)->kind == RESOURCE_SYSTEM);
    return put(pg, trust->record, trust->keys_url, &trust->id, err);
}

struct result issuer_trust_init(struct issuer_trust *trust, const struct issuer_record *record, struct error *err)
{
    TRY(try_keys(record, err));
    *trust = (struct issuer_trust){.change = {.run = run_trust, .raises_epoch = true}, .record = record};
    return SUCCESS;
}

static struct result run_check(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct issuer_check *check = (const struct issuer_check *)(const void *)change; /* its first member */
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    assert(permit_resource(permit, ACTION_ISSUER_CHECK)->kind == RESOURCE_SYSTEM);
    pg_add_uuid(&arguments, &check->id);
    pg_add_int8(&arguments, ISSUER_CHECK_AGAIN_S);
    TRY(pg_run(pg, &trusted_issuer_check_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) > 0) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "there is no such issuer whose keys are fetched; those of others are given by hand");
}

void issuer_check_init(struct issuer_check *check, const struct uuid *id)
{
    *check = (struct issuer_check){.change = {.run = run_check, .invalidates = CHANGE_INVALIDATES_NOTHING}, .id = *id};
}

static struct result run_remove(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct issuer_remove *remove = (const struct issuer_remove *)change;
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};
    int64_t before = 0;

    assert(permit_resource(permit, ACTION_ISSUER_REMOVE)->kind == RESOURCE_SYSTEM);
    const struct officer_end end = {.issuer = &remove->id, .by = remove->removed_by};
    TRY(rights_keep_officer(pg, &end, err));
    TRY(rights_count_administrators(pg, &before, err));
    pg_add_uuid(&arguments, &remove->id);
    TRY(pg_run(pg, &trusted_issuer_remove_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such issuer");
    TRY(rights_keep_administrator(pg, before, err));
    return rights_raise_epoch(pg, &(struct uuid){{0}}, err);
}

void issuer_remove_init(struct issuer_remove *remove, const struct uuid *id, const struct principal *by)
{
    *remove = (struct issuer_remove){.change = {.run = run_remove, .raises_epoch = true}, .id = *id};
    principal_key(by, remove->removed_by);
}

static int64_t time_or_none(const struct pg_rows *rows, size_t row, size_t column)
{
    return pg_is_null(rows, row, column) ? 0 : pg_time_ms(rows, row, column);
}

static void row_of(const struct pg_rows *rows, size_t row, struct issuer_row *row_out)
{
    struct issuer_row made = {.record = {.id = pg_uuid(rows, row, 0),
                                         .algorithms = jose_algorithms_of(pg_text(rows, row, 3)),
                                         .types = ISSUER_TYPES,
                                         .lifetime_max_s = (unsigned)pg_int8(rows, row, 4),
                                         .follows = pg_bool(rows, row, 6),
                                         .confirmed_ms = time_or_none(rows, row, 8)},
                              .created_ms = pg_time_ms(rows, row, 5),
                              .attempted_ms = time_or_none(rows, row, 9),
                              .ended_ms = time_or_none(rows, row, 10),
                              .due_ms = time_or_none(rows, row, 11)};

    (void)snprintf(made.record.url, sizeof made.record.url, "%s", pg_text(rows, row, 1));
    (void)snprintf(made.record.audience, sizeof made.record.audience, "%s", pg_text(rows, row, 2));
    (void)text_copy(made.keys_url, sizeof made.keys_url, pg_text(rows, row, 7));
    (void)text_copy(made.problem, sizeof made.problem, pg_text(rows, row, 12));
    *row_out = made;
}

struct result issuer_find(const struct permit *permit, enum action action, struct pg *pg, const struct uuid *id,
                          struct issuer_found *found, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    assert(action == ACTION_ISSUER_READ || action == ACTION_ISSUER_CHECK || action == ACTION_ISSUER_TRUST);
    assert(permit_resource(permit, action)->kind == RESOURCE_SYSTEM);
    pg_add_uuid(&arguments, id);
    TRY(pg_run(pg, &trusted_issuer_find_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such issuer");
    row_of(rows, 0, &found->row);
    if (!pg_is_null(rows, 0, 13)) TRY(buffer_add_text(&found->report, pg_text(rows, 0, 13), err));
    return buffer_add_text(&found->jwks, pg_text(rows, 0, 14), err);
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
