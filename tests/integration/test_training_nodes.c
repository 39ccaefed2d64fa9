/* Runs of several nodes: runners are gathered before anything is leased, start together, and end together. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "tests/integration/lease_fixture.h"

static struct model ordered(int nodes)
{
    const struct model model = {.id = uuid_random(), .nodes = nodes};

    request(&model, "default");
    assert_int_equal(order(&model, 3), ERROR_NONE);
    return model;
}

/* The end of a case: no run is in the way of the next. */
static void clear(void)
{
    execute("UPDATE run_attempt SET ended_at = now(), outcome = 'stopped' WHERE ended_at IS NULL");
    execute("DELETE FROM run_share");
    execute("UPDATE run SET state = 'cancelled', ended_at = now() WHERE ended_at IS NULL");
}

static const char *ask_of(const struct model *model, const char *column)
{
    char sql[400], id[UUID_TEXT_SIZE];

    uuid_format(&model->id, id);
    (void)snprintf(sql, sizeof sql, "SELECT (%s)::text FROM run WHERE run_id = '%s'", column, id);
    return ask(sql);
}

/* One question of a runner for work. */
enum found { NOTHING, KEPT, GATHERED, CLAIMED };
static enum found asks_as(const struct run_offer *offer, struct run_claim *claim_out)
{
    struct run_gather kept;
    struct error err = {0};
    bool found = false, gathered = false;

    if (claims(offer, claim_out)) return CLAIMED;
    if (!run_gather_find(lookup_of(stack->pg), offer, &kept, &found, &err).ok) fail_msg("%s", err.message);
    if (!found) return NOTHING;
    if (kept.is_gathered) return GATHERED;
    if (!run_gather_join(stack->pg, offer, &kept, &gathered, &err).ok) fail_msg("%s", err.message);
    *claim_out = kept.claim;
    return gathered ? GATHERED : KEPT;
}

static enum found asks(unsigned runner, struct run_claim *claim_out)
{
    const struct run_offer offer = offer_of(runner);

    return asks_as(&offer, claim_out);
}

static struct run_holder holder_of(const struct run_claim *claim, unsigned runner)
{
    return (struct run_holder){.run = claim->run, .attempt = claim->attempt, .node = claim->node, .key = keys[runner]};
}

/* Both runners have a lease of a run of two nodes. */
static void lease_both(struct model *model, struct run_holder holders_out[2])
{
    struct run_claim claim;

    assert_int_equal(asks(0, &claim), KEPT);
    assert_int_equal(asks(1, &claim), GATHERED);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(asks(i, &claim), CLAIMED);
        assert_true(uuid_equal(&claim.run, &model->id));
        assert_int_equal(lease(&claim, i), ERROR_NONE);
        holders_out[i] = holder_of(&claim, i);
    }
    assert_string_equal(ask_of(model, "state"), "leased");
    model->attempt = (int)holders_out[0].attempt;
}

static struct run_held held_of(const struct run_holder *holder)
{
    struct run_held held;
    struct error err = {0};

    if (!run_held_find(lookup_of(stack->pg), holder, &held, &err).ok) fail_msg("%s", err.message);
    return held;
}

static size_t lose_due(void)
{
    struct error err = {0};
    size_t count = 0;

    if (!run_lose_due(stack->sequencer, stack->pg, &count, &err).ok) fail_msg("%s", err.message);
    return count;
}

/* ---- gathering ---- */

static void nothing_is_leased_before_enough_runners_wait(void **state)
{
    struct model large = ordered(2);
    struct run_claim claim;

    (void)state;
    assert_int_equal(asks(0, &claim), KEPT);
    assert_int_equal(asks(0, &claim), KEPT); /* it counts once */
    assert_string_equal(ask_of(&large, "attempt || state"), "0ordered");
    assert_int_equal(asks(1, &claim), GATHERED);
    assert_string_equal(ask_of(&large, "attempt || state"), "0ordered");
    assert_int_equal(asks(1, &claim), CLAIMED);
    assert_int_equal(claim.node, 0);
    assert_int_equal(claim.attempt, 1);
    assert_int_equal(lease(&claim, 1), ERROR_NONE);
    assert_string_equal(ask_of(&large, "attempt || state"), "1ordered");
    assert_int_equal(asks(1, &claim), NOTHING); /* the other node is for the other runner */
    assert_int_equal(asks(0, &claim), CLAIMED);
    assert_int_equal(claim.node, 1);
    assert_int_equal(claim.attempt, 1);
    assert_int_equal(lease(&claim, 0), ERROR_NONE);
    assert_string_equal(ask_of(&large, "attempt || state"), "1leased");
    assert_string_equal(ask("SELECT count(*) FROM run_share"), "0");
    clear();
}

