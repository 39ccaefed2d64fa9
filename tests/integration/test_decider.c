/* The decider with the real PostgreSQL, sequencer and sijil-keyd: what is recorded, pinned and loaded. */
#include "tests/integration/decider_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#include "policy/decider/decider_priv.h"
#include "policy/decider/metrics.h"

static void the_first_set_is_installed_and_pinned(void **state)
{
    struct place place;
    struct buffer OWNED_BUFFER text = BUFFER(65536);
    struct error err = {0};

    (void)state;
    place_open(&place);
    start_well(&place);
    expect(&place, VERDICT_DENY, "SYS-NO-POLICY");
    OWNED(snapshot) *none = decider_take(place.decider);
    assert_null(none->set);
    install_well(&place, 1);
    install_well(&place, 1); /* the same set again is no error */
    refresh(&place);
    expect(&place, VERDICT_ALLOW, NULL);
    assert_int_equal(pinned(&place), 1);
    assert_int_equal(metric_value(&policy_metrics_rows[POLICY_METRIC_SET_EPOCH]), 1);
    assert_int_equal(metric_value(&policy_metrics_rows[POLICY_METRIC_ALLOWED]), 1);
    OWNED(snapshot) *installed = decider_take(place.decider);
    assert_true(policy_set_describe(installed->set, &text, &err).ok);
    assert_non_null(strstr(buffer_text(&text), "\"epoch\":1,\"policies\":[{"));
    assert_string_equal(database_ask(place.log.database, "SELECT count(*) FROM document"), "1");
    place_close(&place);
}

/* What a robot may do that asks for nothing now. */
static struct rights_answer held(const struct place *place, const char *principal, const struct held_right *rights, size_t count)
{
    const struct uuid acme = {{[15] = 0x0a}};
    const struct rights_query query = {principal, &acme, rights, count, 0, clock_wall_ms()};
    struct rights_answer answer;
    struct error err = {0};

    if (!decider_holds(place->decider, &query, &answer, &err).ok) fail_msg("%s", err.message);
    return answer;
}

static void rights_are_known_of_somebody_who_does_not_ask(void **state)
{
    static const struct held_right rights[] = {{ACTION_UPLOAD_BEGIN, "acme/models/a"},
                                               {ACTION_MANIFEST_PUSH, "acme/models/a"},
                                               {ACTION_PROJECT_DELETE, "acme/models"},
                                               {ACTION_UPLOAD_BEGIN, "acme/models/a"}};
    static const char robot[] = "robot:00000000-0000-0000-0000-00000000000c",
                      nobody[] = "ext:0000000000000000000000000000000000000000000000000000000000000000";
    struct place place;

    (void)state;
    place_open_ruled(&place);
    start_well(&place);
    assert_true(held(&place, robot, rights, 2).has_all);
    const struct rights_answer more = held(&place, robot, rights, 4);
    assert_true(more.is_somebody && !more.has_all && more.lacks == 2);
    assert_false(held(&place, nobody, rights, 2).is_somebody);
    assert_false(held(&place, nobody, rights, 0).has_all);
    assert_false(decider_may_be_machine(place.decider, robot, &(struct uuid){{[15] = 0x0a}}));
    database_execute(place.log.database, "UPDATE binding SET revoked_at = now(); SELECT raise_authorization_epoch()");
    refresh(&place);
    const struct rights_answer after = held(&place, robot, rights, 2);
    assert_true(after.is_somebody && !after.has_all && after.lacks == 0);
    place_close(&place);
}

static void a_change_is_seen_at_once(void **state)
{
    struct place place;

    (void)state;
    place_open_ruled(&place);
    start_well(&place);
    expect(&place, VERDICT_ALLOW, NULL);
    database_execute(place.log.database, "UPDATE binding SET revoked_at = now(); SELECT raise_authorization_epoch()");
    const int64_t until_ms = clock_monotonic_ms() + 20000; /* far less than poll_ms */
    for (bool seen = false; !seen;) {
        OWNED(decision) *decision = decide(&place, ACTION_UPLOAD_BEGIN, "acme/models/a");
        seen = decision_verdict(decision) == VERDICT_HIDE;
        assert_true(clock_monotonic_ms() < until_ms);
        (void)usleep(5000);
    }
    place_close(&place);
}

static int64_t made(enum policy_metric metric)
{
    return metric_value(&policy_metrics_rows[metric]);
}

