/* Random orders, leases, heartbeats, results and losses of runs, compared with a model; and runners that ask at the same time. */
#include "tests/support/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "authz/lease_name.h"
#include "base/clock.h"
#include "tests/integration/lease_fixture.h"

#define RUNS     8
#define STEPS    120
#define ATTEMPTS 2
#define AT_ONCE  4
#define WAITING  40

static uint64_t seed = 20261124;
static struct model models[RUNS];

static unsigned draw(unsigned below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % below;
}

static struct run_holder holder_of(const struct model *model, int node)
{
    return (struct run_holder){.run = model->id, .attempt = model->attempt, .node = node, .key = keys[model->who[node]]};
}

/* ---- the model's steps ---- */

static bool is(const struct model *model, const char *state)
{
    return model->state != NULL && strcmp(model->state, state) == 0;
}

static bool has_ended(const struct model *model)
{
    return is(model, "succeeded") || is(model, "failed") || is(model, "cancelled") || is(model, "refused") ||
           is(model, "quarantined");
}

static void move(struct model *model, const char *state)
{
    model->state = state;
    if (has_ended(model) || is(model, "finishing")) model->is_open[0] = model->is_open[1] = false;
}

static struct run find(const struct model *model)
{
    OWNED(permit) *permit = stack_permit(stack, ACTION_RUN_READ, &project);
    struct error err = {0};
    struct run run;

    if (!run_find(permit, stack->pg, ACTION_RUN_READ, &model->id, &run, &err).ok) fail_msg("%s", err.message);
    return run;
}

static void compare(const struct model *model)
{
    char sql[200], id[UUID_TEXT_SIZE], open[8];

    if (model->state == NULL) return;
    const struct run run = find(model);
    assert_string_equal(run_state_name(run.state), model->state);
    assert_int_equal(run.attempt, model->attempt);
    assert_int_equal(run.ended_ms != 0, has_ended(model));
    uuid_format(&model->id, id);
    (void)snprintf(sql, sizeof sql, "SELECT count(*)::text FROM run_attempt WHERE run_id = '%s' AND ended_at IS NULL", id);
    (void)snprintf(open, sizeof open, "%d", model->is_open[0] + model->is_open[1]);
    assert_string_equal(ask(sql), open);
}

static void step_order(struct model *model)
{
    if (model->state == NULL) {
        model->nodes = draw(3) == 0 ? 2 : 1;
        request(model, "default");
        model->state = "requested";
    }
    assert_int_equal(order(model, ATTEMPTS), is(model, "requested") ? ERROR_NONE : ERROR_CONFLICT);
    if (is(model, "requested")) model->state = "ordered";
}

static struct model *model_of(const struct uuid *id)
{
    for (size_t i = 0; i < RUNS; i++)
        if (uuid_equal(&models[i].id, id)) return &models[i];
    fail_msg("a run that is not ordered was claimed");
    return NULL;
}

/* Each claimed run must be ordered in the model. */
static void step_lease(struct model *unused)
{
    const unsigned runner = draw(2);
    const struct run_offer offer = offer_of(runner);
    struct run_claim claim;

    (void)unused;
    gather();
    if (!claims(&offer, &claim)) { /* at most, the other runner's lease lacks */
        for (size_t i = 0; i < RUNS; i++) assert_false(is(&models[i], "ordered") && models[i].nodes == 1);
        return;
    }
    struct model *model = model_of(&claim.run);
    assert_true(is(model, "ordered"));
    const bool is_next_node = model->is_open[0];
    assert_int_equal(claim.node, is_next_node ? 1 : 0);
    assert_int_equal(claim.attempt, model->attempt + (is_next_node ? 0 : 1));
    if (is_next_node) assert_int_equal(model->who[0], 1 - runner);
    assert_int_equal(lease(&claim, 1 - runner), ERROR_CONFLICT); /* it is reserved for the other runner */
    assert_int_equal(lease(&claim, runner), ERROR_NONE);
    assert_int_equal(lease(&claim, runner), ERROR_CONFLICT);
    model->attempt = (int)claim.attempt;
    model->is_open[claim.node] = true;
    model->is_finished[claim.node] = false;
    model->who[claim.node] = runner;
    if (claim.node + 1 == model->nodes) move(model, "leased");
    compare(model);
}

