/* The content that rules keep, also between decision and removal, and exact quotas. */
#include "registry/maintenance.h"
#include "tests/integration/collect_fixture.h"

#include <unistd.h>

#include "registry/manifest_use_priv.h"
#include "registry/metrics.h"

/* ---- rules ---- */

static const char *manifests_of(const char *repository)
{
    char sql[200];

    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM manifest JOIN repository USING (repository_id) WHERE name = '%s'",
                   repository);
    return ask(sql);
}

static void an_index_keeps_its_children_and_a_subject_what_refers_to_it(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "held");
    struct pushed child, index, subject, referrer, orphan;
    char config[DIGEST_TEXT_SIZE];
    struct manifest_delete deletion;

    (void)state;
    fixture_push(&where, 5000, SMALL, config);
    collect_write_image(&child, config, NULL, 1);
    collect_write_image(&subject, config, NULL, 2);
    MUST(collect_push_manifest(&where, NULL, &child, &err));
    collect_write_index(&index, &child);
    MUST(collect_push_manifest(&where, "all", &index, &err));
    MUST(collect_push_manifest(&where, "subject", &subject, &err));
    collect_write_image(&referrer, config, subject.digest, 3);
    MUST(collect_push_manifest(&where, NULL, &referrer, &err));
    collect_write_image(&orphan, config, "sha256:0000000000000000000000000000000000000000000000000000000000000000", 4);
    MUST(collect_push_manifest(&where, NULL, &orphan, &err));
    collect_end_leases();
    assert_string_equal(collect_all(false, "manifests"), "0"); /* no rule, no removal */
    collect_set_rules("{\"untagged_days\":7}");
    assert_string_equal(collect_all(true, "manifests"), "1");
    assert_string_equal(collect_all(false, "manifests"), "1"); /* the orphan */
    assert_string_equal(manifests_of("held"), "4");
    manifest_delete_prepare(&where, index.digest, &(struct policy_retention){.days = 0}, &deletion);
    MUST(fixture_change(ACTION_MANIFEST_DELETE, &where, &deletion.change, &err));
    manifest_delete_prepare(&where, subject.digest, &(struct policy_retention){.days = 0}, &deletion);
    MUST(fixture_change(ACTION_MANIFEST_DELETE, &where, &deletion.change, &err));
    assert_string_equal(collect_all(true, "manifests"), "2");
    assert_string_equal(collect_all(false, "manifests"), "2");
    assert_string_equal(manifests_of("held"), "0");
    execute("UPDATE blob SET lease_until = now()");
    assert_false(collect_is_told_of(&where, config)); /* its last manifest went in that run */
    collect_set_rules("{}");
}

/* The manifest is the result of a run in this state. */
static void make_of_run(const struct resource *where, const char *name, const struct pushed *pushed)
{
    char repository[UUID_TEXT_SIZE], sql[600];

    uuid_format(&where->repository, repository);
    (void)snprintf(
        sql, sizeof sql,
        "INSERT INTO held_manifest SELECT run_id, 1, 0, '%s', '%s', '%s', 'a/b', 1000, key_id, 'x' FROM run, project_key k"
        " WHERE k.project_id = run.project_id",
        name, repository, pushed->digest);
    execute(sql);
}

