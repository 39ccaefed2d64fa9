#include <string.h>

#include "registry/project_rules.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement rules_set_sql = {
    "rules_set",
    "INSERT INTO project_rules AS r (project_id, version, document, immutable_repositories, immutable_tags)"
    " SELECT project_id, 1, $2, $3, $4 FROM project WHERE project_id = $1"
    " ON CONFLICT (project_id) DO UPDATE SET version = r.version + 1, document = excluded.document,"
    " immutable_repositories = excluded.immutable_repositories, immutable_tags = excluded.immutable_tags, changed_at = now()",
    "uuid text text[] text[]", ""};
static const struct pg_statement rules_document_sql = {
    "rules_document",
    "SELECT coalesce(r.document, '{}') FROM project p LEFT JOIN project_rules r USING (project_id) WHERE p.project_id = $1",
    "uuid", "text"};
static const struct pg_statement *const statements[] = {
    &rules_set_sql, &rules_document_sql,
};
/* clang-format on */
const struct pg_table rules_statements = PG_TABLE(statements);

/* Patterns for LIKE in one buffer, and the end of each. */
struct likes {
    struct buffer text;
    size_t ends[RULES_MAX];
    struct bytes views[RULES_MAX];
};

static struct result add_like(struct likes *likes, size_t index, const char *pattern, struct error *err)
{
    TRY(pattern_write_like(&likes->text, pattern, err));
    likes->ends[index] = likes->text.length;
    return SUCCESS;
}

static void view_likes(struct likes *likes, size_t count)
{
    for (size_t i = 0, from = 0; i < count; from = likes->ends[i++])
        likes->views[i] = (struct bytes){likes->text.data + from, likes->ends[i] - from};
}

static struct result set(struct pg *pg, const struct rules_change *change, struct likes *repositories, struct likes *tags,
                         struct error *err)
{
    const struct rules *rules = change->rules;
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    for (size_t i = 0; i < rules->immutable_count; i++) {
        TRY(add_like(repositories, i, rules->immutable[i].repositories, err));
        TRY(add_like(tags, i, rules->immutable[i].tags, err));
    }
    view_likes(repositories, rules->immutable_count);
    view_likes(tags, rules->immutable_count);
    pg_add_uuid(&arguments, &change->where.project);
    pg_add_text(&arguments, change->document);
    pg_add_text_array(&arguments, repositories->views, rules->immutable_count);
    pg_add_text_array(&arguments, tags->views, rules->immutable_count);
    TRY(pg_run(pg, &rules_set_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : failure(err, ERROR_NOT_FOUND, "there is no such project");
}

/* In the transaction of the change, so that nobody else changes the document meanwhile. */
static struct result check_present(struct pg *pg, struct rules_change *change, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    if (change->holds == NULL) return SUCCESS;
    pg_add_uuid(&arguments, &change->where.project);
    TRY(pg_run(pg, &rules_document_sql, &arguments, &rows, err));
    change->is_refused = pg_rows_count(rows) == 1 && !change->holds(change->context, pg_text(rows, 0, 0));
    return change->is_refused ? failure(err, ERROR_CONFLICT, "the rules of the project were changed meanwhile") : SUCCESS;
}

static struct result run_set(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct rules_change *rules = (struct rules_change *)(void *)change; /* its first member */
    struct likes repositories = {.text = BUFFER(2 * RULES_MAX * PATTERN_MAX)}, tags = repositories;

    permit_require(permit, ACTION_PROJECT_RULES, &rules->where);
    TRY(check_present(pg, rules, err));
    const struct result result = set(pg, rules, &repositories, &tags, err);
    buffer_done(&repositories.text);
    buffer_done(&tags.text);
    return result;
}

struct result rules_change_prepare(const struct resource *where, const char *document, const struct rules *rules,
                                   struct rules_change *change_out, struct error *err)
{
    if (uuid_is_nil(&where->project)) return failure(err, ERROR_NOT_FOUND, "there is no such project");
    *change_out = (struct rules_change){.change = {.run = run_set, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                        .where = *where,
                                        .document = document,
                                        .rules = rules};
    return SUCCESS;
}

struct result rules_document(const struct permit *permit, struct pg *pg, const struct resource *where, struct buffer *document,
                             struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, ACTION_PROJECT_READ, where);
    pg_add_uuid(&arguments, &where->project);
    TRY(pg_run(pg, &rules_document_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such project");
    return buffer_add_text(document, pg_text(rows, 0, 0), err);
}
