/* /api/v1/runners/{name}: approvers sign a new runner, reject it or withdraw one; docs/runner.md. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "documents/change.h"
#include "gateway/api/runner_priv.h"
#include "gateway/background/maintenance.h"
#include "policy/decider/decider.h"

#define RUNNER_DOCUMENTS_MAX (DOCUMENT_HISTORY_MAX - 4) /* a bundle reads all; some may come at two gateways at once */

/* ---- targets ---- */

static struct result add_pair(struct request *request, enum action action, const struct document *document, struct error *err)
{
    struct resource *resource = document_scope_pair(request, action, document->scope);

    if (document->kind != DOCUMENT_RUNNER) return failure(err, ERROR_INVALID, "the document of a runner is expected");
    if (strcmp(request->reference, document->name) != 0)
        return failure(err, ERROR_INVALID, "the path and the document name different runners");
    if (resource == NULL || strchr(document->scope, '/') != NULL)
        return failure(err, ERROR_INVALID, "the scope of a runner is \"\" or an organisation");
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", document->name);
    return SUCCESS;
}

struct result target_runner_approve(struct request *request, struct lookup *lookup, struct error *err)
{
    const struct signed_body *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_RUNNER_CONFIRM)) return SUCCESS;
    TRY(request_envelopes(request, &body, err));
    return add_pair(request, ACTION_RUNNER_CONFIRM, body->document, err);
}

struct result target_runner_revoke(struct request *request, struct lookup *lookup, struct error *err)
{
    const struct signed_body *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_RUNNER_REVOKE)) return SUCCESS;
    TRY(request_envelope(request, &body, err));
    return add_pair(request, ACTION_RUNNER_REVOKE, body->document, err);
}

struct result target_runner_reject(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return document_target_named(request, ACTION_RUNNER_REJECT);
}

/* ---- known runners ---- */

struct search {
    const char *scope;
    struct known_runner *known;
};

static struct result note_withdrawal(struct known_runner *known, const struct document *document, struct error *err)
{
    struct runner_key key;

    TRY(runner_key_read(document, &key, err));
    if (!known->is_withdrawn || key.since_ms < known->since_ms) known->since_ms = key.since_ms;
    known->is_withdrawn = true;
    return SUCCESS;
}

static struct result note_known(void *context, const struct pinned_document *pinned, struct error *err)
{
    const struct document *document = pinned->document;
    struct search *search = context;
    struct buffer OWNED_BUFFER payload = BUFFER((size_t)16 * 1024);

    search->known->is_known = true;
    if (document->is_withdrawn) TRY(note_withdrawal(search->known, document, err));
    if (strcmp(document->scope, search->scope) != 0) return SUCCESS;
    TRY(json_write_canonical(&payload, document->json, err));
    return document_read_payload(DOCUMENT_RUNNER, buffer_bytes(&payload), &search->known->document, err);
}

struct result runner_known(const struct request *request, const char *scope, const char *name, struct known_runner *known_out,
                           struct error *err)
{
    struct search search = {scope, known_out};

    *known_out = (struct known_runner){.is_known = false};
    return document_view_visit_name(request->gateway->documents, DOCUMENT_RUNNER, name, note_known, &search, err);
}

/* ---- who has signed ---- */

/* The approvers of a draft: everybody that has signed but the runner itself. */
struct approvers {
    struct document_trust trust;
    bool has_root;
    size_t count; /* persons */
    struct persons persons[DOCUMENT_SIGNATURES_MAX];
};

static struct result add_person(const struct request *request, const uint8_t *point, struct approvers *approvers,
                                struct error *err)
{
    struct persons *person = &approvers->persons[approvers->count];

    if (memcmp(point, approvers->trust.root, ECDSA_PUBLIC_SIZE) == 0) {
        approvers->has_root = document_root_is_one(&approvers->trust);
        return SUCCESS;
    }
    TRY(document_approver_person(request, point, person, err));
    for (size_t i = 0; i < approvers->count; i++)
        if (!persons_are_others(&approvers->persons[i], person))
            return failure(err, ERROR_CONFLICT, "one person has signed twice: another person signs, too");
    approvers->count++;
    return SUCCESS;
}

