/* `sijil policy exception ...`: dated leaves from named rules of one version of a policy (docs/policies.md, "Exceptions"). */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/commands_priv.h"
#include "client/commands/policy_priv.h"
#include "crypto/random.h"
#include "policy/set_exceptions.h"

#define PATH_ROOM  512
#define ROBOTS     "sijil:registry" /* the issuer of the registry's own robots */
#define PERSON_MAX 1024

static struct result no_utf8(struct error *err)
{
    return failure(err, ERROR_INVALID, "a text that is not UTF-8, or no memory");
}

static struct result texts_of(const struct invocation *invocation, int letter, json_t **texts_out, struct error *err)
{
    OWNED_JSON texts = json_array();
    unsigned at = 0;

    for (const char *each; (each = invocation_next_option(invocation, letter, &at)) != NULL;)
        if (json_array_append_new(texts, json_string(each)) != 0) return no_utf8(err);
    *texts_out = GIVE(texts);
    return SUCCESS;
}

/* ---- persons ---- */

static struct result read_self(struct session *session, json_t **person_out, struct error *err)
{
    OWNED_JSON self = NULL;

    TRY(api_call_in(session, "GET", "/self", NULL, &self, err));
    const char *issuer = json_text_of(self, "issuer"), *name = json_text_of(self, "name"), *id = json_text_of(self, "id");
    if (issuer != NULL && name != NULL) *person_out = json_pack("{s:s, s:s}", "iss", issuer, "sub", name);
    else if (id != NULL) *person_out = json_pack("{s:s, s:s}", "iss", ROBOTS, "sub", id);
    else return failure(err, ERROR_INVALID, "this login is no person's: sijil whoami");
    return *person_out == NULL ? api_no_memory(err) : SUCCESS;
}

/* "SUBJECT" of the caller's own issuer, or "ISSUER SUBJECT". */
static struct result add_approver(json_t *approvals, const json_t *self, const char *given, struct error *err)
{
    const char *blank = strchr(given, ' ');
    char issuer[PERSON_MAX];

    (void)snprintf(issuer, sizeof issuer, "%.*s", blank == NULL ? 0 : (int)(blank - given), given);
    json_t *person = json_pack("{s:s, s:s}", "iss", blank == NULL ? json_text_of(self, "iss") : issuer, "sub",
                               blank == NULL ? given : blank + 1);
    return json_array_append_new(approvals, person) == 0 ? SUCCESS : no_utf8(err);
}

static struct result read_approvers(const struct invocation *invocation, const json_t *self, json_t **approvals_out,
                                    struct error *err)
{
    OWNED_JSON approvals = json_array();
    unsigned at = 0;

    for (const char *each; (each = invocation_next_option(invocation, 'a', &at)) != NULL;)
        TRY(add_approver(approvals, self, each, err));
    *approvals_out = GIVE(approvals);
    return SUCCESS;
}

/* ---- the policy ---- */

/* The newest version of the policy in the set in force, with its document. */
struct bound_policy {
    const json_t *described, *document; /* views of the answer */
};

static const json_t *document_of(const json_t *set, const char *id, int64_t version)
{
    const json_t *policies = json_object_get(set, "policies");

    for (size_t i = 0; i < json_array_size(policies); i++) {
        const json_t *each = json_array_get(policies, i), *metadata = json_object_get(each, "metadata");
        const char *name = json_text_of(metadata, "id");
        if (name != NULL && strcmp(name, id) == 0 && number_of(metadata, "version") == version) return each;
    }
    return NULL;
}

static struct result find_policy(const json_t *answer, const char *id, struct bound_policy *bound, struct error *err)
{
    const json_t *policies = json_object_get(answer, "policies");

    for (size_t i = 0; i < json_array_size(policies); i++) {
        const json_t *each = json_array_get(policies, i);
        const char *name = json_text_of(each, "id");
        const bool is_newer = bound->described == NULL || number_of(each, "version") > number_of(bound->described, "version");
        if (name != NULL && strcmp(name, id) == 0 && is_newer) bound->described = each;
    }
    if (bound->described != NULL)
        bound->document = document_of(json_object_get(answer, "set"), id, number_of(bound->described, "version"));
    if (bound->document != NULL) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "the set in force has no policy %.64s", id);
}

