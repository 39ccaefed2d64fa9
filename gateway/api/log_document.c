/* Documents about the log: approvers sign one, reject a draft or withdraw a document; docs/delivery.md. */
#include <stdio.h>
#include <string.h>

#include "authz/trust_rule.h"
#include "base/clock.h"
#include "base/text.h"
#include "documents/change.h"
#include "gateway/api/log_document_priv.h"

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* ---- targets ---- */

static struct result add_pair(struct request *request, const struct log_documents *documents, enum action action,
                              const struct document *document, struct error *err)
{
    if (document->kind != documents->kind)
        return failure(err, ERROR_INVALID, "the document of a %s is expected", documents->what);
    if (document->scope[0] != '\0')
        return failure(err, ERROR_INVALID, "a %s is of the registry: its scope is \"\"", documents->what);
    if (request->reference != NULL && strcmp(request->reference, document->name) != 0)
        return failure(err, ERROR_INVALID, "the path and the document have different names");
    struct resource *resource = api_pair(request, action, RESOURCE_SYSTEM, "");
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", document->name);
    return SUCCESS;
}

static struct result add_target(struct request *request, const struct log_documents *documents, enum action action,
                                struct error *err)
{
    const struct signed_body *body = NULL;

    if (api_asks_for_credential(request, action)) return SUCCESS;
    TRY(request_envelope(request, &body, err));
    return add_pair(request, documents, action, body->document, err);
}

/* The root alone breaks no glass. */
struct result log_document_target_draft(struct request *request, const struct log_documents *documents, struct error *err)
{
    const struct signed_body *body = NULL;
    const enum action approve = documents->kind == DOCUMENT_BREAK_GLASS ? documents->draft : documents->approve;

    if (api_asks_for_credential(request, documents->draft)) return SUCCESS;
    TRY(request_envelope(request, &body, err));
    return add_pair(request, documents, document_draft_action(request, body, documents->draft, approve), body->document, err);
}

struct result log_document_target_revoke(struct request *request, const struct log_documents *documents, struct error *err)
{
    return add_target(request, documents, documents->revoke, err);
}

struct result log_document_target_approve(struct request *request, const struct log_documents *documents, struct error *err)
{
    const struct signed_body *body = NULL;

    if (api_asks_for_credential(request, documents->approve)) return SUCCESS;
    TRY(request_envelopes(request, &body, err));
    return add_pair(request, documents, documents->approve, body->document, err);
}

/* All of these documents are of the registry, whose scope is "". */
static bool is_elsewhere(const struct request *request)
{
    const char *scope = request_argument(request, "scope");

    return scope != NULL && scope[0] != '\0';
}

struct result log_document_target_list(struct request *request, enum action action)
{
    (void)api_pair(request, action, RESOURCE_SYSTEM, "");
    if (is_elsewhere(request)) response_unknown(request);
    return SUCCESS;
}

struct result log_document_target_named(struct request *request, enum action action)
{
    const char *name = request->reference;
    const size_t length = strlen(name);
    struct resource *resource = api_pair(request, action, RESOURCE_SYSTEM, "");

    if (length == 0 || length >= DOCUMENT_NAME_SIZE || is_elsewhere(request) ||
        !text_consists_of(bytes_of_text(name), NAME_LETTERS))
        response_unknown(request);
    else (void)snprintf(resource->detail, sizeof resource->detail, "%s", name);
    return SUCCESS;
}

/* ---- coming into force ---- */

struct result log_document_put_in_force(struct request *request, struct pg *pg, const struct signed_body *body,
                                        enum action action, struct error *err)
{
    struct action_pair pair = request->pairs[0];
    struct document_change plain;
    struct trust_rule_change giving;
    char recorder[PRINCIPAL_KEY_SIZE];
    unsigned status = 0;

    principal_key(request->principal, recorder);
    const struct document_row row = {action, body->document, body->envelopes, body->count, recorder};
    const bool gives_roles = log_documents_of(action)->gives_roles;
    if (gives_roles) trust_rule_change_init(&giving, &row, body->count > 1, NULL);
    else document_change_init(&plain, &row, body->count > 1);
    struct change *change = gives_roles ? &giving.change : &plain.change;
    pair.action = action;
    if (action == request->pairs[0].action) TRY(request_record(request, change, err));
    else TRY(request_record_instead(request, &pair, 1, change, err));
    const uint64_t sequence = permit_sequence(request->permit);
    TRY(document_put_in_force(request, pg, body->document->kind, &status, err));
    return document_answer(request, status, body->document, sequence, err);
}

/* How many documents are in force, without the one of this name. */
struct tally {
    const char *but;
    int64_t now_ms;
    unsigned count;
};

static struct result count_one(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct tally *tally = context;

    (void)err;
    if (document_is_in_force(pinned->document, tally->now_ms) && strcmp(pinned->document->name, tally->but) != 0) tally->count++;
    return SUCCESS;
}

