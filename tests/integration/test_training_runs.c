/*
 * Random requests, approvals, cancellations and expiries of runs, compared with a model that has a copy of training/states.def.
 */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "tests/integration/training_fixture.h"
#include "training/expire.h"

#define RUNS   12
#define STEPS  120
#define PEOPLE 4
#define DAY_MS INT64_C(86400000)

static uint64_t seed = 20261123;

/* The state that the test expects. */
struct model {
    struct uuid id;
    bool is_there, has_approved[PEOPLE];
    int wanted, approvals;
    const char *state;
};
static struct model models[RUNS];

static unsigned draw(unsigned below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % below;
}

static struct run_signed signed_by(const struct model *model, unsigned person)
{
    static char names[PEOPLE + 1][PRINCIPAL_KEY_SIZE];
    struct run_signed made = {.principal = names[person], .envelope = bytes_of_text("{}")};

    (void)snprintf(names[person], sizeof names[person], "robot:%u", person);
    memcpy(made.digest, model->id.bytes, sizeof model->id.bytes);
    made.digest[31] = (uint8_t)person;
    return made;
}

static enum error_kind request(const struct model *model, int wanted, uint8_t other)
{
    struct run run = {.id = model->id, .approvals_wanted = wanted, .pool = "default", .expires_ms = clock_wall_ms() + DAY_MS};
    struct run_signed made = signed_by(model, PEOPLE);
    struct run_request change;

    made.digest[30] = other;
    run_request_prepare(&project, &run, &made, &change);
    return changed(ACTION_RUN_REQUEST, &change.change);
}

static struct run find(const struct model *model)
{
    OWNED(permit) *permit = stack_permit(stack, ACTION_RUN_READ, &project);
    struct error err = {0};
    struct run run;

    if (!run_find(permit, stack->pg, ACTION_RUN_READ, &model->id, &run, &err).ok) fail_msg("%s", err.message);
    return run;
}

static enum error_kind approve(const struct model *model, unsigned person)
{
    const struct run run = find(model);
    const struct run_signed made = signed_by(model, person);
    struct run_approve change;

    run_approve_prepare(&project, &run, &made, &change);
    return changed(ACTION_RUN_APPROVE, &change.change);
}

static enum error_kind cancel(const struct model *model)
{
    struct run_end change;

    run_cancel_prepare(&project, &model->id, &change);
    return changed(ACTION_RUN_CANCEL, &change.change);
}

static size_t expire(const struct model *model)
{
    char sql[200], id[UUID_TEXT_SIZE];
    struct error err = {0};
    size_t count = 0;

    uuid_format(&model->id, id);
    (void)snprintf(sql, sizeof sql,
                   "UPDATE run SET expires_at = now() - interval '1 second' WHERE run_id = '%s' AND ended_at IS NULL", id);
    execute(sql);
    if (!run_expire_due(stack->sequencer, stack->pg, &count, &err).ok) fail_msg("%s", err.message);
    return count;
}

static bool is_open(const struct model *model)
{
    return model->is_there && (strcmp(model->state, "requested") == 0 || strcmp(model->state, "awaiting approval") == 0);
}

static void step_request(struct model *model)
{
    const uint8_t other = draw(8) == 0 ? 1 : 0;
    const int wanted = (int)draw(3);

    if (model->is_there || other == 0)
        assert_int_equal(request(model, model->is_there ? model->wanted : wanted, other),
                         other == 0 ? ERROR_NONE : ERROR_CONFLICT);
    if (model->is_there || other != 0) return;
    model->is_there = true;
    model->wanted = wanted;
    model->state = wanted > 0 ? "awaiting approval" : "requested";
}

static void step_approve(struct model *model)
{
    const unsigned person = draw(PEOPLE);

    if (!model->is_there) return;
    const bool counts = strcmp(model->state, "awaiting approval") == 0 && !model->has_approved[person];
    assert_int_equal(approve(model, person), counts ? ERROR_NONE : ERROR_CONFLICT);
    if (!counts) return;
    model->has_approved[person] = true;
    if (++model->approvals == model->wanted) model->state = "requested";
}

static void step_cancel(struct model *model)
{
    assert_int_equal(cancel(model), is_open(model) ? ERROR_NONE : model->is_there ? ERROR_CONFLICT : ERROR_NOT_FOUND);
    if (is_open(model)) model->state = "cancelled";
}

