#include "audit/log_memory_priv.h"

#include <string.h>

#include "base/memory.h"

struct head {
    uint8_t key[LEAF_KEY_ID_SIZE];
    int64_t number;
    uint64_t generation; /* of the memory, when it was kept */
};

/* Whoever may delete them is not us, and the patrol tells it: what was stored once is not looked for again. */
struct stored_facts {
    uint8_t digest[LEAF_FACTS_DIGEST];
    uint64_t attempt; /* that wanted them last */
    bool is_stored;
};

struct log_memory {
    bool is_known, is_alone; /* nobody else appended before the last read */
    struct audit_state state;
    int64_t read_ms;     /* of the monotonic clock */
    uint64_t generation; /* heads of older ones are forgotten */
    struct head heads[LOG_MEMORY_HEADS];
    uint64_t attempt;
    struct stored_facts facts[LOG_MEMORY_FACTS];
};

struct result log_memory_new(struct log_memory **memory_out, struct error *err)
{
    struct log_memory *memory = memory_zeroed(1, sizeof *memory);

    if (memory == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the heads of the log");
    memory->generation = 1;
    *memory_out = memory;
    return SUCCESS;
}

void log_memory_free(struct log_memory *memory)
{
    free(memory);
}

struct result log_memory_compare(const struct log_memory *memory, const struct audit_state *state, struct error *err)
{
    const struct merkle_hash kept = merkle_frontier_root(&memory->state.frontier), read = merkle_frontier_root(&state->frontier);

    if (memory->state.size == 0 || memory->state.size != state->size || memory->state.epoch != state->epoch) return SUCCESS;
    if (merkle_hash_equal(&kept, &read) && memory->state.last_time_ms == state->last_time_ms) return SUCCESS;
    return failure(err, ERROR_FORKED, "the state of the log was changed behind its %llu events", (unsigned long long)state->size);
}

void log_memory_read(struct log_memory *memory, const struct audit_state *state, int64_t monotonic_ms)
{
    const bool is_ours = memory->state.size == state->size && memory->state.epoch == state->epoch;

    if (!is_ours) memory->generation++;
    memory->state = *state;
    memory->read_ms = monotonic_ms;
    memory->is_known = memory->is_alone = is_ours; /* beside others guessing costs more than it saves */
}

/* Ids are the beginning of a SHA-256, so any of their bits are as good as a hash. */
static size_t place_of(struct bytes key)
{
    return load_u32(key.data) % LOG_MEMORY_HEADS;
}

static struct stored_facts *facts_of(struct log_memory *memory, const uint8_t *digest)
{
    return &memory->facts[load_u32(digest) % LOG_MEMORY_FACTS];
}

void log_memory_begin_facts(struct log_memory *memory)
{
    memory->attempt++;
}

bool log_memory_wants_facts(struct log_memory *memory, const uint8_t digest[LEAF_FACTS_DIGEST])
{
    struct stored_facts *facts = facts_of(memory, digest);
    const bool is_same = memcmp(facts->digest, digest, sizeof facts->digest) == 0;

    if (is_same && (facts->is_stored || facts->attempt == memory->attempt)) return false;
    memcpy(facts->digest, digest, sizeof facts->digest);
    facts->attempt = memory->attempt;
    facts->is_stored = false;
    return true;
}

static void note_facts(struct log_memory *memory, const struct audit_append *append)
{
    for (size_t i = 0; i < append->facts_count; i++) {
        struct stored_facts *facts = facts_of(memory, append->facts_digests[i].data);
        if (memcmp(facts->digest, append->facts_digests[i].data, sizeof facts->digest) == 0) facts->is_stored = true;
    }
}

void log_memory_appended(struct log_memory *memory, const struct audit_append *append,
                         const struct merkle_frontier *frontier)
{
    for (size_t i = 0; i < append->key_count; i++) {
        struct head *head = &memory->heads[place_of(append->keys[i])];
        memcpy(head->key, append->keys[i].data, sizeof head->key);
        head->number = append->numbers[i];
        head->generation = memory->generation;
    }
    note_facts(memory, append);
    memory->state.size = append->old_size + append->count;
    memory->state.last_time_ms = append->time_ms;
    memory->state.frontier = *frontier;
    memory->is_known = memory->is_alone;
}

void log_memory_forget(struct log_memory *memory)
{
    memory->is_known = false;
}

bool log_memory_state(const struct log_memory *memory, int64_t monotonic_ms, struct audit_state *state_out)
{
    const int64_t age_ms = monotonic_ms - memory->read_ms;

    if (!memory->is_known || age_ms > LOG_MEMORY_SYNC_MS) return false;
    *state_out = memory->state;
    state_out->now_ms += age_ms;
    return true;
}

bool log_memory_heads(const struct log_memory *memory, const struct audit_heads *heads)
{
    for (size_t i = 0; i < heads->count; i++) {
        const struct head *head = &memory->heads[place_of(heads->keys[i])];
        if (head->generation != memory->generation) return false;
        if (memcmp(head->key, heads->keys[i].data, sizeof head->key) != 0) return false;
        heads->numbers[i] = head->number;
    }
    return true;
}
