/* `sijil admin project replicate | copies`: further regions with copies of a project's content (docs/replication.md). */
#include <stdio.h>

#include "base/json.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"

static struct result path_of(const struct invocation *invocation, struct buffer *path, struct error *err)
{
    return buffer_format(path, err, "/projects/%s/copies", invocation->operands[1]);
}

struct result command_project_replicate(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    OWNED_JSON answer = NULL;
    OWNED_JSON body = json_pack("{s:s}", "region", invocation->operands[2]);

    if (body == NULL || (invocation_option(invocation, 'e') != NULL && json_object_set_new(body, "end", json_true()) != 0))
        return line_check(invocation, failure(err, ERROR_INVALID, "a region that is not UTF-8"));
    TRY(path_of(invocation, &path, err));
    TRY(api_call(invocation, "POST", buffer_text(&path), body, &answer, err));
    return api_print(invocation, answer, err);
}

struct result command_project_copies(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {
        {"REGION", "region"},         {"STATE", "state"},         {"COPIES", "blobs"},        {"BYTES", "bytes"},
        {"WAITING", "waiting_blobs"}, {"BYTES", "waiting_bytes"}, {"DENIED", "denied_blobs"}, {"WHY", "why"}};
    struct buffer OWNED_BUFFER path = BUFFER(1024);

    TRY(path_of(invocation, &path, err));
    return api_table(invocation, buffer_text(&path), "copies", columns, sizeof columns / sizeof columns[0], err);
}
