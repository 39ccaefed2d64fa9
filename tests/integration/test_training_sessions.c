/* Sessions of runners' keys; leases that a session gets again; runs that the policies do not allow in a region any more. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/integration/lease_fixture.h"

static enum error_kind begin(unsigned runner, uint8_t session, int64_t generation)
{
    const struct resource where = {.kind = RESOURCE_SYSTEM};
    OWNED(permit) *permit = stack_permit(stack, ACTION_RUNNER_ASK, &where);
    const struct run_session asked = {.key = keys[runner], .runner = {{1}}, .session = {session}, .generation = generation};
    struct error err = {0};

    if (!run_session_begin(permit, stack->sequencer, stack->pg, &asked, &err).ok) return err.kind;
    return ERROR_NONE;
}

static enum run_session_place place_of(unsigned runner, uint8_t session, int64_t generation)
{
    const struct run_session asked = {.key = keys[runner], .runner = {{1}}, .session = {session}, .generation = generation};
    enum run_session_place place = RUN_SESSION_NEW;
    struct error err = {0};

    assert_true(run_session_find(lookup_of(stack->pg), &asked, &place, &err).ok);
    return place;
}

static void a_key_has_one_session(void **state)
{
    (void)state;
    const unsigned before = stack_events(stack, "runner.suspend", "allowed");
    assert_int_equal(place_of(0, 1, 5), RUN_SESSION_NEW);
    assert_int_equal(begin(0, 1, 5), ERROR_NONE);
    assert_int_equal(begin(0, 1, 5), ERROR_NONE);
    assert_int_equal(place_of(0, 1, 5), RUN_SESSION_KNOWN);
    assert_int_equal(begin(0, 2, 6), ERROR_NONE); /* it was started again */
    assert_int_equal(begin(0, 2, 8), ERROR_NONE); /* its journal has changed */
    assert_int_equal(begin(0, 2, 7),
                     ERROR_NONE); /* a question of its own that was overtaken, as by a killed worker: nothing happens */
    assert_int_equal(place_of(0, 2, 7), RUN_SESSION_OVERTAKEN);
    assert_int_equal(place_of(0, 2, 8), RUN_SESSION_KNOWN);
    assert_int_equal(stack_events(stack, "runner.suspend", "allowed"), before);
    assert_int_equal(begin(0, 1, 5), ERROR_CONFLICT); /* and the first one still runs */
    assert_int_equal(begin(0, 2, 8), ERROR_CONFLICT);
    assert_int_equal(begin(0, 3, 9), ERROR_CONFLICT);
    assert_int_equal(place_of(0, 2, 8), RUN_SESSION_NEW);
    assert_int_equal(stack_events(stack, "runner.suspend", "allowed"), before + 1);
    assert_int_equal(begin(1, 1, 5), ERROR_NONE);
    assert_int_equal(begin(1, 2, 5), ERROR_CONFLICT); /* a copy of the journal, started beside it */
    assert_int_equal(stack_events(stack, "runner.suspend", "allowed"), before + 2);
}

static void only_the_newest_session_reports_what_it_has_leased(void **state)
{
    static const struct {
        uint8_t lease, newest, asking;
        const char *suspended;
        bool may, may_end;
    } cases[] = {
        {1, 1, 1, "", true, true},
        {1, 1, 2, "", false, false}, /* a copy that has not asked */
        {1, 2, 1, "", false, false}, /* it was started again since */
        {1, 2, 2, "", false, true},  /* and sends a result that it has kept */
        {1, 0, 1, "", false, false}, /* a row of an attempt without a session */
        {1, 1, 1, "two runners", false, false},
    };
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct run_held held = {.session = {cases[i].lease}, .newest = {cases[i].newest}};
        const uint8_t asking[RUN_SESSION_SIZE] = {cases[i].asking};
        (void)snprintf(held.suspended, sizeof held.suspended, "%s", cases[i].suspended);
        assert_int_equal(run_held_check(&held, asking, RUN_REPORTER_OF_LEASE, &err).ok, cases[i].may);
        assert_int_equal(run_held_check(&held, asking, RUN_REPORTER_NEWEST, &err).ok, cases[i].may_end);
    }
}

