/* `sijil region ...`: regions from their record to their end (docs/regions.md). */
#include "client/commands/region_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "client/commands/commands_priv.h"
#include "client/terminal.h"

#define PATH_ROOM 1024

struct result command_region_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {
        {"REGION", "id"},     {"STATE", "state"}, {"GEO", "geo"},         {"REGIMES", "regimes"},
        {"DRIVER", "driver"}, {"READY", "ready"}, {"PROBLEM", "problem"}, {"QUARANTINED FOR", "quarantine"}};

    return api_table(invocation, "/regions", "regions", columns, sizeof columns / sizeof columns[0], err);
}

struct result region_as_shown(struct session *session, const char *region, json_t **found_out, struct error *err)
{
    OWNED_JSON answer = NULL;
    const json_t *rows;

    TRY(api_call_in(session, "GET", "/regions", NULL, &answer, err));
    rows = json_object_get(answer, "regions");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        const char *id = json_text_of(row, "id");
        if (id == NULL || strcmp(id, region) != 0) continue;
        *found_out = json_incref(row);
        return SUCCESS;
    }
    return failure(err, ERROR_NOT_FOUND, "the registry has no region %.63s", region);
}

/* ---- show ---- */

static struct result add_content(struct session *session, json_t *region, struct error *err)
{
    static const char *const members[] = {"blobs", "bytes", "homes", "others", "forgotten", "projects"};
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED_JSON content = NULL;

    TRY(buffer_add_text(&path, "/regions/content?limit=1000&region=", err));
    TRY(http_escape(&path, json_text_of(region, "id"), err));
    TRY(api_call_in(session, "GET", buffer_text(&path), NULL, &content, err));
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (json_object_set(region, members[i], json_object_get(content, members[i])) != 0) return api_no_memory(err);
    return SUCCESS;
}

static void print_projects(const json_t *projects)
{
    char name[CELL_MAX];

    for (size_t i = 0; i < json_array_size(projects); i++) {
        const json_t *project = json_array_get(projects, i);
        cell_text(json_object_get(project, "name"), name);
        (void)printf("  %-40s %lld blobs, %lld bytes%s\n", name, (long long)number_of(project, "blobs"),
                     (long long)number_of(project, "bytes"),
                     json_is_true(json_object_get(project, "home")) ? ", at home here" : "");
    }
}

struct result command_region_show(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED_JSON region = NULL;

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(region_as_shown(session, invocation->operands[1], &region, err));
    TRY(add_content(session, region, err));
    if (invocation->json) return api_print(invocation, region, err);
    OWNED_JSON projects = json_incref(json_object_get(region, "projects"));
    (void)json_object_del(region, "projects");
    TRY(api_print(invocation, region, err));
    print_projects(projects);
    return SUCCESS;
}

/* ---- check, drain, retire ---- */

static struct result call(struct invocation *invocation, const char *path, const char *flag, bool is_set, json_t **answer_out,
                          struct error *err)
{
    OWNED_JSON body = json_pack("{s:s}", "region", invocation->operands[1]);

    if (body == NULL || (flag != NULL && is_set && json_object_set_new(body, flag, json_true()) != 0))
        return line_check(invocation, failure(err, ERROR_INVALID, "a region that is not UTF-8"));
    return api_call(invocation, "POST", path, body, answer_out, err);
}

static void print_findings(const json_t *findings)
{
    char about[CELL_MAX], what[CELL_MAX];

    for (size_t i = 0; i < json_array_size(findings); i++) {
        const json_t *finding = json_array_get(findings, i);
        cell_text(json_object_get(finding, "about"), about);
        cell_text(json_object_get(finding, "what"), what);
        (void)printf("  %s %s: %s\n", json_is_true(json_object_get(finding, "grave")) ? "WRONG" : "note ", about, what);
    }
}

struct result command_region_check(struct invocation *invocation, struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(call(invocation, "/regions/check", "adopt", invocation_option(invocation, 'a') != NULL, &answer, err));
    const bool agrees = json_is_true(json_object_get(answer, "agrees"));
    if (!agrees) invocation->ends_with = EXIT_DAMAGED;
    OWNED_JSON findings = json_incref(json_object_get(answer, "findings"));
    if (!invocation->json) (void)json_object_del(answer, "findings");
    TRY(api_print(invocation, answer, err));
    if (!invocation->json) print_findings(findings);
    if (agrees) return SUCCESS;
    if (!json_is_true(json_object_get(answer, "told"))) {
        char trouble[CELL_MAX];
        cell_text(json_object_get(answer, "trouble"), trouble);
        return failure(err, ERROR_CONFLICT, "the store told nothing, so nothing is proven: %.200s", trouble);
    }
    return failure(
        err, ERROR_CONFLICT,
        "the store is not what its record says, so the region is quarantined: set the store right, or have a record signed "
        "that says what is right ('sijil region add --change'), then check again");
}

struct result command_region_drain(struct invocation *invocation, struct error *err)
{
    OWNED_JSON answer = NULL;
    OWNED_JSON target = NULL;
    OWNED(session) *session = NULL;

    const char *to = invocation_option(invocation, 't');

    if (to != NULL && invocation_option(invocation, 'e') != NULL)
        return line_check(invocation, failure(err, ERROR_INVALID, "--to and --end do not go together"));
    if (to != NULL) { /* before anything drains */
        TRY(command_session(invocation, invocation->operands[0], &session, err));
        TRY(region_as_shown(session, to, &target, err));
    }
    TRY(call(invocation, "/regions/drain", "end", invocation_option(invocation, 'e') != NULL, &answer, err));
    return to == NULL ? api_print(invocation, answer, err) : drain_to(invocation, to, err);
}

struct result command_region_retire(struct invocation *invocation, struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(call(invocation, "/regions/retire", NULL, false, &answer, err));
    return api_print(invocation, answer, err);
}
