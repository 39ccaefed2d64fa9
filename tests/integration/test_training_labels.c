/* The labels that outputs get before the order of their run: on the real PostgreSQL, decider and sijil-keyd. */
#include "tests/integration/orders_fixture.h"

/* ---- the label that outputs carry ---- */

static void label_the_code(const char *label)
{
    char sql[600];

    (void)snprintf(
        sql, sizeof sql,
        "INSERT INTO repository (repository_id, project_id, name, label) SELECT gen_random_uuid(), project_id, 'code', '{}' FROM project WHERE name = 'models'"
        " ON CONFLICT DO NOTHING;"
        "UPDATE repository SET label = '%s' WHERE name = 'code'; SELECT raise_authorization_epoch()",
        label);
    database_execute(place.log.database, sql);
    refresh(&place);
}

static void check_label(const struct uuid *id, const char *expected)
{
    OWNED(run_papers) *papers = papers_of(id);
    char reason[RUN_REASON_SIZE];
    struct error err = {0};

    if (!run_label_check(place.decider, papers->chain.request, clock_wall_ms(), reason, &err).ok) fail_msg("%s", err.message);
    if (expected[0] == '\0') assert_string_equal(reason, "");
    else assert_non_null(strstr(reason, expected));
}

#define LABELS_BROUGHT "SELECT string_agg(repository || ' ' || (label::json->>'class'), ',' ORDER BY stored_at) FROM run_label"

static void outputs_get_the_label_of_what_the_run_reads(void **state)
{
    const struct uuid first = request("\"AE\"", 0);

    (void)state;
    check_label(&first, "");
    label_the_code("{\"class\":\"sensitive\"}");
    check_label(&first, "stricter label than acme/models/trained");
    order_well();
    expect_state(&first, "ordered", "");
    check_label(&first, "");
    assert_string_equal(database_ask(place.log.database, LABELS_BROUGHT), "trained sensitive");
    assert_string_equal(
        ask_of("SELECT count(*) FROM audit_entry JOIN run ON strpos(convert_from(leaf, 'UTF8'), run_id::text) > 0 WHERE"
               " action = 'run.label' AND strpos(convert_from(leaf, 'UTF8'), 'acme/models/trained') > 0 AND run_id = ",
               &first),
        "1");
    const struct uuid second = request("\"AE\"", 0);
    order_well();
    expect_state(&second, "ordered", "");
    assert_string_equal(database_ask(place.log.database, LABELS_BROUGHT), "trained sensitive");
    label_the_code("{\"class\":\"sensitive\",\"subjects\":[\"financial-customer\"]}"); /* between the order and the lease */
    check_label(&second, "stricter label than acme/models/trained");
}

#define A_REPOSITORY \
    "INSERT INTO repository (repository_id, project_id, name, label) SELECT gen_random_uuid(), project_id, 'trained', '{}' FROM project WHERE name = 'models'"
#define A_MANIFEST /* its key is not there */                                                                              \
    "SET session_replication_role = replica;"                                                                              \
    "INSERT INTO manifest (repository_id, digest, media_type, size_bytes, key_id, sealed) SELECT repository_id, 'sha256:'" \
    " || repeat('a', 64), 'application/json', 2, gen_random_uuid(), 'x' FROM repository WHERE name = 'trained';"           \
    "SET session_replication_role = origin"

/* Nobody alone locks content of others away: neither by a run that never begins, nor by one that does. */
static void content_gets_a_label_by_two_persons(void **state)
{
    const struct uuid alone = request("\"AE\"", 0), approved = request("\"AE\"", 1);

    (void)state;
    label_the_code("{\"class\":\"sensitive\",\"subjects\":[\"genetic\"]}");
    database_execute(place.log.database, A_REPOSITORY);
    database_execute(place.log.database, A_MANIFEST);
    order_well();
    expect_state(&alone, "failed", "acme/models/trained has content, and not the label of all that the run reads");
    assert_string_equal(database_ask(place.log.database, LABELS_BROUGHT), "trained sensitive");
    approve(&approved);
    order_well();
    expect_state(&approved, "ordered", "");
    assert_string_equal(database_ask(place.log.database, LABELS_BROUGHT), "trained sensitive,trained sensitive");
    database_execute(place.log.database, "DELETE FROM manifest; DELETE FROM run_label WHERE label::text LIKE '%genetic%'");
    label_the_code("{}");
}

