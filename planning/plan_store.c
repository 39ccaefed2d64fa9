/* Reads the log, the content and the runs for plans. It changes nothing. */
#include "base/text.h"
#include "crypto/digest.h"
#include "planning/plan_priv.h"
#include "storage/pg_table.h"

#define SIZES_OF_PAGE 20000

/* clang-format off */
static const struct pg_statement plan_log_size_sql = {"plan_log_size", "SELECT size FROM audit_log", "", "int8"};
static const struct pg_statement plan_log_entry_sql = {
    "plan_log_entry", "SELECT ts FROM audit_entry WHERE seq >= $1 ORDER BY seq LIMIT 1", "int8", "int8"};
static const struct pg_statement plan_log_page_sql = {
    "plan_log_page",
    "SELECT seq, leaf FROM audit_entry WHERE seq >= $1 AND seq < $2 AND outcome IN ('allowed', 'denied') ORDER BY seq",
    "int8 int8", "int8 bytea"};
static const struct pg_statement plan_facts_sql = {"plan_facts", "SELECT facts FROM audit_facts WHERE digest = $1", "bytea", "bytea"};
static const struct pg_statement plan_set_envelope_sql = {
    "plan_set_envelope", "SELECT envelopes[1] FROM document WHERE kind = 1 AND digest = $1 LIMIT 1", "bytea", "bytea"};
static const struct pg_statement plan_repositories_sql = {
    "plan_repositories",
    "SELECT r.repository_id, o.name || '/' || p.name || '/' || r.name, p.home_region,"
    " (SELECT count(*) FROM manifest m WHERE m.repository_id = r.repository_id)"
    " FROM repository r JOIN project p USING (project_id) JOIN organisation o USING (organisation_id)"
    " WHERE r.repository_id > $1 AND r.deleted_at IS NULL AND p.deleted_at IS NULL ORDER BY r.repository_id LIMIT $2",
    "uuid int8", "uuid text text int8"};
static const struct pg_statement plan_has_repository_sql = {
    "plan_has_repository", "SELECT EXISTS (SELECT FROM repository WHERE full_name = $1 AND deleted_at IS NULL)", "text", "bool"};
static const struct pg_statement plan_repository_count_sql = {
    "plan_repository_count",
    "SELECT count(*) FROM repository r JOIN project p USING (project_id) WHERE r.deleted_at IS NULL AND p.deleted_at IS NULL", "", "int8"};
static const struct pg_statement plan_blobs_sql = {
    "plan_blobs",
    "SELECT l.digest, l.blob_id, b.size_bytes FROM repository_blob l JOIN blob b USING (blob_id)"
    " WHERE l.repository_id = $1 AND (l.digest, l.blob_id) > ($2, $3) ORDER BY l.digest, l.blob_id LIMIT $4",
    "uuid text uuid int8", "text uuid int8"};
static const struct pg_statement plan_manifests_sql = {
    "plan_manifests",
    "SELECT digest, repository_id, size_bytes::int8 FROM manifest WHERE repository_id = $1 AND digest > $2 AND $3::uuid IS NOT NULL"
    " ORDER BY digest LIMIT $4", /* parameters and columns as above */
    "uuid text uuid int8", "text uuid int8"};
static const struct pg_statement plan_open_runs_sql = {
    "plan_open_runs", /* where its runner is, as that said when it last asked; else where the policies of its order allow it */
    "SELECT r.number, r.run_id, o.name || '/' || p.name, r.state,"
    " coalesce((SELECT array_to_string(f.regions, ' ') FROM run_attempt a JOIN run_offer f USING (key) WHERE a.run_id = r.run_id"
    " AND a.ended_at IS NULL ORDER BY a.attempt DESC, a.node LIMIT 1), array_to_string(r.regions, ' ')), e.envelope,"
    " (SELECT count(*) FROM run_envelope a WHERE a.run_id = r.run_id AND a.kind = 'approval')"
    " FROM run r JOIN project p USING (project_id) JOIN organisation o USING (organisation_id)"
    " JOIN run_envelope e ON e.run_id = r.run_id AND e.kind = 'request' AND e.digest = r.request"
    " WHERE r.ended_at IS NULL AND r.number > $1 ORDER BY r.number LIMIT $2",
    "int8 int8", "int8 uuid text text text text int8"};
