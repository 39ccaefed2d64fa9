/* `sijil policy draft`, `approve`, `activate`, `discard` and `drafts`: sets that several persons sign (docs/policies.md). */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/policy_priv.h"
#include "client/local.h"
#include "crypto/digest.h"
#include "documents/format/set_approval.h"

#define DAY_MS    INT64_C(86400000)
#define PATH_ROOM 256
#define NAME_SIZE 17 /* 16 hex digits */

/* ---- the set in force ---- */

/* source->set NULL: none is. */
static struct result read_active(struct session *session, struct policy_source *source, struct error *err)
{
    struct error none = {0};

    if (policy_source_fetch(session, 0, source, &none).ok) return SUCCESS;
    return none.kind == ERROR_NOT_FOUND ? SUCCESS : failure(err, none.kind, "%s", none.message);
}

static void base_of(const struct policy_source *active, struct document_pin *base)
{
    *base = (struct document_pin){.epoch = 0};
    if (active->set == NULL) return;
    base->epoch = policy_set_epoch(active->set);
    (void)text_from_hex(bytes_of_text(policy_set_digest(active->set) + strlen("sha256:")), base->digest, sizeof base->digest);
}

/* ---- drafting ---- */

static struct result number_option(struct invocation *invocation, char letter, const char *name, json_t *root, struct error *err)
{
    const char *text = invocation_option(invocation, letter);
    uint64_t number = 1;

    if (text != NULL && !text_to_u64(bytes_of_text(text), ROOT_PERSONS_MAX, &number))
        return failure(err, ERROR_INVALID, "--%s %.30s: a number of persons, at most %d", name, text, ROOT_PERSONS_MAX);
    return json_object_set_new(root, name, json_integer((json_int_t)number)) == 0 ? SUCCESS : api_no_memory(err);
}

/* *root_out NULL: as many must sign as now. */
static struct result read_root(struct invocation *invocation, json_t **root_out, struct error *err)
{
    const char *holder = invocation_option(invocation, 'H');
    OWNED_JSON root = NULL;

    *root_out = NULL;
    if (invocation_option(invocation, 'R') == NULL) {
        if (invocation_option(invocation, 'N') == NULL && invocation_option(invocation, 'O') == NULL && holder == NULL)
            return SUCCESS;
        return failure(err, ERROR_INVALID, "--root is needed with --policies, --officers and --holder");
    }
    root = json_pack("{s:s*}", "holder", holder);
    if (root == NULL) return api_no_memory(err);
    TRY(number_option(invocation, 'N', "policies", root, err));
    TRY(number_option(invocation, 'R', "root", root, err));
    TRY(number_option(invocation, 'O', "officers", root, err));
    *root_out = GIVE(root);
    return SUCCESS;
}

static struct result read_approval(struct invocation *invocation, struct set_approval *approval, struct error *err)
{
    const char *from = invocation_option(invocation, 'f'), *days_text = invocation_option(invocation, 'w');
    uint64_t days = SET_APPROVAL_DAYS_MAX;

    if (days_text != NULL && (!text_to_u64(bytes_of_text(days_text), SET_APPROVAL_DAYS_MAX, &days) || days == 0))
        return failure(err, ERROR_INVALID, "--wait %.30s: a number of days from 1 to %d", days_text, SET_APPROVAL_DAYS_MAX);
    if (from != NULL && !clock_parse(bytes_of_text(from), &approval->effective_ms))
        return failure(err, ERROR_INVALID, "--from %.40s: a time, such as 2026-12-01T00:00:00Z", from);
    approval->expires_ms = clock_wall_ms() + (int64_t)days * DAY_MS;
    approval->comment = invocation_option(invocation, 'c');
    approval->plan = invocation_option(invocation, 'p');
    return SUCCESS;
}

static struct result compose(const json_t *content, const struct set_approval *approval, json_t *root, struct buffer *payload,
                             struct error *err)
{
    OWNED_JSON member = set_approval_json(approval);
    const struct policy_set_parts parts = {.epoch = approval->base.epoch + 1,
                                           .policies = json_object_get(content, "policies"),
                                           .regions = json_object_get(content, "regions"),
                                           .groups = json_object_get(content, "groups"),
                                           .networks = json_object_get(content, "networks"),
                                           .exceptions = json_object_get(content, "exceptions"),
                                           .declassified = json_object_get(content, "declassified"),
                                           .root = root,
                                           .approval = member};

    if (member == NULL) return failure(err, ERROR_INVALID, "no memory for an approval, or text that is not UTF-8");
    return policy_set_compose(&parts, payload, err);
}

