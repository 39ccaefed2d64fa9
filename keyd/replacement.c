#include "keyd/replacement.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "documents/format/break_glass.h"
#include "documents/format/officers.h"
#include "keyd/replacement_admin.h"
#include "keyd/replacement_format.h"

#define HOUR_MS INT64_C(3600000)

struct replacements {
    struct journal *journal;
    pthread_mutex_t lock;
    struct replacement_state state, undo; /* undo: before the change that is being written */
};

/* ---- the file ---- */

static struct result create(int directory, const uint8_t key[JOURNAL_KEY_SIZE], const struct document_pin *pin, struct error *err)
{
    struct replacement_state *state = memory_zeroed(1, sizeof *state);

    if (state == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for replaced keys");
    state->names_all = pin->epoch != 0;
    state->before = state->now = *pin;
    const struct result made = journal_create(directory, &replacement_format, key, state, err);
    free(state);
    return made;
}

struct result replacements_create(int directory, const uint8_t key[JOURNAL_KEY_SIZE], struct error *err)
{
    return create(directory, key, &(struct document_pin){.epoch = 0}, err);
}

static struct document_pin pin_of(const struct ledger_state *state)
{
    return state->pins[document_kind(DOCUMENT_OFFICERS)->number - 1];
}

static bool is_pin(const struct document_pin *one, const struct document_pin *other)
{
    return one->epoch == other->epoch && memcmp(one->digest, other->digest, sizeof one->digest) == 0;
}

static struct result open_or_make(struct replacements *replacements, int directory, const uint8_t key[JOURNAL_KEY_SIZE],
                                  const struct document_pin *pinned, struct error *err)
{
    struct result opened = journal_open(directory, &replacement_format, key, &replacements->state, &replacements->journal, err);

    if (!opened.ok && err->kind == ERROR_NOT_FOUND) {
        TRY(create(directory, key, pinned, err));
        opened = journal_open(directory, &replacement_format, key, &replacements->state, &replacements->journal, err);
    }
    if (opened.ok) return SUCCESS;
    if (err->kind == ERROR_CONFLICT) return failure(err, ERROR_CONFLICT, "another sijil-keyd runs on this folder");
    if (err->kind == ERROR_CORRUPT)
        return failure(err, ERROR_CORRUPT, "the file " REPLACEMENT_FILE " is damaged, or belongs to another key ring");
    return opened;
}

struct result replacements_open(int directory, const uint8_t key[JOURNAL_KEY_SIZE], struct ledger *ledger,
                                struct replacements **replacements_out, struct error *err)
{
    OWNED(replacements) *replacements = memory_zeroed(1, sizeof *replacements);
    struct ledger_state state;

    if (replacements == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for replaced keys");
    (void)pthread_mutex_init(&replacements->lock, NULL);
    ledger_read(ledger, &state);
    const struct document_pin pinned = pin_of(&state);
    TRY(open_or_make(replacements, directory, key, &pinned, err));
    if (!is_pin(&pinned, &replacements->state.now) && !is_pin(&pinned, &replacements->state.before)) /* it is written first */
        return failure(err, ERROR_CORRUPT,
                       REPLACEMENT_FILE " and " LEDGER_FILE
                                        " have different last documents of officers: restore both from one backup");
    *replacements_out = GIVE(replacements);
    return SUCCESS;
}

void replacements_free(struct replacements *replacements)
{
    if (replacements == NULL) return;
    journal_free(replacements->journal);
    (void)pthread_mutex_destroy(&replacements->lock);
    free(replacements);
}

bool replacements_are_broken(const struct replacements *replacements)
{
    return journal_is_broken(replacements->journal);
}

/* ---- changes ---- */

typedef struct result changer(struct replacement_state *state, const void *context, struct error *err);

static struct result change_locked(struct replacements *replacements, changer *how, const void *context, struct error *err)
{
    if (journal_is_broken(replacements->journal))
        return failure(err, ERROR_UNAVAILABLE, "the file " REPLACEMENT_FILE " could not be written: sijil-keyd starts again");
    replacements->undo = replacements->state;
    struct result changed = how(&replacements->state, context, err);
    if (changed.ok) changed = journal_write(replacements->journal, &replacements->state, err);
    if (!changed.ok) replacements->state = replacements->undo;
    return changed;
}

static struct result change(struct replacements *replacements, changer *how, const void *context, struct error *err)
{
    (void)pthread_mutex_lock(&replacements->lock);
    const struct result changed = change_locked(replacements, how, context, err);
    (void)pthread_mutex_unlock(&replacements->lock);
    return changed;
}

/* ---- whom documents of officers, and of broken glasses, have named ---- */

static struct replacement_named *find_named(struct replacement_state *state, const uint8_t principal[DOCUMENT_DIGEST_SIZE])
{
    for (uint32_t i = 0; i < state->named_count; i++)
        if (memcmp(state->named[i].principal, principal, DOCUMENT_DIGEST_SIZE) == 0) return &state->named[i];
    return NULL;
}

static struct replacement_named *find_ended(struct replacement_state *state, int64_t now_ms)
{
    const int64_t before_ms = now_ms - REPLACEMENT_LONG_DAYS * 24 * HOUR_MS;

