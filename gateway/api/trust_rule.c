/* /api/v1/trust-rules: approvers sign a trust rule, reject a draft or withdraw a rule; docs/ci.md. */
#include <stdio.h>
#include <string.h>

#include "authz/trust_rule.h"
#include "base/clock.h"
#include "gateway/api/trust_rule_priv.h"
#include "policy/decider/decider.h"

/* ---- targets ---- */

static struct result add_pair(struct request *request, enum action action, const struct document *document, struct error *err)
{
    struct resource *resource = document_scope_pair(request, action, document->scope);

    if (document->kind != DOCUMENT_TRUST_RULE) return failure(err, ERROR_INVALID, "the document of a trust rule is expected");
    if (request->reference != NULL && strcmp(request->reference, document->name) != 0)
        return failure(err, ERROR_INVALID, "the path and the document name different rules");
    if (resource == NULL)
        return failure(err, ERROR_INVALID, "the scope of a rule is \"\", an organisation, or an organisation and a project");
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", document->name);
    return SUCCESS;
}

static struct result add_target(struct request *request, enum action action, struct error *err)
{
    const struct signed_body *body = NULL;

    if (api_asks_for_credential(request, action)) return SUCCESS;
    TRY(request_envelope(request, &body, err));
    return add_pair(request, action, body->document, err);
}

struct result target_rule_draft(struct request *request, struct lookup *lookup, struct error *err)
{
    const struct signed_body *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_RULE_DRAFT)) return SUCCESS;
    TRY(request_envelope(request, &body, err));
    return add_pair(request, document_draft_action(request, body, ACTION_RULE_DRAFT, ACTION_RULE_APPROVE), body->document, err);
}

struct result target_rule_revoke(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return add_target(request, ACTION_RULE_REVOKE, err);
}

struct result target_rule_approve(struct request *request, struct lookup *lookup, struct error *err)
{
    const struct signed_body *body = NULL;

    (void)lookup;
    if (api_asks_for_credential(request, ACTION_RULE_APPROVE)) return SUCCESS;
    TRY(request_envelopes(request, &body, err));
    return add_pair(request, ACTION_RULE_APPROVE, body->document, err);
}

struct result target_rule_reject(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return trust_rule_target_named(request, ACTION_RULE_REJECT);
}

/* ---- coming into force ---- */

/* Makes the same checks as sijil-keyd, so that no document is recorded that sijil-keyd would refuse. */
static struct result put_in_force(struct request *request, struct pg *pg, const struct signed_body *body, enum action action,
                                  const struct authz_snapshot *compared, struct error *err)
{
    const bool is_draft = body->count > 1;
    struct action_pair pair = request->pairs[0];
    struct trust_rule_change change;
    char recorder[PRINCIPAL_KEY_SIZE];
    unsigned status = 0;

    principal_key(request->principal, recorder);
    const struct document_row row = {action, body->document, body->envelopes, body->count, recorder};
    trust_rule_change_init(&change, &row, is_draft, compared);
    pair.action = action;
    if (action == request->pairs[0].action) TRY(request_record(request, &change.change, err));
    else TRY(request_record_instead(request, &pair, 1, &change.change, err));
    const uint64_t sequence = permit_sequence(request->permit);
    TRY(document_put_in_force(request, pg, DOCUMENT_TRUST_RULE, &status, err));
    return document_answer(request, status, body->document, sequence, err);
}

static struct result check_rule(const struct document *document, struct error *err)
{
    struct trust_rule rule;

    if (document->is_withdrawn) return failure(err, ERROR_INVALID, "a withdrawal is sent to its own route");
    return trust_rule_read(document, &rule, err);
}

/* No token with another audience is ever accepted, so such a rule would never match. An issuer may be trusted after its rules. */
static struct result check_audience(const struct authz_snapshot *snapshot, const struct document *document, struct error *err)
{
    struct trust_rule rule;

    TRY(trust_rule_read(document, &rule, err));
    const struct issuer *issuer = snapshot == NULL ? NULL : authz_snapshot_issuer(snapshot, rule.issuer);
    if (issuer == NULL || strcmp(issuer_record_of(issuer)->audience, rule.audience) == 0) return SUCCESS;
    return failure(err, ERROR_INVALID,
                   "the rule's audience is %.120s, but tokens of its issuer are accepted for %.120s alone: give the rule that "
                   "audience, or let the issuer have this one (sijil admin issuer trust --audience)",
                   rule.audience, issuer_record_of(issuer)->audience);
}

