/* /api/v1/audit: reading the log, and proofs from it (docs/api.md). */
#include <stdio.h>
#include <string.h>

#include "audit/format/leaf.h"
#include "audit/query.h"
#include "audit/sequencer.h"
#include "base/text.h"
#include "crypto/ecdsa.h"
#include "gateway/api/audit_priv.h"
#include "registry/project.h"

#define PURPOSE_MAX 512 /* as gateway/parameters.def says */

#define ONE_EVENT_MAX  ((size_t)64 << 10)                                      /* a leaf, a payload and the JSON around them */
#define WITH_FACTS_MAX (ONE_EVENT_MAX + LEAF_TARGETS_MAX * ((size_t)32 << 10)) /* and the largest rows of facts */

SCHEMA(
    event, "an event of the log", HAS_COUNT("seq", REQUIRED, "its sequence number, which names it in paths"),
    HAS_ANY("entry", OPTIONAL, "the leaf of the log, an object; left out if the event is unreadable"),
    HAS_ANY(
        "who", OPTIONAL,
        "who did it, an object; null: nobody; {\"sealed\":true} without a purpose; {\"missing\":\"payload\"}, {\"missing\":\"key\"} or "
        "{\"damaged\":true}"),
    HAS_ANY("facts", OPTIONAL, "a list: the facts on which each target was decided; null for facts that are gone"),
    HAS_FLAG("unreadable", OPTIONAL, "true: the leaf is no event"))

SCHEMA(events, "a page of events", HAS_LIST("events", REQUIRED, 1000, schema_event, "in the order that was asked for"), HAS_NEXT,
       HAS_COUNT("searched_to", OPTIONAL,
                 "of a search. Ascending: each event before this number was looked at; descending: each from this number on"),
       HAS_COUNT("known_to", OPTIONAL, "of a search: it knows the events before this number"),
       HAS_COUNT("wanted_to", OPTIONAL, "of a search: the answer is complete if known_to is not smaller; else ask again later"))

SCHEMA(audit_key, "public keys of the registry", HAS_TEXT("origin", REQUIRED, FORM_FREE, 1, 0, "the name of the log"),
       HAS_TEXT("vkey", REQUIRED, FORM_FREE, 1, 0, "the key of the log, as signed notes have it: the newest one"),
       HAS_TEXT("keys", REQUIRED, FORM_FREE, 1, KEYD_LOG_KEYS_MAX, "the first key of the log, and each handover"),
       HAS_TEXT("documents", REQUIRED, FORM_FREE, 1, 0, "the key of certificates of deletion, in PEM"))

void audit_pair_within(struct request *request, enum action action, const char *within)
{
    if (within == NULL || within[0] == '\0') {
        (void)api_pair(request, action, RESOURCE_SYSTEM, "");
        return;
    }
    const char *slash = strchr(within, '/');
    const size_t first = slash == NULL ? strlen(within) : (size_t)(slash - within);
    const bool is_name = namespace_name_is_valid((struct bytes){(const uint8_t *)within, first}) &&
                         (slash == NULL || namespace_name_is_valid(bytes_of_text(slash + 1)));
    if (is_name) (void)api_pair(request, action, slash == NULL ? RESOURCE_ORGANISATION : RESOURCE_PROJECT, within);
    else response_problem(request, 400, "The request breaks a rule", "within is an organisation, or organisation/project");
}

/* ?within=acme or ?within=acme/models limits the request to the part that an auditor of an organisation or a project may read. */
struct result target_audit_read(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    audit_pair_within(request, ACTION_AUDIT_READ, request_argument(request, "within"));
    return SUCCESS;
}

struct result audit_read_purpose(struct request *request, struct error *err)
{
    const char *purpose = request_argument(request, "purpose");
    const size_t length = purpose == NULL ? 1 : strlen(purpose);

    if (length == 0 || length > PURPOSE_MAX) return failure(err, ERROR_INVALID, "purpose has 1 to %d bytes", PURPOSE_MAX);
    request->purpose = purpose;
    return SUCCESS;
}