static struct result post(struct invocation *invocation, struct session *session, const char *path, struct bytes body,
                          struct error *err)
{
    OWNED_RESPONSE response = RESPONSE;
    OWNED_JSON answer = NULL;
    const struct http_request request = {.method = "POST",
                                         .path = path,
                                         .content_type = body.length == 0 ? NULL : "application/json",
                                         .body = body,
                                         .wanted = 201,
                                         .also = 200,
                                         .comes_later = true};

    TRY(session_call(session, ADMIN_SCOPE, &request, &response, err));
    TRY(json_read(buffer_bytes(&response.body), HTTP_ANSWER_MAX, &answer, err));
    return api_print(invocation, answer, err);
}

/* The payload of a draft of these members, after the person has been shown what it changes. */
static struct result prepare(struct invocation *invocation, struct session *session, const json_t *content,
                             struct buffer *payload, struct error *err)
{
    struct policy_source OWNED_SOURCE active = {.name = NULL};
    OWNED(policy_set) *set = NULL;
    OWNED_JSON root = NULL;
    struct set_approval approval = {.is_there = true};

    TRY(line_check(invocation, read_approval(invocation, &approval, err)));
    TRY(line_check(invocation, read_root(invocation, &root, err)));
    TRY(policy_check_form(content, err));
    TRY(read_active(session, &active, err));
    base_of(&active, &approval.base);
    TRY(compose(content, &approval, root, payload, err));
    TRY(policy_set_compile(buffer_bytes(payload), &set, err));
    return policy_show_changes(active.set, set, err);
}

struct result policy_draft_content(struct invocation *invocation, struct session *session, const json_t *content,
                                   struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);

    TRY(prepare(invocation, session, content, &payload, err));
    return post(invocation, session, "/api/v1/policies/drafts", buffer_bytes(&payload), err);
}

struct result policy_draft_signed(struct invocation *invocation, struct session *session, const json_t *content,
                                  const struct ecdsa_key *key, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    OWNED_RESPONSE response = RESPONSE;
    char path[PATH_ROOM], name[NAME_SIZE];
    uint8_t digest[SHA256_SIZE];

    TRY(prepare(invocation, session, content, &payload, err));
    sha256_of(buffer_bytes(&payload), digest);
    text_hex(digest, (NAME_SIZE - 1) / 2, name);
    const struct http_request drafted = {.method = "POST",
                                         .path = "/api/v1/policies/drafts",
                                         .content_type = "application/json",
                                         .body = buffer_bytes(&payload),
                                         .wanted = 201};
    TRY(session_call(session, ADMIN_SCOPE, &drafted, &response, err));
    TRY(policy_set_sign(buffer_bytes(&payload), key, &envelope, err));
    (void)snprintf(path, sizeof path, "/api/v1/policies/drafts/%s/approval", name);
    return post(invocation, session, path, buffer_bytes(&envelope), err);
}