static void an_output_that_may_not_have_the_label_gets_no_order(void **state)
{
    const struct uuid id = request("\"AE\"", 0);

    (void)state;
    load_with_rule(
        5,
        "{\"id\":\"T-INFRA\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"when\":{\"subjects_any\":[\"critical-infra\"]},\"target\":{\"geo_within\":[\"SA\"]}}");
    label_the_code("{\"class\":\"sensitive\",\"subjects\":[\"critical-infra\"]}");
    order_well();
    expect_state(&id, "failed", "acme/models/trained can't take the label of all that the run reads: rule T-INFRA");
    assert_string_equal(database_ask(place.log.database, LABELS_BROUGHT), "trained sensitive");
    label_the_code("{}");
    assert_int_equal(load(&place, 6), RECORD_DONE);
    refresh(&place);
}

#define A_STATED_LABEL \
    "{\"attached\":[],\"class\":\"sensitive\",\"lineage\":\"attested\",\"pins\":[],\"subjects\":[\"biometric\"]}"

static void push_code(const char *label)
{
    char sql[800];

    (void)snprintf(
        sql, sizeof sql,
        "SET session_replication_role = replica;"
        "INSERT INTO manifest (repository_id, digest, media_type, size_bytes, key_id, sealed, label) SELECT repository_id, "
        "'sha256:' || repeat('0', 64), 'application/json', 2, gen_random_uuid(), 'x', '%s' FROM repository WHERE name = 'code';"
        "SET session_replication_role = origin",
        label);
    label_the_code("{}");
    database_execute(place.log.database, sql);
}

/* The names give no label, because a row was lost; the manifest of the code has it still. */
static void what_a_manifest_states_counts_without_a_row(void **state)
{
    const struct uuid id = request("\"AE\"", 0);

    (void)state;
    push_code(A_STATED_LABEL);
    order_well();
    expect_state(&id, "ordered", "");
    assert_string_equal(database_ask(place.log.database,
                                     "SELECT count(*) FROM run_label WHERE repository = 'trained' AND label LIKE '%biometric%'"),
                        "1");
    database_execute(place.log.database, "DELETE FROM manifest; DELETE FROM run_label WHERE label LIKE '%biometric%'");
    label_the_code("{}");
}

/* It would be asked again for ever, and nobody would know why. */
static void a_stored_label_that_is_damaged_ends_the_run(void **state)
{
    const struct uuid id = request("\"AE\"", 0);

    (void)state;
    push_code("{}");
    order_well();
    expect_state(&id, "failed", "a stored label: the annotation sijil.label is no label");
    database_execute(place.log.database, "DELETE FROM manifest");
}

static void a_project_brings_few_labels(void **state)
{
    const struct uuid id = request("\"AE\"", 0);

    (void)state;
    label_the_code("{\"class\":\"sensitive\",\"subjects\":[\"child\"]}");
    database_execute(
        place.log.database,
        "INSERT INTO run_label (project_id, repository, digest, label, run_id) SELECT project_id, 'other', sha256(int4send(i)), label,"
        " run_id FROM (SELECT * FROM run_label LIMIT 1) l, generate_series(1, 64) i");
    order_well();
    expect_state(&id, "failed", "have brought 64 different labels");
    database_execute(place.log.database, "DELETE FROM run_label WHERE repository = 'other'");
    label_the_code("{}");
}

