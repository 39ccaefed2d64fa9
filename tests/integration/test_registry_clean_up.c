/* Rounds of maintenance: ended sessions, counts, and the length of a turn. */
#include "tests/integration/registry_fixture.h"

#include "registry/jobs/clean_up.h"

/* Between the list of expired sessions and the end of one, its client made progress, or another gateway ended it. */
static void a_session_that_is_not_ended_is_not_recorded_as_ended(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "tidy/late");
    size_t count = 0;

    (void)state;
    (void)fixture_begin(&where);
    execute("UPDATE upload SET expires_at = now() - interval '1 s'");
    execute("CREATE FUNCTION be_late() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NULL; END$$;"
            "CREATE TRIGGER be_late BEFORE DELETE ON upload FOR EACH ROW EXECUTE FUNCTION be_late()");
    MUST(registry_clean_up(fixture.registry, fixture.stack->pg, &count, &err));
    assert_int_equal(count, 0);
    assert_int_equal(stack_events(fixture.stack, "upload.reap", "completed"), 0);
    assert_int_equal(stack_events(fixture.stack, "upload.reap", "failed"), 1);
    assert_string_equal(ask("SELECT count(*) FROM upload"), "1");
    execute("DROP TRIGGER be_late ON upload");
    MUST(registry_clean_up(fixture.registry, fixture.stack->pg, &count, &err));
    assert_int_equal(count, 2); /* the session, and its object */
    assert_int_equal(stack_events(fixture.stack, "upload.reap", "completed"), 1);
}

static bool says(void *context)
{
    return *(const bool *)context;
}

/* While sessions or objects were found, the maintenance thread did no other work. */
static void a_turn_ends_with_its_time(void **state)
{
    bool stops = true, has_more = false;
    struct clean_up_options turn = {.lasts_ms = 0, .is_stopping = says, .context = &stops};

    (void)state;
    execute("INSERT INTO abandoned_object (blob_id, region_id, abandoned_at)"
            " SELECT gen_random_uuid(), region_id, now() - interval '1 s' FROM region, generate_series(1, 250)");
    MUST(registry_clean_up_for(fixture.registry, fixture.stack->pg, &turn, &has_more, &err));
    assert_string_equal(ask("SELECT count(*) FROM abandoned_object"), "250");
    stops = false;
    MUST(registry_clean_up_for(fixture.registry, fixture.stack->pg, &turn, &has_more, &err));
    assert_true(has_more);
    assert_string_equal(ask("SELECT count(*) FROM abandoned_object"), "150"); /* one round */
    turn.lasts_ms = 60000;
    MUST(registry_clean_up_for(fixture.registry, fixture.stack->pg, &turn, &has_more, &err));
    assert_false(has_more);
    assert_string_equal(ask("SELECT count(*) FROM abandoned_object"), "0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_that_is_not_ended_is_not_recorded_as_ended),
        cmocka_unit_test(a_turn_ends_with_its_time),
    };

    return cmocka_run_group_tests_name("registry tidy", tests, fixture_set_up, fixture_tear_down);
}
