#include "tests/support/unit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit/decision_make.h"
#include "audit/permit_priv.h"
#include "base/fault.h"

static void actions_have_one_name_each(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ACTION_COUNT; i++) {
        enum action found = ACTION_COUNT;
        assert_true(action_find(bytes_of_text(action_name((enum action)i)), &found));
        assert_int_equal(found, i);
        assert_true(action_ocsf_type((enum action)i) >= 300000);
        assert_true(strlen(action_name((enum action)i)) < 32); /* room in a leaf */
    }
    enum action none = ACTION_PING;
    assert_false(action_find(bytes_of_text("blob.reed"), &none));
    assert_int_equal(action_operations(ACTION_BLOB_READ), OP_READ);
}

static struct resource repository(const char *name, uint8_t id)
{
    struct resource resource = {.kind = RESOURCE_REPOSITORY};

    (void)snprintf(resource.name, sizeof resource.name, "%s", name);
    resource.repository.bytes[0] = id;
    return resource;
}

static struct permit *make_permit(void)
{
    struct decision_parts parts = {.verdict = VERDICT_ALLOW, .epoch = 5, .pair_count = 2};
    OWNED(decision) *decision = NULL;
    struct permit *permit = NULL;
    struct error err = {0};

    parts.pairs[0] = (struct action_pair){ACTION_BLOB_MOUNT, repository("acme/models/new", 1)};
    parts.pairs[1] = (struct action_pair){ACTION_BLOB_READ, repository("acme/models/old", 2)};
    assert_true(decision_make(&parts, &decision, &err).ok);
    assert_true(permit_make(decision, &permit, &err).ok);
    return permit; /* it holds the decision, which this function lets go */
}

static const struct permit_row {
    const char *name;
    enum action action;
    const char *resource;
    uint8_t id;
    enum resource_kind kind;
    bool fits;
} permit_rows[] = {
    {"what was decided", ACTION_BLOB_MOUNT, "acme/models/new", 1, RESOURCE_REPOSITORY, true},
    {"the other pair", ACTION_BLOB_READ, "acme/models/old", 2, RESOURCE_REPOSITORY, true},
    {"an id that is not known yet", ACTION_BLOB_READ, "acme/models/old", 0, RESOURCE_REPOSITORY, true},
    {"the action of one pair on the resource of the other", ACTION_BLOB_MOUNT, "acme/models/old", 2, RESOURCE_REPOSITORY,
     false},
    {"another action", ACTION_BLOB_DELETE, "acme/models/new", 1, RESOURCE_REPOSITORY, false},
    {"another name", ACTION_BLOB_READ, "acme/models/older", 2, RESOURCE_REPOSITORY, false},
    {"another id under the same name", ACTION_BLOB_READ, "acme/models/old", 3, RESOURCE_REPOSITORY, false},
    {"another kind", ACTION_BLOB_READ, "acme/models/old", 2, RESOURCE_PROJECT, false},
};

/* A misfit stops the process, so it is tried in a child. */
static void permits_fit_exactly(void **state)
{
    const struct permit_row *row = *state;
    OWNED(permit) *permit = make_permit();
    struct resource resource = repository(row->resource, row->id);
    int status = -1;

    resource.kind = row->kind;
    const pid_t child = fork();
    if (child == 0) {
        (void)fclose(stderr);
        permit_require(permit, row->action, &resource);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WIFEXITED(status) && WEXITSTATUS(status) == 0, row->fits);
    if (!row->fits) assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void a_decision_lives_as_long_as_its_last_holder(void **state)
{
    OWNED(permit) *permit = make_permit();

    (void)state;
    assert_string_equal(permit_resource(permit, ACTION_BLOB_READ)->name, "acme/models/old");
    assert_int_equal(permit_sequence(permit), 0);
}

static void decisions_survive_lack_of_memory(void **state)
{
    const struct decision_parts parts = {
        .verdict = VERDICT_DENY, .pair_count = 1, .denial_count = 1, .denials = {{.rule = "R"}}};
    struct decision *decision = NULL;
    struct error err = {0};

    (void)state;
    fault_arm(1);
    assert_false(decision_make(&parts, &decision, &err).ok);
    assert_int_equal(err.kind, ERROR_NO_MEMORY);
    assert_null(decision);
    fault_arm(0);
    assert_true(decision_make(&parts, &decision, &err).ok);
    assert_int_equal(decision_verdict(decision), VERDICT_DENY);
    assert_string_equal(decision_denial(decision, 0)->rule, "R");
    decision_free(decision);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(actions_have_one_name_each),
        cmocka_unit_test(a_decision_lives_as_long_as_its_last_holder),
        cmocka_unit_test(decisions_survive_lack_of_memory),
    };

    return RUN_TABLE(permit_rows, permits_fit_exactly) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