    for (uint32_t i = 0; i < state->named_count; i++)
        if (state->named[i].end_hours * HOUR_MS < before_ms) return &state->named[i];
    return NULL;
}

/* False: there is no room. */
static bool note_named(struct replacement_state *state, const char *principal, const struct replacement_naming *naming)
{
    const uint32_t end_hours = (uint32_t)(naming->document->expires_ms / HOUR_MS) + 1;
    struct replacement_named wanted = {.end_hours = end_hours};

    sha256_of(bytes_of_text(principal), wanted.principal);
    struct replacement_named *place = find_named(state, wanted.principal);
    if (place != NULL && place->end_hours > end_hours) return true;
    if (place == NULL && state->named_count < REPLACEMENT_NAMED_MAX) place = &state->named[state->named_count++];
    if (place == NULL) place = find_ended(state, naming->now_ms);
    if (place != NULL) *place = wanted;
    return place != NULL;
}

/* Without room the glass is broken all the same: an emergency does not wait for a table. */
static struct result name_holder(struct replacement_state *state, const struct replacement_naming *naming, struct error *err)
{
    struct break_glass glass;

    if (naming->document->is_withdrawn) return SUCCESS;
    TRY(break_glass_read(naming->document, &glass, err));
    (void)note_named(state, glass.principal, naming);
    return SUCCESS;
}

static struct result name(struct replacement_state *state, const void *context, struct error *err)
{
    const struct replacement_naming *naming = context;
    struct officer officer;

    if (naming->document->kind == DOCUMENT_BREAK_GLASS) return name_holder(state, naming, err);
    state->before = naming->before;
    state->now = naming->pin;
    if (officer_document_is_of(naming->document, OFFICERS_ADMINISTRATORS)) TRY(replacement_note_admin(state, naming, err));
    if (naming->document->is_withdrawn) return SUCCESS;
    TRY(officer_read(naming->document, &officer, err));
    if (note_named(state, officer.principal, naming)) return SUCCESS;
    return failure(err, ERROR_LIMIT, "sijil-keyd keeps %d persons that documents of officers have named", REPLACEMENT_NAMED_MAX);
}

struct result replacements_try(struct replacements *replacements, const struct replacement_naming *naming, struct error *err)
{
    (void)pthread_mutex_lock(&replacements->lock);
    replacements->undo = replacements->state;
    const struct result tried = name(&replacements->state, naming, err);
    replacements->state = replacements->undo;
    (void)pthread_mutex_unlock(&replacements->lock);
    return tried;
}

struct result replacements_name(struct replacements *replacements, const struct replacement_naming *naming, struct error *err)
{
    return change(replacements, name, naming, err);
}

/* ---- which enrolments are of another key ---- */

struct asked {
    struct signing_key key;
    uint8_t principal[DOCUMENT_DIGEST_SIZE];
    const struct document *document;
    int64_t now_ms;
};

static struct result read_asked(const struct document *document, int64_t now_ms, struct asked *asked_out, struct error *err)
{
    *asked_out = (struct asked){.document = document, .now_ms = now_ms};
    TRY(signing_key_read(document, &asked_out->key, err));
    sha256_of(bytes_of_text(asked_out->key.principal), asked_out->principal);
    return SUCCESS;
}

static bool is_approver(struct ledger *ledger, const uint8_t principal[DOCUMENT_DIGEST_SIZE])
{
    struct ledger_state state;

    ledger_read(ledger, &state);
    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX; i++)
        if (state.approvers[i].point[0] != 0 && memcmp(state.approvers[i].principal, principal, DOCUMENT_DIGEST_SIZE) == 0)
            return true;
    return false;
}

void replacements_power(const struct replacement_place *place, const uint8_t principal[DOCUMENT_DIGEST_SIZE],
                        struct key_power *power_out)
{
    struct replacements *replacements = place->replacements;
    struct key_power power = {.is_approver = is_approver(place->ledger, principal)};
    const struct key_register_holder anything = {.owner = principal};
    struct error none = {0};
    const bool has_any = key_register_check_holder(place->keys, &anything, &none).ok;

