/* What the changes of runs refuse under a permit for something else. A misuse of a permit is a bug of the caller, so it aborts the program. */
#include "tests/support/unit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "authz/lease_name.h"
#include "tests/integration/lease_fixture.h"
#include "training/content.h"

static struct uuid of_acme; /* the run that a stranger is after */
static struct resource stranger = {.kind = RESOURCE_PROJECT, .name = "rival/own"};

/* ---- misuses ---- */

static struct resource named(struct resource where, const struct uuid *run, int64_t node)
{
    lease_name(run, 1, node, where.detail);
    return where;
}

static void forbid_as(enum action action, const struct permit *permit)
{
    const struct run_forbidden forbidden = {action, &project, &of_acme, "because"};
    struct error err = {0};

    (void)run_forbid(permit, stack->sequencer, &forbidden, &err).ok;
}

static void forbid_as_reader(const struct permit *permit)
{
    forbid_as(ACTION_RUN_READ, permit);
}

static void forbid_as_asker(const struct permit *permit)
{
    forbid_as(ACTION_RUNNER_ASK, permit);
}

static void forbid_as_holder(const struct permit *permit)
{
    forbid_as(ACTION_RUN_HEARTBEAT, permit);
}

static void drop_region(const struct permit *permit)
{
    const struct run_claim claim = {.run = of_acme, .where = project};
    struct error err = {0};
    int64_t left = 0;

    (void)run_region_drop(permit, stack->pg, &claim, "local/dxb", &left, &err).ok;
}

static const struct run_holder victim = {.attempt = 1, .key = "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"};

static struct run_second second_of(struct run_holder *holder, struct run_held *held)
{
    *holder = victim;
    holder->run = of_acme;
    *held = (struct run_held){.where = stranger};
    return (struct run_second){.holder = holder, .held = held, .principal = "runner:x"};
}

static void suspend(const struct permit *permit)
{
    struct run_holder holder;
    struct run_held held;
    const struct run_second second = second_of(&holder, &held);
    struct error err = {0};

    (void)run_second_result(permit, stack->sequencer, stack->pg, &second, &err).ok;
}

static void look_for_second(const struct permit *permit)
{
    struct run_holder holder;
    struct run_held held;
    const struct run_second second = second_of(&holder, &held);
    struct error err = {0};
    bool is_second = false;

    (void)run_result_is_second(permit, stack->pg, &second, &is_second, &err).ok;
}

static void keep_late_in(const struct resource *where, const struct permit *permit)
{
    const struct run_signed stored = {.principal = "runner:x", .envelope = bytes_of_text("{}")};
    const struct run_late late = {where, &of_acme, &stored, NULL};
    struct error err = {0};

    (void)run_result_keep_late(permit, stack->sequencer, &late, &err).ok;
}

static void keep_late(const struct permit *permit)
{
    keep_late_in(&project, permit);
}

static void keep_late_as_own(const struct permit *permit)
{
    keep_late_in(&stranger, permit);
}

static void check_sent(const struct permit *permit)
{
    struct run_holder holder = victim;
    struct error err = {0};

    holder.run = of_acme;
    const struct run_sent sent = {ACTION_RUN_FINISH, &holder, "model", "acme/models/m", NULL};
    (void)run_sent_check(permit, stack->pg, &sent, &err).ok;
}

/* ---- the cases ---- */

static const struct row {
    const char *name;
    void (*misuse)(const struct permit *permit);
    enum action action; /* that the permit allows */
    enum {
        OWN_RUN,
        OWN_PROJECT,
        OWN_NODE
    } of; /* whose: another run, another project with this run's name, another node of this run */
} rows[] = {
    {"a run ends under a permit to read it", forbid_as_reader, ACTION_RUN_READ, OWN_NODE},
    {"a run ends outside of the scope of the runner that asks", forbid_as_asker, ACTION_RUNNER_ASK, OWN_PROJECT},
    {"a run ends by the heartbeat of another run", forbid_as_holder, ACTION_RUN_HEARTBEAT, OWN_RUN},
    {"a run ends by a heartbeat in another project", forbid_as_holder, ACTION_RUN_HEARTBEAT, OWN_PROJECT},
    {"a region is taken outside of the scope of the runner", drop_region, ACTION_RUNNER_ASK, OWN_PROJECT},
    {"a key is suspended by the result of another run", suspend, ACTION_RUN_FINISH, OWN_RUN},
    {"a key is suspended by the result of another node", suspend, ACTION_RUN_FINISH, OWN_NODE},
    {"results of another node are looked at", look_for_second, ACTION_RUN_FINISH, OWN_NODE},
    {"a late result is added to another run", keep_late, ACTION_RUN_FINISH, OWN_RUN},
    {"a late result is added to a run of another project", keep_late_as_own, ACTION_RUN_FINISH, OWN_RUN},
    {"a late result is added in another project", keep_late, ACTION_RUN_FINISH, OWN_PROJECT},
    {"blobs of another lease are looked at", check_sent, ACTION_RUN_FINISH, OWN_NODE},
};

static struct resource resource_of(const struct row *row)
{
    const struct uuid other = uuid_random();

    if (row->of == OWN_RUN) return named(stranger, &other, 0);
    if (row->of == OWN_PROJECT) return named(stranger, &of_acme, 0);
    return named(project, &of_acme, 1);
}

/* The child has no thread that records: without its abort it waits until the alarm. */
static bool aborts(void (*misuse)(const struct permit *permit), const struct permit *permit)
{
    int status = -1;
    const pid_t child = fork();

    if (child == 0) {
        (void)fclose(stderr);
        (void)alarm(10);
        misuse(permit);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void a_permit_for_something_else_aborts(void **state)
{
    const struct row *row = *state;
    const struct resource where = resource_of(row);
    OWNED(permit) *permit = stack_permit(stack, row->action, &where);

    assert_true(aborts(row->misuse, permit));
}

static void doubts_are_of_the_project_alone(void **state)
{
    OWNED(permit) *own = stack_permit(stack, ACTION_RUN_READ, &project);
    OWNED(permit) *other = stack_permit(stack, ACTION_RUN_READ, &stranger);
    OWNED(pg_rows) *seen = NULL;
    OWNED(pg_rows) *stolen = NULL;
    struct error err = {0};

    (void)state;
    must(run_doubts(own, stack->pg, ACTION_RUN_READ, &of_acme, &seen, &err), &err);
    assert_int_equal(pg_rows_count(seen), 1);
    must(run_doubts(other, stack->pg, ACTION_RUN_READ, &of_acme, &stolen, &err), &err);
    assert_int_equal(pg_rows_count(stolen), 0);
}

static int set_up_run(void **state)
{
    const struct model model = {.id = uuid_random()};
    char sql[300], id[UUID_TEXT_SIZE];

    if (set_up(state) != 0) return -1;
    stranger.organisation = uuid_random();
    stranger.project = uuid_random();
    of_acme = model.id;
    request(&model, "default");
    uuid_format(&of_acme, id);
    (void)snprintf(
        sql, sizeof sql,
        "INSERT INTO run_doubt (run_id, key, runner, since, reason) VALUES ('%s', '%s', gen_random_uuid(), now(), 'secret')", id,
        keys[0]);
    execute(sql);
    return 0;
}

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(doubts_are_of_the_project_alone)};
    void *state = NULL;

    if (set_up_run(&state) != 0) return 1;
    const int failed =
        RUN_TABLE(rows, a_permit_for_something_else_aborts) + cmocka_run_group_tests_name("doubts", others, NULL, NULL);
    (void)tear_down(&state);
    return failed;
}
