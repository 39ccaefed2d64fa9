/* `sijil ci rule ...`: trust rules of CI systems (docs/ci.md). The key signs on this machine; only the signed document is sent. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "client/commands/api_priv.h"
#include "client/commands/ci_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/documents.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PATH_ROOM    1024
#define BASE         "/trust-rules"
#define SCOPE_ADVICE "--scope ORGANISATION or ORGANISATION/PROJECT lists those of one"

static const struct documents_list rules = {BASE, "rules", "trust rule", false};

static struct result print_rule(const struct invocation *invocation, const json_t *answer, struct error *err)
{
    const json_t *document = json_object_get(answer, "document"), *body = json_object_get(document, "body");
    OWNED_JSON shown = json_pack("{s:O?, s:O?, s:O?, s:O?, s:O*, s:O*, s:O*, s:O*, s:O*, s:O?}", "name",
                                 json_object_get(answer, "name"), "state", json_object_get(answer, "state"), "scope",
                                 json_object_get(document, "scope"), "version", json_object_get(document, "version"), "issuer",
                                 json_object_get(body, "issuer"), "match", json_object_get(body, "match"), "grant",
                                 json_object_get(body, "grant"), "priority", json_object_get(body, "priority"), "single_use",
                                 json_object_get(body, "single_use"), "expires", json_object_get(document, "expires"));

    if (shown == NULL) return api_no_memory(err);
    return api_print(invocation, shown, err);
}

static struct result send(struct invocation *invocation, struct session *session, const char *path, const json_t *body,
                          struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(api_call_in(session, "POST", path, body, &answer, err));
    return print_rule(invocation, answer, err);
}

/* ---- drafting ---- */

struct result command_ci_rule_draft(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(TRUST_RULE_BYTES_MAX);
    OWNED_CI_RULE rule = {.id = NULL};
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON envelope = NULL;
    int64_t version = 0;

    TRY(ci_rule_read(invocation, invocation->operands[1], &rule, err));
    TRY(ci_rule_compose(&rule, 1, &payload, err)); /* says what is wrong before it asks for anything */
    buffer_clear(&payload);
    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_newest_version(session, &rules, rule.id, rule.scope, &version, err));
    TRY(ci_rule_compose(&rule, (uint64_t)version + 1, &payload, err));
    TRY(documents_sign(DOCUMENT_TRUST_RULE, buffer_bytes(&payload), key, &envelope, err));
    return send(invocation, session, BASE, envelope, err);
}

/* ---- approving ---- */

/* Reads the document from the bytes that the first approver has signed. The registry's description of it is not trusted. */
static struct result read_draft(const struct invocation *invocation, const json_t *envelopes, struct document **document_out,
                                struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(DOCUMENT_ENVELOPE_MAX(TRUST_RULE_BYTES_MAX));
    OWNED(document) *document = NULL;
    struct trust_rule rule;

    TRY(json_write_canonical(&text, json_array_get(envelopes, 0), err));
    TRY(document_read(&(struct bytes){text.data, text.length}, 1, &document, err));
    if (document->kind != DOCUMENT_TRUST_RULE || document->is_withdrawn || strcmp(document->name, invocation->operands[1]) != 0 ||
        strcmp(document->scope, documents_scope(invocation)) != 0)
        return failure(err, ERROR_CORRUPT, "the registry answered with the draft of another rule");
    TRY(trust_rule_read(document, &rule, err));
    *document_out = GIVE(document);
    return SUCCESS;
}

static struct result show_document(const struct document *document, struct error *err)
{
    const json_t *body = json_object_get(document->json, "body"), *match = json_object_get(body, "match");
    const char *name;
    json_t *value;

    (void)fprintf(stderr, "You sign: version %llu of the trust rule %s\n", (unsigned long long)document->version, document->name);
    (void)fprintf(stderr, "  %-11s %s\n", "scope", document->scope[0] == '\0' ? "the registry" : document->scope);
    TRY(documents_show_member("expires", json_object_get(document->json, "expires"), err));
    json_object_foreach ((json_t *)(uintptr_t)body, name, value)
        if (value != match) TRY(documents_show_member(name, value, err));
    (void)fprintf(stderr, "  a token has to have:\n");
    json_object_foreach ((json_t *)(uintptr_t)match, name, value) TRY(documents_show_member(name, value, err));
    return SUCCESS;
}

