#include "gateway/api/api_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "gateway/pipeline/resolve.h"
#include "policy/decider/decider.h"
#include "registry/names/reference.h"

#define PROOF_WAIT_MS 150
#define PROOF_WAITS   10 /* an event is signed within a second */

bool api_proves_later(struct request *request, struct pg *pg, const struct error *err)
{
    if (err->kind != ERROR_UNAVAILABLE || pg_is_broken(pg) || request->waits >= PROOF_WAITS) return false;
    request_wait(request, PROOF_WAIT_MS);
    return true;
}

bool api_is_project_name(const char *name)
{
    const char *slash = strchr(name, '/');

    return slash != NULL && namespace_name_is_valid((struct bytes){(const uint8_t *)name, (size_t)(slash - name)}) &&
           namespace_name_is_valid(bytes_of_text(slash + 1));
}

struct resource *api_pair(struct request *request, enum action action, enum resource_kind kind, const char *name)
{
    struct resource *resource = request_add_pair(request, action, name);

    resource->kind = kind;
    resolve_name(request, resource);
    return resource;
}

void api_pair_of_project(struct request *request, enum action action)
{
    if (api_is_project_name(request->name)) (void)api_pair(request, action, RESOURCE_PROJECT, request->name);
    else response_unknown(request);
}

void api_pair_of_id(struct request *request, enum action action,
                    bool (*find)(struct decider *decider, const struct uuid *id, struct resource *resource_out))
{
    struct decider *decider = request->gateway->decider;
    struct resource resource = {.kind = RESOURCE_ORGANISATION};
    struct uuid id;

    if (!uuid_parse(bytes_of_text(request->reference), &id)) {
        response_unknown(request);
        return;
    }
    if (request->principal->kind != PRINCIPAL_NONE) (void)find(decider, &id, &resource);
    (void)snprintf(resource.detail, sizeof resource.detail, "%s", request->reference);
    struct action_pair *pair = &request->pairs[request->pair_count];
    *request_add_pair(request, action, "") = resource;
    if (resolve_allows(request, pair)) decider_name(decider, &pair->resource);
}

struct result api_id(const struct request *request, const char *what, struct uuid *id_out, struct error *err)
{
    if (uuid_parse(bytes_of_text(request->reference), id_out)) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "there is no such %s", what);
}

struct result api_remove(struct request *request, struct change *change, struct error *err)
{
    TRY(request_record(request, change, err));
    response_empty(request, 204);
    return SUCCESS;
}

struct result api_scope_exists(const struct resource *where, struct error *err)
{
    const struct uuid *const id = where->kind == RESOURCE_PROJECT ? &where->project : &where->organisation;

    if (where->kind == RESOURCE_SYSTEM || !uuid_is_nil(id)) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "there is no such organisation or project");
}

bool api_asks_for_credential(struct request *request, enum action action)
{
    if (request->principal->kind != PRINCIPAL_NONE) return false;
    (void)api_pair(request, action, RESOURCE_SYSTEM, "");
    return true;
}

bool api_set_time(json_t *object, const char *member, int64_t wall_ms)
{
    char text[CLOCK_TEXT_SIZE];

    if (wall_ms == 0) return true;
    clock_format(wall_ms, text);
    return json_object_set_new(object, member, json_string(text)) == 0;
}

struct result api_may(const struct request *request, const struct action_pair *pair, bool *may_out, struct error *err)
{
    struct decision_request question = {
        .principal = request->principal, .pair_count = 1, .pairs = {*pair}, .now_ms = clock_wall_ms()};
    OWNED(decision) *decision = NULL;

    question.client = request_place(request);
    decider_resolve(request->gateway->decider, pair->resource.name, &question.pairs[0].resource);
    question.pairs[0].resource.kind = pair->resource.kind;
    memcpy(question.pairs[0].resource.detail, pair->resource.detail, sizeof pair->resource.detail);
    TRY(decider_decide(request->gateway->decider, &question, &decision, err));
    *may_out = decision_verdict(decision) == VERDICT_ALLOW;
    return SUCCESS;
}
