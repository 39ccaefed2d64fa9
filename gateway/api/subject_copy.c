/* GET /api/v1/self/events, a receipt below it, and POST /api/v1/audit/subjects: a person's own copy of what the log has about it (docs/audit.md, "A person's own copy"). */
#include <stdio.h>
#include <string.h>

#include "authz/erased_subject.h"
#include "base/json.h"
#include "base/text.h"
#include "gateway/api/audit_priv.h"
#include "gateway/pipeline/document.h"

SCHEMA(subject_wanted, "a person, for a copy of what is held about it",
       HAS_TEXT("subject", REQUIRED, FORM_FREE, 1, 255,
                "its name at its issuer, the name of a robot, or the pseudonym in the log"),
       HAS_TEXT("issuer", OPTIONAL, FORM_URL, 1, 255, "the issuer, if several have a subject of this name"),
       HAS_TEXT("purpose", REQUIRED, FORM_FREE, 1, 512, "why: recorded, sealed, with the event"),
       HAS_TEXT("after", OPTIONAL, FORM_NUMBER, 1, 19, "the last number of the page before"),
       HAS_NUMBER("limit", OPTIONAL, 1, 1000, "events of a page; 100 if left out"))
PART(subject_held, "rows outside the log that name the person, or its digest",
     HAS_COUNT("roles", REQUIRED, "roles in force; of a robot: 1 until it is revoked"),
     HAS_COUNT("roles_ended", REQUIRED, "roles that have ended"),
     HAS_COUNT("robots", REQUIRED, "robots that count as the person"), HAS_COUNT("uploads", REQUIRED, "open uploads"),
     HAS_COUNT("documents", REQUIRED, "signed documents that it recorded"),
     HAS_COUNT("given", REQUIRED, "roles that it gave to others"))
SCHEMA(subject_copy, "a page of what is held about a person",
       HAS_LIST("events", REQUIRED, 1000, schema_event, "its events, oldest first, with their sealed parts"), HAS_NEXT,
       HAS_TEXT("pseudonym", REQUIRED, FORM_FREE, 64, 64, "of the person in the log"),
       HAS_COUNT("total", REQUIRED, "events of the person"),
       HAS_OBJECT("held", REQUIRED, schema_subject_held, "what is held outside the log"))

#define RECEIPT_PART_MAX ((size_t)64 * 1024) /* an entry, or its proof: as of an auditor */

/* Whose copy, and which page of it. */
struct copy {
    enum action action;
    struct erasure_name name;
    unsigned limit;
    uint64_t from;
};

/* ---- targets ---- */

struct result target_subject_own(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    request->purpose = "the person's own copy";
    (void)api_pair(request, ACTION_SUBJECT_READ, RESOURCE_SYSTEM, "");
    return SUCCESS;
}

/* The name goes into the sealed part of the event, as the conditions of a search do. */
struct result target_subject_copy(struct request *request, struct lookup *lookup, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(2048);
    const json_t *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_SUBJECT_COPY)) return SUCCESS;
    TRY(request_document(request, &body, err));
    TRY(audit_write_condition("subject", json_text_of(body, "subject"), &text, err));
    TRY(audit_write_condition("issuer", json_text_of(body, "issuer"), &text, err));
    request->purpose = json_text_of(body, "purpose");
    request->search = arena_copy_text(request->arena, buffer_bytes(&text));
    if (request->search == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a copy");
    (void)api_pair(request, ACTION_SUBJECT_COPY, RESOURCE_SYSTEM, "");
    return SUCCESS;
}

/* ---- the answer ---- */

static struct result add_held(const struct erasure_person *person, const struct subject_holdings *held, struct buffer *text,
                              struct error *err)
{
    return buffer_format(text, err,
                         ",\"pseudonym\":\"%s\",\"total\":%llu,\"held\":{\"roles\":%lld,\"roles_ended\":%lld,\"robots\":%lld,"
                         "\"uploads\":%lld,\"documents\":%lld,\"given\":%lld}",
                         person->pseudonym, (unsigned long long)person->events, (long long)held->roles_live,
                         (long long)held->roles_ended, (long long)held->robots, (long long)held->uploads,
                         (long long)held->documents, (long long)held->given);
}

static struct result answer(struct request *request, const struct audit_page *page, size_t shown, struct buffer *text,
                            struct error *err)
{
    char next[21]; /* 2^64 in decimal */

    if (shown == 0 || shown == audit_page_count(page)) return audit_events_answer(request, NULL, text, err);
    (void)snprintf(next, sizeof next, "%llu", (unsigned long long)audit_page_sequence(page, shown - 1));
    return audit_events_answer(request, next, text, err);
}

static struct result write(struct request *request, struct pg *pg, const struct copy *copy, const struct erasure_person *person,
                           struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(EVENTS_BYTES_MAX);
    struct audit_filter filter = {.ascending = true, .from = copy->from, .until = INT64_MAX, .limit = copy->limit + 1};
    OWNED(audit_page) *page = NULL;
    struct subject_holdings held;
    size_t shown = copy->limit;
    char key[sizeof "act:" + sizeof person->pseudonym];

    (void)snprintf(key, sizeof key, "act:%s", person->pseudonym);
    filter.key = key;
    TRY(subject_holdings_find(request->permit, copy->action, pg, person, &held, err));
    TRY(erasure_person_events(request->permit, copy->action, pg, &filter, &page, err));
    TRY(audit_events_write(request, page, false, &shown, &text, err));
    TRY(add_held(person, &held, &text, err));
    return answer(request, page, shown, &text, err);
}