static void a_runner_that_is_gone_is_not_counted(void **state)
{
    struct model large = ordered(2);
    struct run_claim claim;

    (void)state;
    assert_int_equal(asks(0, &claim), KEPT);
    execute("UPDATE run_share SET until = now() - interval '1 second'");
    assert_int_equal(asks(1, &claim), KEPT);
    assert_int_equal(asks(0, &claim), GATHERED);
    assert_string_equal(ask_of(&large, "attempt"), "0");
    clear();
}

static void a_scheduler_takes_several_nodes(void **state)
{
    struct model large = ordered(2);
    struct run_offer cluster = offer_of(0);
    struct run_claim claim;

    (void)state;
    cluster.nodes = 16;
    assert_int_equal(asks_as(&cluster, &claim), GATHERED);
    for (int node = 0; node < 2; node++) {
        assert_int_equal(asks_as(&cluster, &claim), CLAIMED);
        assert_int_equal(claim.node, node);
        assert_int_equal(lease(&claim, 0), ERROR_NONE);
    }
    assert_string_equal(ask_of(&large, "state"), "leased");
    clear();
}

static void a_job_gathers_for_its_own_run_beside_others(void **state)
{
    struct model first = ordered(2), second = ordered(2);
    struct run_offer job = offer_of(1);
    struct run_claim claim;

    (void)state;
    job.run = &second.id;
    job.attempt = 1;
    job.nodes = 2;
    assert_int_equal(asks(0, &claim), KEPT);
    assert_true(uuid_equal(&claim.run, &first.id));
    assert_int_equal(asks_as(&job, &claim), GATHERED);
    assert_int_equal(asks_as(&job, &claim), CLAIMED);
    assert_true(uuid_equal(&claim.run, &second.id));
    clear();
}

/* ---- between several runs ---- */

static void a_gathering_is_given_up_and_costs_no_attempt(void **state)
{
    struct model large = ordered(2), single = ordered(1);
    struct run_claim claim;

    (void)state;
    assert_int_equal(asks(0, &claim), KEPT);
    assert_string_equal(ask_of(&large, "gather_until BETWEEN now() + interval '50 seconds' AND now() + interval '60 seconds'"),
                        "true");
    execute("UPDATE run SET gather_until = now() - interval '1 second' WHERE nodes = 2 AND ended_at IS NULL");
    assert_int_equal(asks(0, &claim), CLAIMED); /* it rests, and the others go on */
    assert_true(uuid_equal(&claim.run, &single.id));
    assert_int_equal(lease(&claim, 0), ERROR_NONE);
    assert_int_equal(asks(1, &claim), NOTHING);
    assert_string_equal(ask_of(&large, "attempt || state"), "0ordered");
    execute("UPDATE run SET gather_after = now() WHERE nodes = 2 AND ended_at IS NULL");
    assert_int_equal(asks(1, &claim), KEPT); /* again, and for longer */
    assert_string_equal(ask_of(&large, "gather_until > now() + interval '110 seconds'"), "true");
    assert_int_equal(asks(0, &claim), GATHERED);
    clear();
}

static void the_time_of_a_gathering_is_bounded(void **state)
{
    struct model large = ordered(2);
    struct run_claim claim;

    (void)state;
    execute("UPDATE run SET gathers = 100 WHERE nodes = 2 AND ended_at IS NULL");
    assert_int_equal(asks(0, &claim), KEPT);
    assert_string_equal(ask_of(&large,
                               "gather_until < now() + interval '31 minutes' AND gather_after < now() + interval '76 minutes'"
                               " AND gather_after > gather_until + interval '14 minutes'"),
                        "true");
    clear();
}

/* Later runs of one node would take each runner that becomes free, for ever. */
static void later_runs_do_not_starve_a_large_one(void **state)
{
    struct model early = ordered(1), large = ordered(2), late = ordered(1);
    struct run_claim claim;

    (void)state, (void)large, (void)late;
    assert_int_equal(asks(0, &claim), CLAIMED); /* what is older goes first */
    assert_true(uuid_equal(&claim.run, &early.id));
    assert_int_equal(lease(&claim, 0), ERROR_NONE);
    assert_int_equal(asks(1, &claim), KEPT);
    assert_true(uuid_equal(&claim.run, &large.id));
    assert_int_equal(asks(0, &claim), GATHERED);
    clear();
}

