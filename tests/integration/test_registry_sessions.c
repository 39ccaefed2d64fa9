/* The lifetime of upload sessions, their limits, and the sessions that end to make room. */
#include "tests/integration/registry_fixture.h"

#include "registry/jobs/clean_up.h"
#include "registry/jobs/collect_store.h"
#include "registry/upload/upload_admin.h"
#include "registry/upload/upload_priv.h"

static void one_that_goes_on_does_not_expire(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "slow");
    const struct upload_begin begun = fixture_begin(&where);
    static const char shorten[] = "UPDATE upload SET expires_at = now() + interval '%s' FROM repository r"
                                  " WHERE r.repository_id = upload.repository_id AND r.name = 'slow'";
    static const char is_long[] = "SELECT expires_at > now() + interval '23 h 55 min' FROM upload"
                                  " JOIN repository USING (repository_id) WHERE name = 'slow'";
    static const struct {
        const char *before, *after;
        bool saves; /* a claim alone also shows that the client is active */
    } rows[] = {{"1 h", "t", true}, {"1 h", "t", false}, {"23 h 30 min", "f", true}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct job_recorder recorder;
        OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);
        char statement[sizeof shorten + 20];
        (void)snprintf(statement, sizeof statement, shorten, rows[i].before);
        execute(statement);
        if (!rows[i].saves) upload_table_clear(fixture.registry->uploads); /* a kept writer need not claim */
        MUST(upload_claim(upload, fixture.stack->pg, &err));
        MUST(upload_write(upload, bytes_of_text("a few bytes"), &err));
        if (rows[i].saves) MUST(upload_save(upload, fixture.stack->pg, &recorder.recorder, &err));
        assert_string_equal(ask(is_long), rows[i].after);
        if (i + 1 == COUNT(rows)) MUST(upload_drop(upload, fixture.stack->pg, "done", &recorder.recorder, &err));
    }
}

/* A claim may wait for the row while a run ends. The clock of its transaction stands before that end. */
static void one_that_ended_during_a_claim_stays_ended(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "ended");
    const struct upload_begin begun = fixture_begin(&where);
    struct job_recorder recorder;
    OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);

    (void)state;
    upload_table_clear(fixture.registry->uploads); /* else the begin is the claim */
    MUST(pg_begin(fixture.stack->pg, &err));
    execute(
        "UPDATE upload SET expires_at = now() FROM repository r WHERE r.repository_id = upload.repository_id AND r.name = 'ended'");
    MUST_FAIL(ERROR_NOT_FOUND, upload_claim(upload, fixture.stack->pg, &err));
    pg_rollback(fixture.stack->pg);
    assert_string_equal(ask("SELECT expires_at <= now() FROM upload JOIN repository USING (repository_id) WHERE name = 'ended'"),
                        "t");
    execute("DELETE FROM upload; DELETE FROM abandoned_object");
}

/* At the slowest allowed rate 64 MiB take 18 hours. */
static void a_slow_one_is_saved_by_the_clock(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "trickle");
    const struct upload_begin begun = fixture_begin(&where);
    struct job_recorder recorder;
    OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);

    (void)state;
    MUST(upload_claim(upload, fixture.stack->pg, &err));
    MUST(upload_write(upload, bytes_of_text("a few bytes"), &err));
    assert_false(upload_must_save(upload));
    upload->safe_ms -= UPLOAD_SAVE_EVERY_MS;
    assert_true(upload_must_save(upload));
    MUST(upload_save(upload, fixture.stack->pg, &recorder.recorder, &err));
    assert_false(upload_must_save(upload));
    MUST(upload_drop(upload, fixture.stack->pg, "done", &recorder.recorder, &err));
}

