#include "keyd/organisation_restrictions.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "crypto/digest.h"
#include "keyd/key_register.h"
#include "keyd/pin_fields.h"

#define HEAD_SIZE  (2 * PIN_FIELD_SIZE + 4)
#define ENTRY_SIZE (3 * DOCUMENT_DIGEST_SIZE)
#define BODY_SIZE  (HEAD_SIZE + ORGANISATION_RESTRICTIONS_MAX * ENTRY_SIZE)
#define BLOCK      4096
#define COPY_SIZE  ((JOURNAL_HEADER_SIZE + BODY_SIZE + JOURNAL_SEAL_SIZE + BLOCK - 1) / BLOCK * BLOCK)

struct entry {
    uint8_t name[DOCUMENT_DIGEST_SIZE], organisation[DOCUMENT_DIGEST_SIZE], digest[DOCUMENT_DIGEST_SIZE];
};

struct state {
    struct document_pin before, now;
    uint32_t count;
    struct entry entries[ORGANISATION_RESTRICTIONS_MAX];
};

struct organisation_restrictions {
    struct journal *journal;
    pthread_mutex_t lock; /* held while the disk is written: a pin waits for it anyway */
    struct state state, undo;
};

/* ---- the file ---- */

static size_t body_size(uint8_t version)
{
    return version == 1 ? BODY_SIZE : 0;
}

static size_t body_length(const uint8_t *body)
{
    const uint32_t count = load_u32(body + 2 * PIN_FIELD_SIZE);

    return HEAD_SIZE + (size_t)(count > ORGANISATION_RESTRICTIONS_MAX ? ORGANISATION_RESTRICTIONS_MAX : count) * ENTRY_SIZE;
}

static void write_body(const void *context, uint8_t *body_out)
{
    const struct state *state = context;

    memset(body_out, 0, BODY_SIZE);
    uint8_t *at = pin_field_put(pin_field_put(body_out, &state->before), &state->now);
    store_u32(at, state->count);
    at += 4;
    for (uint32_t i = 0; i < state->count; i++)
        at = digest_field_put(digest_field_put(digest_field_put(at, state->entries[i].name), state->entries[i].organisation),
                              state->entries[i].digest);
}

static void read_body(uint8_t version, struct bytes body, void *state_out)
{
    struct reader reader = reader_of(body);
    struct state *state = state_out;

    (void)version;
    memset(state, 0, sizeof *state);
    pin_field_get(&reader, &state->before);
    pin_field_get(&reader, &state->now);
    state->count = reader_u32(&reader);
    assert(state->count <= ORGANISATION_RESTRICTIONS_MAX); /* the seal is right, so this program never wrote more */
    for (uint32_t i = 0; i < state->count; i++) {
        digest_field_get(&reader, state->entries[i].name);
        digest_field_get(&reader, state->entries[i].organisation);
        digest_field_get(&reader, state->entries[i].digest);
    }
}

static const struct journal_format format = {.name = ORGANISATION_RESTRICTIONS_FILE,
                                             .magic = "SJOR",
                                             .version = 1,
                                             .copy_size = COPY_SIZE,
                                             .body_size = body_size,
                                             .body_length = body_length,
                                             .write = write_body,
                                             .read = read_body};

static struct result open_or_make(struct organisation_restrictions *restrictions, int directory,
                                  const uint8_t key[JOURNAL_KEY_SIZE], const struct document_pin *pinned, struct error *err)
{
    struct state *state = &restrictions->state;
    *state = (struct state){.before = *pinned, .now = *pinned};
    const struct result opened = journal_open_or_create(directory, &format, key, state, &restrictions->journal, err);

    if (!opened.ok && err->kind == ERROR_CORRUPT)
        return failure(err, ERROR_CORRUPT,
                       "the file of restrictions (%s) is damaged, or belongs to another key ring: restore it from the backup of "
                       "the folder, or remove it; then runs are decided without those that are not signed anew",
                       ORGANISATION_RESTRICTIONS_FILE);
    return opened;
}

