#include "keyd/organisation_officers.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "documents/format/officers.h"
#include "keyd/pin_fields.h"

#define HEAD_SIZE  (2 * PIN_FIELD_SIZE + 4)
#define ENTRY_SIZE (4 * DOCUMENT_DIGEST_SIZE + 8 + 1)
#define BODY_SIZE  (HEAD_SIZE + ORGANISATION_OFFICERS_MAX * ENTRY_SIZE)
#define BLOCK      4096
#define COPY_SIZE  ((JOURNAL_HEADER_SIZE + BODY_SIZE + JOURNAL_SEAL_SIZE + BLOCK - 1) / BLOCK * BLOCK)

struct entry {
    uint8_t name[DOCUMENT_DIGEST_SIZE], key[DOCUMENT_DIGEST_SIZE], principal[DOCUMENT_DIGEST_SIZE];
    uint8_t organisation[DOCUMENT_DIGEST_SIZE];
    int64_t end_ms;
    uint8_t persons;
};

struct state {
    struct document_pin before, now;
    uint32_t count;
    struct entry entries[ORGANISATION_OFFICERS_MAX];
};

struct organisation_officers {
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

    return HEAD_SIZE + (size_t)(count > ORGANISATION_OFFICERS_MAX ? ORGANISATION_OFFICERS_MAX : count) * ENTRY_SIZE;
}

static void write_body(const void *context, uint8_t *body_out)
{
    const struct state *state = context;

    memset(body_out, 0, BODY_SIZE);
    uint8_t *at = pin_field_put(pin_field_put(body_out, &state->before), &state->now);
    store_u32(at, state->count);
    at += 4;
    for (uint32_t i = 0; i < state->count; i++) {
        const struct entry *entry = &state->entries[i];
        at = digest_field_put(digest_field_put(digest_field_put(digest_field_put(at, entry->name), entry->key), entry->principal),
                              entry->organisation);
        store_u64(at, (uint64_t)entry->end_ms);
        at[8] = entry->persons;
        at += 9;
    }
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
    assert(state->count <= ORGANISATION_OFFICERS_MAX); /* the seal is right, so this program never wrote more */
    for (uint32_t i = 0; i < state->count; i++) {
        struct entry *entry = &state->entries[i];
        digest_field_get(&reader, entry->name);
        digest_field_get(&reader, entry->key);
        digest_field_get(&reader, entry->principal);
        digest_field_get(&reader, entry->organisation);
        entry->end_ms = (int64_t)reader_u64(&reader);
        entry->persons = reader_u8(&reader);
    }
}

static const struct journal_format format = {.name = ORGANISATION_OFFICERS_FILE,
                                             .magic = "SJOO",
                                             .version = 1,
                                             .copy_size = COPY_SIZE,
                                             .body_size = body_size,
                                             .body_length = body_length,
                                             .write = write_body,
                                             .read = read_body};

static struct result open_or_make(struct organisation_officers *officers, int directory, const uint8_t key[JOURNAL_KEY_SIZE],
                                  const struct document_pin *pinned, struct error *err)
{
    officers->state = (struct state){.before = *pinned, .now = *pinned};
    const struct result opened = journal_open_or_create(directory, &format, key, &officers->state, &officers->journal, err);

    if (!opened.ok && err->kind == ERROR_CORRUPT)
        return failure(
            err, ERROR_CORRUPT,
            "the file of the officers of organisations (%s) is damaged, or belongs to another key ring: restore it from the "
            "backup of the folder, or remove it; without it, their documents are signed anew before they may sign",
            ORGANISATION_OFFICERS_FILE);
    return opened;
}

struct result organisation_officers_open(int directory, const uint8_t key[JOURNAL_KEY_SIZE], struct ledger *ledger,
                                         struct organisation_officers **officers_out, struct error *err)
{
    OWNED(organisation_officers) *officers = memory_zeroed(1, sizeof *officers);
    struct ledger_state ledger_now;

    if (officers == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the officers of organisations");
    (void)pthread_mutex_init(&officers->lock, NULL);
    ledger_read(ledger, &ledger_now);
    const struct document_pin pinned = ledger_now.pins[document_kind(DOCUMENT_OFFICERS)->number - 1];
    TRY(open_or_make(officers, directory, key, &pinned, err));
    if (!pin_field_is(&pinned, &officers->state.now) &&
        !pin_field_is(&pinned, &officers->state.before)) /* an older file was put in its place */
        officers->state = (struct state){.before = pinned, .now = pinned};
    *officers_out = GIVE(officers);
    return SUCCESS;
}

/* ---- documents ---- */

static struct entry *find(struct state *state, const uint8_t name[DOCUMENT_DIGEST_SIZE])
{
    for (uint32_t i = 0; i < state->count; i++)
        if (memcmp(state->entries[i].name, name, DOCUMENT_DIGEST_SIZE) == 0) return &state->entries[i];
    return NULL;
}

static struct entry *make_room(struct state *state, int64_t now_ms)
{
    if (state->count < ORGANISATION_OFFICERS_MAX) return &state->entries[state->count++];
    for (uint32_t i = 0; i < state->count; i++)
        if (state->entries[i].end_ms <= now_ms) return &state->entries[i];
    return NULL;
}

static struct result change(struct state *state, const struct organisation_officers_note *note, struct error *err)
{
    struct entry wanted = {.end_ms = note->document->expires_ms};
    struct officer officer = {.on = ""};

