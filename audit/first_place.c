#include "audit/first_place.h"

#include <string.h>

#include "audit/first_place_priv.h"
#include "audit/format/posting.h"
#include "audit/payload_keys_priv.h"
#include "audit/query_priv.h"
#include "audit/search_blind_priv.h"
#include "base/clock.h"
#include "base/memory.h"

#define YEARS 2    /* that are looked into: each has its own key */
#define SEEN  8192 /* actors and places; two with the same slot replace each other. 448 KiB */

#define FORGET_MS 600000 /* then the index is asked again: its rows may be gone, with an erased person's key */

/* An actor was in a network or a country, found by the key of the year of the event that was asked about. */
struct seen {
    bool is_set;
    int64_t key;
    uint8_t subject[32];
    uint64_t sequence; /* of an event there: later ones are not the first */
};

struct first_place_memo {
    struct year_key {
        int year;           /* 0: none yet */
        struct secret *key; /* NULL: the year has none */
    } years[YEARS];
    struct kept_keys *keys;
    struct country_memo *countries;
    int64_t since_ms; /* monotonic time: since when places are remembered */
    struct seen seen[SEEN];
};

struct first_place_memo *first_place_memo_new(void)
{
    OWNED(first_place_memo) *memo = memory_zeroed(1, sizeof *memo);
    struct error ignored;

    if (memo == NULL || !kept_keys_new(&memo->keys, &ignored).ok) return NULL;
    memo->countries = country_memo_new();
    return memo->countries == NULL ? NULL : GIVE(memo);
}

static void forget_keys(struct first_place_memo *memo)
{
    for (size_t i = 0; i < YEARS; i++) {
        secret_free(memo->years[i].key);
        memo->years[i] = (struct year_key){.year = 0};
    }
}

void first_place_memo_begin(struct first_place_memo *memo)
{
    const int64_t now_ms = clock_monotonic_ms();

    forget_keys(memo);
    kept_keys_begin(memo->keys);
    if (now_ms - memo->since_ms < FORGET_MS) return;
    memset(memo->seen, 0, sizeof memo->seen);
    memo->since_ms = now_ms;
}

void first_place_memo_free(struct first_place_memo *memo)
{
    if (memo == NULL) return;
    forget_keys(memo);
    kept_keys_free(memo->keys);
    country_memo_free(memo->countries);
    free(memo);
}

static struct seen *slot_of(struct first_place_memo *memo, int64_t key, struct bytes subject)
{
    return &memo->seen[((uint64_t)key ^ load_u64(subject.data)) % SEEN];
}

static bool was_seen(const struct seen *seen, int64_t key, struct bytes subject, uint64_t sequence)
{
    return seen->is_set && seen->key == key && memcmp(seen->subject, subject.data, sizeof seen->subject) == 0 &&
           seen->sequence < sequence;
}

static void note_seen(struct seen *seen, int64_t key, struct bytes subject, uint64_t sequence)
{
    *seen = (struct seen){.is_set = true, .key = key, .sequence = sequence};
    memcpy(seen->subject, subject.data, sizeof seen->subject);
}

/* *key_out: NULL if the year has no key. */
static struct result key_of_year(const struct first_place_source *source, int year, const struct secret **key_out,
                                 struct error *err)
{
    struct year_key *known = &source->memo->years[year % YEARS];
    struct secret *key = NULL;

    if (known->year != year) {
        const struct result opened = blind_key_open(source->keyd, source->pg, year, false, &key, err);
        if (!opened.ok && err->kind != ERROR_NOT_FOUND) return opened;
        secret_free(known->key);
        *known = (struct year_key){year, key};
    }
    *key_out = known->key;
    return SUCCESS;
}

/* The lowest place of a list that is not in `denied`; POSTING_BLOCK: there is none. */
static struct result lowest(struct bytes list, struct bytes denied, unsigned *place_out, struct error *err)
{
    struct posting posting = {{0}}, without = {{0}};
    unsigned place = 0;

    TRY(posting_add(&posting, list, err));
    if (denied.length > 0) TRY(posting_add(&without, denied, err));
    while (place < POSTING_BLOCK && (!posting_has(&posting, place) || posting_has(&without, place))) place++;
    *place_out = place;
    return SUCCESS;
}

