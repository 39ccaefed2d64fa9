/* Computes the rows of a group from the state that was read under the lock, and writes them in the last round trip. */
#include <assert.h>
#include <string.h>

#include "audit/sequencer_priv.h"

void group_clear_keys(struct group *group)
{
    for (size_t index = 0; index < group->key_count; index++) group->slots[group->key_slots[index]] = 0;
    group->key_count = 0;
}

/* An id is the beginning of a SHA-256, so any of its bits serve as a hash. */
static uint32_t index_of_id(struct group *group, const uint8_t id[LEAF_KEY_ID_SIZE])
{
    uint32_t slot = load_u32(id) % GROUP_SLOTS;

    for (; group->slots[slot] != 0; slot = (slot + 1) % GROUP_SLOTS) {
        const uint32_t index = group->slots[slot] - 1u;
        if (memcmp(group->key_ids[index], id, LEAF_KEY_ID_SIZE) == 0) return index;
    }
    assert(group->key_count < GROUP_KEYS_MAX);
    const size_t index = group->key_count++;
    group->slots[slot] = (uint16_t)(index + 1);
    group->key_slots[index] = (uint16_t)slot;
    memcpy(group->key_ids[index], id, LEAF_KEY_ID_SIZE);
    group->key_views[index] = (struct bytes){group->key_ids[index], LEAF_KEY_ID_SIZE};
    group->heads[index] = 0;
    group->uses[index] = 0;
    return (uint32_t)index;
}

uint32_t group_key_index(struct group *group, const char *name)
{
    uint8_t id[LEAF_KEY_ID_SIZE];

    leaf_key_id(name, id);
    return index_of_id(group, id);
}

/* A failed change has another outcome, and so other keys. */
static void assign_ordinals(struct group *group, struct event *event, struct leaf *leaf)
{
    assert(event->has_failed || leaf->key_count == event->key_count);
    for (size_t i = 0; i < leaf->key_count; i++) {
        if (event->has_failed) event->keys[i] = group_key_index(group, leaf->keys[i].name);
        const uint32_t index = event->keys[i];
        leaf->keys[i].ordinal = (uint64_t)++group->heads[index];
        group->uses[index]++;
    }
    event->key_count = leaf->key_count;
}

static struct result write_leaf(struct group *group, struct event *event, int64_t time_ms, struct error *err)
{
    struct leaf *leaf = &group->leaf;
    const size_t at = group->leaves.length;

    event_fill_leaf(event, leaf);
    leaf->sequence = event->sequence;
    leaf->time_ms = time_ms;
    assign_ordinals(group, event, leaf);
    struct result written = leaf_write(leaf, &group->leaves, err);
    if (!written.ok && err->kind == ERROR_LIMIT) {
        group->leaves.length = at;
        leaf_shorten(leaf);
        written = leaf_write(leaf, &group->leaves, err);
    }
    event->leaf_at = at;
    event->leaf_length = group->leaves.length - at;
    return written;
}

static struct result write_leaves(struct group *group, int64_t time_ms, struct error *err)
{
    group->leaves.length = 0;
    for (size_t i = 0; i < group->count; i++) TRY(write_leaf(group, &group->events[i], time_ms, err));
    for (size_t i = 0; i < group->count; i++) {
        struct event *event = &group->events[i];
        merkle_leaf_hash((struct bytes){group->leaves.data + event->leaf_at, event->leaf_length}, &event->hash);
        merkle_append(&group->frontier, &event->hash);
    }
    return SUCCESS;
}

/* The hashes of the tile that is being filled. The cached ones are valid if no other gateway appended; otherwise they are read
 * again. */
static struct result get_tail(struct sequencer *sequencer, struct group *group, struct error *err)
{
    const uint64_t size = group->state.size;
    const size_t offset = size % TILE_WIDTH;

