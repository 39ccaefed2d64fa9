#include "authz/mint.h"

#include <assert.h>
#include <stdio.h>

#include "authz/claims.h"
#include "authz/issuer.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/digest.h"

_Static_assert(TOKEN_ACCESS_MAX == PRINCIPAL_ACCESS_MAX, "a token holds what a principal may have");

/* sijil-keyd signs a moment after the request. One second less keeps the token's end before that of its source. */
static struct result lifetime_of(const struct mint_request *request, unsigned *lifetime_s_out, struct error *err)
{
    const int64_t left_s = (request->principal->expires_ms - request->now_ms) / 1000 - 1;
    int64_t lifetime_s = request->lifetime_s == 0 ? MINT_SECONDS_DEFAULT : request->lifetime_s;

    if (lifetime_s > REGISTRY_TOKEN_SECONDS_MAX) lifetime_s = REGISTRY_TOKEN_SECONDS_MAX;
    if (lifetime_s > left_s) lifetime_s = left_s;
    if (lifetime_s < 1) return failure(err, ERROR_DENIED, "the credential expires too soon to make a token from it");
    *lifetime_s_out = (unsigned)lifetime_s;
    return SUCCESS;
}

static struct result subject_of(const struct principal *principal, struct buffer *subject, struct error *err)
{
    char text[UUID_TEXT_SIZE > ISSUER_DIGEST_SIZE ? UUID_TEXT_SIZE : ISSUER_DIGEST_SIZE];

    assert(principal->kind == PRINCIPAL_ROBOT || principal->kind == PRINCIPAL_EXTERNAL);
    if (principal->kind == PRINCIPAL_ROBOT) {
        uuid_format(&principal->id, text);
        return buffer_format(subject, err, "robot:%s", text);
    }
    issuer_digest_of(principal->issuer, text);
    return buffer_format(subject, err, "ext:%s:%s", text, principal->subject);
}

static void fill_access(const struct token_scope *granted, struct token_request *request)
{
    request->catalog = granted->catalog;
    request->administration = granted->administration;
    for (size_t i = 0; i < granted->count; i++) {
        const struct principal_access *from = &granted->access[i];
        if (!from->pull && !from->push && !from->remove) continue;
        request->access[request->access_count++] = (struct token_access){
            .name = from->name, .repository = from->repository, .pull = from->pull, .push = from->push, .remove = from->remove};
    }
}

static struct result write_answer(const struct mint_request *request, struct bytes token, const struct token_request *asked,
                                  int64_t issued_at_s, struct buffer *answer, struct error *err)
{
    struct buffer OWNED_BUFFER scope = BUFFER(MINT_ANSWER_MAX);
    char issued_at[CLOCK_TEXT_SIZE];

    TRY(token_scope_write(request->granted, &scope, err));
    clock_format(issued_at_s * 1000, issued_at);
    TRY(buffer_format(answer, err, "{\"access_token\":\"%.*s\",\"expires_in\":%u,\"issued_at\":\"%s\",", (int)token.length,
                      (const char *)token.data, asked->lifetime_s, issued_at));
    if (request->is_exchange)
        TRY(buffer_add_text(answer, "\"issued_token_type\":\"urn:ietf:params:oauth:token-type:access_token\",", err));
    TRY(buffer_add_text(answer, "\"scope\":", err));
    TRY(json_write_string(answer, buffer_bytes(&scope), err));
    return buffer_format(answer, err, ",\"token\":\"%.*s\",\"token_type\":\"%s\"}", (int)token.length, (const char *)token.data,
                         request->key == NULL ? "Bearer" : "DPoP");
}

struct result mint_token(struct keyd_client *keyd, const struct mint_request *request, struct buffer *answer, struct error *err)
{
    struct buffer OWNED_BUFFER subject = BUFFER(512), token = BUFFER(KEYD_TOKEN_MAX);
    struct token_request asked = {.issuer = request->issuer,
                                  .audience = request->service,
                                  .source = request->principal->source,
                                  .organisation = request->organisation,
                                  .confirmation = request->thumbprint,
                                  .key = request->key,
                                  .acr = request->principal->acr[0] == '\0' ? NULL : request->principal->acr,
                                  .auth_time_s = request->principal->auth_time_s,
                                  .request = request->request};
    int64_t issued_at_s = 0;

    assert(!request->principal->is_limited);
    TRY(lifetime_of(request, &asked.lifetime_s, err));
    TRY(subject_of(request->principal, &subject, err));
    asked.subject = buffer_text(&subject);
    fill_access(request->granted, &asked);
    TRY(keyd_sign_token(keyd, &asked, &token, &issued_at_s, err));
    return write_answer(request, buffer_bytes(&token), &asked, issued_at_s, answer, err);
}
