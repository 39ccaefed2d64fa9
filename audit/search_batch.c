#include "audit/search_batch_priv.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"

#define SLICE 2048 /* rows of one statement: at most 1 MiB of lists */

/* Rows of one statement, each with a key (and a subject), and its list. */
struct slice {
    size_t count;
    int64_t keys[SLICE];
    struct bytes subjects[SLICE], lists[SLICE];
    uint8_t memory[SLICE][POSTING_BYTES];
};

struct result search_batch_new(struct search_batch **batch_out, struct error *err)
{
    OWNED(search_batch) *batch = memory_zeroed(1, sizeof *batch);

    if (batch != NULL) {
        batch->open = memory_zeroed(BATCH_TERMS_MAX, sizeof *batch->open);
        batch->blind = memory_zeroed(BATCH_BLIND_MAX, sizeof *batch->blind);
    }
    if (batch == NULL || batch->open == NULL || batch->blind == NULL)
        return failure(err, ERROR_NO_MEMORY, "no memory for the index of searches");
    *batch_out = GIVE(batch);
    return SUCCESS;
}

void search_batch_begin(struct search_batch *batch, uint64_t block, bool is_first)
{
    batch->block = block;
    batch->is_first = is_first;
    batch->open_count = batch->blind_count = 0;
}

bool search_batch_has_room(const struct search_batch *batch)
{
    return batch->open_count + SEARCH_TERMS_MAX <= BATCH_TERMS_MAX && batch->blind_count + BLIND_VALUES_MAX <= BATCH_BLIND_MAX;
}

void search_batch_add(struct search_batch *batch, unsigned place, int64_t key)
{
    assert(batch->open_count < BATCH_TERMS_MAX);
    batch->open[batch->open_count++] = (struct batch_term){.key = key, .place = (uint16_t)place};
}

void search_batch_add_blind(struct search_batch *batch, unsigned place, int64_t key, const uint8_t subject[32])
{
    assert(batch->blind_count < BATCH_BLIND_MAX);
    struct batch_term *term = &batch->blind[batch->blind_count++];
    term->key = key;
    term->place = (uint16_t)place;
    memcpy(term->subject, subject, sizeof term->subject);
}

static int compare_rows(const struct batch_term *a, const struct batch_term *b)
{
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return memcmp(a->subject, b->subject, sizeof a->subject);
}

static int compare_terms(const void *a, const void *b)
{
    return compare_rows(a, b);
}

struct terms {
    struct batch_term *terms;
    size_t count;
    bool are_blind;
};

/* The stored rows come in the order of the terms. Rows of other subjects with the same key are passed over. */
struct stored {
    struct pg_rows *rows;
    size_t at;
    bool is_blind;
};

static struct batch_term stored_row(const struct stored *stored)
{
    struct batch_term row = {.key = pg_int8(stored->rows, stored->at, 0)};

    if (stored->is_blind) memcpy(row.subject, pg_bytes(stored->rows, stored->at, 1).data, sizeof row.subject);
    return row;
}

static struct result add_stored(struct stored *stored, const struct batch_term *wanted, struct posting *posting,
                                struct error *err)
{
    for (; stored->rows != NULL && stored->at < pg_rows_count(stored->rows); stored->at++) {
        const struct batch_term row = stored_row(stored);
        const int order = compare_rows(&row, wanted);
        if (order > 0) return SUCCESS;
        if (order == 0) return posting_add(posting, pg_bytes(stored->rows, stored->at, stored->is_blind ? 2 : 1), err);
    }
    return SUCCESS;
}

/* Takes the keys of as many rows as a statement has; returns the number of their terms. */
static size_t take_keys(const struct batch_term *terms, size_t count, struct slice *slice)
{
    size_t i = 0;

    slice->count = 0;
    while (i < count) {
        if (slice->count == SLICE) return i;
        const struct batch_term *first = &terms[i];
        slice->keys[slice->count] = first->key;
        slice->subjects[slice->count++] = (struct bytes){first->subject, sizeof first->subject};
        while (i < count && compare_rows(&terms[i], first) == 0) i++;
    }
    return i;
}

static size_t distinct(const struct slice *slice, int64_t keys_out[SLICE])
{
    size_t count = 0;

    for (size_t i = 0; i < slice->count; i++)
        if (count == 0 || keys_out[count - 1] != slice->keys[i]) keys_out[count++] = slice->keys[i];
    return count;
}

static struct result select_stored(const struct search_batch *batch, const struct slice *slice, struct pg *pg,
                                   struct stored *stored, struct error *err)
{
    int64_t keys[SLICE];

    if (batch->is_first) return SUCCESS;
    const size_t count = distinct(slice, keys);
    if (stored->is_blind) return search_index_select_blind(pg, batch->block, keys, count, &stored->rows, err);
    return search_index_select(pg, batch->block, keys, count, &stored->rows, err);
}

static struct result fill_lists(const struct batch_term *terms, size_t count, struct stored *stored, struct slice *slice,
                                struct error *err)
{
    size_t i = 0;

    for (size_t row = 0; row < slice->count; row++) {
        struct posting posting = {{0}};
        const struct batch_term *first = &terms[i];
        TRY(add_stored(stored, first, &posting, err));
        for (; i < count && compare_rows(&terms[i], first) == 0; i++) posting_set(&posting, terms[i].place);
        slice->lists[row] = (struct bytes){slice->memory[row], posting_write(&posting, slice->memory[row])};
    }
    return SUCCESS;
}

/* Of the terms that are left, those of one statement. */
static struct result write_slice(const struct search_batch *batch, struct terms *left, struct slice *slice, struct pg *pg,
                                 struct error *err)
{
    struct stored stored = {.is_blind = left->are_blind};
    const size_t taken = take_keys(left->terms, left->count, slice);
    const struct search_rows rows = {batch->block, slice->count, slice->keys, slice->subjects, slice->lists};

    TRY(select_stored(batch, slice, pg, &stored, err));
    const struct result filled = fill_lists(left->terms, taken, &stored, slice, err);
    pg_rows_free(stored.rows);
    TRY(filled);
    left->terms += taken;
    left->count -= taken;
    return left->are_blind ? search_index_put_blind(pg, &rows, err) : search_index_put(pg, &rows, err);
}

static struct result write_terms(const struct search_batch *batch, struct terms left, struct slice *slice, struct pg *pg,
                                 struct error *err)
{
    if (left.count > 0) qsort(left.terms, left.count, sizeof *left.terms, compare_terms);
    while (left.count > 0) TRY(write_slice(batch, &left, slice, pg, err));
    return SUCCESS;
}

struct result search_batch_write(struct search_batch *batch, struct pg *pg, struct error *err)
{
    struct slice *slice = memory_zeroed(1, sizeof *slice);

    if (slice == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for rows of the index of searches");
    struct result result = write_terms(batch, (struct terms){batch->open, batch->open_count, false}, slice, pg, err);
    if (result.ok) result = write_terms(batch, (struct terms){batch->blind, batch->blind_count, true}, slice, pg, err);
    free(slice);
    return result;
}

void search_batch_free(struct search_batch *batch)
{
    if (batch == NULL) return;
    free(batch->open);
    free(batch->blind);
    free(batch);
}