/* The only type of exceptions that the policy has, or the one that is asked for. */
static struct result choose_type(const struct invocation *invocation, const struct bound_policy *bound, const char **type_out,
                                 struct error *err)
{
    json_t *types = json_object_get(bound->document, "exception_types");
    const char *asked = invocation_option(invocation, 't');

    if (asked == NULL && json_object_size(types) == 1) asked = json_object_iter_key(json_object_iter(types));
    if (asked == NULL || json_object_get(types, asked) == NULL)
        return failure(err, ERROR_INVALID, "%s%.64s: the policy has %zu types of exceptions; --type names one of them",
                       asked == NULL ? "no type" : "--type ", asked == NULL ? "" : asked, json_object_size(types));
    *type_out = asked;
    return SUCCESS;
}

/* ---- the exception ---- */

static struct result read_evidence(const struct invocation *invocation, json_t **evidence_out, struct error *err)
{
    OWNED_JSON evidence = json_object();
    unsigned at = 0;

    for (const char *each; (each = invocation_next_option(invocation, 'e', &at)) != NULL;) {
        const char *path = strchr(each, '=');
        char digest[DIGEST_TEXT_SIZE], name[CELL_MAX];
        if (path == NULL || path == each) return failure(err, ERROR_INVALID, "--evidence %.60s: NAME=FILE", each);
        (void)snprintf(name, sizeof name, "%.*s", (int)(path - each), each);
        TRY(policy_digest_file(path + 1, digest, err));
        if (json_object_set_new(evidence, name, json_string(digest)) != 0) return no_utf8(err);
    }
    *evidence_out = GIVE(evidence);
    return SUCCESS;
}

static struct result read_times(const struct invocation *invocation, json_t *exception, struct error *err)
{
    const char *from = invocation_option(invocation, 'b'), *until = invocation_option(invocation, 'u');
    char now[CLOCK_TEXT_SIZE];
    int64_t at_ms = 0;

    clock_format(clock_wall_ms(), now);
    if (from != NULL && !clock_parse(bytes_of_text(from), &at_ms))
        return failure(err, ERROR_INVALID, "--begin %.40s: a time, such as 2026-12-01T00:00:00Z", from);
    if (until == NULL || !clock_parse(bytes_of_text(until), &at_ms))
        return failure(err, ERROR_INVALID, "--until is needed: a time, such as 2026-12-08T00:00:00Z");
    if (json_object_set_new(exception, "not_before", json_string(from == NULL ? now : from)) != 0 ||
        json_object_set_new(exception, "not_after", json_string(until)) != 0)
        return api_no_memory(err);
    return SUCCESS;
}

static struct result read_uses(const struct invocation *invocation, json_t *exception, struct error *err)
{
    const char *text = invocation_option(invocation, 'n');
    uint64_t uses = 1;

    if (text != NULL && (!text_to_u64(bytes_of_text(text), INT64_MAX, &uses) || uses == 0))
        return failure(err, ERROR_INVALID, "--uses %.30s: a whole number from 1", text);
    return json_object_set_new(exception, "uses_left", json_integer((json_int_t)uses)) == 0 ? SUCCESS : api_no_memory(err);
}

static struct result set_name(const struct invocation *invocation, const char *type, json_t *exception, struct error *err)
{
    const char *given = invocation_option(invocation, 'i');
    char name[65], hex[9];
    uint8_t random[4];

    random_bytes(random, sizeof random);
    text_hex(random, sizeof random, hex);
    (void)snprintf(name, sizeof name, "%.50s-%s", type, hex);
    return json_object_set_new(exception, "id", json_string(given == NULL ? name : given)) == 0 ? SUCCESS : no_utf8(err);
}

