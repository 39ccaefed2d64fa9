/* Blobs, manifests, tags and labels against a real database, key process and folder. */
#include "tests/integration/registry_fixture.h"

#include <dirent.h>

static struct permit *permit_of(enum action action, const struct resource *where)
{
    return stack_permit(fixture.stack, action, where);
}

/* Finds a blob; the caller frees both. */
static struct stored_blob *find_blob(const struct resource *where, const char *digest, struct permit **permit_out,
                                     struct error *err)
{
    struct stored_blob *blob = NULL;

    *permit_out = permit_of(ACTION_BLOB_READ, where);
    const struct blob_query query = {.permit = *permit_out, .action = ACTION_BLOB_READ, .where = where, .digest = digest};
    return stored_blob_find(fixture.registry, fixture.stack->pg, &query, &blob, err).ok ? blob : NULL;
}

static bool has_blob(const struct resource *where, const char *digest)
{
    OWNED(permit) *permit = NULL;
    struct error err = {0};
    OWNED(stored_blob) *blob = find_blob(where, digest, &permit, &err);

    if (blob == NULL) assert_int_equal(err.kind, ERROR_NOT_FOUND);
    return blob != NULL;
}

static void blobs_are_known_only_where_they_were_pushed(void **state)
{
    struct resource here = fixture_repository(&fixture.models, "private/a");
    struct resource beside = fixture_repository(&fixture.models, "private/b");
    struct resource there = fixture_repository(&fixture.other, "private/a");
    char digest[DIGEST_TEXT_SIZE], ignored[DIGEST_TEXT_SIZE];

    (void)state;
    fixture_push(&here, 10, 5000, digest);
    fixture_push(&beside, 11, 10, ignored);
    fixture_push(&there, 12, 10, ignored);
    assert_true(has_blob(&here, digest));
    assert_false(has_blob(&beside, digest));
    assert_false(has_blob(&there, digest));
    fixture_push(&there, 10, 5000, digest);
    assert_true(has_blob(&there, digest));
    fixture_check(&there, 10, 5000);
    assert_string_equal(ask("SELECT count(*) = count(DISTINCT project_id) FROM blob WHERE size_bytes = 5000"), "t");
    assert_string_equal(ask("SELECT count(*) FROM blob WHERE size_bytes = 5000"), "2");
}

static struct result mount(const struct resource *target, const struct resource *source, const char *digest,
                           struct error *err)
{
    const struct action_pair pairs[2] = {{.action = ACTION_BLOB_MOUNT, .resource = *target},
                                         {.action = ACTION_BLOB_READ, .resource = *source}};
    struct blob_mount change;

    blob_mount_prepare(fixture.registry, target, source, digest, &change);
    return stack_record(fixture.stack, pairs, 2, &change.change, NULL, err);
}

static void mounts_inside_a_project(void **state)
{
    struct resource source = fixture_repository(&fixture.models, "mount/source");
    struct resource target = fixture_repository(&fixture.models, "mount/target");
    struct resource abroad = fixture_repository(&fixture.other, "mount/target");
    char digest[DIGEST_TEXT_SIZE], unknown[DIGEST_TEXT_SIZE];

    (void)state;
    fixture_push(&source, 13, 70000, digest);
    free(fixture_content(14, 10, unknown));
    MUST_FAIL(ERROR_NOT_FOUND, mount(&target, &source, unknown, &err));
    assert_string_equal(ask("SELECT count(*) FROM repository WHERE name = 'mount/target'"), "0");
    MUST(mount(&target, &source, digest, &err));
    target = fixture_repository(&fixture.models, "mount/target");
    fixture_check(&target, 13, 70000);
    MUST(mount(&target, &source, digest, &err)); /* again is fine */
    MUST_FAIL(ERROR_NOT_FOUND, mount(&abroad, &source, digest, &err));
}

/* Changes one byte of the only file with a blob's content. */
static void damage(const char *digest, long offset)
{
    char path[256];

    fixture_path_of(digest, path);
    fixture_flip(path, offset);
}