/* Each change of one tenant's rights made the decider read those of all others again. */
static void a_change_in_one_organisation_reads_its_rights_alone(void **state)
{
    struct place place;

    (void)state;
    place_open_ruled(&place);
    start_well(&place);
    expect(&place, VERDICT_ALLOW, NULL);
    const int64_t whole = made(POLICY_METRIC_WHOLE), parts = made(POLICY_METRIC_PARTS);
    database_execute(place.log.database, "SELECT raise_authorization_epoch('be000000-0000-0000-0000-000000000000', false)");
    refresh(&place);
    expect(&place, VERDICT_ALLOW, NULL);
    database_execute(place.log.database,
                     "UPDATE binding SET revoked_at = now();"
                     "SELECT raise_authorization_epoch((SELECT organisation_id FROM organisation WHERE name = 'acme'), false)");
    refresh(&place);
    expect(&place, VERDICT_HIDE, "SYS-NO-BINDING");
    assert_int_equal(made(POLICY_METRIC_WHOLE), whole);
    assert_true(made(POLICY_METRIC_PARTS) >= parts + 1);
    database_execute(place.log.database, "UPDATE binding SET revoked_at = NULL; SELECT raise_authorization_epoch()");
    refresh(&place);
    expect(&place, VERDICT_ALLOW, NULL);
    assert_int_equal(made(POLICY_METRIC_WHOLE), whole + 1);
    place_close(&place);
}

/*
 * If the epoch falls and a change raises it again, it has its old value: the old snapshot was kept, and a revoked role stayed
 * valid.
 */
static void an_epoch_that_went_back_hides_no_change(void **state)
{
    struct place place;
    struct error err = {0};

    (void)state;
    place_open_ruled(&place);
    start_well(&place);
    refresh(&place);
    expect(&place, VERDICT_ALLOW, NULL);
    const uint64_t epoch = decider_epoch(place.decider);
    database_execute(place.log.database,
                     "UPDATE authorization_epoch SET epoch = epoch - 1; UPDATE binding SET revoked_at = now();"
                     "SELECT raise_authorization_epoch(NULL, false)");
    assert_true(decider_await_newer(place.decider, epoch, &err).ok); /* as the gateway does that revoked */
    assert_int_equal(decider_epoch(place.decider), epoch);
    expect(&place, VERDICT_HIDE, "SYS-NO-BINDING");
    place_close(&place);
}

static void a_load_is_recorded_then_pinned(void **state)
{
    struct place place;
    struct error err = {0};

    (void)state;
    place_open_ruled(&place);
    start_well(&place);
    assert_int_equal(load(&place, 5), RECORD_DONE);
    refresh(&place);
    assert_int_equal(pinned(&place), 5);
    assert_int_equal(load(&place, 5), RECORD_REFUSED);
    assert_int_equal(load(&place, 4), RECORD_REFUSED);
    assert_string_equal(database_ask(place.log.database, "SELECT count(*) FROM document"), "2");
    assert_true(decider_await_newer(place.decider, 0, &err).ok);
    assert_true(decider_await_newer(place.decider, decider_epoch(place.decider), &err).ok);
    place_close(&place);
}

static void expect_set(struct place *place, uint64_t epoch, int64_t whole)
{
    refresh(place);
    OWNED(snapshot) *now = decider_take(place->decider);
    assert_int_equal(policy_set_epoch(now->set), epoch);
    assert_int_equal(made(POLICY_METRIC_WHOLE), whole);
}

/* With each set, each gateway read all robots and roles again: with 100,000 roles that took longer than a second. */
static void a_set_is_loaded_without_the_rights(void **state)
{
    struct place place;

    (void)state;
    place_open_ruled(&place);
    start_well(&place);
    const int64_t whole = made(POLICY_METRIC_WHOLE);
    OWNED(snapshot) *first = decider_take(place.decider);
    assert_int_equal(load(&place, 5), RECORD_DONE);
    expect_set(&place, 5, whole);
    OWNED(snapshot) *second = decider_take(place.decider);
    assert_ptr_equal(second->authz, first->authz);
    assert_ptr_not_equal(second->names, first->names); /* the set before may leave labels behind */
    expect(&place, VERDICT_ALLOW, NULL);
    assert_int_equal(load(&place, 6), RECORD_DONE);
    database_execute(place.log.database,
                     "UPDATE binding SET revoked_at = now();"
                     "SELECT raise_authorization_epoch((SELECT organisation_id FROM organisation WHERE name = 'acme'), false)");
    expect_set(&place, 6, whole);
    expect(&place, VERDICT_HIDE, "SYS-NO-BINDING");
    database_execute(place.log.database, "UPDATE binding SET revoked_at = NULL; SELECT raise_authorization_epoch()");
    assert_int_equal(load(&place, 7), RECORD_DONE); /* what may have been of anything is not hidden by a set after it */
    expect_set(&place, 7, whole + 1);
    expect(&place, VERDICT_ALLOW, NULL);
    place_close(&place);
}