static void a_runner_that_does_not_fit_goes_on_meanwhile(void **state)
{
    struct model large = ordered(2), late = ordered(1);
    struct run_offer small = offer_of(1);
    struct run_claim claim;

    (void)state, (void)large;
    execute("UPDATE run SET cpus = 32 WHERE nodes = 2 AND ended_at IS NULL");
    small.cpus = 31;
    assert_int_equal(asks(0, &claim), KEPT);
    assert_int_equal(asks_as(&small, &claim), CLAIMED);
    assert_true(uuid_equal(&claim.run, &late.id));
    clear();
}

/* Each of them would keep a runner that the other needs. */
static void two_large_runs_do_not_block_each_other(void **state)
{
    struct model first = ordered(2), second = ordered(2);
    struct run_offer other = offer_of(1);
    struct run_claim claim;

    (void)state;
    execute("UPDATE run SET cpus = 32 WHERE nodes = 2 AND ended_at IS NULL");
    other.cpus = 16;
    execute("UPDATE run SET cpus = 8 WHERE number = (SELECT max(number) FROM run)"); /* the other runner fits the second alone */
    assert_int_equal(asks(0, &claim), KEPT);
    assert_true(uuid_equal(&claim.run, &first.id));
    assert_int_equal(asks_as(&other, &claim), NOTHING); /* one at a time */
    execute("UPDATE run SET gather_until = now() - interval '1 second' WHERE gather_until > now() AND ended_at IS NULL");
    assert_int_equal(asks_as(&other, &claim), KEPT);
    assert_true(uuid_equal(&claim.run, &second.id));
    assert_int_equal(asks(0, &claim), GATHERED);
    assert_string_equal(ask_of(&second, "gathered"), "true");
    clear();
}

/* ---- the start ---- */

static int64_t ready(const struct run_holder *holder, const char *listen)
{
    struct error err = {0};
    int64_t count = 0;

    if (run_ready(stack->pg, holder, listen, &count, &err).ok) return count;
    assert_int_equal(err.kind, ERROR_CONFLICT);
    return -1;
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
    const struct run_holder stranger = {holders[1].run, holders[1].attempt, holders[1].node, keys[0]};
    assert_int_equal(ready(&stranger, "192.0.2.9:1"), -1);
    assert_string_equal(ask("SELECT phase FROM run_attempt WHERE ended_at IS NULL ORDER BY node LIMIT 1"), "waiting");
    assert_int_equal(ready(&holders[1], "[2001:db8::2]:2"), 2);
    execute("UPDATE run_attempt SET lease = '{}' WHERE ended_at IS NULL");
    assert_true(run_peers(lookup_of(stack->pg), &holders[0], &peers, &err).ok);
    assert_int_equal(pg_rows_count(peers), 1);
    assert_int_equal(pg_int8(peers, 0, 0), 1);
    assert_string_equal(pg_text(peers, 0, 1), "[2001:db8::2]:2");
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
    execute("UPDATE run_attempt SET deadline = now() WHERE node = 0 AND ended_at IS NULL"); /* after its result its runner may be silent */
    assert_int_equal(finish(&large, &holders[0], RUN_STATE_FINISHING), ERROR_NONE);
    assert_string_equal(ask_of(&large, "state"), "leased");
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
    assert_int_equal(finish(&large, &holders[0], RUN_STATE_FINISHING), ERROR_NONE);
    execute("UPDATE run_attempt SET deadline = now() WHERE ended_at IS NULL");
    assert_int_equal(lose_due(), 1);
    lease_both(&large, holders);
    assert_int_equal(large.attempt, 2);
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
        cmocka_unit_test(nothing_is_leased_before_enough_runners_wait),
        cmocka_unit_test(a_runner_that_is_gone_is_not_counted),
        cmocka_unit_test(a_scheduler_takes_several_nodes),
        cmocka_unit_test(a_job_gathers_for_its_own_run_beside_others),
        cmocka_unit_test(a_gathering_is_given_up_and_costs_no_attempt),
        cmocka_unit_test(the_time_of_a_gathering_is_bounded),
        cmocka_unit_test(later_runs_do_not_starve_a_large_one),
        cmocka_unit_test(a_runner_that_does_not_fit_goes_on_meanwhile),
        cmocka_unit_test(two_large_runs_do_not_block_each_other),
        cmocka_unit_test(nodes_wait_for_each_other),
        cmocka_unit_test(without_all_leases_nothing_moves_the_end),
        cmocka_unit_test(the_silence_of_one_node_ends_all),
        cmocka_unit_test(a_run_is_finishing_with_its_last_result),
        cmocka_unit_test(the_first_node_that_fails_ends_all),
        cmocka_unit_test(the_next_attempt_has_its_own_results),
    };

    return cmocka_run_group_tests_name("runs of several nodes", tests, set_up, tear_down);
}
