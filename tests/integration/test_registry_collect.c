/* Garbage collection between the steps of pushes, two collections at a time, and an interrupted one. */
#include "tests/integration/collect_fixture.h"

#include <pthread.h>
#include <unistd.h>

#include "base/text.h"
#include "registry/jobs/job.h"
#include "registry/jobs/statements.h"
#include "registry/stored_blob_store.h"
#include "registry/upload/upload.h"

/* ---- pushes beside ---- */

struct pushing {
    struct resource where, other;
    uint64_t seed;
    char digest[DIGEST_TEXT_SIZE];
    struct pushed manifest;
    bool is_told; /* the client was told that the blob is there */
};

static void look(void *context)
{
    struct pushing *pushing = context;

    pushing->is_told = collect_is_told_of(&pushing->where, pushing->digest);
}

static void push_again(void *context)
{
    struct pushing *pushing = context;

    fixture_push(&pushing->where, pushing->seed, SMALL, pushing->digest);
    pushing->is_told = true;
}

static void mount(void *context)
{
    struct pushing *pushing = context;
    const struct action_pair pairs[2] = {{.action = ACTION_BLOB_MOUNT, .resource = pushing->other},
                                         {.action = ACTION_BLOB_READ, .resource = pushing->where}};
    struct blob_mount change;
    struct error err = {0};

    blob_mount_prepare(fixture.registry, &pushing->other, &pushing->where, pushing->digest, &change);
    pushing->is_told = stack_record(fixture.stack, pairs, 2, &change.change, NULL, &err).ok;
    if (!pushing->is_told) assert_int_equal(err.kind, ERROR_NOT_FOUND);
    if (pushing->is_told) pushing->where = fixture_repository(&fixture.models, "beside/other");
}

static void refer(void *context)
{
    struct pushing *pushing = context;
    struct error err = {0};

    collect_write_image(&pushing->manifest, pushing->digest, NULL, (int)pushing->seed);
    pushing->is_told = collect_push_manifest(&pushing->where, "tag", &pushing->manifest, &err).ok;
    if (!pushing->is_told) assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

/* One step of a push between any two steps of a collection: acknowledged content stays. */
static void one_step_beside(void (*act)(void *), uint64_t seed, int due, bool *happened_out)
{
    struct pushing pushing = {.where = fixture_repository(&fixture.models, "beside"),
                              .other = fixture_repository(&fixture.models, "beside/other"),
                              .seed = seed};
    struct between between = {.due = due, .act = act, .context = &pushing};

    fixture_push(&pushing.where, seed, SMALL, pushing.digest);
    collect_end_leases();
    MUST(collect_request_run(false, NULL, &err));
    MUST(collect_do_run(fixture.stack->pg, &between, &err));
    *happened_out = between.step >= due;
    if (!*happened_out) return;
    if (!pushing.is_told) {
        assert_false(collect_is_told_of(&pushing.where, pushing.digest));
        return;
    }
    struct between nothing = {.act = NULL};
    MUST(collect_request_run(false, NULL, &err));
    MUST(collect_do_run(fixture.stack->pg, &nothing, &err)); /* and a whole one more */
    fixture_check(&pushing.where, seed, SMALL);
    collect_write_image(&pushing.manifest, pushing.digest, NULL, (int)seed);
    MUST(collect_push_manifest(&pushing.where, "tag", &pushing.manifest, &err));
    collect_end_leases();
    MUST(collect_request_run(false, NULL, &err));
    MUST(collect_do_run(fixture.stack->pg, &nothing, &err));
    fixture_check(&pushing.where, seed, SMALL);
}

static void a_push_between_any_two_steps_loses_nothing(void **state)
{
    void (*const acts[])(void *) = {look, push_again, mount, refer};
    uint64_t seed = 1000;
    int tried = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(acts); i++) {
        bool happened = true;
        for (int due = 1; happened; due++, seed++, tried += happened) one_step_beside(acts[i], seed, due, &happened);
    }
    print_message("%d steps beside\n", tried);
    assert_true(tried >= 4 * 4);
    collect_count_is_exact();
}

/* ---- a HEAD that holds the row while the removal comes ---- */

struct other_thread {
    struct pg *pg;
    struct between between;
    struct error err;
    bool ok;
};