/* An output that nobody has tagged was collected a week after its admission, and the log of its run with it. */
static void what_an_admitted_run_has_made_stays_without_a_tag(void **state)
{
    const char *const names[] = {"model", "log", "metrics"};
    struct resource where = fixture_repository(&fixture.models, "trained");
    struct manifest_delete deletion;
    struct pushed made[COUNT(names)];
    char config[DIGEST_TEXT_SIZE];

    (void)state;
    fixture_push(&where, 4321, SMALL, config);
    where = fixture_repository(&fixture.models, "trained");
    execute(
        "INSERT INTO run (run_id, project_id, state, request, requester, approvals_wanted, pool, expires_at) SELECT"
        " '00000000-0000-0000-0000-0000000000ab', project_id, 'finishing', sha256('x'), 'robot', 0, 'default', now() FROM repository"
        " WHERE name = 'trained'");
    for (int i = 0; i < (int)COUNT(names); i++) {
        collect_write_image(&made[i], config, NULL, 100 + i);
        MUST(collect_push_manifest(&where, NULL, &made[i], &err));
        make_of_run(&where, names[i], &made[i]);
    }
    collect_end_leases();
    collect_set_rules("{\"untagged_days\":7}");
    assert_string_equal(collect_all(true, "manifests"), "3"); /* not admitted: these were pushed by somebody else */
    execute("UPDATE run SET state = 'succeeded', ended_at = now() - interval '10 years'");
    assert_string_equal(collect_all(true, "manifests"), "0");
    assert_string_equal(collect_all(false, "manifests"), "0");
    assert_string_equal(manifests_of("trained"), "3");
    /* A rule about tags names the output: then it goes, and takes log and metrics along. */
    MUST(collect_push_manifest(&where, "old", &made[0], &err));
    collect_end_leases();
    collect_set_rules("{\"untagged_days\":7,\"retention\":[{\"repositories\":\"trained\",\"tags\":\"new*\"}]}");
    assert_string_equal(collect_all(true, "manifests"), "3");
    assert_string_equal(manifests_of("trained"), "3");
    execute("DELETE FROM tag WHERE name = 'old'");
    assert_string_equal(collect_all(false, "manifests"), "0");
    manifest_delete_prepare(&where, made[0].digest, &(struct policy_retention){.days = 0}, &deletion);
    MUST(fixture_change(ACTION_MANIFEST_DELETE, &where, &deletion.change, &err));
    assert_string_equal(collect_all(false, "manifests"), "2"); /* a person has deleted the output */
    assert_string_equal(manifests_of("trained"), "0");
    collect_set_rules("{}");
}

/* Between the decision and the removal each of these changes the manifest, so that it must stay. */
struct rescue {
    struct resource where;
    struct pushed *doomed, index;
    bool is_told; /* that it is there */
};

