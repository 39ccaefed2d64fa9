/* Messages about the witnesses of the log. */
#include "crypto/keyd_protocol_priv.h"

struct result keyd_write_pin_witnesses(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    const struct keyd_witness_policy *pin = &request->as.witness_policy;

    if (pin->policy.length == 0 || pin->policy.length > KEYD_WITNESS_POLICY_MAX)
        return failure(err, ERROR_INVALID, "a policy of witnesses has 1 to %d bytes", KEYD_WITNESS_POLICY_MAX);
    if (pin->envelope.length > KEYD_WITNESS_ENVELOPE_MAX)
        return failure(err, ERROR_INVALID, "a signed policy of witnesses has at most %d bytes", KEYD_WITNESS_ENVELOPE_MAX);
    TRY(buffer_add_prefixed(frame, pin->policy, err));
    return buffer_add_prefixed(frame, pin->envelope, err);
}

void keyd_read_pin_witnesses(struct reader *fields, struct keyd_request *request)
{
    request->as.witness_policy.policy = reader_prefixed(fields, KEYD_WITNESS_POLICY_MAX);
    request->as.witness_policy.envelope = reader_prefixed(fields, KEYD_WITNESS_ENVELOPE_MAX);
    if (request->as.witness_policy.policy.length == 0) fields->failed = true;
}

struct result keyd_write_cosigned(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    const struct keyd_cosigned *cosigned = &request->as.cosigned;

    if (cosigned->policy.length == 0 || cosigned->policy.length > KEYD_WITNESS_POLICY_MAX || cosigned->note.length == 0 ||
        cosigned->note.length > KEYD_COSIGNED_MAX)
        return failure(err, ERROR_INVALID, "a policy of witnesses, or a cosigned checkpoint, is too long or empty");
    TRY(buffer_add_prefixed(frame, cosigned->policy, err));
    return buffer_add_prefixed(frame, cosigned->note, err);
}

void keyd_read_cosigned(struct reader *fields, struct keyd_request *request)
{
    request->as.cosigned.policy = reader_prefixed(fields, KEYD_WITNESS_POLICY_MAX);
    request->as.cosigned.note = reader_prefixed(fields, KEYD_COSIGNED_MAX);
    if (request->as.cosigned.policy.length == 0 || request->as.cosigned.note.length == 0) fields->failed = true;
}

struct result keyd_write_witnesses(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    const struct keyd_witnesses *witnesses = &reply->as.witnesses;

    TRY(buffer_add_u8(frame, witnesses->is_pinned, err));
    TRY(buffer_add_u8(frame, witnesses->awaits, err));
    TRY(buffer_add_u8(frame, witnesses->is_without, err));
    TRY(buffer_add_u64(frame, witnesses->epoch, err));
    TRY(buffer_add(frame, witnesses->digest, sizeof witnesses->digest, err));
    TRY(buffer_add_u64(frame, witnesses->log_size, err));
    TRY(buffer_add(frame, witnesses->log_root, sizeof witnesses->log_root, err));
    TRY(buffer_add_u64(frame, witnesses->since_s, err));
    return buffer_add_u32(frame, witnesses->patience_s, err);
}

void keyd_read_witnesses(struct reader *fields, struct keyd_reply *reply)
{
    struct keyd_witnesses *witnesses = &reply->as.witnesses;

    witnesses->is_pinned = keyd_read_flag(fields);
    witnesses->awaits = keyd_read_flag(fields);
    witnesses->is_without = keyd_read_flag(fields);
    witnesses->epoch = reader_u64(fields);
    keyd_read_fixed(fields, witnesses->digest, sizeof witnesses->digest);
    witnesses->log_size = reader_u64(fields);
    keyd_read_fixed(fields, witnesses->log_root, sizeof witnesses->log_root);
    witnesses->since_s = reader_u64(fields);
    witnesses->patience_s = reader_u32(fields);
}