    (void)pthread_mutex_lock(&replacements->lock);
    power.is_named = (replacements->state.names_all && has_any) || find_named(&replacements->state, principal) != NULL;
    power.count = replacements->state.waiting_count;
    for (size_t i = 0; i < power.count; i++) {
        power.waiting[i] = replacements->state.waiting[i];
        power.waiting[i].counts_ms = power.waiting[i].since_ms + REPLACEMENT_WAIT_MS;
    }
    (void)pthread_mutex_unlock(&replacements->lock);
    *power_out = power;
}

static struct result is_held(const struct replacement_place *place, const struct asked *asked, const char *thumbprint,
                             struct error *err)
{
    const struct key_register_holder holder = {thumbprint, asked->principal, asked->now_ms};

    return key_register_check_holder(place->keys, &holder, err);
}

static bool approves(const struct replacement_place *place, const struct asked *asked, const uint8_t point[ECDSA_PUBLIC_SIZE])
{
    struct ledger_state state;

    ledger_read(place->ledger, &state);
    return signing_key_approves(state.approvers, point, asked->key.principal, asked->now_ms);
}

static bool is_held_so(const struct replacement_place *place, const struct asked *asked)
{
    struct error none = {0};

    if (asked->key.purpose == SIGNING_APPROVE) return approves(place, asked, asked->key.point);
    return is_held(place, asked, asked->document->name, &none).ok;
}

/* An approver's further key for its own requests has no power, and the same key in another scope has no more than before. */
static bool is_another(const struct replacement_place *place, const struct asked *asked)
{
    struct key_power power;

    replacements_power(place, asked->principal, &power);
    return key_power_asks(&power, asked->key.purpose == SIGNING_APPROVE) && !is_held_so(place, asked);
}

/* ---- waits ---- */

static struct key_waiting *find_waiting(struct replacement_state *state, const uint8_t key[DOCUMENT_DIGEST_SIZE])
{
    for (size_t i = 0; i < state->waiting_count; i++)
        if (memcmp(state->waiting[i].key, key, DOCUMENT_DIGEST_SIZE) == 0) return &state->waiting[i];
    return NULL;
}

static void key_of(const char *thumbprint, uint8_t key_out[DOCUMENT_DIGEST_SIZE])
{
    memset(key_out, 0, DOCUMENT_DIGEST_SIZE);
    (void)text_from_base64_exactly(BASE64_URL, bytes_of_text(thumbprint), key_out, DOCUMENT_DIGEST_SIZE);
}

static bool find_wait(struct replacements *replacements, const struct asked *asked, struct key_waiting *waiting_out)
{
    uint8_t key[DOCUMENT_DIGEST_SIZE];

    key_of(asked->document->name, key);
    (void)pthread_mutex_lock(&replacements->lock);
    const struct key_waiting *waiting = find_waiting(&replacements->state, key);
    const bool is_there = waiting != NULL && memcmp(waiting->principal, asked->principal, DOCUMENT_DIGEST_SIZE) == 0;
    if (is_there) *waiting_out = *waiting;
    (void)pthread_mutex_unlock(&replacements->lock);
    return is_there;
}

static struct result check_wait(const struct replacement_place *place, const struct asked *asked, struct error *err)
{
    struct key_waiting waiting;

    if (!find_wait(place->replacements, asked, &waiting) ||
        memcmp(waiting.document, asked->document->digest, DOCUMENT_DIGEST_SIZE) != 0)
        return failure(
            err, ERROR_DENIED,
            "this person has a key already: sign the document of the new one with it, too (\"replaces\"), or begin the wait of %lld hours",
            (long long)(REPLACEMENT_WAIT_MS / HOUR_MS));
    const int64_t left_ms = waiting.since_ms + REPLACEMENT_WAIT_MS - asked->now_ms;
    if (left_ms <= 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "the key %s waits for %lld more minutes", asked->document->name,
                   (long long)(left_ms / 60000 + 1));
}

/* documents/format has checked that the other key has signed. One that approves nothing came without a wait, so it makes no approver's key. */
static struct result check_old(const struct replacement_place *place, const struct asked *asked, struct error *err)
{
    char thumbprint[ECDSA_THUMBPRINT_SIZE];