struct result command_policy_draft(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(POLICY_SET_BYTES_MAX);
    const char *path = invocation->operands[1];
    OWNED(session) *session = NULL;
    OWNED_JSON content = NULL;

    TRY(local(file_read(path, &text, err), path, err));
    TRY(local(json_read(buffer_bytes(&text), POLICY_SET_BYTES_MAX, &content, err), path, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    return policy_draft_content(invocation, session, content, err);
}

/* ---- approving ---- */

static struct result draft_path(struct invocation *invocation, const char *name, const char *root, const char *tail,
                                char path_out[PATH_ROOM], struct error *err)
{
    uint8_t raw[(NAME_SIZE - 1) / 2];

    if (strlen(name) != NAME_SIZE - 1 || !text_from_hex(bytes_of_text(name), raw, sizeof raw))
        return line_check(invocation, failure(err, ERROR_INVALID, "%.30s: the name of a draft has 16 hex digits", name));
    (void)snprintf(path_out, PATH_ROOM, "%s/policies/drafts/%s%s", root, name, tail);
    return SUCCESS;
}

/* The name is the beginning of the digest of what is signed, so the registry can't show another draft under it. */
static struct result read_draft(const json_t *answer, const char *draft, struct policy_set **set_out, struct bytes *payload_out,
                                struct error *err)
{
    const char *payload = json_text_of(answer, "payload");
    uint8_t digest[SHA256_SIZE];
    char name[NAME_SIZE];

    if (payload == NULL) return failure(err, ERROR_CORRUPT, "the registry answered without the set");
    *payload_out = bytes_of_text(payload);
    sha256_of(*payload_out, digest);
    text_hex(digest, (NAME_SIZE - 1) / 2, name);
    if (strcmp(name, draft) != 0)
        return failure(err, ERROR_CORRUPT, "the registry answered with another draft than %.16s", draft);
    return policy_set_compile(*payload_out, set_out, err);
}

struct result policy_draft_fetch(struct invocation *invocation, struct session *session, const char *draft,
                                 struct policy_set **set_out, struct error *err)
{
    OWNED_JSON answer = NULL;
    char path[PATH_ROOM];
    struct bytes payload;

    TRY(draft_path(invocation, draft, "", "", path, err));
    TRY(api_call_in(session, "GET", path, NULL, &answer, err));
    return read_draft(answer, draft, set_out, &payload, err);
}

static struct result check_base(const struct policy_set *set, const struct policy_source *active, struct error *err)
{
    struct set_approval approval;
    struct document_pin base;

    base_of(active, &base);
    TRY(set_approval_read(policy_set_json(set), &approval, err));
    if (approval.is_there && approval.base.epoch == base.epoch &&
        memcmp(approval.base.digest, base.digest, sizeof base.digest) == 0)
        return SUCCESS;
    return failure(err, ERROR_CONFLICT, "the draft replaces another set than the one in force: draft it anew");
}

/* As the registry says: sijil-keyd finds what the set changes itself, and counts. */
static void show_needed(const json_t *answer)
{
    const char *change = json_text_of(answer, "change");
    const bool is_more = change != NULL && strcmp(change, "loosens") == 0 && number_of(answer, "needed") > 1 &&
                         !json_is_true(json_object_get(answer, "changes_root")); /* then the numbers decide */
    char why[CELL_MAX];

    cell_text(json_object_get(answer, "why"), why);
    (void)fprintf(stderr, "  %-14s %lld of %lld persons%s%s\n", "signed", (long long)number_of(answer, "persons"),
                  (long long)number_of(answer, "needed"), is_more ? ", one more because it loosens: " : "", is_more ? why : "");
}

static void show_terms(const struct policy_set *set)
{
    static const char *const members[] = {"comment", "effective_from", "expires", "plan"};
    const json_t *approval = json_object_get(policy_set_json(set), "approval");

    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        char cell[CELL_MAX];
        cell_text(json_object_get(approval, members[i]), cell);
        if (json_object_get(approval, members[i]) != NULL) (void)fprintf(stderr, "  %-14s %s\n", members[i], cell);
    }
    (void)fprintf(stderr, "  %-14s %s\n", "digest", policy_set_digest(set));
}

struct result command_policy_approve(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    char shown[PATH_ROOM], path[PATH_ROOM];
    struct policy_source OWNED_SOURCE active = {.name = NULL};
    OWNED(session) *session = NULL;
    OWNED(policy_set) *set = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON answer = NULL;
    struct bytes payload;

    TRY(draft_path(invocation, invocation->operands[1], "", "", shown, err));
    TRY(draft_path(invocation, invocation->operands[1], "/api/v1", "/approval", path, err));
    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(api_call_in(session, "GET", shown, NULL, &answer, err));
    TRY(read_draft(answer, invocation->operands[1], &set, &payload, err));
    TRY(read_active(session, &active, err));
    TRY(check_base(set, &active, err));
    TRY(policy_set_check_evidence(set, active.set, err)); /* sijil-keyd does not ask for it */
    TRY(policy_show_changes(active.set, set, err));
    show_terms(set);
    show_needed(answer);
    TRY(policy_set_sign(payload, key, &envelope, err));
    return post(invocation, session, path, buffer_bytes(&envelope), err);
}

struct result command_policy_activate(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    char path[PATH_ROOM];

    TRY(draft_path(invocation, invocation->operands[1], "/api/v1", "/activation", path, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    return post(invocation, session, path, (struct bytes){NULL, 0}, err);
}

struct result command_policy_discard(struct invocation *invocation, struct error *err)
{
    char path[PATH_ROOM];

    TRY(draft_path(invocation, invocation->operands[1], "", "", path, err));
    return api_call(invocation, "DELETE", path, NULL, NULL, err);
}

/* ---- lists ---- */

struct result command_policy_drafts(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"DRAFT", "name"},    {"EPOCH", "epoch"},     {"SIGNED", "persons"},
                                            {"NEEDED", "needed"}, {"EXPIRES", "expires"}, {"COMMENT", "comment"}};

    return api_table(invocation, "/policies/drafts", "drafts", columns, sizeof columns / sizeof columns[0], err);
}
