/* Quotas as limits: of bytes, also during uploads; ceilings; and of requests in a minute. */
#include "registry/event_quota.h"
#include "tests/integration/collect_fixture.h"

#include <pthread.h>
#include <unistd.h>

#include "base/text.h"
#include "registry/quota.h"

/* ---- quotas ---- */

static void set_quota(int64_t bytes)
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

    MUST(quota_change_prepare(&where, QUOTA_OWN, &limits, &change, &err));
    MUST(fixture_change(ACTION_PROJECT_QUOTA, &where, &change.change, &err));
    OWNED(permit) *permit = fixture_permit(ACTION_PROJECT_QUOTA, &where);
    MUST(quota_count_new(permit, fixture.stack->pg, &where, &err));
}

static int64_t used(void)
{
    uint64_t bytes = 0;

    assert_true(text_to_u64(bytes_of_text(ask("SELECT bytes_used::text FROM project_quota")), INT64_MAX, &bytes));
    return (int64_t)bytes;
}

static struct result reserve(struct upload *upload, uint64_t length, struct job_recorder *recorder, struct error *err)
{
    return upload_reserve(upload, &(struct upload_announcement){.length = length}, &recorder->recorder, err);
}

static void bytes_are_reserved_and_given_back(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "quota");
    char digest[DIGEST_TEXT_SIZE];
    struct job_recorder recorder;

    (void)state;
    set_quota(INT64_MAX);
    collect_count_is_exact();
    const int64_t before = used();
    set_quota(before + 10000);
    const struct upload_begin begun = fixture_begin(&where);
    OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);
    uint8_t *content = fixture_content(7000, 8000, digest);
    MUST(upload_claim(upload, fixture.stack->pg, &err));
    assert_true(upload_must_reserve(upload, 1));
    MUST_FAIL(ERROR_DENIED, reserve(upload, 10001, &recorder, &err));
    MUST(reserve(upload, 10000, &recorder, &err));
    assert_false(upload_must_reserve(upload, 10000));
    assert_int_equal(used(), before + 10000);
    collect_count_is_exact();
    MUST(upload_write(upload, (struct bytes){content, 8000}, &err));
    MUST(upload_save(upload, fixture.stack->pg, &recorder.recorder, &err));
    MUST(upload_give_back(upload, &recorder.recorder, &err));
    assert_int_equal(used(), before + 8000);
    struct digest expected;
    MUST(digest_parse(bytes_of_text(digest), &expected, &err));
    MUST(upload_commit(upload, fixture.stack->pg, &expected, &recorder.recorder, &err));
    assert_int_equal(used(), before + 8000);
    collect_count_is_exact();
    set_quota(before);
    const struct principal nobody = fixture.principal;
    struct upload_begin refused;
    MUST(upload_begin_prepare(fixture.registry, &where, &nobody, DIGEST_SHA256, &refused, &err));
    MUST_FAIL(ERROR_DENIED, fixture_change(ACTION_UPLOAD_BEGIN, &where, &refused.change, &err));
    execute("UPDATE blob SET lease_until = now()");
    (void)collect_all(false, "blobs");
    collect_count_is_exact();
    free(content);
    set_quota(QUOTA_NONE);
}

static void a_quota_that_comes_during_an_upload_is_kept(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "late");
    const struct upload_begin begun = fixture_begin(&where);
    struct job_recorder recorder;
    char digest[DIGEST_TEXT_SIZE];
    struct digest expected;
    OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);
    uint8_t *content = fixture_content(7100, SMALL, digest);

    (void)state;
    MUST(upload_claim(upload, fixture.stack->pg, &err));
    MUST(upload_write(upload, (struct bytes){content, SMALL}, &err));
    set_quota(0);
    MUST(digest_parse(bytes_of_text(digest), &expected, &err));
    MUST_FAIL(ERROR_DENIED, upload_commit(upload, fixture.stack->pg, &expected, &recorder.recorder, &err));
    assert_string_equal(ask("SELECT count(*) FROM blob b JOIN project_quota USING (project_id) WHERE size_bytes = 3000"
                            " AND b.created_at > now() - interval '1 second'"),
                        "0");
    collect_count_is_exact();
    execute("UPDATE upload SET expires_at = now()");
    collect_clean_up_all();
    collect_count_is_exact();
    free(content);
    set_quota(QUOTA_NONE);
    assert_string_equal(ask("SELECT count(*) FROM project_quota"), "0");
}

static struct result put_quota(enum quota_setter setter, int64_t bytes, int64_t events, struct error *err)
{
    const struct action_pair pairs[] = {{.action = ACTION_PROJECT_QUOTA,
                                         .resource = {.kind = RESOURCE_PROJECT,
                                                      .organisation = fixture.organisation,
                                                      .project = fixture.models,
                                                      .name = "acme/models"}},
                                        {.action = ACTION_PROJECT_QUOTA, .resource.kind = RESOURCE_SYSTEM}};
    const struct quota_limits_of_project limits = {.bytes = bytes,
                                                   .sessions = QUOTA_NONE,
                                                   .client_sessions = QUOTA_NONE,
                                                   .cpu_s = QUOTA_NONE,
                                                   .gpu_s = QUOTA_NONE,
                                                   .events = events};
    struct quota_change change;

    TRY(quota_change_prepare(&pairs[0].resource, setter, &limits, &change, err));
    TRY(stack_record(fixture.stack, pairs, setter == QUOTA_OWN ? 1 : 2, &change.change, NULL, err));
    OWNED(permit) *permit = fixture_permit(ACTION_PROJECT_QUOTA, &pairs[0].resource);
    return quota_count_new(permit, fixture.stack->pg, &pairs[0].resource, err);
}

