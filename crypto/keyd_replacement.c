/* Messages about the keys of persons with power. */
#include "crypto/keyd_protocol_priv.h"

struct result keyd_write_key_power_asked(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    return buffer_add(frame, request->as.principal, sizeof request->as.principal, err);
}

void keyd_read_key_power_asked(struct reader *fields, struct keyd_request *request)
{
    keyd_read_fixed(fields, request->as.principal, sizeof request->as.principal);
}

struct result keyd_write_replaced(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    return buffer_add_u64(frame, (uint64_t)reply->as.counts_ms, err);
}

void keyd_read_replaced(struct reader *fields, struct keyd_reply *reply)
{
    reply->as.counts_ms = (int64_t)reader_u64(fields);
}

struct result keyd_write_key_power(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    const struct key_power *power = &reply->as.key_power;

    if (power->count > KEY_WAITING_MAX) return failure(err, ERROR_INVALID, "at most %d keys wait", KEY_WAITING_MAX);
    TRY(buffer_add_u8(frame, power->is_named, err));
    TRY(buffer_add_u8(frame, power->is_approver, err));
    TRY(buffer_add_u8(frame, (uint8_t)power->count, err));
    for (size_t i = 0; i < power->count; i++) {
        TRY(buffer_add(frame, power->waiting[i].key, sizeof power->waiting[i].key, err));
        TRY(buffer_add(frame, power->waiting[i].principal, sizeof power->waiting[i].principal, err));
        TRY(buffer_add(frame, power->waiting[i].document, sizeof power->waiting[i].document, err));
        TRY(buffer_add_u64(frame, (uint64_t)power->waiting[i].since_ms, err));
        TRY(buffer_add_u64(frame, (uint64_t)power->waiting[i].counts_ms, err));
    }
    return SUCCESS;
}

void keyd_read_key_power(struct reader *fields, struct keyd_reply *reply)
{
    struct key_power *power = &reply->as.key_power;

    power->is_named = keyd_read_flag(fields);
    power->is_approver = keyd_read_flag(fields);
    power->count = reader_u8(fields);
    if (power->count > KEY_WAITING_MAX) {
        fields->failed = true;
        power->count = 0;
    }
    for (size_t i = 0; i < power->count; i++) {
        keyd_read_fixed(fields, power->waiting[i].key, sizeof power->waiting[i].key);
        keyd_read_fixed(fields, power->waiting[i].principal, sizeof power->waiting[i].principal);
        keyd_read_fixed(fields, power->waiting[i].document, sizeof power->waiting[i].document);
        power->waiting[i].since_ms = (int64_t)reader_u64(fields);
        power->waiting[i].counts_ms = (int64_t)reader_u64(fields);
    }
}

bool key_power_asks(const struct key_power *power, bool approves)
{
    return power->is_named || (power->is_approver && approves);
}