    state->before = note->before;
    state->now = note->pin;
    key_register_owner(note->document, wanted.name);
    struct entry *entry = find(state, wanted.name);
    if (!note->document->is_withdrawn) TRY(officer_read(note->document, &officer, err));
    if (officer.on[0] == '\0' || strcmp(officer.role, RESTRICTION_ROLE) != 0) {
        if (entry != NULL) *entry = state->entries[--state->count];
        return SUCCESS;
    }
    (void)text_from_base64_exactly(BASE64_URL, bytes_of_text(officer.key), wanted.key, sizeof wanted.key);
    sha256_of(bytes_of_text(officer.principal), wanted.principal);
    sha256_of(bytes_of_text(officer.on), wanted.organisation);
    wanted.persons = (uint8_t)officer.restrictions;
    if (entry == NULL) entry = make_room(state, note->now_ms);
    if (entry != NULL) *entry = wanted; /* without room it signs no restrictions: it is an officer all the same */
    return SUCCESS;
}

struct result organisation_officers_note(struct organisation_officers *officers, const struct organisation_officers_note *note,
                                         struct error *err)
{
    (void)pthread_mutex_lock(&officers->lock);
    officers->undo = officers->state;
    struct result noted = change(&officers->state, note, err);
    if (noted.ok) noted = journal_write(officers->journal, &officers->state, err);
    if (!noted.ok) officers->state = officers->undo;
    (void)pthread_mutex_unlock(&officers->lock);
    return noted;
}

/* ---- who may sign ---- */

static bool is_held(const struct organisation_officers_query *query, const uint8_t name[DOCUMENT_DIGEST_SIZE],
                    const uint8_t owner[DOCUMENT_DIGEST_SIZE])
{
    struct buffer OWNED_BUFFER text = BUFFER(ECDSA_THUMBPRINT_SIZE);
    struct error none = {0};

    if (!text_base64(&text, BASE64_URL, (struct bytes){name, DOCUMENT_DIGEST_SIZE}, &none).ok) return false;
    const struct key_register_holder holder = {buffer_text(&text), owner, query->now_ms};
    return key_register_check_holder(query->keys, &holder, &none).ok;
}

static bool is_in_force(const struct entry *entry, const struct organisation_officers_query *query)
{
    return entry->end_ms > query->now_ms && is_held(query, entry->name, entry->name);
}

static const uint8_t *point_of(const struct entry *entry, struct bytes points)
{
    for (size_t at = 0; at + ECDSA_PUBLIC_SIZE <= points.length; at += ECDSA_PUBLIC_SIZE) {
        char text[ECDSA_THUMBPRINT_SIZE];
        uint8_t thumbprint[DOCUMENT_DIGEST_SIZE];
        ecdsa_thumbprint(points.data + at, text);
        if (text_from_base64_exactly(BASE64_URL, bytes_of_text(text), thumbprint, sizeof thumbprint) &&
            memcmp(thumbprint, entry->key, sizeof thumbprint) == 0)
            return points.data + at;
    }
    return NULL;
}

/* The number stays as long as the document: an officer who has its own key withdrawn must not make others fewer. */
static void add(const struct entry *entry, const struct organisation_officers_query *query, struct restriction_officers *found)
{
    const uint8_t *point = point_of(entry, query->points);

    if (entry->persons > found->number) found->number = entry->persons;
    if (point == NULL || found->count == RESTRICTION_OFFICERS_MAX || !is_held(query, entry->key, entry->principal)) return;
    struct restriction_officer *officer = &found->each[found->count++];
    memcpy(officer->point, point, sizeof officer->point);
    memcpy(officer->principal, entry->principal, sizeof officer->principal);
}

void organisation_officers_find(struct organisation_officers *officers, const struct organisation_officers_query *query,
                                struct restriction_officers *found_out)
{
    uint8_t organisation[DOCUMENT_DIGEST_SIZE];

    *found_out = (struct restriction_officers){.number = 1};
    sha256_of(bytes_of_text(query->organisation), organisation);
    (void)pthread_mutex_lock(&officers->lock);
    for (uint32_t i = 0; i < officers->state.count; i++) {
        const struct entry *entry = &officers->state.entries[i];
        if (memcmp(entry->organisation, organisation, sizeof organisation) == 0 && is_in_force(entry, query))
            add(entry, query, found_out);
    }
    (void)pthread_mutex_unlock(&officers->lock);
}

bool organisation_officers_are_broken(const struct organisation_officers *officers)
{
    return journal_is_broken(officers->journal);
}

void organisation_officers_free(struct organisation_officers *officers)
{
    if (officers == NULL) return;
    journal_free(officers->journal);
    (void)pthread_mutex_destroy(&officers->lock);
    free(officers);
}
