/* `sijil policy restriction ...`: policies that an organisation adds for itself (docs/policies.md). The key signs on this machine; only the signed document is sent. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/documents.h"
#include "client/commands/policy_priv.h"
#include "client/local.h"
#include "documents/format/restriction.h"
#include "policy/restriction.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PATH_ROOM    1024
#define FILE_ROOM    DOCUMENTS_ENVELOPE_ROOM
#define PAYLOAD_ROOM ((size_t)16 * 1024)
#define BASE         "/restrictions"

static const struct documents_list restrictions = {BASE, "restrictions", "restriction", false};

static struct result print_one(const struct invocation *invocation, const json_t *answer, struct error *err)
{
    const json_t *document = json_object_get(answer, "document");
    OWNED_JSON shown =
        json_pack("{s:O?, s:O?, s:O?, s:O?, s:O*, s:O*, s:O*}", "name", json_object_get(answer, "name"), "state",
                  json_object_get(answer, "state"), "organisation", json_object_get(document, "scope"), "version",
                  json_object_get(document, "version"), "withdrawn", json_object_get(document, "withdrawn"), "missing",
                  json_object_get(answer, "missing"), "policy", json_object_get(json_object_get(document, "body"), "policy"));

    if (shown == NULL) return api_no_memory(err);
    return api_print(invocation, shown, err);
}

static struct result post(struct invocation *invocation, struct session *session, const char *path, const json_t *body,
                          struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(api_call_in(session, "POST", path, body, &answer, err));
    return print_one(invocation, answer, err);
}

/* ---- drafting ---- */

/* What is wrong with the policy is said before it costs something: its form by the compiler of policies, then what does not only restrict. */
static struct result check_policy(json_t *policy, const char *asked, const char **organisation_out, struct error *err)
{
    const char *stated = json_text_of(json_object_get(policy, "metadata"), "organisation");
    OWNED(policy_document) *compiled = NULL;

    if (stated == NULL && asked != NULL && asked[0] != '\0' &&
        json_object_set_new(json_object_get(policy, "metadata"), "organisation", json_string(asked)) != 0)
        return failure(err, ERROR_INVALID, "the policy has no \"metadata\"");
    stated = json_text_of(json_object_get(policy, "metadata"), "organisation");
    if (stated == NULL)
        return failure(err, ERROR_INVALID, "--organisation, or metadata.organisation of the policy, says whose it is");
    if (asked != NULL && asked[0] != '\0' && strcmp(asked, stated) != 0)
        return failure(err, ERROR_INVALID, "the policy is of the organisation %.60s, and --organisation is %.60s", stated, asked);
    TRY(policy_document_new(policy, &compiled, err));
    *organisation_out = stated;
    return SUCCESS;
}

static struct result read_file(const char *file, const char *asked, json_t **policy_out, const char **organisation_out,
                               struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(FILE_ROOM);
    OWNED_JSON policy = NULL;

    TRY(local(file_read(file, &text, err), file, err));
    TRY(local(json_read(buffer_bytes(&text), FILE_ROOM, &policy, err), file, err));
    TRY(local(check_policy(policy, asked, organisation_out, err), file, err));
    *policy_out = GIVE(policy);
    return SUCCESS;
}

/* Nobody signs this set: it is what would count in the organisation. A new version stands for the one in force. */
static struct result add_to_set(const struct policy_source *found, json_t *policy, uint64_t epoch, struct buffer *payload,
                                struct error *err)
{
    OWNED_JSON document = json_copy(found->document);
    OWNED_JSON policies = json_copy(json_object_get(found->document, "policies"));

    if (document == NULL || policies == NULL || json_array_append(policies, policy) != 0 ||
        json_object_set(document, "policies", policies) != 0)
        return api_no_memory(err);
    return policy_compose(document, epoch, payload, err);
}

struct result restriction_compose(struct session *session, const char *path, uint64_t epoch, struct buffer *payload,
                                  struct error *err)
{
    struct policy_source OWNED_SOURCE found = {.name = NULL};
    const char *organisation = NULL;
    OWNED_JSON policy = NULL;

    TRY(read_file(path, NULL, &policy, &organisation, err));
    TRY(policy_source_fetch(session, 0, &found, err));
    return local(add_to_set(&found, policy, epoch, payload, err), path, err);
}

/* `policy` NULL: a withdrawal. */
struct composing {
    const char *organisation, *name, *withdrawn, *plan;
    int64_t version;
    json_t *policy;
};

static struct result compose(const struct composing *composing, struct buffer *payload, struct error *err)
{
    OWNED_JSON body = composing->policy == NULL ? json_object()
                                                : json_pack("{s:O, s:s*}", "policy", composing->policy, "plan", composing->plan);
    const struct document_parts parts = {.kind = DOCUMENT_RESTRICTION,
                                         .scope = composing->organisation,
                                         .name = composing->name,
                                         .version = (uint64_t)composing->version,
                                         .effective_ms = clock_wall_ms(),
                                         .withdrawn = composing->withdrawn,
                                         .body = body};

    if (body == NULL) return api_no_memory(err);
    return document_compose(&parts, payload, err);
}

static struct result submit(struct invocation *invocation, struct session *session, const struct composing *composing,
                            const struct ecdsa_key *key, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(PAYLOAD_ROOM);
    OWNED_JSON envelope = NULL;

    TRY(compose(composing, &payload, err));
    TRY(documents_sign(DOCUMENT_RESTRICTION, buffer_bytes(&payload), key, &envelope, err));
    return post(invocation, session, BASE, envelope, err);
}

