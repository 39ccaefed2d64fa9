/* The limit of tags of a manifest, and manifests that have more: the work under the log's lock stays small. */
#include "tests/integration/collect_fixture.h"

#include "registry/project_rules.h"

static char config[DIGEST_TEXT_SIZE];

static struct resource place(const char *name, struct pushed *pushed)
{
    struct resource where = fixture_repository(&fixture.models, name);

    fixture_push(&where, 9000, SMALL, config);
    collect_write_image(pushed, config, NULL, 1);
    MUST(collect_push_manifest(&where, "first", pushed, &err));
    return fixture_repository(&fixture.models, name);
}

/* More tags, past the registry. */
static void add_tags(const struct resource *where, int from, int to)
{
    char id[UUID_TEXT_SIZE], sql[400];

    uuid_format(&where->repository, id);
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO tag (repository_id, name, manifest_digest) SELECT m.repository_id, 't' || i, m.digest"
                   " FROM manifest m, generate_series(%d, %d) AS i WHERE m.repository_id = '%s'",
                   from, to, id);
    execute(sql);
}

static const char *count_of(const char *table, const struct resource *where)
{
    char id[UUID_TEXT_SIZE], sql[200];

    uuid_format(&where->repository, id);
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM %s WHERE repository_id = '%s'", table, id);
    return ask(sql);
}

static struct result delete_manifest(const struct resource *where, const struct pushed *pushed, struct error *err)
{
    struct manifest_delete deletion;

    manifest_delete_prepare(where, pushed->digest, &(struct policy_retention){.days = 0}, &deletion);
    return fixture_change(ACTION_MANIFEST_DELETE, where, &deletion.change, err);
}

static void delete_tag(const struct resource *where, const char *name)
{
    struct tag_delete deletion;

    tag_delete_prepare(where, name, &deletion);
    MUST(fixture_change(ACTION_TAG_DELETE, where, &deletion.change, &err));
}

static void a_manifest_has_a_largest_number_of_tags(void **state)
{
    struct pushed pushed, other;
    struct resource where = place("many", &pushed);

    (void)state;
    add_tags(&where, 1, MANIFEST_ALL_TAGS_MAX - 2);
    MUST(collect_push_manifest(&where, "last", &pushed, &err));
    assert_string_equal(count_of("tag", &where), "4096");
    struct error problem = {0};
    assert_false(collect_push_manifest(&where, "beyond", &pushed, &problem).ok);
    assert_int_equal(problem.kind, ERROR_DENIED);
    assert_non_null(strstr(problem.message, "has as many tags as one manifest may, 4096: delete some of them first"));
    MUST(collect_push_manifest(&where, "last", &pushed, &err)); /* one that it has */
    MUST(collect_push_manifest(&where, NULL, &pushed, &err));
    collect_write_image(&other, config, NULL, 2);
    MUST(collect_push_manifest(&where, "elsewhere", &other, &err));
    MUST_FAIL(ERROR_DENIED, collect_push_manifest(&where, "elsewhere", &pushed, &err)); /* moved here it would be one more */
    delete_tag(&where, "t1");
    MUST(collect_push_manifest(&where, "elsewhere", &pushed, &err));
    MUST(delete_manifest(&where, &pushed, &err));
    assert_string_equal(count_of("tag", &where), "0");
}

static void one_with_more_tags_is_not_deleted_at_once(void **state)
{
    struct pushed pushed;
    struct resource where = place("more", &pushed);
    struct error problem = {0};

    (void)state;
    add_tags(&where, 1, MANIFEST_ALL_TAGS_MAX);
    assert_false(delete_manifest(&where, &pushed, &problem).ok);
    assert_int_equal(problem.kind, ERROR_CONFLICT);
    assert_string_equal(problem.message, "it has more than 4096 tags, and all go at once: delete some of them first");
    MUST(collect_push_manifest(&where, "first", &pushed, &err));
    delete_tag(&where, "t1");
    collect_set_rules(
        "{\"immutable\":[{\"repositories\":\"other\",\"tags\":\"*\"},{\"repositories\":\"mo?e\",\"tags\":\"*77\"}]}");
    MUST_FAIL(ERROR_DENIED, delete_manifest(&where, &pushed, &err));
    collect_set_rules(
        "{\"immutable\":[{\"repositories\":\"other\",\"tags\":\"*\"},{\"repositories\":\"more\",\"tags\":\"x*\"}]}");
    MUST(delete_manifest(&where, &pushed, &err));
    collect_set_rules("{}");
}

