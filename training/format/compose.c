#include "training/format/compose_priv.h"
#include "training/format/public_key.h"

struct result compose_finish(enum run_type type, const json_t *json, unsigned lacks, struct buffer *payload, struct error *err)
{
    struct error why = {0};

    if (json_lacks() != lacks) return failure(err, ERROR_NO_MEMORY, "no memory for the %s of a run", run_type_name(type));
    if (json == NULL) return failure(err, ERROR_INVALID, "a text of the %s is not UTF-8", run_type_name(type));
    if (!run_payload_check(type, json, &why).ok)
        return failure(err, why.kind, "the %s: %.200s", run_type_name(type), why.message);
    return json_write_canonical(payload, json, err);
}

struct result run_sign(enum run_type type, struct bytes payload, const struct ecdsa_key *key, struct buffer *envelope,
                       struct error *err)
{
    if (payload.length > RUN_PAYLOAD_MAX) return failure(err, ERROR_LIMIT, "a payload has at most %d bytes", RUN_PAYLOAD_MAX);
    return dsse_write(run_type_media(type), payload, &key, 1, envelope, err);
}

/* ---- request, approval ---- */

static bool add_optional(json_t *request, const struct run_request_parts *parts)
{
    const struct run_claims *claims = parts->claims;

    if (claims != NULL && json_object_set_new(request, "claims",
                                              json_pack("{s:s, s:s, s:s}", "issuer", claims->issuer, "subject", claims->subject,
                                                        "token", claims->token)) != 0)
        return false;
    return parts->rerun_run == NULL ||
           json_object_set_new(request, "rerun", json_pack("{s:s, s:s}", "run", parts->rerun_run, "order", parts->rerun_order)) ==
               0;
}

struct result run_request_write(const struct run_request_parts *parts, struct buffer *payload, struct error *err)
{
    char issued[CLOCK_TEXT_SIZE], expires[CLOCK_TEXT_SIZE];
    const unsigned lacks = json_lacks();
    OWNED_JSON json =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:O}", "schema", "sijil.run-request/v1", "run", parts->run,
                  "audience", parts->audience, "project", parts->project, "requester", parts->requester, "issued_at",
                  compose_time(parts->issued_ms, issued), "expires", compose_time(parts->expires_ms, expires), "nonce",
                  parts->nonce, "spec", compose_share(parts->spec));
    const bool is_whole = json != NULL && add_optional(json, parts);

    return compose_finish(RUN_REQUEST, is_whole ? json : NULL, lacks, payload, err);
}

struct result run_approval_write(const struct run_envelope *request, const struct run_approval_parts *parts,
                                 struct buffer *payload, struct error *err)
{
    char issued[CLOCK_TEXT_SIZE], expires[CLOCK_TEXT_SIZE];
    const unsigned lacks = json_lacks();
    OWNED_JSON json = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "schema", "sijil.run-approval/v1", "run",
                                run_text(request, "run"), "audience", run_text(request, "audience"), "request", request->digest,
                                "approver", parts->approver, "issued_at", compose_time(parts->issued_ms, issued), "expires",
                                compose_time(parts->expires_ms, expires), "nonce", parts->nonce);

    return compose_finish(RUN_APPROVAL, json, lacks, payload, err);
}

/* ---- order ---- */

static json_t *digests_of(const struct run_chain *below)
{
    OWNED_JSON list = json_array();

    for (size_t i = 0; i < below->approval_count; i++)
        if (json_array_append_new(list, json_string(below->approvals[i]->digest)) != 0) return NULL;
    return GIVE(list);
}