static void a_label_that_cannot_be_read_is_not_taken_for_none(void **state)
{
    struct place place;
    struct error err = {0};

    (void)state;
    place_open(&place);
    database_execute(place.log.database, "UPDATE project SET label = '{\"class\":\"top\"}'");
    assert_false(start(&place, &err));
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_non_null(strstr(err.message, "acme/models"));
    place_close(&place);
}

struct reading {
    struct place *place;
    _Atomic bool is_done;
    unsigned decided, allowed;
};

static void *read_on(void *argument)
{
    struct reading *reader = argument;

    while (!atomic_load(&reader->is_done)) {
        OWNED(decision) *decision = decide(reader->place, ACTION_UPLOAD_BEGIN, "acme/models/a");
        reader->decided++;
        reader->allowed += decision_verdict(decision) == VERDICT_ALLOW;
    }
    return NULL;
}

/* The floors of organisation, project and repository join; each is read from its own row. */
static void labels_of_all_three_levels_count(void **state)
{
    struct place place;

    (void)state;
    place_open(&place);
    database_execute(place.log.database,
                     "UPDATE organisation SET label = '{\"class\":\"confidential\"}';"
                     "INSERT INTO repository (repository_id, project_id, name, label) VALUES"
                     " ('00000000-0000-0000-0000-00000000000e', '00000000-0000-0000-0000-00000000000b', 'top',"
                     " '{\"class\":\"secret\"}');"
                     "SELECT raise_authorization_epoch()");
    install_well(&place, 1);
    start_well(&place);
    OWNED(decision) *allowed = decide(&place, ACTION_UPLOAD_BEGIN, "acme/models/a");
    OWNED(decision) *denied = decide(&place, ACTION_UPLOAD_BEGIN, "acme/models/top");
    assert_int_equal(decision_verdict(allowed), VERDICT_ALLOW);
    assert_int_equal(decision_verdict(denied), VERDICT_DENY);
    assert_string_equal(decision_denial(denied, 0)->rule, "SYS-CLOSED");
    place_close(&place);
}

static json_t *json_of(const char *text)
{
    struct error err = {0};
    json_t *json = NULL;

    if (!json_read(bytes_of_text(text), POLICY_SET_BYTES_MAX, &json, &err).ok) fail_msg("%s", err.message);
    return json;
}

/* The default set with one more policy, if there is a text for it, and what is declassified. */
static void replace_set(struct place *place, uint64_t epoch, const char *more, const char *declassified)
{
    const struct policy_default_options options = {.epoch = 1, .region = "local/main", .now_ms = clock_wall_ms()};
    struct buffer OWNED_BUFFER first = BUFFER(POLICY_SET_BYTES_MAX);
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    struct error err = {0};

    assert_true(policy_default_set(&options, &first, &err).ok);
    OWNED_JSON set = json_of(buffer_text(&first));
    OWNED_JSON retired = declassified == NULL ? NULL : json_of(declassified);
    struct policy_set_parts parts = {.epoch = epoch,
                                     .policies = json_object_get(set, "policies"),
                                     .regions = json_object_get(set, "regions"),
                                     .declassified = retired};
    if (more != NULL) assert_int_equal(json_array_append_new(parts.policies, json_of(more)), 0);
    if (!policy_set_compose(&parts, &payload, &err).ok) fail_msg("%s", err.message);
    assert_true(policy_set_sign(buffer_bytes(&payload), place->officer, &envelope, &err).ok);
    assert_int_equal(load_signed(place, buffer_bytes(&envelope)), RECORD_DONE);
    refresh(place);
}

