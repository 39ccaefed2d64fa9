/*
 * A requested run becomes an order that sijil-keyd signs, and a lease: on the real PostgreSQL, decider and sijil-keyd. What is made is
 * checked as runners and outsiders check it.
 */
#include "tests/integration/orders_fixture.h"

#include "policy/replay_export.h"
#include "runner/order/order_policy.h"
#include "training/format/bundle.h"

/* ---- what the others check ---- */

/* The runner decides again, and an outsider makes the recorded decision again. */
static void check_policies(const struct run_bundle *bundle, const struct ecdsa_key *root)
{
    const struct order_context here = {.region = "local/main", .now_ms = clock_wall_ms()};
    const json_t *sets = json_object_get(bundle->json, "policy_sets"), *decisions = json_object_get(bundle->json, "decisions");
    OWNED(policy_set) *set = NULL;
    struct replay_tally tally = {0};
    struct error err = {0};

    if (!order_policy_check(bundle->chain.order, sets, root, &here, &err).ok) fail_msg("%s", err.message);
    assert_true(policy_set_read(bytes_of_text(json_string_value(json_array_get(sets, 0))), root, &set, &err).ok);
    const struct replay_sets known = {1, &set, NULL};
    assert_int_equal(json_array_size(decisions), 1);
    const char *line = json_string_value(json_array_get(decisions, 0));
    if (!replay_export_line(bytes_of_text(line), &known, &tally, &err).ok) fail_msg("%s", err.message);
    if (tally.agree != 1) fail_msg("%s", tally.what);
}

