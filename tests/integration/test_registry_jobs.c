/* Jobs, with the scrub as the example, against a real database, key process and folder. */
#include "registry/jobs/maintenance.h"
#include "tests/integration/job_fixture.h"

#include <utime.h>

/* Stops the job while a gateway works on it; then that gateway dies. */
static void stop_under_a_runner(const struct uuid *id)
{
    execute("UPDATE job SET lease_until = now() + interval '1 hour' WHERE ended_at IS NULL");
    stop(id);
    assert_true(look(id).stop_wanted);
    assert_string_equal(look(id).outcome, "");
    execute("UPDATE job SET lease_until = now() WHERE ended_at IS NULL");
    work(JOB_SCRUB);
}

/* A stopped job that no gateway could claim stayed for ever, and no other could begin. */
static void what_nobody_runs_is_over_when_it_is_stopped(void **state)
{
    const unsigned stops = stack_events(fixture.stack, "job.stop", "allowed");
    const struct uuid id = begin_scrub(false);

    (void)state;
    stop(&id);
    const struct job job = look(&id);
    assert_string_equal(job.outcome, "stopped");
    assert_true(job.ended_ms > 0 && !job.is_held);
    assert_int_equal(stack_events(fixture.stack, "job.stop", "allowed"), stops + 1);
    assert_false(work_as(fixture.registry, JOB_SCRUB, NULL));
}

static void one_at_a_time_and_stopped_on_request(void **state)
{
    struct resource where = {.kind = RESOURCE_SYSTEM, .region = TEST_REGION};
    struct job job = {.kind = JOB_SCRUB, .rate_bytes = 1 << 20, .region = TEST_REGION};
    struct job_begin second;
    struct job_stop again;

    (void)state;
    const struct uuid id = begin_scrub(false);
    job.id = uuid_random();
    job_begin_prepare(&where, &job, &second);
    MUST_FAIL(ERROR_CONFLICT, fixture_change(ACTION_SCRUB_START, &where, &second.change, &err));
    (void)snprintf(second.job.region, sizeof second.job.region, "no/where");
    MUST_FAIL(ERROR_NOT_FOUND, fixture_change(ACTION_SCRUB_START, &where, &second.change, &err));
    stop_under_a_runner(&id);
    assert_string_equal(look(&id).outcome, "stopped");
    job_stop_prepare(&where, &id, KEPT, &again);
    MUST_FAIL(ERROR_NOT_FOUND, fixture_change(ACTION_JOB_STOP, &where, &again.change, &err));
}

static void begin_and_stop_many(void (*end)(const struct uuid *id))
{
    for (unsigned i = 0; i < KEPT + 3; i++) {
        const struct uuid id = begin_scrub(false);
        end(&id);
        assert_string_equal(look(&id).outcome, "stopped"); /* the newest is always there */
    }
    assert_string_equal(ask("SELECT count(*) FROM job WHERE kind = 'scrub'"), "5");
}

/* The table stays small with any number of jobs; the log has all of them. */
static void ended_jobs_are_pruned_with_what_they_found(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "scrub/pruned");
    char digest[DIGEST_TEXT_SIZE], path[256];
    const struct job rewrap = {.kind = JOB_REWRAP};

    (void)state;
    fixture_push(&where, 350, ARTIFACTS, digest);
    fixture_path_of(digest, path);
    flip_record(path);
    const struct uuid kept = begin(&rewrap); /* of another kind, and not over */
    const struct uuid first = begin_scrub(false);
    work(JOB_SCRUB);
    assert_int_equal(look(&first).found, 1);
    const unsigned runs = stack_events(fixture.stack, "job.run", "completed");
    begin_and_stop_many(stop);
    assert_int_equal(stack_events(fixture.stack, "job.run", "completed"), runs);
    begin_and_stop_many(stop_under_a_runner);
    assert_int_equal(stack_events(fixture.stack, "job.run", "completed"), runs + KEPT + 3);
    assert_string_equal(ask("SELECT count(*) FROM job_finding f WHERE NOT EXISTS (SELECT FROM job j WHERE j.job_id = f.job_id)"),
                        "0");
    assert_string_equal(ask("SELECT count(*) FROM job_finding"), "0");
    assert_string_equal(look(&kept).outcome, "");
    stop(&kept);
    assert_string_equal(look(&kept).outcome, "stopped");
    fixture_push(&where, 350, ARTIFACTS, digest);
}