    group->tail_is_known = offset == 0 || sequencer->tail_size == size;
    if (group->tail_is_known) {
        memcpy(group->tail, sequencer->tail, offset * sizeof group->tail[0]);
    } else if (offset + group->count >= TILE_WIDTH) {
        TRY(audit_load_leaf_hashes(sequencer->pg, size - offset, offset, group->tail, err));
        group->tail_is_known = true;
    }
    return SUCCESS;
}

/* The roots of 256 tiles of `level`, which end in tile `last` of this group. */
static struct result gather_roots(struct sequencer *sequencer, struct group *group, unsigned level, uint64_t last,
                                  struct merkle_hash roots_out[TILE_WIDTH], struct error *err)
{
    const uint64_t first = last - (TILE_WIDTH - 1);
    uint64_t stored_until = last + 1;

    for (size_t i = group->tile_count;
         i-- > 0;) { /* tiles of a level are in order, so the last one found going backwards is the first */
        const struct group_tile *tile = &group->tiles[i];
        if (tile->level != level || tile->index < first) continue;
        roots_out[tile->index - first] = tile->root;
        stored_until = tile->index;
    }
    return audit_load_tile_roots(sequencer->pg, level, first, (size_t)(stored_until - first), roots_out, err);
}

/* Stores a full tile; if that fills the tile above, stores that too, and so on upwards. */
static struct result add_tile(struct sequencer *sequencer, struct group *group, uint64_t index, struct error *err)
{
    struct merkle_hash hashes[TILE_WIDTH];
    unsigned level = 0;

    memcpy(hashes, group->tail, sizeof hashes);
    for (;;) {
        assert(group->tile_count < GROUP_TILES_MAX);
        struct group_tile *tile = &group->tiles[group->tile_count++];
        tile->level = level;
        tile->index = index;
        memcpy(tile->hashes, hashes, sizeof hashes);
        tile->root = tile_root(hashes, TILE_WIDTH);
        if ((index + 1) % TILE_WIDTH != 0) return SUCCESS;
        TRY(gather_roots(sequencer, group, level, index, hashes, err));
        level++;
        index /= TILE_WIDTH;
    }
}

static struct result fill_tiles(struct sequencer *sequencer, struct group *group, struct error *err)
{
    group->tile_count = 0;
    TRY(get_tail(sequencer, group, err));
    if (!group->tail_is_known) return SUCCESS;
    for (size_t i = 0; i < group->count; i++) {
        const uint64_t sequence = group->events[i].sequence;
        group->tail[sequence % TILE_WIDTH] = group->events[i].hash;
        if ((sequence + 1) % TILE_WIDTH == 0) TRY(add_tile(sequencer, group, sequence / TILE_WIDTH, err));
    }
    return SUCCESS;
}

static void fill_entries(struct group *group, struct audit_append *append)
{
    struct group_columns *columns = &group->columns;

    for (size_t i = 0; i < group->count; i++) {
        const struct event *event = &group->events[i];
        const enum outcome outcome = event->has_failed ? OUTCOME_FAILED : event->outcome;
        columns->leaves[i] = (struct bytes){group->leaves.data + event->leaf_at, event->leaf_length};
        columns->hashes[i] = (struct bytes){event->hash.bytes, sizeof event->hash.bytes};
        columns->actions[i] = bytes_of_text(action_name(event->action));
        columns->outcomes[i] = bytes_of_text(outcome_name(outcome));
    }
    append->leaves = columns->leaves;
    append->hashes = columns->hashes;
    append->actions = columns->actions;
    append->outcomes = columns->outcomes;
}

/* One run for each key: its events side by side, in the order of the log. */
static void fill_runs(struct group *group, struct audit_append *append)
{
    struct group_columns *columns = &group->columns;

    for (size_t index = 0; index < group->key_count; index++) {
        if (group->uses[index] == 0) continue;
        const size_t run = append->key_count++;
        columns->keys[run] = group->key_views[index];
        columns->ordinals[run] = group->heads[index];
        columns->firsts[run] = (int64_t)append->sequence_count + 1;
        columns->next[index] = append->sequence_count;
        append->sequence_count += group->uses[index];
        columns->untils[run] = (int64_t)append->sequence_count;
    }
    for (size_t i = 0; i < group->count; i++) {
        const struct event *event = &group->events[i];
        for (size_t k = 0; k < event->key_count; k++)
            columns->sequences[columns->next[event->keys[k]]++] = (int64_t)event->sequence;
    }
    append->keys = columns->keys;
    append->ordinals = columns->ordinals;
    append->firsts = columns->firsts;
    append->untils = columns->untils;
    append->sequences = columns->sequences;
}

