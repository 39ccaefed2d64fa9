/* `sijil admin content-hold ...`: legal holds of content. One person sets a hold; one asks for its end, and another one agrees. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"

#define PATH_ROOM 1024
#define HOLDS_MAX 100000 /* rows that are looked through for one id */

static struct result read_reason(struct invocation *invocation, json_t **body_out, struct error *err)
{
    const char *reason = invocation_option(invocation, 'r');

    if (reason == NULL) return line_check(invocation, failure(err, ERROR_INVALID, "--reason TEXT: why"));
    *body_out = json_pack("{s:s, s:s}", "scope", invocation->operands[1], "reason", reason);
    if (*body_out != NULL) return SUCCESS;
    return line_check(invocation, failure(err, ERROR_INVALID, "a scope or a reason that is not UTF-8"));
}

struct result command_content_hold_add(struct invocation *invocation, struct error *err)
{
    OWNED_JSON body = NULL;
    OWNED_JSON answer = NULL;

    TRY(read_reason(invocation, &body, err));
    TRY(api_call(invocation, "POST", "/content-holds", body, &answer, err));
    return api_print(invocation, answer, err);
}

struct result command_content_hold_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"ID", "id"},         {"STATE", "state"}, {"SCOPE", "scope"},
                                            {"REASON", "reason"}, {"SET", "set"},     {"WHY IT SHALL END", "release_reason"}};
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);

    TRY(api_add_list(&path, "/content-holds", invocation->operand_count > 1 ? invocation->operands[1] : "", err));
    return api_list(invocation, buffer_text(&path), "holds", columns, sizeof columns / sizeof columns[0], err);
}

static struct result add_end(const struct invocation *invocation, const char *what, struct buffer *path, struct error *err)
{
    TRY(buffer_add_text(path, "/content-holds/", err));
    TRY(http_escape(path, invocation->operands[2], err));
    return buffer_add_text(path, what, err);
}

struct result command_content_hold_release(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED_JSON body = NULL;
    OWNED_JSON answer = NULL;

    TRY(read_reason(invocation, &body, err));
    TRY(add_end(invocation, "/release", &path, err));
    TRY(api_call(invocation, "POST", buffer_text(&path), body, &answer, err));
    if (!invocation->json) (void)fprintf(stderr, "it holds until another person agrees, within seven days\n");
    return api_print(invocation, answer, err);
}

static struct result find(struct invocation *invocation, json_t **found_out, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED_JSON rows = json_array();

    if (rows == NULL) return api_no_memory(err);
    TRY(api_add_list(&path, "/content-holds", invocation->operands[1], err));
    TRY(api_get_pages(invocation, buffer_text(&path), "holds", HOLDS_MAX, rows, err));
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        const char *id = json_text_of(row, "id"), *scope = json_text_of(row, "scope");
        if (id == NULL || scope == NULL || strcmp(id, invocation->operands[2]) != 0 ||
            strcmp(scope, invocation->operands[1]) != 0)
            continue;
        *found_out = json_incref(row);
        return SUCCESS;
    }
    return failure(err, ERROR_NOT_FOUND, "there is no hold %.40s on %.200s that you may see", invocation->operands[2],
                   invocation->operands[1]);
}

static void show(const json_t *row)
{
    static const char *const members[] = {"scope", "reason", "set", "release_reason", "asked", "asked_by"};
    char cell[CELL_MAX];

    (void)printf("You release:\n");
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        cell_text(json_object_get(row, members[i]), cell);
        (void)printf("  %-14s %s\n", members[i], cell);
    }
}

struct result command_content_hold_approve(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED_JSON row = NULL;
    OWNED_JSON answer = NULL;

    TRY(find(invocation, &row, err));
    const char *asked_by = json_text_of(row, "asked_by");
    if (asked_by == NULL) return failure(err, ERROR_CONFLICT, "nobody has asked for the end of this hold yet");
    OWNED_JSON body = json_pack("{s:s, s:s}", "scope", invocation->operands[1], "asked_by", asked_by);
    if (body == NULL) return api_no_memory(err);
    if (!invocation->json) show(row);
    TRY(add_end(invocation, "/release/approval", &path, err));
    TRY(api_call(invocation, "POST", buffer_text(&path), body, &answer, err));
    return api_print(invocation, answer, err);
}