/* At whatever moment the runner is stopped, the next one finishes the job, and everything is counted once. */
static void a_scrub_goes_on_where_it_was(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "scrub/resume");
    char digest[DIGEST_TEXT_SIZE], path[256];

    (void)state;
    fixture_push(&where, 300, 3 * ARTIFACTS, digest);
    fixture_path_of(digest, path);
    flip_record(path);
    for (unsigned with_digest = 0; with_digest < 2; with_digest++) {
        const struct uuid id = begin_scrub(with_digest != 0);
        struct job job = look(&id);
        unsigned rounds = 0;
        for (; job.outcome[0] == '\0'; rounds++) {
            /* With digests a blob begins again, so each round gets a little further. */
            struct stopper stopper = {.after = 5 + rounds};
            OWNED(registry) *other = fixture_second_gateway();
            assert_true(work_as(rounds % 2 == 0 ? fixture.registry : other, JOB_SCRUB, &stopper));
            job = look(&id);
            assert_true(rounds < 200 && job.done <= job.total && job.done_bytes <= job.total_bytes);
        }
        assert_true(rounds > 2);
        assert_string_equal(job.outcome, "completed");
        assert_int_equal(job.found, 1);
        assert_true(job.done == job.total && job.done_bytes == job.total_bytes);
    }
    fixture_push(&where, 300, 3 * ARTIFACTS, digest);
}

/*
 * kill -9: the lease is not released. It ends, another runner claims the job, and the first one, if it still runs, changes
 * nothing.
 */
static void a_lost_runner_changes_nothing(void **state)
{
    const struct uuid id = begin_scrub(false);

    (void)state;
    execute("UPDATE job SET lease_until = now() + interval '1 hour', runner_epoch = 7, runner = 'gw9',"
            " started_at = now() WHERE ended_at IS NULL");
    assert_false(work_as(fixture.registry, JOB_SCRUB, NULL)); /* another runner has it */
    assert_true(look(&id).is_held);
    execute("UPDATE job SET lease_until = now() - interval '1 s' WHERE ended_at IS NULL");
    work(JOB_SCRUB);
    const struct job job = look(&id);
    assert_string_equal(job.outcome, "completed");
    assert_string_equal(job.runner, "gw1");
    assert_int_equal(job.runner_epoch, 8);
}

static void strays_are_reported_once_they_are_old(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "scrub/stray");
    char digest[DIGEST_TEXT_SIZE], path[256], stray[300];
    const struct utimbuf old = {.actime = 1, .modtime = 1};
    size_t count = 0;

    (void)state;
    fixture_push(&where, 400, 10, digest);
    fixture_path_of(digest, path);
    /* The same name, with another id: the folder's first two letters stay. */
    (void)snprintf(stray, sizeof stray, "%s", path);
    char *name = strrchr(stray, '/') + 1;
    memset(name + 4, 'a', 10);
    FILE *file = fopen(stray, "wbe");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    struct uuid id = begin_scrub(false);
    work(JOB_SCRUB);
    assert_int_equal(look(&id).found, 0); /* young: its row may be about to come */
    assert_int_equal(utime(stray, &old), 0);
    id = begin_scrub(false);
    work(JOB_SCRUB);
    struct job_finding *findings = findings_of(&id, &count);
    assert_int_equal(count, 1);
    assert_int_equal(findings[0].kind, FINDING_STRAY);
    free(findings);
    assert_int_equal(unlink(stray), 0);
}

/* Two gateways, so two extents. */
static void push_by_two(struct resource *where, uint64_t seed, char digest_out[DIGEST_TEXT_SIZE])
{
    const struct upload_begin begun = fixture_begin(where);
    OWNED(registry) *second = fixture_second_gateway();
    struct registry *const gateways[] = {fixture.registry, second};
    uint8_t *content = fixture_content(seed, ARTIFACTS, digest_out);
    struct digest digest;

    MUST(digest_parse(bytes_of_text(digest_out), &digest, &err));
    for (size_t i = 0; i < COUNT(gateways); i++) {
        struct job_recorder recorder;
        OWNED(upload) *upload = fixture_find(gateways[i], &begun, &recorder);
        MUST(upload_claim(upload, fixture.stack->pg, &err));
        MUST(upload_write(upload, (struct bytes){content + i * ARTIFACTS / 2, ARTIFACTS / 2}, &err));
        if (i == 0) MUST(upload_save(upload, fixture.stack->pg, &recorder.recorder, &err));
        else MUST(upload_commit(upload, fixture.stack->pg, &digest, &recorder.recorder, &err));
    }
    free(content);
}

