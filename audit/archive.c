#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "audit/archive_priv.h"
#include "audit/log_check_priv.h"
#include "audit/published_priv.h"
#include "audit/search_find_priv.h"
#include "audit/subject_priv.h"
#include "base/memory.h"

#define ARCHIVE_ISSUER "sijil:archive"             /* of the subjects whose keys seal pieces */
#define TABLE_BYTES    ((size_t)2 * ARCHIVE_PIECE) /* the lengths of the entries */
#define PIECE_MAX      (TABLE_BYTES + (size_t)ARCHIVE_PIECE * LEAF_MAX)

static _Atomic(const struct archive_store *) in_use;

void archive_use(const struct archive_store *store)
{
    atomic_store(&in_use, store);
}

static struct result store_in_use(const struct archive_store **store_out, struct error *err)
{
    *store_out = atomic_load(&in_use);
    return *store_out != NULL
               ? SUCCESS
               : failure(err, ERROR_UNAVAILABLE, "this program can't read entries of the log that are in a region");
}

static struct result key_of_piece(const struct archive_store *store, struct pg *pg, uint64_t piece, bool makes,
                                  struct secret **key_out, struct error *err)
{
    char text[24]; /* a u64 in decimal */

    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)piece);
    return subject_key_find(store->keyd, pg, (const char *const[2]){ARCHIVE_ISSUER, text}, makes, key_out, err);
}

/* ---- reading ---- */

struct archived_leaves {
    unsigned shares;
    uint64_t first; /* the entry of the first row */
    size_t count;   /* of rows, each with the entry behind that of the row before, if they can be shared */
    uint8_t *memory;
    size_t length, room;
    struct archived_view {
        size_t at, length; /* in `memory`; length 0: the row has its own leaf */
    } views[];
};

/* One piece that is open. */
struct piece {
    const struct archive_store *store;
    struct archive_place place;
    struct secret *key;
    uint64_t first;
    uint8_t lengths[TABLE_BYTES];
};

static struct result open_piece(struct pg *pg, uint64_t number, struct piece *piece, struct error *err)
{
    TRY(store_in_use(&piece->store, err));
    if (!archive_select(pg, number, &piece->place, err).ok) {
        if (err->kind != ERROR_NOT_FOUND) return (struct result){.ok = false};
        return failure(err, ERROR_FORKED, "entry %llu of the log has no bytes, and is not archived",
                       (unsigned long long)(number * ARCHIVE_PIECE));
    }
    piece->first = number * ARCHIVE_PIECE;
    if (!key_of_piece(piece->store, pg, number, false, &piece->key, err).ok) {
        if (err->kind != ERROR_NOT_FOUND) return (struct result){.ok = false};
        return failure(err, ERROR_CORRUPT, "the key of piece %llu of the archived log is missing", (unsigned long long)number);
    }
    if (piece->place.content.length < TABLE_BYTES || piece->place.content.length > PIECE_MAX)
        return failure(err, ERROR_CORRUPT, "piece %llu of the archived log has a wrong length", (unsigned long long)number);
    const struct archive_range table = {0, sizeof piece->lengths, piece->lengths};
    return piece->store->read(piece->store->context, &piece->place, piece->key, &table, err);
}

static uint64_t offset_in(const struct piece *piece, size_t entry)
{
    uint64_t offset = TABLE_BYTES;

    for (size_t i = 0; i < entry; i++) offset += load_u16(piece->lengths + 2 * i);
    return offset;
}

static struct result make_room(struct archived_leaves *leaves, size_t more, struct error *err)
{
    if (leaves->room - leaves->length >= more) return SUCCESS;
    uint8_t *memory = memory_resize(leaves->memory, leaves->length + more);
    if (memory == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for archived entries");
    leaves->memory = memory;
    leaves->room = leaves->length + more;
    return SUCCESS;
}

static struct result read_entries(const struct piece *piece, size_t first, size_t last, struct archived_leaves *leaves,
                                  struct error *err)
{
    const uint64_t from = offset_in(piece, first), until = offset_in(piece, last + 1);

    if (until > piece->place.content.length) return failure(err, ERROR_CORRUPT, "a piece of the archived log is damaged");
    TRY(make_room(leaves, (size_t)(until - from), err));
    const struct archive_range range = {from, (size_t)(until - from), leaves->memory + leaves->length};
    TRY(piece->store->read(piece->store->context, &piece->place, piece->key, &range, err));
    leaves->length += range.length;
    return SUCCESS;
}

struct wanted {
    const struct pg_rows *rows;
    const size_t *columns;
};

static bool is_wanted(const struct wanted *wanted, size_t row)
{
    return !pg_is_null(wanted->rows, row, wanted->columns[1]) && pg_bytes(wanted->rows, row, wanted->columns[1]).length == 0;
}

static uint64_t number_at(const struct wanted *wanted, size_t row)
{
    return (uint64_t)pg_int8(wanted->rows, row, wanted->columns[0]);
}

/* Rows side by side whose entries are in one piece, and the range of these entries. */
struct span {
    size_t from, until;
    uint64_t lowest, highest;
};

static struct span take_rows(const struct wanted *wanted, size_t row)
{
    const uint64_t first = number_at(wanted, row);
    struct span span = {row, row, first, first};

