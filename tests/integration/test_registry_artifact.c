/* Blobs, manifests and tags against a real database, key process and folder. */
#include "tests/integration/registry_fixture.h"

#include <dirent.h>

static bool has_blob(const struct resource *where, const char *digest)
{
    OWNED(permit) *permit = NULL;
    struct error err = {0};
    OWNED(stored_blob) *blob = fixture_find_blob(where, digest, &permit, &err);

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

static struct result mount(const struct resource *target, const struct resource *source, const char *digest, struct error *err)
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

static void a_damaged_blob_is_marked_and_healed_by_a_push(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "damaged");
    struct resource target = fixture_repository(&fixture.models, "damaged/target");
    char digest[DIGEST_TEXT_SIZE];

    (void)state;
    fixture_push(&where, 15, ARTIFACTS, digest);
    fixture_damage(digest, 4096 + 65536 + 100);
    const unsigned events = stack_events(fixture.stack, "blob.damaged", "completed");
    fixture_read_damaged(&where, digest);
    fixture_read_damaged(&where, digest);
    assert_int_equal(stack_events(fixture.stack, "blob.damaged", "completed"), events + 1); /* one alarm for one blob */
    MUST_FAIL(ERROR_NOT_FOUND, mount(&target, &where, digest, &err));
    fixture_push(&where, 15, ARTIFACTS, digest);
    fixture_check(&where, 15, ARTIFACTS);
    assert_string_equal(ask("SELECT count(*) FROM blob WHERE damaged_at IS NOT NULL"), "0");
    assert_string_equal(ask("SELECT count(*) FROM abandoned_object"), "0");
}

#define MANIFEST                                                                                                     \
    "{\"schemaVersion\":2,\"mediaType\":\"" MEDIA_TYPE_IMAGE "\",\"artifactType\":\"%s\",\"config\":{\"mediaType\":" \
    "\"application/vnd.oci.empty.v1+json\",\"digest\":\"%s\",\"size\":1},\"layers\":[]%s,"                           \
    "\"annotations\":{\"secret\":\"plaintext-marker\",\"x\":\"%s\"}}"

/* A manifest of one config blob; `extra` comes after its layers. */
struct pushed {
    char digest[DIGEST_TEXT_SIZE], body[1024], missing[DIGEST_TEXT_SIZE];
};

static struct result push_body(const struct resource *where, const char *tag, struct pushed *pushed, struct error *err)
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
    OWNED(permit) *permit = fixture_permit(ACTION_MANIFEST_READ, where);
    const struct manifest_query query = {.action = ACTION_MANIFEST_READ, .where = where, .reference = reference};
    OWNED(stored_manifest) *manifest = NULL;
    struct error err = {0};

    const struct result found = stored_manifest_find(permit, fixture.registry, fixture.stack->pg, &query, &manifest, &err);
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
    execute("SET session_replication_role = replica;"
            "UPDATE manifest m SET sealed = o.sealed FROM manifest o, tag a, tag b, repository r"
            " WHERE r.name = 'tampered' AND a.repository_id = r.repository_id AND a.name = 'a'"
            " AND b.repository_id = r.repository_id AND b.name = 'b' AND m.repository_id = r.repository_id"
            " AND o.repository_id = r.repository_id AND m.digest = a.manifest_digest AND o.digest = b.manifest_digest;"
            "SET session_replication_role = origin");
    OWNED(permit) *permit = fixture_permit(ACTION_MANIFEST_READ, &where);
    const struct manifest_query query = {.action = ACTION_MANIFEST_READ, .where = &where, .reference = "a"};
    MUST_FAIL(ERROR_CORRUPT, stored_manifest_find(permit, fixture.registry, fixture.stack->pg, &query, &manifest, &err));
}

/* Rows of one repository, each with a tag, behind the registry's back. */
#define FILL(like, first, last)                                                                                                \
    "INSERT INTO manifest (repository_id, digest, media_type, size_bytes, key_id, sealed)"                                     \
    " SELECT repository_id, 'sha256:' || lpad(i::text, 64, '0'), media_type, size_bytes, key_id, sealed FROM manifest"         \
    " JOIN tag USING (repository_id), generate_series(" first ", " last ") AS i WHERE name = '" like "';"                      \
    "INSERT INTO tag (repository_id, name, manifest_digest) SELECT m.repository_id, substr(digest, 8), digest FROM manifest m" \
    " JOIN tag USING (repository_id) WHERE name = '" like "' AND digest LIKE 'sha256:00000%';"

