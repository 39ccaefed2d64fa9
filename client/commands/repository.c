/* `sijil tags` and `sijil delete`. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/local.h"
#include "client/reference.h"
#include "client/session.h"
#include "registry/names/reference.h"

#define PAGES_MAX 100000 /* of a thousand tags each */

void next_page(const struct http_response *response, char *path, size_t room)
{
    const char *open = strchr(response->link, '<'), *close = strchr(response->link, '>');

    path[0] = '\0';
    if (open == NULL || close == NULL || close < open || strstr(close, "rel=\"next\"") == NULL) return;
    if ((size_t)(close - open) >= room) return;
    memcpy(path, open + 1, (size_t)(close - open - 1));
    path[close - open - 1] = '\0';
}

/* Appends every tag of a page; text that is not a tag is left out. */
static struct result take_tags(const struct http_response *response, json_t *tags, struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(json_read(buffer_bytes(&response->body), HTTP_ANSWER_MAX, &answer, err));
    const json_t *page = json_object_get(answer, "tags");
    for (size_t i = 0; i < json_array_size(page); i++) {
        const char *tag = json_string_value(json_array_get(page, i));
        if (tag == NULL || !tag_is_valid(bytes_of_text(tag)))
            return failure(err, ERROR_INVALID, "the registry's list of tags has something else in it");
        if (json_array_append(tags, json_array_get(page, i)) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for tags");
    }
    return SUCCESS;
}

static struct result print_tags(const struct invocation *invocation, const struct remote_reference *repository, json_t *tags,
                                struct error *err)
{
    if (invocation->json) {
        OWNED_JSON object = json_pack("{s:s,s:s,s:O}", "host", repository->host, "name", repository->repository, "tags", tags);
        return object == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for tags") : api_print_json(object, err);
    }
    for (size_t i = 0; i < json_array_size(tags); i++) (void)printf("%s\n", json_string_value(json_array_get(tags, i)));
    return SUCCESS;
}

/* Adds the reference to a failure. */
static struct result named(const struct remote_reference *target, struct result result, struct error *err)
{
    char name[700];

    (void)snprintf(name, sizeof name, "%s/%s%s%s", target->host, target->repository,
                   !target->was_given  ? ""
                   : target->is_digest ? "@"
                                       : ":",
                   target->was_given ? target->reference : "");
    if (!result.ok) failure_name(name, err);
    return result;
}

struct result command_tags(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    struct remote_reference target;
    OWNED_JSON tags = json_array();
    char scope[400], path[2048];

    if (tags == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for tags");
    TRY(line_check(invocation, remote_reference_parse(invocation->operands[0], &target, err)));
    if (target.was_given)
        return line_check(invocation, failure(err, ERROR_INVALID, "name the repository without a tag or digest"));
    (void)snprintf(scope, sizeof scope, "repository:%s:pull", target.repository);
    (void)snprintf(path, sizeof path, "/v2/%s/tags/list?n=1000", target.repository);
    TRY(command_session(invocation, target.host, &session, err));
    for (unsigned page = 0; page < PAGES_MAX && path[0] != '\0'; page++) {
        OWNED_RESPONSE response = RESPONSE;
        const struct http_request request = {.method = "GET", .path = path, .wanted = 200};
        TRY(named(&target, session_call(session, scope, &request, &response, err), err));
        TRY(take_tags(&response, tags, err));
        next_page(&response, path, sizeof path);
    }
    return print_tags(invocation, &target, tags, err);
}

struct result command_delete(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED_RESPONSE response = RESPONSE;
    struct remote_reference target;
    char scope[400], path[1024];

    TRY(line_check(invocation, remote_reference_parse(invocation->operands[0], &target, err)));
    if (!target.was_given)
        return line_check(invocation, failure(err, ERROR_INVALID, "name a tag (only it goes) or a digest (all its tags go too)"));
    (void)snprintf(scope, sizeof scope, "repository:%s:pull,delete", target.repository);
    (void)snprintf(path, sizeof path, "/v2/%s/manifests/%s", target.repository, target.reference);
    TRY(command_session(invocation, target.host, &session, err));
    const struct http_request request = {.method = "DELETE", .path = path, .wanted = 202};
    TRY(named(&target, session_call(session, scope, &request, &response, err), err));
    if (invocation->json) {
        OWNED_JSON object = json_pack("{s:s,s:s,s:s}", "reference", invocation->operands[0], "deleted", target.reference, "audit",
                                      response.audit);
        return object == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for an answer") : api_print_json(object, err);
    }
    (void)fprintf(stderr, "deleted %s of %s/%s\n", target.reference, target.host, target.repository);
    return SUCCESS;
}