/* ---- a lease whose answer was lost ---- */

static struct uuid make_run(const char *regions)
{
    const struct uuid id = uuid_random();
    struct run run = {.id = id, .expires_ms = clock_wall_ms() + INT64_C(86400000), .pool = "default"};
    struct run_signed made = {.principal = "keyd", .envelope = bytes_of_text("{}")};
    struct run_request change;
    char sql[400], text[UUID_TEXT_SIZE];

    memcpy(made.digest, id.bytes, sizeof id.bytes);
    execute("UPDATE run SET claimed_until = now() + interval '1 day' WHERE ended_at IS NULL"); /* the runs of other tests */
    execute("UPDATE run_attempt SET ended_at = now(), outcome = 'stopped' WHERE ended_at IS NULL");
    run_request_prepare(&project, &run, &made, &change);
    assert_int_equal(changed(ACTION_RUN_REQUEST, &change.change), ERROR_NONE);
    uuid_format(&id, text);
    (void)snprintf(sql, sizeof sql,
                   "UPDATE run SET state = 'ordered', attempts = 2, jurisdictions = '{AE}', regions = '{%s}' WHERE run_id = '%s'",
                   regions, text);
    execute(sql);
    return id;
}

static struct run_claim claim_one(void)
{
    const struct run_offer offer = offer_of(0);
    struct error err = {0};
    struct run_claim claim;
    bool is_found = false;

    if (!run_claim(stack->pg, &offer, NULL, &claim, &is_found, &err).ok) fail_msg("%s", err.message);
    assert_true(is_found);
    return claim;
}

/* `run` NULL: of any run. */
static bool has_again_of(const struct uuid *run, int64_t attempt, const uint8_t session[RUN_SESSION_SIZE],
                         struct run_leased *leased)
{
    struct run_offer offer = offer_of(0);
    struct error err = {0};
    bool is_found = false;

    offer.run = run;
    offer.attempt = attempt;
    if (!run_leased_find(lookup_of(stack->pg), &offer, session, leased, &is_found, &err).ok) fail_msg("%s", err.message);
    return is_found;
}

static bool has_again(const uint8_t session[RUN_SESSION_SIZE], struct run_leased *leased)
{
    return has_again_of(NULL, 0, session, leased);
}

static void the_same_session_gets_its_lease_again(void **state)
{
    static const uint8_t own[RUN_SESSION_SIZE] = {1}, other[RUN_SESSION_SIZE] = {2};
    const struct run_heard heard = {.phase = "fetching", .progress = -1};
    const struct uuid id = make_run("local/dxb");
    struct run_leased leased;
    struct error err = {0};

    (void)state;
    assert_false(has_again(own, &leased));
    const struct run_claim claim = claim_one();
    assert_int_equal(lease(&claim, 0), ERROR_NONE);
    assert_true(has_again(own, &leased));
    assert_true(uuid_equal(&leased.claim.run, &id) && !leased.is_signed);
    assert_int_equal(leased.claim.attempt, 1);
    assert_int_equal(leased.claim.node, 0);
    assert_string_equal(leased.claim.where.name, "acme/models");
    assert_false(has_again(other, &leased));
    assert_true(has_again_of(&id, 1, own, &leased)); /* a job names it */
    assert_false(has_again_of(&id, 2, own, &leased));
    assert_false(has_again_of(&claim.where.project, 1, own, &leased));
    const struct run_holder holder = {.run = id, .attempt = 1, .key = keys[0]};
    assert_true(run_heartbeat(stack->pg, &holder, &heard, &err).ok);
    assert_false(has_again(own, &leased)); /* it has the lease: it fetches */
}