static void fill_payloads(struct group *group, struct audit_append *append)
{
    struct group_columns *columns = &group->columns;

    for (size_t i = 0; i < group->count; i++) {
        const struct event *event = &group->events[i];
        if (!event->has_payload) continue;
        const size_t at = append->payload_count++;
        columns->payload_sequences[at] = (int64_t)event->sequence;
        const struct audit_subject *sealer = event->record == NULL ? event->sealer : event->record->resolved;
        columns->payload_subjects[at] = (struct bytes){sealer->index, 32};
        columns->payload_salts[at] = (struct bytes){event->salt, sizeof event->salt};
        columns->payload_boxes[at] = (struct bytes){group->boxes.data + event->box_at, event->box_length};
    }
    append->payload_sequences = columns->payload_sequences;
    append->payload_subjects = columns->payload_subjects;
    append->payload_salts = columns->payload_salts;
    append->payload_boxes = columns->payload_boxes;
}

/* Collects the facts that are not stored yet. Most facts of a group are stored already. */
static void fill_facts(struct sequencer *sequencer, struct group *group, struct audit_append *append)
{
    struct group_columns *columns = &group->columns;

    log_cache_begin_facts(sequencer->cache);
    for (size_t i = 0; i < group->count; i++) {
        const struct record *record = group->events[i].record;
        if (record == NULL) continue;
        const struct decision *decision = record->decision != NULL ? record->decision : record->under->decision;
        for (size_t k = 0; k < decision_facts_count(decision); k++) {
            if (!log_cache_wants_facts(sequencer->cache, decision->facts_digests[k])) continue;
            columns->facts_digests[append->facts_count] = (struct bytes){decision->facts_digests[k], LEAF_FACTS_DIGEST};
            columns->facts[append->facts_count++] = decision->parts.facts[k];
        }
    }
    append->facts_digests = columns->facts_digests;
    append->facts = columns->facts;
}

static void fill_tile_columns(struct group *group, struct audit_append *append)
{
    struct group_columns *columns = &group->columns;

    for (size_t i = 0; i < group->tile_count; i++) {
        const struct group_tile *tile = &group->tiles[i];
        columns->tile_levels[i] = (int64_t)tile->level;
        columns->tile_indices[i] = (int64_t)tile->index;
        columns->tile_hashes[i] = (struct bytes){tile->hashes[0].bytes, TILE_BYTES};
        columns->tile_roots[i] = (struct bytes){tile->root.bytes, MERKLE_HASH_SIZE};
    }
    append->tile_count = group->tile_count;
    append->tile_levels = columns->tile_levels;
    append->tile_indices = columns->tile_indices;
    append->tile_hashes = columns->tile_hashes;
    append->tile_roots = columns->tile_roots;
}

/* Whether a change of the group invalidates what readers have cached. */
static bool alters(const struct group *group)
{
    for (size_t i = 0; i < group->count; i++) {
        const struct event *event = &group->events[i];
        const struct change *change = event->record == NULL ? NULL : event->record->change;
        if (change != NULL && !event->has_failed && change->invalidates != CHANGE_INVALIDATES_NOTHING) return true;
    }
    return false;
}

/* The changes of a group, and the statements that make them. */
struct added {
    size_t count;
    struct change *changes[AUDIT_CHANGES_IN_ONE_TRIP];
    const struct permit *permits[AUDIT_CHANGES_IN_ONE_TRIP];
    size_t answers[AUDIT_CHANGES_IN_ONE_TRIP]; /* of each: the number of its statement */
    struct audit_trip trip;
};