/* What was deleted takes no place. The row of a run stays while a run is open, which may write there. */
static void places_of_deleted_repositories_become_free(void **state)
{
    (void)state;
    const struct uuid first = request("\"AE\"", 0);
    label_the_code("{\"class\":\"sensitive\",\"subjects\":[\"special\"]}");
    database_execute(
        place.log.database,
        "INSERT INTO run_label (project_id, repository, digest, label, run_id, manifest) SELECT project_id, 'gone', sha256(int4send(i)), label,"
        " CASE WHEN i > 32 THEN run_id END, CASE WHEN i > 32 THEN NULL ELSE 'sha256:' || repeat('0', 64) END"
        " FROM (SELECT * FROM run_label WHERE run_id IS NOT NULL LIMIT 1) l, generate_series(1, 64) i;"
        "INSERT INTO repository (repository_id, project_id, name, label) SELECT gen_random_uuid(), project_id, 'gone', '{}' FROM project"
        " WHERE name = 'models'");
    order_well();
    expect_state(&first, "failed", "have brought 64 different labels");
    database_execute(place.log.database, "SELECT bury_repository(repository_id) FROM repository WHERE name = 'gone'");
    const struct uuid second = request("\"AE\"", 0);
    order_well();
    expect_state(&second, "ordered", "");
    assert_string_equal(database_ask(place.log.database, "SELECT count(*) FROM run_label WHERE repository = 'gone'"), "32");
    database_execute(place.log.database, "DELETE FROM run_label WHERE repository = 'gone'");
    label_the_code("{}");
}

/* None must take all that the registry has, and so stop the runs and pushes of others. */
static void an_organisation_brings_few_labels(void **state)
{
    const struct uuid id = request("\"AE\"", 0);

    (void)state;
    label_the_code("{\"class\":\"sensitive\",\"subjects\":[\"government\"]}");
    database_execute(
        place.log.database,
        "INSERT INTO project (project_id, organisation_id, name, home_region) SELECT gen_random_uuid(), organisation_id, 'many' || i, home_region"
        " FROM project, generate_series(1, 8) i WHERE name = 'models';"
        "INSERT INTO run_label (project_id, repository, digest, label, run_id) SELECT p.project_id, 'other',"
        " sha256(convert_to(p.name || i, 'UTF8')), l.label, l.run_id FROM (SELECT * FROM run_label LIMIT 1) l, project p, generate_series(1, 64) i"
        " WHERE p.name LIKE 'many%';"
        "INSERT INTO repository (repository_id, project_id, name, label) SELECT gen_random_uuid(), project_id, 'other', '{}' FROM project"
        " WHERE name LIKE 'many%'");
    order_well();
    expect_state(&id, "failed", "have brought 512 different labels to this organisation");
    database_execute(place.log.database, "DELETE FROM run_label WHERE repository = 'other'");
    label_the_code("{}");
}

/* Whoever may push to what the run reads could else stop each runner that asks for work, and each heartbeat. */
static void more_labels_than_one_can_have_end_the_run(void **state)
{
    const struct uuid id = request("\"AE\"", 0);
    char label[400] = "{\"attached\":[";
    size_t length = strlen(label);

    (void)state;
    for (int i = 0; i < LABEL_REGIMES_MAX; i++)
        length += (size_t)snprintf(label + length, sizeof label - length, "%s\"R%02d\"", i > 0 ? "," : "", i);
    (void)snprintf(label + length, sizeof label - length, "]}");
    label_the_code(label);
    database_execute(place.log.database, "UPDATE repository SET label = '{\"attached\":[\"S01\"]}' WHERE name = 'trained';"
                                         "SELECT raise_authorization_epoch()");
    refresh(&place);
    check_label(&id, "more labels than acme/models/trained can take: a label with more than 32 regimes");
    database_execute(place.log.database, "UPDATE repository SET label = '{}' WHERE name = 'trained'");
    label_the_code("{}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_get_the_label_of_what_the_run_reads),
        cmocka_unit_test(an_output_that_may_not_have_the_label_gets_no_order),
        cmocka_unit_test(content_gets_a_label_by_two_persons),
        cmocka_unit_test(what_a_manifest_states_counts_without_a_row),
        cmocka_unit_test(a_stored_label_that_is_damaged_ends_the_run),
        cmocka_unit_test(a_project_brings_few_labels),
        cmocka_unit_test(places_of_deleted_repositories_become_free),
        cmocka_unit_test(an_organisation_brings_few_labels),
        cmocka_unit_test(more_labels_than_one_can_have_end_the_run),
    };

    return cmocka_run_group_tests_name("labels of training runs", tests, set_up, tear_down);
}