static void *run_in_thread(void *context)
{
    struct other_thread *other = context;

    other->ok = collect_do_run(other->pg, &other->between, &other->err).ok;
    return NULL;
}

static struct pg *another_connection(void)
{
    static const struct pg_table *const tables[] = {&collect_statements,      &erased_statements, &job_statements,
                                                    &manifest_use_statements, &upload_statements, NULL};
    struct pg *pg = NULL;

    MUST(pg_open(database_app(fixture.stack->database), tables, &pg, &err));
    return pg;
}

static void renew(struct pg *pg, const char *digest)
{
    struct uuid blob;
    char sql[256];

    (void)snprintf(sql, sizeof sql, "SELECT blob_id FROM blob WHERE digest = '%s'", digest);
    assert_true(uuid_parse(bytes_of_text(ask(sql)), &blob));
    MUST(blob_row_renew(pg, &blob, 1000, &err));
}

static void a_lease_that_is_being_renewed_is_waited_for(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "renewed");
    struct other_thread other = {.pg = another_connection()};
    char digest[DIGEST_TEXT_SIZE];
    pthread_t thread;

    (void)state;
    fixture_push(&where, 2000, SMALL, digest);
    collect_end_leases();
    MUST(collect_request_run(false, NULL, &err));
    MUST(pg_begin(fixture.stack->pg, &err));
    renew(fixture.stack->pg, digest);
    assert_int_equal(pthread_create(&thread, NULL, run_in_thread, &other), 0);
    for (int i = 0; i < 100 && strcmp(ask("SELECT count(*) FROM pg_locks WHERE NOT granted"), "0") == 0; i++) (void)usleep(50000);
    assert_string_not_equal(ask("SELECT count(*) FROM pg_locks WHERE NOT granted"), "0"); /* the removal waits for the row */
    MUST(pg_commit(fixture.stack->pg, &err));
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (!other.ok) fail_msg("%s", other.err.message);
    assert_true(collect_is_told_of(&where, digest));
    fixture_check(&where, 2000, SMALL);
    pg_free(other.pg);
}

/* ---- two at a time, and one that dies ---- */

/* Collects the content of other tests. Returns the number of all collected blobs. */
static unsigned collect_rest(void)
{
    collect_end_leases();
    (void)collect_all(false, "blobs");
    return stack_events(fixture.stack, "blob.collect", "allowed");
}

/* Contents of two seeds may be the same, so some are needed elsewhere. */
static unsigned count_garbage(void)
{
    uint64_t count = 0;

    assert_true(text_to_u64(bytes_of_text(ask("SELECT count(*) FROM blob b WHERE NOT EXISTS (SELECT FROM repository_blob r"
                                              " JOIN manifest_reference m USING (repository_id, digest)"
                                              " WHERE r.blob_id = b.blob_id)")),
                            UINT32_MAX, &count));
    assert_true(count >= 20);
    return (unsigned)count;
}

static void two_collections_remove_each_thing_once(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "twice");
    struct other_thread others[2] = {{.pg = another_connection()}, {.pg = another_connection()}};
    char digest[DIGEST_TEXT_SIZE];
    pthread_t threads[2];

    (void)state;
    const unsigned before = collect_rest();
    for (uint64_t seed = 3000; seed < 3060; seed++) fixture_push(&where, seed, SMALL, digest);
    collect_end_leases();
    const unsigned garbage = count_garbage();
    MUST(collect_request_run(false, NULL, &err));
    MUST_FAIL(ERROR_CONFLICT, collect_request_run(false, NULL, &err));
    MUST(collect_request_run(true, NULL, &err)); /* a dry run may wait beside it */
    execute("DELETE FROM job WHERE is_dry_run AND ended_at IS NULL");
    MUST(collect_request_all(&err));
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_in_thread, &others[i]), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 2; i++) {
        if (!others[i].ok) fail_msg("%s", others[i].err.message);
        pg_free(others[i].pg);
    }
    assert_int_equal(stack_events(fixture.stack, "blob.collect", "allowed"), before + garbage);
    uint64_t told = 0;
    assert_true(text_to_u64(bytes_of_text(ask("SELECT sum((report::jsonb->>'blobs')::int) FROM (SELECT report FROM job"
                                              " WHERE kind = 'collection' ORDER BY number DESC LIMIT 2) c")),
                            UINT32_MAX, &told));
    assert_int_equal(told, garbage);
}

