#include "keyd/log_rotation.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "audit/format/succession.h"
#include "base/memory.h"
#include "crypto/dsse.h"
#include "crypto/ed25519.h"

/* The key at place i + 1 of the key ring follows the one at place i. */
struct step {
    uint64_t size;
    uint8_t root[MERKLE_HASH_SIZE];
    int64_t retires_s; /* when the old key stops */
    uint32_t log; /* the number of the log in which it was, from 1 (keyd/ledger.h); 0: a file of an earlier version did not say */
};

struct state {
    uint8_t count;
    struct step steps[KEYRING_FURTHER_MAX];
};

struct log_rotation {
    const struct keyring *keyring;
    struct ledger *ledger; /* NULL: the first log */
    struct journal *journal;
    pthread_rwlock_t lock; /* of the state: read while a checkpoint is signed */
    struct state state;
};

_Static_assert(LOG_KEYS_MAX == KEYRING_FURTHER_MAX + 1, "a verifier has room for the keys of a key ring");

/* ---- the file ---- */

enum {
    FIRST_STEP_SIZE = 8 + MERKLE_HASH_SIZE + 8,
    STEP_SIZE = FIRST_STEP_SIZE + 4,
    BODY_SIZE = 1 + KEYRING_FURTHER_MAX * STEP_SIZE,
    COPY_SIZE = 4096
};
_Static_assert(JOURNAL_HEADER_SIZE + BODY_SIZE + JOURNAL_SEAL_SIZE <= COPY_SIZE, "a copy has room");

static size_t body_size(uint8_t version)
{
    return version == 1 ? 1 + KEYRING_FURTHER_MAX * FIRST_STEP_SIZE : version == 2 ? BODY_SIZE : 0;
}

static void write_body(const void *context, uint8_t *body_out)
{
    const struct state *state = context;
    uint8_t *at = body_out;

    *at++ = state->count;
    for (size_t i = 0; i < KEYRING_FURTHER_MAX; i++, at += STEP_SIZE) {
        store_u64(at, state->steps[i].size);
        memcpy(at + 8, state->steps[i].root, MERKLE_HASH_SIZE);
        store_u64(at + 8 + MERKLE_HASH_SIZE, (uint64_t)state->steps[i].retires_s);
        store_u32(at + FIRST_STEP_SIZE, state->steps[i].log);
    }
}

/* An HMAC is over it, so only keyd has written it. */
static void read_body(uint8_t version, struct bytes body, void *state_out)
{
    struct reader reader = reader_of(body);
    struct state state = {.count = reader_u8(&reader)};

    for (size_t i = 0; i < KEYRING_FURTHER_MAX; i++) {
        state.steps[i].size = reader_u64(&reader);
        memcpy(state.steps[i].root, reader_take(&reader, MERKLE_HASH_SIZE).data, MERKLE_HASH_SIZE);
        state.steps[i].retires_s = (int64_t)reader_u64(&reader);
        if (version >= 2) state.steps[i].log = reader_u32(&reader);
    }
    assert(reader_is_done(&reader) && state.count <= KEYRING_FURTHER_MAX);
    memcpy(state_out, &state, sizeof state);
}

static const struct journal_format format = {.name = LOG_ROTATION_FILE,
                                             .magic = "SJLK",
                                             .version = 2,
                                             .copy_size = COPY_SIZE,
                                             .body_size = body_size,
                                             .write = write_body,
                                             .read = read_body};

struct result log_rotation_create(int directory, const uint8_t key[JOURNAL_KEY_SIZE], struct error *err)
{
    const struct state state = {.count = 0};

    return journal_create(directory, &format, key, &state, err);
}

static struct result open_journal(struct log_rotation *rotation, int directory, struct error *err)
{
    const uint8_t *key = keyring_ledger_key(rotation->keyring);
    struct result opened = journal_open(directory, &format, key, &rotation->state, &rotation->journal, err);

    if (!opened.ok && err->kind == ERROR_NOT_FOUND && keyring_log_key_count(rotation->keyring) == 1) {
        TRY(log_rotation_create(directory, key, err));
        opened = journal_open(directory, &format, key, &rotation->state, &rotation->journal, err);
    }
    if (opened.ok) return SUCCESS;
    if (err->kind == ERROR_CONFLICT) return failure(err, ERROR_CONFLICT, "another sijil-keyd runs on this folder");
    if (err->kind == ERROR_NOT_FOUND || err->kind == ERROR_CORRUPT)
        return failure(err, ERROR_CORRUPT,
                       "the file " LOG_ROTATION_FILE
                       " is missing, is damaged, or belongs to another key ring: it says which keys of "
                       "the log count. Restore the newest copy of it, with that of the ledger");
    return opened;
}

