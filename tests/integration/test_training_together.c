/* The nodes of a run start together, and end together. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/integration/nodes_fixture.h"

/* ---- the start ---- */

static int64_t ready_with(const struct run_holder *holder, const char *listen, const char *certificate)
{
    const struct run_readiness readiness = {.listen = listen, .certificate = certificate};
    struct error err = {0};
    int64_t count = 0;

    if (run_ready(stack->pg, holder, &readiness, &count, &err).ok) return count;
    assert_int_equal(err.kind, ERROR_CONFLICT);
    return -1;
}

static int64_t ready(const struct run_holder *holder, const char *listen)
{
    return ready_with(holder, listen, "{}");
}

static void nodes_wait_for_each_other(void **state)
{
    struct model large = ordered(2);
    OWNED(pg_rows) *peers = NULL;
    struct run_holder holders[2];
    struct error err = {0};

    (void)state;
    lease_both(&large, holders);
    assert_int_equal(ready(&holders[0], "192.0.2.1:1"), 1);
    assert_int_equal(ready(&holders[0], "192.0.2.1:1"), 1);
    assert_int_equal(ready(&holders[0], "192.0.2.9:1"), -1); /* what the others may have been told stays so */
    assert_int_equal(ready_with(&holders[0], "192.0.2.1:1", "{\"second\":1}"), -1); /* a node certifies one key */
    const struct run_holder stranger = {holders[1].run, holders[1].attempt, holders[1].node, keys[0]};
    assert_int_equal(ready(&stranger, "192.0.2.9:1"), -1);
    assert_string_equal(ask("SELECT phase FROM run_attempt WHERE ended_at IS NULL ORDER BY node LIMIT 1"), "waiting");
    assert_int_equal(ready(&holders[1], "[2001:db8::2]:2"), 2);
    execute("UPDATE run_attempt SET lease = '{}' WHERE ended_at IS NULL");
    assert_true(run_peers(lookup_of(stack->pg), &holders[0], &peers, &err).ok);
    assert_int_equal(pg_rows_count(peers), 1);
    assert_int_equal(pg_int8(peers, 0, 0), 1);
    assert_string_equal(pg_text(peers, 0, 1), "[2001:db8::2]:2");
    assert_string_equal(pg_text(peers, 0, 3), "{}");
    clear();
    assert_int_equal(ready(&holders[0], "192.0.2.1:1"), -1); /* it has ended */
}

static void without_all_leases_nothing_moves_the_end(void **state)
{
    struct model large = ordered(2);
    const struct run_heard heard = {.phase = "fetching", .progress = -1};
    struct run_claim claim;
    struct error err = {0};

    (void)state;
    assert_int_equal(asks(0, &claim), KEPT);
    assert_int_equal(asks(1, &claim), GATHERED);
    assert_int_equal(asks(0, &claim), CLAIMED);
    assert_int_equal(lease(&claim, 0), ERROR_NONE);
    const struct run_holder holder = holder_of(&claim, 0);
    execute("UPDATE run_attempt SET deadline = now() + interval '2 seconds' WHERE ended_at IS NULL");
    assert_true(run_heartbeat(stack->pg, &holder, &heard, &err).ok);
    assert_int_equal(ready(&holder, "192.0.2.1:1"), 1);
    assert_string_equal(ask("SELECT (deadline < now() + interval '3 seconds')::text FROM run_attempt WHERE ended_at IS NULL"),
                        "true");
    execute("UPDATE run_attempt SET deadline = now() WHERE ended_at IS NULL");
    assert_int_equal(lose_due(), 1);
    assert_string_equal(ask_of(&large, "attempt || state"), "1ordered");
    const struct run_held held = held_of(&holder);
    assert_true(held.has_ended);
    assert_string_equal(held.reason, "not all nodes came: one has no lease");
    clear();
}

/* ---- the end ---- */

static void the_silence_of_one_node_ends_all(void **state)
{
    struct model large = ordered(2);
    struct run_holder holders[2];

    (void)state;
    lease_both(&large, holders);
    execute("UPDATE run_attempt SET deadline = now() WHERE node = 1 AND ended_at IS NULL");
    assert_int_equal(lose_due(), 1);
    assert_string_equal(ask_of(&large, "state"), "ordered");
    const struct run_held held = held_of(&holders[0]);
    assert_true(held.has_ended);
    assert_string_equal(held.reason, "the runner of node 1 was silent for 40 s");
    clear();
}