/* `script` calls the path $p. */
static void run_in_shell(const char *path, const char *script)
{
    char command[1024];

    (void)snprintf(command, sizeof command, "p=%s; %s", path, script);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): our own mkdtemp() names */
}

static void what_lies_beside_a_closed_blob_is_reported(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "scrub/beside");
    char digest[DIGEST_TEXT_SIZE], path[256], left[300];
    size_t count = 0;

    (void)state;
    push_by_two(&where, 450, digest);
    fixture_path_of(digest, path);
    *strrchr(path, '.') = '\0';
    run_in_shell(path, "test -f $p.e0 && test -f $p.e1");
    /* An extent that lost a race, one that a killed writer left, and a checkpoint. */
    run_in_shell(path, "cp $p.e1 $p.e2 && head -c 4096 $p.e0 > $p.e7");
    (void)snprintf(left, sizeof left, "%s.c%032d", path, 7);
    run_in_shell(left, "echo of old > $p");
    run_in_shell(path, "touch -d 2020-01-01 $p.*");
    struct uuid id = begin_scrub(false);
    work(JOB_SCRUB);
    assert_int_equal(look(&id).found, 0); /* closed just now: its writer may still remove objects */
    execute("UPDATE blob SET created_at = '2020-01-01'");
    const unsigned events = stack_events(fixture.stack, "scrub.finding", "completed");
    id = begin_scrub(false);
    work(JOB_SCRUB);
    assert_string_equal(look(&id).outcome, "completed");
    struct job_finding *findings = findings_of(&id, &count);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(findings[i].kind, FINDING_STRAY);
        assert_string_equal(findings[i].digest, digest);
        assert_string_equal(findings[i].name, "acme/models");
        assert_non_null(strstr(findings[i].detail, "no trailer"));
        const char *name = strchr(findings[i].subject, '.');
        assert_true(strcmp(name, ".e2") == 0 || strcmp(name, ".e7") == 0 || strstr(left, name) != NULL);
    }
    free(findings);
    assert_int_equal(stack_events(fixture.stack, "scrub.finding", "completed"), events + 3);
    fixture_check(&where, 450, ARTIFACTS); /* nothing was removed, and what is beside is never read */
    run_in_shell(path, "rm $p.e2 $p.e7 $p.c*");
    id = begin_scrub(false);
    work(JOB_SCRUB);
    assert_int_equal(look(&id).found, 0);
}

static void a_region_that_is_not_there_is_waited_for(void **state)
{
    struct blob_test_folder empty = blob_test_folder_new(false);
    OWNED(registry) *elsewhere = fixture_gateway_elsewhere(empty.path);
    const struct job_options options = {.kind = JOB_SCRUB, .instance = "gw2", .is_stopping = is_stopping};
    const struct uuid id = begin_scrub(false);
    bool worked = false;

    (void)state;
    MUST_FAIL(ERROR_UNAVAILABLE, registry_work(elsewhere, fixture.stack->pg, &options, &worked, &err));
    assert_non_null(strstr(look(&id).waits_for, "is its file system mounted"));
    assert_string_equal(ask("SELECT count(*) FROM blob WHERE damaged_at IS NOT NULL"), "0");
    work(JOB_SCRUB);
    assert_string_equal(look(&id).outcome, "completed");
    assert_string_equal(look(&id).waits_for, "");
    /* A job that was stopped between two tries stayed until the region came back, and no other could begin. */
    const struct uuid stopped = begin_scrub(false);
    execute("UPDATE job SET stop_wanted = true WHERE ended_at IS NULL");
    MUST(registry_work(elsewhere, fixture.stack->pg, &options, &worked, &err));
    assert_string_equal(look(&stopped).outcome, "stopped");
    blob_test_folder_done(&empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_runs_is_over_when_it_is_stopped),
        cmocka_unit_test(one_at_a_time_and_stopped_on_request),
        cmocka_unit_test(a_scrub_goes_on_where_it_was),
        cmocka_unit_test(ended_jobs_are_pruned_with_what_they_found),
        cmocka_unit_test(a_lost_runner_changes_nothing),
        cmocka_unit_test(strays_are_reported_once_they_are_old),
        cmocka_unit_test(what_lies_beside_a_closed_blob_is_reported),
        cmocka_unit_test(a_region_that_is_not_there_is_waited_for),
    };

    return cmocka_run_group_tests_name("jobs", tests, fixture_set_up, fixture_tear_down);
}