struct result log_rotation_open(int directory, const struct keyring *keyring, struct log_rotation **rotation_out,
                                struct error *err)
{
    OWNED(log_rotation) *rotation = memory_zeroed(1, sizeof *rotation);

    if (rotation == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the keys of the log");
    (void)pthread_rwlock_init(&rotation->lock, NULL);
    rotation->keyring = keyring;
    TRY(open_journal(rotation, directory, err));
    if (rotation->state.count >= keyring_log_key_count(keyring))
        return failure(err, ERROR_CORRUPT,
                       "key %u of the log counts, and the key ring has %zu: it is older than the file " LOG_ROTATION_FILE,
                       rotation->state.count + 1U, keyring_log_key_count(keyring));
    *rotation_out = GIVE(rotation);
    return SUCCESS;
}

void log_rotation_free(struct log_rotation *rotation)
{
    if (rotation == NULL) return;
    journal_free(rotation->journal);
    (void)pthread_rwlock_destroy(&rotation->lock);
    free(rotation);
}

bool log_rotation_is_broken(const struct log_rotation *rotation)
{
    return journal_is_broken(rotation->journal);
}

/* ---- what it knows ---- */

/* What a file of an earlier version does not say: the keys behind the first one of this log followed in it. */
static struct result name_logs(struct log_rotation *rotation, const struct ledger_state *ledger, struct error *err)
{
    struct state next = rotation->state;
    bool is_new = false;

    for (size_t i = ledger->log_first_key; i < next.count; i++) {
        is_new = is_new || next.steps[i].log == 0;
        if (next.steps[i].log == 0) next.steps[i].log = ledger->log_number;
    }
    if (!is_new) return SUCCESS;
    TRY(journal_write(rotation->journal, &next, err));
    rotation->state = next;
    return SUCCESS;
}

/* Such a key would be handed over in the name of this log, with the size and the root of another one. */
static struct result check_logs(const struct log_rotation *rotation, const struct ledger_state *ledger, struct error *err)
{
    for (size_t i = 0; i < rotation->state.count; i++)
        if (rotation->state.steps[i].log > ledger->log_number)
            return failure(err, ERROR_CORRUPT,
                           "the file " LOG_ROTATION_FILE
                           " knows a new key of log %u of this registry, and the ledger is at log %u: the ledger is "
                           "from before a recovery. Restore the newest copy of both",
                           rotation->state.steps[i].log, ledger->log_number);
    return SUCCESS;
}

struct result log_rotation_use(struct log_rotation *rotation, struct ledger *ledger, struct error *err)
{
    struct ledger_state state;

    ledger_read(ledger, &state);
    if (state.log_first_key > rotation->state.count)
        return failure(err, ERROR_CORRUPT,
                       "the log begins with key %u, and the file " LOG_ROTATION_FILE
                       " says that key %u signs: it is older than the ledger. Restore the newest copy of both",
                       state.log_first_key + 1U, rotation->state.count + 1U);
    TRY(check_logs(rotation, &state, err));
    TRY(name_logs(rotation, &state, err));
    rotation->ledger = ledger;
    return SUCCESS;
}

const char *log_rotation_registry(const struct log_rotation *rotation)
{
    return keyring_origin(rotation->keyring);
}

uint8_t log_rotation_newest(const struct log_rotation *rotation)
{
    return rotation->state.count;
}

/* A log after a recovery has another origin, and begins with the key that signed then. */
struct log_place {
    char origin[CHECKPOINT_ORIGIN_MAX + 1];
    size_t first; /* the place in the key ring of its first key */
};

static struct result place_of(const struct log_rotation *rotation, struct log_place *place_out, struct error *err)
{
    struct ledger_state state = {.log_number = 1};

    if (rotation->ledger != NULL) ledger_read(rotation->ledger, &state);
    place_out->first = state.log_first_key;
    return succession_origin(keyring_origin(rotation->keyring), state.log_number, place_out->origin, err);
}

/* The name of the registry is short enough for every number of a log that was begun. */
static struct log_place place_now(const struct log_rotation *rotation)
{
    struct log_place place;
    struct error err;
    const bool is_placed = place_of(rotation, &place, &err).ok;