/* The last envelope is the caller's own. */
static struct result read_approvers(const struct request *request, const struct signed_body *body, struct approvers *approvers,
                                    struct error *err)
{
    if (body->count < 2) return failure(err, ERROR_INVALID, "envelopes: those of the draft, and your own as the last");
    TRY(document_trust_now(request, &approvers->trust, err));
    for (size_t i = 1; i < body->count; i++) {
        OWNED(document) *envelope = NULL;
        const uint8_t *point = NULL;
        bool is_sender = true;
        TRY(document_read(&body->envelopes[i], 1, &envelope, err));
        TRY(document_approver_key(&approvers->trust, envelope, &point, err));
        if (i + 1 == body->count) TRY(document_check_sender(request, point, &approvers->trust, &is_sender, err));
        if (!is_sender) return failure(err, ERROR_DENIED, DOCUMENT_SENT_BY_ANOTHER);
        TRY(add_person(request, point, approvers, err));
    }
    return SUCCESS;
}

static struct result check_runner(const struct request *request, const struct signed_body *body, struct error *err)
{
    const struct persons asking =
        decider_persons(request->gateway->decider, request->principal, &request->pairs[0].resource.organisation);
    OWNED(document) *own = NULL;
    struct runner_key key;
    bool is_signed = false;

    if (!persons_are_known(&asking))
        return failure(err, ERROR_DENIED,
                       "persons approve a runner, and nobody is behind this robot (docs/identity.md, \"Persons\")");
    if (body->document->is_withdrawn)
        return failure(err, ERROR_INVALID, "a withdrawal is not approved, but sent to its own route");
    TRY(runner_key_read(body->document, &key, err));
    TRY(document_read(&body->envelopes[0], 1, &own, err));
    TRY(document_is_signed_by(own, key.point, &is_signed, err));
    return is_signed ? SUCCESS : failure(err, ERROR_DENIED, "the first envelope is not signed with the runner's own key");
}

static struct result check_new(struct request *request, struct pg *pg, const struct document *document, struct error *err)
{
    struct known_runner known;

    TRY(document_refresh(request, pg, err));
    TRY(runner_known(request, document->scope, document->name, &known, err));
    document_free(known.document);
    if (known.is_withdrawn) return failure(err, ERROR_CONFLICT, "this runner was withdrawn, for good: enrol another one");
    return known.is_known ? failure(err, ERROR_CONFLICT, "this runner is enrolled already") : SUCCESS;
}

/* ---- recording a signature ---- */

/* One more signature: of a draft, or the last one, which brings the document into force. */
struct approval {
    struct change change;
    const struct request *request;
    const struct document *document;
    const struct approvers *approvers;
    enum action action;
    struct persons inviter;
    bool is_invited;
    struct document_change recording;
    struct document_draft_change signing;
};

/* The person is the owner of the key that signed the invitation. The root is no person's key: then the row says who sent it. */
static struct result note_inviter(void *context, const struct invitation_row *row, struct error *err)
{
    struct approval *approval = context;
    struct buffer OWNED_BUFFER payload = BUFFER((size_t)16 * 1024);
    const struct document_trust *trust = &approval->approvers->trust;
    OWNED(runner_invitation) *invitation = NULL;
    uint8_t signer[ECDSA_PUBLIC_SIZE];
    struct runner_key key;

    TRY(runner_invitation_read(row->envelope, &invitation, err));
    TRY(runner_invitation_signer(invitation, trust, signer, err));
    TRY(runner_key_read(approval->document, &key, err));
    TRY(runner_invitation_document(invitation, key.point, &payload, err));
    if (!bytes_equal(buffer_bytes(&payload), document_payload(approval->document)))
        return failure(err, ERROR_DENIED, "the draft is not for the place that was invited: reject it");
    approval->is_invited = true;
    if (memcmp(signer, trust->root, sizeof signer) != 0)
        return document_approver_person(approval->request, signer, &approval->inviter, err);
    approval->inviter = decider_persons_of_key(approval->request->gateway->decider, row->invited_by,
                                               &approval->request->pairs[0].resource.organisation);
    return SUCCESS;
}

