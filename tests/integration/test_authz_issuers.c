/* Issuers that are followed, as rows: which gateway asks whom and when, and what an attempt may change. */
#include "authz/issuer_jobs.h"
#include "authz/snapshot_load.h"
#include "tests/integration/authz_fixture.h"

#include "base/clock.h"

static const struct pg_table *const job_tables[] = {&issuer_jobs_table, &issuer_renew_table, &rights_table, NULL};

static struct pg *open_jobs(struct fixture *fixture)
{
    struct pg *pg = NULL;
    struct error err = {0};

    if (!pg_open(database_app(fixture->database), job_tables, &pg, &err).ok) fail_msg("%s", err.message);
    return pg;
}

static struct uuid follow(struct fixture *fixture, const char *url, const char *jwks)
{
    struct issuer_record record = {
        .audience = "us", .algorithms = 1U << JOSE_ES256, .lifetime_max_s = 600, .follows = jwks[0] == '\0', .jwks = jwks};
    const struct resource all = resource_of(RESOURCE_SYSTEM, "");
    struct issuer_trust trust;
    struct error err = {0};

    (void)snprintf(record.url, sizeof record.url, "%s", url);
    assert_true(issuer_trust_init(&trust, &record, &err).ok);
    if (!run(fixture->pg, &trust.change, ACTION_ISSUER_TRUST, &all, &err)) fail_msg("%s", err.message);
    return trust.id;
}

static bool claim(struct pg *pg, bool failed, struct issuer_task *task)
{
    struct error err = {0};
    bool found = false;

    if (!issuer_task_claim(pg, failed, task, &found, &err).ok) fail_msg("%s", err.message);
    return found;
}

static void end(struct pg *pg, const struct issuer_task *task, const char *problem)
{
    struct error err = {0};

    if (!issuer_task_end(pg, task, &(struct issuer_report){problem, "{\"calls\":[]}"}, &err).ok) fail_msg("%s", err.message);
}

static bool renew(struct pg *pg, const struct issuer_task *task, const char *jwks, struct error *err)
{
    const struct resource all = resource_of(RESOURCE_SYSTEM, "");
    struct issuer_renew renewal;

    issuer_renew_init(&renewal, task, jwks);
    assert_true(renewal.change.raises_epoch);
    return run(pg, &renewal.change, ACTION_ISSUER_KEYS, &all, err);
}

static void one_gateway_asks_at_a_time(void **state)
{
    struct fixture *fixture = *state;
    struct issuer_task task, other;
    struct error err = {0};

    struct pg *first = open_jobs(fixture), *second = open_jobs(fixture);
    const struct uuid id = follow(fixture, "https://i", "");
    assert_true(claim(first, false, &task));
    assert_true(uuid_equal(&task.id, &id));
    assert_string_equal(task.url, "https://i");
    assert_int_equal(task.algorithms, 1U << JOSE_ES256);
    assert_false(claim(second, false, &other) || claim(second, true, &other));
    assert_true(renew(first, &task, JWKS, &err));
    end(first, &task, NULL);
    assert_false(claim(second, false, &other)); /* not for a quarter of an hour */
    assert_string_equal(
        database_ask(fixture->database,
                     "SELECT (due_at - now() BETWEEN interval '14 min' AND interval '16 min')::text FROM issuer_fetch"),
        "true");
    OWNED(authz_snapshot) *snapshot = load(fixture->pg);
    assert_true(issuer_record_of(authz_snapshot_issuer(snapshot, "https://i"))->confirmed_ms > clock_wall_ms() - 60000);
    pg_free(first);
    pg_free(second);
}

/* A gateway that stood still must not bring back what another one has read since. */
static void a_late_attempt_changes_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct issuer_task late, task;
    struct error err = {0};

    struct pg *pg = open_jobs(fixture);
    (void)follow(fixture, "https://i", "");
    assert_true(claim(pg, false, &late));
    database_execute(fixture->database, "UPDATE issuer_fetch SET due_at = now(), attempted_at = attempted_at - interval '1 min'");
    assert_true(claim(pg, false, &task));
    assert_true(renew(pg, &task, JWKS, &err));
    end(pg, &task, NULL);
    assert_false(renew(pg, &late, "{\"keys\":[]}", &err));
    assert_int_equal(err.kind, ERROR_CONFLICT);
    end(pg, &late, "a lie");
    assert_string_equal(database_ask(fixture->database, "SELECT coalesce(problem, 'none') || failures FROM issuer_fetch"),
                        "none0");
    assert_string_equal(database_ask(fixture->database, "SELECT (jwks LIKE '%P-256%')::text FROM trusted_issuer"), "true");
    database_execute(fixture->database, "DELETE FROM trusted_issuer"); /* removed meanwhile */
    assert_false(renew(pg, &task, JWKS, &err));
    assert_int_equal(err.kind, ERROR_CONFLICT);
    pg_free(pg);
}

