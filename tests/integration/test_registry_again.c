/* An intact blob that was marked as damaged. */
#include "tests/integration/registry_fixture.h"

#include <time.h>

#include "base/clock.h"

static bool is_sound_now(const struct resource *where, const char *digest)
{
    OWNED(permit) *permit = NULL;
    struct error problem = {0};
    OWNED(stored_blob) *blob = fixture_find_blob(where, digest, &permit, &problem);

    assert_non_null(blob);
    assert_true(stored_blob_is_damaged(blob));
    return stored_blob_is_sound_now(blob);
}

/* The next check of a marked blob, shortly after the last one. The mark is removed without a wait. */
static bool becomes_sound(const struct resource *where, const char *digest)
{
    const int64_t until_ms = clock_monotonic_ms() + 20000;

    while (!is_sound_now(where, digest)) {
        if (clock_monotonic_ms() > until_ms) return false;
        (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    return true;
}

static void a_mark_goes_when_a_read_finds_all_of_it_sound(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "again");
    char digest[DIGEST_TEXT_SIZE], other[DIGEST_TEXT_SIZE];

    (void)state;
    fixture_push(&where, 25, ARTIFACTS, digest);
    fixture_push(&where, 26, ARTIFACTS, other);
    const unsigned events = stack_events(fixture.stack, "blob.sound", "completed");
    fixture_damage(digest, 4096 + 65536 + 100);
    fixture_damage(other, 4096 + 65536 + 100);
    fixture_read_damaged(&where, digest);
    fixture_read_damaged(&where, other);
    assert_false(is_sound_now(&where, digest)); /* it is damaged, although its first record is sound */
    fixture_damage(digest, 4096 + 65536 + 100); /* the same bit again: as it was */
    fixture_damage(other, 4096 + 65536 + 100);
    assert_false(is_sound_now(&where, digest)); /* one was looked at just now */
    assert_true(becomes_sound(&where, digest));
    assert_false(is_sound_now(&where, other));
    fixture_check(&where, 25, ARTIFACTS);
    assert_int_equal(stack_events(fixture.stack, "blob.sound", "completed"), events + 1);
    assert_string_equal(ask("SELECT count(*) FROM blob WHERE damaged_at IS NOT NULL"), "1");
    assert_true(becomes_sound(&where, other));
    assert_string_equal(ask("SELECT count(*) FROM blob WHERE damaged_at IS NOT NULL"), "0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mark_goes_when_a_read_finds_all_of_it_sound),
    };
    return cmocka_run_group_tests_name("again", tests, fixture_set_up, fixture_tear_down);
}
