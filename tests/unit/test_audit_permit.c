#include "tests/support/unit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit/decision_make.h"
#include "audit/permit_priv.h"

static void actions_have_one_name_each(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ACTION_COUNT; i++) {
        enum action found = ACTION_COUNT;
        assert_true(action_find(bytes_of_text(action_name((enum action)i)), &found));
        assert_int_equal(found, i);
        assert_true(action_ocsf_type((enum action)i) >= 200000);
        assert_true(strlen(action_name((enum action)i)) < 32); /* room in a leaf */
        print_message("%s %u\n", action_name((enum action)i), action_ocsf_type((enum action)i));
    }
    enum action none = ACTION_PING;
    assert_false(action_find(bytes_of_text("blob.reed"), &none));
    assert_int_equal(action_operations(ACTION_BLOB_READ), OP_READ);
}

static struct resource repository(const char *name, uint8_t id)
{
    struct resource resource = {.kind = RESOURCE_REPOSITORY};

    (void)snprintf(resource.name, sizeof resource.name, "%s", name);
    resource.organisation.bytes[0] = 7;
    resource.project.bytes[0] = 8;
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
    char other; /* whose id differs: 'o'rganisation, 'p'roject */
} permit_rows[] = {
    {"what was decided", ACTION_BLOB_MOUNT, "acme/models/new", 1, RESOURCE_REPOSITORY, true, 0},
    {"the other pair", ACTION_BLOB_READ, "acme/models/old", 2, RESOURCE_REPOSITORY, true, 0},
    {"an id that is not known yet", ACTION_BLOB_READ, "acme/models/old", 0, RESOURCE_REPOSITORY, true, 0},
    {"the action of one pair on the resource of the other", ACTION_BLOB_MOUNT, "acme/models/old", 2, RESOURCE_REPOSITORY, false,
     0},
    {"another action", ACTION_BLOB_DELETE, "acme/models/new", 1, RESOURCE_REPOSITORY, false, 0},
    {"another name", ACTION_BLOB_READ, "acme/models/older", 2, RESOURCE_REPOSITORY, false, 0},
    {"another id under the same name", ACTION_BLOB_READ, "acme/models/old", 3, RESOURCE_REPOSITORY, false, 0},
    {"another organisation", ACTION_BLOB_READ, "acme/models/old", 2, RESOURCE_REPOSITORY, false, 'o'},
    {"another project", ACTION_BLOB_READ, "acme/models/old", 2, RESOURCE_REPOSITORY, false, 'p'},
    {"another kind", ACTION_BLOB_READ, "acme/models/old", 2, RESOURCE_PROJECT, false, 0},
};

