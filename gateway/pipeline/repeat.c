/*
 * Repeats of requests that make something. The key of a request is claimed in the transaction of its change, so that a repeat makes nothing twice, whichever gateway it comes to,
 * and whenever the first one was killed. The answer is kept after it, before it goes out.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "gateway/pipeline/exchange_priv.h"
#include "gateway/pipeline/repeat.h"
#include "gateway/pipeline/repeat_priv.h"

#define NOT_KEPT                                                                                                            \
    "the request with this Idempotency-Key was carried out before, and its answer is not kept: look whether what it makes " \
    "is there"
#define SECRET_NOT_KEPT                                                                                               \
    "the request with this Idempotency-Key was carried out before; its answer has a secret, which is shown once and " \
    "never kept: look for what it made, and ask for a new secret with a new key"
#define USED_OTHERWISE "this Idempotency-Key was used for another request of yours within a day: draw a new one"

static struct search_source source_of(const struct request *request, struct pg *pg)
{
    return (struct search_source){pg, request->gateway->keyd, request->gateway->origin};
}

/* A robot that is made again under an old name is another one. */
static void name_of(const struct request *request, struct bytes key, uint8_t name_out[SHA256_SIZE])
{
    uint8_t text[sizeof request->principal->id + REPEAT_KEY_MAX];
    const struct bytes id = uuid_bytes(&request->principal->id);

    memcpy(text, id.data, id.length);
    memcpy(text + id.length, key.data, key.length);
    sha256_of((struct bytes){text, id.length + key.length}, name_out);
}

static struct result digest_request(const struct exchange *exchange, uint8_t digest_out[SHA256_SIZE], struct error *err)
{
    const struct http_exchange *http = &exchange->http;
    OWNED(hasher) *hasher = NULL;

    TRY(hasher_new(DIGEST_SHA256, &hasher, err));
    hasher_add(hasher, bytes_of_text(method_name(http->method)));
    hasher_add(hasher, bytes_of_text(" "));
    hasher_add(hasher, (struct bytes){(const uint8_t *)http->request_target, http->request_target_length});
    hasher_add(hasher, bytes_of_text("\n"));
    hasher_add(hasher, exchange->request.body);
    const struct digest digest = hasher_digest(hasher);
    memcpy(digest_out, digest.bytes, SHA256_SIZE);
    return SUCCESS;
}

/* ---- The answer of the first one ---- */

static struct result read_kept(struct request *request, struct bytes text, struct error *err)
{
    OWNED_JSON kept = NULL;
    int64_t status = 0;

    TRY(json_read(text, KEPT_ANSWER_MAX, &kept, err));
    const char *type = json_text_of(kept, "type"), *location = json_text_of(kept, "location"), *body = json_text_of(kept, "body");
    if (!json_integer_of(kept, "status", &status) || status < 200 || status > 299 || body == NULL)
        return failure(err, ERROR_NOT_FOUND, "the kept answer has another form");
    const char *copy = arena_copy_text(request->arena, bytes_of_text(body));
    if (copy == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a kept answer");
    response_bytes(request, (unsigned)status, type, bytes_of_text(copy));
    if (location != NULL) response_header(request, "Location", "%s", location);
    response_header(request, "Idempotent-Replayed", "true");
    return SUCCESS;
}

static struct result answer_as_before(struct request *request, struct pg *pg, struct error *err)
{
    const struct search_source source = source_of(request, pg);
    struct buffer OWNED_BUFFER text = BUFFER(KEPT_ANSWER_MAX);

    TRY(kept_answer_open(request->permit, &source, &request->repeat->request, &text, err));
    return read_kept(request, buffer_bytes(&text), err);
}

static bool answers_a_secret(const struct request *request)
{
    return (request->route->about->answer->flags & SCHEMA_HAS_SECRET) != 0;
}

static void answer_not_kept(struct request *request, enum kept_state state)
{
    const bool is_coming = state == KEPT_COMING && !answers_a_secret(request);
    const char *const detail = is_coming ? REPEAT_TOO_SOON : answers_a_secret(request) ? SECRET_NOT_KEPT : NOT_KEPT;

    response_problem(request, 409, "It was done before", detail);
    if (is_coming) response_header(request, "Retry-After", "1");
}

/* The event comes first, as for each answer. */
static struct result answer_repeat(struct request *request, struct pg *pg, enum kept_state state, struct error *err)
{
    struct error why = {0};