/* The planner has no statistics of a repository, as after a crash of the server: its plan must still be good for many tags. */
static void one_manifest_is_read_for_a_tag_of_many(void **state)
{
    struct resource known = fixture_repository(&fixture.models, "known-tags");
    struct resource where = fixture_repository(&fixture.models, "many-tags");
    struct pushed pushed = {0};
    char config[DIGEST_TEXT_SIZE];

    (void)state;
    fixture_push(&known, 27, 1, config);
    fixture_push(&where, 27, 1, config);
    write_manifest(&pushed, config, "", "one of many");
    MUST(push_body(&known, "known", &pushed, &err));
    execute("ALTER TABLE tag SET (autovacuum_enabled = off); ALTER TABLE manifest SET (autovacuum_enabled = off);" FILL(
        "known", "1", "40") "ANALYZE tag; ANALYZE manifest");
    MUST(push_body(&where, "of-many", &pushed, &err));
    execute(FILL("of-many", "1", "8000"));
    check_manifest(&where, "of-many", &pushed); /* or statement_timeout ends it */
    execute("DELETE FROM tag WHERE name LIKE '00000%'; DELETE FROM manifest WHERE digest LIKE 'sha256:00000%'");
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
    OWNED(permit) *permit = fixture_permit(ACTION_TAG_LIST, &where);
    for (size_t at = 0; at < COUNT(sorted);) {
        const struct tag_query query = {.where = &where, .last = last, .limit = 3};
        OWNED(tag_page) *page = NULL;
        MUST(tag_list(permit, fixture.stack->pg, &query, &page, &err));
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
    manifest_delete_prepare(&where, pushed.digest, &(struct policy_retention){.days = 0}, &deletion);
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
    (void)snprintf(index.body, sizeof index.body,
                   "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"%s\",\"digest\":"
                   "\"%s\",\"size\":%zu}]}",
                   MEDIA_TYPE_IMAGE, child.digest, strlen(child.body));
    MUST_FAIL(ERROR_NOT_FOUND, push_body(&where, "all", &index, &err));
    assert_string_equal(index.missing, child.digest);
    MUST(push_body(&where, NULL, &child, &err));
    MUST(push_body(&where, "all", &index, &err));
}

#define SIZED(size) "{\"schemaVersion\":2,\"config\":{\"mediaType\":\"a/b\",\"digest\":\"%s\",\"size\":" #size "},\"layers\":[]}"

/* Clients trust the size in a manifest, and refuse content of another size. */
static void sizes_are_those_of_the_content(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "sizes");
    struct pushed image = {0}, index = {0}, child = {0};
    char config[DIGEST_TEXT_SIZE];

    (void)state;
    fixture_push(&where, 26, 100, config);
    (void)snprintf(image.body, sizeof image.body, SIZED(101), config);
    MUST_FAIL(ERROR_INVALID, push_body(&where, "wrong", &image, &err));
    (void)snprintf(child.body, sizeof child.body, SIZED(100), config);
    MUST(push_body(&where, "right", &child, &err));
    (void)snprintf(index.body, sizeof index.body,
                   "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"" MEDIA_TYPE_IMAGE "\",\"digest\":"
                   "\"%s\",\"size\":%zu}]}",
                   child.digest, strlen(child.body) + 1);
    MUST_FAIL(ERROR_INVALID, push_body(&where, "wrong", &index, &err));
}

static void pages_have_one_referrer_each(const struct permit *permit, struct referrer_query *query, struct referrer_page *page,
                                         size_t count)
{
    char last[DIGEST_TEXT_SIZE] = "";

    /* Page by page: each is one descriptor, because a second one would not fit. */
    query->page_bytes = 1;
    for (size_t i = 0; i < count; i++) {
        buffer_clear(&page->descriptors);
        query->last = last;
        MUST(referrers_list(permit, fixture.registry, fixture.stack->pg, query, page, &err));
        (void)snprintf(last, sizeof last, "%s", page->last);
        assert_int_equal(last[0] == '\0', i == count - 1);
    }
    /* The same if the size of the manifests ends a page. */
    query->page_bytes = 65536;
    query->read_bytes = 1;
    for (size_t i = 0; i < count; i++) {
        buffer_clear(&page->descriptors);
        query->last = i == 0 ? "" : last;
        MUST(referrers_list(permit, fixture.registry, fixture.stack->pg, query, page, &err));
        (void)snprintf(last, sizeof last, "%s", page->last);
        assert_null(strstr(buffer_text(&page->descriptors), "},{\"mediaType\""));
        assert_int_equal(last[0] == '\0', i == count - 1);
    }
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
    (void)snprintf(extra, sizeof extra, ",\"subject\":{\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":1}", MEDIA_TYPE_IMAGE,
                   subject.digest);
    for (size_t i = 0; i < COUNT(referrer); i++) {
        write_manifest(&referrer[i], config, extra, i == 0 ? "r0" : i == 1 ? "r1" : "r2");
        MUST(push_body(&where, NULL, &referrer[i], &err));
    }
    OWNED(permit) *permit = fixture_permit(ACTION_REFERRER_LIST, &where);
    struct referrer_query query = {.where = &where,
                                   .subject = subject.digest,
                                   .artifact_type = "",
                                   .last = "",
                                   .page_bytes = 65536,
                                   .read_bytes = UINT64_MAX};
    MUST(referrers_list(permit, fixture.registry, fixture.stack->pg, &query, &page, &err));
    for (size_t i = 0; i < COUNT(referrer); i++) assert_non_null(strstr(buffer_text(&page.descriptors), referrer[i].digest));
    assert_non_null(strstr(buffer_text(&page.descriptors), "\"x\":\"r1\""));
    assert_string_equal(page.last, "");

    pages_have_one_referrer_each(permit, &query, &page, COUNT(referrer));
    buffer_clear(&page.descriptors);
    query.last = "";
    query.artifact_type = "application/vnd.example.other";
    MUST(referrers_list(permit, fixture.registry, fixture.stack->pg, &query, &page, &err));
    assert_int_equal(page.descriptors.length, 0);
    buffer_done(&page.descriptors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_manifest_is_read_for_a_tag_of_many), /* first: a connection's first plans know the arguments */
        cmocka_unit_test(blobs_are_known_only_where_they_were_pushed),
        cmocka_unit_test(mounts_inside_a_project),
        cmocka_unit_test(a_damaged_blob_is_marked_and_healed_by_a_push),
        cmocka_unit_test(manifests_come_back_as_they_went),
        cmocka_unit_test(a_changed_row_is_found),
        cmocka_unit_test(tags_page_in_byte_order),
        cmocka_unit_test(what_is_deleted_is_gone),
        cmocka_unit_test(an_index_needs_its_manifests),
        cmocka_unit_test(sizes_are_those_of_the_content),
        cmocka_unit_test(lists_what_refers_to_a_manifest),
    };

    return cmocka_run_group_tests_name("artifacts", tests, fixture_set_up, fixture_tear_down);
}
