/* /api/v1/projects/{name}/copies: the further regions that have copies of a project's content (docs/replication.md). */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "gateway/api/api_priv.h"
#include "policy/decider/decider.h"
#include "policy/decider/region_state.h"
#include "registry/copies/copies.h"
#include "registry/copies/placement.h"

SCHEMA(copies_wanted, "a further region of a project",
       HAS_TEXT("region", REQUIRED, FORM_FREE, 1, REGION_ID_MAX, "the region that gets copies of the project's content"),
       HAS_FLAG("end", OPTIONAL, "true: the copies are withdrawn, or a move that has not ended is ended"))
SCHEMA(move_wanted, "a new home of a project",
       HAS_TEXT("region", REQUIRED, FORM_FREE, 1, REGION_ID_MAX, "the region that becomes the home"))
SCHEMA(copies_place, "a further region of a project", HAS_TEXT("project", REQUIRED, FORM_PROJECT, 3, 127, "organisation/project"),
       HAS_TEXT("region", REQUIRED, FORM_FREE, 1, REGION_ID_MAX, "the region"))
PART(copies_region, "copies in one region", HAS_TEXT("region", REQUIRED, FORM_FREE, 1, REGION_ID_MAX, "the region"),
     HAS_WORD("state", REQUIRED, COPY_STATES(SCHEMA_WORD), "what the last round found"),
     HAS_WORD("move", OPTIONAL, "to from", "to: it becomes the home; from: it was the home, and what is there goes"),
     HAS_TEXT("why", OPTIONAL, FORM_FREE, 1, 0, "what stands against copies that are missing: a rule, or a failure"),
     HAS_COUNT("blobs", REQUIRED, "copies that are there"), HAS_COUNT("bytes", REQUIRED, "their bytes"),
     HAS_COUNT("waiting_blobs", REQUIRED, "blobs whose copies are to be made, at the last round"),
     HAS_COUNT("waiting_bytes", REQUIRED, "their bytes"), HAS_TIME("waiting_since", OPTIONAL, "when the oldest of them came"),
     HAS_COUNT("denied_blobs", REQUIRED, "blobs that a policy keeps out of the region"),
     HAS_TIME("decided", OPTIONAL, "when all copies were decided last"))
SCHEMA(copies, "the regions of a project's content", HAS_TEXT("project", REQUIRED, FORM_PROJECT, 3, 127, "organisation/project"),
       HAS_TEXT("home", REQUIRED, FORM_FREE, 1, REGION_ID_MAX, "the home region"),
       HAS_LIST("copies", REQUIRED, COPY_REGIONS_MAX, schema_copies_region,
                "by name; withdrawn ones that still have copies come last"))

/* ---- Targets: the policies are asked about the region, if there is one. Only who may ask for copies is told that there is none ---- */

static struct result name_region(struct request *request, enum action asked, enum action ends, struct error *err)
{
    struct region_state state;
    const json_t *body = NULL;

    if (api_asks_for_credential(request, asked)) return SUCCESS;
    TRY(request_document(request, &body, err));
    const char *region = json_text_of(body, "region");
    api_pair_of_project(request, json_is_true(json_object_get(body, "end")) ? ends : asked);
    if (request->pair_count == 0 || !decider_region_state(request->gateway->decider, region, &state)) return SUCCESS;
    struct resource *where = &request->pairs[0].resource;
    (void)snprintf(where->region, sizeof where->region, "%s", region);
    (void)snprintf(where->detail, sizeof where->detail, "%s", region);
    return SUCCESS;
}

struct result target_project_replicate(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return name_region(request, ACTION_PROJECT_REPLICATE, ACTION_PROJECT_WITHDRAW, err);
}

struct result target_project_migrate(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    return name_region(request, ACTION_PROJECT_MIGRATE, ACTION_PROJECT_MIGRATE, err);
}

/* ---- Handlers ---- */

static struct result handle_replicate(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = &request->pairs[0].resource;
    struct copy_place_change change;

    (void)pg;
    if (where->detail[0] == '\0') return failure(err, ERROR_NOT_FOUND, "there is no region of this name");
    copy_place_prepare(where, request->pairs[0].action, &change);
    TRY(request_record(request, &change.change, err));
    OWNED_JSON value = json_pack("{s:s, s:s}", "project", where->name, "region", where->region);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer; it is done");
    response_json(request, 200, value);
    return SUCCESS;
}
const struct handler handler_project_replicate = {.handle = handle_replicate};
const struct handler handler_project_migrate = {.handle = handle_replicate};

static struct result set_time(json_t *value, const char *member, int64_t time_ms, struct error *err)
{
    char text[CLOCK_TEXT_SIZE];