/* The root's signature counts for two approvers, so its sender must be another person than the one that invited. */
static struct result check_other_person(const struct approval *approval, struct error *err)
{
    const struct request *request = approval->request;
    const struct persons asking =
        decider_persons(request->gateway->decider, request->principal, &request->pairs[0].resource.organisation);
    bool has_other = persons_are_others(&approval->inviter, &asking);

    for (size_t i = 0; i < approval->approvers->count && !has_other; i++)
        has_other = persons_are_others(&approval->inviter, &approval->approvers->persons[i]);
    return has_other ? SUCCESS : failure(err, ERROR_DENIED, "another person than the one that invited the runner approves it");
}

static struct result run_approval(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct approval *approval = (struct approval *)change; /* its first member */
    const bool is_last = approval->action == ACTION_RUNNER_APPROVE;
    struct change *inner = is_last ? &approval->recording.change : &approval->signing.change;
    struct runner_key key;

    TRY(runner_key_read(approval->document, &key, err));
    const struct invitation_query query = {approval->action, approval->document->scope, &key.runner};
    approval->is_invited = false;
    TRY(invitation_visit(permit, pg, &query, note_inviter, approval, err));
    if (!approval->is_invited)
        return failure(err, ERROR_NOT_FOUND, "there is no invitation of this runner any more: invite it anew");
    if (is_last) TRY(check_other_person(approval, err));
    return inner->run(permit, inner, pg, err);
}

static struct result sign_draft(struct request *request, const struct signed_body *body, struct approval *approval,
                                struct error *err)
{
    char drafter[PRINCIPAL_KEY_SIZE];
    const struct document_draft_row row = {ACTION_RUNNER_CONFIRM, body->document, body->envelopes, body->count, drafter, NULL};

    principal_key(request->principal, drafter);
    approval->action = ACTION_RUNNER_CONFIRM;
    document_draft_change_init(&approval->signing, &row);
    approval->change.detail = approval->signing.change.detail;
    TRY(request_record(request, &approval->change, err));
    return document_answer(request, 200, body->document, 0, err);
}

static struct result put_in_force(struct request *request, struct pg *pg, const struct signed_body *body,
                                  struct approval *approval, struct error *err)
{
    char recorder[PRINCIPAL_KEY_SIZE];
    const struct document_row row = {ACTION_RUNNER_APPROVE, body->document, body->envelopes, body->count, recorder};
    struct action_pair pair = request->pairs[0];
    unsigned status = 0;

    TRY(document_check(body->document, &approval->approvers->trust, err));
    principal_key(request->principal, recorder);
    pair.action = approval->action = ACTION_RUNNER_APPROVE;
    document_change_init(&approval->recording, &row, true);
    approval->change.detail = approval->recording.change.detail;
    TRY(request_record_instead(request, &pair, 1, &approval->change, err));
    const uint64_t sequence = permit_sequence(request->permit);
    TRY(document_put_in_force(request, pg, DOCUMENT_RUNNER, &status, err));
    return document_answer(request, status, body->document, sequence, err);
}

static struct result handle_approve(struct request *request, struct pg *pg, struct error *err)
{
    struct approvers approvers = {.has_root = false};
    const struct signed_body *body = NULL;
    bool holds = false;

    TRY(request_envelopes(request, &body, err));
    TRY(document_condition(request, pg, body->document, &holds, err));
    if (!holds) return SUCCESS;
    TRY(check_runner(request, body, err));
    TRY(check_new(request, pg, body->document, err));
    TRY(read_approvers(request, body, &approvers, err));
    struct approval approval = {.change = {.run = run_approval, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                .request = request,
                                .document = body->document,
                                .approvers = &approvers};
    if (!approvers.has_root && approvers.count < RUNNER_APPROVERS) return sign_draft(request, body, &approval, err);
    return put_in_force(request, pg, body, &approval, err);
}

/* ---- withdrawing ---- */

/* All but `since` is as the enrolment has it, so that nobody can mistake which runner it was. */
static struct result check_same(const struct document *withdrawal, const struct document *known, struct error *err)
{
    OWNED_JSON body = json_deep_copy(json_object_get(withdrawal->json, "body"));
    OWNED_JSON enrolled = json_deep_copy(json_object_get(known->json, "body"));