struct result command_restriction_draft(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON policy = NULL;
    struct composing composing = {.withdrawn = NULL};

    TRY(read_file(invocation->operands[1], documents_scope(invocation), &policy, &composing.organisation, err));
    composing.policy = policy;
    composing.plan = invocation_option(invocation, 'p');
    composing.name = json_text_of(json_object_get(policy, "metadata"), "id");
    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_newest_version(session, &restrictions, composing.name, composing.organisation, &composing.version, err));
    composing.version++;
    return submit(invocation, session, &composing, key, err);
}

struct result command_restriction_revoke(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    struct composing composing = {.organisation = documents_scope(invocation),
                                  .name = invocation->operands[1],
                                  .withdrawn = invocation_option(invocation, 'r')};

    if (composing.withdrawn == NULL || composing.organisation[0] == '\0')
        return line_check(
            invocation,
            failure(err, ERROR_INVALID, "--organisation and --reason are needed: whose it is, and why it no longer counts"));
    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_newest_version(session, &restrictions, composing.name, composing.organisation, &composing.version, err));
    if (composing.version == 0)
        return failure(err, ERROR_NOT_FOUND, "there is no restriction %.63s in this organisation", composing.name);
    composing.version++;
    return submit(invocation, session, &composing, key, err);
}

/* ---- approving ---- */

/* Reads the document from the bytes that the first officer has signed. The registry's description of it is not trusted. */
static struct result read_draft(const struct invocation *invocation, const json_t *envelopes, struct document **document_out,
                                struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(DOCUMENTS_ENVELOPE_ROOM);
    OWNED(document) *document = NULL;
    const json_t *policy = NULL;

    TRY(json_write_canonical(&text, json_array_get(envelopes, 0), err));
    TRY(document_read(&(struct bytes){text.data, text.length}, 1, &document, err));
    if (document->kind != DOCUMENT_RESTRICTION || strcmp(document->name, invocation->operands[1]) != 0 ||
        strcmp(document->scope, documents_scope(invocation)) != 0)
        return failure(err, ERROR_CORRUPT, "the registry answered with the draft of another restriction");
    if (!document->is_withdrawn) TRY(restriction_read(document, &policy, err));
    *document_out = GIVE(document);
    return SUCCESS;
}

static struct result show_document(const struct document *document, struct error *err)
{
    (void)fprintf(stderr, "You sign: version %llu of the restriction %s of the organisation %s\n",
                  (unsigned long long)document->version, document->name, document->scope);
    if (document->is_withdrawn) return documents_show_member("withdrawn", json_object_get(document->json, "withdrawn"), err);
    const json_t *body = json_object_get(document->json, "body"), *plan = json_object_get(body, "plan");
    if (plan != NULL) TRY(documents_show_member("plan", plan, err));
    return documents_show_member("policy", json_object_get(body, "policy"), err);
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
    return post(invocation, session, buffer_text(&path), body, err);
}

struct result command_restriction_approve(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON draft = NULL;

    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_choose(invocation, session, &restrictions, true, &draft, err));
    return approve(invocation, session, draft, key, err);
}

struct result command_restriction_reject(struct invocation *invocation, struct error *err)
{
    return documents_end(invocation, restrictions.base, "/drafts", err);
}

/* ---- one, and the list ---- */

struct result command_restriction_show(struct invocation *invocation, struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(documents_find(invocation, &restrictions, &answer, err));
    return invocation->json ? api_print_json(answer, err) : print_one(invocation, answer, err);
}

static struct result flatten(const json_t *rows, json_t *flat, struct error *err)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *document = json_object_get(row, "document"),
                     *policy = json_object_get(json_object_get(document, "body"), "policy");
        json_t *shown = json_pack("{s:O?, s:O?, s:O?, s:O*, s:O*, s:O*}", "name", json_object_get(row, "name"), "state",
                                  json_object_get(row, "state"), "version", json_object_get(document, "version"), "scope",
                                  json_object_get(json_object_get(policy, "metadata"), "scope"), "event",
                                  json_object_get(row, "event"), "missing", json_object_get(row, "missing"));
        if (shown == NULL || json_array_append_new(flat, shown) != 0) return api_no_memory(err);
    }
    return SUCCESS;
}

struct result command_restriction_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"NAME", "name"},   {"STATE", "state"}, {"VERSION", "version"},
                                            {"SCOPE", "scope"}, {"EVENT", "event"}, {"MISSING", "missing"}};
    OWNED(session) *session = NULL;
    OWNED_JSON rows = json_array();
    OWNED_JSON flat = json_array();

    if (rows == NULL || flat == NULL) return api_no_memory(err);
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_get_all(invocation, session, &restrictions, rows, err));
    TRY(flatten(rows, flat, err));
    return api_print_rows(invocation, flat, columns, COUNT(columns), err);
}

/* ---- a set with them ---- */

/* A draft, and what was withdrawn, is not in force. */
static struct result add_in_force(const json_t *rows, json_t *policies, struct error *err)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *state = json_text_of(row, "state");
        json_t *policy = json_object_get(json_object_get(json_object_get(row, "document"), "body"), "policy");
        if (state == NULL || strcmp(state, "in force") != 0) continue;
        if (json_array_append(policies, policy) != 0)
            return failure(err, ERROR_INVALID, "the registry answered with a restriction without its policy");
    }
    return SUCCESS;
}

struct result restrictions_fetch(struct invocation *invocation, struct session *session, json_t **policies_out, struct error *err)
{
    OWNED_JSON rows = json_array();
    OWNED_JSON policies = json_array();

    if (rows == NULL || policies == NULL) return api_no_memory(err);
    TRY(documents_get_all(invocation, session, &restrictions, rows, err));
    TRY(add_in_force(rows, policies, err));
    *policies_out = GIVE(policies);
    return SUCCESS;
}
