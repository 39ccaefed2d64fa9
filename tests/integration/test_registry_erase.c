/* Deletion of places: exactly the counted content is deleted, and no client waits during the count. */
#include "tests/integration/collect_fixture.h"

#include <pthread.h>
#include <unistd.h>

#include "registry/jobs/erase.h"

/* "acme/NAME" of its own, with a repository, and a tag in it. */
struct erase_place {
    struct resource project, repository;
    struct pushed pushed;
};

static struct erase_place place_new(const char *name)
{
    struct erase_place place = {
        .project = {.kind = RESOURCE_PROJECT, .organisation = fixture.organisation, .region = TEST_REGION}};
    struct project_create change;
    char config[DIGEST_TEXT_SIZE];

    (void)snprintf(place.project.name, sizeof place.project.name, "acme/%s", name);
    MUST(project_create_prepare(fixture.registry, &place.project, "{}", &change, &err));
    MUST(fixture_change(ACTION_PROJECT_CREATE, &place.project, &change.change, &err));
    place.project.project = change.project;
    place.repository = (struct resource){
        .kind = RESOURCE_REPOSITORY, .organisation = fixture.organisation, .project = change.project, .region = TEST_REGION};
    (void)snprintf(place.repository.name, sizeof place.repository.name, "acme/%s/digits", name);
    fixture_push(&place.repository, 700, SMALL, config);
    collect_write_image(&place.pushed, config, NULL, 1);
    MUST(collect_push_manifest(&place.repository, "v1", &place.pushed, &err));
    return place;
}

static struct erase_view view_of(const struct resource *where)
{
    return (struct erase_view){.action = erase_action(where->kind), .where = where};
}

static struct erase_counts count(const struct resource *where)
{
    OWNED(permit) *permit = stack_permit(fixture.stack, erase_action(where->kind), where);
    const struct erase_view view = view_of(where);
    struct erase_counts counts;

    MUST(erase_count(permit, fixture.stack->pg, &view, &counts, &err));
    return counts;
}

static uint64_t epoch_now(void)
{
    return strtoull(ask("SELECT epoch FROM authorization_epoch"), NULL, 10);
}

static struct result erase(const struct resource *where, const struct erase_counts *counts, uint64_t epoch, struct error *err)
{
    struct erase change;

    erase_prepare(where, counts, epoch, &change);
    return fixture_change(erase_action(where->kind), where, &change.change, err);
}

static void what_is_deleted_is_what_was_counted(void **state)
{
    struct erase_place place = place_new("seen");
    const uint64_t epoch = epoch_now();
    struct resource where = place.repository;
    struct erase_counts counts = count(&place.project);

    (void)state;
    assert_int_equal(counts.tags, 1);
    MUST(collect_push_manifest(&where, "v2", &place.pushed, &err)); /* the same manifest: a tag more */
    MUST_FAIL(ERROR_CONFLICT, erase(&place.project, &counts, epoch, &err));
    counts = count(&place.repository);
    assert_int_equal(counts.tags, 2);
    (void)fixture_begin(&where);
    MUST_FAIL(ERROR_CONFLICT, erase(&place.repository, &counts, epoch, &err));
    counts = count(&place.project);
    assert_int_equal(counts.uploads, 1);
    MUST(erase(&place.project, &counts, epoch, &err));
    assert_string_equal(ask("SELECT count(*) FROM upload JOIN project USING (project_id) WHERE deleted_name = 'acme/seen'"), "0");
}

static void reads_and_other_places_do_not_stand_in_the_way(void **state)
{
    struct erase_place place = place_new("read"), other = place_new("reader");
    const struct erase_counts counts = count(&place.project);
    struct resource elsewhere = other.repository;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        OWNED(permit) *read = stack_permit(fixture.stack, ACTION_MANIFEST_READ, &place.repository);
        OWNED(permit) *plan = stack_permit(fixture.stack, ACTION_DELETION_PLAN, &place.project);
    }
    MUST(collect_push_manifest(&elsewhere, "v2", &other.pushed, &err));
    MUST(erase(&place.project, &counts, epoch_now(), &err));
}

/* More events than the change may check: the earlier ones are checked without the lock. */
static void what_was_read_meanwhile_is_caught_up_with(void **state)
{
    struct erase_place place = place_new("busy");
    OWNED(permit) *permit = stack_permit(fixture.stack, ACTION_PROJECT_DELETE, &place.project);
    const struct erase_view view = view_of(&place.project);
    struct erase_counts counts = count(&place.project), late = counts;
    struct resource where = place.repository;

    (void)state;
    for (unsigned i = 0; i < ERASE_EVENTS_MAX; i++)
        permit_free(stack_permit(fixture.stack, ACTION_MANIFEST_READ, &place.repository));
    MUST_FAIL(ERROR_CONFLICT, erase(&place.project, &late, epoch_now(), &err));
    counts = count(&place.project);
    for (unsigned i = 0; i < 10; i++) permit_free(stack_permit(fixture.stack, ACTION_MANIFEST_READ, &place.repository));
    late = counts;
    MUST(erase_catch_up(permit, fixture.stack->pg, &view, &counts, &err));
    assert_true(counts.seen >= late.seen + 10);
    MUST(collect_push_manifest(&where, "v2", &place.pushed, &err));
    MUST_FAIL(ERROR_CONFLICT, erase_catch_up(permit, fixture.stack->pg, &view, &counts, &err));
    counts = count(&place.project);
    MUST(erase_catch_up(permit, fixture.stack->pg, &view, &counts, &err));
    MUST(erase(&place.project, &counts, epoch_now(), &err));
}