static void step_start(struct model *model)
{
    const struct run_holder holder = holder_of(model, 0);
    const bool may = is(model, "leased") && model->is_open[0];
    struct run_step change;

    run_start_prepare(&project, &holder, &change);
    assert_int_equal(changed(ACTION_RUN_START, &change.change), may ? ERROR_NONE : ERROR_CONFLICT);
    if (may) move(model, "running");
}

static void step_heartbeat(struct model *model)
{
    const int node = (int)draw((unsigned)(model->nodes == 0 ? 1 : model->nodes));
    const struct run_heard heard = {.phase = "running", .progress = (int)draw(101), .cpu_ms = 5};
    struct run_holder holder = holder_of(model, node);
    struct error err = {0};

    assert_int_equal(run_heartbeat(stack->pg, &holder, &heard, &err).ok, model->is_open[node]);
    if (!model->is_open[node]) assert_int_equal(err.kind, ERROR_CONFLICT);
    holder.key = keys[1 - model->who[node]];
    assert_false(run_heartbeat(stack->pg, &holder, &heard, &err).ok); /* the lease of another */
}

static void step_refuse(struct model *model)
{
    const struct run_signed made = signed_as(model, 2);
    const struct run_holder holder = holder_of(model, 0);
    const bool may = model->is_open[0] && (is(model, "leased") || is(model, "ordered"));
    struct run_step change;

    run_refuse_prepare(&project, &holder, &made, "devices: there is no H200", &change);
    assert_int_equal(changed(ACTION_RUN_REFUSE, &change.change), may ? ERROR_NONE : ERROR_CONFLICT);
    if (may) move(model, "refused");
}

static void step_finish(struct model *model)
{
    static const struct run_outcome outcomes[] = {{.state = RUN_STATE_FINISHING},
                                                  {.state = RUN_STATE_FINISHING},
                                                  {.state = RUN_STATE_FAILED, .reason = "the program ended with 1"},
                                                  {.state = RUN_STATE_CANCELLED, .reason = "stopped"}};
    const struct run_outcome *outcome = &outcomes[draw(4)];
    const bool is_good = outcome->state == RUN_STATE_FINISHING;
    const int node = model->nodes == 2 && draw(3) == 0 ? 1 : 0;
    const struct run_signed made = signed_as(model, 16 + 2 * (unsigned)model->attempt + (unsigned)node);
    const struct run_holder holder = holder_of(model, node);
    const bool may = model->is_open[node] && (is(model, "running") || (!is_good && is(model, "leased")));
    struct run_step change;

    run_finish_prepare(&project, &holder, &made, outcome, &change);
    assert_int_equal(changed(ACTION_RUN_FINISH, &change.change), may ? ERROR_NONE : ERROR_CONFLICT);
    if (!may) return;
    model->is_open[node] = false;
    model->is_finished[node] = true;
    if (!is_good) move(model, run_state_name(outcome->state));
    else if (model->is_finished[0] && (model->nodes == 1 || model->is_finished[1])) move(model, "finishing");
}

static void step_admit(struct model *model)
{
    const struct run_signed made = signed_as(model, 9);
    struct error err = {0};
    const bool is_bad = draw(4) == 0;
    struct run_admit change;

    run_admit_prepare(&project, &model->id, &made, &change);
    const bool ok = is_bad ? run_quarantine(stack->sequencer, &project, &model->id, "keyd refused it", &err).ok
                           : changed(ACTION_RUN_ADMIT, &change.change) == ERROR_NONE;

    assert_int_equal(ok, is(model, "finishing"));
    if (ok) move(model, is_bad ? "quarantined" : "succeeded");
}

static void step_late(struct model *model)
{
    const struct run_signed made = signed_as(model, 7);
    struct error err = {0};

    if (model->state == NULL) return;
    const struct run_late late = {&project, &model->id, &made, NULL};
    struct action_pair pair = {ACTION_RUN_FINISH, project};
    OWNED(permit) *permit = NULL;
    lease_name(&model->id, model->attempt, 0, pair.resource.detail);
    assert_true(stack_record(stack, &pair, 1, NULL, &permit, &err).ok);
    if (!run_result_keep_late(permit, stack->sequencer, &late, &err).ok) fail_msg("%s", err.message);
}

