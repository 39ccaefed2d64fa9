/*
 * Every allocation, disk operation and query of a job's runner fails once. The job is released, and never called failed because
 * of a temporary failure. The next runner brings it to the same end.
 */
#include "registry/jobs/maintenance.h"
#include "tests/integration/collect_fixture.h"
#include "tests/integration/job_fixture.h"

#include "base/fault.h"

static struct resource where;
#define KEPT_SEED 0
static uint64_t seed = KEPT_SEED;
static char kept[DIGEST_TEXT_SIZE];

/* A manifest with its blob, a session that has expired, and, for a collection, two blobs that nothing needs. */
static void make_garbage(void)
{
    char digest[DIGEST_TEXT_SIZE];

    for (int i = 0; i < 2; i++) fixture_push(&where, ++seed, SMALL, digest);
    (void)fixture_begin(&where);
    execute("UPDATE upload SET expires_at = now() - interval '1 second'");
    collect_end_leases();
}

static void nothing_to_make(void)
{
}

static void collection_was_whole(void)
{
    assert_string_equal(ask("SELECT count(*) FROM blob"), "1");
    assert_string_equal(ask("SELECT count(*) FROM upload"), "0");
    collect_count_is_exact();
    (void)collect_told("blobs");
}

static void all_is_sound(void)
{
    assert_string_equal(ask("SELECT count(*) FROM blob WHERE damaged_at IS NOT NULL"), "0");
    assert_string_equal(ask("SELECT count(*) FROM job_finding"), "0");
}

static const struct kind_row {
    const char *name;
    struct job job;
    unsigned least; /* failures, so that a loop that fails nothing is noticed */
    void (*prepare)(void), (*check)(void);
} rows[] = {
    {"collection", {.kind = JOB_COLLECTION}, 55, make_garbage, collection_was_whole},
    {"dry run", {.kind = JOB_COLLECTION, .is_dry_run = true}, 50, nothing_to_make, all_is_sound},
    {"scrub",
     {.kind = JOB_SCRUB, .with_digest = true, .rate_bytes = 1 << 30, .region = TEST_REGION},
     200,
     nothing_to_make,
     all_is_sound},
    {"rewrap", {.kind = JOB_REWRAP}, 20, nothing_to_make, all_is_sound},
};

/* As by another gateway, a moment later. */
static void finish(const struct kind_row *row, const struct uuid *id)
{
    if (pg_is_broken(fixture.stack->pg)) MUST(pg_reopen(fixture.stack->pg, &err));
    execute("UPDATE job SET lease_until = now() - interval '1 second' WHERE ended_at IS NULL");
    const struct job before = look(id);
    if (before.outcome[0] == '\0') work(row->job.kind);
    const struct job job = look(id);
    if (strcmp(job.outcome, "completed") != 0) fail_msg("%s: %s (%s)", row->name, job.outcome, job.waits_for);
}

/*
 * A scrub lists 256 folders, each with the same few questions; all 1,875 of them take two minutes. Each of the first questions fails, then
 * every third, then every eleventh. These are primes, so each of a folder's questions gets its turn. With SIJIL_FAULTS_ALL=1 all fail, one
 * after the other (script/soak places).
 */
static const unsigned long alike_after[] = {40, 400};
static const unsigned steps[] = {1, 3, 11};

static unsigned step_after(unsigned long nth)
{
    size_t at = 0;

    while (at < COUNT(alike_after) && nth >= alike_after[at]) at++;
    return getenv("SIJIL_FAULTS_ALL") == NULL ? steps[at] : 1;
}

static struct result work_once(const struct job_options *options, struct error *err)
{
    bool worked;

    TRY_UNTOUCHED_BYTES(worked, registry_work(fixture.registry, fixture.stack->pg, options, &worked, err));
    return SUCCESS;
}

static void each_failure_only_puts_it_off(void **state)
{
    const struct kind_row *row = *state;
    unsigned long failures = 0, nth = 1;

    for (bool has_fired = true; has_fired; nth += step_after(nth)) {
        const struct job_options options = {.kind = row->job.kind, .instance = "gw1", .is_stopping = is_stopping, .settle_ms = 1};
        struct error problem = {0};
        row->prepare();
        const struct uuid id = begin(&row->job);
        fault_arm(nth);
        const bool ok = work_once(&options, &problem).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        if (!ok) assert_true(has_fired && problem.kind != ERROR_NONE && problem.message[0] != '\0');
        failures += !ok;
        finish(row, &id);
        row->check();
    }
    assert_failures(failures, row->least);
    fixture_check(&where, KEPT_SEED, SMALL);
}

static int set_up(void **state)
{
    struct pushed manifest;

    (void)fixture_set_up(state);
    where = fixture_repository(&fixture.models, "faults");
    fixture_push(&where, KEPT_SEED, SMALL, kept);
    collect_write_image(&manifest, kept, NULL, 1);
    MUST(collect_push_manifest(&where, "kept", &manifest, &err));
    return 0;
}

int main(void)
{
    struct CMUnitTest tests[COUNT(rows)];

    for (size_t i = 0; i < COUNT(rows); i++)
        tests[i] = (struct CMUnitTest){
            .name = rows[i].name, .test_func = each_failure_only_puts_it_off, .initial_state = (void *)(uintptr_t)&rows[i]};
    return _cmocka_run_group_tests("job faults", tests, COUNT(tests), set_up, fixture_tear_down);
}
