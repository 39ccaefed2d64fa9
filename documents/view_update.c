/*
 * Finds which recorded documents are in force; sijil-keyd decides. Each event of the log is read once, in the log's order.
 * keyd may have refused an event, for example because a key had expired, so a row of document_pin claims each pin. A claim
 * is only a hint: all claims together must result in keyd's pin.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "crypto/digest.h"
#include "documents/document_store_priv.h"
#include "documents/format/runner_key.h"
#include "documents/pin_event.h"
#include "documents/restriction_officers.h"
#include "documents/view_priv.h"

struct update {
    const struct document_source *source;
    struct document_view *view;
    struct view_kind *kind;
    enum document_kind which;
    struct document_pin pinned; /* by keyd */
};

struct event {
    uint64_t sequence;
    struct bytes leaf;
    struct bytes envelopes[DOCUMENT_SIGNATURES_MAX];
    size_t envelope_count;
};

static bool is_same(const struct document_pin *one, const struct document_pin *other)
{
    return one->epoch == other->epoch && memcmp(one->digest, other->digest, sizeof one->digest) == 0;
}

static struct result ask_pin(struct update *update, struct error *err)
{
    struct keyd_documents documents;

    TRY(keyd_ask_documents(update->source->keyd, &documents, err));
    update->pinned = documents.pins[document_kind(update->which)->number - 1];
    return SUCCESS;
}

static void begin_again(struct update *update)
{
    struct view_kind *kind = update->kind;

    (void)pthread_mutex_lock(&update->view->lock);
    for (size_t i = 0; i < kind->count; i++) document_free(kind->slots[i].document);
    free(kind->slots);
    free(kind->links);
    kind->slots = NULL;
    kind->links = NULL;
    kind->count = kind->capacity = kind->link_count = kind->link_capacity = 0;
    kind->pin = (struct document_pin){0};
    kind->read_until = kind->named_count = kind->unlogged_count = 0;
    (void)pthread_mutex_unlock(&update->view->lock);
}

/* ---- adding a document ---- */

static struct result reserve_entry(struct view_kind *kind, struct error *err)
{
    const size_t capacity = kind->capacity == 0 ? 16 : 2 * kind->capacity;

    if (kind->count < kind->capacity) return SUCCESS;
    struct view_entry *slots = memory_zeroed(capacity, sizeof *slots);
    if (slots == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for %zu documents", capacity);
    if (kind->count > 0) memcpy(slots, kind->slots, kind->count * sizeof *slots);
    free(kind->slots);
    kind->slots = slots;
    kind->capacity = capacity;
    return SUCCESS;
}

static struct result reserve_link(struct view_kind *kind, struct error *err)
{
    const size_t capacity = kind->link_capacity == 0 ? 16 : 2 * kind->link_capacity;

