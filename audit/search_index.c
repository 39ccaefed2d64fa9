#include "audit/search_index.h"

#include <string.h>

#include "audit/payload_keys_priv.h"
#include "audit/query_priv.h"
#include "audit/search_batch_priv.h"
#include "base/memory.h"

#define PAGE 512 /* entries that are read at a time */

struct search_index {
    struct pg *pg;
    struct blind_reader reader;
    struct search_batch *batch;
    int year; /* of `key`; 0: none yet */
    struct secret *key;
};

struct result search_index_new(struct pg *pg, struct keyd_client *keyd, const char *origin, struct search_index **index_out,
                               struct error *err)
{
    OWNED(search_index) *index = memory_zeroed(1, sizeof *index);

    if (index == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the index of searches");
    *index = (struct search_index){.pg = pg, .reader = {{keyd, origin, NULL}, country_memo_new()}};
    if (index->reader.memo == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the index of searches");
    TRY(kept_keys_new(&index->reader.opener.kept, err));
    TRY(search_batch_new(&index->batch, err));
    *index_out = GIVE(index);
    return SUCCESS;
}

/* Each batch asks for the key again, so that no key is used after its row was destroyed. */
static struct result key_of_year(struct search_index *index, int year, struct error *err)
{
    struct secret *key = NULL;

    if (index->year == year) return SUCCESS;
    TRY(blind_key_open(index->reader.opener.keyd, index->pg, year, true, &key, err));
    secret_free(index->key);
    index->key = key;
    index->year = year;
    return SUCCESS;
}

static struct result add_blind(struct search_index *index, struct audit_page *page, size_t i, const struct leaf *leaf,
                               struct error *err)
{
    const struct bytes subject = audit_page_subject(page, i);
    struct blind_values values;

    if (subject.length != 32) return SUCCESS;
    TRY(blind_values_of(page, i, leaf, &index->reader, &values, err));
    if (values.count > 0) TRY(key_of_year(index, blind_year(leaf->time_ms), err));
    for (size_t k = 0; k < values.count; k++)
        search_batch_add_blind(index->batch, (unsigned)(leaf->sequence % POSTING_BLOCK),
                               blind_key_of(index->key, values.values[k].field, values.values[k].text), subject.data);
    secret_wipe(&values, sizeof values);
    return SUCCESS;
}

/* An entry that this version can't read as an event has no terms. */
static struct result add_event(struct search_index *index, struct audit_page *page, size_t i, struct error *err)
{
    struct search_terms terms;
    struct leaf leaf;

    if (!audit_page_is_readable(page, i)) return SUCCESS;
    TRY(leaf_read(audit_page_leaf(page, i), &leaf, err));
    search_terms_of(&leaf, &terms);
    for (size_t k = 0; k < terms.count; k++)
        search_batch_add(index->batch, (unsigned)(leaf.sequence % POSTING_BLOCK), terms.keys[k]);
    return add_blind(index, page, i, &leaf, err);
}

/* *next: the entry after the last one that was added. */
static struct result add_page(struct search_index *index, uint64_t *next, uint64_t until, struct error *err)
{
    OWNED(audit_page) *page = NULL;

    kept_keys_begin(index->reader.opener.kept);
    TRY(audit_page_between(index->pg, *next, until, &page, err));
    TRY(audit_page_load_facts(page, index->pg, err));
    if (audit_page_count(page) != until - *next)
        return failure(err, ERROR_FORKED, "an entry of the log from %llu on is missing", (unsigned long long)*next);
    for (size_t i = 0; i < audit_page_count(page) && search_batch_has_room(index->batch); i++, ++*next)
        TRY(add_event(index, page, i, err));
    return SUCCESS;
}

static struct result index_batch(struct search_index *index, struct search_index_state *state, struct error *err)
{
    const uint64_t from = state->indexed, block = from / POSTING_BLOCK, end = (block + 1) * POSTING_BLOCK;
    const uint64_t until = end < state->size ? end : state->size;
    uint64_t next = from;

    index->year = 0;
    search_batch_begin(index->batch, block, from % POSTING_BLOCK == 0);
    while (next < until && search_batch_has_room(index->batch))
        TRY(add_page(index, &next, until - next > PAGE ? next + PAGE : until, err));
    TRY(search_batch_write(index->batch, index->pg, err));
    TRY(search_index_advance(index->pg, next, err));
    state->indexed = next;
    return SUCCESS;
}

static struct result step(struct search_index *index, struct search_index_state *state, struct error *err)
{
    TRY(search_index_begin(index->pg, &state->is_mine, &state->indexed, &state->size, err));
    if (state->indexed > state->size) state->indexed = 0; /* the log has become shorter: the index is made anew */
    if (!state->is_mine || state->indexed >= state->size) return SUCCESS;
    return index_batch(index, state, err);
}

struct result search_index_step(struct search_index *index, struct search_index_state *state_out, struct error *err)
{
    struct search_index_state state = {.indexed = 0};

    kept_keys_begin(index->reader.opener.kept); /* also without a database: another gateway may erase */
    if (pg_is_broken(index->pg)) TRY(pg_reopen(index->pg, err));
    TRY(pg_begin(index->pg, err));
    const struct result done = step(index, &state, err);
    if (!done.ok) {
        pg_rollback(index->pg);
        return done;
    }
    TRY(pg_commit(index->pg, err));
    *state_out = state;
    return SUCCESS;
}

void search_index_free(struct search_index *index)
{
    if (index == NULL) return;
    secret_free(index->key);
    search_batch_free(index->batch);
    country_memo_free(index->reader.memo);
    kept_keys_free(index->reader.opener.kept);
    free(index);
}