/* All bytes are read and written once more, perhaps for hours, without a save meanwhile. */
static void one_that_is_written_again_is_not_idle(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "again");
    const struct upload_begin begun = fixture_begin(&where);
    const struct digest other = digest_of(DIGEST_SHA512, bytes_of_text("something else"));

    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        struct job_recorder recorder;
        OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);
        MUST(upload_claim(upload, fixture.stack->pg, &err));
        MUST(upload_write(upload, bytes_of_text("a few bytes"), &err));
        execute("UPDATE upload SET expires_at = now() + interval '1 h', moved_at = now() - interval '1 h' FROM repository r"
                " WHERE r.repository_id = upload.repository_id AND r.name = 'again'");
        if (waits == 1) upload->safe_ms -= UPLOAD_SAVE_EVERY_MS;
        MUST_FAIL(ERROR_INVALID, upload_commit(upload, fixture.stack->pg, &other, &recorder.recorder, &err));
        assert_string_equal(ask("SELECT expires_at > now() + interval '23 h' AND moved_at > now() - interval '1 min' FROM upload"
                                " JOIN repository USING (repository_id) WHERE name = 'again'"),
                            waits == 1 ? "t" : "f");
    }
}

static void copy_sessions(const char *owner, unsigned count)
{
    char sql[1024];

    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO upload (upload_id, repository_id, project_id, region_id, blob_id, key_version,"
                   " wrapped_key, commitment, digest_algorithm, bound_to, secret_hash, organisation_id)"
                   " SELECT gen_random_uuid(), repository_id, project_id, region_id, gen_random_uuid(), key_version,"
                   " wrapped_key, commitment, digest_algorithm, %s, secret_hash, organisation_id FROM (SELECT u.* FROM upload u"
                   " JOIN repository r USING (repository_id, project_id) WHERE r.name = 'many' LIMIT 1) one,"
                   " generate_series(1, %u)",
                   owner, count);
    execute(sql);
}

static const struct session_limits LIMITS = {UPLOAD_SESSIONS_PER_PROJECT, UPLOAD_SESSIONS_PER_OWNER,
                                             UPLOAD_SESSIONS_PER_ORGANISATION, UPLOAD_IDLE_S};

static void too_many_sessions_are_refused(void **state)
{
    struct resource where = fixture_repository(&fixture.other, "many");
    struct principal other = fixture.principal;
    struct upload_begin begin;

    (void)state;
    (void)snprintf(other.subject, sizeof other.subject, "somebody else");
    (void)fixture_begin(&where);
    copy_sessions("bound_to", UPLOAD_SESSIONS_PER_OWNER - 1);
    MUST(upload_begin_prepare(fixture.registry, &where, &fixture.principal, DIGEST_SHA256, &begin, &err));
    MUST_FAIL(ERROR_LIMIT, fixture_change(ACTION_UPLOAD_BEGIN, &where, &begin.change, &err));

    /* One client has used up its share: others can still push, until the project's limit is reached. */
    MUST(upload_begin_prepare(fixture.registry, &where, &other, DIGEST_SHA256, &begin, &err));
    MUST(fixture_change(ACTION_UPLOAD_BEGIN, &where, &begin.change, &err));
    copy_sessions("sha256('third')", UPLOAD_SESSIONS_PER_PROJECT - UPLOAD_SESSIONS_PER_OWNER - 1);
    MUST(upload_begin_prepare(fixture.registry, &where, &other, DIGEST_SHA256, &begin, &err));
    MUST_FAIL(ERROR_LIMIT, fixture_change(ACTION_UPLOAD_BEGIN, &where, &begin.change, &err));
}

static void assert_refused(const struct resource *where, const char *why)
{
    struct upload_begin begin;
    struct error refusal = {0};

    MUST(upload_begin_prepare(fixture.registry, where, &fixture.principal, DIGEST_SHA256, &begin, &err));
    assert_false(fixture_change(ACTION_UPLOAD_BEGIN, where, &begin.change, &refusal).ok);
    assert_int_equal(refusal.kind, ERROR_LIMIT);
    if (strstr(refusal.message, why) == NULL) fail_msg("%s", refusal.message);
}

