#include "runner/enrolment/registry.h"

#include "base/json.h"
#include "client/session.h"

#define ANSWER_MAX ((size_t)64 * 1024)
#define BODY_MAX   ((size_t)64 * 1024)
#define PATH_ROOM  256

struct result registry_connect(const struct runner_state *state, bool with_certificate, struct http **http_out, struct error *err)
{
    const struct http_options options = {.host = state->registry.host,
                                         .ca_file = state->ca_file,
                                         .certificate_file = with_certificate ? state->certificate_file : NULL,
                                         .key_file = with_certificate ? state->key_file : NULL};

    return http_new(&options, http_out, err);
}

static struct result read_answer(const struct http_response *response, json_t **answer_out, struct error *err)
{
    struct report report = {.verbose = false};
    OWNED_JSON answer = NULL;

    if (response->status != 200 && response->status != 201) return refusal(&report, response, err);
    TRY(json_read(buffer_bytes(&response->body), ANSWER_MAX, &answer, err));
    if (!json_is_object(answer)) return failure(err, ERROR_INVALID, "the registry's answer is not a JSON object");
    *answer_out = GIVE(answer);
    return SUCCESS;
}

struct result registry_post(struct http *http, const char *path, const json_t *body, json_t **answer_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(BODY_MAX), whole = BUFFER(PATH_ROOM);
    OWNED_RESPONSE response = RESPONSE;

    TRY(json_write_canonical(&text, body, err));
    TRY(buffer_format(&whole, err, "/api/v1%s", path));
    const struct http_request request = {.method = "POST",
                                         .path = buffer_text(&whole),
                                         .content_type = "application/json",
                                         .accept = "application/json",
                                         .body = buffer_bytes(&text)};
    const struct result called = http_call(http, &request, &response, err);
    if (text.data != NULL) secret_wipe(text.data, text.capacity); /* it may hold a code */
    return called.ok ? read_answer(&response, answer_out, err) : called;
}
