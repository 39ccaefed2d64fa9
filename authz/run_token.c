#include "authz/run_token.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "authz/lease_name.h"
#include "base/text.h"

#define SOURCE     "lease:" /* and attempt, node and key, with colons between them */
#define NUMBER_MAX 255      /* of an attempt or a node */

/* ---- making ---- */

/* One second less than the lease, because sijil-keyd signs a moment later. */
static struct result lifetime_of(const struct run_token_request *request, unsigned *lifetime_s_out, struct error *err)
{
    const int64_t left_s = (request->ends_ms - request->now_ms) / 1000 - 1;

    if (left_s < 1) return failure(err, ERROR_DENIED, "the lease ends too soon to make a token for it");
    *lifetime_s_out = left_s < RUN_TOKEN_SECONDS ? (unsigned)left_s : RUN_TOKEN_SECONDS;
    return SUCCESS;
}

struct result run_token_mint(const struct permit *permit, struct keyd_client *keyd, const struct run_token_request *request,
                             struct buffer *answer, struct error *err)
{
    const struct run_token *of = request->token;
    struct buffer OWNED_BUFFER token = BUFFER(KEYD_TOKEN_MAX);
    char subject[sizeof "run:" + UUID_TEXT_SIZE] = "run:", source[sizeof((struct principal *)0)->source];
    struct token_request asked = {.issuer = request->issuer,
                                  .audience = request->service,
                                  .subject = subject,
                                  .source = source,
                                  .organisation = request->organisation,
                                  .confirmation = request->thumbprint,
                                  .request = request->request};
    char lease[RESOURCE_DETAIL_MAX + 1];
    int64_t issued_at_s = 0;

    lease_name(&of->run, of->attempt, of->node, lease);
    permit_require_detail(permit, ACTION_RUN_TOKEN, lease);
    TRY(lifetime_of(request, &asked.lifetime_s, err));
    uuid_format(&of->run, subject + sizeof "run:" - 1);
    (void)snprintf(source, sizeof source, SOURCE "%" PRId64 ":%" PRId64 ":%s", of->attempt, of->node, of->key);
    TRY(keyd_sign_token(keyd, &asked, &token, &issued_at_s, err));
    return buffer_format(answer, err, "{\"access_token\":\"%s\",\"expires_in\":%u,\"token_type\":\"Bearer\"}",
                         buffer_text(&token), asked.lifetime_s);
}

/* ---- reading ---- */

/* Takes the part of the text before the next colon, or the whole rest. */
static struct bytes next_part(struct bytes *rest)
{
    const uint8_t *colon = rest->length == 0 ? NULL : memchr(rest->data, ':', rest->length);
    const size_t length = colon == NULL ? rest->length : (size_t)(colon - rest->data), used = length + (colon != NULL);
    const struct bytes part = {rest->data, length};

    *rest = (struct bytes){rest->data + used, rest->length - used};
    return part;
}

bool run_token_of(const struct principal *principal, struct run_token *token_out)
{
    static const size_t prefix = sizeof SOURCE - 1;
    struct run_token token = {.run = principal->id};
    uint64_t attempt = 0, node = 0;

    if (principal->kind != PRINCIPAL_RUN || strncmp(principal->source, SOURCE, prefix) != 0) return false;
    struct bytes rest = bytes_of_text(principal->source + prefix);
    if (!text_to_u64(next_part(&rest), NUMBER_MAX, &attempt) || !text_to_u64(next_part(&rest), NUMBER_MAX, &node)) return false;
    if (rest.length != sizeof token.key - 1) return false;
    token.attempt = (int64_t)attempt;
    token.node = (int64_t)node;
    memcpy(token.key, rest.data, rest.length);
    *token_out = token;
    return true;
}

struct result run_token_read(const struct claims *claims, struct principal *principal, struct error *err)
{
    struct run_token ignored;

    principal->kind = PRINCIPAL_RUN;
    if (!uuid_parse(bytes_of_text(claims->subject + sizeof "run:" - 1), &principal->id) || !run_token_of(principal, &ignored))
        return failure(err, ERROR_DENIED, "the token's sub or src is malformed");
    if (claims->confirmation == NULL) return failure(err, ERROR_DENIED, "a token of a run must be bound to a client certificate");
    principal->access_count = 0;
    (void)snprintf(principal->subject, sizeof principal->subject, "%.255s", claims->subject);
    return SUCCESS;
}

/* ---- deciding ---- */

static bool is_upload(enum action action)
{
    return action == ACTION_UPLOAD_BEGIN || action == ACTION_UPLOAD_WRITE || action == ACTION_UPLOAD_COMMIT ||
           action == ACTION_UPLOAD_PROBE || action == ACTION_UPLOAD_READ || action == ACTION_UPLOAD_CANCEL;
}

static struct authz_answer refuse(enum authz_verdict verdict, const char *message)
{
    return (struct authz_answer){.verdict = verdict, .rule = "SYS-RUN-ORDER", .message = message};
}

struct authz_answer run_authorize(const struct principal *principal, enum action action, const struct resource *resource)
{
    static const struct authz_answer allowed = {.verdict = AUTHZ_ALLOWED};
    const struct principal_access *access = principal->access_count == 1 ? &principal->access[0] : NULL;

    if (action == ACTION_PING) return allowed;
    if (access == NULL || resource->kind != RESOURCE_REPOSITORY || strcmp(access->name, resource->name) != 0)
        return refuse(AUTHZ_INVISIBLE, "the order of the run does not name this");
    if (access->push && is_upload(action)) return allowed;
    const bool is_content = principal->content[0] != '\0' && strcmp(principal->content, resource->detail) == 0;
    if (access->pull && is_content && (action == ACTION_RUN_FETCH || action == ACTION_RUN_USE)) return allowed;
    return refuse(AUTHZ_NOT_ALLOWED, "a run reads only what its order names by digest, and writes only blobs of its outputs");
}
