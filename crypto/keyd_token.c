/* What sijil-keyd makes a token from. */
#include "crypto/keyd_protocol_priv.h"

struct result keyd_write_token(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    const struct keyd_token *token = &request->as.token;

    if (token->access_count > TOKEN_ACCESS_MAX)
        return failure(err, ERROR_LIMIT, "a token names at most %d repositories", TOKEN_ACCESS_MAX);
    TRY(keyd_write_name(frame, token->issuer, 1, "a token's issuer", err));
    TRY(keyd_write_name(frame, token->audience, 1, "a token's audience", err));
    TRY(keyd_write_name(frame, token->subject, 1, "a token's subject", err));
    TRY(keyd_write_name(frame, token->source, 1, "a token's source", err));
    TRY(keyd_write_name(frame, token->confirmation, 0, "a token's confirmation", err));
    TRY(keyd_write_name(frame, token->request, 0, "a token's request", err));
    TRY(buffer_add(frame, token->organisation.bytes, 16, err));
    TRY(buffer_add_u32(frame, token->lifetime_s, err));
    TRY(buffer_add_u8(frame, token->catalog, err));
    TRY(buffer_add_u8(frame, token->administration, err));
    TRY(buffer_add_u8(frame, (uint8_t)token->access_count, err));
    for (size_t i = 0; i < token->access_count; i++) {
        const struct keyd_access *access = &token->access[i];
        TRY(keyd_write_name(frame, access->name, 1, "a repository's name", err));
        TRY(buffer_add(frame, access->repository.bytes, 16, err));
        TRY(buffer_add_u8(frame, access->pull, err));
        TRY(buffer_add_u8(frame, access->push, err));
        TRY(buffer_add_u8(frame, access->remove, err));
    }
    return SUCCESS;
}

void keyd_read_token(struct reader *fields, struct keyd_request *request)
{
    struct keyd_token *token = &request->as.token;

    token->issuer = keyd_read_name(fields);
    token->audience = keyd_read_name(fields);
    token->subject = keyd_read_name(fields);
    token->source = keyd_read_name(fields);
    token->confirmation = reader_prefixed(fields, KEYD_NAME_MAX);
    token->request = reader_prefixed(fields, KEYD_NAME_MAX);
    keyd_read_fixed(fields, token->organisation.bytes, 16);
    token->lifetime_s = reader_u32(fields);
    token->catalog = keyd_read_flag(fields);
    token->administration = keyd_read_flag(fields);
    token->access_count = reader_u8(fields);
    if (token->access_count > TOKEN_ACCESS_MAX) fields->failed = true;
    for (size_t i = 0; i < token->access_count && !fields->failed; i++) {
        token->access[i].name = keyd_read_name(fields);
        keyd_read_fixed(fields, token->access[i].repository.bytes, 16);
        token->access[i].pull = keyd_read_flag(fields);
        token->access[i].push = keyd_read_flag(fields);
        token->access[i].remove = keyd_read_flag(fields);
    }
}

struct result keyd_write_bound_token(struct buffer *frame, const struct keyd_request *request, struct error *err)
{
    const struct keyd_token *token = &request->as.token;

    TRY(keyd_write_token(frame, request, err));
    TRY(keyd_write_name(frame, token->key, 0, "a token's key", err));
    TRY(keyd_write_name(frame, token->acr, 0, "a token's acr", err));
    return buffer_add_u64(frame, (uint64_t)token->auth_time_s, err);
}

void keyd_read_bound_token(struct reader *fields, struct keyd_request *request)
{
    struct keyd_token *token = &request->as.token;

    keyd_read_token(fields, request);
    token->key = reader_prefixed(fields, KEYD_NAME_MAX);
    token->acr = reader_prefixed(fields, KEYD_NAME_MAX);
    token->auth_time_s = (int64_t)reader_u64(fields);
    if (token->auth_time_s < 0 || token->auth_time_s >= INT64_C(1) << 40) fields->failed = true;
}
