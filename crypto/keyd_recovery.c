/* Requests about a new origin of the log. */
#include "crypto/keyd_protocol_priv.h"

static bool is_sound(const struct keyd_recovery *recovery)
{
    return recovery->statement.length > 0 && recovery->statement.length <= KEYD_STATEMENT_MAX &&
           recovery->policy.length <= KEYD_WITNESS_POLICY_MAX && recovery->signature_count > 0 &&
           recovery->signature_count <= KEYD_STATEMENT_SIGNATURES;
}

struct result keyd_write_recover(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    const struct keyd_recovery *recovery = &request->as.recovery;

    if (!is_sound(recovery))
        return failure(err, ERROR_INVALID, "a statement about a new origin has 1 to %d bytes, and 1 to %d signatures",
                       KEYD_STATEMENT_MAX, KEYD_STATEMENT_SIGNATURES);
    TRY(buffer_add_prefixed(frame, recovery->statement, err));
    TRY(buffer_add_prefixed(frame, recovery->policy, err));
    TRY(buffer_add_u8(frame, (uint8_t)recovery->signature_count, err));
    for (size_t i = 0; i < recovery->signature_count; i++) {
        if (recovery->signatures[i].length == 0 || recovery->signatures[i].length > KEYD_STATEMENT_SIGNATURE_MAX)
            return failure(err, ERROR_INVALID, "a signature has 1 to %d bytes", KEYD_STATEMENT_SIGNATURE_MAX);
        TRY(buffer_add_prefixed(frame, recovery->signatures[i], err));
    }
    return SUCCESS;
}

void keyd_read_recover(struct reader *fields, struct keyd_request *request)
{
    struct keyd_recovery *recovery = &request->as.recovery;

    recovery->statement = reader_prefixed(fields, KEYD_STATEMENT_MAX);
    recovery->policy = reader_prefixed(fields, KEYD_WITNESS_POLICY_MAX);
    recovery->signature_count = reader_u8(fields);
    if (!is_sound(recovery)) {
        fields->failed = true;
        recovery->signature_count = 0;
    }
    for (size_t i = 0; i < recovery->signature_count; i++) {
        recovery->signatures[i] = reader_prefixed(fields, KEYD_STATEMENT_SIGNATURE_MAX);
        if (recovery->signatures[i].length == 0) fields->failed = true;
    }
}
