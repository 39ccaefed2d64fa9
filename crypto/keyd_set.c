/* Requests that pin a policy set, and about the ids of policies. */
#include "crypto/keyd_protocol_priv.h"

/* The fields after the envelopes, which both messages have. */
struct result keyd_write_event(struct buffer *frame, const struct document_pin_request *pin, struct error *err)
{
    if (pin->leaf.length > KEYD_LEAF_MAX)
        return failure(err, ERROR_LIMIT, "an entry of the log is at most %d bytes", KEYD_LEAF_MAX);
    if (pin->proof_count > KEYD_PROOF_MAX)
        return failure(err, ERROR_INVALID, "an inclusion proof has at most %d hashes", KEYD_PROOF_MAX);
    TRY(buffer_add_prefixed(frame, pin->leaf, err));
    TRY(buffer_add_u64(frame, pin->sequence, err));
    TRY(buffer_add_u64(frame, pin->size, err));
    TRY(buffer_add_u8(frame, (uint8_t)pin->proof_count, err));
    return buffer_add(frame, pin->proof, pin->proof_count * sizeof pin->proof[0], err);
}

void keyd_read_event(struct reader *fields, struct document_pin_request *pin)
{
    pin->leaf = reader_prefixed(fields, KEYD_LEAF_MAX);
    pin->sequence = reader_u64(fields);
    pin->size = reader_u64(fields);
    pin->proof_count = reader_u8(fields);
    if (pin->proof_count > KEYD_PROOF_MAX) fields->failed = true;
    for (size_t i = 0; i < pin->proof_count && !fields->failed; i++) keyd_read_fixed(fields, pin->proof[i], sizeof pin->proof[i]);
}

struct result keyd_write_pin_policy(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    const struct document_pin_request *pin = &request->as.pin;

    if (pin->envelope_count != 1) return failure(err, ERROR_INVALID, "a policy set has one envelope");
    if (pin->envelopes[0].length > KEYD_POLICY_MAX)
        return failure(err, ERROR_LIMIT, "a policy set is at most %d bytes", KEYD_POLICY_MAX);
    TRY(buffer_add_prefixed(frame, pin->envelopes[0], err));
    return keyd_write_event(frame, pin, err);
}

void keyd_read_pin_policy(struct reader *fields, struct keyd_request *request)
{
    request->as.pin.envelope_count = 1;
    request->as.pin.envelopes[0] = reader_prefixed(fields, KEYD_POLICY_MAX);
    keyd_read_event(fields, &request->as.pin);
}

struct result keyd_write_pin_set(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    const struct bytes base = request->as.pin.base;

    if (base.length > KEYD_POLICY_MAX) return failure(err, ERROR_LIMIT, "a policy set is at most %d bytes", KEYD_POLICY_MAX);
    TRY(buffer_add_prefixed(frame, base, err));
    return keyd_write_pin_policy(frame, request, err);
}

void keyd_read_pin_set(struct reader *fields, struct keyd_request *request)
{
    request->as.pin.base = reader_prefixed(fields, KEYD_POLICY_MAX);
    keyd_read_pin_policy(fields, request);
}

struct result keyd_write_shown(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    const struct bytes set = request->as.current;

    if (set.length == 0 || set.length > KEYD_POLICY_MAX)
        return failure(err, ERROR_LIMIT, "a policy set has 1 to %d bytes", KEYD_POLICY_MAX);
    return buffer_add_prefixed(frame, set, err);
}

void keyd_read_shown(struct reader *fields, struct keyd_request *request)
{
    request->as.current = reader_prefixed(fields, KEYD_POLICY_MAX);
    if (request->as.current.length == 0) fields->failed = true;
}

/* ---- ids of policies ---- */

struct result keyd_write_policy_ids(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    const struct keyd_policy_ids *ids = &request->as.policy_ids;

    if (ids->count > KEYD_POLICY_IDS_MAX)
        return failure(err, ERROR_LIMIT, "a policy set has at most %d policies", KEYD_POLICY_IDS_MAX);
    TRY(buffer_add(frame, ids->digest, sizeof ids->digest, err));
    TRY(buffer_add_u8(frame, (uint8_t)ids->count, err));
    return buffer_add(frame, ids->each, ids->count * sizeof ids->each[0], err);
}

void keyd_read_policy_ids(struct reader *fields, struct keyd_request *request)
{
    struct keyd_policy_ids *ids = &request->as.policy_ids;

    keyd_read_fixed(fields, ids->digest, sizeof ids->digest);
    ids->count = reader_u8(fields);
    if (ids->count > KEYD_POLICY_IDS_MAX) fields->failed = true;
    for (size_t i = 0; i < ids->count && !fields->failed; i++) keyd_read_fixed(fields, ids->each[i], sizeof ids->each[i]);
}

struct result keyd_write_unused_ids(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    return buffer_add_u64(frame, reply->as.unused_ids, err);
}

void keyd_read_unused_ids(struct reader *fields, struct keyd_reply *reply)
{
    reply->as.unused_ids = reader_u64(fields);
}
