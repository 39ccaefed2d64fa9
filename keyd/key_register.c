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
#include "keyd/key_register_room.h"

struct key_register {
    struct journal *journal;
    pthread_mutex_t lock;                  /* held while the disk is written: a pin waits for it anyway */
    struct key_register_state state, undo; /* undo: before the change that is being written */
};

/* ---- the file ---- */

struct result key_register_create(int directory, const uint8_t key[JOURNAL_KEY_SIZE], struct error *err)
{
    struct key_register_state *state = memory_zeroed(1, sizeof *state);

    if (state == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the register of keys");
    const struct result made = journal_create(directory, &key_register_format, key, state, err);
    free(state);
    return made;
}

static bool is_pin(const struct document_pin *one, const struct document_pin *other)
{
    return one->epoch == other->epoch && memcmp(one->digest, other->digest, sizeof one->digest) == 0;
}

static const struct document_pin *pin_in(const struct ledger_state *state, size_t i)
{
    return &state->pins[document_kind(key_register_kinds[i])->number - 1];
}

/*
 * A file of version 1 knows no rules, and one of version 3 no sinks, detection rules, holds and roles of groups, one of version 4 neither persons nor SCIM services, one of version 5 no broken glasses, and one of version 6 neither roles nor officers. Those that were pinned before have no
 * entries. So a rule asks for runs only after its next version, and no version of the others is too low until then.
 */
static void begin_kinds(struct key_register_state *keys, const struct ledger_state *ledger)
{
    for (size_t i = KEY_REGISTER_FIRST_KINDS; i < KEY_REGISTER_KINDS && keys->is_of_older; i++)
        if (keys->now[i].epoch == 0) keys->before[i] = keys->now[i] = *pin_in(ledger, i);
}

/* The register is written first, so it may be one document ahead. */
static struct result check_ledger(const struct key_register_state *keys, const struct ledger_state *ledger, struct error *err)
{
    for (size_t i = 0; i < KEY_REGISTER_KINDS; i++)
        if (!is_pin(pin_in(ledger, i), &keys->now[i]) && !is_pin(pin_in(ledger, i), &keys->before[i]))
            return failure(err, ERROR_CORRUPT,
                           "%s and %s have different last documents of the kind %s: restore both from one backup, or make a "
                           "new key ring",
                           KEY_REGISTER_FILE, LEDGER_FILE, document_kind(key_register_kinds[i])->name);
    return SUCCESS;
}

/* A keyd from before the file may have pinned rules. One without an entry asks for nothing, so none is forgotten in a new file. All other kinds are younger. */
static struct result make(int directory, const uint8_t key[JOURNAL_KEY_SIZE], const struct ledger_state *ledger,
                          struct error *err)
{
    struct key_register_state *state = memory_zeroed(1, sizeof *state);
    struct result made = SUCCESS;

