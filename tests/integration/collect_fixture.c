#include "tests/integration/collect_fixture.h"

#include "registry/jobs/clean_up.h"
#include "registry/jobs/job.h"
#include "registry/jobs/maintenance.h"
#include "registry/project_rules.h"
#include "registry/rules.h"

/* The count in the row of a project with a quota is the sum over its content. */
void collect_count_is_exact(void)
{
    assert_string_equal(ask("SELECT count(*) FROM project_quota q WHERE bytes_used <>"
                            " (SELECT coalesce(sum(size_bytes), 0) FROM blob b WHERE b.project_id = q.project_id)"
                            " + (SELECT coalesce(sum(m.size_bytes), 0) FROM manifest m JOIN repository r USING (repository_id)"
                            "    WHERE r.project_id = q.project_id)"
                            " + (SELECT coalesce(sum(reserved_bytes), 0) FROM upload u WHERE u.project_id = q.project_id)"
                            " + (SELECT coalesce(sum(reserved_bytes), 0) FROM run_log l WHERE l.project_id = q.project_id)"),
                        "0");
}

/* ---- a run, and what is done in between ---- */

static bool between_steps(void *context)
{
    struct between *between = context;

    if (between->act != NULL && ++between->step == between->due) between->act(between->context);
    return false;
}

static struct result request(const struct resource *where, bool is_dry_run, const char *rules, struct error *err)
{
    const struct job job = {.kind = JOB_COLLECTION, .id = uuid_random(), .is_dry_run = is_dry_run};
    struct job_begin change;

    job_begin_prepare(where, &job, &change);
    change.rules = rules;
    return fixture_change(ACTION_STORAGE_COLLECT, where, &change.change, err);
}

struct result collect_request_run(bool is_dry_run, const char *rules, struct error *err)
{
    struct resource where = fixture_repository(&fixture.models, "any");

    where.kind = RESOURCE_PROJECT;
    where.repository = (struct uuid){0};
    (void)snprintf(where.name, sizeof where.name, "acme/models");
    return request(&where, is_dry_run, rules, err);
}

struct result collect_request_all(struct error *err)
{
    const struct resource where = {.kind = RESOURCE_SYSTEM};

    return request(&where, false, NULL, err);
}

struct result collect_work(struct pg *pg, bool (*is_stopping)(void *context), void *context, struct error *err)
{
    const struct job_options options = {
        .kind = JOB_COLLECTION, .instance = "gw1", .is_stopping = is_stopping, .context = context, .kept = 3};
    bool worked = false;

    TRY(registry_work(fixture.registry, pg, &options, &worked, err));
    assert_true(worked);
    return SUCCESS;
}

struct result collect_do_run(struct pg *pg, struct between *between, struct error *err)
{
    return collect_work(pg, between_steps, between, err);
}

const char *collect_all(bool is_dry_run, const char *figure)
{
    struct between nothing = {.act = NULL};

    MUST(collect_request_run(is_dry_run, NULL, &err));
    MUST(collect_do_run(fixture.stack->pg, &nothing, &err));
    return collect_told(figure);
}

const char *collect_told(const char *figure)
{
    char sql[160];

    (void)snprintf(sql, sizeof sql,
                   "SELECT outcome || ' ' || (report::jsonb->>'%s') FROM job WHERE kind = 'collection'"
                   " ORDER BY number DESC LIMIT 1",
                   figure);
    const char *told = ask(sql);
    if (strncmp(told, "completed ", 10) != 0) fail_msg("%s: %s", figure, told);
    return told + 10;
}

void collect_end_leases(void)
{
    execute("UPDATE blob SET lease_until = now() - interval '1 second'");
    execute("UPDATE manifest SET renewed_at = '2020-01-01'");
}

/* ---- manifests ---- */

struct result collect_push_manifest(const struct resource *where, const char *tag, struct pushed *pushed, struct error *err)
{
    struct manifest_push push = {.tags = &tag, .tag_count = tag == NULL ? 0 : 1};
    const struct digest digest = digest_of(DIGEST_SHA256, bytes_of_text(pushed->body));
    OWNED(manifest) *manifest = NULL;

    digest_format(&digest, pushed->digest);
    memcpy(push.digest, pushed->digest, sizeof push.digest);
    TRY(manifest_parse(bytes_of_text(pushed->body), (struct bytes){0}, &manifest, err));
    push.manifest = manifest;
    TRY(manifest_push_prepare(fixture.registry, fixture.stack->pg, where, bytes_of_text(pushed->body), &push, err));
    const struct result result = fixture_change(ACTION_MANIFEST_PUSH, where, &push.change, err);
    manifest_push_done(&push);
    return result;
}

void collect_write_image(struct pushed *pushed, const char *config, const char *subject, int mark)
{
    char extra[200] = "";

    if (subject != NULL)
        (void)snprintf(extra, sizeof extra, ",\"subject\":{\"mediaType\":\"" MEDIA_TYPE_IMAGE "\",\"digest\":\"%s\",\"size\":1}",
                       subject);
    (void)snprintf(pushed->body, sizeof pushed->body,
                   "{\"schemaVersion\":2,\"mediaType\":\"" MEDIA_TYPE_IMAGE
                   "\",\"config\":{\"mediaType\":\"a/b\",\"digest\":\"%s\","
                   "\"size\":%d},\"layers\":[]%s,\"annotations\":{\"mark\":\"%d\"}}",
                   config, SMALL, extra, mark);
}

void collect_write_index(struct pushed *pushed, const struct pushed *child)
{
    (void)snprintf(pushed->body, sizeof pushed->body,
                   "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"" MEDIA_TYPE_IMAGE
                   "\",\"digest\":\"%s\",\"size\":%zu}]}",
                   child->digest, strlen(child->body));
}

bool collect_is_told_of(const struct resource *where, const char *digest)
{
    OWNED(permit) *permit = stack_permit(fixture.stack, ACTION_BLOB_STAT, where);
    const struct blob_query query = {.action = ACTION_BLOB_STAT, .where = where, .digest = digest};
    OWNED(stored_blob) *blob = NULL;
    struct error err = {0};

    const bool found = stored_blob_find(permit, fixture.registry, fixture.stack->pg, &query, &blob, &err).ok;
    if (!found) assert_int_equal(err.kind, ERROR_NOT_FOUND);
    return found;
}

void collect_clean_up_all(void)
{
    size_t count = 1;

    execute("UPDATE abandoned_object SET abandoned_at = now()");
    while (count > 0) MUST(registry_clean_up(fixture.registry, fixture.stack->pg, &count, &err));
}

void collect_set_rules(const char *document)
{
    struct resource where = {
        .kind = RESOURCE_PROJECT, .organisation = fixture.organisation, .project = fixture.models, .name = "acme/models"};
    struct rules_change change;
    OWNED(rules) *rules = NULL;

    MUST(rules_read(bytes_of_text(document), &rules, &err));
    MUST(rules_change_prepare(&where, document, rules, &change, &err));
    MUST(fixture_change(ACTION_PROJECT_RULES, &where, &change.change, &err));
}