static void read_damaged(const struct resource *where, const char *digest)
{
    OWNED(permit) *permit = NULL;
    struct error problem = {0};
    uint8_t byte[1];
    OWNED(stored_blob) *blob = find_blob(where, digest, &permit, &problem);

    assert_non_null(blob);
    MUST(stored_blob_open(blob, &err));
    MUST(stored_blob_read(blob, 0, byte, 1, &err)); /* the first record is sound */
    MUST_FAIL(ERROR_CORRUPT, stored_blob_read(blob, 70000, byte, 1, &err));
    assert_true(stored_blob_is_damaged(blob));
}

static void a_damaged_blob_is_marked_and_healed_by_a_push(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "damaged");
    struct resource target = fixture_repository(&fixture.models, "damaged/target");
    char digest[DIGEST_TEXT_SIZE];

    (void)state;
    fixture_push(&where, 15, ARTIFACTS, digest);
    damage(digest, 4096 + 65536 + 100);
    const unsigned events = stack_events(fixture.stack, "blob.damaged", "completed");
    read_damaged(&where, digest);
    read_damaged(&where, digest);
    assert_int_equal(stack_events(fixture.stack, "blob.damaged", "completed"), events + 1); /* one alarm for one blob */
    MUST_FAIL(ERROR_NOT_FOUND, mount(&target, &where, digest, &err));
    fixture_push(&where, 15, ARTIFACTS, digest);
    fixture_check(&where, 15, ARTIFACTS);
    assert_string_equal(ask("SELECT count(*) FROM blob WHERE damaged_at IS NOT NULL"), "0");
    assert_string_equal(ask("SELECT count(*) FROM abandoned_object"), "0");
}

#define MANIFEST                                                                                                   \
    "{\"schemaVersion\":2,\"mediaType\":\"" MEDIA_TYPE_IMAGE "\",\"artifactType\":\"%s\",\"config\":{\"mediaType\":" \
    "\"application/vnd.oci.empty.v1+json\",\"digest\":\"%s\",\"size\":1},\"layers\":[]%s,"                          \
    "\"annotations\":{\"secret\":\"plaintext-marker\",\"x\":\"%s\"}}"

/* A manifest of one config blob; `extra` comes after its layers. */
struct pushed {
    char digest[DIGEST_TEXT_SIZE], body[1024], missing[DIGEST_TEXT_SIZE];
};

static struct result push_body(const struct resource *where, const char *tag, struct pushed *pushed,
                               struct error *err)
{
    struct manifest_push push = {0};
    OWNED(manifest) *manifest = NULL;
    const struct bytes body = bytes_of_text(pushed->body);
    const struct digest digest = digest_of(DIGEST_SHA256, body);

    digest_format(&digest, pushed->digest);
    TRY(manifest_parse(body, (struct bytes){0}, &manifest, err));
    push.manifest = manifest;
    memcpy(push.digest, pushed->digest, sizeof push.digest);
    push.tags = &tag;
    push.tag_count = tag == NULL ? 0 : 1;
    TRY(manifest_push_prepare(fixture.registry, fixture.stack->pg, where, body, &push, err));
    const struct result result = fixture_change(ACTION_MANIFEST_PUSH, where, &push.change, err);
    memcpy(pushed->missing, push.missing, sizeof push.missing);
    manifest_push_done(&push);
    return result;
}

static void write_manifest(struct pushed *pushed, const char *config, const char *extra, const char *mark)
{
    (void)snprintf(pushed->body, sizeof pushed->body, MANIFEST, "application/vnd.example.test", config, extra, mark);
}

static void check_manifest(const struct resource *where, const char *reference, const struct pushed *pushed)
{
    OWNED(permit) *permit = permit_of(ACTION_MANIFEST_READ, where);
    const struct manifest_query query = {.permit = permit, .action = ACTION_MANIFEST_READ, .where = where, .reference = reference};
    OWNED(stored_manifest) *manifest = NULL;
    struct error err = {0};

    const struct result found = stored_manifest_find(fixture.registry, fixture.stack->pg, &query, &manifest, &err);
    assert_int_equal(found.ok, pushed != NULL);
    if (pushed == NULL) {
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
        return;
    }
    assert_string_equal(buffer_text(&manifest->body), pushed->body);
    assert_string_equal(manifest->digest, pushed->digest);
    assert_string_equal(manifest->media_type, MEDIA_TYPE_IMAGE);
}

