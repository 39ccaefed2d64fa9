#include "audit/first_place.h"

#include "audit/first_place_priv.h"
#include "audit/format/posting.h"
#include "audit/query_priv.h"
#include "audit/search_blind_priv.h"

/* The lowest place of a list; POSTING_BLOCK: it has none. */
static struct result lowest(struct bytes list, unsigned *place_out, struct error *err)
{
    struct posting posting = {{0}};
    unsigned place = 0;

    TRY(posting_add(&posting, list, err));
    while (place < POSTING_BLOCK && !posting_has(&posting, place)) place++;
    *place_out = place;
    return SUCCESS;
}

/* Whether one of the rows (block, list), ordered by block, has an entry before `sequence`. */
static struct result has_earlier(const struct pg_rows *rows, uint64_t sequence, bool *has_out, struct error *err)
{
    for (size_t i = 0; i < pg_rows_count(rows) && !*has_out; i++) {
        unsigned place = POSTING_BLOCK;
        TRY(lowest(pg_bytes(rows, i, 1), &place, err));
        *has_out = (uint64_t)pg_int8(rows, i, 0) * POSTING_BLOCK + place < sequence;
    }
    return SUCCESS;
}

/* Looking back over the turn of a year, too: each year has its own key. */
static struct result was_there(const struct first_place_source *source, const struct leaf *leaf, struct bytes subject,
                               const struct blind_value *value, bool *was_out, struct error *err)
{
    const int year = blind_year(leaf->time_ms);

    *was_out = false;
    for (int back = 0; back < 2 && !*was_out; back++) {
        OWNED(secret) *key = NULL;
        OWNED(pg_rows) *rows = NULL;
        struct error none = {0};
        if (!blind_key_open(source->keyd, source->pg, year - back, false, &key, &none).ok) {
            if (none.kind == ERROR_NOT_FOUND) continue;
            return failure(err, none.kind, "%s", none.message);
        }
        const struct first_place_query query = {blind_key_of(key, value->field, value->text), subject,
                                                leaf->sequence / POSTING_BLOCK};
        TRY(first_place_rows(source->pg, &query, &rows, err));
        TRY(has_earlier(rows, leaf->sequence, was_out, err));
    }
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
    OWNED(pg_rows) *rows = NULL;

    *was_out = false;
    TRY(first_place_subject_rows(source->pg, subject, leaf->sequence / POSTING_BLOCK, &rows, err));
    return has_earlier(rows, leaf->sequence, was_out, err);
}

struct result first_place_of(const struct first_place_source *source, struct audit_page *page, size_t index,
                             const struct leaf *leaf, struct first_place *place_out, struct error *err)
{
    const struct bytes subject = audit_page_subject(page, index);
    const struct blind_reader reader = {{source->keyd, source->origin}, NULL};
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
