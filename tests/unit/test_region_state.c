/* What the state of a region forbids. */
#include "tests/support/unit.h"

#include "policy/decider/copy_decision.h"
#include "policy/decider/region_state.h"

static const struct region_state active = {.id = "a/b"};
static const struct region_state draining = {.id = "a/b", .is_draining = true};
static const struct region_state quarantined = {.id = "a/b", .why = "mark: another store"};
static const struct region_state both = {.id = "a/b", .is_draining = true, .why = "mark: another store"};
static const struct region_state retired = {.id = "a/b", .is_draining = true, .is_retired = true};

static const struct row {
    const char *name;
    enum action action;
    const char *when_draining, *when_quarantined; /* NULL: allowed */
} rows[] = {
    {"beginning an upload", ACTION_UPLOAD_BEGIN, "SYS-DRAINING", "SYS-QUARANTINE"},
    {"the next piece of one", ACTION_UPLOAD_WRITE, "SYS-DRAINING", "SYS-QUARANTINE"},
    {"its end", ACTION_UPLOAD_COMMIT, "SYS-DRAINING", "SYS-QUARANTINE"},
    {"a mount", ACTION_BLOB_MOUNT, "SYS-DRAINING", "SYS-QUARANTINE"},
    {"a manifest", ACTION_MANIFEST_PUSH, "SYS-DRAINING", "SYS-QUARANTINE"},
    {"a project at home there", ACTION_PROJECT_CREATE, "SYS-DRAINING", "SYS-QUARANTINE"},
    {"old entries of the log", ACTION_AUDIT_ARCHIVE, "SYS-DRAINING", "SYS-QUARANTINE"},
    {"the log of a run", ACTION_RUN_APPEND, "SYS-DRAINING", "SYS-QUARANTINE"},
    {"reading a blob", ACTION_BLOB_READ, NULL, "SYS-QUARANTINE"},
    {"asking for a blob", ACTION_BLOB_STAT, NULL, "SYS-QUARANTINE"},
    {"reading a manifest", ACTION_MANIFEST_READ, NULL, "SYS-QUARANTINE"},
    {"what a run reads", ACTION_RUN_USE, NULL, "SYS-QUARANTINE"},
    {"names of tags", ACTION_TAG_LIST, NULL, NULL},
    {"a label", ACTION_PROJECT_LABEL, NULL, NULL},
    {"removing a manifest", ACTION_MANIFEST_DELETE, NULL, NULL},
    {"looking at the region", ACTION_REGION_CHECK, NULL, NULL},
};

static const char *rule_of(const struct region_state *state, enum action action)
{
    const struct region_refusal *refusal = region_refusal_of(state, action);

    return refusal == NULL ? "" : refusal->rule;
}

static void states_forbid(void **state)
{
    const struct row *row = *state;
    const char *closed = row->when_quarantined == NULL ? "" : row->when_quarantined;

    assert_null(region_refusal_of(&active, row->action));
    assert_string_equal(rule_of(&draining, row->action), row->when_draining == NULL ? "" : row->when_draining);
    assert_string_equal(rule_of(&quarantined, row->action), closed);
    assert_string_equal(rule_of(&both, row->action), closed);
    assert_string_equal(rule_of(&retired, row->action), row->when_quarantined == NULL ? "" : "SYS-RETIRED");
    const struct region_refusal *keyless = region_refusal_without_keys(row->action);
    assert_string_equal(keyless == NULL ? "" : keyless->rule, row->when_quarantined == NULL ? "" : "SYS-NOT-CURRENT");
}

static void states_have_names(void **state)
{
    (void)state;
    assert_string_equal(region_state_name(&active), "active");
    assert_string_equal(region_state_name(&draining), "draining");
    assert_string_equal(region_state_name(&both), "quarantined");
    assert_string_equal(region_state_name(&retired), "retired");
}

/* Of two gateways, each of which may have read the names at another time. */
static void copies_are_reviewed_by_who_knows_more(void **state)
{
    const uint64_t reviewed = copies_version(100, 5);

    (void)state;
    assert_false(copies_version_has_more(copies_version(100, 5), reviewed));
    assert_false(copies_version_has_more(copies_version(99, 5), reviewed)); /* nothing has changed since */
    assert_true(copies_version_has_more(copies_version(99, 6), reviewed));  /* the sum is the same */
    assert_true(copies_version_has_more(copies_version(101, 4), reviewed));
    assert_true(copies_version_has_more(copies_version(1, 1), 0) && (int64_t)copies_version(UINT64_MAX, UINT64_MAX) > 0);
}

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(states_have_names),
                                        cmocka_unit_test(copies_are_reviewed_by_who_knows_more)};

    return RUN_TABLE(rows, states_forbid) + cmocka_run_group_tests_name("states", others, NULL, NULL);
}