/* Whether one of the rows, ordered by block, has an entry before `sequence`. */
static struct result has_earlier(const struct pg_rows *rows, uint64_t sequence, bool *has_out, struct error *err)
{
    for (size_t i = 0; i < pg_rows_count(rows) && !*has_out; i++) {
        const struct bytes denied = pg_is_null(rows, i, 2) ? (struct bytes){NULL, 0} : pg_bytes(rows, i, 2);
        unsigned place = POSTING_BLOCK;
        TRY(lowest(pg_bytes(rows, i, 1), denied, &place, err));
        *has_out = (uint64_t)pg_int8(rows, i, 0) * POSTING_BLOCK + place < sequence;
    }
    return SUCCESS;
}

/* A denied event takes the actor nowhere: else one refused request from a new place would hide all later ones. */
static struct result was_before(const struct first_place_source *source, const struct first_place_query *query, uint64_t sequence,
                                bool *was_out, struct error *err)
{
    struct first_place_cursor after = {-1, INT64_MAX};
    size_t count = FIRST_PLACE_ROWS;

    while (count == FIRST_PLACE_ROWS && !*was_out) {
        OWNED(pg_rows) *rows = NULL;
        TRY(first_place_rows(source->pg, query, &after, &rows, err));
        count = pg_rows_count(rows);
        TRY(has_earlier(rows, sequence, was_out, err));
        if (count > 0) after = (struct first_place_cursor){pg_int8(rows, count - 1, 0), pg_int8(rows, count - 1, 3)};
    }
    return SUCCESS;
}

/* Looking back over the turn of a year, too: each year has its own key. */
static struct result was_there(const struct first_place_source *source, const struct leaf *leaf, struct bytes subject,
                               const struct blind_value *value, bool *was_out, struct error *err)
{
    const int year = blind_year(leaf->time_ms);
    struct seen *seen = NULL;
    int64_t own_key = 0;

    *was_out = false;
    for (int back = 0; back < YEARS && !*was_out; back++) {
        const struct secret *key = NULL;
        TRY(key_of_year(source, year - back, &key, err));
        if (key == NULL) continue;
        const struct first_place_query query = {true, blind_key_of(key, value->field, value->text), subject,
                                                leaf->sequence / POSTING_BLOCK};
        if (back == 0) {
            own_key = query.key;
            seen = slot_of(source->memo, own_key, subject);
            *was_out = was_seen(seen, own_key, subject, leaf->sequence);
        }
        if (!*was_out) TRY(was_before(source, &query, leaf->sequence, was_out, err));
    }
    if (seen != NULL) note_seen(seen, own_key, subject, leaf->sequence);
    return SUCCESS;
}

static struct result judge(const struct first_place_source *source, const struct leaf *leaf, struct bytes subject,
                           const struct blind_values *values, struct first_place *place, struct error *err)
{
    for (size_t i = 0; i < values->count; i++) {
        const struct blind_value *value = &values->values[i];
        bool was = true;
        if (value->field != SEARCH_NETWORK && value->field != SEARCH_COUNTRY) continue;
        TRY(was_there(source, leaf, subject, value, &was, err));
        if (!was && value->field == SEARCH_NETWORK) place->is_new_network = true;
        if (!was && value->field == SEARCH_COUNTRY) place->is_new_country = true;
    }
    /* The officers may have listed an old network only now: its country is no news. */
    place->is_new_country = place->is_new_country && place->is_new_network;
    return SUCCESS;
}

static struct result was_anywhere(const struct first_place_source *source, const struct leaf *leaf, struct bytes subject,
                                  bool *was_out, struct error *err)
{
    const struct first_place_query query = {.subject = subject, .block = leaf->sequence / POSTING_BLOCK};

    *was_out = false;
    return was_before(source, &query, leaf->sequence, was_out, err);
}

struct result first_place_of(const struct first_place_source *source, struct audit_page *page, size_t index,
                             const struct leaf *leaf, struct first_place *place_out, struct error *err)
{
    const struct bytes subject = audit_page_subject(page, index);
    const struct blind_reader reader = {{source->keyd, source->origin, source->memo->keys}, source->memo->countries};
    struct first_place place = {false, false};
    struct blind_values values;
    bool was = false;

    *place_out = place;
    if (subject.length != 32) return SUCCESS;
    TRY(blind_values_of(page, index, leaf, &reader, &values, err));
    const struct result judged = judge(source, leaf, subject, &values, &place, err);
    secret_wipe(&values, sizeof values);
    TRY(judged);
    if (place.is_new_network || place.is_new_country) TRY(was_anywhere(source, leaf, subject, &was, err));
    if (was) *place_out = place;
    return SUCCESS;
}
