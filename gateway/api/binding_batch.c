/* POST /api/v1/bindings/batch: many grants in one request, each of which is decided, recorded and answered by itself (docs/identity.md, "Many roles at once"). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "authz/role.h"
#include "base/clock.h"
#include "base/memory.h"
#include "gateway/api/api_priv.h"
#include "gateway/api/binding_priv.h"
#include "gateway/pipeline/parts.h"
#include "policy/decider/decider.h"

#define BATCH_MAX   1000
#define REST_MAX_MS 50

SCHEMA_WITH(SCHEMA_IS_READ_ELSEWHERE, binding_batch_wanted, "roles to be given",
            HAS_SOME("bindings", REQUIRED, 1, BATCH_MAX, schema_binding_wanted, "each as for a role alone"))

PART(batch_grant, "what became of one of them",
     HAS_NUMBER("status", REQUIRED, 201, 599, "of the answer that it would get as a request of its own; 201: it was given"),
     HAS_ID("id", OPTIONAL, "of the role that was given"), HAS_TIME("expires", OPTIONAL, "when it ends; left out: it has no end"),
     HAS_NUMBER("event", OPTIONAL, 1, INT64_MAX, "its event in the log"),
     HAS_FLAG("is_there", OPTIONAL, "true: this role is given on this scope already"),
     HAS_TEXT("detail", OPTIONAL, FORM_FREE, 1, 0, "why it was not given"),
     HAS_TEXT("rule", OPTIONAL, FORM_FREE, 1, 0, "of a refusal by a decision: the rule"))

SCHEMA(binding_batch, "what became of each", HAS_NUMBER("given", REQUIRED, 0, BATCH_MAX, "how many were given"),
       HAS_SOME("bindings", REQUIRED, 1, BATCH_MAX, schema_batch_grant, "in the order of the request"))

struct batch {
    struct request *request;
    const json_t *wanted; /* the list */
    const char *scope;
    uint64_t epoch;
    size_t given;
    bool is_over; /* the log can't be written, or rights can't be read: what is left is not tried */
    json_t *answers;
    struct request_part parts[PARTS_AT_ONCE];
    struct binding_create creates[PARTS_AT_ONCE];
};

struct result target_binding_batch(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    binding_pair_of_place(request, ACTION_BINDING_BATCH);
    return SUCCESS;
}

static struct result read_list(struct request *request, const json_t **list_out, struct error *err)
{
    const json_t *body = NULL;

    TRY(request_document(request, &body, err));
    const json_t *list = json_object_get(body, "bindings");
    if (json_object_size(body) != 1 || !json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > BATCH_MAX)
        return failure(err, ERROR_INVALID, "the body has \"bindings\" alone: 1 to %d roles to be given", BATCH_MAX);
    *list_out = list;
    return SUCCESS;
}

/* Each signature is for one grant, so where they are demanded there is no batch. */
static struct result check_acts(const struct request *request, struct error *err)
{
    const struct uuid *organisation = &request->pairs[0].resource.organisation;

    if (!decider_token_demand(request->gateway->decider, organisation, clock_wall_ms()).signed_acts) return SUCCESS;
    return failure(err, ERROR_DENIED, "here each grant is signed one by one with an enrolled key: POST /api/v1/bindings");
}

static bool is_inside(const char *name, const char *scope)
{
    const size_t length = strlen(scope);

    return strcmp(name, scope) == 0 || (length > 0 && strncmp(name, scope, length) == 0 && name[length] == '/');
}

static struct result make_pair(const struct batch *batch, struct lookup *lookup, struct wanted_binding *wanted, struct error *err)
{
    struct request *request = batch->request;
    struct resource *resource = NULL;

    if (!api_add_scope(request, ACTION_BINDING_CREATE, wanted->scope, &resource))
        return failure(err, ERROR_INVALID, API_SCOPE_FORM);
    TRY(wanted_binding_robot(request, lookup, wanted, &request->pairs[0], err));
    return wanted_binding_bound(request, wanted, err);
}

/* What a request of its own would do before its decision. */
static struct result prepare(struct batch *batch, struct lookup *lookup, const json_t *body, size_t at, struct error *err)
{
    struct request *request = batch->request;
    const struct action_pair own = request->pairs[0];
    struct request_part *part = &batch->parts[at];
    struct binding_create *create = &batch->creates[at];
    struct wanted_binding wanted;

    TRY(check_acts(request, err)); /* a signed document may demand them while the batch is done */
    TRY(schema_check(&schema_binding_wanted, body, err));
    TRY(wanted_binding_read(body, &wanted, err));
    if (!is_inside(wanted.scope, batch->scope))
        return failure(err, ERROR_INVALID, "this batch is for roles inside \"%.127s\"", batch->scope);
    if (role_is_of_officers(wanted.binding.role))
        return failure(err, ERROR_INVALID, "roles of officers and administrators are given one by one");
    request->pair_count = 0;
    const struct result made = make_pair(batch, lookup, &wanted, err);
    part->pair = request->pairs[0];
    request->pairs[0] = own;
    request->pair_count = 1;
    TRY(made);
    binding_take_decided(&part->pair, &wanted.binding);
    binding_create_init(create, &wanted.binding, wanted.lifetime_s);
    binding_create_by(create, request->principal);
    part->change = &create->change;
    return SUCCESS;
}

