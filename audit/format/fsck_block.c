#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/fsck_priv.h"
#include "audit/format/succession.h"

static uint64_t block_count(const struct fsck *fsck)
{
    return (fsck->head.size + DUMP_BLOCK - 1) / DUMP_BLOCK;
}

/* Blocks outside the window are not looked at in this pass. */
static bool is_of_pass(const struct fsck *fsck)
{
    return fsck_in_window(fsck, fsck->block->number * DUMP_BLOCK);
}

static void begin_block(struct fsck *fsck, uint64_t number)
{
    struct fsck_block *block = fsck->block;
    const uint64_t left = fsck->head.size - number * DUMP_BLOCK;

    block->number = number;
    block->count = left < DUMP_BLOCK ? (size_t)left : DUMP_BLOCK;
    block->next = 0;
    block->is_closed = false;
    block->due_count = block->due_at = 0;
    block->payload_next = 0;
    block->before = block->cursor = block->frontier;
    buffer_clear(&block->text);
    memset(block->items, 0, sizeof block->items);
    memset(block->has_row, 0, sizeof block->has_row);
}

static void note_missing(struct fsck *fsck, uint64_t first, uint64_t end)
{
    fsck->block->is_lost = true;
    if (end - first == 1) fsck_find(fsck, FSCK_ENTRY, first, "it is missing");
    else fsck_find(fsck, FSCK_ENTRY, first, "it is missing, with all entries up to %llu", (unsigned long long)(end - 1));
}

static void say(struct fsck *fsck, uint64_t number, enum fsck_problem problem)
{
    static const char *const texts[] = {
        [FSCK_HASH] = "its bytes do not match the hash that is stored beside them",
        [FSCK_TOO_LONG] = "it is longer than any",
        [FSCK_SEQUENCE] = "the sequence number in its leaf is another",
        [FSCK_TIME] = "the stored time differs from the time in its leaf",
        [FSCK_ACTION] = "the stored action differs from the action in its leaf",
        [FSCK_OUTCOME] = "the stored outcome differs from the outcome in its leaf",
        [FSCK_EMPTY] = "it has no bytes, and is not archived",
        [FSCK_KEPT] = "it has no bytes, and the database keeps those of such events also when they are archived",
    };
    if (problem == FSCK_SOUND || problem == FSCK_MISSING) return;
    const bool is_of_column = problem == FSCK_TIME || problem == FSCK_ACTION || problem == FSCK_OUTCOME;

    fsck_find(fsck, is_of_column ? FSCK_COLUMN : FSCK_ENTRY, number, "%s", texts[problem]);
}

static void note_released(struct fsck_report *report, uint64_t number)
{
    if (report->released++ == 0) report->released_first = number;
    report->released_last = number;
}

/* The log goes on from another one here: a note, and no finding. */
static void note_succession(struct fsck_report *report, const struct leaf *leaf)
{
    const char *detail = strchr(leaf->targets[0].resource, '#');

    if (strcmp(leaf->targets[0].action, SUCCESSION_ACTION) != 0 || strcmp(leaf->actor, "system") != 0 || detail == NULL) return;
    report->successions++;
    report->succeeds_at = leaf->sequence;
    (void)snprintf(report->succeeds, sizeof report->succeeds, "%s", detail + 1);
}

static struct bytes leaf_of(const struct fsck_block *block, const struct fsck_item *item)
{
    return (struct bytes){block->text.data + item->at + item->action_length + item->outcome_length, item->leaf_length};
}

/* Only a later version may have a form that this one does not know: what claims to be of a known version, and is not, would be left out of every comparison
 * of keys and rows. */
static struct result follow_unread(struct fsck *fsck, const struct fsck_item *item, uint64_t number, struct error *err)
{
    const struct bytes text = leaf_of(fsck->block, item);
    bool is_later = false;
    struct leaf leaf;
    struct error why;

    if (!item->is_here || text.length == 0 || item->problem != FSCK_SOUND) return SUCCESS;
    TRY(leaf_is_later(text, &is_later, err));
    fsck->report.unreadable += is_later;
    if (is_later) return SUCCESS;
    if (leaf_read(text, &leaf, &why).ok || why.kind == ERROR_NO_MEMORY)
        return failure(err, ERROR_NO_MEMORY, "no memory for a leaf");
    fsck_find(fsck, FSCK_ENTRY, number, "it can't be read: %.180s", why.message);
    return SUCCESS;
}

/* What follows from the order of the entries, one after the other. */
static struct result follow(struct fsck *fsck, size_t place, struct error *err)
{
    struct fsck_block *block = fsck->block;
    const struct fsck_item *item = &block->items[place];
    const uint64_t number = block->number * DUMP_BLOCK + place;
    struct leaf leaf;

    say(fsck, number, item->problem);
    if (item->lacks_facts) fsck_find(fsck, FSCK_FACTS, number, "facts that it commits to are missing");
    if (item->is_released) note_released(&fsck->report, number);
    if (item->is_here && number == fsck->report.signed_size) fsck->unsigned_ms = item->time_ms;
    if (!item->is_read) return follow_unread(fsck, item, number, err);
    if (item->leaf_ms < block->last_ms) fsck_find(fsck, FSCK_ENTRY, number, "its time is before the time of an earlier entry");
    block->last_ms = item->leaf_ms;
    fsck->report.reads += item->reads_content;
    if (!item->is_about_rows) return SUCCESS;
    TRY(leaf_read(leaf_of(block, item), &leaf, err));
    if (leaf.target_count > 0) note_succession(&fsck->report, &leaf);
    return fsck_rows_event(fsck, &leaf, err);
}

