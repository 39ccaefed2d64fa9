#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/fsck_priv.h"

/* A share of the entries of a block: those whose place, divided by `step`, leaves `from`. */
struct share {
    struct fsck *fsck;
    size_t from, step;
    struct result result;
    struct error error;
};

static bool is_text(struct bytes bytes, const char *text)
{
    return bytes_equal(bytes, bytes_of_text(text));
}

static enum fsck_problem compare_columns(const struct fsck_block *block, const struct fsck_item *item, size_t place,
                                         const struct leaf *leaf)
{
    const uint8_t *text = block->text.data + item->at;

    if (leaf->sequence != block->number * DUMP_BLOCK + place) return FSCK_SEQUENCE;
    if (leaf->time_ms != item->time_ms) return FSCK_TIME;
    if (!is_text((struct bytes){text, item->action_length}, leaf->targets[0].action)) return FSCK_ACTION;
    if (!is_text((struct bytes){text + item->action_length, item->outcome_length}, leaf->outcome)) return FSCK_OUTCOME;
    return FSCK_SOUND;
}

static bool lacks_facts(const struct fsck *fsck, const struct leaf *leaf)
{
    for (size_t i = 0; i < leaf->facts_count; i++)
        if (!fsck_has_facts(fsck, leaf->facts[i])) return true;
    return false;
}

static bool is_about_rows(const struct leaf *leaf)
{
    bool is_needed = false;

    for (size_t i = 0; i < leaf->target_count && !is_needed; i++)
        is_needed = fsck_rows_need(leaf->targets[i].action, leaf->outcome) || fsck_persons_tell(&leaf->targets[i], leaf->outcome);
    return is_needed;
}

static void note_leaf(struct fsck *fsck, struct fsck_item *item, size_t place, const struct leaf *leaf)
{
    struct fsck_window *window = &fsck->window;
    const uint64_t number = fsck->block->number * DUMP_BLOCK + place;

    item->is_read = true;
    item->leaf_ms = leaf->time_ms;
    item->has_payload = leaf->has_payload;
    item->lacks_facts = lacks_facts(fsck, leaf);
    item->reads_content = strcmp(leaf->targets[0].action, "blob.read") == 0 && strcmp(leaf->outcome, "allowed") == 0;
    item->is_about_rows = item->problem == FSCK_SOUND && is_about_rows(leaf);
    window->marks[number - window->first] |= FSCK_IS_READ;
    fsck_add_sums(fsck, number, leaf);
}

/* An archived entry may lack its bytes, unless rows that are in the dump follow from it: the database does not release such events. */
static void look_without_bytes(const struct fsck *fsck, struct fsck_item *item, size_t place)
{
    const char *text = (const char *)fsck->block->text.data + item->at;
    char action[DUMP_NAME_MAX + 1], outcome[DUMP_NAME_MAX + 1];

    (void)snprintf(action, sizeof action, "%.*s", (int)item->action_length, text);
    (void)snprintf(outcome, sizeof outcome, "%.*s", (int)item->outcome_length, text + item->action_length);
    item->is_released = fsck->block->number * DUMP_BLOCK + place < fsck->archived;
    if (!item->is_released) item->problem = FSCK_EMPTY;
    else if (fsck_rows_need(action, outcome)) item->problem = FSCK_KEPT;
}

/* A signed leaf that can't be read is the fault of the program that wrote it, not a change of the log. */
static struct result look(struct fsck *fsck, size_t place, struct error *err)
{
    struct fsck_block *block = fsck->block;
    struct fsck_item *item = &block->items[place];
    const struct bytes text = {block->text.data + item->at + item->action_length + item->outcome_length, item->leaf_length};
    struct leaf leaf;
    struct error why;

    block->hashes[place] = block->stored[place]; /* the signed roots tell whether it is the signed one */
    if (text.length == 0) {
        look_without_bytes(fsck, item, place);
        return SUCCESS;
    }
    if (text.length > LEAF_MAX) {
        item->problem = FSCK_TOO_LONG;
        return SUCCESS;
    }
    struct merkle_hash hash;
    merkle_leaf_hash(text, &hash);
    if (!merkle_hash_equal(&hash, &block->stored[place])) item->problem = FSCK_HASH;
    if (!leaf_read(text, &leaf, &why).ok)
        return why.kind == ERROR_NO_MEMORY ? failure(err, why.kind, "%s", why.message) : SUCCESS;
    if (item->problem == FSCK_SOUND) item->problem = compare_columns(block, item, place, &leaf);
    note_leaf(fsck, item, place, &leaf);
    return SUCCESS;
}

static void *look_at_share(void *argument)
{
    struct share *share = argument;
    const struct fsck_block *block = share->fsck->block;

    share->result = SUCCESS;
    for (size_t i = share->from; i < block->count && share->result.ok; i += share->step)
        if (block->items[i].is_here) share->result = look(share->fsck, i, &share->error);
    return NULL;
}

/* If no thread can be started, this one looks at the share of that thread. */
struct result fsck_look_all(struct fsck *fsck, struct error *err)
{
    const size_t count = fsck->block->count < 64 ? 1 : fsck->options.threads;
    pthread_t threads[FSCK_THREADS_MAX];
    bool has_thread[FSCK_THREADS_MAX] = {false};
    struct share shares[FSCK_THREADS_MAX];

    for (size_t i = 0; i < count; i++) {
        shares[i] = (struct share){.fsck = fsck, .from = i, .step = count};
        has_thread[i] = i > 0 && pthread_create(&threads[i], NULL, look_at_share, &shares[i]) == 0;
    }
    for (size_t i = 0; i < count; i++)
        if (!has_thread[i]) (void)look_at_share(&shares[i]);
    for (size_t i = 0; i < count; i++)
        if (has_thread[i]) (void)pthread_join(threads[i], NULL);
    for (size_t i = 0; i < count; i++)
        if (!shares[i].result.ok) return failure(err, shares[i].error.kind, "%s", shares[i].error.message);
    return SUCCESS;
}