static void failures_are_asked_apart_and_ever_more_seldom(void **state)
{
    static const char *const least[] = {"25 s", "55 s", "110 s", "230 s", "470 s", "850 s", "850 s"};
    struct fixture *fixture = *state;
    struct issuer_task task;
    char question[200];

    struct pg *pg = open_jobs(fixture);
    (void)follow(fixture, "https://i", "");
    for (size_t i = 0; i < COUNT(least); i++) {
        assert_true(claim(pg, i > 0, &task));
        assert_int_equal(task.failures, i);
        end(pg, &task, "it hangs");
        assert_false(claim(pg, i == 0, &task));
        (void)snprintf(question, sizeof question,
                       "SELECT (due_at - now() BETWEEN interval '%s' AND interval '960 s')::text FROM issuer_fetch", least[i]);
        assert_string_equal(database_ask(fixture->database, question), "true");
        database_execute(fixture->database, "UPDATE issuer_fetch SET due_at = now()");
    }
    assert_true(claim(pg, true, &task));
    end(pg, &task, NULL);
    assert_string_equal(database_ask(fixture->database, "SELECT failures::text || coalesce(problem, '') FROM issuer_fetch"), "0");
    pg_free(pg);
}

static void tokens_have_an_issuer_asked_every_half_minute_at_most(void **state)
{
    struct fixture *fixture = *state;
    struct issuer_task task;
    struct error err = {0};

    struct pg *pg = open_jobs(fixture);
    const struct uuid id = follow(fixture, "https://i", "");
    assert_true(claim(pg, false, &task));
    assert_true(issuer_wish(pg, &id, 1, &err).ok); /* somebody asks already */
    assert_false(claim(pg, false, &task) || claim(pg, true, &task));
    end(pg, &task, NULL);
    for (int i = 0; i < 3; i++) assert_true(issuer_wish(pg, &id, 1, &err).ok);
    assert_false(claim(pg, false, &task));
    assert_string_equal(
        database_ask(fixture->database,
                     "SELECT (due_at - now() BETWEEN interval '20 s' AND interval '30 s')::text FROM issuer_fetch"),
        "true");
    database_execute(
        fixture->database,
        "UPDATE issuer_fetch SET attempted_at = attempted_at - interval '31 s', ended_at = ended_at - interval '31 s'");
    assert_true(issuer_wish(pg, &id, 1, &err).ok);
    assert_true(claim(pg, false, &task));
    pg_free(pg);
}

/* An attempt asks where the keys were; an administrator has moved them meanwhile. */
static void a_new_place_is_asked_at_once(void **state)
{
    struct fixture *fixture = *state;
    struct issuer_task old, task;
    struct error err = {0};

    struct pg *pg = open_jobs(fixture);
    (void)follow(fixture, "https://i", "");
    assert_true(claim(pg, false, &old));
    (void)follow(fixture, "https://i", "");
    assert_false(renew(pg, &old, JWKS, &err));
    end(pg, &old, NULL);
    assert_true(claim(pg, false, &task));
    assert_true(renew(pg, &task, JWKS, &err));
    end(pg, &task, NULL);
    assert_false(claim(pg, false, &task));
    pg_free(pg);
}

static void keys_by_hand_and_keys_from_the_issuer_replace_each_other(void **state)
{
    struct fixture *fixture = *state;
    struct issuer_task task;
    const struct resource all = resource_of(RESOURCE_SYSTEM, "");
    struct issuer_check check;
    struct error err = {0};

    struct pg *pg = open_jobs(fixture);
    const struct uuid id = follow(fixture, "https://i", JWKS);
    assert_false(claim(pg, false, &task));
    issuer_check_init(&check, &id);
    assert_false(run(fixture->pg, &check.change, ACTION_ISSUER_CHECK, &all, &err));
    assert_int_equal(err.kind, ERROR_NOT_FOUND);

    const struct uuid followed =
        follow(fixture, "https://i", ""); /* the keys count until the issuer is asked, and at most a day */
    assert_true(uuid_equal(&followed, &id));
    assert_string_equal(
        database_ask(
            fixture->database,
            "SELECT (jwks <> '' AND confirmed_at IS NOT NULL)::text FROM trusted_issuer JOIN issuer_fetch USING (issuer_id)"),
        "true");
    assert_true(claim(pg, false, &task));
    end(pg, &task, "it is away");
    assert_true(run(fixture->pg, &check.change, ACTION_ISSUER_CHECK, &all, &err));
    assert_string_equal(
        database_ask(fixture->database, "SELECT (ended_at IS NULL AND due_at - now() < interval '6 s')::text FROM issuer_fetch"),
        "true");

    (void)follow(fixture, "https://i", JWKS);
    assert_string_equal(database_ask(fixture->database, "SELECT count(*)::text FROM issuer_fetch"), "0");
    assert_false(renew(pg, &task, "{\"keys\":[]}", &err));
    pg_free(pg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_gateway_asks_at_a_time),
        TEST(a_late_attempt_changes_nothing),
        TEST(failures_are_asked_apart_and_ever_more_seldom),
        TEST(tokens_have_an_issuer_asked_every_half_minute_at_most),
        TEST(a_new_place_is_asked_at_once),
        TEST(keys_by_hand_and_keys_from_the_issuer_replace_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