static void check_bundle(const struct run_bundle_query *query, bool has_lease)
{
    struct buffer OWNED_BUFFER text = BUFFER(RUN_BUNDLE_MAX);
    OWNED(permit) *permit = permit_to(query->papers.action);
    OWNED(ecdsa_key) *keyd = NULL, *root = NULL;
    OWNED(run_bundle) *bundle = NULL;
    struct keyd_identity identity;
    struct run_trust trust = {0};
    struct error err = {0};

    if (!run_bundle_make(permit, &source, query, &text, &err).ok) fail_msg("%s", err.message);
    assert_true(keyd_identify(keyd_process_client(place.log.keyd), &identity, &err).ok);
    assert_true(ecdsa_key_from_public(identity.document_public, &keyd, &err).ok);
    assert_true(ecdsa_key_from_public(identity.approver_root, &root, &err).ok);
    trust.log_key = bytes_of_text(identity.log_vkey);
    trust.keyd = keyd;
    memcpy(trust.root, identity.approver_root, sizeof trust.root);
    if (!run_bundle_check(buffer_bytes(&text), &trust, &bundle, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(bundle->chain.lease != NULL, has_lease);
    check_policies(bundle, root);
}

static void check_order(const struct uuid *id)
{
    const struct run_bundle_query query = {.papers = {.action = ACTION_RUN_READ, .run = *id, .last = RUN_ADMISSION},
                                           .is_whole = true};

    expect_state(id, "ordered", "");
    check_bundle(&query, false);
}

/* ---- leasing it ---- */

static struct run_lease lease(void)
{
    static char name[ECDSA_THUMBPRINT_SIZE];
    struct run_lease of = {.ends_ms = clock_wall_ms() + HOUR_MS}, change;
    struct run_offer offer = {.pool = "default",
                              .region = "local/main",
                              .jurisdiction_count = 1,
                              .cpus = 1,
                              .memory_bytes = 1 << 30,
                              .assurance = 1,
                              .enrolled_until_ms = clock_wall_ms() + INT64_C(31) * 86400000};
    struct run_claim claim;
    struct error err = {0};
    bool is_found = false;

    holder_name(&store, HOLDER_RUNNER, name);
    offer.key = of.holder.key = name;
    offer.jurisdictions[0] = bytes_of_text("AE");
    assert_true(uuid_parse(bytes_of_text(RUNNER), &of.runner));
    if (!run_claim(store.pg, &offer, NULL, &claim, &is_found, &err).ok) fail_msg("%s", err.message);
    assert_true(is_found);
    run_lease_prepare(&claim, &of, &change);
    assert_int_equal(change_it(ACTION_RUN_LEASE, &change.change), ERROR_NONE);
    return change;
}

static void sign_lease(const struct run_lease *leased, struct buffer *envelope)
{
    const struct run_bundle_query query = {.papers = {.action = ACTION_RUN_LEASE, .run = leased->claim.run, .last = RUN_ORDER},
                                           .runner = leased->holder.key,
                                           .is_of_day = true};
    struct buffer OWNED_BUFFER bundle = BUFFER(KEYD_RUN_MAX);
    OWNED(permit) *permit = permit_to(ACTION_RUN_LEASE);
    struct keyd_run wanted = {.lifetime_s = 600, .key = bytes_of_text(leased->holder.key), .attempt = 1};
    struct error err = {0};

    if (!run_bundle_make(permit, &source, &query, &bundle, &err).ok) fail_msg("%s", err.message);
    wanted.bundle = buffer_bytes(&bundle);
    if (!keyd_run_lease(source.keyd, &wanted, envelope, &err).ok) fail_msg("%s", err.message);
    if (!run_lease_keep(permit, store.pg, leased, buffer_bytes(envelope), &err).ok) fail_msg("%s", err.message);
}

static void a_request_becomes_an_order_and_a_lease(void **state)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(RUN_ENVELOPE_MAX);
    const struct uuid id = request("\"AE\",\"AE-FED\",\"SA\"", 0);

    (void)state;
    order_well();
    check_order(&id);
    OWNED(run_papers) *papers = papers_of(&id);
    const json_t *jurisdictions = run_member(papers->chain.order, "jurisdictions");
    assert_int_equal(json_array_size(jurisdictions), 2); /* no region of the catalogue lies in SA */
    assert_string_equal(json_string_value(json_array_get(jurisdictions, 1)), "AE-FED");
    const struct run_lease leased = lease();
    sign_lease(&leased, &envelope);
    const struct run_bundle_query query = {.papers = {.action = ACTION_RUN_READ, .run = id, .last = RUN_ADMISSION, .attempt = 1},
                                           .is_whole = true};
    check_bundle(&query, true);
}

static void what_was_tried_comes_after_the_others(void **state)
{
    const struct uuid tried = request("\"AE\"", 0), fresh = request("\"AE\"", 0);
    struct error err = {0};
    bool is_found = false;

    (void)state;
    database_execute(place.log.database, "UPDATE run SET claimed_until = now() WHERE number = (SELECT max(number) - 1 FROM run)");
    assert_true(run_order_next(&source, "gw1", &is_found, &err).ok && is_found);
    expect_state(&fresh, "ordered", "");
    order_well();
    expect_state(&tried, "ordered", "");
}

static void approvals_stand_in_the_bundle(void **state)
{
    const struct uuid id = request("\"AE\"", 1);

    (void)state;
    expect_state(&id, "awaiting approval", "");
    approve(&id);
    order_well();
    check_order(&id);
}

/* Robots of one person: keys and signatures are in order, so sijil-keyd would sign. */
static void an_approval_of_the_requester_itself_ends_it(void **state)
{
    const struct uuid id = request("\"AE\"", 1);

    (void)state;
    database_execute(
        place.log.database,
        "INSERT INTO robot (robot_id, name, secret_hash, created_by, expires_at, person, behind) SELECT gen_random_uuid(), 'robot$second',"
        " decode(repeat('02', 32), 'hex'), '" PERSON "', expires_at, '" PERSON "', ARRAY['" PERSON " " ISSUER
        "'] FROM robot LIMIT 1");
    approve_as(&id, database_ask(place.log.database, "SELECT 'robot:' || robot_id FROM robot WHERE name = 'robot$second'"));
    refresh(&place);
    order_well();
    expect_state(&id, "failed", "another person than the requester approves");
}

/* ---- crashes ---- */

/* `before` and `after` are the text around the run's id. */
static void order_as_far_as_the_event(const struct uuid *id)
{
    OWNED(keyd_client) *nobody = NULL;
    struct run_bundle_source cut = source;
    struct error err = {0};

    assert_true(keyd_client_new("/nonexistent/keyd", 100, &nobody, &err).ok);
    cut.keyd = nobody;
    assert_false(order_one(&cut, &err));
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    expect_state(id, "requested", "");
    assert_string_equal(ask_of("SELECT count(*) FROM run_draft WHERE run_id = ", id), "1");
}

static void a_crash_after_the_event_finds_it_again(void **state)
{
    const struct uuid id = request("\"AE\"", 0);
    char event[24];

    (void)state;
    order_as_far_as_the_event(&id);
    (void)snprintf(event, sizeof event, "%s", ask_of("SELECT event::text FROM run_draft WHERE run_id = ", &id));
    order_well();
    OWNED(run_papers) *papers = papers_of(&id);
    assert_int_equal(run_integer(papers->chain.order, "event.number"), strtoll(event, NULL, 10));
    check_order(&id);
}

/* Another gateway, or the witnesses, may not know yet what the gateway that ordered had signed a moment ago. */
static void a_bundle_waits_for_the_checkpoint_of_the_order(void **state)
{
    const struct uuid id = request("\"AE\"", 0);
    struct run_bundle_query query = {.papers = {.action = ACTION_RUN_READ, .run = id, .last = RUN_ADMISSION}, .is_whole = true};
    struct signed_checkpoint older;
    struct error err = {0};

    (void)state;
    order_as_far_as_the_event(&id);
    const uint64_t event = (uint64_t)strtoull(ask_of("SELECT event::text FROM run_draft WHERE run_id = ", &id), NULL, 10);
    assert_true(sequencer_await_signed(source.sequencer, event, &err).ok);
    assert_true(sequencer_checkpoint(source.sequencer, &older, &err).ok);
    const struct uuid other = request("\"AE\"", 0); /* one entry more, so that the order names a larger log */
    assert_true(sequencer_await_signed(source.sequencer, older.size, &err).ok);
    database_execute(place.log.database, statement("UPDATE run_draft SET checkpoint = NULL WHERE run_id = ", &id, ""));
    order_well();
    order_well();
    expect_state(&other, "ordered", "");
    OWNED(run_papers) *papers = papers_of(&id);
    assert_true(run_integer(papers->chain.order, "event.size") > (int64_t)older.size);
    query.published = &older;
    check_bundle(&query, false);
}

/* keyd has signed, and nobody has stored it: the log has grown meanwhile. */
static void a_crash_after_the_signature_gives_the_same_order(void **state)
{
    const struct uuid id = request("\"AE\"", 0);
    char first[RUN_DIGEST_TEXT], second[RUN_DIGEST_TEXT];

    (void)state;
    order_well();
    digest_of_order(&id, first);
    database_execute(place.log.database, statement("DELETE FROM run_envelope WHERE run_id = ", &id, " AND kind = 'order'"));
    database_execute(place.log.database, statement("UPDATE run SET state = 'requested' WHERE run_id = ", &id, ""));
    order_well();
    digest_of_order(&id, second);
    assert_string_equal(first, second);
    check_order(&id);
}

static void a_policy_that_changed_since_the_event_is_asked_again(void **state)
{
    const struct uuid id = request("\"AE\"", 0);
    struct error err = {0};

    (void)state;
    order_as_far_as_the_event(&id);
    assert_int_equal(load(&place, 2), RECORD_DONE);
    refresh(&place);
    assert_false(order_one(&source, &err)); /* keyd refuses the event of the older set */
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_string_equal(ask_of("SELECT count(*) FROM run_draft WHERE run_id = ", &id), "0");
    order_well();
    check_order(&id);
}

/* ---- what ends ---- */

static void a_run_that_is_allowed_nowhere_ends(void **state)
{
    const struct uuid id = request("\"SA\"", 0);

    (void)state;
    order_well();
    expect_state(&id, "failed", "no region");
    assert_string_equal(ask_of("SELECT count(*) FROM run_draft WHERE run_id = ", &id), "0");
}

static void more_approvals_than_it_has_end_it(void **state)
{
    struct uuid id = request("\"AE\"", 1);

    (void)state;
    approve(&id);
    load_with_rule(
        3, "{\"id\":\"T-TWO\",\"effect\":\"oblige\",\"ops\":[\"train\"],\"oblige\":{\"approvals\":2,\"signed_request\":true}}");
    order_well();
    expect_state(&id, "failed", "ask for 2 approvals");
    assert_int_equal(load(&place, 4), RECORD_DONE);
    refresh(&place);
}

/* An attempt of these runs takes at most 65 s of one processor, and the project has 100 s more than other runs have reserved. */
static void a_run_beyond_the_budget_ends(void **state)
{
    const struct uuid first = request("\"AE\"", 0);
    struct run_end cancel;

    (void)state;
    database_execute(
        place.log.database,
        "INSERT INTO project_quota (project_id, bytes_used, cpu_own, cpu_max) SELECT project_id, 0, most, most FROM"
        " (SELECT project_id, sum(cpu_reserved_s) + 100 AS most FROM run WHERE ended_at IS NULL GROUP BY project_id) r");
    order_well();
    expect_state(&first, "ordered", "");
    assert_string_equal(ask_of("SELECT cpu_reserved_s || ' ' || gpu_reserved_s FROM run WHERE run_id = ", &first), "65 0");
    const struct uuid second = request("\"AE\"", 0);
    order_well();
    expect_state(&second, "failed", "may need 65 CPU-seconds");
    assert_string_equal(ask_of("SELECT cpu_reserved_s FROM run WHERE run_id = ", &second), "0");
    run_cancel_prepare(&project, &first, &cancel);
    assert_int_equal(change_it(ACTION_RUN_CANCEL, &cancel.change), ERROR_NONE);
    const struct uuid third = request("\"AE\"", 0);
    order_well();
    expect_state(&third, "ordered", "");
    database_execute(place.log.database, "DELETE FROM project_quota");
}

/* ---- */

static void a_requester_without_its_role_gets_no_order(void **state)
{
    const struct uuid id = request("\"AE\"", 0);

    (void)state;
    database_execute(place.log.database, "DELETE FROM binding WHERE role = 'trainer'; SELECT raise_authorization_epoch()");
    refresh(&place);
    order_well();
    expect_state(&id, "failed", "SYS-NO-BINDING");
    assert_string_equal(
        database_ask(place.log.database, "SELECT count(*) > 0 FROM audit_entry WHERE action = 'run.use' AND outcome = 'denied'"),
        "t");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_becomes_an_order_and_a_lease),
        cmocka_unit_test(what_was_tried_comes_after_the_others),
        cmocka_unit_test(approvals_stand_in_the_bundle),
        cmocka_unit_test(an_approval_of_the_requester_itself_ends_it),
        cmocka_unit_test(a_crash_after_the_event_finds_it_again),
        cmocka_unit_test(a_bundle_waits_for_the_checkpoint_of_the_order),
        cmocka_unit_test(a_crash_after_the_signature_gives_the_same_order),
        cmocka_unit_test(a_policy_that_changed_since_the_event_is_asked_again),
        cmocka_unit_test(a_run_that_is_allowed_nowhere_ends),
        cmocka_unit_test(more_approvals_than_it_has_end_it),
        cmocka_unit_test(a_run_beyond_the_budget_ends),
        cmocka_unit_test(a_requester_without_its_role_gets_no_order),
    };

    return cmocka_run_group_tests_name("orders of training runs", tests, set_up, tear_down);
}
