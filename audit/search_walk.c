#include "audit/search_walk_priv.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

/* One key: the rows that were read last, in the order of the walk. */
struct cursor {
    struct posting_key key;
    struct pg_rows *rows;
    size_t at, asked; /* the next row; how many rows were asked for */
    bool is_last;     /* there are no rows behind these */
};

struct group {
    size_t count;
    struct cursor *cursors;
};

struct search_walk {
    struct pg *pg;
    bool ascending;
    size_t count;
    struct group groups[SEARCH_GROUPS_MAX];
    size_t cursor_count;
    struct cursor cursors[SEARCH_GROUPS_MAX * WALK_KEYS_MAX];
};

struct result search_walk_new(struct pg *pg, bool ascending, struct search_walk **walk_out, struct error *err)
{
    struct search_walk *walk = memory_zeroed(1, sizeof *walk);

    if (walk == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a search");
    walk->pg = pg;
    walk->ascending = ascending;
    *walk_out = walk;
    return SUCCESS;
}

void search_walk_add(struct search_walk *walk, const struct posting_key *keys, size_t count)
{
    assert(walk->count < SEARCH_GROUPS_MAX && count <= WALK_KEYS_MAX);
    struct group *group = &walk->groups[walk->count++];
    group->cursors = &walk->cursors[walk->cursor_count];
    group->count = count;
    for (size_t i = 0; i < count; i++) walk->cursors[walk->cursor_count++].key = keys[i];
}

bool search_walk_is_free(const struct search_walk *walk)
{
    return walk->count == 0;
}

static bool is_before(const struct search_walk *walk, uint64_t a, uint64_t b)
{
    return walk->ascending ? a < b : a > b;
}

static uint64_t block_of(const struct cursor *cursor)
{
    return (uint64_t)pg_int8(cursor->rows, cursor->at, 0);
}

static bool has_row(const struct cursor *cursor)
{
    return cursor->rows != NULL && cursor->at < pg_rows_count(cursor->rows);
}

/* The first answers are short: a leap may make the rest useless. */
static struct result read_rows(struct search_walk *walk, struct cursor *cursor, uint64_t block, struct error *err)
{
    struct pg_rows *rows = NULL;

    cursor->asked = cursor->asked == 0 ? 2 : cursor->asked * 2;
    if (cursor->asked > POSTING_BLOCKS_MAX) cursor->asked = POSTING_BLOCKS_MAX;
    const struct posting_seek seek = {cursor->key, walk->ascending, block, cursor->asked};
    TRY(search_select_blocks(walk->pg, &seek, &rows, err));
    pg_rows_free(cursor->rows);
    cursor->rows = rows;
    cursor->at = 0;
    cursor->is_last = pg_rows_count(rows) < cursor->asked;
    return SUCCESS;
}

/* To the first row that is not before `block`. */
static struct result seek_cursor(struct search_walk *walk, struct cursor *cursor, uint64_t block, struct error *err)
{
    while (has_row(cursor) && is_before(walk, block_of(cursor), block)) cursor->at++;
    if (has_row(cursor) || cursor->is_last) return SUCCESS;
    return read_rows(walk, cursor, block, err);
}

/* *block_out: the first block of the group that is not before `block`. *has_one_out false: there is none. */
static struct result seek_group(struct search_walk *walk, struct group *group, uint64_t block, uint64_t *block_out,
                                bool *has_one_out, struct error *err)
{
    *has_one_out = false;
    for (size_t i = 0; i < group->count; i++) {
        struct cursor *cursor = &group->cursors[i];
        TRY(seek_cursor(walk, cursor, block, err));
        if (!has_row(cursor)) continue;
        if (!*has_one_out || is_before(walk, block_of(cursor), *block_out)) *block_out = block_of(cursor);
        *has_one_out = true;
    }
    return SUCCESS;
}

static struct result add_places(struct search_walk *walk, const struct cursor *cursor, uint64_t block, struct posting *places,
                                struct error *err)
{
    OWNED(pg_rows) *lists = NULL;

    if (!has_row(cursor) || block_of(cursor) != block) return SUCCESS;
    if (!cursor->key.is_blind) return posting_add(places, pg_bytes(cursor->rows, cursor->at, 1), err);
    TRY(search_select_blind(walk->pg, cursor->key.key, block, &lists, err));
    for (size_t i = 0; i < pg_rows_count(lists); i++) TRY(posting_add(places, pg_bytes(lists, i, 0), err));
    return SUCCESS;
}

/* A block may have rows of thousands of subjects under a blind key: they are read only if places are left. */
static struct result intersect_with(struct search_walk *walk, bool is_blind, struct walk_step *step, struct error *err)
{
    for (size_t i = 0; i < walk->count && !posting_is_empty(&step->places); i++) {
        const struct group *group = &walk->groups[i];
        struct posting any = {{0}};
        if (group->cursors[0].key.is_blind != is_blind) continue;
        for (size_t k = 0; k < group->count; k++) TRY(add_places(walk, &group->cursors[k], step->block, &any, err));
        posting_intersect(&step->places, &any);
    }
    return SUCCESS;
}

static struct result intersect(struct search_walk *walk, struct walk_step *step, struct error *err)
{
    memset(&step->places, 0xff, sizeof step->places);
    TRY(intersect_with(walk, false, step, err));
    return intersect_with(walk, true, step, err);
}

struct result search_walk_next(struct search_walk *walk, struct walk_step *step, struct error *err)
{
    size_t agreed = 0; /* groups in a row that have step->block */
    uint64_t block = 0;
    bool has_one = false;

    assert(walk->count > 0);
    step->is_end = step->is_late = false;
    for (size_t i = 0; agreed < walk->count; i = (i + 1) % walk->count) {
        step->is_late = clock_monotonic_ms() >= step->until_ms;
        if (step->is_late) return SUCCESS;
        TRY(seek_group(walk, &walk->groups[i], step->block, &block, &has_one, err));
        step->is_end = !has_one;
        if (step->is_end) return SUCCESS;
        agreed = block == step->block ? agreed + 1 : 1;
        step->block = block;
    }
    return intersect(walk, step, err);
}

void search_walk_free(struct search_walk *walk)
{
    if (walk == NULL) return;
    for (size_t i = 0; i < walk->cursor_count; i++) pg_rows_free(walk->cursors[i].rows);
    free(walk);
}
