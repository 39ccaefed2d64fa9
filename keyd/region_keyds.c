#include "keyd/region_keyds.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "documents/format/set_change.h"
#include "keyd/pin_fields.h"

#define HEAD_SIZE  (2 * PIN_FIELD_SIZE + 1 + 4)
#define ENTRY_SIZE (2 * DOCUMENT_DIGEST_SIZE)
#define BODY_SIZE  (HEAD_SIZE + REGION_KEYDS_MAX * ENTRY_SIZE)
#define BLOCK      4096
#define COPY_SIZE  ((JOURNAL_HEADER_SIZE + BODY_SIZE + JOURNAL_SEAL_SIZE + BLOCK - 1) / BLOCK * BLOCK)

struct entry {
    uint8_t region[DOCUMENT_DIGEST_SIZE], key[DOCUMENT_DIGEST_SIZE];
};

struct state {
    struct document_pin before, now;
    bool is_full;
    uint32_t count;
    struct entry entries[REGION_KEYDS_MAX];
};

struct region_keyds {
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
    const uint32_t count = load_u32(body + 2 * PIN_FIELD_SIZE + 1);

    return HEAD_SIZE + (size_t)(count > REGION_KEYDS_MAX ? REGION_KEYDS_MAX : count) * ENTRY_SIZE;
}

static void write_body(const void *context, uint8_t *body_out)
{
    const struct state *state = context;

    memset(body_out, 0, BODY_SIZE);
    uint8_t *at = pin_field_put(pin_field_put(body_out, &state->before), &state->now);
    *at++ = state->is_full ? 1 : 0;
    store_u32(at, state->count);
    at += 4;
    for (uint32_t i = 0; i < state->count; i++)
        at = digest_field_put(digest_field_put(at, state->entries[i].region), state->entries[i].key);
}

static void read_body(uint8_t version, struct bytes body, void *state_out)
{
    struct reader reader = reader_of(body);
    struct state *state = state_out;

    (void)version;
    memset(state, 0, sizeof *state);
    pin_field_get(&reader, &state->before);
    pin_field_get(&reader, &state->now);
    state->is_full = reader_u8(&reader) == 1;
    state->count = reader_u32(&reader);
    assert(state->count <= REGION_KEYDS_MAX); /* the seal is right, so this program never wrote more */
    for (uint32_t i = 0; i < state->count; i++) {
        digest_field_get(&reader, state->entries[i].region);
        digest_field_get(&reader, state->entries[i].key);
    }
}

static const struct journal_format format = {.name = REGION_KEYDS_FILE,
                                             .magic = "SJRK",
                                             .version = 1,
                                             .copy_size = COPY_SIZE,
                                             .body_size = body_size,
                                             .body_length = body_length,
                                             .write = write_body,
                                             .read = read_body};

static struct result open_or_make(struct region_keyds *keyds, int directory, const uint8_t key[JOURNAL_KEY_SIZE],
                                  struct error *err)
{
    const struct result opened = journal_open_or_create(directory, &format, key, &keyds->state, &keyds->journal, err);

    if (!opened.ok && err->kind == ERROR_CORRUPT)
        return failure(err, ERROR_CORRUPT,
                       "the file of the regions that have a sijil-keyd of their own (%s) is damaged, or belongs to another key "
                       "ring: restore it from the backup of the folder, or remove it; then gateways show the set in force anew",
                       REGION_KEYDS_FILE);
    return opened;
}

struct result region_keyds_open(int directory, const uint8_t key[JOURNAL_KEY_SIZE], struct region_keyds **keyds_out,
                                struct error *err)
{
    OWNED(region_keyds) *keyds = memory_zeroed(1, sizeof *keyds);

    if (keyds == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the regions that have a sijil-keyd of their own");
    (void)pthread_mutex_init(&keyds->lock, NULL);
    TRY(open_or_make(keyds, directory, key, err));
    *keyds_out = GIVE(keyds);
    return SUCCESS;
}

/* ---- sets ---- */

static struct entry *find(struct state *state, const uint8_t region[DOCUMENT_DIGEST_SIZE])
{
    for (uint32_t i = 0; i < state->count; i++)
        if (memcmp(state->entries[i].region, region, DOCUMENT_DIGEST_SIZE) == 0) return &state->entries[i];
    return NULL;
}

/* A name that is no thumbprint is no set for any gateway; here the region counts as one of another sijil-keyd all the same. */
static void add(struct state *state, const char *name, const char *thumbprint)
{
    struct entry wanted;

    memset(&wanted, 0, sizeof wanted);
    sha256_of(bytes_of_text(name), wanted.region);
    if (!text_from_base64_exactly(BASE64_URL, bytes_of_text(thumbprint), wanted.key, sizeof wanted.key))
        memset(wanted.key, 0, sizeof wanted.key);
    struct entry *entry = find(state, wanted.region);
    if (entry == NULL && state->count == REGION_KEYDS_MAX) {
        state->is_full = true;
        return;
    }
    if (entry == NULL) entry = &state->entries[state->count++];
    *entry = wanted;
}

/* What could not be written stays in memory: it only makes less certain. */
static struct result note(struct region_keyds *keyds, const struct document *set, const struct document_pin *pin,
                          struct error *err)
{
    struct state *state = &keyds->state;
    const char *name;
    json_t *record;