/* Of two rules that match a token one counts, or none: so an organisation could take over the jobs of another one, or stop them. */
static struct result check_alone(const struct authz_snapshot *snapshot, const struct document *document, struct error *err)
{
    struct trust_rule rule;

    TRY(trust_rule_read(document, &rule, err));
    if (snapshot == NULL) return failure(err, ERROR_UNAVAILABLE, "the rules in force are not known yet");
    if (!trust_rule_meets_another(snapshot, &rule, document->scope, clock_wall_ms())) return SUCCESS;
    return failure(
        err, ERROR_DENIED,
        "a rule of another organisation takes the same tokens, and only one of them could count: let this one match others, "
        "or have the root sign it");
}

static struct result handle_draft(struct request *request, struct pg *pg, struct error *err)
{
    OWNED(authz_snapshot) *rules = authz_directory_take(request->gateway->directory);
    const struct signed_body *body = NULL;
    struct document_trust trust;
    struct document_known known;
    struct document_signers signers;
    bool holds = false;

    TRY(request_envelope(request, &body, err));
    TRY(api_scope_exists(&request->pairs[0].resource, err));
    TRY(document_condition(request, pg, body->document, &holds, err));
    if (!holds) return SUCCESS;
    TRY(check_rule(body->document, err));
    TRY(document_check_days(request, body->document, err));
    TRY(check_audience(rules, body->document, err));
    TRY(document_check_newer(request, pg, body->document, &known, err));
    TRY(document_trust_now(request, &trust, err));
    TRY(document_check_signers(request, body, &trust, &signers, err));
    TRY(document_check_draft_action(request, &signers, ACTION_RULE_APPROVE, err));
    if (!signers.has_root) {
        TRY(check_alone(rules, body->document, err));
        TRY(document_record_draft(request, body, ACTION_RULE_DRAFT, err));
        return document_answer(request, 201, body->document, 0, err);
    }
    TRY(document_check(body->document, &trust, err));
    return put_in_force(request, pg, body, ACTION_RULE_APPROVE, NULL, err);
}

static struct result handle_approve(struct request *request, struct pg *pg, struct error *err)
{
    OWNED(authz_snapshot) *rules = authz_directory_take(request->gateway->directory);
    const struct signed_body *body = NULL;
    struct document_trust trust;
    struct document_known known;
    struct document_signers signers;
    bool holds = false;

    TRY(request_envelopes(request, &body, err));
    if (body->count < 2) return failure(err, ERROR_INVALID, "envelopes: those of the draft, and your own as the last");
    TRY(api_scope_exists(&request->pairs[0].resource, err));
    TRY(document_condition(request, pg, body->document, &holds, err));
    if (!holds) return SUCCESS;
    TRY(check_rule(body->document, err));
    TRY(document_check_days(request, body->document, err));
    TRY(document_check_newer(request, pg, body->document, &known, err));
    TRY(document_trust_now(request, &trust, err));
    TRY(document_check_signers(request, body, &trust, &signers, err));
    if (!signers.has_root) TRY(check_alone(rules, body->document, err));
    TRY(document_check(body->document, &trust, err));
    return put_in_force(request, pg, body, ACTION_RULE_APPROVE, signers.has_root ? NULL : rules, err);
}

/* ---- withdrawing ---- */

static struct result handle_revoke(struct request *request, struct pg *pg, struct error *err)
{
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
    if (known.version == 0) return failure(err, ERROR_NOT_FOUND, "there is no rule of this id in this scope");
    if (known.is_withdrawn) return failure(err, ERROR_CONFLICT, "this rule was withdrawn already");
    TRY(document_trust_now(request, &trust, err));
    TRY(document_check(body->document, &trust, err));
    TRY(document_check_approver(request, body->document, &trust, err));
    return put_in_force(request, pg, body, ACTION_RULE_REVOKE, NULL, err);
}

/* ---- rejecting ---- */

static struct result handle_reject(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    return document_remove_drafts(request, DOCUMENT_TRUST_RULE, NULL, err);
}

const struct handler handler_rule_draft = {.handle = handle_draft};
const struct handler handler_rule_approve = {.handle = handle_approve};
const struct handler handler_rule_revoke = {.handle = handle_revoke};
const struct handler handler_rule_reject = {.handle = handle_reject};
