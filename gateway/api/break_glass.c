/* /api/v1/break-glass: a person asks, another one approves, either ends it, and a third one reviews it; docs/break-glass.md. */
#include <string.h>

#include "authz/trust_login.h"
#include "base/clock.h"
#include "gateway/api/break_glass_priv.h"
#include "policy/decider/decider.h"

/* ---- targets ---- */

struct result target_break_glass_ask(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_draft(request, &log_glasses, err);
}

struct result target_break_glass_approve(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_approve(request, &log_glasses, err);
}

struct result target_break_glass_end(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_revoke(request, &log_glasses, err);
}

struct result target_break_glass_review(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return log_document_target_draft(request, &log_glass_reviews, err);
}

struct result target_break_glass_reject(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_named(request, ACTION_BREAK_GLASS_REJECT);
}

struct result target_break_glass_list(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_list(request, ACTION_BREAK_GLASS_READ);
}

struct result target_break_glass_show(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return log_document_target_named(request, ACTION_BREAK_GLASS_READ);
}

/* ---- persons ---- */

/* Neither a robot nor a CI job: somebody must answer for it, and what several have seen answers for nobody. */
static struct result check_person(const struct request *request, struct persons *person_out, struct error *err)
{
    const struct principal *principal = request->principal;

    *person_out = decider_persons(request->gateway->decider, principal, &request->pairs[0].resource.organisation);
    if (principal->kind == PRINCIPAL_EXTERNAL && !trust_is_rule(principal) && persons_are_one(person_out)) return SUCCESS;
    return failure(
        err, ERROR_DENIED,
        "a person breaks the glass, approves and reviews it, and this credential is not one person's (docs/identity.md, \"Persons\")");
}

static struct result check_another(const struct request *request, const struct persons *asking, const char *principal,
                                   struct error *err)
{
    const struct persons other =
        decider_persons_of_key(request->gateway->decider, principal, &request->pairs[0].resource.organisation);

    if (persons_are_others(asking, &other)) return SUCCESS;
    return failure(err, ERROR_DENIED, "another person than those who broke the glass must do this");
}

/* The last envelope is signed with an approver's key, of the caller. The root is no person. */
static struct result check_approval(const struct request *request, const struct signed_body *body,
                                    const struct document_trust *trust, struct error *err)
{
    OWNED(document) *envelope = NULL;
    const uint8_t *point = NULL;
    bool is_sender = false;

    TRY(document_check(body->document, trust, err));
    TRY(document_read(&body->envelopes[body->count - 1], 1, &envelope, err));
    TRY(document_approver_key(trust, envelope, &point, err));
    if (memcmp(point, trust->root, ECDSA_PUBLIC_SIZE) == 0)
        return failure(err, ERROR_DENIED, "the root's key is no person's, so it does not count here");
    TRY(document_check_sender(request, point, trust, &is_sender, err));
    return is_sender ? SUCCESS : failure(err, ERROR_DENIED, DOCUMENT_SENT_BY_ANOTHER);
}

/* ---- asking ---- */

static struct result handle_ask(struct request *request, struct pg *pg, struct error *err)
{
    const struct signed_body *body = NULL;
    struct glass_draft_change change;
    struct break_glass glass;
    struct persons asking;
    char drafter[PRINCIPAL_KEY_SIZE];

    TRY(request_envelope(request, &body, err));
    TRY(check_person(request, &asking, err));
    TRY(break_glass_check_holder(body->document, clock_wall_ms(), &glass, err));
    principal_key(request->principal, drafter);
    if (strcmp(glass.principal, drafter) != 0)
        return failure(err, ERROR_DENIED, "the document names another principal than %s", drafter);
    TRY(log_document_check_new(request, pg, &log_glasses, body->document, err));
    TRY(break_glass_check_key(request, pg, &glass, err));
    const struct document_draft_row row = {ACTION_BREAK_GLASS_ASK, body->document, body->envelopes, body->count, drafter, NULL};
    glass_draft_change_init(&change, &row, request->principal);
    TRY(request_record(request, &change.change, err));
    return document_answer(request, 201, body->document, 0, err);
}

/* ---- approving ---- */

static struct result check_place(struct pg *pg, const struct break_glass *glass, struct error *err)
{
    struct document_scope place;

    TRY(document_scope_find(lookup_of(pg), glass->on, &place, err));
    if (place.since != INT64_MAX) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "there is no organisation or project %s", glass->on);
}

