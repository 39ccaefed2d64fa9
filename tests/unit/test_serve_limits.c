/* The most that one run may ask for: what the administrator says counts, 0 included, and the rest is what there is. */
#include "tests/support/unit.h"

#include "runner/serve/serve_limits.h"

#define CPUS   8
#define MEMORY (INT64_C(64) << 30)

static void what_is_not_said_is_what_there_is(void **state)
{
    const struct run_limits most = serve_limits(&serve_limits_unsaid, CPUS, MEMORY);

    (void)state;
    assert_int_equal(most.time_s, 2592000);
    assert_int_equal(most.grace_s, 3600);
    assert_int_equal(most.cpus, CPUS);
    assert_int_equal(most.memory_bytes, MEMORY);
    assert_int_equal(most.output_bytes, MEMORY);
    assert_int_equal(most.output_files, 4096);
    assert_int_equal(most.log_bytes, INT64_C(1) << 30);
    assert_int_equal(most.processes, 65536);
}

/* Each limit of the table by itself: its least value, which is 0 for two of them. */
static void what_is_said_counts(void **state)
{
    const struct run_limits unsaid = serve_limits(&serve_limits_unsaid, CPUS, MEMORY);

    (void)state;
#define X(name, least, largest, initial, what)                            \
    {                                                                     \
        struct run_limits said = serve_limits_unsaid, expected = unsaid;  \
        said.name = expected.name = (least);                              \
        const struct run_limits most = serve_limits(&said, CPUS, MEMORY); \
        assert_memory_equal(&most, &expected, sizeof most);               \
    }
#include "training/format/limits.def"
#undef X
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_said_is_what_there_is),
        cmocka_unit_test(what_is_said_counts),
    };

    return cmocka_run_group_tests_name("limits of a serving runner", tests, NULL, NULL);
}
