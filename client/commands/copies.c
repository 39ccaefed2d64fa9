/* `sijil admin project replicate | migrate | copies`, `sijil region drain`: where a project's content is (docs/replication.md). */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/terminal_text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/region_priv.h"

static struct result path_of(const struct invocation *invocation, struct buffer *path, struct error *err)
{
    return buffer_format(path, err, "/projects/%s/copies", invocation->operands[1]);
}

static struct result ask_for(struct invocation *invocation, bool is_move, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    OWNED_JSON answer = NULL;
    OWNED_JSON body = json_pack("{s:s}", "region", invocation->operands[2]);
    const bool is_end = invocation_option(invocation, 'e') != NULL;

    if (body == NULL || (is_end && json_object_set_new(body, "end", json_true()) != 0))
        return line_check(invocation, failure(err, ERROR_INVALID, "a region that is not UTF-8"));
    TRY(buffer_format(&path, err, "/projects/%s/%s", invocation->operands[1], is_move && !is_end ? "move" : "copies"));
    TRY(api_call(invocation, "POST", buffer_text(&path), body, &answer, err));
    return api_print(invocation, answer, err);
}

struct result command_project_replicate(struct invocation *invocation, struct error *err)
{
    return ask_for(invocation, false, err);
}

/* ---- Another home ---- */

static void print_denials(const json_t *denials)
{
    char digest[CELL_MAX], name[CELL_MAX], rule[CELL_MAX];

    for (size_t i = 0; i < json_array_size(denials); i++) {
        const json_t *denial = json_array_get(denials, i);
        cell_text(json_object_get(denial, "digest"), digest);
        cell_text(json_object_get(denial, "name"), name);
        cell_text(json_object_get(denial, "rule"), rule);
        (void)printf("  %s denies %s %s\n", rule, name, digest);
    }
}

static struct result show_plan(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    OWNED_JSON answer = NULL;

    TRY(buffer_format(&path, err, "/projects/%s/move?region=", invocation->operands[1]));
    TRY(http_escape(&path, invocation->operands[2], err));
    TRY(api_call(invocation, "GET", buffer_text(&path), NULL, &answer, err));
    if (invocation->json) return api_print(invocation, answer, err);
    OWNED_JSON denials = json_incref(json_object_get(answer, "denials"));
    (void)json_object_del(answer, "denials");
    TRY(api_print(invocation, answer, err));
    print_denials(denials);
    return SUCCESS;
}

struct result command_project_migrate(struct invocation *invocation, struct error *err)
{
    return invocation_option(invocation, 'p') != NULL ? show_plan(invocation, err) : ask_for(invocation, true, err);
}

/* Whether a project that was refused a move is on its way there already, as another `region drain` has asked. */
static bool is_on_its_way(struct session *session, const char *name, const char *to)
{
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    OWNED_JSON answer = NULL;
    struct error ignored = {0};
    const json_t *row = NULL;
    size_t i = 0;

    if (!buffer_format(&path, &ignored, "/projects/%s/copies", name).ok ||
        !api_call_in(session, "GET", buffer_text(&path), NULL, &answer, &ignored).ok)
        return false;
    json_array_foreach (json_object_get(answer, "copies"), i, row) {
        const char *region = json_text_of(row, "region"), *move = json_text_of(row, "move");
        if (region != NULL && move != NULL && strcmp(region, to) == 0 && strcmp(move, "to") == 0) return true;
    }
    return false;
}

/* One project of a region that is drained. What does not move keeps its reason, and the others go on. */
static struct result move_one(struct session *session, const json_t *project, const char *to, json_t *rows, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    const char *name = json_text_of(project, "name");
    OWNED_JSON body = json_pack("{s:s}", "region", to);
    struct error why = {0};

    if (body == NULL || name == NULL) return api_no_memory(err);
    TRY(buffer_format(&path, err, "/projects/%s/move", name));
    const bool is_home = json_is_true(json_object_get(project, "home"));
    if (is_home && !api_call_in(session, "POST", buffer_text(&path), body, NULL, &why).ok) {
        if (why.kind == ERROR_UNAVAILABLE) return failure(err, why.kind, "%s", why.message);
        if (is_on_its_way(session, name, to)) why = (struct error){0};
    }
    OWNED_JSON row = json_pack("{s:s, s:b, s:s}", "project", name, "moves", is_home && why.kind == ERROR_NONE, "why",
                               is_home ? why.message : "copies alone: 'sijil admin project replicate --end' withdraws them");
    if (row != NULL && is_home && why.kind != ERROR_NONE && json_object_set_new(row, "stays", json_true()) != 0)
        return api_no_memory(err);
    return row != NULL && json_array_append(rows, row) == 0 ? SUCCESS : api_no_memory(err);
}

/* The rows say why. */
static struct result check_all_move(const json_t *rows, struct error *err)
{
    char names[200] = "";
    size_t staying = 0, used = 0;

    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (!json_is_true(json_object_get(row, "stays"))) continue;
        const char *name = json_text_of(row, "project");
        if (staying++ > 0 && used + 2 < sizeof names) used += (size_t)snprintf(names + used, sizeof names - used, ", ");
        if (used + strlen(name) < sizeof names) used += (size_t)snprintf(names + used, sizeof names - used, "%s", name);
    }
    terminal_sanitize(names);
    return staying == 0 ? SUCCESS : failure(err, ERROR_CONFLICT, "%zu do not move: %s", staying, names);
}

#define DRAIN_PROJECTS_MAX 100000

struct result drain_to(struct invocation *invocation, const char *to, struct error *err)
{
    static const struct column columns[] = {{"PROJECT", "project"}, {"MOVES", "moves"}, {"WHY", "why"}};
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    OWNED(session) *session = NULL;
    OWNED_JSON projects = json_array();
    OWNED_JSON rows = json_array();

    if (projects == NULL || rows == NULL) return api_no_memory(err);
    TRY(buffer_add_text(&path, "/regions/content?region=", err));
    TRY(http_escape(&path, invocation->operands[1], err));
    TRY(api_get_pages(invocation, buffer_text(&path), "projects", DRAIN_PROJECTS_MAX, projects, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    for (size_t i = 0; i < json_array_size(projects); i++) TRY(move_one(session, json_array_get(projects, i), to, rows, err));
    TRY(api_print_rows(invocation, rows, columns, sizeof columns / sizeof columns[0], err));
    return check_all_move(rows, err);
}

struct result command_project_copies(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"REGION", "region"},       {"STATE", "state"},         {"MOVE", "move"},
                                            {"COPIES", "blobs"},        {"BYTES", "bytes"},         {"WAITING", "waiting_blobs"},
                                            {"BYTES", "waiting_bytes"}, {"DENIED", "denied_blobs"}, {"WHY", "why"}};
    struct buffer OWNED_BUFFER path = BUFFER(1024);

    TRY(path_of(invocation, &path, err));
    return api_table(invocation, buffer_text(&path), "copies", columns, sizeof columns / sizeof columns[0], err);
}
