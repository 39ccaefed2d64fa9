/* /api/v1/regions: the regions, the facts that the policies have about each, and whether it can be used (docs/api.md). */
#include <stdlib.h>

#include "base/clock.h"
#include "gateway/api/api_priv.h"
#include "policy/decider/decider.h"
#include "policy/decider/region_state.h"
#include "policy/set.h"
#include "policy/target.h"
#include "registry/registry.h"

#define FACTS_MAX ((size_t)64 << 10) /* of one region; a whole policy set has at most a megabyte */

PART(region_keyd, "the sijil-keyd of a region", HAS_TEXT("key", REQUIRED, FORM_FREE, 43, 43, "the thumbprint of its key"),
     HAS_FLAG("usable", REQUIRED, "this gateway can have the region's keys now"),
     HAS_TEXT("problem", OPTIONAL, FORM_FREE, 1, 0, "what is wrong with it"),
     HAS_COUNT("epoch", REQUIRED, "the number of the policy set that it was told of"),
     HAS_COUNT("told_ms", REQUIRED, "when it was told last, since 1970; 0: not since its start"),
     HAS_COUNT("version", REQUIRED, "the version of its key-encryption keys that wraps new keys; 0: it did not answer"),
     HAS_COUNT("unwraps", REQUIRED, "keys that it has opened"))
PART(region, "a region", HAS_TEXT("id", REQUIRED, FORM_FREE, 1, REGION_ID_MAX, "its name"),
     HAS_TEXT("driver", REQUIRED, FORM_FREE, 1, 0, "how its bytes are kept"),
     HAS_ANY("geo", OPTIONAL, "its place, as the policies state it"),
     HAS_ANY("regimes", OPTIONAL, "its laws, as the policies state them"), HAS_FLAG("served", REQUIRED, "this gateway has it"),
     HAS_FLAG("ready", REQUIRED, "this gateway can use it"),
     HAS_TEXT("problem", OPTIONAL, FORM_FREE, 1, 0, "why it can't be used"),
     HAS_WORD("state", REQUIRED, "active draining quarantined retired", "whether bytes may be there (docs/regions.md)"),
     HAS_TEXT("quarantine", OPTIONAL, FORM_FREE, 1, 0, "what disagreed with its record when it was quarantined"),
     HAS_TEXT("disagreement", OPTIONAL, FORM_FREE, 1, 0,
              "what its record and its store do not agree on, at this gateway's last look"),
     HAS_TEXT("mark", OPTIONAL, FORM_FREE, 32, 32, "the mark of its store, by which it is known"),
     HAS_OBJECT("keyd", OPTIONAL, schema_region_keyd, "its own sijil-keyd, if its keys are with one"),
     HAS_ANY("record", OPTIONAL, "what the policy set in force says of it: facts, attested attributes, store"))
SCHEMA(regions, "regions", HAS_LIST("regions", REQUIRED, 0, schema_region, "all that the database knows"))

struct result target_region_list(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    (void)api_pair(request, ACTION_REGION_READ, RESOURCE_SYSTEM, "");
    return SUCCESS;
}

/* The region's facts in the signed policy set. A region that the set does not name has no facts, and no policy permits
 * anything there. */
static struct result facts_of(const struct policy_set *set, const char *region, json_t **facts_out, struct error *err)
{
    const struct policy_target *target = set == NULL ? NULL : policy_set_region(set, region, clock_wall_ms() * 1000);

    if (target != NULL) return json_read(bytes_of_text(policy_target_canonical(target)), FACTS_MAX, facts_out, err);
    *facts_out = json_object();
    return *facts_out == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for a region") : SUCCESS;
}

/* The state is of the snapshot that decides; a region that it does not have yet is new. */
static bool add_state(struct decider *decider, const struct policy_set *set, const struct region_view *view, json_t *value)
{
    struct region_state state = {.why = ""};
    const json_t *record = set == NULL ? NULL : json_object_get(json_object_get(policy_set_json(set), "regions"), view->id);

    (void)decider_region_state(decider, view->id, &state);
    if (json_object_set_new(value, "state", json_string(region_state_name(&state))) != 0) return false;
    if (state.why[0] != '\0' && json_object_set_new(value, "quarantine", json_string(state.why)) != 0) return false;
    if (view->disagreement[0] != '\0' && json_object_set_new(value, "disagreement", json_string(view->disagreement)) != 0)
        return false;
    if (state.mark[0] != '\0' && json_object_set_new(value, "mark", json_string(state.mark)) != 0) return false;
    return record == NULL || json_object_set(value, "record", (json_t *)(uintptr_t)record) == 0;
}

static bool add_keyd(const struct region_view *view, json_t *value)
{
    if (!view->has_keyd) return true;
    return json_object_set_new(value, "keyd",
                               json_pack("{s:s, s:b, s:s*, s:I, s:I, s:I, s:I}", "key", view->keyd, "usable", (int)view->has_keys,
                                         "problem", view->keyd_problem[0] == '\0' ? NULL : view->keyd_problem, "epoch",
                                         (json_int_t)view->keyd_epoch, "told_ms", (json_int_t)view->keyd_current_ms, "version",
                                         (json_int_t)view->keyd_version, "unwraps", (json_int_t)view->keyd_unwraps)) == 0;
}

static struct result add_region(struct decider *decider, const struct policy_set *set, const struct region_view *view,
                                json_t *list, struct error *err)
{
    OWNED_JSON facts = NULL;

    TRY(facts_of(set, view->id, &facts, err));
    OWNED_JSON value =
        json_pack("{s:s, s:s, s:O*, s:O*, s:b, s:b, s:s*}", "id", view->id, "driver", view->driver, "geo",
                  json_object_get(facts, "geo"), "regimes", json_object_get(facts, "regimes"), "served", view->is_served, "ready",
                  view->problem[0] == '\0', "problem", view->problem[0] == '\0' ? NULL : view->problem);
    if (value != NULL && add_state(decider, set, view, value) && add_keyd(view, value) && json_array_append(list, value) == 0)
        return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a list");
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    struct region_view *views = NULL;
    size_t count = 0;
    OWNED_JSON list = json_array();

    TRY(registry_list_regions(request->permit, request->gateway->registry, pg, &views, &count, err));
    struct policy_set *set = decider_policy_set(request->gateway->decider);
    struct result added = SUCCESS;
    for (size_t i = 0; i < count && added.ok; i++) added = add_region(request->gateway->decider, set, &views[i], list, err);
    policy_set_free(set);
    free(views);
    TRY(added);
    OWNED_JSON value = json_pack("{s:O}", "regions", list);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    response_json(request, 200, value);
    return SUCCESS;
}

const struct handler handler_region_list = {.handle = handle};