static bool set(json_t *object, const char *member, json_t *value)
{
    return json_object_set_new(object, member, value) == 0;
}

static bool describe_refusal(json_t *value, const struct request_part *part)
{
    return set(value, "detail", json_string(part->why)) &&
           (part->rule[0] == '\0' || set(value, "rule", json_string(part->rule))) &&
           (!part->is_conflict || strcmp(part->why, BINDING_IS_THERE) != 0 || set(value, "is_there", json_true()));
}

/* NULL: out of memory. */
static json_t *describe(const struct request_part *part, const struct binding_create *create)
{
    char id[UUID_TEXT_SIZE];
    OWNED_JSON value = json_pack("{s:i}", "status", part->status == 0 ? 201 : (int)part->status);

    uuid_format(&create->binding.id, id);
    if (value == NULL || (part->sequence > 0 && !set(value, "event", json_integer((json_int_t)part->sequence)))) return NULL;
    if (part->status != 0) return describe_refusal(value, part) ? GIVE(value) : NULL;
    if (!set(value, "id", json_string(id)) || !api_set_time(value, "expires", create->binding.expires_ms)) return NULL;
    return GIVE(value);
}

static void prepare_all(struct batch *batch, struct pg *pg, size_t first, size_t count)
{
    static const struct error over = {ERROR_UNAVAILABLE, "one before it could not be done"};

    memset(batch->parts, 0, sizeof batch->parts);
    for (size_t i = 0; i < count; i++) {
        struct error why = over;
        if (!batch->is_over && prepare(batch, lookup_of(pg), json_array_get(batch->wanted, first + i), i, &why).ok) continue;
        batch->parts[i].status = failure_status(&why, batch->parts[i].why);
    }
}

/* As many as one group of the log takes. */
static struct result do_some(struct batch *batch, struct pg *pg, size_t first, size_t count, struct error *err)
{
    prepare_all(batch, pg, first, count);
    request_do_parts(batch->request, batch->parts, count, &batch->epoch);
    for (size_t i = 0; i < count; i++) {
        batch->given += batch->parts[i].status == 0;
        batch->is_over = batch->is_over || batch->parts[i].status >= 500;
        if (json_array_append_new(batch->answers, describe(&batch->parts[i], &batch->creates[i])) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for an answer; some of the roles were given");
    }
    return SUCCESS;
}

/* As long as the last group took: what others ask for gets at least half of the time. */
static void rest(int64_t began_ms)
{
    const int64_t took_ms = clock_monotonic_ms() - began_ms, rest_ms = took_ms < REST_MAX_MS ? took_ms : REST_MAX_MS;
    const struct timespec pause = {.tv_nsec = rest_ms * 1000000};

    (void)nanosleep(&pause, NULL);
}

static struct result do_all(struct batch *batch, struct pg *pg, struct error *err)
{
    const size_t all = json_array_size(batch->wanted);

    for (size_t first = 0; first < all; first += PARTS_AT_ONCE) {
        const int64_t began_ms = clock_monotonic_ms();
        TRY(do_some(batch, pg, first, all - first < PARTS_AT_ONCE ? all - first : PARTS_AT_ONCE, err));
        if (first + PARTS_AT_ONCE < all && !batch->is_over) rest(began_ms);
    }
    request_await_parts(batch->request, batch->epoch);
    OWNED_JSON value = json_pack("{s:I, s:O}", "given", (json_int_t)batch->given, "bindings", batch->answers);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer; some of the roles were given");
    response_json(batch->request, batch->given == all ? 201 : 200, value);
    return SUCCESS;
}

/* The key of a request that may come again is claimed with its own event, before anything is given. */
static struct result claim(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    (void)permit, (void)change, (void)pg, (void)err;
    return SUCCESS;
}

static struct result handle_binding_batch(struct request *request, struct pg *pg, struct error *err)
{
    struct change begin = {.run = claim, .invalidates = CHANGE_INVALIDATES_NOTHING};
    const char *scope = request_argument(request, "scope");
    const json_t *list = NULL;

    TRY(read_list(request, &list, err));
    TRY(check_acts(request, err));
    TRY(request_record(request, request->repeat == NULL ? NULL : &begin, err));
    TRY(api_scope_exists(permit_resource(request->permit, ACTION_BINDING_BATCH), err));
    OWNED_JSON answers = json_array();
    struct batch *batch = memory_zeroed(1, sizeof *batch);
    if (batch == NULL || answers == NULL) {
        free(batch);
        return failure(err, ERROR_NO_MEMORY, "no memory for a batch");
    }
    batch->request = request;
    batch->wanted = list;
    batch->scope = scope == NULL ? "" : scope;
    batch->answers = answers;
    const struct result done = do_all(batch, pg, err);
    free(batch);
    return done;
}

const struct handler handler_binding_batch = {.handle = handle_binding_batch, .is_long = true};