struct result target_audit_event(struct request *request, struct lookup *lookup, struct error *err)
{
    TRY(target_audit_read(request, lookup, err));
    return audit_read_purpose(request, err);
}

static bool read_sequence(const char *text, uint64_t *value_out)
{
    return text_to_u64(bytes_of_text(text), INT64_MAX - 1, value_out);
}

/* `after` continues in the order of reading; -1: from the start. `before` is an upper bound in both orders. */
struct result audit_filter_read(const struct request *request, const char *after, struct audit_filter *filter, struct error *err)
{
    const char *before = request_argument(request, "before");
    uint64_t cursor = 0, bound = 0;

    if (strcmp(after, "-1") == 0) after = "";
    filter->key = request_argument(request, "key");
    filter->until = INT64_MAX;
    if (filter->key != NULL && !leaf_key_is_possible(filter->key))
        return failure(err, ERROR_INVALID,
                       "no event stands under the key \"%.80s\": a key is org:, prj: or res: and a name, act: "
                       "and a pseudonym, anonymous or system, out:denied or out:failed",
                       filter->key);
    TRY(api_order(request, &filter->ascending, err));
    if ((after[0] != '\0' && !read_sequence(after, &cursor)) || (before != NULL && !read_sequence(before, &bound)))
        return failure(err, ERROR_INVALID, "after and before are sequence numbers of events");
    if (before != NULL) filter->until = bound;
    if (after[0] == '\0') return SUCCESS;
    if (filter->ascending) filter->from = cursor + 1;
    else if (cursor < filter->until) filter->until = cursor;
    return SUCCESS;
}

/*
 * Writes the payload, null if the event has none, or the reason why it can't be shown. A damaged payload does not hide the
 * other events.
 */
static struct result write_unopened(const struct audit_page *page, size_t index, struct buffer *text, struct error *err)
{
    const char *missing = audit_page_missing(page, index);

    if (missing != NULL) return buffer_format(text, err, "{\"missing\":\"%s\"}", missing);
    return buffer_add_text(text, audit_page_is_sealed(page, index) ? "{\"sealed\":true}" : "null", err);
}

/* Personal data is opened for a purpose alone, which the event of this request has. */
static struct result write_who(const struct request *request, struct audit_page *page, size_t index, struct buffer *text,
                               struct error *err)
{
    const struct gateway *gateway = request->gateway;
    const size_t before = text->length;

    if (request->purpose == NULL) return write_unopened(page, index, text, err);
    const struct result opened = audit_page_payload(page, index, gateway->keyd, gateway->origin, text, err);

    if (!opened.ok && err->kind != ERROR_CORRUPT) return opened;
    if (opened.ok && text->length > before) return SUCCESS;
    buffer_truncate(text, before);
    return opened.ok ? write_unopened(page, index, text, err) : buffer_add_text(text, "{\"damaged\":true}", err);
}

bool audit_wants_facts(struct request *request, bool *wants_out)
{
    const char *facts = request_argument(request, "facts");

    *wants_out = facts != NULL;
    if (facts == NULL || strcmp(facts, "true") == 0) return true;
    response_problem(request, 400, "The request breaks a rule", "facts is true, or left out");
    return false;
}

static struct result load_facts(struct pg *pg, struct audit_page *page, bool wanted, struct error *err)
{
    return wanted ? audit_page_load_facts(page, pg, err) : SUCCESS;
}

/* Writes the facts in the order of the targets; null for missing ones. */
static struct result write_facts(const struct audit_page *page, size_t index, struct buffer *text, struct error *err)
{
    struct bytes facts;

    TRY(buffer_add_text(text, ",\"facts\":[", err));
    for (size_t i = 0; i < audit_page_facts_count(page, index); i++) {
        if (i > 0) TRY(buffer_add_u8(text, ',', err));
        switch (audit_page_facts(page, index, i, &facts)) {
        case FACTS_SOUND: TRY(buffer_add(text, facts.data, facts.length, err)); break;
        case FACTS_MISSING: TRY(buffer_add_text(text, "null", err)); break;
        case FACTS_DAMAGED: TRY(buffer_add_text(text, "{\"damaged\":true}", err)); break;
        }
    }
    return buffer_add_u8(text, ']', err);
}