/* json_pack() becomes the owner of the objects, and fails if one is NULL. */
static json_t *order_of(const struct run_envelope *request, json_t *approvals, const struct run_order_parts *parts)
{
    char not_before[CLOCK_TEXT_SIZE], expires[CLOCK_TEXT_SIZE];

    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:O, s:s, s:o, s:O, s:{s:I, s:b}, s:{s:I, s:s, s:s}, s:{s:I, s:I, s:s}, s:I, s:s, s:s, s:s}",
        "schema", "sijil.run-order/v1", "run", run_text(request, "run"), "audience", run_text(request, "audience"), "project",
        run_text(request, "project"), "requester", run_text(request, "requester"), "spec",
        compose_share(run_member(request, "spec")), "request", request->digest, "approvals", approvals, "jurisdictions",
        compose_share(parts->jurisdictions), "obligations", "approvals", (json_int_t)parts->approvals, "signed_request",
        (int)parts->signed_request, "policy", "epoch", (json_int_t)parts->epoch, "digest", parts->policy, "decision",
        parts->decision, "event", "number", (json_int_t)parts->event_number, "size", (json_int_t)parts->log_size, "root",
        parts->log_root, "attempts", (json_int_t)parts->attempts, "nonce", parts->nonce, "not_before",
        compose_time(parts->not_before_ms, not_before), "expires", compose_time(parts->expires_ms, expires));
}

struct result run_order_write(const struct run_chain *below, const struct run_order_parts *parts, struct buffer *payload,
                              struct error *err)
{
    const unsigned lacks = json_lacks();
    OWNED_JSON json = order_of(below->request, digests_of(below), parts);

    return compose_finish(RUN_ORDER, json, lacks, payload, err);
}

/* ---- lease, certificate, refusal ---- */

struct result run_lease_write(const struct run_envelope *order, const struct run_lease_parts *parts, struct buffer *payload,
                              struct error *err)
{
    char not_before[CLOCK_TEXT_SIZE], expires[CLOCK_TEXT_SIZE];
    const unsigned lacks = json_lacks();
    OWNED_JSON json =
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:{s:s, s:s}, s:s, s:s, s:s}", "schema", "sijil.run-lease/v1", "run",
                  run_text(order, "run"), "audience", run_text(order, "audience"), "order", order->digest, "attempt",
                  (json_int_t)parts->attempt, "node", (json_int_t)parts->node, "runner", "id", parts->runner, "key", parts->key,
                  "nonce", parts->nonce, "not_before", compose_time(parts->not_before_ms, not_before), "expires",
                  compose_time(parts->expires_ms, expires));

    return compose_finish(RUN_LEASE, json, lacks, payload, err);
}

struct result run_certificate_write(const struct run_certificate_parts *parts, struct buffer *payload, struct error *err)
{
    char not_before[CLOCK_TEXT_SIZE], expires[CLOCK_TEXT_SIZE], runner[PUBLIC_KEY_SIZE], key[PUBLIC_KEY_SIZE];
    const unsigned lacks = json_lacks();

    TRY(public_key_text(parts->runner, runner, err));
    TRY(public_key_text(parts->key, key, err));
    OWNED_JSON json = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:s, s:s, s:s, s:s}", "schema", "sijil.run-certificate/v1",
                                "run", parts->run, "audience", parts->audience, "order", parts->order, "lease", parts->lease,
                                "attempt", (json_int_t)parts->attempt, "node", (json_int_t)parts->node, "runner_key", runner,
                                "attempt_key", key, "not_before", compose_time(parts->not_before_ms, not_before), "expires",
                                compose_time(parts->expires_ms, expires));
    return compose_finish(RUN_CERTIFICATE, json, lacks, payload, err);
}

struct result run_refusal_write(const struct run_refusal_parts *parts, struct buffer *payload, struct error *err)
{
    char at[CLOCK_TEXT_SIZE];
    const unsigned lacks = json_lacks();
    OWNED_JSON json = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "schema", "sijil.run-refusal/v1", "run", parts->run,
                                "audience", parts->audience, "lease", parts->lease, "check", parts->check, "reason",
                                parts->reason, "at", compose_time(parts->at_ms, at));

    return compose_finish(RUN_REFUSAL, json, lacks, payload, err);
}
