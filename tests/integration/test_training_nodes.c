/* Runs of several nodes: runners are gathered before anything is leased. */
#include "tests/support/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/integration/nodes_fixture.h"

/* Both runners have asked for work before, so a run of two nodes is likely to get them. */
static void both_were_seen(void)
{
    execute("INSERT INTO run_share SELECT run_id, k, 1, now() - interval '1 hour' FROM run,"
            " unnest(ARRAY[repeat('A', 43), repeat('B', 43)]) k WHERE nodes > 1 AND ended_at IS NULL");
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
    assert_string_equal(ask("SELECT count(*) FROM run_share WHERE until > now()"), "0");
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

/* It has no tunnel, or does not know of several nodes: it would end the run. */
static void a_runner_that_serves_no_nodes_gets_no_such_run(void **state)
{
    struct model large = ordered(2), late = ordered(1);
    struct run_offer old = offer_of(1);
    struct run_claim claim;

    (void)state, (void)large;
    old.nodes = 0;
    assert_int_equal(asks_as(&old, &claim), CLAIMED);
    assert_true(uuid_equal(&claim.run, &late.id));
    assert_int_equal(lease(&claim, 1), ERROR_NONE);
    assert_int_equal(asks_as(&old, &claim), NOTHING);
    clear();
}

/* ---- between several runs ---- */

static void a_gathering_is_given_up_and_costs_no_attempt(void **state)
{
    struct model large = ordered(2), single = ordered(1);
    struct run_claim claim;

    (void)state;
    both_were_seen();
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

/* Somebody asks for more nodes than the pool has. */
static void a_run_that_can_not_begin_keeps_nobody(void **state)
{
    struct model large = ordered(3), late = ordered(1);
    struct run_claim claim;

    (void)state;
    assert_int_equal(asks(1, &claim), CLAIMED);
    assert_true(uuid_equal(&claim.run, &late.id));
    assert_int_equal(lease(&claim, 1), ERROR_NONE);
    late = ordered(1);
    assert_int_equal(asks(0, &claim), CLAIMED); /* two were seen, and it needs three */
    assert_true(uuid_equal(&claim.run, &late.id));
    execute(
        "INSERT INTO run_share SELECT run_id, repeat('C', 43), 1, now() - interval '23 hours' FROM run WHERE nodes = 3 AND ended_at IS NULL");
    assert_int_equal(asks(0, &claim), KEPT);
    execute("UPDATE run_share SET until = now() - interval '25 hours' WHERE key = repeat('C', 43)");
    execute("UPDATE run SET claimed_until = 'epoch' WHERE ended_at IS NULL");
    assert_int_equal(asks(0, &claim), CLAIMED);
    assert_string_equal(ask_of(&large, "attempt"), "0");
    clear();
}

/* Later runs of one node would take each runner that becomes free, for ever. */
static void later_runs_do_not_starve_a_large_one(void **state)
{
    struct model early = ordered(1), large = ordered(2), late = ordered(1);
    struct run_claim claim;

    (void)state, (void)large, (void)late;
    both_were_seen();
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
    both_were_seen();
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

/* ---- at several gateways ---- */

/* A gateway that has looked, and keeps its runner now. */
struct gateway {
    struct pg *pg;
    struct run_offer offer;
    struct run_gather found;
    enum run_keeping keeping;
    struct error err;
    pthread_t thread;
};

static void *keep(void *context)
{
    struct gateway *gateway = context;

    gateway->keeping = RUN_KEEPS_ENOUGH;
    if (!run_gather_join(gateway->pg, &gateway->offer, &gateway->found, &gateway->keeping, &gateway->err).ok)
        gateway->keeping = RUN_KEEPS_ENOUGH; /* which nobody expects */
    return NULL;
}

static void await_locked(const char *count)
{
    for (unsigned i = 0; i < 1000 && strcmp(ask("SELECT count(*) FROM pg_locks WHERE NOT granted"), count) != 0; i++)
        (void)usleep(10000);
    assert_string_equal(ask("SELECT count(*) FROM pg_locks WHERE NOT granted"), count);
}

/* Each has found a run for its runner, and that no other one gathers. The first is in the middle of its beginning when the second begins. */
static void of_two_that_begin_at_once_one_gathers(void **state)
{
    struct model first = ordered(2), second = ordered(2);
    struct gateway gateways[2] = {{.offer = offer_of(0)}, {.offer = offer_of(1)}};
    struct error err = {0};
    bool found = false;

    (void)state, (void)first;
    execute("UPDATE run SET cpus = 32 WHERE ended_at IS NULL");
    execute("UPDATE run SET cpus = 8 WHERE number = (SELECT max(number) FROM run)");
    gateways[1].offer.cpus = 16;
    execute("BEGIN");
    execute("SELECT 1 FROM run WHERE cpus = 32 AND ended_at IS NULL FOR UPDATE");
    for (unsigned i = 0; i < 2; i++) {
        struct gateway *gateway = &gateways[i];
        must(pg_open(database_app(stack->database), tables, &gateway->pg, &err), &err);
        must(run_gather_find(lookup_of(gateway->pg), &gateway->offer, &gateway->found, &found, &err), &err);
        assert_true(found);
        assert_int_equal(pthread_create(&gateway->thread, NULL, keep, gateway), 0);
        await_locked(i == 0 ? "1" : "2");
    }
    assert_true(uuid_equal(&gateways[1].found.claim.run, &second.id));
    execute("COMMIT");
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(gateways[i].thread, NULL), 0);
        pg_free(gateways[i].pg);
    }
    assert_int_equal(gateways[0].keeping, RUN_KEEPS);
    assert_int_equal(gateways[1].keeping, RUN_KEEPS_NOT);
    assert_string_equal(ask_of(&second, "gather_until < now()"), "true");
    assert_string_equal(ask("SELECT count(*) FROM run_share WHERE until > now()"), "1");
    clear();
}

static void give_up_gathering(void)
{
    execute("UPDATE run SET gather_until = now() - interval '1 second' WHERE gather_until > now() AND ended_at IS NULL");
}

/* Three large runs of one trainer gathered in turns, and kept a shared pool from everybody for as long as they were there. */
static void large_runs_in_turns_keep_no_runner_for_ever(void **state)
{
    struct model first = ordered(2), second = ordered(2), single;
    struct run_claim claim;

    (void)state;
    both_were_seen();
    assert_int_equal(asks(1, &claim), KEPT);
    assert_true(uuid_equal(&claim.run, &first.id));
    single = ordered(1);
    assert_int_equal(asks(1, &claim), KEPT);
    give_up_gathering();
    assert_int_equal(asks(1, &claim), CLAIMED); /* and it is not kept for the second at once */
    assert_true(uuid_equal(&claim.run, &single.id));
    assert_int_equal(lease(&claim, 1), ERROR_NONE);
    execute("UPDATE run_attempt SET ended_at = now(), outcome = 'stopped' WHERE ended_at IS NULL");
    single = ordered(1);
    assert_int_equal(asks(1, &claim), CLAIMED); /* as long as the first rests */
    assert_int_equal(lease(&claim, 1), ERROR_NONE);
    single = ordered(1);
    execute("UPDATE run SET gather_after = now() - interval '1 second' WHERE nodes = 2 AND ended_at IS NULL");
    assert_int_equal(asks(1, &claim), KEPT);
    assert_true(uuid_equal(&claim.run, &first.id));
    assert_string_equal(ask_of(&second, "gathers"), "0");
    clear();
}

/* Nor does it help to ask for a new one each time, or to belong to another organisation. */
static void a_runner_kept_in_vain_gets_a_younger_run_first(void **state)
{
    struct model first = ordered(2), second = ordered(2), single;
    struct run_claim claim;

    (void)state, (void)first;
    both_were_seen();
    assert_int_equal(asks(1, &claim), KEPT);
    execute(
        "UPDATE run SET state = 'cancelled', ended_at = now() WHERE number = (SELECT min(number) FROM run WHERE ended_at IS NULL)");
    single = ordered(1);
    assert_int_equal(asks(1, &claim), CLAIMED);
    assert_true(uuid_equal(&claim.run, &single.id));
    assert_int_equal(lease(&claim, 1), ERROR_NONE);
    single = ordered(1);
    assert_int_equal(asks(1, &claim), KEPT);
    assert_true(uuid_equal(&claim.run, &second.id));
    clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_leased_before_enough_runners_wait),
        cmocka_unit_test(a_runner_that_is_gone_is_not_counted),
        cmocka_unit_test(a_scheduler_takes_several_nodes),
        cmocka_unit_test(a_job_gathers_for_its_own_run_beside_others),
        cmocka_unit_test(a_runner_that_serves_no_nodes_gets_no_such_run),
        cmocka_unit_test(a_gathering_is_given_up_and_costs_no_attempt),
        cmocka_unit_test(the_time_of_a_gathering_is_bounded),
        cmocka_unit_test(a_run_that_can_not_begin_keeps_nobody),
        cmocka_unit_test(later_runs_do_not_starve_a_large_one),
        cmocka_unit_test(a_runner_that_does_not_fit_goes_on_meanwhile),
        cmocka_unit_test(two_large_runs_do_not_block_each_other),
        cmocka_unit_test(of_two_that_begin_at_once_one_gathers),
        cmocka_unit_test(large_runs_in_turns_keep_no_runner_for_ever),
        cmocka_unit_test(a_runner_kept_in_vain_gets_a_younger_run_first),
    };

    return cmocka_run_group_tests_name("runs of several nodes", tests, set_up, tear_down);
}