    if (state == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the register of keys");
    for (size_t i = 0; i < KEY_REGISTER_KINDS && made.ok; i++) {
        state->before[i] = state->now[i] = *pin_in(ledger, i);
        if (state->now[i].epoch != 0 && key_register_kinds[i] != DOCUMENT_TRUST_RULE)
            made = failure(err, ERROR_CORRUPT,
                           "the folder has no register of keys (%s), but %s was pinned: restore it from the backup of the folder",
                           KEY_REGISTER_FILE, i < KEY_REGISTER_FIRST_KINDS ? "a key" : "a document that has versions");
    }
    if (made.ok) made = journal_create(directory, &key_register_format, key, state, err);
    free(state);
    return made;
}

static struct result open_or_make(struct key_register *keys, int directory, const uint8_t key[JOURNAL_KEY_SIZE],
                                  const struct ledger_state *ledger, struct error *err)
{
    const struct result opened = journal_open(directory, &key_register_format, key, &keys->state, &keys->journal, err);

    if (opened.ok) return SUCCESS;
    if (err->kind == ERROR_CONFLICT) return failure(err, ERROR_CONFLICT, "another sijil-keyd runs on this folder");
    if (err->kind == ERROR_CORRUPT)
        return failure(err, ERROR_CORRUPT, "the register of keys is damaged, or belongs to another key ring");
    if (err->kind != ERROR_NOT_FOUND) return opened;
    TRY(make(directory, key, ledger, err));
    return journal_open(directory, &key_register_format, key, &keys->state, &keys->journal, err);
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
    begin_kinds(&keys->state, &pinned);
    TRY(check_ledger(&keys->state, &pinned, err));
    *keys_out = GIVE(keys);
    return SUCCESS;
}

/* ---- entries ---- */

/*
 * With the lock held: the newest entry of the name. A key that was enrolled several times has several entries, which agree in the owner and in
 * is_withdrawn. Each version of a rule has an entry, and only the newest one says whether the rule is withdrawn, and which version is the highest.
 */
static struct key_register_entry *find(struct key_register *keys, const char *name)
{
    for (uint32_t i = keys->state.count; i-- > 0;)
        if (strcmp(keys->state.entries[i].name, name) == 0) return &keys->state.entries[i];
    return NULL;
}

static bool is_rule(const struct document *document)
{
    return document->kind == DOCUMENT_TRUST_RULE;
}

/* Each version replaces the one before, in its scope. A key is enrolled and withdrawn, in all scopes. */
static bool has_versions(const struct document *document)
{
    return document->kind != DOCUMENT_SIGNING_KEY && document->kind != DOCUMENT_RUNNER;
}

void key_register_owner(const struct document *document, uint8_t owner_out[DOCUMENT_DIGEST_SIZE])
{
    char text[sizeof "detection-rule::" + DOCUMENT_SCOPE_SIZE + DOCUMENT_NAME_SIZE];
    const char *kind = is_rule(document) ? "rule" : document_kind(document->kind)->name;

    (void)snprintf(text, sizeof text, "%s:%s:%s", kind, document->scope, document->name);
    sha256_of(bytes_of_text(text), owner_out);
}

/* The name of a document's entry: a thumbprint, or as many letters for what has versions. */
static struct result name_of(const struct document *document, char name_out[ECDSA_THUMBPRINT_SIZE], struct error *err)
{
    struct buffer OWNED_BUFFER name = BUFFER(ECDSA_THUMBPRINT_SIZE);
    uint8_t owner[DOCUMENT_DIGEST_SIZE];

    if (has_versions(document)) {
        key_register_owner(document, owner);
        TRY(text_base64(&name, BASE64_URL, (struct bytes){owner, sizeof owner}, err));
    }
    (void)snprintf(name_out, ECDSA_THUMBPRINT_SIZE, "%.43s", has_versions(document) ? buffer_text(&name) : document->name);
    return SUCCESS;
}

static struct result read_owner(const struct document *document, uint8_t owner_out[DOCUMENT_DIGEST_SIZE], struct error *err)
{
    char text[sizeof "runner:" + UUID_TEXT_SIZE] = "runner:";
    struct signing_key person;
    struct runner_key runner;

