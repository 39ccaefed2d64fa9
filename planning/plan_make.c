#include "planning/plan_make.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "crypto/digest.h"
#include "planning/plan_priv.h"

struct result planning_no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for a plan");
}

bool planning_goes_on(struct planning *planning, enum plan_phase phase, uint64_t done, uint64_t total)
{
    if (!planning->is_stopped) planning->is_stopped = !planning->source->go_on(planning->source->context, phase, done, total);
    return !planning->is_stopped;
}

struct result planning_set(struct planning *planning, const char *member, json_t *value, struct error *err)
{
    return value != NULL && json_object_set_new(planning->answer, member, value) == 0 ? SUCCESS : planning_no_memory(err);
}

/* ---- what is asked ---- */

static struct result read_input(struct planning *planning, struct error *err)
{
    struct buffer OWNED_BUFFER document = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED_JSON input = NULL;

    TRY(json_read(planning->source->input, PLAN_INPUT_MAX, &input, err));
    planning->days = json_integer_value(json_object_get(input, "days"));
    TRY(json_write_canonical(&document, json_object_get(input, "set"), err));
    return policy_set_compile(buffer_bytes(&document), &planning->proposed, err);
}

static json_t *describe_set(const struct policy_set *set)
{
    return set == NULL ? json_null()
                       : json_pack("{s:s, s:I}", "digest", policy_set_digest(set), "epoch", (json_int_t)policy_set_epoch(set));
}

static struct result describe(struct planning *planning, struct error *err)
{
    char at[CLOCK_TEXT_SIZE];

    clock_format(planning->source->now_ms, at);
    TRY(planning_set(planning, "v", json_integer(1), err));
    TRY(planning_set(planning, "at", json_string(at), err));
    TRY(planning_set(planning, "base", describe_set(policy_plan_base(planning->plan)), err));
    return planning_set(planning, "set", describe_set(planning->proposed), err);
}

/* ---- all ---- */

static struct result make_exceptions(struct planning *planning, struct error *err)
{
    OWNED_JSON list = json_array();

    if (list == NULL) return planning_no_memory(err);
    TRY(policy_plan_exceptions(planning->plan, list, err));
    return planning_set(planning, "exceptions", json_incref(list), err);
}

/* The digest is over the canonical JSON of all other members. */
static struct result seal(struct planning *planning, struct buffer *text, struct error *err)
{
    struct buffer OWNED_BUFFER whole = BUFFER(PLAN_BYTES_MAX);
    char digest[DIGEST_TEXT_SIZE];

    TRY(json_write_canonical(&whole, planning->answer, err));
    const struct digest of = digest_of(DIGEST_SHA256, buffer_bytes(&whole));
    digest_format(&of, digest);
    TRY(planning_set(planning, "digest", json_string(digest), err));
    return json_write_canonical(text, planning->answer, err);
}

static struct result make(struct planning *planning, struct error *err)
{
    TRY(describe(planning, err));
    TRY(make_exceptions(planning, err));
    TRY(plan_events(planning, err));
    if (!planning->is_stopped) TRY(plan_content(planning, err));
    if (!planning->is_stopped) TRY(plan_runs(planning, err));
    return SUCCESS;
}

static struct result has_name(void *context, const char *name, bool *has_out, struct error *err)
{
    const struct planning *planning = context;

    *has_out = planning->there != NULL && strcmp(planning->there, name) == 0;
    return *has_out ? SUCCESS : plan_has_repository(planning->source->pg, name, has_out, err);
}

struct result plan_make(const struct plan_source *source, struct buffer *plan, bool *is_whole_out, struct error *err)
{
    OWNED_JSON answer = json_object();
    struct planning planning = {.source = source, .answer = answer};
    const struct plan_names names = {&planning, has_name};
    OWNED(policy_plan) *decisions = NULL;

    if (answer == NULL) return planning_no_memory(err);
    TRY(read_input(&planning, err));
    OWNED(policy_set) *proposed = planning.proposed;
    TRY(policy_plan_open(source->decider, proposed, source->now_ms, &names, &decisions, err));
    planning.plan = decisions;
    TRY(make(&planning, err));
    *is_whole_out = !planning.is_stopped;
    return planning.is_stopped ? SUCCESS : seal(&planning, plan, err);
}