    if (pin_field_is(pin, &state->now)) return SUCCESS;
    json_object_foreach (json_object_get(set->json, "regions"), name, record) {
        const json_t *named = json_object_get(record, "keyd");
        if (named != NULL) add(state, name, json_is_string(named) ? json_string_value(named) : "");
    }
    state->before = state->now;
    state->now = *pin;
    return journal_write(keyds->journal, state, err);
}

struct result region_keyds_note(struct region_keyds *keyds, const struct document *set, struct error *err)
{
    struct document_pin pin = {.epoch = set->version};

    memcpy(pin.digest, set->digest, sizeof pin.digest);
    (void)pthread_mutex_lock(&keyds->lock);
    const struct result noted = note(keyds, set, &pin, err);
    (void)pthread_mutex_unlock(&keyds->lock);
    return noted;
}

static void pinned_set(struct ledger *ledger, struct document_pin *pin_out)
{
    struct ledger_state state;

    ledger_read(ledger, &state);
    *pin_out = state.pins[0];
}

struct result region_keyds_show(struct region_keyds *keyds, struct ledger *ledger, struct bytes envelope, struct error *err)
{
    OWNED(document) *document = NULL;
    uint8_t digest[DOCUMENT_DIGEST_SIZE]; /* of the members: what the set states of itself, its signers alone have checked */
    struct document_pin pinned;

    TRY(document_read(&envelope, 1, &document, err));
    if (document->kind != DOCUMENT_POLICY_SET) return failure(err, ERROR_INVALID, "this is no policy set");
    TRY(set_digest_of(document->json, digest, err));
    pinned_set(ledger, &pinned);
    if (document->version != pinned.epoch || memcmp(digest, pinned.digest, sizeof digest) != 0 ||
        memcmp(document->digest, digest, sizeof digest) != 0)
        return failure(err, ERROR_DENIED, "this is not the policy set that is pinned");
    return region_keyds_note(keyds, document, err);
}

/* ---- regions ---- */

static bool is_noted(const struct state *state, const struct document_pin *pinned)
{
    return pinned->epoch == 0 || pin_field_is(pinned, &state->now) || pin_field_is(pinned, &state->before);
}

struct result region_keyds_check(struct region_keyds *keyds, struct ledger *ledger, const char *region, struct error *err)
{
    uint8_t wanted[DOCUMENT_DIGEST_SIZE];
    struct document_pin pinned;

    sha256_of(bytes_of_text(region), wanted);
    pinned_set(ledger, &pinned);
    (void)pthread_mutex_lock(&keyds->lock);
    const bool is_known = is_noted(&keyds->state, &pinned), is_named = find(&keyds->state, wanted) != NULL;
    const bool is_full = keyds->state.is_full;
    (void)pthread_mutex_unlock(&keyds->lock);
    if (is_named)
        return failure(err, ERROR_DENIED, "region %.63s has a sijil-keyd of its own: what that one destroyed is not known here",
                       region);
    if (is_full)
        return failure(err, ERROR_DENIED, "whether region %.63s has a sijil-keyd of its own is not known: %d others have one",
                       region, REGION_KEYDS_MAX);
    if (!is_known) return failure(err, ERROR_CONFLICT, "the regions of the policy set in force are not known yet: show the set");
    return SUCCESS;
}

void region_keyds_name(struct region_keyds *keyds, const char *region, char thumbprint_out[ECDSA_THUMBPRINT_SIZE])
{
    char memory[ECDSA_THUMBPRINT_SIZE];
    struct buffer text = {.data = (uint8_t *)memory, .capacity = sizeof memory, .maximum = sizeof memory - 1};
    uint8_t wanted[DOCUMENT_DIGEST_SIZE], key[DOCUMENT_DIGEST_SIZE];
    struct error none = {0};

    thumbprint_out[0] = '\0';
    sha256_of(bytes_of_text(region), wanted);
    (void)pthread_mutex_lock(&keyds->lock);
    const struct entry *entry = find(&keyds->state, wanted);
    if (entry != NULL) memcpy(key, entry->key, sizeof key);
    (void)pthread_mutex_unlock(&keyds->lock);
    if (entry != NULL && text_base64(&text, BASE64_URL, (struct bytes){key, sizeof key}, &none).ok)
        (void)snprintf(thumbprint_out, ECDSA_THUMBPRINT_SIZE, "%.*s", (int)text.length, memory);
}

bool region_keyds_are_broken(const struct region_keyds *keyds)
{
    return journal_is_broken(keyds->journal);
}

void region_keyds_free(struct region_keyds *keyds)
{
    if (keyds == NULL) return;
    journal_free(keyds->journal);
    (void)pthread_mutex_destroy(&keyds->lock);
    free(keyds);
}
