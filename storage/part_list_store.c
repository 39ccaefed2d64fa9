#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "storage/part_list.h"
#include "storage/pg.h"
#include "storage/pg_table.h"

/* clang-format off */
#define CONNECTIONS_MAX 64 /* idle connections that are kept; further ones are closed */

static const struct pg_statement extent_next_sql = {"extent_next", "SELECT nextval('bucket_extent')", "", "int8"};
static const struct pg_statement multipart_begin_sql = {
    "multipart_begin",
    "INSERT INTO multipart (blob_id, extent, segment, upload_id) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
    "uuid int8 int4 text", ""};
static const struct pg_statement multipart_add_sql = {
    "multipart_add",
    "INSERT INTO multipart_piece (blob_id, extent, segment, place, size_bytes, part_number, etag)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
    "uuid int8 int4 int8 int8 int4 text", ""};
static const struct pg_statement multipart_pieces_sql = {
    "multipart_pieces",
    "SELECT segment, place, size_bytes, part_number, etag FROM multipart_piece WHERE blob_id = $1 AND extent = $2"
    " ORDER BY segment, place, size_bytes DESC, part_number DESC",
    "uuid int8", "int4 int8 int8 int4 text"};
static const struct pg_statement multipart_uploads_sql = {
    "multipart_uploads",
    "SELECT extent, segment, upload_id FROM multipart WHERE blob_id = $1 ORDER BY extent, segment",
    "uuid", "int8 int4 text"};
static const struct pg_statement multipart_forget_sql = {
    "multipart_forget",
    "WITH pieces AS (DELETE FROM multipart_piece WHERE blob_id = $1 AND extent = $2 AND segment = $3)"
    " DELETE FROM multipart WHERE blob_id = $1 AND extent = $2 AND segment = $3 RETURNING extent, segment, upload_id",
    "uuid int8 int4", "int8 int4 text"};
static const struct pg_statement multipart_forget_blob_sql = {
    "multipart_forget_blob",
    "WITH pieces AS (DELETE FROM multipart_piece WHERE blob_id = $1) DELETE FROM multipart WHERE blob_id = $1", "uuid", ""};
static const struct pg_statement *const statements[] = {
    &extent_next_sql, &multipart_begin_sql, &multipart_add_sql, &multipart_pieces_sql, &multipart_uploads_sql,
    &multipart_forget_sql, &multipart_forget_blob_sql,
};
/* clang-format on */

static const struct pg_table table = PG_TABLE(statements);
static const struct pg_table *const tables[] = {&table, NULL};

struct part_list {
    char *database; /* owned */
    pthread_mutex_t lock;
    struct pg *idle[CONNECTIONS_MAX];
    size_t idle_count;
};

/* ---- Connections ---- */

static struct result take(struct part_list *list, struct pg **pg_out, struct error *err)
{
    struct pg *pg = NULL;

    (void)pthread_mutex_lock(&list->lock);
    if (list->idle_count > 0) pg = list->idle[--list->idle_count];
    (void)pthread_mutex_unlock(&list->lock);
    if (pg == NULL) return pg_open(list->database, tables, pg_out, err);
    pg_notice_loss(pg);
    *pg_out = pg;
    return SUCCESS;
}

/* A broken connection is not kept. */
static void give(struct part_list *list, struct pg *pg)
{
    (void)pthread_mutex_lock(&list->lock);
    const bool is_kept = !pg_is_broken(pg) && list->idle_count < CONNECTIONS_MAX;
    if (is_kept) list->idle[list->idle_count++] = pg;
    (void)pthread_mutex_unlock(&list->lock);
    if (!is_kept) pg_free(pg);
}

static struct result run_on(struct pg *pg, const struct pg_statement *statement, const struct pg_arguments *arguments,
                            struct pg_rows **rows_out, struct error *err)
{
    if (pg_is_broken(pg)) TRY(pg_reopen(pg, err));
    return pg_run(pg, statement, arguments, rows_out, err);
}

/* Tries once more after a lost connection: no statement here does harm when it runs twice. */
static struct result run(struct part_list *list, const struct pg_statement *statement, const struct pg_arguments *arguments,
                         struct pg_rows **rows_out, struct error *err)
{
    struct pg *pg = NULL;

    TRY(take(list, &pg, err));
    struct result result = run_on(pg, statement, arguments, rows_out, err);
    if (!result.ok && pg_is_broken(pg)) result = run_on(pg, statement, arguments, rows_out, err);
    give(list, pg);
    if (!result.ok && err->kind == ERROR_UNCERTAIN) err->kind = ERROR_UNAVAILABLE;
    return result;
}

struct result part_list_new(const char *database, struct part_list **list_out, struct error *err)
{
    OWNED(part_list) *list = memory_zeroed(1, sizeof *list);
    struct pg *pg = NULL;