static void manifests_come_back_as_they_went(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "manifest");
    char config[DIGEST_TEXT_SIZE], unknown[DIGEST_TEXT_SIZE];
    struct pushed one = {0}, two = {0}, dangling = {0};

    (void)state;
    fixture_push(&where, 20, 1, config);
    free(fixture_content(21, 1, unknown));
    write_manifest(&one, config, "", "1");
    write_manifest(&two, config, "", "2");
    write_manifest(&dangling, unknown, "", "3");
    MUST_FAIL(ERROR_NOT_FOUND, push_body(&where, "v1", &dangling, &err));
    assert_string_equal(dangling.missing, unknown);
    check_manifest(&where, "v1", NULL);
    MUST(push_body(&where, "v1", &one, &err));
    MUST(push_body(&where, "v1", &one, &err)); /* again is fine */
    check_manifest(&where, "v1", &one);
    MUST(push_body(&where, NULL, &two, &err));
    check_manifest(&where, "v1", &one);
    MUST(push_body(&where, "v1", &two, &err));
    check_manifest(&where, "v1", &two);
    check_manifest(&where, one.digest, &one);
    assert_string_equal(ask("SELECT count(*) FROM manifest WHERE position('plaintext-marker'::bytea IN sealed) > 0"), "0");
    fixture_restart(); /* with an empty key cache */
    check_manifest(&where, "v1", &two);
}

static void a_changed_row_is_found(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "tampered");
    char config[DIGEST_TEXT_SIZE];
    struct pushed one = {0}, two = {0};
    struct stored_manifest *manifest = NULL;

    (void)state;
    fixture_push(&where, 22, 1, config);
    write_manifest(&one, config, "", "1");
    write_manifest(&two, config, "", "2");
    MUST(push_body(&where, "a", &one, &err));
    MUST(push_body(&where, "b", &two, &err));
    execute("UPDATE manifest m SET sealed = o.sealed FROM manifest o, tag a, tag b, repository r"
                     " WHERE r.name = 'tampered' AND a.repository_id = r.repository_id AND a.name = 'a'"
                     " AND b.repository_id = r.repository_id AND b.name = 'b' AND m.repository_id = r.repository_id"
                     " AND o.repository_id = r.repository_id AND m.digest = a.manifest_digest AND o.digest = b.manifest_digest");
    OWNED(permit) *permit = permit_of(ACTION_MANIFEST_READ, &where);
    const struct manifest_query query = {.permit = permit, .action = ACTION_MANIFEST_READ, .where = &where, .reference = "a"};
    MUST_FAIL(ERROR_CORRUPT, stored_manifest_find(fixture.registry, fixture.stack->pg, &query, &manifest, &err));
}

static void tags_page_in_byte_order(void **state)
{
    static const char *const tags[] = {"b", "a", "B", "a.1", "a-1", "_", "10", "9"};
    static const char *const sorted[] = {"10", "9", "B", "_", "a", "a-1", "a.1", "b"};
    struct resource where = fixture_repository(&fixture.models, "tags");
    char config[DIGEST_TEXT_SIZE], last[TAG_MAX + 1] = "";
    struct pushed pushed = {0};

    (void)state;
    fixture_push(&where, 23, 1, config);
    write_manifest(&pushed, config, "", "1");
    for (size_t i = 0; i < COUNT(tags); i++) MUST(push_body(&where, tags[i], &pushed, &err));
    OWNED(permit) *permit = permit_of(ACTION_TAG_LIST, &where);
    for (size_t at = 0; at < COUNT(sorted);) {
        const struct tag_query query = {.permit = permit, .where = &where, .last = last, .limit = 3};
        OWNED(tag_page) *page = NULL;
        MUST(tag_list(fixture.stack->pg, &query, &page, &err));
        assert_int_equal(page->count, COUNT(sorted) - at < 3 ? COUNT(sorted) - at : 3);
        assert_int_equal(page->has_more, COUNT(sorted) - at > 3);
        for (size_t i = 0; i < page->count; i++) assert_string_equal(page->names[i], sorted[at++]);
        (void)snprintf(last, sizeof last, "%s", page->names[page->count - 1]);
    }
}