    if (kind->link_count < kind->link_capacity) return SUCCESS;
    struct view_link *links = memory_zeroed(capacity, sizeof *links);
    if (links == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for %zu documents", capacity);
    if (kind->link_count > 0) memcpy(links, kind->links, kind->link_count * sizeof *links);
    free(kind->links);
    kind->links = links;
    kind->link_capacity = capacity;
    return SUCCESS;
}

static struct result reserve(struct view_kind *kind, struct error *err)
{
    TRY(reserve_entry(kind, err));
    return reserve_link(kind, err);
}

static void add_link(struct view_kind *kind, const struct document *document, uint64_t sequence)
{
    struct view_link *link = &kind->links[kind->link_count++];

    link->sequence = sequence;
    memcpy(link->before, kind->pin.digest, sizeof link->before);
    memcpy(link->envelopes, document->envelopes_digest, sizeof link->envelopes);
    sha256_of(bytes_of_text(document->scope), link->scope);
    memcpy(link->name, document->name, sizeof link->name);
}

/* Whoever learns that a runner's key was stolen even earlier says so in another withdrawal. The earliest time counts, in whatever order they came. */
static bool counts_from_later(const struct document *document, const struct document *before)
{
    struct runner_key later, earlier;
    struct error ignored = {0};

    return document->kind == DOCUMENT_RUNNER && document->is_withdrawn && before->is_withdrawn &&
           runner_key_read(document, &later, &ignored).ok && runner_key_read(before, &earlier, &ignored).ok &&
           later.since_ms >= earlier.since_ms;
}

/* A document that is recorded again keeps its first event. Otherwise a new organisation could record the documents of a deleted
 * one again, and they would be its own. */
static bool replaces(const struct document *document, const struct document *before)
{
    if (document->version != before->version) return document->version > before->version;
    return memcmp(document->digest, before->digest, sizeof before->digest) != 0 && !counts_from_later(document, before);
}

/* Only the name of a key has one owner for ever. The id of a trust rule is a name in its own scope, and may be used again. */
static bool names_a_key(const struct document *document)
{
    return document->kind == DOCUMENT_SIGNING_KEY || document->kind == DOCUMENT_RUNNER;
}

/* The owner of the key that the document enrols or withdraws; the document was checked before it was pinned. */
static const char *owner_of(const struct document *document)
{
    const char *member = document->kind == DOCUMENT_RUNNER ? "runner" : "principal";
    const char *owner = json_text_of(json_object_get(document->json, "body"), member);

    return owner == NULL ? "" : owner;
}

/* False: the key of this name has another owner. */
static bool is_of_owner(const struct view_kind *kind, const struct document *document)
{
    for (size_t i = 0; i < kind->count && names_a_key(document); i++) {
        const struct document *known = kind->slots[i].document;
        if (strcmp(known->name, document->name) == 0) return strcmp(owner_of(known), owner_of(document)) == 0;
    }
    return true;
}

/* A withdrawal counts in every scope. */
static void share_withdrawal(const struct view_kind *kind, struct document *document)
{
    for (size_t i = 0; i < kind->count && names_a_key(document); i++) {
        struct document *known = kind->slots[i].document;
        if (strcmp(known->name, document->name) != 0) continue;
        if (document->is_withdrawn) known->is_withdrawn_elsewhere = true;
        if (known->is_withdrawn) document->is_withdrawn_elsewhere = true;
    }
}

/* Of all versions with one scope and name, only the highest is kept. If several documents have that version, the newest is kept,
 * because the others may be of a deleted organisation; but of a runner's withdrawals the one with the earliest `since`. */
static void put(struct view_kind *kind, struct document *document, uint64_t sequence)
{
    bool is_there = false;
    const size_t at = view_position(kind, document->scope, document->name, &is_there);
    struct view_entry *slot = &kind->slots[at];

    if (!is_of_owner(kind, document) || (is_there && !replaces(document, slot->document))) {
        document_free(document);
        return;
    }
    share_withdrawal(kind, document);
    if (is_there) document_free(slot->document);
    else memmove(slot + 1, slot, (kind->count++ - at) * sizeof *slot);
    *slot = (struct view_entry){document, sequence};
}

static struct result take(struct update *update, const struct document_pin *pin, struct document **document, struct error *err)
{
    struct view_kind *kind = update->kind;

    (void)pthread_mutex_lock(&update->view->lock);
    const struct result reserved = reserve(kind, err);
    if (reserved.ok) {
        if (pin->epoch != kind->pin.epoch) add_link(kind, *document, pin->epoch);
        put(kind, GIVE(*document), pin->epoch);
        kind->pin = *pin;
    }
    (void)pthread_mutex_unlock(&update->view->lock);
    return reserved;
}

/* ---- one event ---- */

/* A pin is claimed before the next one is made, so at most the newest pin has no claim. */
static struct result was_pinned(const struct update *update, const struct document_pin *next, bool *was_pinned_out,
                                struct error *err)
{
    *was_pinned_out = true;
    if (is_same(next, &update->pinned)) return document_pin_claim(update->source->pg, update->which, next, err);
    return document_pin_is_claimed(update->source->pg, update->which, next, was_pinned_out, err);
}

static void note_refusal(struct update *update, uint64_t sequence, const struct error *refused)
{
    struct view_kind *kind = update->kind;

    (void)pthread_mutex_lock(&update->view->lock);
    struct view_refusal *refusal = &kind->refusals[kind->refusal_count++ % VIEW_REFUSALS];
    refusal->sequence = sequence;
    (void)snprintf(refusal->why, sizeof refusal->why, "%s", refused->message);
    (void)pthread_mutex_unlock(&update->view->lock);
}

/* keyd has refused the document. The refusal is in keyd's ledger, so it is final. If another gateway has pinned a document in the
 * meantime, the update is repeated (ERROR_CONFLICT). */
static struct result pass_over(struct update *update, uint64_t sequence, const struct error *refused, struct error *err)
{
    const struct document_pin before = update->pinned;
    const bool is_final =
        document_is_unconvincing(refused->kind) || refused->kind == ERROR_DENIED || refused->kind == ERROR_LIMIT;