static void step_expire(struct model *model)
{
    assert_int_equal(expire(model), is_open(model) ? 1 : 0);
    if (is_open(model)) model->state = "expired";
}

static void compare(const struct model *model)
{
    if (!model->is_there) return;
    const struct run run = find(model);
    assert_string_equal(run_state_name(run.state), model->state);
    assert_int_equal(run.approvals, model->approvals);
    assert_int_equal(run.ended_ms != 0, !is_open(model));
    assert_int_equal(run_state_is_end(run.state), !is_open(model));
}

static void runs_do_what_the_model_does(void **state)
{
    static void (*const steps[])(struct model *) = {step_request, step_request, step_approve, step_approve,
                                                    step_approve, step_cancel,  step_expire};

    (void)state;
    for (unsigned i = 0; i < STEPS; i++) {
        struct model *model = &models[draw(RUNS)];
        if (uuid_is_nil(&model->id) || (model->is_there && !is_open(model) && draw(3) == 0))
            *model = (struct model){.id = uuid_random()};
        steps[draw(sizeof steps / sizeof steps[0])](model);
        compare(model);
    }
    assert_string_equal(ask("SELECT count(*) FROM run WHERE (ended_at IS NULL) <> (state IN ('requested', 'awaiting approval'))"),
                        "0");
    assert_string_equal(ask("SELECT count(*) FROM run r WHERE (SELECT count(*) FROM run_envelope e WHERE e.run_id = r.run_id"
                            " AND e.kind = 'request') <> 1"),
                        "0");
    assert_string_equal(ask("SELECT count(DISTINCT state) FROM run"), "4");
    assert_string_equal(ask("SELECT count(*) FROM project_runs p WHERE open_runs > 0 AND open_runs = (SELECT count(*) FROM run r"
                            " WHERE r.project_id = p.project_id AND ended_at IS NULL)"
                            " AND bytes = (SELECT sum(length(envelope)) FROM run_envelope)"),
                        "1"); /* the triggers count what the model did */
}

/* A client that lost the answer is not refused, though the project is full. */
static void a_full_project_takes_no_further_run(void **state)
{
    struct model first = {.id = uuid_random()}, second = {.id = uuid_random()};

    (void)state;
    assert_int_equal(request(&first, 0, 0), ERROR_NONE);
    execute("CREATE TABLE kept AS SELECT open_runs FROM project_runs");
    execute("UPDATE project_runs SET open_runs = 10000");
    assert_int_equal(request(&second, 0, 0), ERROR_LIMIT);
    assert_int_equal(request(&first, 0, 0), ERROR_NONE);
    assert_string_equal(ask("SELECT open_runs FROM project_runs"), "10000"); /* the refused one was not counted */
    assert_int_equal(cancel(&first), ERROR_NONE);
    assert_int_equal(request(&second, 0, 0), ERROR_NONE);
    execute("UPDATE project_runs SET open_runs = kept.open_runs FROM kept");
    execute("DROP TABLE kept");
}

/* Cancelled runs free their place, and their envelopes stay: one trainer filled the database that way. */
static void the_envelopes_of_ended_runs_have_a_bound(void **state)
{
    struct model refused = {.id = uuid_random()};
    const struct run run = {.id = refused.id, .pool = "default", .expires_ms = clock_wall_ms() + DAY_MS};
    const struct run_signed made = signed_by(&refused, PEOPLE);
    uint64_t before = 0;
    struct run_request change;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct model model = {.id = uuid_random()};
        assert_int_equal(request(&model, 0, 0), ERROR_NONE);
        assert_int_equal(cancel(&model), ERROR_NONE);
    }
    assert_true(text_to_u64(bytes_of_text(ask("SELECT bytes FROM project_runs")), INT64_MAX, &before));
    run_request_prepare(&project, &run, &made, &change);
    assert_true(change.bytes_max == RUN_PROJECT_BYTES && made.envelope.length == 2);
    change.bytes_max = (int64_t)before + 1;
    assert_int_equal(changed(ACTION_RUN_REQUEST, &change.change), ERROR_LIMIT);
    change.bytes_max++;
    assert_int_equal(changed(ACTION_RUN_REQUEST, &change.change), ERROR_NONE);
    change.bytes_max = 1;
    assert_int_equal(changed(ACTION_RUN_REQUEST, &change.change), ERROR_NONE); /* the same again adds nothing */
}