/* A quota of the project raises one client's share; the error names the reached limit. */
static void a_quota_says_how_many_a_client_may_have(void **state)
{
    struct resource where = fixture_repository(&fixture.other, "many");
    struct upload_begin begin;

    (void)state;
    execute("DELETE FROM upload; DELETE FROM abandoned_object");
    (void)fixture_begin(&where);
    copy_sessions("bound_to", UPLOAD_SESSIONS_PER_OWNER - 1);
    assert_refused(&where, "as one client may, 250:");
    execute(
        "INSERT INTO project_quota (project_id, bytes_used, client_sessions_max) SELECT project_id, 0, 251 FROM upload LIMIT 1");
    MUST(upload_begin_prepare(fixture.registry, &where, &fixture.principal, DIGEST_SHA256, &begin, &err));
    MUST(fixture_change(ACTION_UPLOAD_BEGIN, &where, &begin.change, &err));
    assert_refused(&where, "as one client may, 251:");
    execute("UPDATE project_quota SET client_sessions_max = NULL, sessions_max = 100;"
            " DELETE FROM upload WHERE upload_id NOT IN (SELECT upload_id FROM upload LIMIT 100)");
    assert_refused(&where, "the project has as many open uploads as it may, 100,");
    execute("DELETE FROM project_quota; DELETE FROM upload; DELETE FROM abandoned_object");
}

static void leave_sessions(const char *owner, unsigned count)
{
    char sql[512];

    (void)snprintf(sql, sizeof sql,
                   "DELETE FROM upload WHERE bound_to = %s AND upload_id NOT IN"
                   " (SELECT upload_id FROM upload WHERE bound_to = %s LIMIT %u)",
                   owner, owner, count);
    execute(sql);
}

/* Makes the sessions look idle for this time. */
static void age_sessions(const char *owner, unsigned count, const char *idle)
{
    char sql[512];

    (void)snprintf(sql, sizeof sql,
                   "UPDATE upload SET moved_at = now() - interval '%s', expires_at = now() + interval '24 h' - interval '%s'"
                   " WHERE upload_id IN (SELECT upload_id FROM upload WHERE bound_to = %s ORDER BY expires_at DESC LIMIT %u)",
                   idle, idle, owner, count);
    execute(sql);
}

/* Sessions of killed jobs do not keep other clients out for a day. While there is room, no client loses its session. */
static void idle_ones_make_room(void **state)
{
    struct resource where = fixture_repository(&fixture.other, "many");
    int64_t ending = 0;
    size_t count = 0;

    (void)state;
    execute("DELETE FROM upload; DELETE FROM abandoned_object");
    (void)fixture_begin(&where);
    copy_sessions("sha256('third')", UPLOAD_SESSIONS_PER_OWNER / 2 + 1);
    copy_sessions("sha256('fourth')", UPLOAD_SESSIONS_PER_OWNER / 2);
    age_sessions("sha256('third')", 5, "61 min");
    age_sessions("sha256('third')", 5, "59 min");
    age_sessions("sha256('fourth')", 5, "61 min"); /* has half, which is not too much */
    MUST(collect_count_expired(fixture.stack->pg, &LIMITS, &ending, &err));
    assert_int_equal(ending, 5); /* as a dry run says */
    MUST(registry_clean_up(fixture.registry, fixture.stack->pg, &count, &err));
    assert_int_equal(count, 10); /* sessions, and their objects */
    assert_string_equal(ask("SELECT count(*) FROM upload WHERE bound_to = sha256('third')"), "121");
    assert_string_equal(ask("SELECT count(*) FROM upload WHERE bound_to = sha256('fourth')"), "125");

    /* Now the project has too many open sessions, of any clients. */
    copy_sessions("sha256(gen_random_uuid()::text::bytea)", UPLOAD_SESSIONS_PER_PROJECT / 2 - 247);
    assert_string_equal(ask("SELECT count(*) FROM upload"), "500");
    MUST(registry_clean_up(fixture.registry, fixture.stack->pg, &count, &err));
    assert_int_equal(count, 0);
    copy_sessions("sha256('one more')", 1);
    MUST(registry_clean_up(fixture.registry, fixture.stack->pg, &count, &err));
    assert_int_equal(count, 10);
    leave_sessions("sha256('fourth')", 1);
    execute("INSERT INTO project_quota (project_id, bytes_used, sessions_max) SELECT DISTINCT project_id, 0, 900 FROM upload");
    age_sessions("sha256('fourth')", 1, "23 h");
    MUST(registry_clean_up(fixture.registry, fixture.stack->pg, &count, &err));
    assert_int_equal(count, 0);
    execute("UPDATE project_quota SET sessions_max = 100");
    MUST(registry_clean_up(fixture.registry, fixture.stack->pg, &count, &err));
    assert_int_equal(count, 2);
    execute("DELETE FROM project_quota");
}

