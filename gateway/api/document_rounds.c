/* Signed documents of which each version replaces the one before: their versions, and their signers, each a person of its own. */
#include <string.h>

#include "documents/change.h"
#include "gateway/api/document_priv.h"
#include "policy/decider/decider.h"

#define DAY_MS INT64_C(86400000)

static struct result note_known(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct document_known *known = context;

    (void)err;
    *known = (struct document_known){pinned->document->version, pinned->sequence, pinned->document->is_withdrawn};
    return SUCCESS;
}

struct result document_check_days(const struct request *request, const struct document *document, struct error *err)
{
    const int64_t most = request->gateway->settings->role_document_days_max;

    if (document->expires_ms != 0 && document->expires_ms - document->effective_ms <= most * DAY_MS) return SUCCESS;
    return failure(err, ERROR_INVALID, "a document that gives roles lives at most %lld days here", (long long)most);
}

/* Also of a deleted organisation of the name: its versions are used up. */
struct result document_check_newer(struct request *request, struct pg *pg, const struct document *document,
                                   struct document_known *known_out, struct error *err)
{
    const struct document_scope any = {document->scope, 0};
    const struct view_range one = {document->kind, &any, document->name, 1};
    struct error none = {0};

    *known_out = (struct document_known){0};
    TRY(document_refresh(request, pg, err));
    if (!document_view_find(request->gateway->documents, &one, note_known, known_out, &none).ok && none.kind != ERROR_NOT_FOUND)
        return failure(err, none.kind, "%s", none.message);
    if (document->version > known_out->version) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "version %llu of %.63s is recorded already: sign a higher one",
                   (unsigned long long)known_out->version, document->name);
}

static struct result add_person(const struct request *request, const uint8_t *point, struct document_signers *signers,
                                struct error *err)
{
    struct persons *person = &signers->persons[signers->count];

    TRY(document_approver_person(request, point, person, err));
    for (size_t i = 0; i < signers->count; i++)
        if (!persons_are_others(&signers->persons[i], person))
            return failure(err, ERROR_CONFLICT, "one person has signed twice: another person signs, too");
    signers->count++;
    return SUCCESS;
}

struct result document_check_signers(const struct request *request, const struct signed_body *body,
                                     const struct document_trust *trust, struct document_signers *signers_out, struct error *err)
{
    *signers_out = (struct document_signers){.count = 0};
    for (size_t i = 0; i < body->count; i++) {
        OWNED(document) *envelope = NULL;
        const uint8_t *point = NULL;
        bool is_sender = true;
        TRY(document_read(&body->envelopes[i], 1, &envelope, err));
        TRY(document_approver_key(trust, envelope, &point, err));
        if (i + 1 == body->count) TRY(document_check_sender(request, point, trust, &is_sender, err));
        if (!is_sender) return failure(err, ERROR_DENIED, DOCUMENT_SENT_BY_ANOTHER);
        if (memcmp(point, trust->root, ECDSA_PUBLIC_SIZE) == 0) signers_out->has_root = document_root_is_one(trust);
        else TRY(add_person(request, point, signers_out, err));
    }
    return SUCCESS;
}

enum action document_draft_action(const struct request *request, const struct signed_body *body, enum action draft,
                                  enum action approve)
{
    OWNED(document) *envelope = NULL;
    const uint8_t *point = NULL;
    struct document_trust trust;
    struct error ignored; /* the handler says what is wrong */

    if (body->count != 1 || !document_read(body->envelopes, 1, &envelope, &ignored).ok ||
        !document_trust_now(request, &trust, &ignored).ok || !document_root_is_one(&trust) ||
        !document_approver_key(&trust, envelope, &point, &ignored).ok)
        return draft;
    return memcmp(point, trust.root, ECDSA_PUBLIC_SIZE) == 0 ? approve : draft;
}

struct result document_check_draft_action(const struct request *request, const struct document_signers *signers,
                                          enum action approve, struct error *err)
{
    if (signers->has_root == (request->pairs[0].action == approve)) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "the keys that count have changed meanwhile; try again");
}

struct result document_record_draft(struct request *request, const struct signed_body *body, enum action action,
                                    struct error *err)
{
    const struct resource *where = &request->pairs[0].resource;
    struct document_draft_change change;
    char drafter[PRINCIPAL_KEY_SIZE];

    principal_key(request->principal, drafter);
    const struct document_draft_row row = {action,          body->document,
                                           body->envelopes, body->count,
                                           drafter,         uuid_is_nil(&where->organisation) ? NULL : &where->organisation};
    document_draft_change_init(&change, &row);
    return request_record(request, &change.change, err);
}