static struct result read_lists(const struct invocation *invocation, const json_t *type, json_t *exception, struct error *err)
{
    static const struct {
        int letter;
        const char *member;
    } lists[] = {{'l', "lifts"}, {'o', "ops"}, {'T', "targets"}, {'d', "digests"}};

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        OWNED_JSON texts = NULL;
        TRY(texts_of(invocation, lists[i].letter, &texts, err));
        json_t *chosen = json_array_size(texts) == 0 && i == 0 ? json_object_get(type, "lifts") : texts;
        if (json_object_set(exception, lists[i].member, chosen) != 0) return api_no_memory(err);
    }
    return SUCCESS;
}

static struct result make(struct invocation *invocation, struct session *session, const struct bound_policy *bound,
                          json_t **exception_out, struct error *err)
{
    OWNED_JSON self = NULL;
    OWNED_JSON approvals = NULL;
    OWNED_JSON evidence = NULL;
    OWNED_JSON project = NULL;
    const char *type = NULL;
    char path[PATH_ROOM];

    TRY(line_check(invocation, choose_type(invocation, bound, &type, err)));
    TRY(line_check(invocation, read_evidence(invocation, &evidence, err)));
    TRY(read_self(session, &self, err));
    TRY(read_approvers(invocation, self, &approvals, err));
    (void)snprintf(path, sizeof path, "/projects/%.400s", invocation->operands[1]);
    TRY(api_call_in(session, "GET", path, NULL, &project, err));
    OWNED_JSON exception = json_pack(
        "{s:s, s:s, s:s, s:O, s:{s:O, s:O, s:O}, s:O, s:O, s:O}", "apiVersion", "sijil.policy/v1", "kind", "ResidencyException",
        "type", type, "project", json_object_get(project, "id"), "policy", "id", json_object_get(bound->described, "id"),
        "version", json_object_get(bound->described, "version"), "digest", json_object_get(bound->described, "digest"),
        "requested_by", self, "approvals", approvals, "evidence", evidence);
    if (exception == NULL) return api_no_memory(err);
    TRY(set_name(invocation, type, exception, err));
    TRY(read_lists(invocation, json_object_get(json_object_get(bound->document, "exception_types"), type), exception, err));
    TRY(line_check(invocation, read_times(invocation, exception, err)));
    TRY(line_check(invocation, read_uses(invocation, exception, err)));
    *exception_out = GIVE(exception);
    return SUCCESS;
}

static struct result lifts_nothing(const json_t *content, const char *id, struct error *err)
{
    const json_t *exception = NULL, *policy, *type;
    char lifts[CELL_MAX], evidence[CELL_MAX];

    for (size_t i = 0; i < json_array_size(json_object_get(content, "exceptions")); i++) {
        const json_t *each = json_array_get(json_object_get(content, "exceptions"), i);
        if (strcmp(json_text_of(each, "id"), id) == 0) exception = each;
    }
    policy = json_object_get(exception, "policy");
    const json_t *document = document_of(content, json_text_of(policy, "id"), number_of(policy, "version"));
    type = json_object_get(json_object_get(document, "exception_types"), json_text_of(exception, "type"));
    cell_text(json_object_get(type, "lifts"), lifts);
    cell_text(json_object_get(type, "required_evidence"), evidence);
    return failure(
        err, ERROR_INVALID,
        "it would lift nothing: its type lifts %.60s for at most %lld days, with %lld approvers other than you and the evidence %.100s",
        lifts, (long long)number_of(type, "max_days"), (long long)number_of(type, "approvals"), evidence);
}

/* What would lift nothing is not worth the signatures of others. */
static struct result check_lifts(const json_t *content, const char *id, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED(policy_set) *set = NULL;
    struct policy_exception_view view;

    TRY(policy_compose(content, 0, &payload, err));
    TRY(policy_set_compile(buffer_bytes(&payload), &set, err));
    for (size_t i = 0; i < policy_set_exception_count(set); i++) {
        policy_set_exception(set, i, clock_wall_ms() * 1000, &view);
        if (strcmp(view.id, id) == 0 && strcmp(view.state, "lifts-nothing") == 0) return lifts_nothing(content, id, err);
        if (strcmp(view.id, id) == 0 && strcmp(view.state, "ended") == 0)
            return failure(err, ERROR_INVALID, "it would have ended already");
    }
    return SUCCESS;
}