static void report_gaps(struct fsck *fsck)
{
    struct fsck_block *block = fsck->block;
    const uint64_t first = block->number * DUMP_BLOCK;

    for (size_t i = 0; i < block->count; i++) {
        size_t end = i;
        while (end < block->count && !block->items[end].is_here) end++;
        if (end > i) note_missing(fsck, first + i, first + end);
        if (end > i) i = end;
    }
}

struct result fsck_close_entries(struct fsck *fsck, struct error *err)
{
    struct fsck_block *block = fsck->block;

    if (block->is_closed || block->count == 0) return SUCCESS;
    block->is_closed = true;
    if (!is_of_pass(fsck)) return SUCCESS;
    report_gaps(fsck);
    TRY(fsck_look_all(fsck, err));
    for (size_t i = 0; i < block->count; i++) TRY(follow(fsck, i, err));
    for (size_t i = 0; i < block->count && !block->is_lost; i++) merkle_append(&block->frontier, &block->hashes[i]);
    fsck_begin_tiles(fsck);
    return SUCCESS;
}

static struct result end_block(struct fsck *fsck, struct error *err)
{
    TRY(fsck_close_entries(fsck, err));
    if (!is_of_pass(fsck)) return SUCCESS;
    fsck_end_tiles(fsck);
    return fsck_end_payloads(fsck, err);
}

struct result fsck_advance(struct fsck *fsck, uint64_t number, struct error *err)
{
    struct fsck_block *block = fsck->block;

    if (number >= block_count(fsck)) return failure(err, ERROR_INVALID, "a record is about an entry that the log does not have");
    if (block->count == 0) begin_block(fsck, 0);
    if (number < block->number) return failure(err, ERROR_INVALID, "the records of a block come after those of the next one");
    if (number == block->number) return SUCCESS;
    TRY(end_block(fsck, err));
    if (number > block->number + 1) {
        const uint64_t first = (block->number + 1) * DUMP_BLOCK;
        if (fsck_is_first(fsck)) note_missing(fsck, first, number * DUMP_BLOCK);
        block->is_lost = true;
    }
    begin_block(fsck, number);
    return SUCCESS;
}

struct result fsck_take_entry(struct fsck *fsck, const struct dump_entry *entry, struct error *err)
{
    struct fsck_block *block = fsck->block;

    const size_t place = (size_t)(entry->sequence % DUMP_BLOCK);
    if (block->is_closed || place < block->next || place >= block->count)
        return failure(err, ERROR_INVALID, "entry %llu does not stand in its place", (unsigned long long)entry->sequence);
    block->next = place + 1;
    if (fsck_is_first(fsck)) fsck->seen = entry->sequence + 1;
    if (!is_of_pass(fsck)) return SUCCESS;
    block->items[place] = (struct fsck_item){.at = block->text.length,
                                             .action_length = (uint16_t)entry->action.length,
                                             .outcome_length = (uint16_t)entry->outcome.length,
                                             .leaf_length = (uint16_t)entry->leaf.length,
                                             .time_ms = entry->time_ms,
                                             .is_here = true};
    memcpy(block->stored[place].bytes, entry->hash.data, sizeof block->stored[place].bytes);
    TRY(buffer_add(&block->text, entry->action.data, entry->action.length, err));
    TRY(buffer_add(&block->text, entry->outcome.data, entry->outcome.length, err));
    return buffer_add(&block->text, entry->leaf.data, entry->leaf.length, err);
}

static void compare_state(struct fsck *fsck)
{
    const struct fsck_block *block = fsck->block;
    const uint64_t size = fsck->head.size;
    const struct merkle_hash stored = merkle_frontier_root(&fsck->stored);

    fsck->report.root = merkle_frontier_root(&block->frontier);
    if (block->is_lost) return;
    assert(block->frontier.size == size);
    if (fsck->stored.size == size && !merkle_hash_equal(&stored, &fsck->report.root))
        fsck_find(fsck, FSCK_STATE, size, "the state of the log has hashes of other entries");
    if (size > 0 && fsck->head.last_ms < block->last_ms)
        fsck_find(fsck, FSCK_STATE, size - 1, "the state of the log has an earlier time than the last entry");
}

struct result fsck_end_blocks(struct fsck *fsck, struct error *err)
{
    struct fsck_block *block = fsck->block;
    const uint64_t blocks = block_count(fsck);

    if (fsck->window.is_over) return SUCCESS;
    fsck->window.is_over = true;
    if (blocks > 0) {
        TRY(fsck_advance(fsck, blocks - 1, err));
        TRY(end_block(fsck, err));
    }
    block->count = 0; /* the next pass begins with the first block */
    if (fsck->window.end >= fsck->seen) compare_state(fsck);
    return SUCCESS;
}