    if (!is_final) return failure(err, refused->kind, "%s", refused->message);
    TRY(ask_pin(update, err));
    if (!is_same(&before, &update->pinned))
        return failure(err, ERROR_CONFLICT, "another gateway has pinned a document meanwhile");
    note_refusal(update, sequence, refused);
    return SUCCESS;
}

/* The keys that may have signed a restriction: sijil-keyd knows only their thumbprints. The kinds of officers and of keys were updated just before. */
static struct result add_points(const struct update *update, const struct document *document,
                                struct document_pin_request *request, uint8_t points[RESTRICTION_OFFICERS_MAX][ECDSA_PUBLIC_SIZE],
                                struct error *err)
{
    struct restriction_officers officers;

    _Static_assert(RESTRICTION_OFFICERS_MAX <= KEYD_POINTS_MAX, "a message has room");
    if (document->kind != DOCUMENT_RESTRICTION) return SUCCESS;
    TRY(restriction_officers_find(update->view, document->scope, clock_wall_ms(), &officers, err));
    for (size_t i = 0; i < officers.count; i++) memcpy(points[i], officers.each[i].point, ECDSA_PUBLIC_SIZE);
    request->base = (struct bytes){points[0], officers.count * ECDSA_PUBLIC_SIZE};
    return SUCCESS;
}

static document_pinner *pinner_of(enum document_kind kind)
{
    return kind == DOCUMENT_RESTRICTION ? keyd_pin_restriction : keyd_pin_document;
}

static struct result pin(struct update *update, const struct document *document, const struct event *event,
                         const struct document_pin *next, bool *was_pinned_out, struct error *err)
{
    uint8_t points[RESTRICTION_OFFICERS_MAX][ECDSA_PUBLIC_SIZE];
    struct document_pin_request request = {
        .envelope_count = event->envelope_count, .leaf = event->leaf, .sequence = event->sequence};
    struct keyd_identity identity;
    struct document_pin pinned;
    struct error refused = {0};

    *was_pinned_out = false;
    memcpy(request.envelopes, event->envelopes, sizeof request.envelopes);
    TRY(add_points(update, document, &request, points, err));
    TRY(keyd_identify(update->source->keyd, &identity, err));
    if (!document_pin_event(update->source, identity.log_size, &request, pinner_of(update->which), &pinned, &refused).ok)
        return pass_over(update, event->sequence, &refused, err);
    if (!is_same(&pinned, next)) return failure(err, ERROR_CONFLICT, "another gateway has pinned a document meanwhile");
    update->pinned = pinned;
    *was_pinned_out = true;
    return document_pin_claim(update->source->pg, update->which, next, err);
}

static struct result check_chain(const struct update *update, struct error *err)
{
    if (is_same(&update->kind->pin, &update->pinned)) return SUCCESS;
    return failure(
        err, ERROR_CORRUPT,
        "sijil-keyd has pinned documents of the kind %s up to event %llu, and the database does not have just those: %s",
        document_kind(update->which)->name, (unsigned long long)update->pinned.epoch, "restore it, and find out who changed it");
}

static struct result apply_document(struct update *update, const struct event *event, struct document **document,
                                    struct error *err)
{
    struct document_pin next;
    bool is_pinned = false;

    TRY(document_pin_next(&update->kind->pin, *document, event->sequence, &next, err));
    if (event->sequence <= update->pinned.epoch) {
        TRY(was_pinned(update, &next, &is_pinned, err));
    } else {
        TRY(check_chain(update, err));
        TRY(pin(update, *document, event, &next, &is_pinned, err));
    }
    return is_pinned ? take(update, &next, document, err) : SUCCESS;
}

/* *document_out is NULL if the event's envelopes are not a document of the kind: keyd would refuse them too. */
static struct result read_event(const struct update *update, const struct event *event, struct document **document_out,
                                struct error *err)
{
    OWNED(document) *document = NULL;
    struct error refused = {0};

