/* Messages about the keys of the log, those of tokens, how many persons the root is, and nonces. */
#include "crypto/keyd_protocol_priv.h"

struct result keyd_write_log_rotate(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    const struct bytes envelope = request->as.log_order;

    if (envelope.length == 0 || envelope.length > KEYD_LOG_ROTATION_MAX)
        return failure(err, ERROR_INVALID, "an order to change the log's key has 1 to %d bytes", KEYD_LOG_ROTATION_MAX);
    return buffer_add_prefixed(frame, envelope, err);
}

void keyd_read_log_rotate(struct reader *fields, struct keyd_request *request)
{
    request->as.log_order = reader_prefixed(fields, KEYD_LOG_ROTATION_MAX);
    if (request->as.log_order.length == 0) fields->failed = true;
}

struct result keyd_write_known_log_keys(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    TRY(buffer_add_prefixed(frame, reply->as.log_keys.keys, err));
    TRY(buffer_add_prefixed(frame, reply->as.log_keys.next, err));
    return buffer_add_u64(frame, (uint64_t)reply->as.log_keys.retires_s, err);
}

void keyd_read_known_log_keys(struct reader *fields, struct keyd_reply *reply)
{
    reply->as.log_keys.keys = reader_prefixed(fields, KEYD_LOG_KEYS_MAX);
    reply->as.log_keys.next = reader_prefixed(fields, KEYD_NAME_MAX);
    reply->as.log_keys.retires_s = (int64_t)reader_u64(fields);
    if (reply->as.log_keys.keys.length == 0) fields->failed = true;
}

struct result keyd_write_token_keys(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    const struct keyd_token_keys *keys = &reply->as.token_keys;

    TRY(buffer_add_u8(frame, (uint8_t)keys->count, err));
    for (size_t i = 0; i < keys->count; i++) TRY(buffer_add(frame, keys->each[i], sizeof keys->each[i], err));
    return SUCCESS;
}

void keyd_read_token_keys(struct reader *fields, struct keyd_reply *reply)
{
    struct keyd_token_keys *keys = &reply->as.token_keys;

    keys->count = reader_u8(fields);
    if (keys->count < 1 || keys->count > KEYD_TOKEN_KEYS_MAX) {
        fields->failed = true;
        keys->count = 0;
    }
    for (size_t i = 0; i < keys->count; i++) keyd_read_fixed(fields, keys->each[i], sizeof keys->each[i]);
}

struct result keyd_write_nonces(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    const struct keyd_nonces *nonces = &reply->as.nonces;

    TRY(buffer_add_u64(frame, nonces->first, err));
    for (size_t i = 0; i < KEYD_NONCES_COUNT; i++) TRY(buffer_add(frame, nonces->each[i], sizeof nonces->each[i], err));
    return SUCCESS;
}

void keyd_read_nonces(struct reader *fields, struct keyd_reply *reply)
{
    struct keyd_nonces *nonces = &reply->as.nonces;

    nonces->first = reader_u64(fields);
    for (size_t i = 0; i < KEYD_NONCES_COUNT; i++) keyd_read_fixed(fields, nonces->each[i], sizeof nonces->each[i]);
}

bool root_terms_are_valid(const struct root_terms *terms)
{
    const bool is_unset = terms->policies == 0 && terms->root == 0 && terms->officers == 0;
    const bool is_set = terms->policies >= 1 && terms->officers >= 1;

    return is_unset ||
           (is_set && terms->policies <= terms->root && terms->officers <= terms->root && terms->root <= ROOT_PERSONS_MAX);
}

struct result keyd_write_root_terms(struct buffer *frame, const struct keyd_reply *reply, struct error *err)
{
    const struct root_terms *terms = &reply->as.root_terms;

    TRY(buffer_add_u8(frame, terms->policies, err));
    TRY(buffer_add_u8(frame, terms->root, err));
    TRY(buffer_add_u8(frame, terms->officers, err));
    return buffer_add(frame, terms->holder, sizeof terms->holder, err);
}

void keyd_read_root_terms(struct reader *fields, struct keyd_reply *reply)
{
    struct root_terms *terms = &reply->as.root_terms;

    terms->policies = reader_u8(fields);
    terms->root = reader_u8(fields);
    terms->officers = reader_u8(fields);
    keyd_read_fixed(fields, terms->holder, sizeof terms->holder);
    if (!root_terms_are_valid(terms)) fields->failed = true;
}
