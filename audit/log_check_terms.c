#include <string.h>

#include "audit/format/posting.h"
#include "audit/format/search_terms.h"
#include "audit/log_check_priv.h"
#include "base/memory.h"

#define TERMS_MAX ((size_t)TILE_WIDTH * SEARCH_TERMS_MAX)

/* The words of the entries of one tile. */
struct tile_terms {
    uint64_t first; /* number of the tile's first entry */
    size_t count, key_count;
    struct tile_term {
        int64_t key;
        unsigned place; /* in the tile */
    } terms[TERMS_MAX];
    int64_t keys[TERMS_MAX]; /* each once, ascending */
};

static int compare_terms(const void *a, const void *b)
{
    const struct tile_term *left = a, *right = b;

    if (left->key != right->key) return left->key < right->key ? -1 : 1;
    return (left->place > right->place) - (left->place < right->place);
}

/* A leaf that can't be read has no words; check_rows() counts it. */
static struct result gather(struct tile_terms *terms, const struct pg_rows *rows, const struct archived_leaves *archived,
                            struct leaf *leaf, struct error *err)
{
    struct search_terms own;

    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        struct error why;
        const bool is_read = leaf_read(archived_leaf(archived, rows, i, CHECK_LEAF_COLUMN), leaf, &why).ok;
        if (!is_read && why.kind == ERROR_NO_MEMORY) return failure(err, why.kind, "%s", why.message);
        if (!is_read) continue;
        search_terms_of(leaf, &own);
        for (size_t k = 0; k < own.count; k++)
            terms->terms[terms->count++] =
                (struct tile_term){own.keys[k], (unsigned)((uint64_t)pg_int8(rows, i, 0) - terms->first)};
    }
    qsort(terms->terms, terms->count, sizeof terms->terms[0], compare_terms);
    for (size_t i = 0; i < terms->count; i++)
        if (i == 0 || terms->terms[i].key != terms->terms[i - 1].key) terms->keys[terms->key_count++] = terms->terms[i].key;
    return SUCCESS;
}

/* The stored places of a key; none if there is no row, or if it is no list. Rows come in the order of the keys. */
static struct posting places_of(const struct pg_rows *rows, size_t *at, int64_t key)
{
    struct posting places = {.words = {0}};
    struct error ignored;

    while (*at < pg_rows_count(rows) && pg_int8(rows, *at, 0) < key) ++*at;
    if (*at < pg_rows_count(rows) && pg_int8(rows, *at, 0) == key && !posting_add(&places, pg_bytes(rows, *at, 1), &ignored).ok)
        places = (struct posting){.words = {0}};
    return places;
}

static void compare(const struct tile_terms *terms, const struct pg_rows *rows, struct term_findings *found)
{
    bool is_missed[TILE_WIDTH] = {false};
    struct posting places = {.words = {0}};
    size_t at = 0;

    for (size_t i = 0; i < terms->count; i++) {
        const struct tile_term *term = &terms->terms[i];
        if (i == 0 || term->key != terms->terms[i - 1].key) places = places_of(rows, &at, term->key);
        if (!posting_has(&places, (unsigned)(terms->first % POSTING_BLOCK) + term->place)) is_missed[term->place] = true;
    }
    for (unsigned i = 0; i < TILE_WIDTH; i++) {
        if (is_missed[i] && found->missing == 0) found->first = terms->first + i;
        found->missing += is_missed[i];
    }
}

static struct result check_terms(struct log_check *check, uint64_t end, struct tile_terms *terms, struct term_findings *found,
                                 struct error *err)
{
    OWNED(pg_rows) *entries = NULL, *posts = NULL;
    OWNED(archived_leaves) *archived = NULL;

    TRY(check_load_entries(check->tiles.pg, terms->first, end - terms->first, &entries, err));
    archived = archived_share(check->archived, entries, (const size_t[2]){0, CHECK_LEAF_COLUMN});
    if (archived == NULL) TRY(archived_load(check->tiles.pg, entries, (const size_t[2]){0, CHECK_LEAF_COLUMN}, &archived, err));
    TRY(gather(terms, entries, archived, &check->leaf, err));
    TRY(check_load_posts(check->tiles.pg, terms->first / POSTING_BLOCK, terms->keys, terms->key_count, &posts, err));
    compare(terms, posts, found);
    return SUCCESS;
}

struct result log_check_terms(struct log_check *check, uint64_t index, struct term_findings *findings, struct error *err)
{
    const uint64_t first = index * TILE_WIDTH;
    struct term_findings found = *findings;
    uint64_t before = 0, after = 0;

    TRY(check_load_indexed(check->tiles.pg, &before, err));
    const uint64_t known = before < check->size ? before : check->size,
                   end = known < first + TILE_WIDTH ? known : first + TILE_WIDTH;
    if (end <= first) return SUCCESS;
    struct tile_terms *terms = memory_zeroed(1, sizeof *terms);
    if (terms == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for checking the index of searches");
    terms->first = first;
    const struct result checked = check_terms(check, end, terms, &found, err);
    free(terms);
    TRY(checked);
    TRY(check_load_indexed(check->tiles.pg, &after, err));
    if (after >= before) *findings = found; /* otherwise somebody has begun to make the index anew */
    return SUCCESS;
}