    *document_out = NULL;
    if (event->envelope_count == 0 || event->sequence == 0) return SUCCESS; /* 0: no document is pinned yet */
    if (!document_read(event->envelopes, event->envelope_count, &document, &refused).ok)
        return refused.kind == ERROR_NO_MEMORY ? failure(err, ERROR_NO_MEMORY, "%s", refused.message) : SUCCESS;
    if (document->kind == update->which) *document_out = GIVE(document);
    return SUCCESS;
}

static struct result apply_event(struct update *update, const struct event *event, struct error *err)
{
    OWNED(document) *document = NULL;

    TRY(read_event(update, event, &document, err));
    if (document != NULL) TRY(apply_document(update, event, &document, err));
    if (event->envelope_count > 0) update->kind->named_count++;
    update->kind->read_until = event->sequence + 1;
    return SUCCESS;
}

static struct event event_of(const struct pg_rows *rows, size_t row)
{
    struct event event = {.sequence = (uint64_t)pg_int8(rows, row, 0), .leaf = pg_bytes(rows, row, 1)};

    for (size_t i = 0; i < DOCUMENT_SIGNATURES_MAX; i++) {
        event.envelopes[i] = pg_bytes(rows, row, DOCUMENT_EVENT_ENVELOPES + i);
        if (event.envelopes[i].length > 0) event.envelope_count = i + 1;
    }
    return event;
}

/* ---- all events ---- */

static struct result apply_new_events(struct update *update, struct error *err)
{
    for (size_t count = DOCUMENT_EVENTS_READ; count == DOCUMENT_EVENTS_READ;) {
        OWNED(pg_rows) *rows = NULL;
        TRY(document_events(update->source->pg, update->which, update->kind->read_until, &rows, err));
        count = pg_rows_count(rows);
        for (size_t i = 0; i < count; i++) {
            const struct event event = event_of(rows, i);
            TRY(apply_event(update, &event, err));
        }
    }
    return check_chain(update, err);
}

/* A gateway with another clock may have pinned an event that this one skipped. So, before it reports an error,
 * the update starts again from the first event. */
static struct result update_once(struct update *update, struct error *err)
{
    struct error found = {0};

    TRY(ask_pin(update, err));
    if (apply_new_events(update, &found).ok) return SUCCESS;
    if (found.kind != ERROR_CORRUPT || update->kind->read_until == 0) return failure(err, found.kind, "%s", found.message);
    begin_again(update);
    TRY(ask_pin(update, err));
    return apply_new_events(update, err);
}

static struct result count_unlogged(const struct update *update, uint64_t *unlogged_out, struct error *err)
{
    const uint64_t named = update->kind->named_count;
    uint64_t rows = 0;

    TRY(document_count(update->source->pg, update->which, named + DOCUMENT_UNLOGGED_MAX, &rows, err));
    *unlogged_out = rows > named ? rows - named : 0;
    return SUCCESS;
}

static struct result update_until_stable(struct update *update, struct error *err)
{
    for (unsigned i = 0; i < DOCUMENT_PIN_TRIES; i++) {
        const struct result updated = update_once(update, err);
        if (updated.ok || err->kind != ERROR_CONFLICT) return updated;
    }
    return failure(err, ERROR_UNAVAILABLE, "other gateways have the log signed faster than a document can be pinned");
}

struct result view_update_kind(struct document_view *view, enum document_kind kind, const struct document_source *source,
                               struct error *err)
{
    struct update update = {.source = source, .view = view, .kind = &view->kinds[kind], .which = kind};
    struct error found = {0};
    uint64_t unlogged = update.kind->unlogged_count;

    const struct result updated = update_until_stable(&update, &found);
    const bool is_known = updated.ok || found.kind == ERROR_CORRUPT;
    struct result counted = SUCCESS;
    if (updated.ok) counted = count_unlogged(&update, &unlogged, &found);
    (void)pthread_mutex_lock(&view->lock);
    update.kind->unlogged_count = unlogged;
    if (is_known) update.kind->is_corrupt = !updated.ok;
    if (is_known) update.kind->pinned = update.pinned.epoch;
    (void)pthread_mutex_unlock(&view->lock);
    return updated.ok && counted.ok ? SUCCESS : failure(err, found.kind, "%s", found.message);
}
