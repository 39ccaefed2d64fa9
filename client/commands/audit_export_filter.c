/* Conditions of a search at `sijil audit export`: one may be a key of its own. All others, the registry answers with the keys whose exports have what meets them. */
#include <stdio.h>
#include <string.h>

#include "audit/format/leaf.h"
#include "base/json.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"

static const struct condition_row {
    int letter;
    const char *name; /* as searches have it */
    const char *kind; /* of the key that stands for it, or NULL */
} conditions[] = {{'a', "actor", "act:"}, {'r', "resource", "res:"}, {'T', "outcome", "out:"}, {'P', "prefix", NULL},
                  {'A', "action", NULL},  {'d', "digest", NULL},     {'G', "tag", NULL},       {'R', "rule", NULL},
                  {'g', "region", NULL},  {'x', "run", NULL},        {'D', "decision", NULL},  {'q', "request", NULL},
                  {'e', "detail", NULL},  {'C', "country", NULL},    {'i', "address", NULL},   {'N', "network", NULL}};
#define CONDITION_COUNT (sizeof conditions / sizeof conditions[0])

/* What an organisation or a project has stands under its key; names below a repository's have none. */
static const char *kind_of_prefix(const char *name)
{
    const char *slash = strchr(name, '/');

    if (slash == NULL) return "org:";
    return strchr(slash + 1, '/') == NULL ? "prj:" : NULL;
}

/* Whether a key stands for this condition alone. */
static bool key_of(const struct condition_row *condition, const char *value, char key_out[AUDIT_KEY_SIZE])
{
    const char *kind = condition->letter == 'P' ? kind_of_prefix(value) : condition->kind;

    if (kind == NULL) return false;
    const int length = snprintf(key_out, AUDIT_KEY_SIZE, "%s%s", kind, value);
    return length > 0 && (size_t)length < AUDIT_KEY_SIZE && leaf_key_is_possible(key_out);
}

size_t audit_export_conditions(const struct invocation *invocation)
{
    size_t count = 0;

    for (size_t i = 0; i < CONDITION_COUNT; i++) count += invocation_option(invocation, conditions[i].letter) != NULL;
    return count;
}

bool audit_export_key(const struct invocation *invocation, char key_out[AUDIT_KEY_SIZE])
{
    const char *key = invocation_option(invocation, 'k');
    const size_t count = audit_export_conditions(invocation);

    if (key != NULL) {
        (void)snprintf(key_out, AUDIT_KEY_SIZE, "%s", key);
        return count == 0;
    }
    for (size_t i = 0; i < CONDITION_COUNT && count == 1; i++) {
        const char *value = invocation_option(invocation, conditions[i].letter);
        if (value != NULL) return key_of(&conditions[i], value, key_out);
    }
    return false;
}

static struct result make_filter(const struct invocation *invocation, const char *nonce, json_t *body, struct error *err)
{
    json_t *filter = json_object(); /* the body owns it */

    if (json_object_set_new(body, "filter", filter) != 0 || json_object_set_new(body, "nonce", json_string(nonce)) != 0)
        return api_no_memory(err);
    const char *within = invocation_option(invocation, 'w');
    if (within != NULL && json_object_set_new(body, "within", json_string(within)) != 0)
        return failure(err, ERROR_INVALID, "--within is not UTF-8");
    for (size_t i = 0; i < CONDITION_COUNT; i++) {
        const char *value = invocation_option(invocation, conditions[i].letter);
        if (value != NULL && json_object_set_new(filter, conditions[i].name, json_string(value)) != 0)
            return failure(err, ERROR_INVALID, "--%s is not UTF-8", conditions[i].name);
    }
    return SUCCESS;
}

static void advise(struct invocation *invocation, const char *key)
{
    char advice[CELL_MAX + 16];

    (void)snprintf(advice, sizeof advice, "--key %s", key);
    invocation_explain(invocation, "try", advice);
}

/* The answer is 422, or another refusal. */
static struct result ask(const struct invocation *invocation, struct session *session, const char *nonce,
                         struct http_response *response, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(65536);
    OWNED_JSON body = json_object();

    if (body == NULL) return api_no_memory(err);
    TRY(make_filter(invocation, nonce, body, err));
    TRY(json_write_canonical(&text, body, err));
    const struct http_request request = {.method = "POST",
                                         .path = "/api/v1/audit/exports",
                                         .body = buffer_bytes(&text),
                                         .content_type = "application/json",
                                         .wanted = 422};
    return session_call(session, ADMIN_SCOPE, &request, response, err);
}

struct result audit_export_refused(struct invocation *invocation, struct session *session, const char *nonce, struct error *err)
{
    const char *key = invocation_option(invocation, 'k');
    OWNED_RESPONSE response = RESPONSE;
    OWNED_JSON answer = NULL;

    TRY(audit_advised(invocation, session, ask(invocation, session, nonce, &response, err), err));
    TRY(json_read(buffer_bytes(&response.body), HTTP_ANSWER_MAX, &answer, err));
    const struct result refused = refusal(session_report(session), &response, err);
    const json_t *keys = json_object_get(answer, "provable");
    if (key != NULL) advise(invocation, key);
    for (size_t i = 0; i < json_array_size(keys); i++) {
        char cell[CELL_MAX];
        cell_text(json_array_get(keys, i), cell);
        advise(invocation, cell);
    }
    return refused;
}