static void the_collection_keeps_one_with_more_tags_and_says_so(void **state)
{
    struct pushed pushed;
    struct resource where = place("kept", &pushed);

    (void)state;
    add_tags(&where, 1, MANIFEST_ALL_TAGS_MAX);
    collect_end_leases();
    collect_set_rules("{\"retention\":[{\"repositories\":\"kept\",\"tags\":\"none\"}]}");
    assert_string_equal(collect_all(true, "manifests"), "0");
    assert_string_equal(collect_told("is_whole"), "false");
    assert_string_equal(collect_all(false, "manifests"), "0");
    delete_tag(&where, "t1");
    collect_set_rules(
        "{\"retention\":[{\"repositories\":\"kept\",\"tags\":\"none\"}],\"immutable\":[{\"repositories\":\"kept\",\"tags\":\"t4096\"}]}");
    assert_string_equal(collect_all(false, "manifests"), "0");
    collect_set_rules("{\"retention\":[{\"repositories\":\"kept\",\"tags\":\"none\"}]}");
    assert_string_equal(collect_all(false, "manifests"), "1");
    assert_string_equal(count_of("tag", &where), "0");
    collect_set_rules("{}");
}

/*
 * The content of a deleted repository: tags are removed before their manifest, so that only the manifest is removed under the
 * log's lock.
 */
static void tags_of_what_was_deleted_go_in_steps(void **state)
{
    struct pushed pushed;
    struct resource where = place("erased", &pushed);
    char id[UUID_TEXT_SIZE], sql[200];

    (void)state;
    add_tags(&where, 1, 2 * MANIFEST_ALL_TAGS_MAX);
    uuid_format(&where.repository, id);
    (void)snprintf(sql, sizeof sql, "SELECT bury_repository('%s')", id);
    execute(sql);
    execute(
        "CREATE FUNCTION is_alone() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN IF (SELECT count(*) FROM tags_gone) > 1000 THEN"
        " RAISE 'too many tags at once'; END IF; RETURN NULL; END$$;"
        "CREATE TRIGGER is_alone AFTER DELETE ON tag REFERENCING OLD TABLE AS tags_gone FOR EACH STATEMENT EXECUTE FUNCTION is_alone()");
    assert_string_equal(collect_all(false, "manifests"), "1");
    assert_string_equal(collect_told("tags"), "8193");
    execute("DROP TRIGGER is_alone ON tag");
    assert_string_equal(count_of("tag", &where), "0");
    assert_string_equal(count_of("manifest", &where), "0");
}

/* Older versions kept a manifest without a "mediaType" under Docker's type. */
static void make_it_dockers(const struct pushed *pushed)
{
    char sql[300];

    (void)snprintf(sql, sizeof sql, "UPDATE manifest SET media_type = '" MEDIA_TYPE_DOCKER "' WHERE digest = '%s'",
                   pushed->digest);
    execute(sql);
}

static void its_type_stays(const struct resource *where, struct pushed *pushed, const char *why)
{
    static const char *const tags[] = {"first", "another", NULL};

    for (size_t i = 0; i < COUNT(tags); i++) {
        struct error problem = {0};
        assert_false(collect_push_manifest(where, tags[i], pushed, &problem).ok);
        assert_int_equal(problem.kind, ERROR_DENIED);
        if (strstr(problem.message, why) == NULL) fail_msg("%s", problem.message);
    }
}

/* Clients refuse a child whose type is not that of its index (oras) or do not find it (crane); nor may a fixed tag answer something
 * else. */
static void a_type_stays_where_an_index_or_a_fixed_tag_names_it(void **state)
{
    struct pushed pushed, index;
    struct resource where = place("typed", &pushed);

    (void)state;
    make_it_dockers(&pushed);
    collect_set_rules("{\"immutable\":[{\"repositories\":\"typed\",\"tags\":\"f*\"}]}");
    its_type_stays(&where, &pushed, "make its tag first immutable");
    collect_set_rules("{}");
    MUST(collect_push_manifest(&where, "first", &pushed, &err));
    assert_string_equal(ask("SELECT count(*) FROM manifest WHERE media_type = '" MEDIA_TYPE_DOCKER "'"), "0");
    collect_write_index(&index, &pushed);
    MUST(collect_push_manifest(&where, "all", &index, &err));
    make_it_dockers(&pushed);
    its_type_stays(&where, &pushed, "lists it with its type");
    MUST_FAIL(ERROR_INVALID, collect_push_manifest(&where, "all", &index, &err)); /* its child is not what it says */
    MUST(delete_manifest(&where, &index, &err));
    MUST(collect_push_manifest(&where, "first", &pushed, &err));
    assert_string_equal(ask("SELECT count(*) FROM manifest WHERE media_type = '" MEDIA_TYPE_DOCKER "'"), "0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_type_stays_where_an_index_or_a_fixed_tag_names_it),
        cmocka_unit_test(a_manifest_has_a_largest_number_of_tags),
        cmocka_unit_test(one_with_more_tags_is_not_deleted_at_once),
        cmocka_unit_test(the_collection_keeps_one_with_more_tags_and_says_so),
        cmocka_unit_test(tags_of_what_was_deleted_go_in_steps),
    };

    return cmocka_run_group_tests_name("registry tags", tests, fixture_set_up, fixture_tear_down);
}
