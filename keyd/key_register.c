#include "keyd/key_register.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "documents/format/runner_key.h"
#include "documents/format/signing_key.h"

/* "SJKR" | u8 2 | u64 generation | 3 times, of signing keys, of runners and of trust rules: u64 epoch, digest[32] before, u64 epoch, digest[32]
 * now | u32 entries | 16,384 times: name[43], owner[32], u64 event, u8 1 if withdrawn | HMAC-SHA256[32]; zeros up to COPY_SIZE. The name is the
 * thumbprint of a key, or base64url of the SHA-256 of a rule's owner. Version 1 had no pins and no entries of trust rules. */
enum {
    KINDS = 3,
    FIRST_KINDS = 2,
    NAME_SIZE = ECDSA_THUMBPRINT_SIZE - 1,
    PIN_SIZE = 8 + DOCUMENT_DIGEST_SIZE,
    ENTRY_SIZE = NAME_SIZE + DOCUMENT_DIGEST_SIZE + 9,
    HEAD_SIZE = KINDS * 2 * PIN_SIZE + 4,
    ENTRIES_SIZE = KEY_REGISTER_MAX * ENTRY_SIZE,
    BODY_SIZE = HEAD_SIZE + ENTRIES_SIZE,
    FIRST_BODY_SIZE = FIRST_KINDS * 2 * PIN_SIZE + 4 + ENTRIES_SIZE,
    COPY_SIZE = 337 * 4096
};
_Static_assert(JOURNAL_HEADER_SIZE + BODY_SIZE + JOURNAL_SEAL_SIZE <= COPY_SIZE, "a copy has room");

static const enum document_kind kinds[KINDS] = {DOCUMENT_SIGNING_KEY, DOCUMENT_RUNNER, DOCUMENT_TRUST_RULE};

struct entry {
    char name[ECDSA_THUMBPRINT_SIZE];
    uint8_t owner[DOCUMENT_DIGEST_SIZE]; /* SHA-256 of "robot:ID", "ext:DIGEST", "runner:ID" or "rule:SCOPE:ID" */
    uint64_t sequence;                   /* of the event that enrolled it; of its withdrawal if nobody had enrolled it */
    bool is_withdrawn;
};

struct state {
    struct document_pin before[KINDS], now[KINDS];
    uint32_t count;
    struct entry entries[KEY_REGISTER_MAX];
};

struct key_register {
    struct journal *journal;
    pthread_mutex_t lock; /* held while the disk is written: a pin waits for it anyway */
    struct state state;
};

/* ---- the file ---- */

static size_t body_size(uint8_t version)
{
    return version == 1 ? FIRST_BODY_SIZE : version == 2 ? BODY_SIZE : 0;
}

static uint8_t *put_pin(uint8_t *at, const struct document_pin *pin)
{
    store_u64(at, pin->epoch);
    memcpy(at + 8, pin->digest, sizeof pin->digest);
    return at + PIN_SIZE;
}

static uint8_t *put_entry(uint8_t *at, const struct entry *entry)
{
    memcpy(at, entry->name, NAME_SIZE);
    memcpy(at + NAME_SIZE, entry->owner, sizeof entry->owner);
    store_u64(at + NAME_SIZE + sizeof entry->owner, entry->sequence);
    at[ENTRY_SIZE - 1] = entry->is_withdrawn ? 1 : 0;
    return at + ENTRY_SIZE;
}

static void write_body(const void *context, uint8_t *body_out)
{
    const struct state *state = context;
    uint8_t *at = body_out;

    for (size_t i = 0; i < KINDS; i++) at = put_pin(put_pin(at, &state->before[i]), &state->now[i]);
    store_u32(at, state->count);
    at += 4;
    for (size_t i = 0; i < KEY_REGISTER_MAX; i++) at = put_entry(at, &state->entries[i]);
    assert(at == body_out + BODY_SIZE);
}

