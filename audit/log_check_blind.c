/* The index of addresses, networks and countries (audit/search_blind_priv.h): it must list each event under what its sealed part and its facts say. */
#include <string.h>

#include "audit/format/posting.h"
#include "audit/log_check_priv.h"
#include "audit/search_blind_priv.h"
#include "base/memory.h"
#include "crypto/secret.h"

#define PLACES_MAX ((size_t)TILE_WIDTH * BLIND_VALUES_MAX)
#define LOOKS      2 /* while places are missing: the index may be made again, under other keys, between a key and its rows */

/* Where the index must have the entries of one page. */
struct blind_places {
    const struct payload_keys *keys;
    struct audit_page *page;
    struct country_memo *memo;
    struct secret *key; /* of `year`; NULL: that year has none, or one that does not open */
    int year;           /* 0: none yet */
    bool is_missed[TILE_WIDTH];
    size_t count, key_count;
    struct blind_place {
        int64_t key;
        uint8_t subject[32];
        unsigned entry; /* of the page */
    } each[PLACES_MAX];
    int64_t each_key[PLACES_MAX]; /* each once, ascending */
};

static void blind_places_free(struct blind_places *places)
{
    if (places == NULL) return;
    secret_free(places->key);
    country_memo_free(places->memo);
    free(places);
}
DEFINE_OWNED(blind_places);

static struct result open_year(struct blind_places *places, struct pg *pg, int year, struct error *err)
{
    if (places->year == year) return SUCCESS;
    secret_free(places->key);
    places->key = NULL;
    const struct result opened = blind_key_open(places->keys->keyd, pg, year, false, &places->key, err);
    if (!opened.ok && (err->kind == ERROR_UNAVAILABLE || err->kind == ERROR_NO_MEMORY)) return opened;
    places->year = year;
    return SUCCESS;
}

static void add_place(struct blind_places *places, size_t entry, const uint8_t subject[32], const struct blind_value *value)
{
    struct blind_place *place = &places->each[places->count++];

    place->key = blind_key_of(places->key, value->field, value->text);
    memcpy(place->subject, subject, sizeof place->subject);
    place->entry = (unsigned)entry;
}

/* As search_index.c adds an event. An event with places in a year without a key can't be found by them. */
static struct result gather_one(struct blind_places *places, struct log_check *check, size_t i, struct error *err)
{
    const struct blind_reader reader = {{places->keys->keyd, places->keys->origin, NULL}, places->memo};
    const struct bytes subject = audit_page_subject(places->page, i);
    struct blind_values values;

    if (subject.length != 32 || !audit_page_is_readable(places->page, i)) return SUCCESS;
    TRY(leaf_read(audit_page_leaf(places->page, i), &check->leaf, err));
    TRY(blind_values_of(places->page, i, &check->leaf, &reader, &values, err));
    struct result opened = SUCCESS;
    if (values.count > 0) opened = open_year(places, check->tiles.pg, blind_year(check->leaf.time_ms), err);
    if (opened.ok && values.count > 0 && places->key == NULL) places->is_missed[i] = true;
    for (size_t k = 0; opened.ok && places->key != NULL && k < values.count; k++)
        add_place(places, i, subject.data, &values.values[k]);
    secret_wipe(&values, sizeof values);
    return opened;
}

/* In the order of the index's rows. */
static int compare_places(const void *a, const void *b)
{
    const struct blind_place *left = a, *right = b;

    if (left->key != right->key) return left->key < right->key ? -1 : 1;
    return memcmp(left->subject, right->subject, sizeof left->subject);
}

static struct result gather(struct blind_places *places, struct log_check *check, size_t count, struct error *err)
{
    places->count = places->key_count = 0;
    places->year = 0; /* the key is asked for again: its row may be another one */
    memset(places->is_missed, 0, sizeof places->is_missed);
    for (size_t i = 0; i < count; i++) TRY(gather_one(places, check, i, err));
    qsort(places->each, places->count, sizeof places->each[0], compare_places);
    for (size_t i = 0; i < places->count; i++)
        if (i == 0 || places->each[i].key != places->each[i - 1].key) places->each_key[places->key_count++] = places->each[i].key;
    return SUCCESS;
}