static void what_is_deleted_is_gone(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "deleted");
    char config[DIGEST_TEXT_SIZE];
    struct pushed pushed = {0};
    struct tag_delete untag;
    struct manifest_delete deletion;
    struct blob_unlink unlink;

    (void)state;
    fixture_push(&where, 24, 1, config);
    write_manifest(&pushed, config, "", "1");
    MUST(push_body(&where, "a", &pushed, &err));
    MUST(push_body(&where, "b", &pushed, &err));
    blob_unlink_prepare(&where, config, &unlink);
    MUST_FAIL(ERROR_CONFLICT, fixture_change(ACTION_BLOB_DELETE, &where, &unlink.change, &err));
    tag_delete_prepare(&where, "a", &untag);
    MUST(fixture_change(ACTION_TAG_DELETE, &where, &untag.change, &err));
    MUST_FAIL(ERROR_NOT_FOUND, fixture_change(ACTION_TAG_DELETE, &where, &untag.change, &err));
    check_manifest(&where, "a", NULL);
    check_manifest(&where, "b", &pushed);
    manifest_delete_prepare(&where, pushed.digest, &deletion);
    MUST(fixture_change(ACTION_MANIFEST_DELETE, &where, &deletion.change, &err));
    check_manifest(&where, "b", NULL);
    check_manifest(&where, pushed.digest, NULL);
    MUST_FAIL(ERROR_NOT_FOUND, fixture_change(ACTION_MANIFEST_DELETE, &where, &deletion.change, &err));
    MUST(fixture_change(ACTION_BLOB_DELETE, &where, &unlink.change, &err));
    MUST_FAIL(ERROR_NOT_FOUND, fixture_change(ACTION_BLOB_DELETE, &where, &unlink.change, &err));
    assert_false(has_blob(&where, config));
}

static void an_index_needs_its_manifests(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "index");
    char config[DIGEST_TEXT_SIZE];
    struct pushed child = {0}, index = {0};

    (void)state;
    fixture_push(&where, 25, 1, config);
    write_manifest(&child, config, "", "1");
    const struct digest digest = digest_of(DIGEST_SHA256, bytes_of_text(child.body));
    digest_format(&digest, child.digest);
    (void)snprintf(index.body, sizeof index.body, "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"%s\",\"digest\":"
                                                  "\"%s\",\"size\":%zu}]}",
                   MEDIA_TYPE_IMAGE, child.digest, strlen(child.body));
    MUST_FAIL(ERROR_NOT_FOUND, push_body(&where, "all", &index, &err));
    assert_string_equal(index.missing, child.digest);
    MUST(push_body(&where, NULL, &child, &err));
    MUST(push_body(&where, "all", &index, &err));
}

static void lists_what_refers_to_a_manifest(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "referrers");
    struct pushed subject = {0}, referrer[3] = {0};
    char config[DIGEST_TEXT_SIZE], extra[256];
    struct referrer_page page = {.descriptors = BUFFER(65536)};

    (void)state;
    fixture_push(&where, 26, 1, config);
    write_manifest(&subject, config, "", "subject");
    MUST(push_body(&where, NULL, &subject, &err));
    (void)snprintf(extra, sizeof extra, ",\"subject\":{\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":1}",
                   MEDIA_TYPE_IMAGE, subject.digest);
    for (size_t i = 0; i < COUNT(referrer); i++) {
        write_manifest(&referrer[i], config, extra, i == 0 ? "r0" : i == 1 ? "r1" : "r2");
        MUST(push_body(&where, NULL, &referrer[i], &err));
    }
    OWNED(permit) *permit = permit_of(ACTION_REFERRER_LIST, &where);
    struct referrer_query query = {.permit = permit, .where = &where, .subject = subject.digest, .artifact_type = "",
                                   .last = "", .page_bytes = 65536, .read_bytes = UINT64_MAX};
    MUST(referrers_list(fixture.registry, fixture.stack->pg, &query, &page, &err));
    for (size_t i = 0; i < COUNT(referrer); i++) assert_non_null(strstr(buffer_text(&page.descriptors), referrer[i].digest));
    assert_non_null(strstr(buffer_text(&page.descriptors), "\"x\":\"r1\""));
    assert_string_equal(page.last, "");

    /* Page by page: each is one descriptor, because a second one would not fit. */
    query.page_bytes = 1;
    char last[DIGEST_TEXT_SIZE] = "";
    for (size_t i = 0; i < COUNT(referrer); i++) {
        buffer_clear(&page.descriptors);
        query.last = last;
        MUST(referrers_list(fixture.registry, fixture.stack->pg, &query, &page, &err));
        (void)snprintf(last, sizeof last, "%s", page.last);
        assert_int_equal(last[0] == '\0', i == COUNT(referrer) - 1);
    }
    /* The same when it is the reading of manifests that ends a page. */
    query.page_bytes = 65536;
    query.read_bytes = 1;
    for (size_t i = 0; i < COUNT(referrer); i++) {
        buffer_clear(&page.descriptors);
        query.last = i == 0 ? "" : last;
        MUST(referrers_list(fixture.registry, fixture.stack->pg, &query, &page, &err));
        (void)snprintf(last, sizeof last, "%s", page.last);
        assert_null(strstr(buffer_text(&page.descriptors), "},{\"mediaType\""));
        assert_int_equal(last[0] == '\0', i == COUNT(referrer) - 1);
    }
    buffer_clear(&page.descriptors);
    query.last = "";
    query.artifact_type = "application/vnd.example.other";
    MUST(referrers_list(fixture.registry, fixture.stack->pg, &query, &page, &err));
    assert_int_equal(page.descriptors.length, 0);
    buffer_done(&page.descriptors);
}