static void get_pin(struct reader *reader, struct document_pin *pin)
{
    pin->epoch = reader_u64(reader);
    memcpy(pin->digest, reader_take(reader, sizeof pin->digest).data, sizeof pin->digest);
}

static void get_entry(struct reader *reader, struct entry *entry)
{
    memcpy(entry->name, reader_take(reader, NAME_SIZE).data, NAME_SIZE);
    entry->name[NAME_SIZE] = '\0';
    memcpy(entry->owner, reader_take(reader, sizeof entry->owner).data, sizeof entry->owner);
    entry->sequence = reader_u64(reader);
    entry->is_withdrawn = reader_u8(reader) != 0;
}

static void read_body(uint8_t version, struct bytes body, void *state_out)
{
    struct reader reader = reader_of(body);
    struct state *state = state_out;

    assert(body.length == body_size(version));
    for (size_t i = 0; i < (size_t)(version == 1 ? FIRST_KINDS : KINDS); i++) {
        get_pin(&reader, &state->before[i]);
        get_pin(&reader, &state->now[i]);
    }
    state->count = reader_u32(&reader);
    assert(state->count <= KEY_REGISTER_MAX); /* the seal is right, so this program never wrote more */
    for (size_t i = 0; i < KEY_REGISTER_MAX; i++) get_entry(&reader, &state->entries[i]);
}

static const struct journal_format format = {.name = KEY_REGISTER_FILE,
                                             .magic = "SJKR",
                                             .version = 2,
                                             .copy_size = COPY_SIZE,
                                             .body_size = body_size,
                                             .write = write_body,
                                             .read = read_body};

struct result key_register_create(int directory, const uint8_t key[JOURNAL_KEY_SIZE], struct error *err)
{
    struct state *state = memory_zeroed(1, sizeof *state);

    if (state == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the register of keys");
    const struct result made = journal_create(directory, &format, key, state, err);
    free(state);
    return made;
}

static bool is_pin(const struct document_pin *one, const struct document_pin *other)
{
    return one->epoch == other->epoch && memcmp(one->digest, other->digest, sizeof one->digest) == 0;
}

static const struct document_pin *pin_in(const struct ledger_state *state, size_t i)
{
    return &state->pins[document_kind(kinds[i])->number - 1];
}

/* A file of version 1 knows no rules. Those that were pinned before have no entries, so each asks for runs only after its next version. */
static void begin_rules(struct state *keys, const struct ledger_state *ledger)
{
    for (size_t i = FIRST_KINDS; i < KINDS; i++)
        if (keys->now[i].epoch == 0) keys->before[i] = keys->now[i] = *pin_in(ledger, i);
}

/* The register is written first, so it may be one document ahead. */
static struct result check_ledger(const struct state *keys, const struct ledger_state *ledger, struct error *err)
{
    for (size_t i = 0; i < KINDS; i++)
        if (!is_pin(pin_in(ledger, i), &keys->now[i]) && !is_pin(pin_in(ledger, i), &keys->before[i]))
            return failure(err, ERROR_CORRUPT,
                           "%s and %s have different last documents of the kind %s: restore both from one backup, or make a "
                           "new key ring",
                           KEY_REGISTER_FILE, LEDGER_FILE, document_kind(kinds[i])->name);
    return SUCCESS;
}

static struct result open_or_make(struct key_register *keys, int directory, const uint8_t key[JOURNAL_KEY_SIZE],
                                  const struct ledger_state *ledger, struct error *err)
{
    const struct result opened = journal_open(directory, &format, key, &keys->state, &keys->journal, err);

    if (opened.ok) return SUCCESS;
    if (err->kind == ERROR_CONFLICT) return failure(err, ERROR_CONFLICT, "another sijil-keyd runs on this folder");
    if (err->kind == ERROR_CORRUPT)
        return failure(err, ERROR_CORRUPT, "the register of keys is damaged, or belongs to another key ring");
    if (err->kind != ERROR_NOT_FOUND) return opened;
    for (size_t i = 0; i < FIRST_KINDS; i++) /* a rule without an entry asks for nothing, so none is forgotten in a new file */
        if (pin_in(ledger, i)->epoch != 0)
            return failure(
                err, ERROR_CORRUPT,
                "the folder has no register of keys (%s), but keys were pinned: restore it from the backup of the folder",
                KEY_REGISTER_FILE);
    TRY(key_register_create(directory, key, err));
    return journal_open(directory, &format, key, &keys->state, &keys->journal, err);
}

struct result key_register_open(int directory, const uint8_t key[JOURNAL_KEY_SIZE], struct ledger *ledger,
                                struct key_register **keys_out, struct error *err)
{
    OWNED(key_register) *keys = memory_zeroed(1, sizeof *keys);
    struct ledger_state pinned;

