/* Events of one action, each by a word of its detail: one question for all words. */
#include <stdlib.h>

#include "audit/query_priv.h"
#include "audit/search_find_priv.h"
#include "base/memory.h"

struct numbers {
    size_t count;
    int64_t each[AUDIT_PAGE_MAX];
};

/* The places that both lists of a row have. */
static struct result add_row(const struct pg_rows *rows, size_t row, uint64_t from, struct numbers *numbers, struct error *err)
{
    const int64_t first = pg_int8(rows, row, 0) * POSTING_BLOCK;
    struct posting places = {.words = {0}}, of_action = {.words = {0}};

    TRY(posting_add(&places, pg_bytes(rows, row, 1), err));
    TRY(posting_add(&of_action, pg_bytes(rows, row, 2), err));
    posting_intersect(&places, &of_action);
    for (unsigned place = 0; place < POSTING_BLOCK && numbers->count < AUDIT_PAGE_MAX; place++)
        if (posting_has(&places, place) && (uint64_t)(first + place) >= from) numbers->each[numbers->count++] = first + place;
    return SUCCESS;
}

static struct result find_numbers(const struct search_source *source, const struct search_words *wanted, struct numbers *numbers,
                                  struct error *err)
{
    int64_t keys[SEARCH_BY_WORDS_MAX];
    OWNED(pg_rows) *rows = NULL;

    for (size_t i = 0; i < wanted->count; i++) keys[i] = search_key(SEARCH_DETAIL, bytes_of_text(wanted->words[i]));
    const int64_t action = search_key(SEARCH_ACTION, bytes_of_text(wanted->action));
    TRY(search_select_words(source->pg, keys, wanted->count, action, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) TRY(add_row(rows, i, wanted->from, numbers, err));
    return SUCCESS;
}

/* The index is a hint: each entry is compared with its leaf. */
static struct result take_those_that_meet(const struct search_hunt *hunt, struct audit_page *page,
                                          const struct search_words *wanted, struct error *err)
{
    for (size_t i = 0; i < audit_page_count(page); i++) {
        bool meets = false;
        TRY(search_meets(hunt, page, i, &meets, err));
        if (meets) TRY(wanted->take(wanted->context, audit_page_leaf(page, i), err));
    }
    return SUCCESS;
}

struct result search_by_words(const struct permit *permit, const struct search_source *source, const struct search_words *wanted,
                              struct error *err)
{
    struct numbers numbers = {.count = 0};
    OWNED(audit_page) *page = NULL;

    if (wanted->count > SEARCH_BY_WORDS_MAX)
        return failure(err, ERROR_LIMIT, "more than %d words at a time", SEARCH_BY_WORDS_MAX);
    (void)permit_resource(permit, ACTION_AUDIT_READ);
    TRY(find_numbers(source, wanted, &numbers, err));
    TRY(audit_page_of_numbers(source->pg, numbers.each, numbers.count, &page, err));
    struct search *search = memory_zeroed(1, sizeof *search); /* too large for the stack */
    if (search == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a search");
    search->condition_count = 1;
    search->conditions[0].field = SEARCH_ACTION;
    struct result done = search_condition_add(&search->conditions[0], wanted->action, err);
    if (done.ok) done = take_those_that_meet(&(const struct search_hunt){permit, source, search}, page, wanted, err);
    free(search);
    return done;
}