static int compare_with_row(const struct blind_place *place, const struct pg_rows *rows, size_t row)
{
    const struct bytes subject = pg_bytes(rows, row, 1);

    if (pg_int8(rows, row, 0) != place->key) return pg_int8(rows, row, 0) < place->key ? -1 : 1;
    return memcmp(subject.data, place->subject, subject.length < 32 ? subject.length : 32);
}

/* The places of a row; none if there is no such row, or if it is no list. Rows come in the order of the places. */
static struct posting listed(const struct blind_place *place, const struct pg_rows *rows, size_t *at)
{
    struct posting list = {.words = {0}};
    struct error ignored;

    while (*at < pg_rows_count(rows) && compare_with_row(place, rows, *at) < 0) ++*at;
    if (*at < pg_rows_count(rows) && compare_with_row(place, rows, *at) == 0 &&
        !posting_add(&list, pg_bytes(rows, *at, 2), &ignored).ok)
        list = (struct posting){.words = {0}};
    return list;
}

static void compare(struct blind_places *places, const struct pg_rows *rows)
{
    struct posting list = {.words = {0}};
    size_t at = 0;

    for (size_t i = 0; i < places->count; i++) {
        const struct blind_place *place = &places->each[i];
        if (i == 0 || compare_places(place, place - 1) != 0) list = listed(place, rows, &at);
        if (!posting_has(&list, (unsigned)(audit_page_sequence(places->page, place->entry) % POSTING_BLOCK)))
            places->is_missed[place->entry] = true;
    }
}

static bool is_any_missed(const struct blind_places *places)
{
    for (size_t i = 0; i < TILE_WIDTH; i++)
        if (places->is_missed[i]) return true;
    return false;
}

/* *is_same_out false: somebody has begun to make the index anew. */
static struct result look(struct blind_places *places, struct log_check *check, bool *is_same_out, struct error *err)
{
    const uint64_t first = audit_page_sequence(places->page, 0);
    const size_t all = audit_page_count(places->page);
    OWNED(pg_rows) *rows = NULL;
    uint64_t before = 0, after = 0;

    TRY(check_load_indexed(check->tiles.pg, &before, err));
    const size_t known = before <= first ? 0 : before - first < all ? (size_t)(before - first) : all;
    TRY(gather(places, check, known, err));
    if (places->count > 0) {
        TRY(check_load_blind(check->tiles.pg, first / POSTING_BLOCK, places->each_key, places->key_count, &rows, err));
        compare(places, rows);
    }
    TRY(check_load_indexed(check->tiles.pg, &after, err));
    *is_same_out = after >= before;
    return SUCCESS;
}

/* An erasure empties the index before the sealed parts, after its event. */
static struct result count_missed(struct blind_places *places, struct log_check *check, struct payload_findings *findings,
                                  struct error *err)
{
    bool is_on_purpose = false;

    for (size_t i = 0; i < audit_page_count(places->page); i++) {
        if (!places->is_missed[i]) continue;
        TRY(check_is_erased(check->tiles.pg, places->page, i, findings->erased, &is_on_purpose, err));
        if (is_on_purpose) continue;
        if (findings->hidden++ == 0) findings->first_hidden = audit_page_sequence(places->page, i);
    }
    return SUCCESS;
}

struct result log_check_blind(struct log_check *check, struct audit_page *page, const struct payload_keys *keys,
                              struct payload_findings *findings, struct error *err)
{
    OWNED(blind_places) *places = NULL;
    bool is_same = true;

    if (audit_page_count(page) == 0) return SUCCESS;
    places = memory_zeroed(1, sizeof *places);
    if (places == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for checking the index of addresses");
    places->keys = keys;
    places->page = page;
    places->memo = country_memo_new();
    if (places->memo == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for checking the index of addresses");
    for (unsigned i = 0; i < LOOKS; i++) {
        TRY(look(places, check, &is_same, err));
        if (!is_same || !is_any_missed(places)) return SUCCESS;
    }
    return count_missed(places, check, findings, err);
}