struct result organisation_restrictions_open(int directory, const uint8_t key[JOURNAL_KEY_SIZE], struct ledger *ledger,
                                             struct organisation_restrictions **restrictions_out, struct error *err)
{
    OWNED(organisation_restrictions) *restrictions = memory_zeroed(1, sizeof *restrictions);
    struct ledger_state ledger_now;

    if (restrictions == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the restrictions of organisations");
    (void)pthread_mutex_init(&restrictions->lock, NULL);
    ledger_read(ledger, &ledger_now);
    const struct document_pin pinned = ledger_now.pins[document_kind(DOCUMENT_RESTRICTION)->number - 1];
    struct state *state = &restrictions->state;
    TRY(open_or_make(restrictions, directory, key, &pinned, err));
    if (!pin_field_is(&pinned, &state->now) && !pin_field_is(&pinned, &state->before)) /* an older file was put in its place */
        *state = (struct state){.before = pinned, .now = pinned};
    *restrictions_out = GIVE(restrictions);
    return SUCCESS;
}

/* ---- documents ---- */

static struct entry *find(struct state *state, const uint8_t name[DOCUMENT_DIGEST_SIZE])
{
    for (uint32_t i = 0; i < state->count; i++)
        if (memcmp(state->entries[i].name, name, DOCUMENT_DIGEST_SIZE) == 0) return &state->entries[i];
    return NULL;
}

static struct result change(struct state *state, const struct organisation_restrictions_note *note, struct error *err)
{
    struct entry wanted;

    key_register_owner(note->document, wanted.name);
    struct entry *entry = find(state, wanted.name);
    if (entry == NULL && !note->document->is_withdrawn && state->count == ORGANISATION_RESTRICTIONS_MAX)
        return failure(err, ERROR_LIMIT, "more than %d restrictions of all organisations", ORGANISATION_RESTRICTIONS_MAX);
    state->before = note->before;
    state->now = note->pin;
    if (note->document->is_withdrawn) {
        if (entry != NULL) *entry = state->entries[--state->count];
        return SUCCESS;
    }
    sha256_of(bytes_of_text(note->document->scope), wanted.organisation);
    memcpy(wanted.digest, note->document->digest, sizeof wanted.digest);
    if (entry == NULL) entry = &state->entries[state->count++];
    *entry = wanted;
    return SUCCESS;
}

struct result organisation_restrictions_note(struct organisation_restrictions *restrictions,
                                             const struct organisation_restrictions_note *note, struct error *err)
{
    (void)pthread_mutex_lock(&restrictions->lock);
    restrictions->undo = restrictions->state;
    struct result noted = change(&restrictions->state, note, err);
    if (noted.ok) noted = journal_write(restrictions->journal, &restrictions->state, err);
    if (!noted.ok) restrictions->state = restrictions->undo;
    (void)pthread_mutex_unlock(&restrictions->lock);
    return noted;
}

size_t organisation_restrictions_find(struct organisation_restrictions *restrictions, const char *organisation,
                                      uint8_t (*digests)[DOCUMENT_DIGEST_SIZE], size_t most)
{
    uint8_t wanted[DOCUMENT_DIGEST_SIZE];
    size_t count = 0;

    sha256_of(bytes_of_text(organisation), wanted);
    (void)pthread_mutex_lock(&restrictions->lock);
    for (uint32_t i = 0; i < restrictions->state.count; i++) {
        const struct entry *entry = &restrictions->state.entries[i];
        if (memcmp(entry->organisation, wanted, sizeof wanted) != 0) continue;
        if (count < most) memcpy(digests[count], entry->digest, sizeof entry->digest);
        count++;
    }
    (void)pthread_mutex_unlock(&restrictions->lock);
    return count;
}

bool organisation_restrictions_are_broken(const struct organisation_restrictions *restrictions)
{
    return journal_is_broken(restrictions->journal);
}

void organisation_restrictions_free(struct organisation_restrictions *restrictions)
{
    if (restrictions == NULL) return;
    journal_free(restrictions->journal);
    (void)pthread_mutex_destroy(&restrictions->lock);
    free(restrictions);
}