static struct result check_room(const struct request *request, const struct log_documents *documents,
                                const struct document *document, struct error *err)
{
    struct tally tally = {document->name, clock_wall_ms(), 0};

    TRY(document_view_visit_all(request->gateway->documents, documents->kind, count_one, &tally, err));
    if (documents->most == 0 || tally.count < documents->most) return SUCCESS;
    return failure(err, ERROR_LIMIT, "a registry has at most %u of these in force: withdraw a %s first", documents->most,
                   documents->what);
}

/* All that does not depend on who has signed. */
struct result log_document_check_new(struct request *request, struct pg *pg, const struct log_documents *documents,
                                     const struct document *document, struct error *err)
{
    struct document_known known;

    if (document->is_withdrawn) return failure(err, ERROR_INVALID, "a withdrawal is sent to its own route");
    TRY(document_check_body(document, err));
    if (documents->check_request != NULL) TRY(documents->check_request(request, document, err));
    if (documents->grants) TRY(document_check_days(request, document, err));
    TRY(document_check_newer(request, pg, document, &known, err));
    return check_room(request, documents, document, err);
}

static struct result check_signers(const struct request *request, const struct signed_body *body,
                                   const struct document_trust *trust, struct document_signers *signers_out, struct error *err)
{
    const struct log_documents *documents = log_documents_of(request->pairs[0].action);

    TRY(document_check_signers(request, body, trust, signers_out, err));
    return documents->check_signers == NULL ? SUCCESS : documents->check_signers(request, body->document, signers_out, err);
}

struct result log_document_handle_draft(struct request *request, struct pg *pg, struct error *err)
{
    const struct log_documents *documents = log_documents_of(request->pairs[0].action);
    const struct signed_body *body = NULL;
    struct document_trust trust;
    struct document_signers signers;
    bool holds = false;

    TRY(request_envelope(request, &body, err));
    TRY(document_condition(request, pg, body->document, &holds, err));
    if (!holds) return SUCCESS;
    TRY(log_document_check_new(request, pg, documents, body->document, err));
    TRY(document_trust_now(request, &trust, err));
    TRY(check_signers(request, body, &trust, &signers, err));
    TRY(document_check_draft_action(request, &signers, documents->approve, err));
    if (signers.has_root) {
        TRY(document_check(body->document, &trust, err));
        return log_document_put_in_force(request, pg, body, documents->approve, err);
    }
    TRY(document_record_draft(request, body, documents->draft, err));
    return document_answer(request, 201, body->document, 0, err);
}

static struct result handle_approve(struct request *request, struct pg *pg, struct error *err)
{
    const struct log_documents *documents = log_documents_of(request->pairs[0].action);
    const struct signed_body *body = NULL;
    struct document_trust trust;
    struct document_signers signers;
    bool holds = false;

    TRY(request_envelopes(request, &body, err));
    if (body->count < 2) return failure(err, ERROR_INVALID, "envelopes: those of the draft, and your own as the last");
    TRY(document_condition(request, pg, body->document, &holds, err));
    if (!holds) return SUCCESS;
    TRY(log_document_check_new(request, pg, documents, body->document, err));
    TRY(document_trust_now(request, &trust, err));
    TRY(check_signers(request, body, &trust, &signers, err));
    TRY(document_check(body->document, &trust, err));
    return log_document_put_in_force(request, pg, body, documents->approve, err);
}

/* ---- the end ---- */

static struct result check_end(const struct request *request, const struct log_documents *documents,
                               const struct document *document, const struct document_trust *trust, struct error *err)
{
    bool is_of_root = false;

    if (documents->check_end == NULL) return SUCCESS;
    TRY(document_is_signed_by(document, trust->root, &is_of_root, err));
    return is_of_root ? SUCCESS : documents->check_end(request, err);
}

static struct result handle_revoke(struct request *request, struct pg *pg, struct error *err)
{
    const struct log_documents *documents = log_documents_of(request->pairs[0].action);
    const struct signed_body *body = NULL;
    struct document_trust trust;
    struct document_known known;
    bool holds = false;

    TRY(request_envelope(request, &body, err));
    if (!body->document->is_withdrawn)
        return failure(err, ERROR_INVALID, "the document withdraws nothing: \"withdrawn\" says why");
    TRY(document_condition(request, pg, body->document, &holds, err));
    if (!holds) return SUCCESS;
    TRY(document_check_newer(request, pg, body->document, &known, err));
    if (known.version == 0) return failure(err, ERROR_NOT_FOUND, "there is no %s of this name", documents->what);
    if (known.is_withdrawn) return failure(err, ERROR_CONFLICT, "this %s was withdrawn already", documents->what);
    TRY(document_trust_now(request, &trust, err));
    TRY(document_check(body->document, &trust, err));
    TRY(document_check_approver(request, body->document, &trust, err));
    TRY(check_end(request, documents, body->document, &trust, err));
    return log_document_put_in_force(request, pg, body, documents->revoke, err);
}

static struct result handle_reject(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    return document_remove_drafts(request, log_documents_of(request->pairs[0].action)->kind, NULL, err);
}

const struct handler handler_log_document_draft = {.handle = log_document_handle_draft};
const struct handler handler_log_document_approve = {.handle = handle_approve};
const struct handler handler_log_document_revoke = {.handle = handle_revoke};
const struct handler handler_log_document_reject = {.handle = handle_reject};