static void push_for(struct rescue *rescue, const char *tag, struct pushed *pushed)
{
    struct error err = {0};

    rescue->is_told = collect_push_manifest(&rescue->where, tag, pushed, &err).ok;
    if (!rescue->is_told) assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

static void push_it_again(void *context)
{
    struct rescue *rescue = context;

    push_for(rescue, NULL, rescue->doomed);
}

static void tag_it(void *context)
{
    struct rescue *rescue = context;

    push_for(rescue, "rescued", rescue->doomed);
    execute("UPDATE manifest SET renewed_at = '2020-01-01'"); /* the tag alone must do */
}

static void list_it(void *context)
{
    struct rescue *rescue = context;

    collect_write_index(&rescue->index, rescue->doomed);
    push_for(rescue, "index", &rescue->index);
}

static void pull_it(void *context)
{
    struct rescue *rescue = context;
    OWNED(permit) *permit = stack_permit(fixture.stack, ACTION_MANIFEST_STAT, &rescue->where);
    const struct manifest_query query = {
        .action = ACTION_MANIFEST_STAT, .where = &rescue->where, .reference = rescue->doomed->digest};
    OWNED(stored_manifest) *manifest = NULL;
    struct error problem = {0};

    rescue->is_told = stored_manifest_find(permit, fixture.registry, fixture.stack->pg, &query, &manifest, &problem).ok;
    if (!rescue->is_told) assert_int_equal(problem.kind, ERROR_NOT_FOUND);
    MUST(registry_write_notes(fixture.registry, fixture.stack->pg, &err));
}

static void change_the_rules(void *context)
{
    (void)context;
    collect_set_rules("{\"untagged_days\":99}");
}

static void a_manifest_that_is_needed_again_stays(void **state)
{
    void (*const rescues[])(void *) = {push_it_again, tag_it, list_it, pull_it, change_the_rules};
    char config[DIGEST_TEXT_SIZE], name[32];

    (void)state;
    for (size_t i = 0; i < COUNT(rescues); i++) {
        (void)snprintf(name, sizeof name, "rescue%zu", i);
        struct rescue rescue = {.where = fixture_repository(&fixture.models, name)};
        struct pushed doomed;
        /* Of this repository: the project's first step, its repository's, and the one before the batch. */
        struct between between = {.act = rescues[i], .context = &rescue};
        unsigned stayed = 0;

        fixture_push(&rescue.where, 6000 + i, SMALL, config);
        collect_write_image(&doomed, config, NULL, (int)i);
        rescue.doomed = &doomed;
        for (between.due = 1; between.due < 60; between.due++) {
            between.step = 0;
            collect_set_rules("{\"untagged_days\":7}");
            execute("DELETE FROM tag WHERE name IN ('rescued', 'index')");
            execute("DELETE FROM manifest_use");
            fixture_restart(); /* a gateway notes a pull once an hour */
            fixture_push(&rescue.where, 6000 + i, SMALL, config);
            MUST(collect_push_manifest(&rescue.where, NULL, &doomed, &err));
            collect_end_leases();
            MUST(collect_request_run(false, NULL, &err));
            rescue.is_told = false;
            MUST(collect_do_run(fixture.stack->pg, &between, &err));
            if (between.step < between.due) break;
            if (rescue.is_told) assert_string_not_equal(manifests_of(name), "0");
            stayed += strcmp(manifests_of(name), "0") != 0;
        }
        if (stayed == 0) fail_msg("rescue %zu never came in time", i);
    }
    collect_set_rules("{}");
}

/* ---- what is pulled ---- */

#define ALL_NOTES 65536 /* that may wait */

static void note(struct manifest_uses *uses, unsigned from, unsigned to)
{
    const struct uuid repository = {.bytes = {1}};
    char digest[DIGEST_TEXT_SIZE];

    for (unsigned i = from; i < to; i++) {
        (void)snprintf(digest, sizeof digest, "sha256:%08x%056d", i * 2654435761U, 0); /* apart, as digests are */
        manifest_uses_note(uses, &repository, digest);
    }
}

static void expect_written(unsigned count)
{
    char expected[16];

    (void)snprintf(expected, sizeof expected, "%u", count);
    assert_string_equal(ask("SELECT count(*) FROM manifest_use"), expected);
}

/* More than two thousand pulls between two writes were not noted, and the notes of a failed write were lost. */
static void every_pull_is_noted_until_it_is_written(void **state)
{
    OWNED(manifest_uses) *uses = NULL;
    struct metric *lost = &registry_metrics_rows[METRIC_PULLS_NOT_NOTED];

    (void)state;
    MUST(manifest_uses_new(&uses, &err));
    execute("DELETE FROM manifest_use");
    execute(
        "CREATE FUNCTION be_full() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
        " IF (SELECT count(*) FROM manifest_use) > 4000 THEN RAISE 'full' USING ERRCODE = '53100'; END IF; RETURN NULL; END$$;"
        "GRANT SELECT ON manifest_use TO PUBLIC; CREATE TRIGGER be_full BEFORE INSERT ON manifest_use EXECUTE FUNCTION be_full()");
    note(uses, 0, 8000);
    assert_false(manifest_uses_are_many(uses));
    note(uses, 8000, 20000);
    assert_true(manifest_uses_are_many(uses));
    MUST_FAIL(ERROR_FULL, manifest_uses_write(uses, fixture.stack->pg, &err));
    expect_written(4096); /* two pieces */
    note(uses, 20000, ALL_NOTES);
    execute("DROP TRIGGER be_full ON manifest_use");
    MUST(manifest_uses_write(uses, fixture.stack->pg, &err));
    expect_written(ALL_NOTES);
    assert_false(manifest_uses_are_many(uses));
    assert_int_equal(metric_value(lost), 0);
    /* With as many as may wait, one more is counted, and noted when it comes again. */
    note(uses, ALL_NOTES, 2 * ALL_NOTES + 1);
    assert_int_equal(metric_value(lost), 1);
    MUST(manifest_uses_write(uses, fixture.stack->pg, &err));
    expect_written(2 * ALL_NOTES);
    note(uses, 2 * ALL_NOTES, 2 * ALL_NOTES + 1);
    MUST(manifest_uses_write(uses, fixture.stack->pg, &err));
    expect_written(2 * ALL_NOTES + 1);
    execute("DELETE FROM manifest_use");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_index_keeps_its_children_and_a_subject_what_refers_to_it),
        cmocka_unit_test(what_an_admitted_run_has_made_stays_without_a_tag),
        cmocka_unit_test(a_manifest_that_is_needed_again_stays),
        cmocka_unit_test(every_pull_is_noted_until_it_is_written),
    };

    return cmocka_run_group_tests_name("registry rules", tests, fixture_set_up, fixture_tear_down);
}