static void start(const struct run_holder *holder)
{
    struct run_step change;

    run_start_prepare(&project, holder, &change);
    assert_int_equal(changed(ACTION_RUN_START, &change.change), ERROR_NONE);
}

static enum error_kind finish(const struct model *model, const struct run_holder *holder, enum run_state to)
{
    const struct run_outcome outcome = {.state = to, .reason = "node 1: the program ended with 1", .cpu_ms = 7};
    const struct run_signed made = signed_as(model, 16 + 2 * (unsigned)holder->attempt + (unsigned)holder->node);
    struct run_step change;

    run_finish_prepare(&project, holder, &made, &outcome, &change);
    return changed(ACTION_RUN_FINISH, &change.change);
}

static void a_run_is_finishing_with_its_last_result(void **state)
{
    struct model large = ordered(2);
    struct run_holder holders[2];

    (void)state;
    lease_both(&large, holders);
    assert_int_equal(finish(&large, &holders[0], RUN_STATE_FINISHING), ERROR_CONFLICT); /* nothing was started */
    start(&holders[0]);
    execute(
        "UPDATE run_attempt SET deadline = now() WHERE node = 0 AND ended_at IS NULL"); /* after its result its runner may be silent */
    assert_int_equal(finish(&large, &holders[0], RUN_STATE_FINISHING), ERROR_NONE);
    assert_string_equal(ask_of(&large, "state"), "running");
    assert_int_equal(lose_due(), 0);
    assert_int_equal(finish(&large, &holders[1], RUN_STATE_FINISHING), ERROR_NONE);
    assert_string_equal(ask_of(&large, "state"), "finishing");
    assert_string_equal(
        ask_of(&large, "SELECT count(*) FROM run_envelope e WHERE e.run_id = run.run_id AND kind IN ('result', 'node result')"),
        "2");
    execute("UPDATE run SET state = 'cancelled', ended_at = now() WHERE state = 'finishing'");
    clear();
}

static void the_first_node_that_fails_ends_all(void **state)
{
    struct model large = ordered(2);
    struct run_holder holders[2];

    (void)state;
    lease_both(&large, holders);
    assert_int_equal(finish(&large, &holders[1], RUN_STATE_FAILED), ERROR_NONE);
    assert_string_equal(ask_of(&large, "state"), "failed");
    const struct run_held held = held_of(&holders[0]);
    assert_true(held.has_ended);
    assert_string_equal(held.reason, "node 1: the program ended with 1");
    assert_int_equal(finish(&large, &holders[0], RUN_STATE_FINISHING), ERROR_CONFLICT);
    clear();
}

/* The result of node 0 is there already when the attempt is lost. */
static void the_next_attempt_has_its_own_results(void **state)
{
    struct model large = ordered(2);
    struct run_holder holders[2];

    (void)state;
    lease_both(&large, holders);
    start(&holders[0]);
    assert_int_equal(finish(&large, &holders[0], RUN_STATE_FINISHING), ERROR_NONE);
    execute("UPDATE run_attempt SET deadline = now() WHERE ended_at IS NULL");
    assert_int_equal(lose_due(), 1);
    lease_both(&large, holders);
    assert_int_equal(large.attempt, 2);
    start(&holders[0]);
    for (unsigned node = 0; node < 2; node++) assert_int_equal(finish(&large, &holders[node], RUN_STATE_FINISHING), ERROR_NONE);
    assert_string_equal(ask_of(&large, "state"), "finishing");
    assert_string_equal(ask_of(&large, "SELECT string_agg(kind || attempt || node, ' ' ORDER BY number) FROM run_envelope e"
                                       " WHERE e.run_id = run.run_id AND attempt IS NOT NULL"),
                        "result10 result20 node result21");
    execute("UPDATE run SET state = 'cancelled', ended_at = now() WHERE state = 'finishing'");
    clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_wait_for_each_other),          cmocka_unit_test(without_all_leases_nothing_moves_the_end),
        cmocka_unit_test(the_silence_of_one_node_ends_all),   cmocka_unit_test(a_run_is_finishing_with_its_last_result),
        cmocka_unit_test(the_first_node_that_fails_ends_all), cmocka_unit_test(the_next_attempt_has_its_own_results),
    };

    return cmocka_run_group_tests_name("nodes that start and end together", tests, set_up, tear_down);
}