    for (; span.until < pg_rows_count(wanted->rows); span.until++) {
        const uint64_t number = number_at(wanted, span.until);
        if (number / ARCHIVE_PIECE != first / ARCHIVE_PIECE) break;
        if (!is_wanted(wanted, span.until)) continue;
        if (number < span.lowest) span.lowest = number;
        if (number > span.highest) span.highest = number;
    }
    return span;
}

static struct result load_rows(const struct wanted *wanted, const struct span *span, struct piece *piece,
                               struct archived_leaves *leaves, struct error *err)
{
    const size_t base = leaves->length, first = (size_t)(span->lowest - piece->first);

    TRY(read_entries(piece, first, (size_t)(span->highest - piece->first), leaves, err));
    for (size_t row = span->from; row < span->until; row++) {
        if (!is_wanted(wanted, row)) continue;
        const size_t entry = (size_t)(number_at(wanted, row) - piece->first);
        leaves->views[row].at = base + (size_t)(offset_in(piece, entry) - offset_in(piece, first));
        leaves->views[row].length = load_u16(piece->lengths + 2 * entry);
    }
    return SUCCESS;
}

static struct result load_all(struct pg *pg, const struct wanted *wanted, struct archived_leaves *leaves, struct error *err)
{
    struct piece *piece = memory_zeroed(1, sizeof *piece);
    struct result result = piece == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for archived entries") : SUCCESS;

    for (size_t row = 0, next; row < pg_rows_count(wanted->rows) && result.ok; row = next) {
        next = row + 1;
        if (!is_wanted(wanted, row)) continue;
        const struct span span = take_rows(wanted, row);
        next = span.until;
        result = open_piece(pg, span.lowest / ARCHIVE_PIECE, piece, err);
        if (result.ok) result = load_rows(wanted, &span, piece, leaves, err);
        secret_free(piece->key);
        piece->key = NULL;
    }
    free(piece);
    return result;
}

struct result archived_load(struct pg *pg, const struct pg_rows *rows, const size_t columns[2],
                            struct archived_leaves **leaves_out, struct error *err)
{
    const struct wanted wanted = {rows, columns};
    const size_t count = pg_rows_count(rows);
    size_t i = 0;

    *leaves_out = NULL;
    while (i < count && !is_wanted(&wanted, i)) i++;
    if (i == count) return SUCCESS;
    OWNED(archived_leaves) *leaves = memory_zeroed(1, sizeof *leaves + count * sizeof leaves->views[0]);
    if (leaves == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for archived entries");
    leaves->shares = 1;
    leaves->first = number_at(&wanted, 0);
    leaves->count = count;
    TRY(load_all(pg, &wanted, leaves, err));
    *leaves_out = GIVE(leaves);
    return SUCCESS;
}

struct archived_leaves *archived_share(struct archived_leaves *leaves, const struct pg_rows *rows, const size_t columns[2])
{
    const struct wanted wanted = {rows, columns};

    if (leaves == NULL || pg_rows_count(rows) != leaves->count) return NULL;
    for (size_t row = 0; row < leaves->count; row++)
        if (number_at(&wanted, row) != leaves->first + row || (is_wanted(&wanted, row) && leaves->views[row].length == 0))
            return NULL;
    leaves->shares++;
    return leaves;
}

struct bytes archived_leaf(const struct archived_leaves *leaves, const struct pg_rows *rows, size_t row, size_t column)
{
    if (leaves == NULL || leaves->views[row].length == 0) return pg_bytes(rows, row, column);
    return (struct bytes){leaves->memory + leaves->views[row].at, leaves->views[row].length};
}

void archived_leaves_free(struct archived_leaves *leaves)
{
    if (leaves == NULL || --leaves->shares > 0) return;
    free(leaves->memory);
    free(leaves);
}

/* ---- writing ---- */

static struct result add_entries(const struct pg_rows *rows, struct buffer *content, struct error *err)
{
    for (size_t i = 0; i < ARCHIVE_PIECE; i++) {
        const struct bytes leaf = pg_bytes(rows, i, 0);
        if (leaf.length == 0 || leaf.length > LEAF_MAX)
            return failure(err, ERROR_FORKED, "an entry of the log has no bytes, and is not archived");
        TRY(buffer_add_u16(content, (uint16_t)leaf.length, err));
    }
    for (size_t i = 0; i < ARCHIVE_PIECE; i++) {
        const struct bytes leaf = pg_bytes(rows, i, 0);
        TRY(buffer_add(content, leaf.data, leaf.length, err));
    }
    return SUCCESS;
}

static struct result check_tiles(struct log_check *check, uint64_t piece, struct error *err)
{
    const uint64_t first = piece * (ARCHIVE_PIECE / TILE_WIDTH);