static void list_changes(struct group *group, struct added *added)
{
    added->count = 0;
    for (size_t i = 0; i < group->count; i++) {
        struct change *change = event_change(&group->events[i]);
        if (change == NULL) continue;
        added->changes[added->count] = change;
        added->permits[added->count++] = event_permit(&group->events[i]);
    }
}

/* How many changes from `first` on one statement makes. */
static size_t count_together(const struct added *added, size_t first)
{
    size_t count = 1;

    if (added->changes[first]->add_all == NULL) return 1;
    while (count < AUDIT_CHANGES_TOGETHER && first + count < added->count &&
           added->changes[first + count]->add_all == added->changes[first]->add_all)
        count++;
    return count;
}

static struct result add_changes(struct pg *pg, struct added *added, struct error *err)
{
    for (size_t first = 0; first < added->count;) {
        struct change *change = added->changes[first];
        const size_t count = count_together(added, first);
        for (size_t i = 0; i < count; i++) {
            added->answers[first + i] = added->trip.change_count;
            added->changes[first + i]->row = i;
        }
        if (change->add_all != NULL) TRY(change->add_all(&added->permits[first], &added->changes[first], count, pg, err));
        else TRY(change->add(added->permits[first], change, pg, err));
        added->trip.change_count++;
        first += count;
    }
    return SUCCESS;
}

/* What was decided holds under this epoch: that of the cache may be older. */
static void take_epoch(struct group *group, uint64_t epoch)
{
    group->state.authorization_epoch = epoch;
    for (size_t i = 0; i < group->count; i++)
        if (group->events[i].permit != NULL) group->events[i].permit->epoch = epoch;
}

static struct result commit_in_one_trip(struct sequencer *sequencer, struct group *group, const struct audit_append *append,
                                        bool *is_refused_out, struct error *err)
{
    struct added added;

    *is_refused_out = false;
    added.trip.change_count = 0;
    list_changes(group, &added);
    TRY(audit_open_in_one_trip(sequencer->pg, append, &group->fence, err));
    TRY(add_changes(sequencer->pg, &added, err));
    const struct result closed = audit_close_in_one_trip(sequencer->pg, append, &added.trip, err);
    *is_refused_out = added.trip.is_refused;
    if (!closed.ok) return closed;
    take_epoch(group, added.trip.authorization_epoch);
    for (size_t i = 0; i < added.count; i++) added.changes[i]->take(added.changes[i], added.trip.answers[added.answers[i]]);
    for (size_t i = 0; i < added.trip.change_count; i++) pg_rows_free(added.trip.answers[i]);
    return SUCCESS;
}

static struct result commit(struct sequencer *sequencer, struct group *group, const struct audit_append *append,
                            bool *is_refused_out, struct error *err)
{
    if (is_refused_out == NULL) TRY(audit_commit(sequencer->pg, append, err));
    else TRY(commit_in_one_trip(sequencer, group, append, is_refused_out, err));
    log_cache_appended(sequencer->cache, append, &group->frontier);
    return SUCCESS;
}

struct result group_write(struct sequencer *sequencer, struct group *group, bool *is_refused_out, struct error *err)
{
    const struct audit_state *state = &group->state;
    const int64_t time_ms = state->now_ms > state->last_time_ms ? state->now_ms : state->last_time_ms;
    struct audit_append append = {
        .old_size = state->size, .count = group->count, .epoch = state->epoch, .time_ms = time_ms, .alters = alters(group)};

    group->frontier = state->frontier;
    TRY(write_leaves(group, time_ms, err));
    TRY(fill_tiles(sequencer, group, err));
    group->frontier_text.length = 0;
    TRY(merkle_frontier_write(&group->frontier, &group->frontier_text, err));
    append.frontier = buffer_bytes(&group->frontier_text);
    fill_entries(group, &append);
    fill_runs(group, &append);
    fill_payloads(group, &append);
    fill_facts(sequencer, group, &append);
    fill_tile_columns(group, &append);
    return commit(sequencer, group, &append, is_refused_out, err);
}
