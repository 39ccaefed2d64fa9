/* `sijil admin organisation|project|repository delete`: shows the plan, then deletes exactly what the plan names. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/terminal.h"

#define PATH_SIZE 2048

static void show_count(const json_t *plan, const char *member, const char *what)
{
    const int64_t number = number_of(plan, member);

    if (number != 0) (void)printf("%-14s %" PRId64 "\n", what, number);
}

static void show_kept(const json_t *plan)
{
    const json_t *kept = json_object_get(plan, "kept");
    char name[CELL_MAX], rule[CELL_MAX], policy[CELL_MAX], until[CELL_MAX];

    if (number_of(plan, "kept_count") > 0) (void)printf("must be kept:\n");
    for (size_t i = 0; i < json_array_size(kept); i++) {
        const json_t *entry = json_array_get(kept, i);
        cell_text(json_object_get(entry, "repository"), name);
        cell_text(json_object_get(entry, "rule"), rule);
        cell_text(json_object_get(entry, "policy"), policy);
        cell_text(json_object_get(entry, "until"), until);
        (void)printf("  %s  by %s of %s, until %s\n", name, rule, policy, until);
    }
}

static struct result show_plan(const struct invocation *invocation, const json_t *plan, struct error *err)
{
    static const struct {
        const char *member, *what;
    } rows[] = {{"projects", "projects"},
                {"repositories", "repositories"},
                {"tags", "tags"},
                {"manifests", "manifests"},
                {"blobs", "blobs"},
                {"bytes", "bytes"},
                {"blobs_shared", "blobs kept"},
                {"uploads", "open uploads"},
                {"bindings", "roles"},
                {"robots", "robots"},
                {"labels", "labels"},
                {"tags_immutable", "immutable tags"},
                {"drafts", "drafts"},
                {"documents", "keys, runners"}};
    char cell[CELL_MAX];

    if (!json_is_object(plan)) return failure(err, ERROR_INVALID, "the registry answered without a plan");
    if (invocation->json) return api_print_json(plan, err);
    cell_text(json_object_get(plan, "name"), cell);
    (void)printf("%-14s %s\n", "deletes", cell);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) show_count(plan, rows[i].member, rows[i].what);
    show_kept(plan);
    cell_text(json_object_get(plan, "plan"), cell);
    (void)printf("%-14s %s\n", "plan", cell);
    return SUCCESS;
}

static struct result path_of(const struct invocation *invocation, const char *kind, const char *suffix, struct buffer *path,
                             struct error *err)
{
    return buffer_format(path, err, "/api/v1/%s/%s%s", kind, invocation->operands[1], suffix);
}

static struct result plan_only(struct invocation *invocation, struct session *session, const char *kind, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_SIZE);
    OWNED_RESPONSE response = RESPONSE;
    OWNED_JSON plan = NULL;

    TRY(path_of(invocation, kind, "/deletion", &path, err));
    const struct http_request request = {.method = "GET", .path = buffer_text(&path), .wanted = 200};
    TRY(session_call(session, ADMIN_SCOPE, &request, &response, err));
    TRY(json_read(buffer_bytes(&response.body), HTTP_ANSWER_MAX, &plan, err));
    return show_plan(invocation, plan, err);
}

static struct result say_deleted(const struct invocation *invocation, struct error *err)
{
    if (!invocation->json) {
        (void)fprintf(stderr, "deleted %s; the next collection frees its bytes\n", invocation->operands[1]);
        return SUCCESS;
    }
    OWNED_JSON object = json_pack("{s:s}", "deleted", invocation->operands[1]);
    return object == NULL ? failure(err, ERROR_INVALID, "a name that is not UTF-8") : api_print_json(object, err);
}

/* The answer to a refused deletion has the current plan. */
static struct result refused(struct invocation *invocation, const struct http_response *response, struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(json_read(buffer_bytes(&response->body), HTTP_ANSWER_MAX, &answer, err));
    if (json_object_get(answer, "plan") != NULL) TRY(show_plan(invocation, json_object_get(answer, "plan"), err));
    const struct result told = refusal(&invocation->report, response, err);
    const char *plan = json_text_of(json_object_get(answer, "plan"), "plan");
    if (plan == NULL) return told;
    invocation_explain(invocation, "plan", plan);
    return failure(err, ERROR_CONFLICT, "409: nothing was deleted: read the plan, then repeat the command with --plan %.80s",
                   plan);
}

static struct result erase(struct invocation *invocation, const char *kind, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_SIZE);
    const char *plan = invocation_option(invocation, 'p');
    OWNED_RESPONSE response = RESPONSE;
    OWNED(session) *session = NULL;

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    if (invocation_option(invocation, 'n') != NULL) return plan_only(invocation, session, kind, err);
    TRY(path_of(invocation, kind, plan == NULL ? "" : "?plan=", &path, err));
    if (plan != NULL) TRY(http_escape(&path, plan, err));
    const struct http_request request = {.method = "DELETE", .path = buffer_text(&path), .wanted = 204, .also = 409};
    TRY(session_call(session, ADMIN_SCOPE, &request, &response, err));
    return response.status == 409 ? refused(invocation, &response, err) : say_deleted(invocation, err);
}

struct result command_organisation_delete(struct invocation *invocation, struct error *err)
{
    return erase(invocation, "organisations", err);
}

struct result command_project_delete(struct invocation *invocation, struct error *err)
{
    return erase(invocation, "projects", err);
}

struct result command_repository_delete(struct invocation *invocation, struct error *err)
{
    return erase(invocation, "repositories", err);
}
