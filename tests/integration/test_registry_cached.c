/* Pulls that need no connection of their own: the row comes with their record, and bytes from memory. */
#include "tests/integration/registry_fixture.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"

/* What a read of `digest` finds in the transaction of its own record. */
static struct blob_search search_for(enum action action, const struct resource *where, const char *digest)
{
    struct blob_search search;

    blob_search_prepare(fixture.registry, action, where, digest, &search);
    MUST(fixture_change(action, where, &search.change, &err));
    assert_int_not_equal(search.found, BLOB_SEARCH_OPEN);
    return search;
}

static struct blob_query query_of(const struct blob_search *search)
{
    return (struct blob_query){.action = search->action, .where = &search->where, .digest = search->digest, .search = search};
}

/* Without a connection: a query would crash. */
static bool is_there(enum action action, const struct resource *where, const char *digest)
{
    OWNED(permit) *permit = stack_permit(fixture.stack, action, where);
    const struct blob_search search = search_for(action, where, digest);
    const struct blob_query query = query_of(&search);
    OWNED(stored_blob) *blob = NULL;
    struct error problem = {0};

    const struct result found = stored_blob_find(permit, fixture.registry, NULL, &query, &blob, &problem);
    if (!found.ok) assert_int_equal(problem.kind, ERROR_NOT_FOUND);
    return found.ok;
}

static bool is_recalled(struct registry *registry, enum action action, const struct resource *where, const char *digest)
{
    OWNED(permit) *permit = stack_permit(fixture.stack, action, where);
    const struct blob_search search = search_for(action, where, digest);
    const struct blob_query query = query_of(&search);
    OWNED(stored_blob) *blob = NULL;

    return stored_blob_open_cached(permit, registry, &query, &blob);
}

static void a_row_comes_with_the_record(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "recall"),
                    other = fixture_repository(&fixture.models, "elsewhere");
    char digest[DIGEST_TEXT_SIZE], another[DIGEST_TEXT_SIZE];
    struct blob_unlink unlink;

    (void)state;
    fixture_push(&where, 41, ARTIFACTS, digest);
    fixture_push(&other, 42, 10, another);
    assert_true(is_there(ACTION_BLOB_READ, &where, digest));
    assert_true(is_there(ACTION_BLOB_STAT, &where, digest));
    assert_false(is_there(ACTION_BLOB_READ, &other, digest));
    assert_false(is_there(ACTION_BLOB_READ, &where, another));
    blob_unlink_prepare(&where, digest, &unlink);
    MUST(fixture_change(ACTION_BLOB_DELETE, &where, &unlink.change, &err));
    assert_false(is_there(ACTION_BLOB_READ, &where, digest));
    assert_false(is_recalled(fixture.registry, ACTION_BLOB_READ, &where, digest));
}

/* Not every file system of the tests can read from memory alone. */
static bool reads_at_once(const char *digest)
{
    char path[256];
    uint8_t byte = 0;
    OWNED_FD file = -1;

    fixture_path_of(digest, path);
    return file_open_cached(AT_FDCWD, path, &file) && file_read_at(file, &byte, 1, 0, &(struct error){0}).ok &&
           file_read_cached(file, &byte, 1, 0);
}

static void what_is_in_memory_is_recalled(void **state)
{
    static uint8_t read[4 * BLOB_RECORD_PLAIN];
    struct resource where = fixture_repository(&fixture.models, "memory");
    char digest[DIGEST_TEXT_SIZE];
    OWNED(stored_blob) *blob = NULL;

    (void)state;
    fixture_push(&where, 43, ARTIFACTS, digest);
    if (!reads_at_once(digest)) skip();
    uint8_t *content = fixture_content(43, ARTIFACTS, digest);
    OWNED(permit) *permit = stack_permit(fixture.stack, ACTION_BLOB_READ, &where);
    const struct blob_search search = search_for(ACTION_BLOB_READ, &where, digest);
    const struct blob_query query = query_of(&search);
    assert_true(stored_blob_open_cached(permit, fixture.registry, &query, &blob));
    assert_int_equal(stored_blob_size(blob), ARTIFACTS);
    assert_true(stored_blob_read_cached(blob, 0, read, sizeof read));
    assert_memory_equal(read, content, sizeof read);
    free(content);
}

/* Another gateway has not unwrapped the key yet: it does that first, and then reads from its cache. */
static void what_another_gateway_pushed_is_read_before_it_is_recalled(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "second");
    char digest[DIGEST_TEXT_SIZE];
    struct registry *second = fixture_second_gateway();
    OWNED(stored_blob) *blob = NULL;

    (void)state;
    fixture_push(&where, 44, ARTIFACTS, digest);
    OWNED(permit) *permit = stack_permit(fixture.stack, ACTION_BLOB_READ, &where);
    const struct blob_search search = search_for(ACTION_BLOB_READ, &where, digest);
    const struct blob_query query = query_of(&search);
    assert_false(is_recalled(second, ACTION_BLOB_READ, &where, digest));
    MUST(stored_blob_find(permit, second, NULL, &query, &blob, &err));
    MUST(stored_blob_open(blob, &err));
    assert_int_equal(is_recalled(second, ACTION_BLOB_READ, &where, digest), reads_at_once(digest));
    stored_blob_free(GIVE(blob));
    registry_free(second);
}

/* A mark by another gateway is in the row that the next read gets with its record. */
static void what_is_damaged_is_not_recalled(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "spoilt");
    char digest[DIGEST_TEXT_SIZE], other[DIGEST_TEXT_SIZE];

    (void)state;
    fixture_push(&where, 45, ARTIFACTS, digest);
    fixture_push(&where, 46, ARTIFACTS, other);
    fixture_damage(other, 10); /* the header */
    assert_false(is_recalled(fixture.registry, ACTION_BLOB_READ, &where, other));
    assert_true(is_recalled(fixture.registry, ACTION_BLOB_STAT, &where, digest));
    (void)ask("UPDATE blob SET damaged_at = now() RETURNING 1");
    assert_false(is_recalled(fixture.registry, ACTION_BLOB_READ, &where, digest));
    assert_false(is_recalled(fixture.registry, ACTION_BLOB_STAT, &where, digest));
    (void)ask("UPDATE blob SET damaged_at = NULL, lease_until = now() RETURNING 1");
    assert_false(is_recalled(fixture.registry, ACTION_BLOB_STAT, &where, digest)); /* it is to be renewed first */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_comes_with_the_record),
        cmocka_unit_test(what_is_in_memory_is_recalled),
        cmocka_unit_test(what_another_gateway_pushed_is_read_before_it_is_recalled),
        cmocka_unit_test(what_is_damaged_is_not_recalled),
    };
    return cmocka_run_group_tests_name("recall", tests, fixture_set_up, fixture_tear_down);
}