/* With any number of tags and blobs, the change reads none of them while it holds the log's lock. */
static void the_change_reads_nothing_of_what_it_deletes(void **state)
{
    struct erase_place place = place_new("large");
    struct erase_counts counts;

    (void)state;
    execute("INSERT INTO tag (repository_id, name, manifest_digest) SELECT r.repository_id, 't' || i, m.digest FROM repository r"
            " JOIN manifest m USING (repository_id), generate_series(1, 3000) AS i WHERE r.full_name = 'acme/large/digits'");
    counts = count(&place.project);
    assert_int_equal(counts.tags, 3001);
    execute("REVOKE SELECT ON tag, manifest, manifest_reference, repository_blob, blob FROM sijil_app");
    struct error err = {0};
    const struct result erased = erase(&place.project, &counts, epoch_now(), &err);
    execute("GRANT SELECT ON tag, manifest, manifest_reference, repository_blob, blob TO sijil_app");
    if (!erased.ok) fail_msg("%s", err.message);
}

struct push_later {
    struct erase_place *place;
    bool is_done;
};

static void *push_later(void *argument)
{
    struct push_later *later = argument;
    struct resource where = later->place->repository;
    struct error err = {0};

    later->is_done = collect_push_manifest(&where, "late", &later->place->pushed, &err).ok;
    return NULL;
}

static void *read_later(void *argument)
{
    permit_free(stack_permit(fixture.stack, ACTION_MANIFEST_READ, argument));
    return NULL;
}

struct erase_later {
    struct erase_place *place;
    struct erase_counts counts;
    uint64_t epoch;
    struct result result;
    struct error error;
};

static void *erase_later(void *argument)
{
    struct erase_later *later = argument;

    later->result = erase(&later->place->project, &later->counts, later->epoch, &later->error);
    return NULL;
}

/*
 * A push that waits together with the deletion has no event yet when the deletion checks the log. So the push goes into an
 * earlier group.
 */
static void a_push_that_waits_with_the_deletion_is_seen(void **state)
{
    struct erase_place place = place_new("together");
    struct push_later push = {.place = &place};
    struct erase_later late = {.place = &place, .counts = count(&place.project), .epoch = epoch_now()};
    void *(*const steps[])(void *) = {read_later, push_later, erase_later};
    void *const arguments[] = {&place.repository, &push, &late};
    pthread_t threads[COUNT(steps)];

    (void)state;
    execute("SELECT pg_advisory_lock(7307, 2)"); /* the read waits there, and the other two for the next group */
    for (size_t i = 0; i < COUNT(steps); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, steps[i], arguments[i]), 0);
        (void)usleep(300000);
    }
    execute("SELECT pg_advisory_unlock(7307, 2)");
    for (size_t i = 0; i < COUNT(steps); i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(push.is_done);
    assert_false(late.result.ok);
    assert_int_equal(late.error.kind, ERROR_CONFLICT);
}

static void more_rights_than_end_at_once_are_refused(void **state)
{
    struct erase_place place = place_new("rights");
    OWNED(permit) *permit = stack_permit(fixture.stack, ACTION_PROJECT_DELETE, &place.project);
    const struct erase_view view = view_of(&place.project);
    struct erase_counts counts;

    (void)state;
    execute("INSERT INTO binding (binding_id, issuer, subject, role, organisation_id, project_id, granted_by)"
            " SELECT gen_random_uuid(), 'https://idp.example', 's' || i, 'consumer', organisation_id, project_id, 'a test'"
            " FROM project, generate_series(1, 1000) AS i WHERE name = 'rights'");
    MUST(erase_count(permit, fixture.stack->pg, &view, &counts, &err));
    assert_int_equal(counts.bindings, ERASE_RIGHTS_MAX);
    struct resource repository = place.repository;
    (void)fixture_begin(&repository);
    MUST_FAIL(ERROR_LIMIT, erase_count(permit, fixture.stack->pg, &view, &counts, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_deleted_is_what_was_counted),
        cmocka_unit_test(reads_and_other_places_do_not_stand_in_the_way),
        cmocka_unit_test(what_was_read_meanwhile_is_caught_up_with),
        cmocka_unit_test(the_change_reads_nothing_of_what_it_deletes),
        cmocka_unit_test(a_push_that_waits_with_the_deletion_is_seen),
        cmocka_unit_test(more_rights_than_end_at_once_are_refused),
    };

    return cmocka_run_group_tests_name("erase", tests, fixture_set_up, fixture_tear_down);
}