/* The application's role can neither change a count nor run the triggers' functions for itself. */
static void the_counts_are_not_the_applications(void **state)
{
    (void)state;
    execute("DO $do$ BEGIN SET LOCAL ROLE sijil_app; UPDATE project_runs SET open_runs = 0; RAISE 'it was allowed';"
            " EXCEPTION WHEN insufficient_privilege THEN NULL; END $do$");
    execute("DO $do$ BEGIN SET LOCAL ROLE sijil_app; DELETE FROM project_runs; RAISE 'it was allowed';"
            " EXCEPTION WHEN insufficient_privilege THEN NULL; END $do$");
}

/* Both read the run before either has approved it. */
static void an_approval_that_was_checked_without_another_is_refused(void **state)
{
    struct model model = {.id = uuid_random()};
    struct run_approve first, second;

    (void)state;
    assert_int_equal(request(&model, 2, 0), ERROR_NONE);
    const struct run run = find(&model);
    const struct run_signed one = signed_by(&model, 0), other = signed_by(&model, 1);
    run_approve_prepare(&project, &run, &one, &first);
    run_approve_prepare(&project, &run, &other, &second);
    assert_int_equal(changed(ACTION_RUN_APPROVE, &first.change), ERROR_NONE);
    assert_int_equal(changed(ACTION_RUN_APPROVE, &second.change), ERROR_CONFLICT);
    assert_int_equal(find(&model).approvals, 1);
}

static size_t envelopes_under(const struct permit *permit, const struct uuid *id)
{
    OWNED(pg_rows) *rows = NULL;
    struct error err = {0};

    if (!run_envelopes(permit, stack->pg, ACTION_RUN_READ, id, &rows, &err).ok) fail_msg("%s", err.message);
    return pg_rows_count(rows);
}

/* The envelopes of any run could be read under a permit for another project. */
static void a_run_of_another_project_is_not_found(void **state)
{
    struct model model = {.id = uuid_random()};
    struct resource other = project;
    struct error err = {0};
    struct run run;

    (void)state;
    assert_int_equal(request(&model, 0, 0), ERROR_NONE);
    other.project = uuid_random();
    OWNED(permit) *permit = stack_permit(stack, ACTION_RUN_READ, &other);
    assert_false(run_find(permit, stack->pg, ACTION_RUN_READ, &model.id, &run, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    assert_int_equal(envelopes_under(permit, &model.id), 0);
    OWNED(permit) *own = stack_permit(stack, ACTION_RUN_READ, &project);
    assert_int_equal(envelopes_under(own, &model.id), 1);
}

/* Lists show it, so it is short, and one line of whole characters. */
static void a_command_is_cut_to_whole_characters(void **state)
{
    static const struct {
        const char *script, *wanted;
    } rows[] = {
        {"print(1)", "/bin/sh -c print(1)"},
        {"a\nb\tc\x7f", "/bin/sh -c a b c "},
        {"01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456\u00e9",
         "/bin/sh -c 01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456\u00e9"},
        {"012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9",
         "/bin/sh -c 012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234..."},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        OWNED_JSON json = json_pack("{s:{s:[s,s,s]}}", "spec", "argv", "/bin/sh", "-c", rows[i].script);
        char text[RUN_COMMAND_SIZE];
        assert_non_null(json);
        run_command_text(&(struct run_envelope){.json = json}, text);
        assert_string_equal(text, rows[i].wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_do_what_the_model_does),
        cmocka_unit_test(a_full_project_takes_no_further_run),
        cmocka_unit_test(the_envelopes_of_ended_runs_have_a_bound),
        cmocka_unit_test(the_counts_are_not_the_applications),
        cmocka_unit_test(an_approval_that_was_checked_without_another_is_refused),
        cmocka_unit_test(a_run_of_another_project_is_not_found),
        cmocka_unit_test(a_command_is_cut_to_whole_characters),
    };

    return cmocka_run_group_tests_name("training runs", tests, set_up, tear_down);
}
