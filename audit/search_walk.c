#include "audit/search_walk_priv.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

/* Lists of a wide key: of the subjects that a narrow key has in the blocks from `first` to `last`, in the order of the walk. */
struct ahead {
    struct pg_rows *rows;
    uint64_t first, last;
    size_t asked; /* how many lists were asked for */
};

/* One key: the rows that were read last, in the order of the walk. */
struct cursor {
    struct posting_key key;
    struct pg_rows *rows;
    size_t count, at, asked; /* rows of whole blocks; the next row; how many rows were asked for */
    bool is_last;            /* there are no rows behind these */
    struct ahead ahead;      /* of a wide key */
};

struct group {
    size_t count;
    struct cursor *cursors;
};

/* Whose rows of wide keys are read in a block. */
struct holders {
    struct posting_subjects of; /* are_all: of everybody */
    const struct cursor *by;    /* that has them here, and those of later blocks; NULL: several have them */
};

/* The places of one group in a block. */
struct meeting {
    struct posting places;
    const struct holders *holders;
    struct posting_subjects subjects; /* that have rows of a narrow key here; are_all: perhaps others, too */
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

static uint64_t block_at(const struct cursor *cursor, size_t row)
{
    return (uint64_t)pg_int8(cursor->rows, row, 0);
}

static uint64_t block_of(const struct cursor *cursor)
{
    return block_at(cursor, cursor->at);
}

static bool has_row(const struct cursor *cursor)
{
    return cursor->rows != NULL && cursor->at < cursor->count;
}

/* The first answers are short: a leap may make the rest useless. */
static size_t next_count(const struct cursor *cursor)
{
    const bool is_narrow = cursor->key.kind == POSTING_NARROW;
    const size_t first = is_narrow ? 16 : 2, most = is_narrow ? POSTING_SUBJECTS_MAX : POSTING_BLOCKS_MAX;

    if (cursor->asked == 0) return first;
    return cursor->asked * 2 > most ? most : cursor->asked * 2;
}

/* Further rows of the last block may be behind the answer; then it does not count. */
static size_t count_whole(const struct cursor *cursor)
{
    size_t count = pg_rows_count(cursor->rows);

    if (cursor->is_last || cursor->key.kind != POSTING_NARROW) return count;
    const uint64_t last = block_at(cursor, count - 1);
    while (count > 0 && block_at(cursor, count - 1) == last) count--;
    return count;
}

static struct result read_once(struct search_walk *walk, struct cursor *cursor, uint64_t block, struct error *err)
{
    struct pg_rows *rows = NULL;

    cursor->asked = next_count(cursor);
    const struct posting_seek seek = {cursor->key, walk->ascending, block, cursor->asked};
    TRY(search_select_blocks(walk->pg, &seek, &rows, err));
    pg_rows_free(cursor->rows);
    cursor->rows = rows;
    cursor->at = 0;
    cursor->is_last = pg_rows_count(rows) < cursor->asked;
    cursor->count = count_whole(cursor);
    return SUCCESS;
}

/* A narrow key with a block of more subjects than an answer has becomes wide, as a country is: an address of many clients. */
static struct result read_rows(struct search_walk *walk, struct cursor *cursor, uint64_t block, struct error *err)
{
    do {
        if (cursor->key.kind == POSTING_NARROW && cursor->asked == POSTING_SUBJECTS_MAX && cursor->count == 0) {
            cursor->key.kind = POSTING_WIDE;
            cursor->asked = 0;
        }
        TRY(read_once(walk, cursor, block, err));
    } while (cursor->count == 0 && !cursor->is_last);
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

/* Each row of a narrow key in the block, and its subject. */
static struct result add_narrow(const struct cursor *cursor, struct posting *places, struct posting_subjects *subjects,
                                struct error *err)
{
    const uint64_t block = block_of(cursor);

    for (size_t i = cursor->at; i < cursor->count && block_at(cursor, i) == block; i++) {
        TRY(posting_add(places, pg_bytes(cursor->rows, i, 1), err));
        if (subjects->count == POSTING_SUBJECTS_MAX) subjects->are_all = true;
        else subjects->ids[subjects->count++] = pg_int8(cursor->rows, i, 2);
    }
    return SUCCESS;
}

static struct result add_all(struct search_walk *walk, const struct cursor *cursor, struct posting *places, struct error *err)
{
    OWNED(pg_rows) *lists = NULL;