    for (uint64_t i = 0; i < ARCHIVE_PIECE / TILE_WIDTH; i++) TRY(log_check_tile(check, first + i, err));
    return SUCCESS;
}

/* What is written is read again, so that only a piece that can be read is noted. */
static struct result write_and_compare(const struct archive_store *store, const char *region, const struct secret *key,
                                       struct bytes content, struct archive_place *place_out, struct error *err)
{
    struct archive_place place;
    uint8_t *again = memory_resize(NULL, content.length);
    struct result result = again == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for a piece of the log")
                                         : store->write(store->context, region, key, content, &place, err);

    const struct archive_range whole = {0, content.length, again};
    if (result.ok) result = store->read(store->context, &place, key, &whole, err);
    if (result.ok && !bytes_equal(content, (struct bytes){again, content.length}))
        result = failure(err, ERROR_CORRUPT, "region %s gave back other bytes than it got", region);
    free(again);
    if (result.ok) *place_out = place;
    return result;
}

static struct result archive_piece(struct log_check *check, const char *region, uint64_t piece, struct archive_place *place_out,
                                   struct error *err)
{
    struct buffer OWNED_BUFFER content = BUFFER(PIECE_MAX);
    struct pg *pg = check->tiles.pg;
    const struct archive_store *store = NULL;
    OWNED(pg_rows) *rows = NULL;
    OWNED(secret) *key = NULL;

    TRY(store_in_use(&store, err));
    TRY(check_tiles(check, piece, err));
    TRY(published_select_entries(pg, piece * ARCHIVE_PIECE, ARCHIVE_PIECE, &rows, err));
    TRY(add_entries(rows, &content, err));
    TRY(key_of_piece(store, pg, piece, true, &key, err));
    return write_and_compare(store, region, key, buffer_bytes(&content), place_out, err);
}

struct result archive_entry_at(const struct permit *permit, struct pg *pg, int64_t wall_ms, uint64_t size, uint64_t *number_out,
                               struct error *err)
{
    (void)permit_resource(permit, ACTION_AUDIT_ARCHIVE);
    return search_entry_at(pg, wall_ms, size, number_out, err);
}

static struct result note_pieces(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct archive_commit *commit = (const struct archive_commit *)(const void *)change; /* its first member */
    const struct resource *where = permit_resource(permit, ACTION_AUDIT_ARCHIVE);

    for (size_t i = 0; i < commit->count; i++) {
        assert(strcmp(commit->places[i].region, where->region) == 0);
        TRY(archive_insert(pg, commit->first + i, &commit->places[i], commit->sequence, err));
    }
    return SUCCESS;
}

struct result archive_run(const struct permit *permit, struct pg *pg, const struct archive_step *step,
                          struct archive_commit *commit_out, struct archive_progress *progress_out, struct error *err)
{
    const struct resource *where = permit_resource(permit, ACTION_AUDIT_ARCHIVE);
    const uint64_t end = step->before < step->newest->size ? step->before : step->newest->size;
    struct archive_commit *commit = commit_out;
    struct result written = SUCCESS;
    OWNED(log_check) *check = NULL;
    uint64_t piece = 0;

    assert(where->kind == RESOURCE_SYSTEM && where->region[0] != '\0' && step->pieces <= ARCHIVE_PIECES_MAX);
    *commit = (struct archive_commit){.change = {.run = note_pieces}, .sequence = permit_sequence(permit)};
    TRY(log_check_new(pg, &check, err));
    log_check_against(check, step->newest->size, &step->newest->root);
    TRY(archive_next_piece(pg, &piece, err));
    commit->first = piece;
    for (; written.ok && commit->count < step->pieces && (piece + 1) * ARCHIVE_PIECE <= end; piece += written.ok) {
        written = archive_piece(check, where->region, piece, &commit->places[commit->count], err);
        commit->count += written.ok;
    }
    if (commit->count == 0) TRY(written);
    progress_out->archived = commit->count;
    progress_out->next = piece * ARCHIVE_PIECE;
    progress_out->is_done = (piece + 1) * ARCHIVE_PIECE > end;
    return SUCCESS;
}

void archive_drop(const struct archive_commit *commit)
{
    const struct archive_store *store = NULL;
    struct error ignored = {0};

    for (size_t i = 0; i < commit->count && store_in_use(&store, &ignored).ok; i++)
        (void)store->remove(store->context, &commit->places[i], &ignored).ok; /* what stays is ciphertext that no row names */
}