    if (keys == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the register of keys");
    (void)pthread_mutex_init(&keys->lock, NULL);
    ledger_read(ledger, &pinned);
    TRY(open_or_make(keys, directory, key, &pinned, err));
    begin_rules(&keys->state, &pinned);
    TRY(check_ledger(&keys->state, &pinned, err));
    *keys_out = GIVE(keys);
    return SUCCESS;
}

/* ---- entries ---- */

/*
 * With the lock held: the newest entry of the name. A key that was enrolled several times has several entries, which agree in the owner and in
 * is_withdrawn. Each version of a rule has an entry, and only the newest one says whether the rule is withdrawn.
 */
static struct entry *find(struct key_register *keys, const char *name)
{
    for (uint32_t i = keys->state.count; i-- > 0;)
        if (strcmp(keys->state.entries[i].name, name) == 0) return &keys->state.entries[i];
    return NULL;
}

static bool is_rule(const struct document *document)
{
    return document->kind == DOCUMENT_TRUST_RULE;
}

static void write_rule(const struct document *rule, uint8_t owner_out[DOCUMENT_DIGEST_SIZE])
{
    char text[sizeof "rule::" + DOCUMENT_SCOPE_SIZE + DOCUMENT_NAME_SIZE];

    (void)snprintf(text, sizeof text, "rule:%s:%s", rule->scope, rule->name);
    sha256_of(bytes_of_text(text), owner_out);
}

/* The name of a document's entry: a thumbprint, or as many letters for a rule. A rule is one of its scope, a key is one in all. */
static struct result name_of(const struct document *document, char name_out[ECDSA_THUMBPRINT_SIZE], struct error *err)
{
    struct buffer OWNED_BUFFER name = BUFFER(ECDSA_THUMBPRINT_SIZE);
    uint8_t owner[DOCUMENT_DIGEST_SIZE];

    if (is_rule(document)) {
        write_rule(document, owner);
        TRY(text_base64(&name, BASE64_URL, (struct bytes){owner, sizeof owner}, err));
    }
    (void)snprintf(name_out, ECDSA_THUMBPRINT_SIZE, "%.43s", is_rule(document) ? buffer_text(&name) : document->name);
    return SUCCESS;
}

static struct result read_owner(const struct document *document, uint8_t owner_out[DOCUMENT_DIGEST_SIZE], struct error *err)
{
    char text[sizeof "runner:" + UUID_TEXT_SIZE] = "runner:";
    struct signing_key person;
    struct runner_key runner;