/* Of the caller's own events the numbers under their keys are left out: they count the events of others, also where the caller may see nothing. */
static struct result write_own_entry(struct bytes leaf, struct buffer *text, struct error *err)
{
    OWNED_JSON entry = NULL;

    TRY(json_read(leaf, ONE_EVENT_MAX, &entry, err));
    (void)json_object_del(entry, "k");
    return json_write_canonical(text, entry, err);
}

static struct result write_entry(const struct request *request, struct bytes leaf, struct buffer *text, struct error *err)
{
    if (request->pairs[0].action == ACTION_SUBJECT_READ) return write_own_entry(leaf, text, err);
    return buffer_add(text, leaf.data, leaf.length, err);
}

/* {"seq":N,"entry":the leaf unchanged, but as write_own_entry(),"who":write_who(),"facts":write_facts() with ?facts=true}, or
 * {"seq":N,"unreadable":true} */
static struct result write_event(const struct request *request, struct audit_page *page, size_t index, bool with_facts,
                                 struct buffer *text, struct error *err)
{
    const struct bytes leaf = audit_page_leaf(page, index);

    TRY(buffer_format(text, err, "{\"seq\":%llu,", (unsigned long long)audit_page_sequence(page, index)));
    if (!audit_page_is_readable(page, index)) return buffer_add_text(text, "\"unreadable\":true}", err);
    TRY(buffer_add_text(text, "\"entry\":", err));
    TRY(write_entry(request, leaf, text, err));
    TRY(buffer_add_text(text, ",\"who\":", err));
    TRY(write_who(request, page, index, text, err));
    if (with_facts) TRY(write_facts(page, index, text, err));
    return buffer_add_u8(text, '}', err);
}

struct result audit_events_write(const struct request *request, struct audit_page *page, bool with_facts, size_t *shown,
                                 struct buffer *text, struct error *err)
{
    const size_t count = audit_page_count(page), limit = *shown, most = with_facts ? WITH_FACTS_MAX : ONE_EVENT_MAX;
    size_t i = 0;

    TRY(buffer_add_text(text, "{\"events\":[", err));
    for (; i < count && i < limit && text->length + most < EVENTS_BYTES_MAX; i++) {
        if (i > 0) TRY(buffer_add_u8(text, ',', err));
        TRY(write_event(request, page, i, with_facts, text, err));
    }
    *shown = i;
    return buffer_add_u8(text, ']', err);
}

static struct result answer_with(struct request *request, const char *type, const struct buffer *text, struct error *err)
{
    const char *copy = arena_copy_text(request->arena, buffer_bytes(text));