    TRY(search_select_blind(walk->pg, cursor->key.key, block_of(cursor), &lists, err));
    for (size_t i = 0; i < pg_rows_count(lists); i++) TRY(posting_add(places, pg_bytes(lists, i, 0), err));
    return SUCCESS;
}

/* Whole blocks, one at first: where most places meet, the page is full after it. */
static void pairs_of_later_blocks(const struct cursor *by, size_t wanted, struct posting_pairs *pairs)
{
    for (size_t i = by->at; i < by->count && pairs->count < POSTING_SUBJECTS_MAX; i++) {
        if (pairs->count >= wanted && block_at(by, i) != block_at(by, i - 1)) return;
        pairs->blocks[pairs->count] = pg_int8(by->rows, i, 0);
        pairs->subjects[pairs->count++] = pg_int8(by->rows, i, 2);
    }
}

static void pairs_of_block(uint64_t block, const struct posting_subjects *of, struct posting_pairs *pairs)
{
    for (; pairs->count < of->count; pairs->count++) {
        pairs->blocks[pairs->count] = (int64_t)block;
        pairs->subjects[pairs->count] = of->ids[pairs->count];
    }
}

/* A narrow key's rows are known for blocks that the walk comes to later: their lists of the wide key are read together. */
static struct result read_ahead(struct search_walk *walk, struct cursor *cursor, const struct holders *holders, struct error *err)
{
    struct ahead *ahead = &cursor->ahead;
    const uint64_t block = block_of(cursor);
    struct posting_pairs pairs = {.count = 0};
    struct pg_rows *rows = NULL;

    if (ahead->rows != NULL && !is_before(walk, block, ahead->first) && !is_before(walk, ahead->last, block)) return SUCCESS;
    ahead->asked = ahead->asked * 2 > POSTING_SUBJECTS_MAX ? POSTING_SUBJECTS_MAX : ahead->asked * 2 + (ahead->asked == 0);
    if (holders->by != NULL) pairs_of_later_blocks(holders->by, ahead->asked, &pairs);
    else pairs_of_block(block, &holders->of, &pairs);
    TRY(search_select_pairs(walk->pg, cursor->key.key, &pairs, &rows, err));
    pg_rows_free(ahead->rows);
    ahead->rows = rows;
    ahead->first = block;
    ahead->last = (uint64_t)pairs.blocks[pairs.count - 1];
    return SUCCESS;
}

static struct result add_wide(struct search_walk *walk, struct cursor *cursor, const struct holders *holders,
                              struct posting *places, struct error *err)
{
    const struct ahead *ahead = &cursor->ahead;

    if (holders->of.are_all) return add_all(walk, cursor, places, err);
    TRY(read_ahead(walk, cursor, holders, err));
    for (size_t i = 0; i < pg_rows_count(ahead->rows); i++)
        if ((uint64_t)pg_int8(ahead->rows, i, 0) == block_of(cursor)) TRY(posting_add(places, pg_bytes(ahead->rows, i, 1), err));
    return SUCCESS;
}

static struct result add_places(struct search_walk *walk, struct cursor *cursor, struct meeting *meeting, struct error *err)
{
    if (cursor->key.kind == POSTING_OPEN) return posting_add(&meeting->places, pg_bytes(cursor->rows, cursor->at, 1), err);
    if (cursor->key.kind == POSTING_NARROW) return add_narrow(cursor, &meeting->places, &meeting->subjects, err);
    meeting->subjects.are_all = true;
    return add_wide(walk, cursor, meeting->holders, &meeting->places, err);
}

/* The subjects of a narrow group are the only ones whose rows of a wide key can have a place that is left. */
static struct result intersect_group(struct search_walk *walk, const struct group *group, struct holders *holders,
                                     struct walk_step *step, struct error *err)
{
    struct meeting meeting = {.holders = holders, .subjects.count = 0};

    for (size_t i = 0; i < group->count; i++) {
        struct cursor *cursor = &group->cursors[i];
        if (has_row(cursor) && block_of(cursor) == step->block) TRY(add_places(walk, cursor, &meeting, err));
    }
    posting_intersect(&step->places, &meeting.places);
    if (meeting.subjects.count > 0 && !meeting.subjects.are_all)
        *holders = (struct holders){meeting.subjects, group->count == 1 ? group->cursors : NULL};
    return SUCCESS;
}

static enum posting_kind kind_of(const struct group *group)
{
    enum posting_kind kind = POSTING_OPEN;

    for (size_t i = 0; i < group->count; i++)
        if (group->cursors[i].key.kind > kind) kind = group->cursors[i].key.kind;
    return kind;
}

/* A block may have rows of thousands of subjects under a wide key: they are read last, and only if places are left. */
static struct result intersect(struct search_walk *walk, struct walk_step *step, struct error *err)
{
    struct holders holders = {.of.are_all = true};

    memset(&step->places, 0xff, sizeof step->places);
    for (enum posting_kind kind = POSTING_OPEN; kind <= POSTING_WIDE; kind++)
        for (size_t i = 0; i < walk->count && !posting_is_empty(&step->places); i++)
            if (kind_of(&walk->groups[i]) == kind) TRY(intersect_group(walk, &walk->groups[i], &holders, step, err));
    return SUCCESS;
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
    for (size_t i = 0; i < walk->cursor_count; i++) {
        pg_rows_free(walk->cursors[i].rows);
        pg_rows_free(walk->cursors[i].ahead.rows);
    }
    free(walk);
}