static void a_start_is_for_the_newest_attempt_alone(void **state)
{
    const struct uuid id = make_run("local/dxb");
    const struct run_holder first = {.run = id, .attempt = 1, .key = keys[0]};
    struct error err = {0};
    struct run_step change;
    size_t count = 0;

    (void)state;
    struct run_claim claim = claim_one();
    assert_int_equal(lease(&claim, 0), ERROR_NONE);
    execute("UPDATE run_attempt SET deadline = now() - interval '1 second' WHERE ended_at IS NULL");
    assert_true(run_lose_due(stack->sequencer, stack->pg, &count, &err).ok);
    claim = claim_one();
    assert_true(uuid_equal(&claim.run, &id));
    assert_int_equal(claim.attempt, 2);
    assert_int_equal(lease(&claim, 0), ERROR_NONE);
    run_start_prepare(&project, &first, &change);
    assert_int_equal(changed(ACTION_RUN_START, &change.change), ERROR_CONFLICT);
}

static void a_region_where_it_is_forbidden_gets_it_no_more(void **state)
{
    struct resource asking = {.kind = RESOURCE_SYSTEM}, stranger = asking;
    const struct run_offer offer = offer_of(0);
    struct error err = {0};
    struct run_claim claim;
    bool is_found = false;
    int64_t regions = 0;

    (void)state;
    (void)snprintf(asking.detail, sizeof asking.detail, "%s", keys[0]);
    (void)snprintf(stranger.detail, sizeof stranger.detail, "%s", keys[1]);
    OWNED(permit) *permit = stack_permit(stack, ACTION_RUNNER_ASK, &asking);
    OWNED(permit) *other = stack_permit(stack, ACTION_RUNNER_ASK, &stranger);
    (void)make_run("local/dxb,local/auh");
    claim = claim_one();
    assert_true(run_region_drop(other, stack->pg, &claim, "local/dxb", &regions, &err).ok);
    assert_int_equal(regions, 1); /* another key has claimed it: nothing changes */
    assert_string_equal(
        ask("SELECT count(*) FROM run WHERE state = 'ordered' AND cardinality(regions) = 2 AND claimed_until > now()"), "1");
    assert_true(run_region_drop(permit, stack->pg, &claim, "local/dxb", &regions, &err).ok);
    assert_int_equal(regions, 1);
    assert_true(run_claim(stack->pg, &offer, NULL, &claim, &is_found, &err).ok && !is_found);
}

/* ---- what a scheduler sees ---- */

struct seen {
    size_t count;
    struct run_queued last;
    char regions[64];
};

static struct result note_queued(void *context, const struct run_queued *queued, struct error *err)
{
    struct seen *seen = context;

    (void)err;
    seen->count++;
    seen->last = *queued;
    (void)snprintf(seen->regions, sizeof seen->regions, "%s", queued->regions);
    assert_true(queued->order[0] != '\0');
    return SUCCESS;
}

static struct seen see(const char *pool, const char *region, const struct uuid *of_project)
{
    struct seen seen = {.count = 0};
    struct run_queue_query query = {
        .pool = pool, .project = of_project, .region_count = 2, .visit = note_queued, .context = &seen};
    struct error err = {0};
    bool more = true;

    query.regions[0] = bytes_of_text(region);
    query.regions[1] = bytes_of_text("nowhere/else");
    must(run_queue_visit(lookup_of(stack->pg), &query, &more, &err), &err);
    assert_false(more);
    return seen;
}