    if (list == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list of parts");
    (void)pthread_mutex_init(&list->lock, NULL);
    list->database = memory_copy_text(database, strlen(database));
    if (list->database == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list of parts");
    TRY(take(list, &pg, err));
    give(list, pg);
    *list_out = GIVE(list);
    return SUCCESS;
}

void part_list_free(struct part_list *list)
{
    if (list == NULL) return;
    while (list->idle_count > 0) pg_free(list->idle[--list->idle_count]);
    (void)pthread_mutex_destroy(&list->lock);
    free(list->database);
    free(list);
}

/* ---- Rows ---- */

static void add_name(struct pg_arguments *arguments, const struct extent_name *name)
{
    pg_add_uuid(arguments, &name->blob);
    pg_add_int8(arguments, name->extent);
}

struct result part_list_next_extent(struct part_list *list, uint32_t *extent_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(run(list, &extent_next_sql, NULL, &rows, err));
    if (pg_rows_count(rows) != 1) return failure(err, ERROR_CORRUPT, "the sequence bucket_extent gives no number");
    *extent_out = (uint32_t)pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result part_list_begin(struct part_list *list, const struct part_upload *upload, struct error *err)
{
    struct pg_arguments arguments = {0};

    add_name(&arguments, &upload->name);
    pg_add_int4(&arguments, (int32_t)upload->segment);
    pg_add_text(&arguments, upload->upload_id);
    return run(list, &multipart_begin_sql, &arguments, NULL, err);
}

struct result part_list_add(struct part_list *list, const struct extent_name *name, const struct part_piece *piece,
                            struct error *err)
{
    struct pg_arguments arguments = {0};

    add_name(&arguments, name);
    pg_add_int4(&arguments, (int32_t)piece->segment);
    pg_add_int8(&arguments, (int64_t)piece->offset);
    pg_add_int8(&arguments, (int64_t)piece->size_bytes);
    pg_add_int4(&arguments, (int32_t)piece->number);
    pg_add_text(&arguments, piece->etag);
    return run(list, &multipart_add_sql, &arguments, NULL, err);
}

static struct result read_piece(const struct pg_rows *rows, size_t row, struct part_piece *piece, struct error *err)
{
    const char *etag = pg_text(rows, row, 4);
    const size_t length = strlen(etag);

    if (length >= sizeof piece->etag) return failure(err, ERROR_CORRUPT, "a row of multipart_piece has a long etag");
    piece->segment = (uint32_t)pg_int8(rows, row, 0);
    piece->offset = (uint64_t)pg_int8(rows, row, 1);
    piece->size_bytes = (uint64_t)pg_int8(rows, row, 2);
    piece->number = (uint32_t)pg_int8(rows, row, 3);
    memcpy(piece->etag, etag, length + 1);
    return SUCCESS;
}

struct result part_list_pieces(struct part_list *list, const struct extent_name *name, struct part_piece **pieces_out,
                               size_t *count_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    add_name(&arguments, name);
    TRY(run(list, &multipart_pieces_sql, &arguments, &rows, err));
    const size_t count = pg_rows_count(rows);
    OWNED_STRING block = memory_zeroed(count + 1, sizeof(struct part_piece));
    if (block == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for %zu parts", count);
    struct part_piece *pieces = (void *)block;
    for (size_t i = 0; i < count; i++) TRY(read_piece(rows, i, &pieces[i], err));
    block = NULL;
    *pieces_out = pieces;
    *count_out = count;
    return SUCCESS;
}

static struct result visit_uploads(const struct pg_rows *rows, const struct uuid *blob, part_upload_visit *visit, void *context,
                                   struct error *err)
{
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        const struct part_upload upload = {.name = {*blob, (uint32_t)pg_int8(rows, i, 0)},
                                           .segment = (uint32_t)pg_int8(rows, i, 1),
                                           .upload_id = pg_text(rows, i, 2)};
        TRY(visit(context, &upload, err));
    }
    return SUCCESS;
}

struct result part_list_uploads(struct part_list *list, const struct uuid *blob, part_upload_visit *visit, void *context,
                                struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, blob);
    TRY(run(list, &multipart_uploads_sql, &arguments, &rows, err));
    return visit_uploads(rows, blob, visit, context, err);
}

struct result part_list_forget(struct part_list *list, const struct extent_name *name, uint32_t segment, part_upload_visit *visit,
                               void *context, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct pg_arguments arguments = {0};

    add_name(&arguments, name);
    pg_add_int4(&arguments, (int32_t)segment);
    TRY(run(list, &multipart_forget_sql, &arguments, &rows, err));
    return visit == NULL ? SUCCESS : visit_uploads(rows, &name->blob, visit, context, err);
}

struct result part_list_forget_blob(struct part_list *list, const struct uuid *blob, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, blob);
    return run(list, &multipart_forget_blob_sql, &arguments, NULL, err);
}
