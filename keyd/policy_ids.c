#include "keyd/policy_ids.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define HEAD_SIZE  (1 + 8 + 4)
#define ENTRY_SIZE (2 * DOCUMENT_DIGEST_SIZE)
#define BODY_SIZE  (HEAD_SIZE + POLICY_IDS_MAX * ENTRY_SIZE)
#define BLOCK      4096
#define COPY_SIZE  ((JOURNAL_HEADER_SIZE + BODY_SIZE + JOURNAL_SEAL_SIZE + BLOCK - 1) / BLOCK * BLOCK)

struct entry {
    uint8_t id[DOCUMENT_DIGEST_SIZE], set[DOCUMENT_DIGEST_SIZE];
};

struct state {
    bool is_complete;
    uint64_t epoch;
    uint32_t count;
    struct entry entries[POLICY_IDS_MAX];
};

struct policy_ids {
    struct journal *journal;
    pthread_mutex_t lock; /* held while the disk is written: a pin waits for it anyway */
    struct state state;
};

/* ---- the file ---- */

static size_t body_size(uint8_t version)
{
    return version == 1 ? BODY_SIZE : 0;
}

static size_t body_length(const uint8_t *body)
{
    const uint32_t count = load_u32(body + 9);

    return HEAD_SIZE + (size_t)(count > POLICY_IDS_MAX ? POLICY_IDS_MAX : count) * ENTRY_SIZE;
}

static void write_body(const void *context, uint8_t *body_out)
{
    const struct state *state = context;

    body_out[0] = state->is_complete ? 1 : 0;
    store_u64(body_out + 1, state->epoch);
    store_u32(body_out + 9, state->count);
    memset(body_out + HEAD_SIZE, 0, BODY_SIZE - HEAD_SIZE);
    for (uint32_t i = 0; i < state->count; i++) {
        uint8_t *at = body_out + HEAD_SIZE + (size_t)i * ENTRY_SIZE;
        memcpy(at, state->entries[i].id, DOCUMENT_DIGEST_SIZE);
        memcpy(at + DOCUMENT_DIGEST_SIZE, state->entries[i].set, DOCUMENT_DIGEST_SIZE);
    }
}

static void read_body(uint8_t version, struct bytes body, void *state_out)
{
    struct reader reader = reader_of(body);
    struct state *state = state_out;

    (void)version;
    memset(state, 0, sizeof *state);
    state->is_complete = reader_u8(&reader) == 1;
    state->epoch = reader_u64(&reader);
    state->count = reader_u32(&reader);
    assert(state->count <= POLICY_IDS_MAX); /* the seal is right, so this program never wrote more */
    for (uint32_t i = 0; i < state->count; i++) {
        memcpy(state->entries[i].id, reader_take(&reader, DOCUMENT_DIGEST_SIZE).data, DOCUMENT_DIGEST_SIZE);
        memcpy(state->entries[i].set, reader_take(&reader, DOCUMENT_DIGEST_SIZE).data, DOCUMENT_DIGEST_SIZE);
    }
}

static const struct journal_format format = {.name = POLICY_IDS_FILE,
                                             .magic = "SJPI",
                                             .version = 1,
                                             .copy_size = COPY_SIZE,
                                             .body_size = body_size,
                                             .body_length = body_length,
                                             .write = write_body,
                                             .read = read_body};

/* A set that was pinned before the file began had ids that it does not have. */
static struct result open_or_make(struct policy_ids *ids, int directory, const uint8_t key[JOURNAL_KEY_SIZE], uint64_t pinned,
                                  struct error *err)
{
    ids->state = (struct state){.is_complete = pinned == 0, .epoch = pinned};
    const struct result opened = journal_open_or_create(directory, &format, key, &ids->state, &ids->journal, err);

    if (!opened.ok && err->kind == ERROR_CORRUPT)
        return failure(err, ERROR_CORRUPT,
                       "the file of the ids of policies (%s) is damaged, or belongs to another key ring: restore it from the "
                       "backup of the folder, or remove it; without it, policies that are added count as loosenings",
                       POLICY_IDS_FILE);
    return opened;
}

struct result policy_ids_open(int directory, const uint8_t key[JOURNAL_KEY_SIZE], struct ledger *ledger,
                              struct policy_ids **ids_out, struct error *err)
{
    OWNED(policy_ids) *ids = memory_zeroed(1, sizeof *ids);
    struct ledger_state pinned;

    if (ids == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the ids of policies");
    (void)pthread_mutex_init(&ids->lock, NULL);
    ledger_read(ledger, &pinned);
    TRY(open_or_make(ids, directory, key, pinned.pins[0].epoch, err));
    if (pinned.pins[0].epoch > ids->state.epoch) ids->state.is_complete = false; /* an older file was put in its place */
    *ids_out = GIVE(ids);
    return SUCCESS;
}

/* ---- ids ---- */

/* With the lock held. */
static const struct entry *find(const struct policy_ids *ids, const uint8_t id[DOCUMENT_DIGEST_SIZE])
{
    for (uint32_t i = 0; i < ids->state.count; i++)
        if (memcmp(ids->state.entries[i].id, id, DOCUMENT_DIGEST_SIZE) == 0) return &ids->state.entries[i];
    return NULL;
}

static void add_all(struct policy_ids *ids, const struct keyd_policy_ids *of)
{
    for (size_t i = 0; i < of->count; i++) {
        if (find(ids, of->each[i]) != NULL) continue;
        if (ids->state.count == POLICY_IDS_MAX) {
            ids->state.is_complete = false;
            return;
        }
        struct entry *entry = &ids->state.entries[ids->state.count++];
        memcpy(entry->id, of->each[i], sizeof entry->id);
        memcpy(entry->set, of->digest, sizeof entry->set);
    }
}

/* What could not be written stays in memory: it can only make more persons sign. */
struct result policy_ids_note(struct policy_ids *ids, const struct keyd_policy_ids *of, uint64_t epoch, struct error *err)
{
    (void)pthread_mutex_lock(&ids->lock);
    const bool is_known = ids->state.epoch >= epoch;
    const uint32_t count = ids->state.count;
    add_all(ids, of);
    if (ids->state.epoch < epoch) ids->state.epoch = epoch;
    const bool is_same = is_known && ids->state.count == count;
    const struct result noted = is_same ? SUCCESS : journal_write(ids->journal, &ids->state, err);
    (void)pthread_mutex_unlock(&ids->lock);
    return noted;
}

/* A set whose pin was interrupted has noted its ids already: they count as its own. */
uint64_t policy_ids_unused(struct policy_ids *ids, const struct keyd_policy_ids *of)
{
    uint64_t unused = 0;

    (void)pthread_mutex_lock(&ids->lock);
    for (size_t i = 0; i < of->count && ids->state.is_complete; i++) {
        const struct entry *entry = find(ids, of->each[i]);
        if (entry == NULL || memcmp(entry->set, of->digest, sizeof entry->set) == 0) unused |= UINT64_C(1) << i;
    }
    (void)pthread_mutex_unlock(&ids->lock);
    return unused;
}

bool policy_ids_is_broken(const struct policy_ids *ids)
{
    return journal_is_broken(ids->journal);
}

void policy_ids_free(struct policy_ids *ids)
{
    if (ids == NULL) return;
    journal_free(ids->journal);
    (void)pthread_mutex_destroy(&ids->lock);
    free(ids);
}