    if (copy == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    response_bytes(request, 200, type, (struct bytes){(const uint8_t *)copy, text->length});
    response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

struct result audit_events_answer(struct request *request, const char *next, struct buffer *text, struct error *err)
{
    if (next != NULL) TRY(buffer_format(text, err, ",\"next\":\"%s\"", next));
    TRY(buffer_add_u8(text, '}', err));
    TRY(answer_with(request, "application/json", text, err));
    return next == NULL ? SUCCESS : api_link_next(request, next, err);
}

/* The sequence number in the path. An event from before the namespace's creation is not found: it may be about a deleted one
 * with this name. */
static struct result read_number(const struct request *request, struct pg *pg, uint64_t *sequence_out, struct error *err)
{
    uint64_t sequence = 0, born = 0;

    TRY(namespace_born(request->permit, pg, &born, err));
    if (!read_sequence(request->reference, &sequence) || sequence < born)
        return failure(err, ERROR_NOT_FOUND, "there is no such event");
    *sequence_out = sequence;
    return SUCCESS;
}

static struct result find(struct request *request, struct pg *pg, struct audit_page **page_out, struct error *err)
{
    uint64_t sequence = 0;

    TRY(read_number(request, pg, &sequence, err));
    return audit_find(request->permit, pg, sequence, page_out, err);
}

static struct result handle_event(struct request *request, struct pg *pg, struct error *err)
{
    OWNED(audit_page) *page = NULL;
    struct buffer OWNED_BUFFER text = BUFFER(WITH_FACTS_MAX);
    bool with_facts = false;

    if (!audit_wants_facts(request, &with_facts)) return SUCCESS;
    TRY(find(request, pg, &page, err));
    TRY(load_facts(pg, page, with_facts, err));
    TRY(write_event(request, page, 0, with_facts, &text, err));
    return answer_with(request, "application/json", &text, err);
}

static struct result handle_entry(struct request *request, struct pg *pg, struct error *err)
{
    OWNED(audit_page) *page = NULL;
    struct buffer OWNED_BUFFER text = BUFFER(ONE_EVENT_MAX);

    TRY(find(request, pg, &page, err));
    const struct bytes leaf = audit_page_leaf(page, 0);
    TRY(buffer_add(&text, leaf.data, leaf.length, err));
    return answer_with(request, "application/json", &text, err);
}

static struct result prove(const struct request *request, struct pg *pg, uint64_t sequence, struct buffer *proof,
                           struct error *err)
{
    const char *size = request_argument(request, "size");
    struct signed_checkpoint checkpoint;

    if (size == NULL) TRY(api_newest(request, sequence + 1, &checkpoint, err));
    else TRY(api_published(request, pg, ACTION_AUDIT_READ, size, &checkpoint, err));
    if (size != NULL && sequence >= checkpoint.size)
        return failure(err, ERROR_NOT_FOUND, "event %llu is not in the log of %s entries", (unsigned long long)sequence, size);
    return audit_prove(request->permit, pg, sequence, &checkpoint, proof, err);
}

static struct result handle_proof(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(ONE_EVENT_MAX);
    uint64_t sequence = 0;

    TRY(read_number(request, pg, &sequence, err));
    const struct result proven = prove(request, pg, sequence, &text, err);
    if (!proven.ok && api_proves_later(request, pg, err)) return SUCCESS;
    TRY(proven);
    return answer_with(request, "text/plain; charset=utf-8", &text, err);
}

/* The checkpoint comes from memory, because anyone with access to the database could write the table of checkpoints. */
static struct result handle_checkpoint(struct request *request, struct pg *pg, struct error *err)
{
    struct signed_checkpoint checkpoint;
    struct buffer OWNED_BUFFER text = BUFFER(ONE_EVENT_MAX);

    (void)pg;
    (void)permit_resource(request->permit, ACTION_AUDIT_READ);
    TRY(sequencer_checkpoint(request->gateway->sequencer, &checkpoint, err));
    TRY(buffer_add_text(&text, checkpoint.note, err));
    return answer_with(request, "text/plain; charset=utf-8", &text, err);
}

static struct result handle_key(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER keys = BUFFER(KEYD_LOG_KEYS_MAX);
    struct keyd_identity identity;
    struct keyd_log_keys state;

    (void)pg;
    OWNED(ecdsa_key) *documents = NULL;
    struct buffer OWNED_BUFFER pem = BUFFER(ECDSA_PEM_MAX);

    TRY(keyd_identify(request->gateway->keyd, &identity, err));
    TRY(ecdsa_key_from_public(identity.document_public, &documents, err));
    TRY(ecdsa_key_public_pem(documents, &pem, err));
    TRY(keyd_log_keys(request->gateway->keyd, &keys, &state, err));
    OWNED_JSON value = json_pack("{s:s, s:s, s:s, s:s}", "origin", request->gateway->log_name, "vkey", identity.log_vkey, "keys",
                                 buffer_text(&keys), "documents", buffer_text(&pem));
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    response_json(request, 200, value);
    return SUCCESS;
}

const struct handler handler_audit_event = {.handle = handle_event};
const struct handler handler_audit_entry = {.handle = handle_entry};
const struct handler handler_audit_proof = {.handle = handle_proof};
const struct handler handler_audit_checkpoint = {.handle = handle_checkpoint};
const struct handler handler_audit_key = {.handle = handle_key};
