/* Each failure of a read, or of the preparation of a change, is reported, and no result is written. */
#include "registry/event_quota.h"
#include "tests/integration/collect_fixture.h"
#include "tests/integration/job_fixture.h"

#include "base/fault.h"
#include "registry/jobs/clean_up.h"
#include "registry/quota.h"

static struct resource everything, project, where;
static struct permit *job_reader, *project_reader, *lister, *tag_lister, *cataloguer;
static struct uuid job;

static struct result list_names(struct error *err)
{
    struct pg *pg = fixture.stack->pg;
    const struct namespace_query below = {.where = &everything, .projects = true, .limit = 10};
    const struct repository_query names = {.where = &everything, .from = "", .until = "\x7f", .last = "", .limit = 10};
    const struct tag_query query = {.where = &where, .last = "", .limit = 10};
    OWNED(namespace_page) *scopes = NULL;
    OWNED(repository_page) *repositories = NULL;
    OWNED(tag_page) *tags = NULL;

    TRY_UNTOUCHED_BYTES(scopes, namespace_list(lister, pg, &below, &scopes, err));
    TRY_UNTOUCHED_BYTES(repositories, repository_list(cataloguer, pg, &names, &repositories, err));
    TRY_UNTOUCHED_BYTES(tags, tag_list(tag_lister, pg, &query, &tags, err));
    return SUCCESS;
}

static struct result look_at_quotas(struct error *err)
{
    const struct quota_limits_of_project limits = {.bytes = 1 << 30,
                                                   .sessions = QUOTA_NONE,
                                                   .client_sessions = QUOTA_NONE,
                                                   .cpu_s = QUOTA_NONE,
                                                   .gpu_s = QUOTA_NONE,
                                                   .events = 1000};
    const struct quota_events events = {.project = project.project, .most = 1000};
    struct quota_use use;
    struct quota_change change;
    struct quota_portion portion;
    struct {
        struct quota_events list[4];
        size_t count;
    } found;

    TRY_UNTOUCHED_BYTES(use, quota_read(project_reader, fixture.stack->pg, &project, &use, err));
    TRY_UNTOUCHED_BYTES(change, quota_change_prepare(&project, QUOTA_OWN, &limits, &change, err));
    TRY_UNTOUCHED_BYTES(found, quota_events_list(fixture.stack->pg, found.list, COUNT(found.list), &found.count, err));
    TRY_UNTOUCHED_BYTES(portion, quota_events_take(fixture.stack->pg, &events, 1, &portion, err));
    return SUCCESS;
}

static struct result look_at_jobs(struct error *err)
{
    struct pg *pg = fixture.stack->pg;
    const struct job_page newest = {.from = INT64_MAX, .limit = 10}, first = {.job = &job, .limit = 10};
    struct job one;
    struct {
        struct job *list;
        size_t count;
    } jobs;
    struct {
        struct job_finding *list;
        size_t count;
    } findings;

    TRY_UNTOUCHED_BYTES(one, job_find(job_reader, pg, &job, &one, err));
    TRY_UNTOUCHED_BYTES(jobs, job_list(job_reader, pg, &newest, &jobs.list, &jobs.count, err));
    free(jobs.list);
    TRY_UNTOUCHED_BYTES(findings, job_findings(job_reader, pg, &first, &findings.list, &findings.count, err));
    free(findings.list);
    return SUCCESS;
}

static struct result look_at_reports(struct error *err)
{
    struct pg *pg = fixture.stack->pg;
    struct {
        struct pg_rows *rows;
        const char *text;
    } report;
    struct {
        struct key_count list[KEY_COUNTS_MAX];
        size_t count;
    } keys;

    TRY_UNTOUCHED_BYTES(report, job_report_text(job_reader, pg, &job, &report.rows, &report.text, err));
    pg_rows_free(report.rows);
    TRY_UNTOUCHED_BYTES(keys, job_count_keys(job_reader, pg, keys.list, &keys.count, err));
    return SUCCESS;
}