    if (has_versions(document)) {
        key_register_owner(document, owner_out);
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

static uint32_t end_of(const struct document *document)
{
    return document->expires_ms <= 0 ? 0 : (uint32_t)((document->expires_ms + KEY_REGISTER_HOUR_MS - 1) / KEY_REGISTER_HOUR_MS);
}

static struct result make_entry(const struct key_register_note *note, struct key_register_entry *entry_out, struct error *err)
{
    *entry_out = (struct key_register_entry){.version = has_versions(note->document) ? note->document->version : 0,
                                             .sequence = note->sequence,
                                             .organisation = key_register_organisation(note->document),
                                             .end_hours = end_of(note->document),
                                             .is_withdrawn = note->document->is_withdrawn};
    TRY(read_owner(note->document, entry_out->owner, err)); /* checks that the name of a key is a thumbprint */
    return name_of(note->document, entry_out->name, err);
}

/* What was replaced or withdrawn does not come back, although it is signed: whoever may ask for a pin has the older envelopes, too. To withdraw what is
 * withdrawn changes nothing, and must be possible: after a recovery no gateway knows of a withdrawal whose event is lost, nor its version. */
static struct result check_version(const struct key_register_note *note, const struct key_register_entry *entry,
                                   struct error *err)
{
    const struct document *document = note->document;
    const uint64_t known = entry->version;

    if (document->version > known || (document->is_withdrawn && entry->is_withdrawn)) return SUCCESS;
    return failure(
        err, ERROR_DENIED, "version %llu of the %s %.63s was pinned already, and this is version %llu: sign a higher one",
        (unsigned long long)known, document_kind(document->kind)->name, document->name, (unsigned long long)document->version);
}

static struct result check_entry(const struct key_register_entry *known, const struct key_register_entry *wanted,
                                 struct error *err)
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

/* With the lock held. */
static struct result check_owner(struct key_register *keys, const struct key_register_note *note,
                                 const struct key_register_entry *wanted, struct error *err)
{
    const struct key_register_entry *known = find(keys, wanted->name);

    return known == NULL || has_versions(note->document) ? SUCCESS : check_entry(known, wanted, err);
}

/* ---- room ---- */

/*
 * With the lock held. *is_new_out: `wanted` takes a place. A withdrawal of a key or a rule that has entries marks these. A rule may come back with
 * a higher version. What is neither key nor rule has one entry, because nobody asks for its earlier versions.
 */
static struct result check_room(struct key_register *keys, const struct key_register_note *note,
                                const struct key_register_entry *wanted, bool *is_new_out, struct error *err)
{
    const struct key_register_entry *known = find(keys, wanted->name);

    TRY(check_owner(keys, note, wanted, err));
    if (known != NULL && has_versions(note->document)) TRY(check_version(note, known, err));
    if (known == NULL && wanted->is_withdrawn && !note->is_approved)
        return failure(err, ERROR_DENIED,
                       "nobody has enrolled the key %s: only the root or an approver withdraws it before its enrolment",
                       wanted->name);
    *is_new_out = known == NULL || (!wanted->is_withdrawn && (is_rule(note->document) || !has_versions(note->document)));
    if (!*is_new_out) return SUCCESS;
    if (key_register_has_room(&keys->state, wanted->organisation)) return SUCCESS;
    TRY(key_register_forget_ended(&keys->state, note->now_ms, err));
    if (key_register_has_room(&keys->state, wanted->organisation)) return SUCCESS;
    return failure(
        err, ERROR_LIMIT,
        "sijil-keyd keeps %d enrolments of keys and versions of rules, and the share of %s is taken: those whose documents have ended go "
        "%d days later, unless they are of withdrawn keys",
        KEY_REGISTER_MAX, wanted->organisation == 0 ? "the registry" : "this organisation", KEY_REGISTER_KEPT_DAYS);
}

static void mark(struct key_register_state *state, const char *name)
{
    for (uint32_t i = 0; i < state->count; i++)
        if (strcmp(state->entries[i].name, name) == 0) state->entries[i].is_withdrawn = true;
}

/* The entry stays until all that it stood for has ended. */
static void replace(struct key_register_entry *entry, const struct key_register_entry *wanted)
{
    const uint32_t end_hours = entry->end_hours > wanted->end_hours ? entry->end_hours : wanted->end_hours;

    *entry = *wanted;
    entry->end_hours = end_hours;
    entry->is_replaced = true;
}

static void put(struct key_register *keys, const struct key_register_entry *wanted, bool is_new)
{
    if (is_new) {
        keys->state.entries[keys->state.count++] = *wanted;
    } else if (wanted->is_withdrawn) {
        struct key_register_entry *newest = find(keys, wanted->name);
        mark(&keys->state, wanted->name);
        if (newest->version < wanted->version) newest->version = wanted->version;
    } else {
        replace(find(keys, wanted->name), wanted);
    }
}

static size_t index_of(enum document_kind kind)
{
    size_t i = 0;

    while (i < KEY_REGISTER_KINDS - 1 && key_register_kinds[i] != kind) i++;
    return i;
}

static struct result note_locked(struct key_register *keys, const struct key_register_note *note,
                                 const struct key_register_entry *wanted, struct error *err)
{
    const size_t kind = index_of(note->document->kind);
    struct key_register_state *state = &keys->state;
    bool is_new = false;

    keys->undo = *state;
    if (is_pin(&state->now[kind], &note->pin))
        return check_owner(keys, note, wanted, err); /* it was noted, perhaps before a crash */
    TRY(check_room(keys, note, wanted, &is_new, err));
    put(keys, wanted, is_new);
    state->before[kind] = note->before;
    state->now[kind] = note->pin;
    return journal_write(keys->journal, state, err);
}

bool key_register_has_kind(enum document_kind kind)
{
    return key_register_kinds[index_of(kind)] == kind;
}

struct result key_register_note(struct key_register *keys, const struct key_register_note *note, struct error *err)
{
    struct result noted;
    struct key_register_entry wanted;

    assert(key_register_has_kind(note->document->kind));
    TRY(make_entry(note, &wanted, err));
    (void)pthread_mutex_lock(&keys->lock);
    if (journal_is_broken(keys->journal))
        noted = failure(err, ERROR_UNAVAILABLE, "the register of keys could not be written: sijil-keyd starts again");
    else {
        noted = note_locked(keys, note, &wanted, err);
        if (!noted.ok) keys->state = keys->undo; /* after a failed write the disk may have it; nothing is pinned, and keyd ends */
    }
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
    const struct key_register_entry *newest = find(keys, name);
    const bool is_it = newest != NULL && newest->sequence == sequence && !newest->is_withdrawn;
    (void)pthread_mutex_unlock(&keys->lock);
    if (is_it) return SUCCESS;
    return failure(err, ERROR_DENIED, "the trust rule %s was withdrawn, or has a newer version: ask for the run again",
                   rule->name);
}

struct result key_register_check(struct key_register *keys, const char *thumbprint, struct error *err)
{
    (void)pthread_mutex_lock(&keys->lock);
    const struct key_register_entry *entry = find(keys, thumbprint);
    const bool is_known = entry != NULL, is_withdrawn = is_known && entry->is_withdrawn;
    (void)pthread_mutex_unlock(&keys->lock);
    if (!is_known) return failure(err, ERROR_DENIED, "sijil-keyd has pinned no document of the key %s: enrol it", thumbprint);
    if (!is_withdrawn) return SUCCESS;
    return failure(err, ERROR_DENIED, "the key %s was withdrawn, which counts in all scopes and for ever: make a new key",
                   thumbprint);
}

struct result key_register_check_holder(struct key_register *keys, const struct key_register_holder *holder, struct error *err)
{
    (void)pthread_mutex_lock(&keys->lock);
    const struct result checked = key_register_has_holder(&keys->state, holder, err);
    (void)pthread_mutex_unlock(&keys->lock);
    return checked;
}

static struct result set_back_locked(struct key_register *keys, const struct key_register_past *past, struct error *err)
{
    struct key_register_state *state = &keys->state;

    if (journal_is_broken(keys->journal))
        return failure(err, ERROR_UNAVAILABLE, "the register of keys could not be written: sijil-keyd starts again");
    keys->undo = *state;
    for (size_t i = 0; i < KEY_REGISTER_KINDS; i++) {
        const size_t kind = document_kind(key_register_kinds[i])->number - 1;
        state->before[i] = past->before[kind];
        state->now[i] = past->pins[kind];
    }
    key_register_forget_lost(state, past->size);
    const struct result written = journal_write(keys->journal, state, err);
    if (!written.ok) keys->state = keys->undo;
    return written;
}

struct result key_register_set_back(struct key_register *keys, const struct key_register_past *past, struct error *err)
{
    (void)pthread_mutex_lock(&keys->lock);
    const struct result set = set_back_locked(keys, past, err);
    (void)pthread_mutex_unlock(&keys->lock);
    return set;
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
