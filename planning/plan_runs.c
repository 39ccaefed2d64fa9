/* Runs that have not ended, and that no region would allow any more. */
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "planning/plan_priv.h"
#include "training/format/artifacts.h"
#include "training/format/chain.h"
#include "training/format/envelope.h"

#define RUNS_OF_PAGE 200
#define RUNS_SHOWN   100
#define REGION_SIZE  POLICY_ATTESTED_SIZE
#define NAMES_MAX    (RUN_ARTIFACTS_MAX + 16) /* and outputs */

struct scene {
    struct planning *planning;
    uint64_t looked_at, stops;
    json_t *rows;
};

struct run {
    struct uuid id;
    const char *project, *state, *regions;
    size_t name_count;
    const char *names[NAMES_MAX];
    int64_t approvals;      /* that it has */
    int64_t demanded;       /* by the proposed set */
    bool signed_request;    /* likewise */
    bool may_now, may_then; /* in one of its regions, by the set in force and by the proposed one */
    bool has_denial;
    struct plan_answer denial; /* the first one of the proposed set */
};

static void add_name(struct run *run, const json_t *artifact)
{
    const char *name = json_text_of(artifact, "repository");

    for (size_t i = 0; name != NULL && i < run->name_count; i++)
        if (strcmp(run->names[i], name) == 0) return;
    if (name != NULL && run->name_count < NAMES_MAX) run->names[run->name_count++] = name;
}

static void find_names(const struct run_envelope *request, struct run *run)
{
    const json_t *spec = run_member(request, "spec"), *outputs = json_object_get(spec, "outputs");
    const struct run_artifacts artifacts = run_spec_artifacts(spec);

    for (size_t i = 0; i < artifacts.count; i++) add_name(run, artifacts.each[i].json);
    for (size_t i = 0; i < json_array_size(outputs); i++) add_name(run, json_array_get(outputs, i));
}

/* All its repositories must be allowed there. */
static struct result try_region(const struct scene *scene, struct run *run, const char *region, struct error *err)
{
    bool may_now = true, may_then = true;

    for (size_t i = 0; i < run->name_count; i++) {
        struct plan_train train;
        TRY(policy_plan_train(scene->planning->plan, run->names[i], region, &train, err));
        const enum plan_change change = train.answer.change;
        may_now = may_now && change != PLAN_DENIED && change != PLAN_NEWLY_ALLOWED;
        may_then = may_then && change != PLAN_DENIED && change != PLAN_NEWLY_DENIED;
        if (train.approvals > run->demanded) run->demanded = train.approvals;
        run->signed_request = run->signed_request || train.signed_request;
        if (change != PLAN_NEWLY_DENIED || run->has_denial) continue;
        run->has_denial = true;
        run->denial = train.answer;
    }
    run->may_now = run->may_now || may_now;
    run->may_then = run->may_then || may_then;
    return SUCCESS;
}

static struct result try_named(const struct scene *scene, struct run *run, struct error *err)
{
    for (const char *at = run->regions; *at != '\0' && !run->may_then;) {
        const size_t length = strcspn(at, " ");
        char region[REGION_SIZE];
        if (length < sizeof region) {
            memcpy(region, at, length);
            region[length] = '\0';
            TRY(try_region(scene, run, region, err));
        }
        at += length + strspn(at + length, " ");
    }
    return SUCCESS;
}

/* Nobody has computed its regions yet. */
static struct result try_all(const struct scene *scene, struct run *run, struct error *err)
{
    const struct policy_set *set = scene->planning->proposed;

    for (size_t i = 0; i < policy_set_region_count(set) && !run->may_then; i++) {
        char attested[REGION_SIZE];
        (void)snprintf(attested, sizeof attested, POLICY_ATTESTED_MARK "%s", policy_set_region_name(set, i));
        TRY(try_region(scene, run, policy_set_region_name(set, i), err));
        if (!run->may_then) TRY(try_region(scene, run, attested, err));
    }
    return SUCCESS;
}

static struct result add_row(struct scene *scene, const struct run *run, struct error *err)
{
    char id[UUID_TEXT_SIZE];

    scene->stops++;
    if (json_array_size(scene->rows) == RUNS_SHOWN) return SUCCESS;
    uuid_format(&run->id, id);
    json_t *row =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "run", id, "project", run->project, "state", run->state, "repository",
                  run->denial.scope, "region", run->denial.target, "rule", run->denial.rule, "policy", run->denial.policy);
    return row != NULL && json_array_append_new(scene->rows, row) == 0 ? SUCCESS : planning_no_memory(err);
}

static void deny(struct run *run, const char *rule)
{
    run->denial = (struct plan_answer){.change = PLAN_NEWLY_DENIED, .operation = "train"};
    (void)text_copy(run->denial.rule, sizeof run->denial.rule, rule);
    run->may_then = false;
}

/* Duties: what sijil-keyd compares before a lease and an admission (policy/run_day.c). A run that waits for approvals may get more of them. */
static void check_duties(const struct run_envelope *request, struct run *run)
{
    const bool needs_more = run_approvals_needed(request, run->approvals) > run->approvals;
    const int64_t counts = needs_more ? run->approvals - 1 : run->approvals;

    if (!run->may_then) return;
    if (run->signed_request && run_member(request, "claims") != NULL) deny(run, "signed_request");
    else if (run->demanded > counts && strcmp(run->state, "awaiting approval") != 0) deny(run, "approvals");
}

static struct result look_at(struct scene *scene, struct run *run, const char *envelope, struct error *err)
{
    OWNED(run_envelope) *request = NULL;
    struct error why = {0};

    scene->looked_at++;
    if (!run_envelope_read(bytes_of_text(envelope), RUN_REQUEST, &request, &why).ok)
        return why.kind == ERROR_NO_MEMORY ? planning_no_memory(err) : SUCCESS; /* nobody runs it, either */
    find_names(request, run);
    TRY(run->regions[0] == '\0' ? try_all(scene, run, err) : try_named(scene, run, err));
    check_duties(request, run);
    return run->may_now && !run->may_then ? add_row(scene, run, err) : SUCCESS;
}

static struct result look_at_page(struct scene *scene, int64_t *after, bool *has_more_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(plan_open_runs(scene->planning->source->pg, *after, RUNS_OF_PAGE, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        struct run run = {.id = pg_uuid(rows, i, 1),
                          .project = pg_text(rows, i, 2),
                          .state = pg_text(rows, i, 3),
                          .regions = pg_text(rows, i, 4),
                          .approvals = pg_int8(rows, i, 6)};
        *after = pg_int8(rows, i, 0);
        if (planning_goes_on(scene->planning, PLAN_OF_RUNS, scene->looked_at, scene->looked_at + pg_rows_count(rows) - i))
            TRY(look_at(scene, &run, pg_text(rows, i, 5), err));
    }
    *has_more_out = pg_rows_count(rows) == RUNS_OF_PAGE && !scene->planning->is_stopped;
    return SUCCESS;
}

struct result plan_runs(struct planning *planning, struct error *err)
{
    OWNED_JSON rows = json_array();
    struct scene scene = {.planning = planning, .rows = rows};
    int64_t after = 0;
    bool has_more = policy_plan_base(planning->plan) != NULL;

    if (rows == NULL) return planning_no_memory(err);
    while (has_more) TRY(look_at_page(&scene, &after, &has_more, err));
    return planning_set(
        planning, "runs",
        json_pack("{s:I, s:I, s:O}", "open", (json_int_t)scene.looked_at, "stopping", (json_int_t)scene.stops, "rows", rows),
        err);
}