    if (is_rule(document)) {
        write_rule(document, owner_out);
        return SUCCESS;
    }
    if (document->kind == DOCUMENT_SIGNING_KEY) {
        TRY(signing_key_read(document, &person, err));
        sha256_of(bytes_of_text(person.principal), owner_out);
        return SUCCESS;
    }
    TRY(runner_key_read(document, &runner, err));
    uuid_format(&runner.runner, text + strlen(text));
    sha256_of(bytes_of_text(text), owner_out);
    return SUCCESS;
}

static struct result make_entry(const struct key_register_note *note, struct entry *entry_out, struct error *err)
{
    *entry_out = (struct entry){.sequence = note->sequence, .is_withdrawn = note->document->is_withdrawn};
    TRY(read_owner(note->document, entry_out->owner, err)); /* checks that the name of a key is a thumbprint */
    return name_of(note->document, entry_out->name, err);
}

static struct result check_entry(const struct entry *known, const struct entry *wanted, struct error *err)
{
    if (memcmp(known->owner, wanted->owner, sizeof known->owner) != 0)
        return failure(err, ERROR_DENIED,
                       "the key %s belongs to another owner: the first pinned document decides, in all scopes. Make a new key",
                       wanted->name);
    if (known->is_withdrawn && !wanted->is_withdrawn)
        return failure(err, ERROR_DENIED, "the key %s was withdrawn, which counts in all scopes and for ever: make a new key",
                       wanted->name);
    return SUCCESS;
}

/*
 * With the lock held. *is_new_out: `wanted` takes a place. A withdrawal of a key or a rule that has entries marks these. A rule may come back with
 * a higher version; document_pin_next() and the approvers decide that.
 */
static struct result check_room(struct key_register *keys, const struct key_register_note *note, const struct entry *wanted,
                                bool *is_new_out, struct error *err)
{
    const struct entry *known = find(keys, wanted->name);

    if (known != NULL && !is_rule(note->document)) TRY(check_entry(known, wanted, err));
    if (known == NULL && wanted->is_withdrawn && !note->is_approved)
        return failure(err, ERROR_DENIED,
                       "nobody has enrolled the key %s: only the root or an approver withdraws it before its enrolment",
                       wanted->name);
    *is_new_out = known == NULL || !wanted->is_withdrawn;
    if (!*is_new_out || keys->state.count < KEY_REGISTER_MAX) return SUCCESS;
    return failure(
        err, ERROR_LIMIT,
        "sijil-keyd keeps %d enrolments of keys and versions of rules, and all places are taken: a new key ring is needed",
        KEY_REGISTER_MAX);
}

static void mark(struct state *state, const char *thumbprint, bool is_withdrawn)
{
    for (uint32_t i = 0; i < state->count; i++)
        if (strcmp(state->entries[i].name, thumbprint) == 0) state->entries[i].is_withdrawn = is_withdrawn;
}

static void put(struct state *state, const struct entry *wanted, bool is_new)
{
    if (is_new) state->entries[state->count++] = *wanted;
    else mark(state, wanted->name, true);
}

static void take_back(struct state *state, const struct entry *wanted, bool is_new, bool was_withdrawn)
{
    if (is_new) state->count--;
    else mark(state, wanted->name, was_withdrawn);
}

static size_t index_of(enum document_kind kind)
{
    size_t i = 0;

    while (i < KINDS - 1 && kinds[i] != kind) i++;
    return i;
}

static struct result note_locked(struct key_register *keys, const struct key_register_note *note, const struct entry *wanted,
                                 struct error *err)
{
    const size_t kind = index_of(note->document->kind);
    struct state *state = &keys->state;
    bool is_new = false;

    TRY(check_room(keys, note, wanted, &is_new, err));
    if (is_pin(&state->now[kind], &note->pin)) return SUCCESS; /* it was noted, perhaps before a crash */
    const struct entry *known = find(keys, wanted->name);
    const bool was_withdrawn = known != NULL && known->is_withdrawn;
    const struct document_pin before = state->before[kind], now = state->now[kind];
    put(state, wanted, is_new);
    state->before[kind] = note->before;
    state->now[kind] = note->pin;
    const struct result written = journal_write(keys->journal, state, err);
    if (written.ok) return SUCCESS;
    take_back(state, wanted, is_new, was_withdrawn); /* the disk may have it; nothing is pinned, and keyd ends */
    state->before[kind] = before;
    state->now[kind] = now;
    return written;
}

bool key_register_has_kind(enum document_kind kind)
{
    return kinds[index_of(kind)] == kind;
}

struct result key_register_note(struct key_register *keys, const struct key_register_note *note, struct error *err)
{
    struct result noted;
    struct entry wanted;

