/*
 * A project's first quota: the existing content is counted outside the log's lock, and the count is exact even if clients push
 * meanwhile.
 */
#include "tests/integration/collect_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "registry/jobs/clean_up.h"
#include "registry/maintenance.h"

#define IS_COUNTED "SELECT count(*) FROM project_quota WHERE uncounted IS NULL"

/* The change alone. */
static struct result put_quota(int64_t bytes, struct error *err)
{
    struct resource where = {
        .kind = RESOURCE_PROJECT, .organisation = fixture.organisation, .project = fixture.models, .name = "acme/models"};
    const struct quota_limits_of_project limits = {.bytes = bytes,
                                                   .sessions = QUOTA_NONE,
                                                   .client_sessions = QUOTA_NONE,
                                                   .cpu_s = QUOTA_NONE,
                                                   .gpu_s = QUOTA_NONE,
                                                   .events = QUOTA_NONE};
    struct quota_change change;

    TRY(quota_change_prepare(&where, QUOTA_OWN, &limits, &change, err));
    return fixture_change(ACTION_PROJECT_QUOTA, &where, &change.change, err);
}

static void push(unsigned seed)
{
    struct resource where = fixture_repository(&fixture.models, "counted");
    char config[DIGEST_TEXT_SIZE];
    struct pushed pushed;

    fixture_push(&where, seed, SMALL, config);
    collect_write_image(&pushed, config, NULL, (int)seed);
    MUST(collect_push_manifest(&where, NULL, &pushed, &err));
}

static int64_t bytes_told(void)
{
    struct resource where = {
        .kind = RESOURCE_PROJECT, .organisation = fixture.organisation, .project = fixture.models, .name = "acme/models"};
    OWNED(permit) *permit = stack_permit(fixture.stack, ACTION_PROJECT_READ, &where);
    struct quota_use use;

    MUST(quota_read(permit, fixture.stack->pg, &where, &use, &err));
    return use.bytes_used;
}

static void the_change_counts_nothing(void **state)
{
    struct error problem = {0};
    bool found = false;

    (void)state;
    push(1);
    execute("REVOKE SELECT ON blob, manifest, upload FROM sijil_app");
    const struct result result = put_quota(INT64_MAX, &problem);
    execute("GRANT SELECT ON blob, manifest, upload TO sijil_app");
    if (!result.ok) fail_msg("%s", problem.message);
    push(2);
    const int64_t told = bytes_told();
    assert_string_equal(ask(IS_COUNTED), "0");
    MUST(quota_count_pending(fixture.stack->pg, &found, &err));
    assert_true(found);
    assert_int_equal(bytes_told(), told);
    assert_string_equal(ask(IS_COUNTED), "1");
    collect_count_is_exact();
    MUST(put_quota(INT64_MAX - 1, &err)); /* it has a row: nothing is to be counted */
    MUST(quota_count_pending(fixture.stack->pg, &found, &err));
    assert_false(found);
    collect_count_is_exact();
    MUST(put_quota(QUOTA_NONE, &err));
}

/* As if the gateway that set it had been killed. */
static void the_maintenance_thread_counts_what_waits(void **state)
{
    size_t count = 0;

    (void)state;
    MUST(put_quota(INT64_MAX, &err));
    push(3);
    MUST(registry_clean_up(fixture.registry, fixture.stack->pg, &count, &err));
    assert_int_equal(count, 1);
    assert_string_equal(ask(IS_COUNTED), "1");
    collect_count_is_exact();
    MUST(registry_clean_up(fixture.registry, fixture.stack->pg, &count, &err));
    assert_int_equal(count, 0);
    MUST(put_quota(QUOTA_NONE, &err));
}

static void *count_all_the_time(void *context)
{
    static const struct pg_table *const tables[] = {&quota_statements, NULL};
    atomic_bool *ends = context;
    struct pg *pg = NULL;
    bool found = false;

    MUST(pg_open(database_app(fixture.stack->database), tables, &pg, &err));
    while (!atomic_load(ends)) {
        MUST(quota_count_pending(pg, &found, &err));
        (void)usleep(500);
    }
    pg_free(pg);
    return NULL;
}

static void two_gateways_count_once_beside_pushes(void **state)
{
    pthread_t threads[2];
    atomic_bool ends = false;

    (void)state;
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, count_all_the_time, &ends), 0);
    for (unsigned round = 0; round < 20; round++) {
        MUST(put_quota(INT64_MAX, &err));
        push(100 + 2 * round);
        push(101 + 2 * round);
        while (strcmp(ask(IS_COUNTED), "1") != 0) (void)usleep(1000);
        collect_count_is_exact();
        MUST(put_quota(QUOTA_NONE, &err));
    }
    atomic_store(&ends, true);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_change_counts_nothing),
        cmocka_unit_test(the_maintenance_thread_counts_what_waits),
        cmocka_unit_test(two_gateways_count_once_beside_pushes),
    };

    return cmocka_run_group_tests_name("registry quota", tests, fixture_set_up, fixture_tear_down);
}