    ecdsa_thumbprint(asked->key.replaces, thumbprint);
    if (strcmp(thumbprint, asked->document->name) == 0) return failure(err, ERROR_DENIED, "a key does not replace itself");
    TRY(is_held(place, asked, thumbprint, err));
    if (asked->document->is_withdrawn || asked->key.purpose != SIGNING_APPROVE || !is_approver(place->ledger, asked->principal) ||
        approves(place, asked, asked->key.replaces))
        return SUCCESS;
    return failure(err, ERROR_DENIED, "the next key of an approver is signed with one that approves, and %s does not",
                   thumbprint);
}

struct result replacements_check(const struct replacement_place *place, const struct document *document, int64_t now_ms,
                                 bool *by_old_out, struct error *err)
{
    struct key_waiting waiting;
    struct asked asked;

    *by_old_out = false;
    TRY(read_asked(document, now_ms, &asked, err));
    if (signing_key_has_old(&asked.key)) TRY(check_old(place, &asked, err));
    if (!document->is_withdrawn)
        return signing_key_has_old(&asked.key) || !is_another(place, &asked) ? SUCCESS : check_wait(place, &asked, err);
    if (!signing_key_has_old(&asked.key)) return SUCCESS;
    *by_old_out = find_wait(place->replacements, &asked, &waiting);
    if (*by_old_out) return SUCCESS;
    return failure(err, ERROR_DENIED, "the key %s does not wait: the key itself, the root or an approver withdraws it",
                   document->name);
}

/* The oldest ones can't be pinned any more. */
static void forget_old(struct replacement_state *state, int64_t now_ms)
{
    uint8_t kept = 0;

    for (uint8_t i = 0; i < state->waiting_count; i++)
        if (now_ms - state->waiting[i].since_ms <= REPLACEMENT_KEPT_MS) state->waiting[kept++] = state->waiting[i];
    state->waiting_count = kept;
}

static struct result begin(struct replacement_state *state, const void *context, struct error *err)
{
    const struct asked *asked = context;
    struct key_waiting wanted = {.since_ms = asked->now_ms};

    key_of(asked->document->name, wanted.key);
    memcpy(wanted.principal, asked->principal, sizeof wanted.principal);
    memcpy(wanted.document, asked->document->digest, sizeof wanted.document);
    forget_old(state, asked->now_ms);
    struct key_waiting *place = find_waiting(state, wanted.key);
    if (place == NULL && state->waiting_count == KEY_WAITING_MAX)
        return failure(err, ERROR_LIMIT, "%d keys wait already: withdraw one, or wait", KEY_WAITING_MAX);
    if (place == NULL) place = &state->waiting[state->waiting_count++];
    *place = wanted;
    return SUCCESS;
}

struct result replacements_begin(const struct replacement_place *place, const struct document *document, int64_t now_ms,
                                 int64_t *counts_ms_out, struct error *err)
{
    struct key_waiting waiting;
    struct asked asked;

    TRY(read_asked(document, now_ms, &asked, err));
    if (document->is_withdrawn || signing_key_has_old(&asked.key) || !is_another(place, &asked))
        return failure(err, ERROR_CONFLICT, "this enrolment needs no wait: have it pinned");
    const bool is_known = find_wait(place->replacements, &asked, &waiting) &&
                          memcmp(waiting.document, document->digest, sizeof waiting.document) == 0;
    if (!is_known) TRY(change(place->replacements, begin, &asked, err));
    *counts_ms_out = (is_known ? waiting.since_ms : now_ms) + REPLACEMENT_WAIT_MS;
    return SUCCESS;
}

static struct result end(struct replacement_state *state, const void *context, struct error *err)
{
    uint8_t key[DOCUMENT_DIGEST_SIZE];

    (void)err;
    key_of(context, key);
    struct key_waiting *waiting = find_waiting(state, key);
    if (waiting != NULL) *waiting = state->waiting[--state->waiting_count];
    return SUCCESS;
}

struct result replacements_end(struct replacements *replacements, const char *thumbprint, struct error *err)
{
    uint8_t key[DOCUMENT_DIGEST_SIZE];

    key_of(thumbprint, key);
    (void)pthread_mutex_lock(&replacements->lock);
    const bool is_there = find_waiting(&replacements->state, key) != NULL;
    const struct result ended = is_there ? change_locked(replacements, end, thumbprint, err) : SUCCESS;
    (void)pthread_mutex_unlock(&replacements->lock);
    return ended;
}

struct pins {
    const struct document_pin *before, *now;
};

static struct result set_back(struct replacement_state *state, const void *context, struct error *err)
{
    const struct pins *pins = context;

    (void)err;
    state->before = *pins->before;
    state->now = *pins->now;
    state->waiting_count = 0;
    return SUCCESS;
}

struct result replacements_set_back(struct replacements *replacements, const struct document_pin *before,
                                    const struct document_pin *pin, struct error *err)
{
    const struct pins pins = {before, pin};

    return change(replacements, set_back, &pins, err);
}