#define EVIDENCE "\"sha256:eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee\""
#define ADGM_FROM(version, scope, class, from)                                                                                \
    "{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"metadata\":{\"id\":\"adgm\",\"version\":" version "," \
    "\"scope\":[" scope "],\"effective_from\":\"" from "\",\"review_by\":\"2030-01-01\"},"                                    \
    "\"labels\":{\"class\":\"" class                                                                                          \
        "\"},\"rules\":[{\"id\":\"A-PERMIT\",\"effect\":\"permit\",\"ops\":[\"ingest\",\"read\"]}]}"
#define ADGM(version, scope, class) ADGM_FROM(version, scope, class, "2026-01-01T00:00:00Z")
#define REPOSITORY(digit, path)                                       \
    "INSERT INTO repository (repository_id, project_id, name) VALUES" \
    " ('00000000-0000-0000-0000-0000000000e" digit "', '00000000-0000-0000-0000-00000000000b', '" path "');"

static void expect_pin(struct place *place, const char *row, const char *name, bool is_missing)
{
    OWNED(decision) *decision = decide(place, ACTION_UPLOAD_BEGIN, name);

    if (decision_verdict(decision) != (is_missing ? VERDICT_DENY : VERDICT_ALLOW)) fail_msg("%s: %s", row, name);
    if (!is_missing) return;
    assert_string_equal(decision_denial(decision, 0)->rule, "SYS-PIN-MISSING");
    assert_string_equal(decision_denial(decision, 0)->policy, "adgm");
}

static const struct leaving_row {
    const char *name, *before, *after, *declassified;
    bool of_new, of_a, of_deep, of_odd; /* is denied then: a new repository, "a", "a/b/c", "x.y" */
} leaving_rows[] = {
    {"without the policy, what it has labelled is denied, and what is new is not",
     ADGM("1", "\"acme/models/**\"", "confidential"), NULL, NULL, false, true, true, true},
    {"one segment", ADGM("1", "\"acme/*/a\"", "confidential"), NULL, NULL, false, true, false, false},
    {"a point stands for itself", ADGM("1", "\"acme/models/x.y\"", "confidential"), NULL, NULL, false, false, false, true},
    {"any depth in the middle", ADGM("1", "\"**/a/**/c\"", "confidential"), NULL, NULL, false, false, true, false},
    {"two patterns", ADGM("1", "\"acme/models/x.y\",\"acme/models/a\"", "confidential"), NULL, NULL, false, true, false, true},
    {"the policy is there again with other content", ADGM("1", "\"acme/models/**\"", "confidential"),
     ADGM("2", "\"acme/models/**\"", "open"), NULL, false, false, false, false},
    {"the policy has moved elsewhere and is in force", ADGM("1", "\"acme/models/**\"", "confidential"),
     ADGM("2", "\"acme/other\"", "confidential"), NULL, false, false, false, false},
    {"the policy is there but not in force yet", ADGM("1", "\"acme/models/a\"", "confidential"),
     ADGM_FROM("2", "\"acme/models/a\"", "confidential", "2999-01-01T00:00:00Z"), NULL, false, true, false, false},
    {"what was not in force yet has labelled nothing",
     ADGM_FROM("1", "\"acme/models/**\"", "confidential", "2999-01-01T00:00:00Z"), NULL, NULL, false, false, false, false},
    {"declassified", ADGM("1", "\"acme/models/**\"", "confidential"), NULL,
     "[{\"evidence\":" EVIDENCE
     ",\"policy\":\"adgm\",\"reason\":\"the licence has ended\",\"scope\":[\"acme/models/a\",\"acme/models/a/**\"]}]",
     false, false, false, true},
    {"another policy declassified", ADGM("1", "\"acme/models/a\"", "confidential"), NULL,
     "[{\"evidence\":" EVIDENCE ",\"policy\":\"difc\",\"reason\":\"x\",\"scope\":[\"**\"]}]", false, true, false, false},
};