static unsigned files(void)
{
    char command[128], line[16] = "";
    uint64_t count = 0;

    (void)snprintf(command, sizeof command, "find %s -type f | wc -l", fixture.folder.path);
    FILE *found = popen(command, "re"); /* NOLINT(cert-env33-c): our own mkdtemp() name */
    assert_non_null(found);
    assert_non_null(fgets(line, sizeof line, found));
    (void)pclose(found);
    line[strcspn(line, "\n")] = '\0';
    assert_true(text_to_u64(bytes_of_text(line), UINT32_MAX, &count));
    return (unsigned)count;
}

static bool stop_at(void *context)
{
    int *left = context;

    return --*left < 0;
}

static void a_run_that_breaks_off_is_gone_on_with(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "broken");
    int left = 6;
    struct between nothing = {.act = NULL};
    char digest[DIGEST_TEXT_SIZE], expected[32];

    (void)state;
    const unsigned before = collect_rest();
    collect_clean_up_all();
    const unsigned files_before = files();
    for (uint64_t seed = 4000; seed < 4050; seed++) fixture_push(&where, seed, SMALL, digest);
    collect_end_leases();
    const unsigned garbage = count_garbage();
    MUST(collect_request_run(false, NULL, &err));
    MUST(collect_work(fixture.stack->pg, stop_at, &left, &err));
    const unsigned removed = stack_events(fixture.stack, "blob.collect", "allowed") - before;
    assert_true(removed > 0 && removed < garbage);
    assert_string_equal(ask("SELECT phase FROM job WHERE ended_at IS NULL AND lease_until <= now()"), "2"); /* let go of */
    /* as if it had been killed: its lease was not released, and nothing of it is in memory */
    execute("UPDATE job SET runner = 'gw9', lease_until = now() - interval '1 second' WHERE ended_at IS NULL");
    fixture_restart();
    MUST(collect_do_run(fixture.stack->pg, &nothing, &err));
    assert_int_equal(stack_events(fixture.stack, "blob.collect", "allowed"), before + garbage);
    (void)snprintf(expected, sizeof expected, "%u", garbage);
    assert_string_equal(collect_told("blobs"), expected);
    assert_true(files() > files_before); /* their bytes go after a moment */
    fixture_restart();
    collect_clean_up_all();
    assert_int_equal(files(), files_before);
    assert_string_equal(ask("SELECT count(*) FROM abandoned_object"), "0");
}

/* At whatever step it stops, the next run continues with the same project, and everything is counted once. */
static void projects_that_are_done_are_not_looked_at_again(void **state)
{
    struct resource here = fixture_repository(&fixture.models, "first"), there = fixture_repository(&fixture.other, "second");
    char digest[DIGEST_TEXT_SIZE], expected[32];
    unsigned rounds = 0;

    (void)state;
    (void)collect_rest();
    for (uint64_t seed = 5000; seed < 5020; seed++) fixture_push(seed % 2 == 0 ? &here : &there, seed, SMALL, digest);
    collect_end_leases();
    const unsigned garbage = count_garbage();
    const unsigned sessions = stack_events(fixture.stack, "upload.reap", "completed");
    execute("UPDATE upload SET expires_at = now() - interval '1 second'");
    MUST(collect_request_all(&err));
    while (strcmp(ask("SELECT count(*) FROM job WHERE ended_at IS NULL"), "0") != 0) {
        int left = 4; /* a step further each time */
        MUST(collect_work(fixture.stack->pg, stop_at, &left, &err));
        assert_true(++rounds < 100);
    }
    assert_true(rounds > 3);
    (void)snprintf(expected, sizeof expected, "%u", garbage);
    assert_string_equal(collect_told("blobs"), expected);
    (void)snprintf(expected, sizeof expected, "%u", stack_events(fixture.stack, "upload.reap", "completed") - sessions);
    assert_string_equal(collect_told("sessions"), expected);
    assert_string_equal(collect_told("is_whole"), "true");
}

