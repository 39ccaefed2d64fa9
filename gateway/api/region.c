/* /api/v1/regions: the regions, the facts that the policies have about each, and whether it can be used (docs/api.md). */
#include <stdlib.h>

#include "base/clock.h"
#include "gateway/api/api_priv.h"
#include "policy/decider/decider.h"
#include "policy/set.h"
#include "policy/target.h"
#include "registry/registry.h"

#define FACTS_MAX ((size_t)64 << 10) /* of one region; a whole policy set has at most a megabyte */

PART(region, "a region", HAS_TEXT("id", REQUIRED, FORM_FREE, 1, REGION_ID_MAX, "its name"),
     HAS_TEXT("driver", REQUIRED, FORM_FREE, 1, 0, "how its bytes are kept"),
     HAS_ANY("geo", OPTIONAL, "its place, as the policies state it"),
     HAS_ANY("regimes", OPTIONAL, "its laws, as the policies state them"), HAS_FLAG("served", REQUIRED, "this gateway has it"),
     HAS_FLAG("ready", REQUIRED, "this gateway can use it"),
     HAS_TEXT("problem", OPTIONAL, FORM_FREE, 1, 0, "why it can't be used"))
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

static struct result add_region(const struct policy_set *set, const struct region_view *view, json_t *list, struct error *err)
{
    OWNED_JSON facts = NULL;

    TRY(facts_of(set, view->id, &facts, err));
    json_t *value =
        json_pack("{s:s, s:s, s:O*, s:O*, s:b, s:b, s:s*}", "id", view->id, "driver", view->driver, "geo",
                  json_object_get(facts, "geo"), "regimes", json_object_get(facts, "regimes"), "served", view->is_served, "ready",
                  view->problem[0] == '\0', "problem", view->problem[0] == '\0' ? NULL : view->problem);
    if (value != NULL && json_array_append_new(list, value) == 0) return SUCCESS;
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
    for (size_t i = 0; i < count && added.ok; i++) added = add_region(set, &views[i], list, err);
    policy_set_free(set);
    free(views);
    TRY(added);
    OWNED_JSON value = json_pack("{s:O}", "regions", list);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    response_json(request, 200, value);
    return SUCCESS;
}

const struct handler handler_region_list = {.handle = handle};