    assert(key_register_has_kind(note->document->kind));
    TRY(make_entry(note, &wanted, err));
    (void)pthread_mutex_lock(&keys->lock);
    if (journal_is_broken(keys->journal))
        noted = failure(err, ERROR_UNAVAILABLE, "the register of keys could not be written: sijil-keyd starts again");
    else noted = note_locked(keys, note, &wanted, err);
    (void)pthread_mutex_unlock(&keys->lock);
    return noted;
}

/* With the lock held. The events are compared first, because that is fast. */
static bool has_enrolment(const struct key_register *keys, const char *name, uint64_t sequence)
{
    for (uint32_t i = 0; i < keys->state.count; i++)
        if (keys->state.entries[i].sequence == sequence && strcmp(keys->state.entries[i].name, name) == 0) return true;
    return false;
}

static struct result not_pinned(const struct document *document, uint64_t sequence, struct error *err)
{
    if (is_rule(document))
        return failure(err, ERROR_DENIED, "sijil-keyd has not pinned event %llu as a version of the trust rule %s: draft it anew",
                       (unsigned long long)sequence, document->name);
    return failure(err, ERROR_DENIED, "sijil-keyd has not pinned event %llu as an enrolment of the key %s: enrol it anew",
                   (unsigned long long)sequence, document->name);
}

struct result key_register_check_enrolment(struct key_register *keys, const struct document *document, uint64_t sequence,
                                           struct error *err)
{
    char name[ECDSA_THUMBPRINT_SIZE];

    TRY(name_of(document, name, err));
    (void)pthread_mutex_lock(&keys->lock);
    const bool is_pinned = has_enrolment(keys, name, sequence);
    (void)pthread_mutex_unlock(&keys->lock);
    return is_pinned ? SUCCESS : not_pinned(document, sequence, err);
}

struct result key_register_check_newest(struct key_register *keys, const struct document *rule, uint64_t sequence,
                                        struct error *err)
{
    char name[ECDSA_THUMBPRINT_SIZE];

    TRY(key_register_check_enrolment(keys, rule, sequence, err));
    TRY(name_of(rule, name, err));
    (void)pthread_mutex_lock(&keys->lock);
    const struct entry *newest = find(keys, name);
    const bool is_it = newest != NULL && newest->sequence == sequence && !newest->is_withdrawn;
    (void)pthread_mutex_unlock(&keys->lock);
    if (is_it) return SUCCESS;
    return failure(err, ERROR_DENIED, "the trust rule %s was withdrawn, or has a newer version: ask for the run again",
                   rule->name);
}

struct result key_register_check(struct key_register *keys, const char *thumbprint, struct error *err)
{
    (void)pthread_mutex_lock(&keys->lock);
    const struct entry *entry = find(keys, thumbprint);
    const bool is_known = entry != NULL, is_withdrawn = is_known && entry->is_withdrawn;
    (void)pthread_mutex_unlock(&keys->lock);
    if (!is_known) return failure(err, ERROR_DENIED, "sijil-keyd has pinned no document of the key %s: enrol it", thumbprint);
    if (!is_withdrawn) return SUCCESS;
    return failure(err, ERROR_DENIED, "the key %s was withdrawn, which counts in all scopes and for ever: make a new key",
                   thumbprint);
}

bool key_register_is_broken(const struct key_register *keys)
{
    return journal_is_broken(keys->journal);
}

void key_register_free(struct key_register *keys)
{
    if (keys == NULL) return;
    journal_free(keys->journal);
    (void)pthread_mutex_destroy(&keys->lock);
    free(keys);
}