    if (time_ms == 0) return SUCCESS;
    clock_format(time_ms, text);
    return json_object_set_new(value, member, json_string(text)) == 0 ? SUCCESS
                                                                      : failure(err, ERROR_NO_MEMORY, "no memory for a list");
}

static struct result describe(const struct copy_place *place, json_t *list, struct error *err)
{
    OWNED_JSON value =
        json_pack("{s:s, s:s, s:s*, s:s*, s:I, s:I, s:I, s:I, s:I}", "region", place->region, "state", place->state, "move",
                  place->move[0] == '\0' ? NULL : place->move, "why", place->why[0] == '\0' ? NULL : place->why, "blobs",
                  (json_int_t)place->blobs, "bytes", (json_int_t)place->bytes, "waiting_blobs", (json_int_t)place->waiting_blobs,
                  "waiting_bytes", (json_int_t)place->waiting_bytes, "denied_blobs", (json_int_t)place->denied_blobs);

    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(set_time(value, "waiting_since", place->waiting_since_ms, err));
    TRY(set_time(value, "decided", place->looked_ms, err));
    return json_array_append(list, value) == 0 ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for a list");
}

static struct result handle_copies(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = &request->pairs[0].resource;
    struct copy_place places[COPY_REGIONS_MAX];
    OWNED_JSON list = json_array();
    size_t count = 0;

    if (list == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    if (uuid_is_nil(&where->project)) return failure(err, ERROR_NOT_FOUND, "there is no such project");
    TRY(copy_place_list(request->permit, pg, places, &count, err));
    for (size_t i = 0; i < count; i++) TRY(describe(&places[i], list, err));
    OWNED_JSON value = json_pack("{s:s, s:s, s:O}", "project", where->name, "home", where->region, "copies", list);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
    response_json(request, 200, value);
    return SUCCESS;
}
const struct handler handler_project_copies = {.handle = handle_copies};

/* ---- What is out of place ---- */

static struct result add_misplaced(struct request *request, const struct misplaced *misplaced, json_t *list, struct error *err)
{
    const struct policy_client client = request_place(request);
    OWNED_JSON row = json_object();
    bool may = false;

    TRY(decider_may_list(request->gateway->decider, misplaced->name, &client, clock_wall_ms(), &may, err));
    if (may && json_object_set_new(row, "repository", json_string(misplaced->name)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    OWNED_JSON more =
        json_pack("{s:s, s:s, s:s}", "operation", misplaced->operation, "rule", misplaced->rule, "policy", misplaced->policy);
    if (row == NULL || more == NULL || json_object_update(row, more) != 0 || !api_set_time(row, "found", misplaced->found_ms))
        return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    return json_array_append(list, row) == 0 ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for a list");
}

struct result api_tell_misplaced(struct request *request, struct pg *pg, json_t *project, struct error *err)
{
    struct misplaced *found = arena_take(request->arena, MISPLACED_MAX * sizeof *found);
    OWNED_JSON list = json_array();
    uint64_t all = 0;
    size_t count = 0;

    if (found == NULL || list == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(placement_list(request->permit, pg, found, &count, &all, err));
    if (all == 0) return SUCCESS;
    for (size_t i = 0; i < count; i++) TRY(add_misplaced(request, &found[i], list, err));
    if (json_object_set_new(project, "out_of_place", json_integer((json_int_t)all)) == 0 &&
        json_object_set(project, "misplaced", list) == 0)
        return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a list");
}

/* ---- A plan of a move ---- */

PART(move_denial, "what keeps the home where it is",
     HAS_TEXT("digest", OPTIONAL, FORM_FREE, 1, 0, "of the blob; left out for the project itself"),
     HAS_TEXT("name", REQUIRED, FORM_FREE, 1, 0, "the repository, or the project"),
     HAS_TEXT("rule", REQUIRED, FORM_FREE, 1, 0, "that denies migrate there"))
SCHEMA(move_plan, "what a move of a project's home would do now",
       HAS_TEXT("project", REQUIRED, FORM_PROJECT, 3, 127, "organisation/project"),
       HAS_TEXT("from", REQUIRED, FORM_FREE, 1, REGION_ID_MAX, "the home"),
       HAS_TEXT("to", REQUIRED, FORM_FREE, 1, REGION_ID_MAX, "the region that was asked about"),
       HAS_FLAG("moves", REQUIRED, "nothing stands against it, but for runs that have not ended"),
       HAS_TEXT("closed", OPTIONAL, FORM_FREE, 1, 0, "the rule by which the state of the region to refuses new bytes"),
       HAS_COUNT("blobs", REQUIRED, "that would move"), HAS_COUNT("bytes", REQUIRED, "their bytes"),
       HAS_COUNT("manifests", REQUIRED, "that would be encrypted again"),
       HAS_COUNT("denied_blobs", REQUIRED, "that a policy keeps out"), HAS_COUNT("damaged_blobs", REQUIRED, "that do not verify"),
       HAS_COUNT("crowded_blobs", REQUIRED, "that are in more repositories than one copy is decided for"),
       HAS_COUNT("runs", REQUIRED, "that have not ended: the move waits for them"),
       HAS_COUNT("uploads", REQUIRED, "that are open: what has not ended at the change begins anew"),
       HAS_COUNT("holds", REQUIRED, "legal holds: the old home keeps its copies until their end"),
       HAS_FLAG("room", REQUIRED, "the quota has room for both at once"),
       HAS_FLAG("cut", REQUIRED, "there are more blobs than a plan decides"),
       HAS_LIST("denials", REQUIRED, MOVE_DENIALS_MAX, schema_move_denial, "the first ones"))

static struct result list_denials(const struct move_plan *plan, json_t *list, struct error *err)
{
    for (size_t i = 0; i < plan->denial_count; i++) {
        const struct move_denial *denial = &plan->denials[i];
        OWNED_JSON value = json_pack("{s:s*, s:s, s:s}", "digest", denial->digest[0] == '\0' ? NULL : denial->digest, "name",
                                     denial->name, "rule", denial->rule);
        if (value == NULL || json_array_append(list, value) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a plan");
    }
    return SUCCESS;
}

static const char *closed_by(struct request *request, const struct move_plan *plan)
{
    struct region_state to, from;
    const struct region_refusal *refusal = NULL;

    if (decider_region_state(request->gateway->decider, plan->to, &to)) refusal = region_refusal_of(&to, ACTION_MOVE_WRITE);
    if (refusal == NULL && decider_region_state(request->gateway->decider, plan->from, &from))
        refusal = region_refusal_of(&from, ACTION_COPY_READ);
    return refusal == NULL ? NULL : refusal->rule;
}

static json_t *plan_json(const char *project, const struct move_plan *plan, const char *closed, json_t *denials)
{
    const bool moves = plan->denial_count == 0 && plan->damaged_blobs == 0 && plan->crowded_blobs == 0 && plan->has_room &&
                       !plan->is_cut && closed == NULL;

    return json_pack("{s:s, s:s, s:s, s:b, s:s*, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:O}", "project", project,
                     "from", plan->from, "to", plan->to, "moves", moves, "closed", closed, "blobs", (json_int_t)plan->blobs,
                     "bytes", (json_int_t)plan->bytes, "manifests", (json_int_t)plan->manifests, "denied_blobs",
                     (json_int_t)plan->denied_blobs, "damaged_blobs", (json_int_t)plan->damaged_blobs, "crowded_blobs",
                     (json_int_t)plan->crowded_blobs, "runs", (json_int_t)plan->runs, "uploads", (json_int_t)plan->uploads,
                     "holds", (json_int_t)plan->holds, "room", plan->has_room, "cut", plan->is_cut, "denials", denials);
}

/* It names regions, rules and all that is in the project, so it is for those who may end copies and moves. project.migrate itself would need a fresh login. */
static struct result check_planner(struct request *request, struct error *err)
{
    struct action_pair pair = request->pairs[0];
    bool may = false;

    pair.action = ACTION_PROJECT_WITHDRAW;
    TRY(api_may(request, &pair, &may, err));
    return may ? SUCCESS : failure(err, ERROR_DENIED, "only who may move the project plans a move");
}

static struct result handle_move(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = &request->pairs[0].resource;
    const char *to = request_argument(request, "region");
    OWNED_JSON list = json_array();
    struct region_state state;
    struct move_plan *plan = NULL;

    if (list == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a plan");
    if (uuid_is_nil(&where->project)) return failure(err, ERROR_NOT_FOUND, "there is no such project");
    TRY(check_planner(request, err));
    if (to == NULL) return failure(err, ERROR_INVALID, "a plan needs the parameter region");
    if (!decider_region_state(request->gateway->decider, to, &state))
        return failure(err, ERROR_NOT_FOUND, "there is no region '%.64s' here", to);
    TRY(move_plan_make(request->permit, request->gateway->decider, pg, to, &plan, err));
    const struct result listed = list_denials(plan, list, err);
    json_t *value = listed.ok ? plan_json(where->name, plan, closed_by(request, plan), list) : NULL;
    free(plan);
    if (!listed.ok) return listed;
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a plan");
    response_json(request, 200, value);
    json_decref(value);
    return SUCCESS;
}
const struct handler handler_project_move = {.handle = handle_move};