/* A wrong permit aborts the process, so each case runs in a child. */
static void permits_fit_exactly(void **state)
{
    const struct permit_row *row = *state;
    OWNED(permit) *permit = make_permit();
    struct resource resource = repository(row->resource, row->id);
    int status = -1;

    resource.kind = row->kind;
    resource.organisation.bytes[0] = row->other == 'o' ? 9 : 7;
    resource.project.bytes[0] = row->other == 'p' ? 9 : 8;
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

/* The compiler follows no variable, so the functions that take a permit refuse a null one when they run. */
static void no_operation_without_a_permit(void **state)
{
    const struct resource resource = repository("acme/models/old", 2);

    (void)state;
    for (int asks = 0; asks < 4; asks++) {
        const struct action_pair pairs[4] = {{.action = ACTION_BLOB_READ, .resource = resource}}; /* as in a request */
        const struct permit *const volatile none = asks < 2 ? NULL : (const struct permit *)(const void *)pairs;
        int status = -1;
        const pid_t child = fork();
        if (child == 0) {
            (void)fclose(stderr);
            if (asks % 2 == 0) permit_require(none, ACTION_BLOB_READ, &resource);
            else (void)permit_resource(none, ACTION_BLOB_READ);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

/* To ask a permit for the resource of an action that it does not name is a bug, too. */
static void no_resource_without_its_action(void **state)
{
    OWNED(permit) *permit = make_permit();
    int status = -1;

    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        (void)fclose(stderr);
        _exit(permit_resource(permit, ACTION_BLOB_DELETE) == NULL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void make_of(const char *first, const char *second)
{
    struct decision_parts parts = {.verdict = VERDICT_ALLOW, .epoch = 5, .pair_count = 2};
    OWNED(decision) *decision = NULL;
    struct error err = {0};

    parts.pairs[0] = (struct action_pair){ACTION_BLOB_MOUNT, repository(first, 1)};
    parts.pairs[1] = (struct action_pair){ACTION_BLOB_READ, repository(second, 2)};
    (void)decision_make(&parts, &decision, &err).ok;
}

static const struct places_row {
    const char *name, *first, *second;
    bool are_of_one;
} places_rows[] = {
    {"two repositories", "acme/models/a", "acme/models/b", true},
    {"two projects", "acme/models/a", "acme/data/b", true},
    {"a project and the registry", "acme/models", "", true},
    {"the registry and an organisation", "", "acme", true},
    {"two organisations", "acme/models/a", "globex/models/a", false},
    {"one's name begins with the other's", "acme/models/a", "acme2/models/a", false},
    {"the other's with the one's", "acme2/models/a", "acme/models/a", false},
};

/* An event has ordinals of all its places, so auditors of each place would read the other's. */
static void a_decision_is_of_one_organisation(void **state)
{
    const struct places_row *row = *state;
    int status = -1;

    const pid_t child = fork();
    if (child == 0) {
        (void)fclose(stderr);
        make_of(row->first, row->second);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WIFEXITED(status) && WEXITSTATUS(status) == 0, row->are_of_one);
    if (!row->are_of_one) assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static struct result decide(void *context, struct error *err)
{
    const struct decision_parts parts = {.verdict = VERDICT_DENY, .pair_count = 1, .denial_count = 1, .denials = {{.rule = "R"}}};
    OWNED(decision) *decision = NULL;

    (void)context;
    TRY_UNTOUCHED_BYTES(decision, decision_make(&parts, &decision, err));
    assert_int_equal(decision_verdict(decision), VERDICT_DENY);
    assert_string_equal(decision_denial(decision, 0)->rule, "R");
    return SUCCESS;
}

/* ---- permits about one lease, and permits above a project ---- */

static struct permit *permit_for(const struct resource *resource)
{
    struct decision_parts parts = {.verdict = VERDICT_ALLOW, .pair_count = 1};
    OWNED(decision) *decision = NULL;
    struct permit *permit = NULL;
    struct error err = {0};

    parts.pairs[0] = (struct action_pair){ACTION_RUN_TOKEN, *resource};
    assert_true(decision_make(&parts, &decision, &err).ok);
    assert_true(permit_make(decision, &permit, &err).ok);
    return permit;
}

static const struct detail_row {
    const char *name, *permitted, *wanted;
    bool fits;
} detail_rows[] = {
    {"the lease", "run-a 1 0", "run-a 1 0", true},
    {"its run", "run-a 1 0", "run-a", true},
    {"another node", "run-a 1 0", "run-a 1 1", false},
    {"a node whose number begins with the same digit", "run-a 1 12", "run-a 1 1", false},
    {"another run", "run-a 1 0", "run-b", false},
    {"a run for all leases", "run-a", "run-a 1 0", false},
    {"a permit that names none", "", "run-a", false},
    {"none is wanted", "run-a 1 0", "", false},
};

static void a_permit_is_for_the_lease_that_it_names(void **state)
{
    const struct detail_row *row = *state;
    struct resource resource = {.kind = RESOURCE_PROJECT, .name = "acme/models"};
    int status = -1;

    (void)snprintf(resource.detail, sizeof resource.detail, "%s", row->permitted);
    OWNED(permit) *permit = permit_for(&resource);
    const pid_t child = fork();
    if (child == 0) {
        (void)fclose(stderr);
        permit_require_detail(permit, ACTION_RUN_TOKEN, row->wanted);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WIFEXITED(status) && WEXITSTATUS(status) == 0, row->fits);
}

static const struct above_row {
    const char *name;
    enum resource_kind kind;
    uint8_t organisation, project; /* of the permit; the run is of 7 and 8 */
    bool fits;
} above_rows[] = {
    {"the registry", RESOURCE_SYSTEM, 0, 0, true},
    {"its organisation", RESOURCE_ORGANISATION, 7, 0, true},
    {"its project", RESOURCE_PROJECT, 7, 8, true},
    {"another organisation", RESOURCE_ORGANISATION, 9, 0, false},
    {"another project of the organisation", RESOURCE_PROJECT, 7, 9, false},
    {"an organisation that is not known", RESOURCE_ORGANISATION, 0, 0, false},
    {"a repository", RESOURCE_REPOSITORY, 7, 8, false},
};

static void a_permit_reaches_what_is_below_it(void **state)
{
    const struct above_row *row = *state;
    const struct resource below = {.kind = RESOURCE_PROJECT, .name = "acme/models", .organisation = {{7}}, .project = {{8}}};
    const struct resource above = {.kind = row->kind, .organisation = {{row->organisation}}, .project = {{row->project}}};
    OWNED(permit) *permit = permit_for(&above);
    int status = -1;
    const pid_t child = fork();

    if (child == 0) {
        (void)fclose(stderr);
        permit_require_above(permit, ACTION_RUN_TOKEN, &below);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WIFEXITED(status) && WEXITSTATUS(status) == 0, row->fits);
}

static struct result permit_it(void *decision, struct error *err)
{
    OWNED(permit) *permit = NULL;

    TRY_UNTOUCHED_BYTES(permit, permit_make(decision, &permit, err));
    return SUCCESS;
}

static void decisions_survive_lack_of_memory(void **state)
{
    const struct decision_parts parts = {.verdict = VERDICT_ALLOW, .pair_count = 1};
    OWNED(decision) *decision = NULL;
    struct error err = {0};

    (void)state;
    fail_each(decide, NULL, ERROR_NO_MEMORY, 1);
    assert_true(decision_make(&parts, &decision, &err).ok);
    fail_each(permit_it, decision, ERROR_NO_MEMORY, 1);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(actions_have_one_name_each),       cmocka_unit_test(a_decision_lives_as_long_as_its_last_holder),
        cmocka_unit_test(no_resource_without_its_action),   cmocka_unit_test(no_operation_without_a_permit),
        cmocka_unit_test(decisions_survive_lack_of_memory),
    };

    return RUN_TABLE(permit_rows, permits_fit_exactly) + RUN_TABLE(detail_rows, a_permit_is_for_the_lease_that_it_names) +
           RUN_TABLE(above_rows, a_permit_reaches_what_is_below_it) + RUN_TABLE(places_rows, a_decision_is_of_one_organisation) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}