    assert(is_placed);
    return place;
}

static struct note_key key_at(const struct log_rotation *rotation, const struct log_place *place, size_t index)
{
    struct note_key key = {.algorithm = NOTE_ED25519};
    struct error err;
    const bool is_made =
        note_key_make(place->origin, NOTE_ED25519, keyring_log_key(rotation->keyring, index)->public_key, &key, &err).ok;

    assert(is_made);
    return key;
}

void log_rotation_hold(struct log_rotation *rotation)
{
    (void)pthread_rwlock_rdlock(&rotation->lock);
}

void log_rotation_release(struct log_rotation *rotation)
{
    (void)pthread_rwlock_unlock(&rotation->lock);
}

static struct state read_state(struct log_rotation *rotation)
{
    log_rotation_hold(rotation);
    const struct state state = rotation->state;
    log_rotation_release(rotation);
    return state;
}

void log_rotation_keys(struct log_rotation *rotation, struct log_keys *keys_out)
{
    const struct state state = read_state(rotation);
    const struct log_place place = place_now(rotation);
    const struct note_key first = key_at(rotation, &place, place.first);

    log_keys_of(&first, keys_out);
    for (size_t i = place.first; i < state.count; i++) {
        struct log_start *start = &keys_out->starts[keys_out->count];
        keys_out->keys[keys_out->count++] = key_at(rotation, &place, i + 1);
        start->size = state.steps[i].size;
        memcpy(start->root.bytes, state.steps[i].root, MERKLE_HASH_SIZE);
    }
}

void log_rotation_state(struct log_rotation *rotation, struct log_rotation_state *state_out)
{
    const struct state state = read_state(rotation);
    const struct log_place place = place_now(rotation);
    const size_t next = state.count + 1U;

    *state_out =
        (struct log_rotation_state){.retires_s = state.count == place.first ? 0 : state.steps[state.count - 1].retires_s};
    state_out->has_next = next < keyring_log_key_count(rotation->keyring);
    if (state_out->has_next) state_out->next = key_at(rotation, &place, next);
}

/* ---- signatures ---- */

static struct result add_signature(const struct log_rotation *rotation, const struct note_key *key, size_t index,
                                   struct bytes text, struct buffer *note, struct error *err)
{
    uint8_t signature[ED25519_SIGNATURE_SIZE];

    TRY(keyring_sign_log(rotation->keyring, index, text, signature, err));
    return note_write_signature(note, key, (struct bytes){signature, sizeof signature}, err);
}

/* Signatures with Ed25519 are the same each time, so a handover is too. */
static struct result write_handover(const struct log_rotation *rotation, const struct step *step, size_t index,
                                    struct buffer *text, struct error *err)
{
    const struct log_place place = place_now(rotation);
    struct buffer OWNED_BUFFER signed_text = BUFFER(2048); /* an origin and two keys of at most 190 letters */
    struct log_handover handover = {.size = step->size, .old = key_at(rotation, &place, index)};

    handover.new = key_at(rotation, &place, index + 1);
    memcpy(handover.origin, place.origin, sizeof handover.origin);
    memcpy(handover.root.bytes, step->root, MERKLE_HASH_SIZE);
    TRY(log_handover_write(&handover, &signed_text, err));
    TRY(note_write_text(text, buffer_bytes(&signed_text), err));
    TRY(add_signature(rotation, &handover.old, index, buffer_bytes(&signed_text), text, err));
    return add_signature(rotation, &handover.new, index + 1, buffer_bytes(&signed_text), text, err);
}

struct result log_rotation_text(struct log_rotation *rotation, struct buffer *text, struct error *err)
{
    const struct state state = read_state(rotation);

    const struct log_place place = place_now(rotation);
    const struct note_key first = key_at(rotation, &place, place.first);

    TRY(note_key_write(&first, text, err));
    TRY(buffer_add_u8(text, '\n', err));
    for (size_t i = place.first; i < state.count; i++) TRY(write_handover(rotation, &state.steps[i], i, text, err));
    return SUCCESS;
}

/* The old key counts for the checkpoint at which it ended, also when that one is signed again after the overlap. */
static bool signs(const struct state *state, size_t first, size_t index, uint64_t size, int64_t now_ms)
{
    if (index == state->count) return true;
    const struct step *step = &state->steps[index];
    const bool counts = size <= step->size && (index == first || size > state->steps[index - 1].size);

    return counts || (index + 1U == state->count && now_ms / 1000 < step->retires_s);
}

struct result log_rotation_sign(struct log_rotation *rotation, struct bytes text, uint64_t size, int64_t now_ms,
                                struct buffer *note, struct error *err)
{
    const struct log_place place = place_now(rotation);