static const struct pg_statement *const statements[] = {
    &plan_log_size_sql, &plan_log_entry_sql, &plan_log_page_sql, &plan_facts_sql, &plan_set_envelope_sql, &plan_repositories_sql, &plan_has_repository_sql,
    &plan_repository_count_sql, &plan_blobs_sql, &plan_manifests_sql, &plan_open_runs_sql,
};
/* clang-format on */
const struct pg_table plan_table = PG_TABLE(statements);

static struct result read_number(struct pg *pg, const struct pg_statement *statement, uint64_t *number_out, struct error *err)
{
    const struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, statement, &arguments, &rows, err));
    *number_out = pg_rows_count(rows) == 0 ? 0 : (uint64_t)pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result plan_log_size(struct pg *pg, uint64_t *size_out, struct error *err)
{
    return read_number(pg, &plan_log_size_sql, size_out, err);
}

struct result plan_log_entry(struct pg *pg, uint64_t sequence, int64_t *time_ms_out, bool *is_there_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, (int64_t)sequence);
    TRY(pg_run(pg, &plan_log_entry_sql, &arguments, &rows, err));
    *is_there_out = pg_rows_count(rows) == 1;
    if (*is_there_out) *time_ms_out = pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result plan_log_page(struct pg *pg, uint64_t from, uint64_t until, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, (int64_t)from);
    pg_add_int8(&arguments, (int64_t)until);
    return pg_run(pg, &plan_log_page_sql, &arguments, rows_out, err);
}

struct result plan_facts(struct pg *pg, const uint8_t digest[LEAF_FACTS_DIGEST], struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_bytes(&arguments, (struct bytes){digest, LEAF_FACTS_DIGEST});
    return pg_run(pg, &plan_facts_sql, &arguments, rows_out, err);
}

struct result plan_set_envelope(struct pg *pg, const uint8_t digest[SHA256_SIZE], struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_bytes(&arguments, (struct bytes){digest, SHA256_SIZE});
    return pg_run(pg, &plan_set_envelope_sql, &arguments, rows_out, err);
}

struct result plan_repositories(struct pg *pg, const struct uuid *after, int64_t limit, struct pg_rows **rows_out,
                                struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, after);
    pg_add_int8(&arguments, limit);
    return pg_run(pg, &plan_repositories_sql, &arguments, rows_out, err);
}

struct result plan_has_repository(struct pg *pg, const char *name, bool *has_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, name);
    TRY(pg_run(pg, &plan_has_repository_sql, &arguments, &rows, err));
    *has_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result plan_repository_count(struct pg *pg, uint64_t *count_out, struct error *err)
{
    return read_number(pg, &plan_repository_count_sql, count_out, err);
}

/* Page by page: no statement may take long. */
static struct result add_sizes(struct pg *pg, const struct pg_statement *statement, const struct uuid *repository,
                               uint64_t *bytes, struct error *err)
{
    char digest[DIGEST_TEXT_SIZE] = "";
    struct uuid blob = {{0}};
    size_t count = SIZES_OF_PAGE;

    while (count == SIZES_OF_PAGE) {
        struct pg_arguments arguments = {0};
        OWNED(pg_rows) *rows = NULL;
        pg_add_uuid(&arguments, repository);
        pg_add_text(&arguments, digest);
        pg_add_uuid(&arguments, &blob);
        pg_add_int8(&arguments, SIZES_OF_PAGE);
        TRY(pg_run(pg, statement, &arguments, &rows, err));
        count = pg_rows_count(rows);
        for (size_t i = 0; i < count; i++) *bytes += (uint64_t)pg_int8(rows, i, 2);
        if (count == 0) break;
        (void)text_copy(digest, sizeof digest, pg_text(rows, count - 1, 0));
        blob = pg_uuid(rows, count - 1, 1);
    }
    return SUCCESS;
}

struct result plan_repository_bytes(struct pg *pg, const struct uuid *repository, uint64_t *bytes_out, struct error *err)
{
    uint64_t bytes = 0;

    TRY(add_sizes(pg, &plan_blobs_sql, repository, &bytes, err));
    TRY(add_sizes(pg, &plan_manifests_sql, repository, &bytes, err));
    *bytes_out = bytes;
    return SUCCESS;
}

struct result plan_open_runs(struct pg *pg, int64_t after, int64_t limit, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, after);
    pg_add_int8(&arguments, limit);
    return pg_run(pg, &plan_open_runs_sql, &arguments, rows_out, err);
}
