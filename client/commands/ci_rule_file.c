/* A trust rule in a file, as a person writes it; and as a document. */
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "client/commands/api_priv.h"
#include "client/commands/ci_priv.h"
#include "client/commands/documents.h"
#include "client/local.h"
#include "documents/format/signing_key.h"

#define FILE_MAX         (4 * DOCUMENTS_ENVELOPE_ROOM) /* an answer has the rule several times: as it is, and in envelopes */
#define PRIORITY_DEFAULT 100
#define TTL_DEFAULT_S    300
#define LIFE_DEFAULT_MS  ((int64_t)90 * 86400000)

void ci_rule_done(struct ci_rule *rule)
{
    json_decref(rule->body);
    json_decref(rule->json);
}

/* The members of a body, and those that the head of the document takes. */
static bool is_member(const char *name)
{
    static const char *const names[] = {"audience", "certificate", "grant",     "id",       "immutable", "issuer",     "match",
                                        "max_ttl",  "networks",    "not_after", "priority", "scope",     "single_use", "system"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

static struct result check_members(const json_t *json, struct error *err)
{
    const char *name;
    json_t *value;

    if (!json_is_object(json)) return failure(err, ERROR_INVALID, "a trust rule is a JSON object");
    json_object_foreach ((json_t *)(uintptr_t)json, name, value)
        if (!is_member(name)) return failure(err, ERROR_INVALID, "a trust rule has no member \"%.60s\"", name);
    return SUCCESS;
}

/* What `sijil ci init` prints in capitals matches no token, and a draft would replace a rule that does. */
static struct result check_filled_in(const json_t *json, struct error *err)
{
    static const char *const blanks[] = {"ID-OF-THE-REPOSITORY",
                                         "ID-OF-ITS-OWNER",
                                         "ID-OF-THE-PROJECT",
                                         "https://JENKINS/",
                                         "UID-OF-THE-SERVICE-ACCOUNT",
                                         ":NAMESPACE:",
                                         "https://ISSUER-OF-THE-CLUSTER"};
    struct buffer OWNED_BUFFER text = BUFFER(FILE_MAX);

    TRY(json_write_canonical(&text, json, err));
    for (size_t i = 0; i < sizeof blanks / sizeof blanks[0]; i++)
        if (strstr(buffer_text(&text), blanks[i]) != NULL)
            return failure(err, ERROR_INVALID, "the rule still has %s: fill in what is in capitals", blanks[i]);
    return SUCCESS;
}

static struct result set_default(json_t *body, const char *name, json_t *value, struct error *err)
{
    OWNED_JSON owned = value;

    if (owned == NULL) return api_no_memory(err);
    if (json_object_get(body, name) != NULL || json_object_set(body, name, owned) == 0) return SUCCESS;
    return api_no_memory(err);
}

static struct result make_body(struct ci_rule *rule, struct error *err)
{
    static const char *const of_head[] = {"id", "not_after", "scope"};

    rule->body = json_copy(rule->json);
    if (rule->body == NULL) return api_no_memory(err);
    for (size_t i = 0; i < sizeof of_head / sizeof of_head[0]; i++) (void)json_object_del(rule->body, of_head[i]);
    TRY(set_default(rule->body, "priority", json_integer(PRIORITY_DEFAULT), err));
    TRY(set_default(rule->body, "max_ttl", json_integer(TTL_DEFAULT_S), err));
    return set_default(rule->body, "single_use", json_true(), err);
}

static struct result read_head(const char *asked, struct ci_rule *rule, struct error *err)
{
    const char *scope = json_text_of(rule->json, "scope");

    rule->id = json_text_of(rule->json, "id");
    rule->not_after = json_text_of(rule->json, "not_after");
    rule->scope = scope != NULL ? scope : asked == NULL ? "" : asked;
    if (rule->id == NULL) return failure(err, ERROR_INVALID, "a trust rule has an \"id\", such as \"gh-acme-train\"");
    if (scope != NULL && asked != NULL && strcmp(scope, asked) != 0)
        return failure(err, ERROR_INVALID, "the rule has the scope \"%.60s\", and --scope is \"%.60s\"", scope, asked);
    return SUCCESS;
}

/* From the payload of a document, which `sijil ci rule show --json` has, so that a rule in force can be tested too. */
static struct result of_document(json_t **json, struct error *err)
{
    const json_t *inner = json_object_get(*json, "document"), *document = inner == NULL ? *json : inner;
    const json_t *body = json_object_get(document, "body");

    if (!json_is_object(body)) return SUCCESS;
    OWNED_JSON flat = json_copy((json_t *)(uintptr_t)body);
    if (flat == NULL || json_object_set(flat, "id", json_object_get(document, "name")) != 0 ||
        json_object_set(flat, "scope", json_object_get(document, "scope")) != 0 ||
        json_object_set(flat, "not_after", json_object_get(document, "expires")) != 0)
        return failure(err, ERROR_INVALID, "this is neither a trust rule nor the document of one");
    json_decref(*json);
    *json = json_incref(flat);
    return SUCCESS;
}

struct result ci_rule_parse(struct bytes text, const char *scope, struct ci_rule *rule_out, struct error *err)
{
    OWNED_CI_RULE rule = {.id = NULL};

    TRY(json_read(text, FILE_MAX, &rule.json, err));
    TRY(of_document(&rule.json, err));
    TRY(check_members(rule.json, err));
    TRY(check_filled_in(rule.json, err));
    TRY(read_head(scope, &rule, err));
    TRY(make_body(&rule, err));
    *rule_out = rule;
    rule = (struct ci_rule){.id = NULL};
    return SUCCESS;
}

struct result ci_rule_read(const struct invocation *invocation, const char *path, struct ci_rule *rule_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(FILE_MAX);

    TRY(local(file_read(path, &text, err), path, err));
    return local(ci_rule_parse(buffer_bytes(&text), invocation_option(invocation, 's'), rule_out, err), path, err);
}

struct result ci_rule_compose(const struct ci_rule *rule, uint64_t version, struct buffer *payload, struct error *err)
{
    const size_t before = payload->length;
    struct document_parts parts = {.kind = DOCUMENT_TRUST_RULE,
                                   .scope = rule->scope,
                                   .name = rule->id,
                                   .version = version,
                                   .effective_ms = clock_wall_ms(),
                                   .body = rule->body};
    OWNED(document) *document = NULL;
    struct trust_rule read;

    parts.expires_ms = parts.effective_ms + LIFE_DEFAULT_MS;
    if (rule->not_after != NULL && !clock_parse(bytes_of_text(rule->not_after), &parts.expires_ms))
        return failure(err, ERROR_INVALID, "not_after: a time such as 2027-03-01T00:00:00Z");
    TRY(document_compose(&parts, payload, err));
    TRY(document_read_payload(DOCUMENT_TRUST_RULE, (struct bytes){payload->data + before, payload->length - before}, &document,
                              err));
    return trust_rule_read(document, &read, err);
}
