#include <stdio.h>
#include <string.h>

#include "audit/archive_priv.h"
#include "base/text.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement archive_select_sql = {
    "archive_select", "SELECT region_id, blob_id, size_bytes, part, digest FROM audit_archive WHERE piece = $1", "int8",
    "text uuid int8 int8 bytea"};
static const struct pg_statement archive_next_sql = { /* pieces have no gap, so that this is one look at the index */
    "archive_next", "SELECT coalesce(max(piece) + 1, 0) FROM audit_archive", "", "int8"};
static const struct pg_statement archive_insert_sql = {
    "archive_insert", "INSERT INTO audit_archive (piece, region_id, blob_id, size_bytes, part, digest, sequence)"
                      " SELECT $1, $2, $3, $4, $5, $6, $7 WHERE $1 = (SELECT coalesce(max(piece) + 1, 0) FROM audit_archive)"
                      " ON CONFLICT DO NOTHING RETURNING piece",
    "int8 text uuid int8 int8 bytea int8", "int8"};
static const struct pg_statement *const statements[] = {&archive_select_sql, &archive_next_sql, &archive_insert_sql};
/* clang-format on */
const struct pg_table audit_archive_table = PG_TABLE(statements);

static struct result read_place(const struct pg_rows *rows, struct archive_place *place, struct error *err)
{
    const struct bytes digest = pg_bytes(rows, 0, 4);

    if (!text_copy(place->region, sizeof place->region, pg_text(rows, 0, 0)) || digest.length != SHA256_SIZE)
        return failure(err, ERROR_CORRUPT, "a row of the archive of the log is damaged");
    place->blob = pg_uuid(rows, 0, 1);
    place->content = (struct blob_content){.length = (uint64_t)pg_int8(rows, 0, 2), .part = (uint32_t)pg_int8(rows, 0, 3)};
    place->content.digest.algorithm = DIGEST_SHA256;
    memcpy(place->content.digest.bytes, digest.data, digest.length);
    return SUCCESS;
}

struct result archive_select(struct pg *pg, uint64_t piece, struct archive_place *place_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, (int64_t)piece);
    TRY(pg_run(pg, &archive_select_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "no such piece of the log");
    return read_place(rows, place_out, err);
}

struct result archive_next_piece(struct pg *pg, uint64_t *piece_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &archive_next_sql, NULL, &rows, err));
    *piece_out = (uint64_t)pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result archive_insert(struct pg *pg, uint64_t piece, const struct archive_place *place, uint64_t sequence,
                             struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int8(&arguments, (int64_t)piece);
    pg_add_text(&arguments, place->region);
    pg_add_uuid(&arguments, &place->blob);
    pg_add_int8(&arguments, (int64_t)place->content.length);
    pg_add_int8(&arguments, (int64_t)place->content.part);
    pg_add_bytes(&arguments, (struct bytes){place->content.digest.bytes, SHA256_SIZE});
    pg_add_int8(&arguments, (int64_t)sequence);
    TRY(pg_run(pg, &archive_insert_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 1) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "another gateway archives the log now; ask again later");
}