static struct result read_content(struct session *session, json_t **answer_out, json_t **content_out, struct error *err)
{
    TRY(api_call_in(session, "GET", "/policies", NULL, answer_out, err));
    *content_out = json_incref(json_object_get(*answer_out, "set"));
    return *content_out == NULL ? failure(err, ERROR_CORRUPT, "the registry answered without the policy set") : SUCCESS;
}

struct result command_policy_exception_request(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED_JSON answer = NULL;
    OWNED_JSON content = NULL;
    OWNED_JSON exception = NULL;
    struct bound_policy bound = {NULL, NULL};

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(read_content(session, &answer, &content, err));
    TRY(find_policy(answer, invocation->operands[2], &bound, err));
    TRY(make(invocation, session, &bound, &exception, err));
    if (json_array_append(json_object_get(content, "exceptions"), exception) != 0) return api_no_memory(err);
    TRY(line_check(invocation, check_lifts(content, json_text_of(exception, "id"), err)));
    return policy_draft_content(invocation, session, content, err);
}

/* ---- its end ---- */

static bool remove_exception(json_t *exceptions, const char *id)
{
    bool is_there = false;

    for (size_t i = json_array_size(exceptions); i-- > 0;) {
        const char *name = json_text_of(json_array_get(exceptions, i), "id");
        if (name == NULL || strcmp(name, id) != 0) continue;
        is_there = true;
        (void)json_array_remove(exceptions, i);
    }
    return is_there;
}

struct result command_policy_exception_revoke(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON answer = NULL;
    OWNED_JSON content = NULL;

    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(read_content(session, &answer, &content, err));
    if (!remove_exception(json_object_get(content, "exceptions"), invocation->operands[1]))
        return failure(err, ERROR_NOT_FOUND, "the set in force has no exception %.64s", invocation->operands[1]);
    return policy_draft_signed(invocation, session, content, key, err);
}

/* ---- lists ---- */

/* What a table shows of the exception itself. */
static struct result flatten(json_t *row, struct error *err)
{
    const json_t *exception = json_object_get(row, "exception"), *policy = json_object_get(exception, "policy");
    char name[CELL_MAX];

    (void)snprintf(name, sizeof name, "%.64s@%lld", json_text_of(policy, "id"), (long long)number_of(policy, "version"));
    if (json_object_set_new(row, "policy", json_string(name)) != 0 ||
        json_object_set(row, "lifts", json_object_get(exception, "lifts")) != 0 ||
        json_object_set(row, "project", json_object_get(exception, "project")) != 0 ||
        json_object_set(row, "until", json_object_get(exception, "not_after")) != 0)
        return api_no_memory(err);
    return SUCCESS;
}

struct result command_policy_exception_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"EXCEPTION", "id"},     {"STATE", "state"},    {"USED", "used"},
                                            {"OF", "uses"},          {"UNTIL", "until"},    {"LIFTS", "lifts"},
                                            {"OF POLICY", "policy"}, {"PROJECT", "project"}};
    OWNED_JSON answer = NULL;

    TRY(api_call(invocation, "GET", "/policies/exceptions", NULL, &answer, err));
    json_t *rows = json_object_get(answer, "exceptions");
    for (size_t i = 0; i < json_array_size(rows); i++) TRY(flatten(json_array_get(rows, i), err));
    return api_print_rows(invocation, rows, columns, sizeof columns / sizeof columns[0], err);
}

struct result command_policy_exception_show(struct invocation *invocation, struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(api_call(invocation, "GET", "/policies/exceptions", NULL, &answer, err));
    const json_t *rows = json_object_get(answer, "exceptions");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        const char *id = json_text_of(row, "id");
        if (id == NULL || strcmp(id, invocation->operands[1]) != 0) continue;
        if (!invocation->json && json_object_update_missing(row, json_object_get(row, "exception")) != 0)
            return api_no_memory(err);
        if (!invocation->json) (void)json_object_del(row, "exception");
        return api_print(invocation, row, err);
    }
    return failure(err, ERROR_NOT_FOUND, "the set in force has no exception %.64s", invocation->operands[1]);
}