static void a_scheduler_sees_what_waits_and_what_is_held(void **state)
{
    const struct uuid id = make_run("local/dxb,local/auh"), other = uuid_random();
    struct seen seen = see("default", "local/auh", NULL);

    (void)state;
    assert_int_equal(seen.count, 0); /* it has no order */
    execute("INSERT INTO run_envelope (run_id, kind, principal, digest, envelope)"
            " SELECT run_id, 'order', 'keyd', sha256('order'), '{}' FROM run WHERE regions = '{local/dxb,local/auh}'");
    seen = see("default", "local/auh", NULL);
    assert_int_equal(seen.count, 1);
    assert_true(uuid_equal(&seen.last.run, &id) && !seen.last.is_held && seen.last.attempt == 1 && seen.last.nodes == 1);
    assert_string_equal(seen.regions, "local/auh");
    assert_int_equal(see("default", "local/sa", NULL).count + see("other", "local/auh", NULL).count, 0);
    assert_int_equal(see("default", "local/auh", &other).count, 0);
    assert_int_equal(see("default", "local/auh", &project.project).count, 1);
    const struct run_claim claim = claim_one();
    assert_int_equal(lease(&claim, 0), ERROR_NONE);
    seen = see("default", "local/auh", NULL);
    assert_true(seen.count == 1 && seen.last.is_held && seen.last.attempt == 1);
    execute("UPDATE run_attempt SET ended_at = now(), outcome = 'lost' WHERE ended_at IS NULL");
    execute("UPDATE run SET state = 'ordered' WHERE regions = '{local/dxb,local/auh}'");
    seen = see("default", "local/auh", NULL);
    assert_true(seen.count == 1 && !seen.last.is_held && seen.last.attempt == 2);
    execute("UPDATE run SET attempt = 2 WHERE regions = '{local/dxb,local/auh}'");
    assert_int_equal(see("default", "local/auh", NULL).count, 0); /* the order allows no third attempt */
}

/* ---- the role of the gateways, in a thief's hands ---- */

#define OF_RUNNER " WHERE key = repeat('s', 43)"

static const char *const written_rows[] = {
    "UPDATE run_session SET generation = 4" OF_RUNNER,
    "UPDATE run_session SET session = substring(sha256('copy') FOR 16)" OF_RUNNER,
    "UPDATE run_session SET suspended_at = now(), suspended = 'invented'" OF_RUNNER,
    "INSERT INTO run_session (key, runner, session, generation, suspended_at, suspended)"
    " SELECT repeat('t', 43), runner, session, 1, now(), 'invented' FROM run_session" OF_RUNNER,
    "INSERT INTO run_envelope (run_id, kind, principal, digest, envelope)"
    " SELECT run_id, 'request', 'nobody', sha256('other'), '{}' FROM run LIMIT 1",
    "UPDATE run_session SET suspended_at = now(), suspended = 'invented'" OF_RUNNER
    "; INSERT INTO audit_entry SELECT a.size + 9, e.ts,"
    " convert_to('a ' || repeat('s', 43) || '\"', 'UTF8'), e.leaf_hash, 'runner.suspend', 'allowed' FROM audit_log a, audit_entry e WHERE e.seq = 0;"
    " UPDATE audit_log SET size = size + 10; SET CONSTRAINTS ALL IMMEDIATE; UPDATE audit_log SET size = size - 10",
};

static void rows_need_more_than_the_role_of_gateways(void **state)
{
    char sql[1024];

    (void)state;
    (void)make_run("local/dxb");
    execute(
        "INSERT INTO run_session (key, runner, session, generation) VALUES (repeat('s', 43), gen_random_uuid(), substring(sha256('') FOR 16), 5)");
    for (size_t i = 0; i < sizeof written_rows / sizeof written_rows[0]; i++) {
        (void)snprintf(
            sql, sizeof sql,
            "DO $do$ BEGIN SET LOCAL ROLE sijil_app; %s; SET CONSTRAINTS ALL IMMEDIATE; RAISE 'row %zu was written' USING ERRCODE = 'XX000';"
            " EXCEPTION WHEN raise_exception OR insufficient_privilege THEN NULL; END $do$",
            written_rows[i], i);
        execute(sql);
    }
    execute(
        "DO $do$ BEGIN SET LOCAL ROLE sijil_app; UPDATE run_session SET generation = 6, session = substring(sha256('new') FOR 16)" OF_RUNNER
        "; END $do$");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_one_session),
        cmocka_unit_test(only_the_newest_session_reports_what_it_has_leased),
        cmocka_unit_test(the_same_session_gets_its_lease_again),
        cmocka_unit_test(a_start_is_for_the_newest_attempt_alone),
        cmocka_unit_test(a_region_where_it_is_forbidden_gets_it_no_more),
        cmocka_unit_test(a_scheduler_sees_what_waits_and_what_is_held),
        cmocka_unit_test(rows_need_more_than_the_role_of_gateways),
    };

    return cmocka_run_group_tests_name("sessions of runners", tests, set_up, tear_down);
}
