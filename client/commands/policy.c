/* `sijil policy show`, `sign` and `load`. */
#include <stdio.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/policy_source_priv.h"
#include "client/local.h"
#include "client/session.h"
#include "policy/set.h"

static struct result compose(const char *path, uint64_t epoch, struct buffer *payload, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED_JSON document = NULL;

    TRY(local(file_read(path, &text, err), path, err));
    TRY(local(json_read(buffer_bytes(&text), POLICY_SET_BYTES_MAX, &document, err), path, err));
    return policy_source_compose(document, epoch, payload, err);
}

struct result command_policy_sign(struct invocation *invocation, struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX + 1); /* and a line end */
    const char *epoch_text = invocation_option(invocation, 'e'), *output = invocation_option(invocation, 'o');
    uint64_t epoch = 0;

    if (epoch_text == NULL)
        return line_check(invocation, failure(err, ERROR_INVALID, "--epoch is needed: the number of the new set"));
    if (!text_to_u64(bytes_of_text(epoch_text), INT64_MAX, &epoch) || epoch == 0)
        return line_check(invocation, failure(err, ERROR_INVALID, "--epoch %.30s: a whole number from 1", epoch_text));
    TRY(command_signer(invocation, &key, err));
    TRY(local(compose(invocation->operands[0], epoch, &payload, err), invocation->operands[0], err));
    TRY(policy_set_sign(buffer_bytes(&payload), key, &envelope, err));
    TRY(buffer_add_u8(&envelope, '\n', err));
    return api_output(invocation, output, buffer_bytes(&envelope), err);
}

/* {"digest", "epoch", "policies": [...]}: a person reads the policies as a table below. */
static struct result print_set(const struct invocation *invocation, json_t *set, struct error *err)
{
    static const struct column columns[] = {{"ID", "id"}, {"VERSION", "version"}, {"REVIEW BY", "review_by"}};
    OWNED_JSON policies = json_incref(json_object_get(set, "policies"));

    if (invocation->json) return api_print_json(set, err);
    (void)json_object_del(set, "policies");
    TRY(api_print(invocation, set, err));
    (void)putchar('\n');
    return api_print_rows(invocation, policies, columns, sizeof columns / sizeof columns[0], err);
}

static struct result print_answer(const struct invocation *invocation, const struct http_response *response, struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(json_read(buffer_bytes(&response->body), HTTP_ANSWER_MAX, &answer, err));
    return print_set(invocation, answer, err);
}

struct result command_policy_load(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED_RESPONSE response = RESPONSE;
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);

    TRY(local(file_read(invocation->operands[1], &envelope, err), invocation->operands[1], err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    const struct http_request request = {.method = "POST",
                                         .path = "/api/v1/policies",
                                         .content_type = "application/json",
                                         .body = buffer_bytes(&envelope),
                                         .wanted = 201,
                                         .also = 200};
    TRY(session_call(session, ADMIN_SCOPE, &request, &response, err));
    return print_answer(invocation, &response, err);
}

struct result command_policy_show(struct invocation *invocation, struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(api_call(invocation, "GET", "/policies", NULL, &answer, err));
    const json_t *set = json_object_get(answer, "set");
    if (invocation_option(invocation, 'd') != NULL)
        return set == NULL ? failure(err, ERROR_INVALID, "the registry answered without the set: it is older than this program")
                           : api_print_json(set, err);
    (void)json_object_del(answer, "set");
    return print_set(invocation, answer, err);
}
