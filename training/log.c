#include "training/log.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "training/log_priv.h"

#define MERGED 32 /* small pieces that become one, so that a chatty run has few rows and objects */

/* ---- reading a range ---- */

/* Appends what the pieces have from `at` on. ERROR_CORRUPT: a piece between them is missing. */
static struct result read_pieces(struct registry *registry, const struct log_piece *pieces, size_t count, uint64_t at,
                                 struct buffer *into, struct error *err)
{
    for (size_t i = 0; i < count && into->length < into->maximum; i++) {
        const struct log_piece *piece = &pieces[i];
        if (piece->start > at || piece->start + piece->length <= at)
            return failure(err, ERROR_CORRUPT, "a log of a run has no piece at %llu", (unsigned long long)at);
        const uint64_t skipped = at - piece->start;
        const size_t room = into->maximum - into->length, left = piece->length - (size_t)skipped;
        const struct piece_range range = {skipped, left < room ? left : room};
        TRY(piece_read(registry, &piece->where, &piece->sealed, &range, into, err));
        at += range.length;
    }
    return SUCCESS;
}

/* Until the buffer has its maximum, or the log ends. */
static struct result read_range(struct registry *registry, struct pg *pg, const struct log_id *log, uint64_t offset,
                                struct buffer *into, struct error *err)
{
    struct log_piece *pieces = memory_zeroed(LOG_PIECES_MAX, sizeof *pieces);
    const size_t before = into->length;
    size_t count = LOG_PIECES_MAX;
    struct result result = SUCCESS;

    if (pieces == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to read a log");
    while (result.ok && count == LOG_PIECES_MAX && into->length < into->maximum) {
        const uint64_t at = offset + (into->length - before);
        result = log_rows_from(pg, log, at, pieces, &count, err);
        if (result.ok) result = read_pieces(registry, pieces, count, at, into, err);
    }
    free(pieces);
    return result;
}

/* ---- writing ---- */

static struct result begin(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct run_log_begin *begin = (const struct run_log_begin *)(const void *)change; /* its first member */
    struct uuid repository;

    permit_require(permit, ACTION_RUN_APPEND, &begin->where);
    TRY(piece_repository(begin->registry, pg, &begin->where, &repository, err));
    return log_row_begin(pg, begin, &repository, err);
}

void run_log_begin_prepare(const struct registry *registry, const struct resource *where, const struct run_holder *holder,
                           int64_t bytes_max, struct run_log_begin *begin_out)
{
    *begin_out = (struct run_log_begin){.change = {.run = begin, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                        .registry = registry,
                                        .where = *where,
                                        .holder = *holder,
                                        .bytes_max = bytes_max};
}

static struct log_id id_of(const struct run_holder *holder)
{
    return (struct log_id){holder->run, holder->attempt, holder->node};
}

/* A piece that does not begin at the end: was it taken already, and its answer lost? */
static struct result compare(struct registry *registry, struct pg *pg, const struct run_log_append *append, uint64_t end,
                             enum run_log_taken *taken_out, struct error *err)
{
    struct buffer OWNED_BUFFER kept = BUFFER(append->bytes.length);
    const struct log_id log = id_of(append->holder);

    *taken_out = RUN_LOG_ELSEWHERE;
    if (append->offset > end || append->bytes.length > end - append->offset) return SUCCESS;
    TRY(read_range(registry, pg, &log, append->offset, &kept, err));
    if (bytes_equal(buffer_bytes(&kept), append->bytes)) *taken_out = RUN_LOG_TAKEN;
    return SUCCESS;
}

/* Failures do no harm: the pieces stay as they are, and the next append tries again. */
static struct result merge(struct registry *registry, struct pg *pg, const struct run_log_append *append, uint64_t end,
                           struct error *err)
{
    struct buffer OWNED_BUFFER content = BUFFER(PIECE_MAX);
    const struct log_id log = id_of(append->holder);
    struct log_piece merged = {.where = *append->where};

    TRY(log_row_tail(pg, &log, MERGED, end, &merged.start, err));
    if (merged.start == end || end - merged.start > PIECE_MAX) return SUCCESS;
    TRY(read_range(registry, pg, &log, merged.start, &content, err));
    merged.length = content.length;
    if (merged.start + merged.length != end) return SUCCESS; /* it has grown meanwhile */
    TRY(piece_seal(registry, pg, append->where, buffer_bytes(&content), &merged.sealed, err));
    return log_row_merge(pg, &log, &merged, err);
}

static struct result check(const struct log_row *row, const struct run_log_append *append, struct error *err)
{
    if (!row->is_live) return failure(err, ERROR_CONFLICT, "the lease has ended: its log takes nothing more");
    if (!row->is_begun || row->is_gone) return failure(err, ERROR_CONFLICT, "the log of this attempt is closed");
    if (append->offset > row->bytes_max || append->bytes.length > row->bytes_max - append->offset)
        return failure(err, ERROR_LIMIT, "the order allows %llu bytes of log", (unsigned long long)row->bytes_max);
    return SUCCESS;
}

static struct result add(struct registry *registry, struct pg *pg, const struct run_log_append *append, bool *is_added_out,
                         struct error *err)
{
    struct sealed_piece piece;

    TRY(piece_seal(registry, pg, append->where, append->bytes, &piece, err));
    return log_row_append(pg, append, &piece, is_added_out, err);
}

struct result run_log_append(struct registry *registry, struct pg *pg, const struct run_log_append *append,
                             enum run_log_taken *taken_out, uint64_t *bytes_out, struct error *err)
{
    struct log_row row;
    struct error ignored = {0};
    bool is_added = false;

    assert(append->bytes.length > 0 && append->bytes.length <= RUN_LOG_PIECE_MAX);
    TRY(log_row_find(pg, append->holder, &row, err));
    TRY(check(&row, append, err));
    if (row.bytes == append->offset) TRY(add(registry, pg, append, &is_added, err));
    if (!is_added) {
        TRY(log_row_find(pg, append->holder, &row, err)); /* another request of this runner may have been faster */
        TRY(check(&row, append, err));
        *bytes_out = row.bytes;
        return compare(registry, pg, append, row.bytes, taken_out, err);
    }
    *bytes_out = append->offset + append->bytes.length;
    *taken_out = RUN_LOG_TAKEN;
    (void)merge(registry, pg, append, *bytes_out, &ignored).ok;
    return SUCCESS;
}

/* ---- reading ---- */

static struct result add_reader(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct run_log_reader *reader = (const struct run_log_reader *)(const void *)change; /* its first member */

    permit_require(permit, ACTION_RUN_LOG, &reader->where);
    return log_row_add_reader(pg, reader, err);
}

void run_log_reader_prepare(const struct resource *where, const struct uuid *run, const char *principal,
                            struct run_log_reader *reader_out)
{
    *reader_out = (struct run_log_reader){.change = {.run = add_reader, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                          .where = *where,
                                          .run = *run,
                                          .principal = principal};
}

struct result run_log_read(struct registry *registry, struct pg *pg, const struct run_log_query *query,
                           struct run_log_view *view_out, struct buffer *bytes, struct error *err)
{
    struct run_log_view view;

    TRY(log_row_view(pg, query, &view, err));
    const struct log_id log = {query->run, view.attempt, query->node};
    if (!view.is_gone && query->offset < view.bytes) TRY(read_range(registry, pg, &log, query->offset, bytes, err));
    *view_out = view;
    return SUCCESS;
}