static struct result label(const struct resource *where, const char *text, struct error *err)
{
    struct label_change change;

    label_change_prepare(where, text, &change);
    return fixture_change(ACTION_PROJECT_LABEL, where, &change.change, err);
}

static void labels_only_rise(void **state)
{
    struct resource where = {.kind = RESOURCE_PROJECT, .organisation = fixture.organisation, .name = "acme/labelled",
                             .region = TEST_REGION};
    struct project_create change;

    (void)state;
    MUST(project_create_prepare(fixture.registry, &where, "{\"class\":\"confidential\"}", &change, &err));
    MUST(fixture_change(ACTION_PROJECT_CREATE, &where, &change.change, &err));
    MUST_FAIL(ERROR_CONFLICT, fixture_change(ACTION_PROJECT_CREATE, &where, &change.change, &err));
    where.project = change.project;
    MUST_FAIL(ERROR_CONFLICT, label(&where, "{\"class\":\"open\"}", &err)); /* nothing was pushed yet */
    MUST_FAIL(ERROR_CONFLICT, label(&where, "{}", &err));
    MUST_FAIL(ERROR_CONFLICT, label(&where, "{\"class\":\"confidential\",\"lineage\":\"attested\"}", &err)); /* it was unknown */
    MUST(label(&where, "{\"class\":\"confidential\",\"lineage\":\"unknown\"}", &err));
    MUST(label(&where, "{\"class\":\"sensitive\",\"subjects\":[\"health\"],\"lineage\":\"unknown\"}", &err));
    MUST_FAIL(ERROR_CONFLICT, label(&where, "{\"class\":\"secret\",\"lineage\":\"unknown\"}", &err)); /* it would forget the subject */
    assert_string_equal(ask("SELECT label->>'class' FROM project WHERE name = 'labelled'"), "sensitive");
    where = (struct resource){.kind = RESOURCE_ORGANISATION, .organisation = fixture.organisation, .name = "acme"};
    MUST(label(&where, "{\"class\":\"confidential\"}", &err));
    MUST_FAIL(ERROR_CONFLICT, label(&where, "{\"class\":\"open\"}", &err));
}

static void projects_need_their_organisation_and_region(void **state)
{
    struct resource where = {.kind = RESOURCE_PROJECT, .organisation = fixture.organisation, .name = "acme/nowhere",
                             .region = "test/nowhere"};
    struct project_create change;

    (void)state;
    MUST(project_create_prepare(fixture.registry, &where, "{}", &change, &err));
    MUST_FAIL(ERROR_NOT_FOUND, fixture_change(ACTION_PROJECT_CREATE, &where, &change.change, &err));
}