static struct result show(struct request *request, struct pg *pg, const struct copy *copy, struct error *err)
{
    const struct search_source source = {pg, request->gateway->keyd, request->gateway->origin};
    struct erasure_person person;
    char pseudonym[65];

    TRY(erasure_pseudonym(request->permit, &source, &copy->name, pseudonym, err));
    TRY(erasure_person_find(request->permit, copy->action, &source, pseudonym, &person, err));
    const struct result written = write(request, pg, copy, &person, err);
    erasure_person_wipe(&person);
    return written;
}

static struct result handle_own(struct request *request, struct pg *pg, struct error *err)
{
    const struct principal *principal = request->principal;
    struct copy copy = {.action = ACTION_SUBJECT_READ, .name = {ACTION_SUBJECT_READ, principal->issuer, principal->subject}};
    int64_t after = -1;
    struct api_page page;

    if (!api_page(request, &page)) return SUCCESS;
    TRY(api_after_number(&page, &after, err));
    copy.limit = page.limit;
    copy.from = (uint64_t)(after + 1);
    return show(request, pg, &copy, err);
}

/* ---- a receipt: one event of the caller, with its proof ---- */

struct receipt {
    struct buffer entry, proof;
};

static void receipt_done(struct receipt *receipt)
{
    buffer_done(&receipt->entry);
    buffer_done(&receipt->proof);
}
#define OWNED_RECEIPT __attribute__((cleanup(receipt_done))) struct receipt

static struct result prove(struct request *request, struct pg *pg, struct receipt *receipt, struct error *err)
{
    const struct search_source source = {pg, request->gateway->keyd, request->gateway->origin};
    const struct erasure_name name = {ACTION_SUBJECT_READ, request->principal->issuer, request->principal->subject};
    const struct proven_entry proven = {&receipt->entry, &receipt->proof};
    struct signed_checkpoint checkpoint;
    struct own_entry own = {.checkpoint = &checkpoint};
    char pseudonym[65];

    if (!text_to_u64(bytes_of_text(request->reference), INT64_MAX - 1, &own.sequence))
        return failure(err, ERROR_NOT_FOUND, "there is no such event of yours");
    TRY(erasure_pseudonym(request->permit, &source, &name, pseudonym, err));
    TRY(api_newest(request, own.sequence + 1, &checkpoint, err));
    own.actor = pseudonym;
    return audit_prove_own(request->permit, pg, &own, &proven, err);
}

static struct result answer_receipt(struct request *request, struct pg *pg, bool with_proof, struct error *err)
{
    OWNED_RECEIPT receipt = {BUFFER(RECEIPT_PART_MAX), BUFFER(RECEIPT_PART_MAX)};

    const struct result proven = prove(request, pg, &receipt, err);
    if (!proven.ok && api_proves_later(request, pg, err)) return SUCCESS;
    TRY(proven);
    const struct buffer *part = with_proof ? &receipt.proof : &receipt.entry;
    const char *copy = arena_copy_text(request->arena, buffer_bytes(part));
    if (copy == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a receipt");
    response_bytes(request, 200, with_proof ? "text/plain; charset=utf-8" : "application/json",
                   (struct bytes){(const uint8_t *)copy, part->length});
    response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

static struct result handle_own_entry(struct request *request, struct pg *pg, struct error *err)
{
    return answer_receipt(request, pg, false, err);
}

static struct result handle_own_proof(struct request *request, struct pg *pg, struct error *err)
{
    return answer_receipt(request, pg, true, err);
}

static struct result handle_copy(struct request *request, struct pg *pg, struct error *err)
{
    struct copy copy = {.action = ACTION_SUBJECT_COPY, .limit = API_LIMIT_DEFAULT};
    const json_t *body = NULL;
    int64_t limit = API_LIMIT_DEFAULT;

    TRY(request_document(request, &body, err));
    const char *after = json_text_of(body, "after");
    copy.name = (struct erasure_name){ACTION_SUBJECT_COPY, json_text_of(body, "issuer"), json_text_of(body, "subject")};
    if (after != NULL && !text_to_u64(bytes_of_text(after), INT64_MAX - 1, &copy.from))
        return failure(err, ERROR_INVALID, "after is a sequence number of an event");
    if (after != NULL) copy.from++;
    if (json_integer_of(body, "limit", &limit)) copy.limit = (unsigned)limit;
    TRY(request_record(request, NULL, err));
    return show(request, pg, &copy, err);
}

const struct handler handler_subject_own = {.handle = handle_own};
const struct handler handler_subject_entry = {.handle = handle_own_entry};
const struct handler handler_subject_proof = {.handle = handle_own_proof};
const struct handler handler_subject_copy = {.handle = handle_copy};