static void check_leaving(struct place *place, const struct leaving_row *row, uint64_t *epoch)
{
    replace_set(place, ++*epoch, row->before, NULL);
    expect_pin(place, row->name, "acme/models/a", false);
    replace_set(place, ++*epoch, row->after, row->declassified);
    expect_pin(place, row->name, "acme/models/new", row->of_new);
    expect_pin(place, row->name, "acme/models/a", row->of_a);
    expect_pin(place, row->name, "acme/models/a/b/c", row->of_deep);
    expect_pin(place, row->name, "acme/models/x.y", row->of_odd);
    replace_set(place, ++*epoch, ADGM("3", "\"acme/models/**\"", "confidential"), NULL); /* the way out */
    expect_pin(place, row->name, "acme/models/a", false);
    expect_pin(place, row->name, "acme/models/x.y", false);
    replace_set(place, ++*epoch, NULL, NULL);
    database_execute(place->log.database, "DELETE FROM stored_label; SELECT raise_authorization_epoch()");
}

static void what_a_set_leaves_behind_keeps_its_pin(void **state)
{
    struct place place;
    uint64_t epoch = 1;

    (void)state;
    place_open_ruled(&place);
    database_execute(place.log.database, REPOSITORY("1", "a") REPOSITORY("2", "a/b/c") REPOSITORY("3", "x.y"));
    start_well(&place);
    for (size_t i = 0; i < COUNT(leaving_rows); i++) check_leaving(&place, &leaving_rows[i], &epoch);
    place_close(&place);
}

/* A stored class never falls, as a pin never does, although the policy is still in force. */
static void a_class_that_was_stored_does_not_fall(void **state)
{
    static const char scope[] = "acme/models/a";
    struct place place;

    (void)state;
    place_open_ruled(&place);
    database_execute(place.log.database, REPOSITORY("1", "a"));
    start_well(&place);
    replace_set(&place, 2, ADGM("1", "\"acme/models/*\"", "secret"), NULL);
    for (uint64_t epoch = 3; epoch < 5; epoch++) {
        replace_set(&place, epoch, ADGM("2", "\"acme/models/*\"", "open"), NULL);
        OWNED(decision) *denied = decide(&place, ACTION_UPLOAD_BEGIN, scope);
        OWNED(decision) *allowed = decide(&place, ACTION_UPLOAD_BEGIN, "acme/models/new");
        assert_int_equal(decision_verdict(denied), VERDICT_DENY); /* the default set permits up to sensitive */
        assert_string_equal(decision_denial(denied, 0)->rule, "SYS-CLOSED");
        assert_int_equal(decision_verdict(allowed), VERDICT_ALLOW);
    }
    assert_string_equal(database_ask(place.log.database, "SELECT count(*) FROM stored_label"), "1");
    database_execute(place.log.database, "DELETE FROM repository");
    assert_string_equal(database_ask(place.log.database, "SELECT count(*) FROM stored_label"), "0");
    place_close(&place);
}

/* Snapshots and policy sets are replaced under four readers: each decision is from a whole one. */
static void readers_see_whole_snapshots_only(void **state)
{
    struct place place;
    struct reading readers[4];
    pthread_t threads[COUNT(readers)];

    (void)state;
    place_open_ruled(&place);
    start_well(&place);
    for (size_t i = 0; i < COUNT(readers); i++) {
        readers[i] = (struct reading){.place = &place};
        assert_int_equal(pthread_create(&threads[i], NULL, read_on, &readers[i]), 0);
    }
    for (uint64_t epoch = 2; epoch < 8; epoch++) {
        install_well(&place, epoch);
        refresh(&place);
        (void)usleep(20000);
    }
    for (size_t i = 0; i < COUNT(readers); i++) {
        atomic_store(&readers[i].is_done, true);
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(readers[i].decided > 0);
        assert_int_equal(readers[i].allowed, readers[i].decided);
    }
    place_close(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_set_is_installed_and_pinned),
        cmocka_unit_test(rights_are_known_of_somebody_who_does_not_ask),
        cmocka_unit_test(a_change_is_seen_at_once),
        cmocka_unit_test(a_change_in_one_organisation_reads_its_rights_alone),
        cmocka_unit_test(an_epoch_that_went_back_hides_no_change),
        cmocka_unit_test(a_load_is_recorded_then_pinned),
        cmocka_unit_test(a_set_is_loaded_without_the_rights),
        cmocka_unit_test(a_label_that_cannot_be_read_is_not_taken_for_none),
        cmocka_unit_test(labels_of_all_three_levels_count),
        cmocka_unit_test(what_a_set_leaves_behind_keeps_its_pin),
        cmocka_unit_test(a_class_that_was_stored_does_not_fall),
        cmocka_unit_test(readers_see_whole_snapshots_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