/* In projects without rules, and of deleted repositories, the notes stayed for ever. */
static void notes_of_what_is_no_more_are_removed(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "noted");
    struct between nothing = {.act = NULL};
    char config[DIGEST_TEXT_SIZE];
    struct pushed image;

    (void)state;
    fixture_push(&where, 7000, SMALL, config);
    collect_write_image(&image, config, NULL, 1);
    MUST(collect_push_manifest(&where, "noted", &image, &err));
    execute("DELETE FROM manifest_use");
    execute("INSERT INTO manifest_use SELECT repository_id, digest, now() FROM manifest");
    execute("INSERT INTO manifest_use SELECT repository_id, 'sha256:' || n, now() FROM repository, generate_series(1, 1500) n");
    execute("INSERT INTO manifest_use SELECT gen_random_uuid(), 'sha256:gone', now() FROM generate_series(1, 1500) n");
    MUST(collect_request_all(&err));
    MUST(collect_do_run(fixture.stack->pg, &nothing, &err));
    assert_string_equal(collect_told("is_whole"), "true");
    assert_string_equal(ask("SELECT count(*) > 0 FROM manifest"), "t");
    assert_string_equal(ask("SELECT count(*) FROM manifest m FULL JOIN manifest_use u USING (repository_id, digest)"
                            " WHERE m.digest IS NULL OR u.digest IS NULL"),
                        "0");
}

/* What a run holds stays until the run is admitted, or for 30 days after another end. */
static void blobs_that_a_run_holds_stay(void **state)
{
    static const char run[] = "00000000-0000-0000-0000-0000000000aa";
    struct resource where = fixture_repository(&fixture.models, "held");
    struct blob_unlink change;
    char digest[DIGEST_TEXT_SIZE], project[UUID_TEXT_SIZE], repository[UUID_TEXT_SIZE], sql[600], count[256];

    (void)state;
    fixture.principal.kind = PRINCIPAL_RUN;
    fixture_push(&where, 4711, SMALL, digest);
    fixture.principal.kind = PRINCIPAL_ROBOT;
    fixture_push(&where, 4711, SMALL, digest); /* by somebody as well, who then deletes it */
    const struct resource known = fixture_repository(&fixture.models, "held");
    uuid_format(&known.project, project);
    uuid_format(&known.repository, repository);
    (void)snprintf(
        sql, sizeof sql,
        "INSERT INTO run (run_id, project_id, state, request, requester, approvals_wanted, pool, expires_at) VALUES ('%s', '%s',"
        " 'finishing', sha256('x'), 'robot', 0, 'default', now()); INSERT INTO held_blob VALUES ('%s', '%s', '%s')",
        run, project, repository, digest, run);
    execute(sql);
    (void)snprintf(count, sizeof count, "SELECT count(*) FROM repository_blob WHERE digest = '%s'", digest);
    collect_end_leases();
    (void)collect_all(false, "blobs");
    assert_true(collect_is_told_of(&known, digest));
    blob_unlink_prepare(&known, digest, &change);
    MUST(fixture_change(ACTION_BLOB_DELETE, &known, &change.change, &err));
    assert_false(collect_is_told_of(&known, digest));
    execute("UPDATE run SET state = 'quarantined', ended_at = now() - interval '29 days'");
    collect_end_leases();
    (void)collect_all(false, "blobs");
    assert_string_equal(ask(count), "1");
    execute("ALTER TABLE run DISABLE TRIGGER run_stays_ended; UPDATE run SET ended_at = now() - interval '31 days'");
    collect_end_leases();
    (void)collect_all(false, "blobs");
    assert_string_equal(ask(count), "0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_between_any_two_steps_loses_nothing),
        cmocka_unit_test(a_lease_that_is_being_renewed_is_waited_for),
        cmocka_unit_test(two_collections_remove_each_thing_once),
        cmocka_unit_test(a_run_that_breaks_off_is_gone_on_with),
        cmocka_unit_test(projects_that_are_done_are_not_looked_at_again),
        cmocka_unit_test(notes_of_what_is_no_more_are_removed),
        cmocka_unit_test(blobs_that_a_run_holds_stay),
    };

    return cmocka_run_group_tests_name("registry collection", tests, fixture_set_up, fixture_tear_down);
}