    if (body == NULL || enrolled == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a withdrawal");
    (void)json_object_del(body, "since");
    (void)json_object_del(enrolled, "since"); /* of an earlier withdrawal */
    if (json_equal(body, enrolled) == 1) return SUCCESS;
    return failure(err, ERROR_INVALID, "a withdrawal has the body of the enrolment, and `since`");
}

/* A later withdrawal only says that results count from an earlier time on not. If two come at once, the earliest counts, too (documents/view.h). */
static struct result check_again(const struct request *request, const struct document *document, const struct known_runner *known,
                                 struct error *err)
{
    struct document_history history;
    struct runner_key key;
    char since[CLOCK_TEXT_SIZE];

    if (!known->is_withdrawn) return SUCCESS;
    TRY(runner_key_read(document, &key, err));
    clock_format(known->since_ms, since);
    if (key.since_ms >= known->since_ms)
        return failure(err, ERROR_CONFLICT, "this runner was withdrawn already, since %s: only an earlier `since` changes that",
                       since);
    TRY(document_view_history(request->gateway->documents, DOCUMENT_RUNNER, document->name, &history, err));
    if (history.count < RUNNER_DOCUMENTS_MAX) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "this runner was withdrawn, since %s, and its key has %d documents: no more are taken",
                   since, RUNNER_DOCUMENTS_MAX);
}

static struct result check_withdrawal(struct request *request, struct pg *pg, const struct document *document,
                                      struct document_trust *trust_out, struct error *err)
{
    struct known_runner known;

    if (!document->is_withdrawn) return failure(err, ERROR_INVALID, "the document withdraws nothing: \"withdrawn\" says why");
    TRY(document_refresh(request, pg, err));
    TRY(runner_known(request, document->scope, document->name, &known, err));
    OWNED(document) *own = known.document;
    if (own == NULL) return failure(err, ERROR_NOT_FOUND, "no runner of this name is enrolled in this scope");
    TRY(check_again(request, document, &known, err));
    TRY(check_same(document, own, err));
    TRY(document_trust_now(request, trust_out, err));
    return document_check(document, trust_out, err);
}

static struct result handle_revoke(struct request *request, struct pg *pg, struct error *err)
{
    const struct signed_body *body = NULL;
    struct document_change change;
    struct document_trust trust;
    char recorder[PRINCIPAL_KEY_SIZE];
    unsigned status = 0;
    bool holds = false;

    TRY(request_envelope(request, &body, err));
    TRY(document_condition(request, pg, body->document, &holds, err));
    if (!holds) return SUCCESS;
    TRY(check_withdrawal(request, pg, body->document, &trust, err));
    principal_key(request->principal, recorder);
    const struct document_row row = {ACTION_RUNNER_REVOKE, body->document, body->envelopes, body->count, recorder};
    document_change_init(&change, &row, false);
    TRY(request_record(request, &change.change, err));
    const uint64_t sequence = permit_sequence(request->permit);
    TRY(document_put_in_force(request, pg, DOCUMENT_RUNNER, &status, err));
    maintenance_wake(request->gateway->maintenance); /* its runs are looked at now (gateway/background/runner_doubts.h) */
    return document_answer(request, status, body->document, sequence, err);
}

/* ---- rejecting ---- */

static struct result handle_reject(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    return document_remove_drafts(request, DOCUMENT_RUNNER, NULL, err);
}

const struct handler handler_runner_approve = {.handle = handle_approve};
const struct handler handler_runner_revoke = {.handle = handle_revoke};
const struct handler handler_runner_reject = {.handle = handle_reject};
