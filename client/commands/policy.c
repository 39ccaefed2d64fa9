/* `sijil policy sign` and `load`. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/commands_priv.h"
#include "client/commands/policy_priv.h"
#include "client/local.h"
#include "policy/places.h"

/* An unknown member would be signed unnoticed: a set whose policies are misspelt denies everything. */
struct result policy_check_form(const json_t *document, struct error *err)
{
    const char *key = NULL;
    const json_t *value = NULL;

    if (json_object_get(document, "payloadType") != NULL)
        return failure(err, ERROR_INVALID, "this set is signed already: give the set without its envelope (docs/policies.md)");
    json_object_foreach ((json_t *)(uintptr_t)document, key, value) {
        if (strcmp(key, "root") == 0 || strcmp(key, "approval") == 0)
            return failure(err, ERROR_INVALID, "\"%s\" is not written by hand: 'sijil policy draft' makes it", key);
        if (!policy_set_has_member(key)) return failure(err, ERROR_INVALID, "a policy set has no member \"%.60s\"", key);
    }
    if (!json_is_array(json_object_get(document, "policies")) || !json_is_object(json_object_get(document, "regions")))
        return failure(err, ERROR_INVALID,
                       "a policy set is a JSON object with \"policies\", an array, and \"regions\", an object");
    return SUCCESS;
}

struct result policy_compose(const json_t *document, uint64_t epoch, struct buffer *payload, struct error *err)
{
    int64_t own = 0;

    TRY(policy_check_form(document, err));
    if (epoch == 0 && json_integer_of(document, "epoch", &own) && own > 0) epoch = (uint64_t)own;
    const struct policy_set_parts parts = {.epoch = epoch == 0 ? 1 : epoch,
                                           .policies = json_object_get(document, "policies"),
                                           .regions = json_object_get(document, "regions"),
                                           .groups = json_object_get(document, "groups"),
                                           .networks = json_object_get(document, "networks"),
                                           .exceptions = json_object_get(document, "exceptions"),
                                           .declassified = json_object_get(document, "declassified")};
    return policy_set_compose(&parts, payload, err);
}

struct result policy_compose_file(const char *path, uint64_t epoch, struct buffer *payload, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED_JSON document = NULL;

    TRY(local(file_read(path, &text, err), path, err));
    TRY(local(json_read(buffer_bytes(&text), POLICY_SET_BYTES_MAX, &document, err), path, err));
    return local(policy_compose(document, epoch, payload, err), path, err);
}

/* A misspelt place would be signed unnoticed, too. */
static struct result check_places(struct bytes payload, struct error *err)
{
    OWNED(policy_set) *set = NULL;

    TRY(policy_set_compile(payload, &set, err));
    return places_check(set, err);
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
    TRY(policy_compose_file(invocation->operands[0], epoch, &payload, err));
    TRY(local(check_places(buffer_bytes(&payload), err), invocation->operands[0], err));
    TRY(policy_set_sign(buffer_bytes(&payload), key, &envelope, err));
    TRY(buffer_add_u8(&envelope, '\n', err));
    return api_output(invocation, output, buffer_bytes(&envelope), err);
}

/* As one line in place of an object. */
static void show_signers(json_t *set)
{
    const json_t *signers = json_object_get(set, "signers");
    char text[CELL_MAX];

    if (signers == NULL) return;
    if (json_is_true(json_object_get(signers, "one_person")))
        (void)snprintf(text, sizeof text, "one person: the root's key alone");
    else
        (void)snprintf(text, sizeof text, "%lld persons; %lld to change that, %lld for the key of an approver",
                       (long long)number_of(signers, "policies"), (long long)number_of(signers, "root"),
                       (long long)number_of(signers, "officers"));
    (void)json_object_set_new(set, "signers", json_string(text));
}

/* {"digest", "epoch", "policies": [...]}: a person reads the policies as a table below. */
static struct result print_set(const struct invocation *invocation, json_t *set, struct error *err)
{
    static const struct column columns[] = {{"ID", "id"}, {"VERSION", "version"}, {"REVIEW BY", "review_by"}};
    OWNED_JSON policies = json_incref(json_object_get(set, "policies"));

    if (invocation->json) return api_print_json(set, err);
    (void)json_object_del(set, "policies");
    show_signers(set);
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