    TRY(note_write_text(note, text, err));
    for (size_t i = place.first; i <= rotation->state.count; i++) {
        const struct note_key key = key_at(rotation, &place, i);
        if (signs(&rotation->state, place.first, i, size, now_ms)) TRY(add_signature(rotation, &key, i, text, note, err));
    }
    return SUCCESS;
}

/* ---- the change ---- */

static bool is_key(const struct log_rotation *rotation, size_t index, const struct note_key *key)
{
    if (index >= keyring_log_key_count(rotation->keyring)) return false;
    const struct log_place place = place_now(rotation);
    const struct note_key own = key_at(rotation, &place, index);

    return strcmp(own.name, key->name) == 0 && memcmp(own.public_key, key->public_key, sizeof own.public_key) == 0;
}

/* As with the policy of witnesses, the root itself signs: this is rarer than any other change. */
static struct result read_order(const struct ledger_state *ledger, struct bytes envelope, struct log_rotation_order *order_out,
                                struct error *err)
{
    OWNED(ecdsa_key) *root = NULL;
    OWNED(dsse) *dsse = NULL;

    TRY(dsse_read(envelope, KEYD_LOG_ROTATION_MAX, &dsse, err));
    if (strcmp(dsse->payload_type, LOG_ROTATION_PAYLOAD) != 0)
        return failure(err, ERROR_INVALID, "the signed document is no order to change the log's key");
    if (!ecdsa_key_from_public(ledger->approver, &root, err).ok)
        return failure(err, ERROR_DENIED, "no root of approvers is pinned that could order a new key of the log");
    TRY(dsse_check_signer(dsse, root, err));
    return log_rotation_order_read(buffer_bytes(&dsse->payload), order_out, err);
}

static struct result check_order(const struct log_rotation *rotation, const struct ledger_state *ledger,
                                 const struct log_rotation_order *order, int64_t now_ms, struct error *err)
{
    const struct state *state = &rotation->state;
    const size_t first = place_now(rotation).first;

    if (!is_key(rotation, state->count, &order->old))
        return failure(err, ERROR_DENIED,
                       "the order names another key as the one that counts now: sijil admin log-key status shows it");
    if (!is_key(rotation, state->count + 1U, &order->new))
        return failure(err, ERROR_DENIED,
                       "the new key of the order is not the next one of the key ring: sijil-keyd --add-log-key makes one, and "
                       "sijil admin log-key status shows it");
    if (state->count > first && now_ms / 1000 < state->steps[state->count - 1].retires_s)
        return failure(err, ERROR_CONFLICT, "the key before the present one signs still: wait for the end of the overlap");
    if (ledger->log_size <= (state->count == first ? 0 : state->steps[state->count - 1].size))
        return failure(err, ERROR_CONFLICT, "no checkpoint was signed since the last change of the log's key");
    return SUCCESS;
}

/* With the lock held. */
static struct result follow(struct log_rotation *rotation, struct ledger *ledger, const struct log_rotation_order *order,
                            int64_t now_ms, struct error *err)
{
    struct state next = rotation->state;
    struct ledger_state known;

    if (next.count > place_now(rotation).first && is_key(rotation, next.count, &order->new) &&
        is_key(rotation, next.count - 1U, &order->old))
        return SUCCESS; /* the same order again */
    ledger_read(ledger, &known);
    TRY(check_order(rotation, &known, order, now_ms, err));
    struct step *step = &next.steps[next.count++];
    *step =
        (struct step){.size = known.log_size, .retires_s = now_ms / 1000 + (int64_t)order->overlap_s, .log = known.log_number};
    memcpy(step->root, known.log_root, sizeof step->root);
    TRY(journal_write(rotation->journal, &next, err));
    rotation->state = next;
    return SUCCESS;
}

struct result log_rotation_follow(struct log_rotation *rotation, struct ledger *ledger, struct bytes envelope, int64_t now_ms,
                                  struct error *err)
{
    struct log_rotation_order order;
    struct ledger_state known;

    ledger_read(ledger, &known);
    TRY(read_order(&known, envelope, &order, err));
    (void)pthread_rwlock_wrlock(&rotation->lock);
    const struct result followed = follow(rotation, ledger, &order, now_ms, err);
    (void)pthread_rwlock_unlock(&rotation->lock);
    return followed;
}