static const char *quota_row(void)
{
    return ask("SELECT concat_ws(' ', bytes_max, bytes_ceiling, bytes_own, events_max) FROM project_quota");
}

/* The organisation can lower the registry's ceiling, but neither raise nor remove it. */
static void a_quota_from_above_is_a_ceiling(void **state)
{
    (void)state;
    MUST(put_quota(QUOTA_FROM_ABOVE, 1000000, 60, &err));
    assert_string_equal(quota_row(), "1000000 1000000 60");
    MUST(put_quota(QUOTA_OWN, QUOTA_NONE, QUOTA_NONE, &err));
    assert_string_equal(quota_row(), "1000000 1000000 60");
    MUST_FAIL(ERROR_DENIED, put_quota(QUOTA_OWN, 1000001, QUOTA_NONE, &err));
    MUST_FAIL(ERROR_DENIED, put_quota(QUOTA_OWN, QUOTA_NONE, 61, &err));
    MUST(put_quota(QUOTA_OWN, 500000, QUOTA_NONE, &err));
    assert_string_equal(quota_row(), "500000 1000000 500000 60");
    MUST(put_quota(QUOTA_OWN, 900000, QUOTA_NONE, &err));
    MUST(put_quota(QUOTA_FROM_ABOVE, 700000, QUOTA_NONE, &err));
    assert_string_equal(quota_row(), "700000 700000 900000");
    collect_count_is_exact();
    MUST(put_quota(QUOTA_FROM_ABOVE, QUOTA_NONE, QUOTA_NONE, &err));
    assert_string_equal(quota_row(), "900000 900000");
    MUST(put_quota(QUOTA_OWN, QUOTA_NONE, QUOTA_NONE, &err));
    assert_string_equal(ask("SELECT count(*) FROM project_quota"), "0");
}

/* ---- events ---- */

struct taker {
    struct quota_events quota;
    int64_t taken;
};

static void *take_all(void *context)
{
    static const struct pg_table *const tables[] = {&quota_statements, NULL};
    struct taker *taker = context;
    struct pg *pg = NULL;

    MUST(pg_open(database_app(fixture.stack->database), tables, &pg, &err));
    for (struct quota_portion portion = {.count = 1}; portion.count > 0; taker->taken += portion.count) {
        MUST(quota_events_take(pg, &taker->quota, 7, &portion, &err));
        assert_in_range(portion.left_ms, 1, 60000);
    }
    pg_free(pg);
    return NULL;
}

static int64_t milliseconds_of_minute(void)
{
    uint64_t now_ms = 0;

    assert_true(
        text_to_u64(bytes_of_text(ask("SELECT floor(extract(second FROM clock_timestamp()) * 1000)::int8")), 60000, &now_ms));
    return (int64_t)now_ms;
}

/* Not rounded, and never past the minute: the rest of one minute is not for the next. */
static void check_end_of_minute(const struct quota_events *quota)
{
    struct quota_portion portion;

    const int64_t before_ms = milliseconds_of_minute();
    MUST(quota_events_take(fixture.stack->pg, quota, 7, &portion, &err));
    const int64_t after_ms = milliseconds_of_minute();
    if (after_ms < before_ms) return; /* a minute ended meanwhile */
    assert_in_range(portion.left_ms, 60000 - after_ms, 60000 - before_ms);
}

static void gateways_share_a_minute_exactly(void **state)
{
    struct resource where = {
        .kind = RESOURCE_PROJECT, .organisation = fixture.organisation, .project = fixture.models, .name = "acme/models"};
    const struct quota_limits_of_project limits = {.bytes = QUOTA_NONE,
                                                   .sessions = QUOTA_NONE,
                                                   .client_sessions = QUOTA_NONE,
                                                   .cpu_s = QUOTA_NONE,
                                                   .gpu_s = QUOTA_NONE,
                                                   .events = 1000};
    struct taker takers[4];
    struct quota_change change;
    struct quota_events listed[2];
    pthread_t threads[4];
    int64_t taken = 0;
    size_t count = 0;

    (void)state;
    MUST(quota_change_prepare(&where, QUOTA_OWN, &limits, &change, &err));
    MUST(fixture_change(ACTION_PROJECT_QUOTA, &where, &change.change, &err));
    MUST(quota_events_list(fixture.stack->pg, listed, 2, &count, &err));
    assert_int_equal(count, 1);
    assert_int_equal(listed[0].most, 1000);
    for (int i = 0; i < 4; i++) takers[i] = (struct taker){.quota = listed[0]};
    while (strcmp(ask("SELECT extract(second FROM clock_timestamp()) > 50"), "t") == 0) (void)sleep(1);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, take_all, &takers[i]), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 4; i++) taken += takers[i].taken;
    assert_int_equal(taken, 1000);
    check_end_of_minute(&listed[0]);
    /* A minute in the future never ends early: the clock went back, and must reach it again. */
    struct quota_portion portion;
    execute("UPDATE project_events SET minute = minute + 5, taken = 0");
    MUST(quota_events_take(fixture.stack->pg, &listed[0], 7, &portion, &err));
    assert_int_equal(portion.count, 0);
    execute("UPDATE project_events SET minute = minute - 10, taken = 1000");
    MUST(quota_events_take(fixture.stack->pg, &listed[0], 7, &portion, &err));
    assert_int_equal(portion.count, 7);
    set_quota(QUOTA_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_reserved_and_given_back),
        cmocka_unit_test(a_quota_that_comes_during_an_upload_is_kept),
        cmocka_unit_test(a_quota_from_above_is_a_ceiling),
        cmocka_unit_test(gateways_share_a_minute_exactly),
    };

    return cmocka_run_group_tests_name("registry rules", tests, fixture_set_up, fixture_tear_down);
}