/* All projects of one organisation together have a limit, with any quotas; and its idle sessions make room. */
static void an_organisation_has_a_share(void **state)
{
    struct resource where = fixture_repository(&fixture.other, "many"), elsewhere = fixture_repository(&fixture.models, "few");
    struct session_limits *limits = &fixture.registry->uploads_open;
    const unsigned before = limits->per_organisation;
    size_t count = 0;

    (void)state;
    execute("DELETE FROM upload; DELETE FROM abandoned_object");
    (void)fixture_begin(&where);
    copy_sessions("sha256('third')", 9);
    limits->per_organisation = 11;
    (void)fixture_begin(&elsewhere);
    assert_refused(&elsewhere, "the organisation has as many open uploads as it may, 11,");
    assert_refused(&where, "the organisation has as many");
    age_sessions("sha256('third')", 4, "61 min");
    MUST(registry_clean_up(fixture.registry, fixture.stack->pg, &count, &err));
    assert_int_equal(count, 8); /* sessions, and their objects */
    age_sessions("sha256('third')", 3, "61 min");
    limits->per_organisation = 14;
    MUST(registry_clean_up(fixture.registry, fixture.stack->pg, &count, &err));
    assert_int_equal(count, 0); /* there is room */
    limits->per_organisation = before;
}

static struct upload_page *list(struct resource where, enum resource_kind kind, const struct uuid *after, size_t limit)
{
    const struct upload_query query = {.where = &where, .after = *after, .limit = limit};
    struct upload_page *page = NULL;

    where.kind = kind;
    where.detail[0] = '\0';
    OWNED(permit) *permit = stack_permit(fixture.stack, ACTION_UPLOAD_LIST, &where);
    MUST(upload_list(permit, fixture.stack->pg, &query, &page, &err));
    return page;
}

static void uploads_are_listed_with_whose_they_are(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "listed"), other = fixture_repository(&fixture.other, "listed");
    const struct uuid start = {0};

    (void)state;
    execute("DELETE FROM upload; DELETE FROM abandoned_object");
    for (int i = 0; i < 3; i++) (void)fixture_begin(&where);
    (void)fixture_begin(&other);
    OWNED(upload_page) *all = list(where, RESOURCE_ORGANISATION, &start, 100);
    OWNED(upload_page) *first = list(where, RESOURCE_PROJECT, &start, 2);
    assert_int_equal(upload_page_count(all), 4);
    assert_int_equal(upload_page_count(first), 2);
    const struct listed_upload second = upload_page_row(first, 1);
    OWNED(upload_page) *rest = list(where, RESOURCE_PROJECT, &second.upload, 2);
    assert_int_equal(upload_page_count(rest), 1);
    assert_string_equal(second.repository, "acme/models/listed");
    assert_string_equal(second.subject, fixture.principal.subject);
    assert_true(second.bytes == 0 && second.begun_ms <= second.moved_ms && second.moved_ms < second.expires_ms);
}