    TRY(request_record(request, NULL, err));
    if (state == KEPT_OTHER) {
        response_problem(request, 422, "The key was used for another request", USED_OTHERWISE);
        return SUCCESS;
    }
    if (state == KEPT_ANSWER) {
        const struct result answered = answer_as_before(request, pg, &why);
        if (answered.ok || why.kind != ERROR_NOT_FOUND) return answered.ok ? SUCCESS : failure(err, why.kind, "%s", why.message);
        log_error("an answer that was kept for a repeat can't be used", &why);
    }
    answer_not_kept(request, state);
    return SUCCESS;
}

struct result repeat_begin(struct exchange *exchange, struct pg *pg, bool *is_answered_out, struct error *err)
{
    struct request *request = &exchange->request;
    size_t at = 0;
    const char *value = header_next(&request->headers, "Idempotency-Key", &at);
    const struct search_source source = source_of(request, pg);
    enum kept_state state = KEPT_NOT;
    struct bytes key = {0};

    *is_answered_out = false;
    if (value == NULL || request->repeat != NULL || !route_takes_repeats(request->route)) return SUCCESS;
    if (header_next(&request->headers, "Idempotency-Key", &at) != NULL)
        return failure(err, ERROR_INVALID, "a request has one Idempotency-Key");
    TRY(repeat_key_read(value, &key, err));
    struct repeat *repeat = arena_take(request->arena, sizeof *repeat);
    if (repeat == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a repeat");
    *repeat = (struct repeat){.request = {.issuer = request->principal->issuer, .subject = request->principal->subject}};
    name_of(request, key, repeat->request.name);
    TRY(digest_request(exchange, repeat->request.digest, err));
    TRY(kept_request_seal(&source, &repeat->request, err));
    TRY(kept_answer_find(&source, &repeat->request, &state, err));
    request->repeat = repeat;
    if (state == KEPT_NOT) return SUCCESS;
    *is_answered_out = repeat->is_used = true;
    return answer_repeat(request, pg, state, err);
}

/* ---- Its answer ---- */

static const char *header_of(const struct response *response, const char *name)
{
    for (size_t i = 0; i < response->headers.count; i++)
        if (strcmp(response->headers.list[i].name, name) == 0) return response->headers.list[i].value;
    return NULL;
}

static struct result write_kept(const struct response *response, struct buffer *text, struct error *err)
{
    const char *body = response->body.length == 0 ? "" : (const char *)response->body.data;
    OWNED_JSON value =
        json_pack("{s:i, s:s*, s:s*, s:s%}", "status", (int)response->status, "type", header_of(response, "Content-Type"),
                  "location", header_of(response, "Location"), "body", body, response->body.length);

    if (value == NULL) return failure(err, ERROR_LIMIT, "the answer is no text");
    return json_write_canonical(text, value, err);
}

static struct result keep(struct request *request, struct pg *pg, struct error *err)
{
    const struct search_source source = source_of(request, pg);
    struct buffer OWNED_BUFFER text = BUFFER(KEPT_ANSWER_MAX);

    TRY(write_kept(request->response, &text, err));
    return kept_answer_keep(request->permit, &source, &request->repeat->request, buffer_bytes(&text), err);
}

void repeat_keep(struct request *request, struct pg *pg)
{
    const struct response *response = request->response;
    struct error err = {0};

    if (request->repeat == NULL || !request->repeat->is_claimed || response == NULL || request->permit == NULL) return;
    if (response->status >= 300 || response->source != NULL || response->is_broken || answers_a_secret(request)) return;
    if (!keep(request, pg, &err).ok && err.kind != ERROR_LIMIT)
        log_error("an answer is not kept for a repeat of its request", &err);
}