static struct result approve(struct invocation *invocation, struct session *session, const json_t *draft,
                             const struct ecdsa_key *key, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED(document) *document = NULL;
    OWNED_JSON body = NULL;

    TRY(read_draft(invocation, json_object_get(draft, "envelopes"), &document, err));
    TRY(show_document(document, err));
    TRY(documents_sign_too(draft, document, key, &body, err));
    TRY(documents_path_of(BASE, document->name, "/approval", NULL, &path, err));
    return send(invocation, session, buffer_text(&path), body, err);
}

struct result command_ci_rule_approve(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON draft = NULL;

    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_choose(invocation, session, &rules, true, &draft, err));
    return approve(invocation, session, draft, key, err);
}

/* ---- withdrawing ---- */

struct result command_ci_rule_revoke(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(TRUST_RULE_BYTES_MAX), path = BUFFER(PATH_ROOM);
    const char *id = invocation->operands[1], *reason = invocation_option(invocation, 'r');
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON nothing = json_object();
    OWNED_JSON envelope = NULL;
    int64_t version = 0;

    if (reason == NULL)
        return line_check(invocation, failure(err, ERROR_INVALID, "--reason is needed: why the rule no longer counts"));
    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_newest_version(session, &rules, id, documents_scope(invocation), &version, err));
    if (version == 0) return failure(err, ERROR_NOT_FOUND, "there is no trust rule %.63s in this scope", id);
    const struct document_parts parts = {.kind = DOCUMENT_TRUST_RULE,
                                         .scope = documents_scope(invocation),
                                         .name = id,
                                         .version = (uint64_t)version + 1,
                                         .effective_ms = clock_wall_ms(),
                                         .expires_ms = clock_wall_ms() + (int64_t)TRUST_RULE_DAYS_MAX * 86400000 - 1000,
                                         .withdrawn = reason,
                                         .body = nothing};
    TRY(document_compose(&parts, &payload, err));
    TRY(documents_sign(DOCUMENT_TRUST_RULE, buffer_bytes(&payload), key, &envelope, err));
    TRY(documents_path_of(BASE, id, "/withdrawal", NULL, &path, err));
    return send(invocation, session, buffer_text(&path), envelope, err);
}

struct result command_ci_rule_reject(struct invocation *invocation, struct error *err)
{
    return documents_end(invocation, rules.base, "/drafts", err);
}

/* ---- one rule, and the list ---- */

struct result command_ci_rule_show(struct invocation *invocation, struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(documents_find(invocation, &rules, &answer, err));
    return invocation->json ? api_print_json(answer, err) : print_rule(invocation, answer, err);
}

static struct result flatten(const json_t *rows, json_t *flat, struct error *err)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *document = json_object_get(row, "document"),
                     *body = json_object_get(document, "body");
        json_t *shown = json_pack("{s:O?, s:O?, s:O?, s:O*, s:O*, s:O*, s:O?, s:O*}", "name", json_object_get(row, "name"),
                                  "state", json_object_get(row, "state"), "version", json_object_get(document, "version"),
                                  "system", json_object_get(body, "system"), "priority", json_object_get(body, "priority"),
                                  "grant", json_object_get(body, "grant"), "expires", json_object_get(document, "expires"),
                                  "missing", json_object_get(row, "missing"));
        if (shown == NULL || json_array_append_new(flat, shown) != 0) return api_no_memory(err);
    }
    return SUCCESS;
}

struct result command_ci_rule_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"RULE", "name"},       {"STATE", "state"},       {"VERSION", "version"},
                                            {"SYSTEM", "system"},   {"PRIORITY", "priority"}, {"EXPIRES", "expires"},
                                            {"MISSING", "missing"}, {"GRANT", "grant"}};
    OWNED(session) *session = NULL;
    OWNED_JSON rows = json_array();
    OWNED_JSON flat = json_array();

    if (rows == NULL || flat == NULL) return api_no_memory(err);
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    const struct result listed = documents_get_all(invocation, session, &rules, rows, err);
    const bool is_of_registry = documents_scope(invocation)[0] == '\0';
    if (!listed.ok && err->kind == ERROR_DENIED && is_of_registry) invocation_explain(invocation, "try", SCOPE_ADVICE);
    TRY(listed);
    if (json_array_size(rows) == 0 && is_of_registry && !invocation->json)
        (void)fprintf(stderr, "The registry itself has no trust rules; " SCOPE_ADVICE "\n");
    TRY(flatten(rows, flat, err));
    return api_print_rows(invocation, flat, columns, COUNT(columns), err);
}