/* An administrator ends it while its client writes: the client gets the error that it is unknown, and no byte stays. */
static void one_that_is_ended_is_unknown_to_its_writer(void **state)
{
    OWNED(registry) *second = fixture_second_gateway();

    (void)state;
    for (int here = 0; here < 2; here++) {
        struct resource where = fixture_repository(&fixture.models, "ended"), project = {0};
        const struct upload_begin begun = fixture_begin(&where);
        struct job_recorder recorder;
        struct upload_end end;
        OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);
        MUST(upload_claim(upload, fixture.stack->pg, &err));
        MUST(upload_write(upload, bytes_of_text("a few bytes"), &err));

        project = where;
        project.kind = RESOURCE_PROJECT;
        uuid_format(&begun.location.upload, project.detail);
        upload_end_prepare(&project, &begun.location.upload, &end);
        MUST(fixture_change(ACTION_UPLOAD_END, &project, &end.change, &err));
        OWNED(permit) *permit = fixture_permit(ACTION_UPLOAD_END, &project);
        upload_end_finish(permit, here ? fixture.registry : second, fixture.stack->pg, &end);
        if (here) {
            MUST_FAIL(ERROR_NOT_FOUND, upload_write(upload, bytes_of_text("more"), &err));
        } else {
            MUST(upload_write(upload, bytes_of_text("more"), &err)); /* this gateway does not know it yet */
            MUST(upload_heartbeat(upload, fixture.stack->pg, &err));
            upload->heartbeat_ms -= UPLOAD_HEARTBEAT_MS;
            MUST_FAIL(ERROR_NOT_FOUND, upload_heartbeat(upload, fixture.stack->pg, &err));
        }
        upload_free(GIVE(upload));
        assert_string_equal(ask("SELECT count(*) FROM abandoned_object"), "0");
        upload_end_prepare(&project, &begun.location.upload, &end);
        MUST_FAIL(ERROR_NOT_FOUND, fixture_change(ACTION_UPLOAD_END, &project, &end.change, &err));
    }
}

/* The same at the end of a request: the bytes to be saved belong to an unknown upload. */
static void one_that_is_ended_is_not_saved(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "unsaved"), project = {0};
    const struct upload_begin begun = fixture_begin(&where);
    struct job_recorder recorder;
    struct upload_end end;
    OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);

    (void)state;
    MUST(upload_claim(upload, fixture.stack->pg, &err));
    MUST(upload_write(upload, bytes_of_text("a few bytes"), &err));
    project = fixture_repository(&fixture.other, "unsaved");
    project.kind = RESOURCE_PROJECT;
    uuid_format(&begun.location.upload, project.detail);
    upload_end_prepare(&project, &begun.location.upload, &end);
    MUST_FAIL(ERROR_NOT_FOUND, fixture_change(ACTION_UPLOAD_END, &project, &end.change, &err)); /* of another project */
    project.project = where.project;
    memcpy(project.name, where.name, sizeof project.name);
    upload_end_prepare(&project, &begun.location.upload, &end);
    MUST(fixture_change(ACTION_UPLOAD_END, &project, &end.change, &err));
    MUST_FAIL(ERROR_NOT_FOUND, upload_save(upload, fixture.stack->pg, &recorder.recorder, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_goes_on_does_not_expire),
        cmocka_unit_test(one_that_ended_during_a_claim_stays_ended),
        cmocka_unit_test(a_slow_one_is_saved_by_the_clock),
        cmocka_unit_test(one_that_is_written_again_is_not_idle),
        cmocka_unit_test(too_many_sessions_are_refused),
        cmocka_unit_test(a_quota_says_how_many_a_client_may_have),
        cmocka_unit_test(idle_ones_make_room),
        cmocka_unit_test(an_organisation_has_a_share),
        cmocka_unit_test(uploads_are_listed_with_whose_they_are),
        cmocka_unit_test(one_that_is_ended_is_unknown_to_its_writer),
        cmocka_unit_test(one_that_is_ended_is_not_saved),
    };

    return cmocka_run_group_tests_name("upload sessions", tests, fixture_set_up, fixture_tear_down);
}