static struct result handle_approve(struct request *request, struct pg *pg, struct error *err)
{
    const struct signed_body *body = NULL;
    struct document_trust trust;
    struct break_glass glass;
    struct persons approving;

    TRY(request_envelopes(request, &body, err));
    if (body->count != 2) return failure(err, ERROR_INVALID, "envelopes: that of the draft, and your own as the last");
    TRY(log_document_check_new(request, pg, &log_glasses, body->document, err));
    TRY(break_glass_read(body->document, &glass, err));
    TRY(check_person(request, &approving, err));
    TRY(check_another(request, &approving, glass.principal, err));
    TRY(document_trust_now(request, &trust, err));
    TRY(check_approval(request, body, &trust, err));
    TRY(check_place(pg, &glass, err));
    TRY(break_glass_check_key(request, pg, &glass, err));
    return log_document_put_in_force(request, pg, body, ACTION_BREAK_GLASS_APPROVE, err);
}

/* ---- the end ---- */

static struct result check_end(const struct known_glass *known, const struct document *document, struct error *err)
{
    struct break_glass end;

    TRY(break_glass_read(document, &end, err));
    if (strcmp(end.principal, known->principal) == 0 && memcmp(end.point, known->point, sizeof end.point) == 0 &&
        strcmp(end.approved_by, known->approved_by) == 0)
        return SUCCESS;
    return failure(err, ERROR_INVALID, "the end of a broken glass names its holder, the holder's key and its approver");
}

/* It takes a right away, so whoever has the signature may bring it. */
static struct result handle_end(struct request *request, struct pg *pg, struct error *err)
{
    const struct signed_body *body = NULL;
    struct document_trust trust;
    struct document_known newest;
    struct known_glass known;

    TRY(request_envelope(request, &body, err));
    if (!body->document->is_withdrawn) return failure(err, ERROR_INVALID, "the document ends nothing: \"withdrawn\" says why");
    TRY(document_check_newer(request, pg, body->document, &newest, err));
    TRY(break_glass_find(request, body->document->name, &known, err));
    TRY(check_end(&known, body->document, err));
    TRY(document_trust_now(request, &trust, err));
    TRY(document_check(body->document, &trust, err));
    return log_document_put_in_force(request, pg, body, ACTION_BREAK_GLASS_END, err);
}

/* ---- the review ---- */

/* Who has left has no role that tells the issuer of the hash. One that it had does. */
static struct result check_another_than(const struct request *request, struct pg *pg, const struct persons *asking,
                                        const char *principal, struct error *err)
{
    struct persons stored = {.count = 1};
    char issuer[256];

    if (check_another(request, asking, principal, err).ok) return SUCCESS;
    const struct error refused = *err;
    TRY(glass_issuer_of(lookup_of(pg), principal, issuer, err));
    stored.each[0] = person_new(principal, issuer);
    const struct persons other =
        decider_persons_now(request->gateway->decider, &stored, &request->pairs[0].resource.organisation);
    if (issuer[0] != '\0' && persons_are_others(asking, &other)) return SUCCESS;
    return failure(err, refused.kind, "%s", refused.message);
}

static struct result check_reviewer(const struct request *request, struct pg *pg, const struct known_glass *known,
                                    struct error *err)
{
    struct persons reviewing;

    TRY(check_person(request, &reviewing, err));
    TRY(check_another_than(request, pg, &reviewing, known->principal, err));
    return check_another_than(request, pg, &reviewing, known->approved_by, err);
}

static struct result handle_review(struct request *request, struct pg *pg, struct error *err)
{
    const struct signed_body *body = NULL;
    struct document_trust trust;
    struct known_glass known;

    TRY(request_envelope(request, &body, err));
    TRY(log_document_check_new(request, pg, &log_glass_reviews, body->document, err));
    TRY(break_glass_find(request, body->document->name, &known, err));
    if (known.is_in_force) return failure(err, ERROR_CONFLICT, "it is in force still: it is reviewed afterwards");
    TRY(check_reviewer(request, pg, &known, err));
    TRY(document_trust_now(request, &trust, err));
    TRY(check_approval(request, body, &trust, err));
    return log_document_put_in_force(request, pg, body, ACTION_BREAK_GLASS_REVIEW, err);
}

const struct handler handler_break_glass_ask = {.handle = handle_ask};
const struct handler handler_break_glass_approve = {.handle = handle_approve};
const struct handler handler_break_glass_end = {.handle = handle_end};
const struct handler handler_break_glass_review = {.handle = handle_review};