static void step_cancel(struct model *model)
{
    const bool may = model->state != NULL && !has_ended(model) && !is(model, "finishing");
    struct run_end change;

    run_cancel_prepare(&project, &model->id, &change);
    const enum error_kind refusal = model->state == NULL ? ERROR_NOT_FOUND : ERROR_CONFLICT;
    assert_int_equal(changed(ACTION_RUN_CANCEL, &change.change), may ? ERROR_NONE : refusal);
    if (may) move(model, "cancelled");
}

static void step_stop(struct model *model)
{
    const bool may = is(model, "ordered") || is(model, "leased") || is(model, "running");
    struct error err = {0};

    assert_int_equal(run_stop(stack->sequencer, &project, &model->id, "policies of today forbid it", &err).ok, may);
    if (may) move(model, "failed");
}

static void step_lose(struct model *model)
{
    char sql[300], id[UUID_TEXT_SIZE];
    struct error err = {0};
    size_t count = 0;

    uuid_format(&model->id, id);
    (void)snprintf(sql, sizeof sql,
                   "UPDATE run_attempt SET deadline = now() - interval '1 second' WHERE run_id = '%s' AND ended_at IS NULL", id);
    execute(sql);
    if (!run_lose_due(stack->sequencer, stack->pg, &count, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(count, model->is_open[0] || model->is_open[1] ? 1 : 0);
    if (count == 0) return;
    model->is_open[0] = model->is_open[1] = false;
    move(model, model->attempt == ATTEMPTS ? "failed" : "ordered");
}

static void runs_do_what_the_model_does(void **state)
{
    static void (*const steps[])(struct model *) = {step_order, step_order,  step_lease,     step_lease,    step_lease,
                                                    step_start, step_start,  step_finish,    step_finish,   step_admit,
                                                    step_admit, step_refuse, step_late,      step_cancel,   step_stop,
                                                    step_lose,  step_lose,   step_heartbeat, step_heartbeat};

    (void)state;
    for (unsigned i = 0; i < STEPS; i++) {
        struct model *model = &models[draw(RUNS)];
        if (uuid_is_nil(&model->id) || (has_ended(model) && draw(4) == 0)) *model = (struct model){.id = uuid_random()};
        steps[draw(sizeof steps / sizeof steps[0])](model);
        compare(model);
    }
    assert_string_equal(
        ask("SELECT (SELECT sum(cpu_used_ms) FROM project_runs) = sum(cpu_ms) AND sum(cpu_ms) > 0 FROM run_attempt"
            " WHERE ended_at IS NOT NULL"),
        "t");
    assert_string_equal(ask("SELECT count(*) FROM run_envelope WHERE kind = 'admission' GROUP BY run_id HAVING count(*) > 1"),
                        "");
    assert_string_equal(ask("SELECT count(*) FROM run r WHERE (state = 'succeeded') <> EXISTS (SELECT 1 FROM run_envelope e"
                            " WHERE e.run_id = r.run_id AND e.kind = 'admission')"),
                        "0");
    execute(
        "UPDATE run SET claimed_until = now() + interval '1 day' WHERE ended_at IS NULL"); /* out of the way of the next test */
}

/* ---- at once ---- */

struct asker {
    pthread_t thread;
    struct uuid claimed[WAITING];
    size_t count;
};

static void *ask_for_all(void *argument)
{
    struct asker *asker = argument;
    struct run_offer offer = offer_of(0);
    OWNED(pg) *pg = NULL;
    struct error err = {0};
    bool found = true;

    offer.pool = "at-once";
    if (!pg_open(database_app(stack->database), tables, &pg, &err).ok) return NULL;
    while (found && asker->count < WAITING) {
        struct run_claim claim;
        if (!run_claim(pg, &offer, NULL, &claim, &found, &err).ok) return NULL;
        if (found) asker->claimed[asker->count++] = claim.run;
    }
    return asker;
}

static void runners_that_ask_at_once_get_different_runs(void **state)
{
    static struct asker askers[AT_ONCE];
    struct uuid all[WAITING * AT_ONCE];
    size_t count = 0;

    (void)state;
    for (size_t i = 0; i < WAITING; i++) {
        const struct model model = {.id = uuid_random(), .nodes = 1};
        request(&model, "at-once");
        assert_int_equal(order(&model, 1), ERROR_NONE);
    }
    for (size_t i = 0; i < AT_ONCE; i++) assert_int_equal(pthread_create(&askers[i].thread, NULL, ask_for_all, &askers[i]), 0);
    for (size_t i = 0; i < AT_ONCE; i++) {
        void *ended = NULL;
        assert_int_equal(pthread_join(askers[i].thread, &ended), 0);
        assert_non_null(ended);
        for (size_t j = 0; j < askers[i].count; j++) all[count++] = askers[i].claimed[j];
    }
    assert_int_equal(count, WAITING);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++) assert_false(uuid_equal(&all[i], &all[j]));
}

/* ---- what an offer must have ---- */

static bool fits(const struct run_offer *offer)
{
    struct error err = {0};
    struct run_claim claim;
    bool found = false;

    execute("UPDATE run SET claimed_until = 'epoch' WHERE pool = 'fit'");
    if (!run_claim(stack->pg, offer, NULL, &claim, &found, &err).ok) fail_msg("%s", err.message);
    return found;
}

static void a_runner_gets_only_what_fits(void **state)
{
    const struct model model = {.id = uuid_random(), .nodes = 1};
    const struct uuid other = uuid_random();
    struct run_offer offer = offer_of(0);

    (void)state;
    request(&model, "fit");
    assert_int_equal(order(&model, 1), ERROR_NONE);
    execute("UPDATE run SET cpus = 4, memory_bytes = 1000, isolation = 1, assurance = 2, jurisdictions = '{AE}', devices = 1,"
            " device_type = 'H200', device_memory = 500, regions = '{local/auh}' WHERE pool = 'fit'");
    offer.jurisdiction_count = 1;
    offer.region = "local/auh";
    offer.pool = "fit";
    const struct run_offer good = offer;
    assert_true(fits(&good));
#define NEEDS(change) \
    offer = good;     \
    change;           \
    assert_false(fits(&offer))
    NEEDS(offer.pool = "other");
    NEEDS(offer.cpus = 3);
    NEEDS(offer.memory_bytes = 999);
    NEEDS(offer.isolation = 0);
    NEEDS(offer.assurance = 1);
    NEEDS(offer.jurisdictions[0] = bytes_of_text("SA"));
    NEEDS(offer.jurisdictions[1] = bytes_of_text("DIFC"); offer.jurisdiction_count = 2); /* it may be in AE alone */
    NEEDS(offer.jurisdiction_count = 0);
    NEEDS(offer.region = "local/dxb");
    NEEDS(offer.devices_most = 0);
    NEEDS(offer.enrolled_until_ms = clock_wall_ms() + 3600000); /* the run may take ten minutes, and its lease an hour more */
    NEEDS(offer.device_types[0] = bytes_of_text("NVIDIA H2000"));
    NEEDS(offer.device_count = 0);
    NEEDS(offer.device_types[0] = bytes_of_text("A100"));
    NEEDS(offer.device_memory[0] = 499);
    NEEDS(offer.device_migs[0] = bytes_of_text("1g.18gb"));
    NEEDS(offer.organisation = &other);
    NEEDS(offer.project = &other);
    NEEDS(offer.run = &other; offer.attempt = 1);
    NEEDS(offer.run = &model.id; offer.attempt = 2); /* the next attempt is the first */
#undef NEEDS
    offer = good;
    offer.device_types[0] = bytes_of_text("NVIDIA H200 NVL"); /* a word of its name */
    assert_true(fits(&offer));
    offer.organisation = &project.organisation;
    offer.project = &project.project;
    offer.run = &model.id;
    offer.attempt = 1;
    assert_true(fits(&offer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_do_what_the_model_does),
        cmocka_unit_test(runners_that_ask_at_once_get_different_runs),
        cmocka_unit_test(a_runner_gets_only_what_fits),
    };

    return cmocka_run_group_tests_name("leases of training runs", tests, set_up, tear_down);
}