static struct result prepare_changes(struct error *err)
{
    const struct resource organisation = {.kind = RESOURCE_ORGANISATION, .name = "beta"};
    struct resource fresh = {
        .kind = RESOURCE_PROJECT, .name = "acme/fresh", .organisation = fixture.organisation, .region = TEST_REGION};
    struct organisation_create first;
    struct project_create second;
    struct upload_begin begun;

    TRY_UNTOUCHED_BYTES(first, organisation_create_prepare(&organisation, "{}", &first, err));
    TRY_UNTOUCHED_BYTES(second, project_create_prepare(fixture.registry, &fresh, "{}", &second, err));
    TRY_UNTOUCHED_BYTES(begun, upload_begin_prepare(fixture.registry, &where, &fixture.principal, DIGEST_SHA256, &begun, err));
    return SUCCESS;
}

static struct result tidy_up(struct error *err)
{
    size_t count;

    TRY_UNTOUCHED_BYTES(count, registry_end_expired(fixture.registry, fixture.stack->pg, &count, err));
    TRY_UNTOUCHED_BYTES(count, registry_clean_up(fixture.registry, fixture.stack->pg, &count, err));
    return SUCCESS;
}

static const struct look_row {
    const char *name;
    struct result (*run)(struct error *err);
    unsigned least;
} look_rows[] = {
    {"names", list_names, 15},
    {"quotas", look_at_quotas, 13},
    {"jobs", look_at_jobs, 12},
    {"reports", look_at_reports, 7},
    {"changes are prepared", prepare_changes, 5},
    {"what expired is ended", tidy_up, 18},
};

static void each_failure_is_said_and_gives_nothing(void **state)
{
    const struct look_row *row = *state;
    unsigned long nth = 1, failures = 0;

    for (bool has_fired = true; has_fired; nth++) {
        struct error problem = {ERROR_NONE, ""};
        fault_arm(nth);
        const bool ok = row->run(&problem).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        if (pg_is_broken(fixture.stack->pg)) MUST(pg_reopen(fixture.stack->pg, &err));
        if (!ok && !has_fired) fail_msg("%s", problem.message);
        if (!ok) assert_true(problem.kind != ERROR_NONE && problem.message[0] != '\0');
        failures += !ok; /* a connection to keyd that breaks is made once more */
    }
    assert_failures(failures, row->least);
}

static int set_up(void **state)
{
    char digest[DIGEST_TEXT_SIZE];
    struct pushed manifest;

    (void)fixture_set_up(state);
    everything = (struct resource){.kind = RESOURCE_SYSTEM};
    where = fixture_repository(&fixture.models, "looks");
    project = where;
    project.kind = RESOURCE_PROJECT;
    fixture_push(&where, 1, SMALL, digest);
    collect_write_image(&manifest, digest, NULL, 1);
    MUST(collect_push_manifest(&where, "kept", &manifest, &err));
    job = begin(&(struct job){.kind = JOB_COLLECTION});
    work(JOB_COLLECTION);
    job_reader = stack_permit(fixture.stack, ACTION_JOB_READ, &everything);
    project_reader = stack_permit(fixture.stack, ACTION_PROJECT_READ, &project);
    lister = stack_permit(fixture.stack, ACTION_PROJECT_LIST, &everything);
    tag_lister = stack_permit(fixture.stack, ACTION_TAG_LIST, &where);
    cataloguer = stack_permit(fixture.stack, ACTION_CATALOG_LIST, &everything);
    return 0;
}

static int tear_down(void **state)
{
    struct permit *const all[] = {job_reader, project_reader, lister, tag_lister, cataloguer};

    for (size_t i = 0; i < COUNT(all); i++) permit_free(all[i]);
    return fixture_tear_down(state);
}

int main(void)
{
    struct CMUnitTest tests[COUNT(look_rows)];

    for (size_t i = 0; i < COUNT(look_rows); i++)
        tests[i] = (struct CMUnitTest){.name = look_rows[i].name,
                                       .test_func = each_failure_is_said_and_gives_nothing,
                                       .initial_state = (void *)(uintptr_t)&look_rows[i]};
    return _cmocka_run_group_tests("looks that fail", tests, COUNT(tests), set_up, tear_down);
}
