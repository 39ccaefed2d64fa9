/* What the limits that a pod sees are worth. */
#include "tests/support/unit.h"

#include "runner/attend/attend.h"

static const struct row {
    const char *name, *version, *memory, *cpu; /* 64 MiB and two processors are ordered */
    const char *says;                          /* NULL: it is enough */
    enum isolation isolation;
} rows[] = {
    {"version 2", "2", "67108864", "2000", NULL, ISOLATION_CGROUP_V2},
    {"version 1", "1", "67108864", "2000", NULL, ISOLATION_CGROUP_V1},
    {"less than was ordered", "2", "1048576", "500", NULL, ISOLATION_CGROUP_V2},
    {"no group", "0", "67108864", "2000", "no control group", ISOLATION_RLIMITS},
    {"a version that is not known", "3", "67108864", "2000", "no control group", ISOLATION_RLIMITS},
    {"no version", "", "67108864", "2000", "no control group", ISOLATION_RLIMITS},
    {"no limit of memory", "2", "0", "2000", "memory", ISOLATION_RLIMITS},
    {"a byte too much", "2", "67108865", "2000", "memory", ISOLATION_RLIMITS},
    {"memory below nothing", "2", "-1", "2000", "memory", ISOLATION_RLIMITS},
    {"memory that is no number", "2", "max", "2000", "memory", ISOLATION_RLIMITS},
    {"no limit of processors", "2", "67108864", "0", "processors", ISOLATION_RLIMITS},
    {"a thousandth too much", "2", "67108864", "2001", "processors", ISOLATION_RLIMITS},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    const struct run_limits limits = {.memory_bytes = INT64_C(64) << 20, .cpus = 2};
    const char *const seen[3] = {row->version, row->memory, row->cpu};
    enum isolation isolation = ISOLATION_RLIMITS;
    struct error err = {0};

    const bool ok = attend_judge(seen, &limits, &isolation, &err).ok;
    if (ok != (row->says == NULL)) fail_msg("%s", ok ? "it is enough" : err.message);
    assert_int_equal(isolation, row->isolation);
    if (ok) return;
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_non_null(strstr(err.message, row->says));
}

int main(void)
{
    return RUN_TABLE(rows, check_row);
}