static void lists_projects_by_name(void **state)
{
    const struct resource system = {.kind = RESOURCE_SYSTEM};
    OWNED(permit) *permit = permit_of(ACTION_PROJECT_LIST, &system);
    struct scope_query query = {.permit = permit, .where = &system, .projects = true, .limit = 1};
    bool found = false, has_more = true;

    (void)state;
    for (char before[RESOURCE_NAME_MAX + 1] = ""; has_more;) {
        OWNED(scope_page) *page = NULL;
        MUST(scope_list(fixture.stack->pg, &query, &page, &err));
        assert_int_equal(page->count, 1);
        const struct scope_record *record = &page->records[0];
        assert_true(strcmp(before, record->name) < 0);
        (void)snprintf(before, sizeof before, "%s", record->name);
        if (strcmp(record->name, "acme/models") == 0) {
            found = true;
            assert_string_equal(record->region, TEST_REGION);
        }
        query.last = record->id;
        has_more = page->has_more;
    }
    assert_true(found);
}

/* A page has as many as it can of what the reader may see: what is hidden shortens none, and leads to no next one. */
static void hidden_projects_count_in_no_page(void **state)
{
    const struct resource system = {.kind = RESOURCE_SYSTEM};
    OWNED(permit) *permit = permit_of(ACTION_PROJECT_LIST, &system);
    OWNED(scope_page) *all = NULL;
    struct scope_query query = {.permit = permit, .where = &system, .projects = true, .limit = 100};

    (void)state;
    MUST(scope_list(fixture.stack->pg, &query, &all, &err));
    assert_true(all->count > 1);
    const struct uuid last = all->records[all->count - 1].id;
    const struct scope_reader readers[] = {{0}, {.projects = &last, .project_count = 1}};
    for (size_t i = 0; i < COUNT(readers); i++) {
        OWNED(scope_page) *page = NULL;
        query.limit = 1;
        query.reader = &readers[i];
        MUST(scope_list(fixture.stack->pg, &query, &page, &err));
        assert_int_equal(page->count, i);
        assert_false(page->has_more);
        if (i == 1) assert_true(uuid_equal(&page->records[0].id, &last));
    }
}

static void repositories_are_listed_between_names(void **state)
{
    const struct resource system = {.kind = RESOURCE_SYSTEM};
    OWNED(permit) *permit = permit_of(ACTION_CATALOG_LIST, &system);
    struct repository_query query = {
        .permit = permit, .where = &system, .from = "", .until = "~", .last = "", .limit = SCOPE_PAGE_MAX};
    OWNED(repository_page) *all = NULL;
    OWNED(repository_page) *rest = NULL;
    OWNED(repository_page) *first = NULL;

    (void)state;
    MUST(repository_list(fixture.stack->pg, &query, &all, &err));
    assert_true(all->count > 2);
    for (size_t i = 1; i < all->count; i++) assert_true(strcmp(all->names[i - 1], all->names[i]) < 0);
    query.last = all->names[0];
    MUST(repository_list(fixture.stack->pg, &query, &rest, &err));
    assert_int_equal(rest->count, all->count - 1);
    for (size_t i = 0; i < rest->count; i++) assert_string_equal(rest->names[i], all->names[i + 1]);
    query.from = all->names[1];
    query.until = all->names[2];
    MUST(repository_list(fixture.stack->pg, &query, &first, &err));
    assert_int_equal(first->count, 1);
    assert_string_equal(first->names[0], all->names[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blobs_are_known_only_where_they_were_pushed),
        cmocka_unit_test(mounts_inside_a_project),
        cmocka_unit_test(a_damaged_blob_is_marked_and_healed_by_a_push),
        cmocka_unit_test(manifests_come_back_as_they_went),
        cmocka_unit_test(a_changed_row_is_found),
        cmocka_unit_test(tags_page_in_byte_order),
        cmocka_unit_test(what_is_deleted_is_gone),
        cmocka_unit_test(an_index_needs_its_manifests),
        cmocka_unit_test(lists_what_refers_to_a_manifest),
        cmocka_unit_test(labels_only_rise),
        cmocka_unit_test(projects_need_their_organisation_and_region),
        cmocka_unit_test(lists_projects_by_name),
        cmocka_unit_test(hidden_projects_count_in_no_page),
        cmocka_unit_test(repositories_are_listed_between_names),
    };

    return cmocka_run_group_tests_name("artifacts", tests, fixture_set_up, fixture_tear_down);
}
