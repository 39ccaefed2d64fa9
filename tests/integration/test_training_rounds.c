/* What attempts have used, and rounds of the server's own changes: no runner's word breaks a sum, and no run keeps another waiting. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/integration/lease_fixture.h"
#include "tests/integration/signed_lease.h"
#include "training/checkpoint_jobs.h"
#include "training/expire.h"
#include "training/log_jobs.h"

#define NUMBER_MAX INT64_C(9007199254740991) /* 2^53 - 1, the most that a heartbeat can say */

/* A run of 4 processors and no device, which runner 0 has leased. */
static struct uuid leased_in(const char *pool)
{
    const struct uuid id = uuid_random();
    struct run run = {.id = id, .expires_ms = clock_wall_ms() + INT64_C(86400000)};
    struct run_signed made = {.principal = "keyd", .envelope = bytes_of_text("{}")};
    struct run_offer offer = offer_of(0);
    struct run_request change;
    struct error err = {0};
    struct run_claim claim;
    bool found = false;
    char sql[300];

    memcpy(made.digest, id.bytes, sizeof id.bytes);
    (void)snprintf(run.pool, sizeof run.pool, "%s", pool);
    run_request_prepare(&project, &run, &made, &change);
    assert_int_equal(changed(ACTION_RUN_REQUEST, &change.change), ERROR_NONE);
    (void)snprintf(sql, sizeof sql,
                   "UPDATE run SET state = 'ordered', attempts = 2, cpus = 4, jurisdictions = '{AE}', regions = '{local/dxb}'"
                   " WHERE pool = '%s'",
                   pool);
    execute(sql);
    offer.pool = pool;
    assert_true(run_claim(stack->pg, &offer, NULL, &claim, &found, &err).ok && found);
    assert_int_equal(lease(&claim, 0), ERROR_NONE);
    return id;
}

static const char *state_of(const struct uuid *run)
{
    char sql[120], id[UUID_TEXT_SIZE];

    uuid_format(run, id);
    (void)snprintf(sql, sizeof sql, "SELECT state FROM run WHERE run_id = '%s'", id);
    return ask(sql);
}

static void beat(const struct uuid *run)
{
    const struct run_heard heard = {.phase = "running", .cpu_ms = NUMBER_MAX, .device_ms = NUMBER_MAX};
    const struct run_holder holder = {.run = *run, .attempt = 1, .key = keys[0]};
    struct error err = {0};

    if (!run_heartbeat(stack->pg, &holder, &heard, &err).ok) fail_msg("%s", err.message);
}

static void fall_silent(const struct uuid *run, int seconds)
{
    char sql[300], id[UUID_TEXT_SIZE];

    uuid_format(run, id);
    (void)snprintf(sql, sizeof sql, "UPDATE run_attempt SET deadline = now() - interval '%d seconds' WHERE run_id = '%s'",
                   seconds, id);
    execute(sql);
}

static enum error_kind lose_all(size_t *count)
{
    struct error err = {0};

    *count = 0;
    return run_lose_due(stack->sequencer, stack->pg, count, &err).ok ? ERROR_NONE : err.kind;
}

static void no_attempt_uses_more_than_its_order_gives(void **state)
{
    const struct uuid run = leased_in("liar");
    size_t count = 0;

    (void)state;
    beat(&run);
    assert_string_equal(ask("SELECT cpu_ms BETWEEN 4000 AND 4 * 601000 AND device_ms = 0 FROM run_attempt a"
                            " JOIN run r USING (run_id) WHERE pool = 'liar'"),
                        "t");
    execute("UPDATE run SET devices = 2 WHERE pool = 'liar'");
    beat(&run);
    assert_string_equal(
        ask("SELECT device_ms BETWEEN 2000 AND 1202000 FROM run_attempt JOIN run r USING (run_id) WHERE pool = 'liar'"), "t");
    execute("UPDATE project_runs SET cpu_used_ms = 9223372036854775807, gpu_used_ms = 9007199254740990");
    fall_silent(&run, 1);
    assert_int_equal(lose_all(&count), ERROR_NONE);
    assert_int_equal(count, 1);
    assert_string_equal(ask("SELECT cpu_used_ms = 9007199254740991 AND gpu_used_ms = 9007199254740991 FROM project_runs"), "t");
}

/* The oldest can't be changed: the other is lost all the same, and the oldest is tried again. */
static void one_bad_run_does_not_stop_the_others(void **state)
{
    const struct uuid bad = leased_in("bad"), good = leased_in("good");
    size_t count = 0;

    (void)state;
    execute(
        "CREATE FUNCTION bad_run() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF (SELECT pool FROM run WHERE run_id = NEW.run_id) = 'bad' THEN RAISE numeric_value_out_of_range; END IF; RETURN NEW; END $$");
    execute("CREATE TRIGGER bad_run BEFORE UPDATE OF ended_at ON run_attempt FOR EACH ROW EXECUTE FUNCTION bad_run()");
    fall_silent(&bad, 20);
    fall_silent(&good, 10);
    assert_int_not_equal(lose_all(&count), ERROR_NONE);
    assert_string_equal(state_of(&bad), "leased");
    assert_string_equal(state_of(&good), "ordered");
    execute("DROP TRIGGER bad_run ON run_attempt; DROP FUNCTION bad_run()");
    assert_int_equal(lose_all(&count), ERROR_NONE);
    assert_int_equal(count, 1);
    assert_string_equal(state_of(&bad), "ordered");
}

/* ---- what is removed ---- */

/* A checkpoint, or a log, of a run that runner 0 has leased. Its repository and its key are of no interest, so they are not there. */
static struct uuid kept_in(const char *pool, const char *insert)
{
    const struct uuid run = leased_in(pool);
    char sql[900], id[UUID_TEXT_SIZE], where[UUID_TEXT_SIZE];

    uuid_format(&run, id);
    uuid_format(&project.project, where);
    (void)snprintf(sql, sizeof sql,
                   "SET session_replication_role = replica; %s FROM (SELECT '%s'::uuid AS run, '%s'::uuid AS project) r", insert,
                   id, where);
    execute(sql);
    return run;
}

/* The lease as sijil-keyd has signed it. */
static void sign(const struct uuid *run)
{
    char sql[9000], id[UUID_TEXT_SIZE];

    uuid_format(run, id);
    (void)snprintf(sql, sizeof sql, "UPDATE run_attempt SET lease = '%s' WHERE run_id = '%s'",
                   signed_lease(id, 1, keys[0], "keyd"), id);
    execute(sql);
}

static struct uuid with_checkpoint(const char *pool)
{
    return kept_in(
        pool,
        "INSERT INTO run_checkpoint (run_id, digest, attempt, key, repository_id, content_bytes, size_bytes, key_id, sealed)"
        " SELECT run, 'sha256:' || repeat('a', 64), 1, repeat('A', 43), gen_random_uuid(), 1, 2, gen_random_uuid(), ''");
}

/* One of three can't be removed: the others go all the same, and it is tried again. */
static void one_bad_checkpoint_does_not_keep_the_others(void **state)
{
    const struct run_withdrawal withdrawal = {.key = bytes_of_text(keys[0]), .runner = {{1}}, .reason = "stolen"};
    const struct run_withdrawals one = {1, &withdrawal, signer_of("keyd")};
    struct error err = {0};
    size_t count = 0;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const struct uuid run = with_checkpoint((const char *[]){"kept 1", "broken", "kept 2"}[i]);
        sign(&run);
    }
    execute(
        "CREATE FUNCTION bad_checkpoint() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF (SELECT pool FROM run WHERE run_id = OLD.run_id) = 'broken' THEN RAISE numeric_value_out_of_range; END IF; RETURN OLD; END $$");
    execute("CREATE TRIGGER bad_checkpoint BEFORE DELETE ON run_checkpoint FOR EACH ROW EXECUTE FUNCTION bad_checkpoint()");
    assert_false(run_checkpoint_forget_doubted(stack->sequencer, stack->pg, &one, &count, &err).ok);
    assert_string_equal(ask("SELECT string_agg(pool, ' ') FROM run_checkpoint JOIN run USING (run_id)"), "broken");
    execute("DROP TRIGGER bad_checkpoint ON run_checkpoint");
    must(run_checkpoint_forget_doubted(stack->sequencer, stack->pg, &one, &count, &err), &err);
    assert_int_equal(count, 1);
    assert_string_equal(ask("SELECT count(*) FROM run_checkpoint"), "0");
}

/* Somebody writes the row of an attempt with the gateways' role: an open run of another runner loses nothing when that key is withdrawn. */
static void a_forged_attempt_removes_no_checkpoint(void **state)
{
    const struct run_withdrawal withdrawal = {.key = bytes_of_text(keys[1]), .runner = {{1}}, .reason = "stolen"};
    const struct run_withdrawals one = {1, &withdrawal, signer_of("keyd")};
    const struct uuid run = with_checkpoint("forged");
    char sql[9000], id[UUID_TEXT_SIZE];
    struct error err = {0};
    size_t count = 9;

    (void)state;
    uuid_format(&run, id);
    sign(&run);
    (void)snprintf(
        sql, sizeof sql,
        "INSERT INTO run_attempt (run_id, attempt, node, runner, key, session, deadline, ends_at, lease) SELECT run_id, attempt, 1, runner, '%s',"
        " session, deadline, ends_at, lease FROM run_attempt WHERE run_id = '%s'",
        keys[1], id);
    execute(sql);
    must(run_checkpoint_forget_doubted(stack->sequencer, stack->pg, &one, &count, &err), &err);
    assert_int_equal(count, 0);
    assert_string_equal(ask("SELECT count(*) FROM run_checkpoint"), "1");
    const struct run_withdrawal own = {.key = bytes_of_text(keys[0]), .runner = {{1}}, .reason = "stolen"};
    const struct run_withdrawals owns = {1, &own, signer_of("keyd")};
    must(run_checkpoint_forget_doubted(stack->sequencer, stack->pg, &owns, &count, &err), &err);
    assert_int_equal(count, 1);
    assert_string_equal(ask("SELECT count(*) FROM run_checkpoint"), "0");
}

/* ---- whether a run is over ---- */

static size_t forget_due(void)
{
    struct error err = {0};
    size_t count = 9;

    must(run_checkpoint_forget_due(stack->sequencer, stack->pg, signer_of("keyd"), &count, &err), &err);
    return count;
}

/* The same in a repository that is there: only these are looked for. */
static struct uuid with_stored_checkpoint(const char *pool)
{
    const struct uuid run = with_checkpoint(pool);

    execute(
        "INSERT INTO repository (repository_id, project_id, name, full_name, label) SELECT gen_random_uuid(), project_id, 'trained', 'x/y/trained', '{}' FROM run LIMIT 1"
        " ON CONFLICT DO NOTHING");
    execute("UPDATE run_checkpoint SET repository_id = r.repository_id FROM repository r WHERE r.name = 'trained'");
    return run;
}

static void add_envelope(const char *run, const char *kind, const char *envelope)
{
    char sql[20000];

    (void)snprintf(sql, sizeof sql,
                   "DELETE FROM run_envelope WHERE run_id = '%s' AND kind = '%s'; INSERT INTO run_envelope (run_id, kind, digest,"
                   " principal, envelope) VALUES ('%s', '%s', sha256('x'), 'keyd', '%s')",
                   run, kind, run, kind, envelope);
    execute(sql);
}

#define LONG_AGO  "2020-01-01T00:00:00.000Z"
#define NOT_YET   "2999-01-01T00:00:00.000Z"
#define OTHER_RUN "11111111-2222-4333-8444-555555555555"

/* Somebody writes the row of a run with the gateways' role, and any envelope: only what sijil-keyd has signed of this run removes its checkpoint. */
static const struct end_case {
    const char *name, *kind, *of, *expires, *signer; /* of: a run's id; NULL: its own; kind NULL: no envelope */
    bool goes;
} end_cases[] = {
    {"nothing signed", NULL, NULL, NULL, NULL, false},
    {"an order that has ended", "order", NULL, LONG_AGO, "keyd", true},
    {"an order that goes on", "order", NULL, NOT_YET, "keyd", false},
    {"an order of another run", "order", OTHER_RUN, LONG_AGO, "keyd", false},
    {"an order that somebody else signed", "order", NULL, LONG_AGO, "requester", false},
    {"an admission", "admission", NULL, NULL, "keyd", true},
    {"an admission of another run", "admission", OTHER_RUN, NULL, "keyd", false},
    {"an admission that somebody else signed", "admission", NULL, NULL, "runner", false},
};

static void only_what_keyd_signed_ends_a_checkpoint(void **state)
{
    const struct end_case *row = *state;
    static const char *const states[] = {"succeeded", "failed", "cancelled", "expired", "refused", "quarantined"};
    const struct uuid run = with_stored_checkpoint(row->name);
    char sql[300], id[UUID_TEXT_SIZE];

    uuid_format(&run, id);
    const char *of = row->of != NULL ? row->of : id;
    if (row->kind != NULL)
        add_envelope(id, row->kind,
                     row->expires != NULL ? signed_order(of, row->expires, row->signer) : signed_admission(of, row->signer));
    assert_int_equal(forget_due(), 0); /* the run is open */
    for (size_t i = 0; i < COUNT(states) && !row->goes; i++) {
        (void)snprintf(sql, sizeof sql,
                       "ALTER TABLE run DISABLE TRIGGER USER; UPDATE run SET state = '%s', ended_at = now() - interval '31 days',"
                       " expires_at = now() - interval '31 days' WHERE run_id = '%s'; ALTER TABLE run ENABLE TRIGGER USER",
                       states[i], id);
        execute(sql);
        assert_int_equal(forget_due(), 0);
        assert_string_equal(ask("SELECT count(*) FROM run_checkpoint"), "1");
    }
    execute(
        "ALTER TABLE run DISABLE TRIGGER USER; UPDATE run SET state = 'succeeded', ended_at = now(); ALTER TABLE run ENABLE TRIGGER USER");
    assert_int_equal(forget_due(), row->goes ? 1 : 0);
    assert_string_equal(ask("SELECT count(*) FROM run_checkpoint"), row->goes ? "0" : "1");
    execute("DELETE FROM run_checkpoint");
}

/* More of them than are looked at in one round. */
static void forged_ends_keep_no_checkpoint_back(void **state)
{
    char id[UUID_TEXT_SIZE];

    (void)state;
    for (size_t i = 0; i < 101; i++) (void)with_stored_checkpoint("forged end");
    const struct uuid last = with_stored_checkpoint("over");
    uuid_format(&last, id);
    add_envelope(id, "admission", signed_admission(id, "keyd"));
    execute(
        "ALTER TABLE run DISABLE TRIGGER USER; UPDATE run SET state = 'succeeded', ended_at = now(); ALTER TABLE run ENABLE TRIGGER USER");
    assert_int_equal(forget_due(), 1);
    assert_string_equal(ask("SELECT count(*) FROM run_checkpoint JOIN run USING (run_id) WHERE pool = 'over'"), "0");
    assert_string_equal(ask("SELECT count(*) FROM run_checkpoint"), "101");
    execute("DELETE FROM run_checkpoint");
}

/* As if another gateway had been faster: its removal is not counted twice. */
static void a_log_that_is_gone_already_does_not_count(void **state)
{
    struct error err = {0};
    size_t count = 9;

    (void)state;
    (void)kept_in("log",
                  "INSERT INTO run_log (run_id, attempt, node, repository_id, project_id, region_id, bytes_max, pieces_due)"
                  " SELECT run, 1, 0, gen_random_uuid(), project, 'test/here', 10, now()");
    execute("CREATE FUNCTION keep_log() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$");
    execute("CREATE TRIGGER keep_log BEFORE UPDATE ON run_log FOR EACH ROW EXECUTE FUNCTION keep_log()");
    must(run_log_forget_due(stack->sequencer, stack->pg, &count, &err), &err);
    assert_int_equal(count, 0);
    execute("DROP TRIGGER keep_log ON run_log");
    must(run_log_forget_due(stack->sequencer, stack->pg, &count, &err), &err);
    assert_int_equal(count, 1);
}

/* ---- program and schema ---- */

static void insert_in(const char *name, bool is_end)
{
    char sql[500], id[UUID_TEXT_SIZE];

    uuid_format(&project.project, id);
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO run (run_id, project_id, state, request, requester, approvals_wanted, pool, expires_at, ended_at)"
                   " VALUES (gen_random_uuid(), '%s', '%s', sha256('x'), 'ext:x', 0, 'states', now() + interval '1 day', %s)",
                   id, name, is_end ? "now()" : "NULL");
    execute(sql);
}

/* A state needs a row of states.def and a migration: without the migration each move to it would fail. */
static void the_schema_knows_each_state(void **state)
{
    char count[12];

    (void)state;
#define STATE(constant, name, is_end) insert_in(name, is_end);
#include "training/states.def"
    (void)snprintf(count, sizeof count, "%d", RUN_STATE_COUNT);
    assert_string_equal(ask("SELECT count(*) FROM pg_constraint, regexp_matches(pg_get_constraintdef(oid), '''[a-z ]+''', 'g')"
                            " WHERE conname = 'run_state_check' AND conrelid = 'run'::regclass"),
                        count);
}

/* What the schema refuses is no success of another gateway: the round fails, and the log says why. */
static void a_state_that_the_schema_refuses_is_a_failure(void **state)
{
    const struct uuid due = leased_in("unknown");
    struct error err = {0};
    size_t count = 0;

    (void)state;
    execute("ALTER TABLE run ADD CONSTRAINT no_migration CHECK (pool <> 'unknown' OR state <> 'expired')");
    execute("UPDATE run SET expires_at = now() - interval '1 second' WHERE pool = 'unknown'");
    assert_false(run_expire_due(stack->sequencer, stack->pg, &count, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_non_null(strstr(err.message, "no_migration"));
    assert_string_equal(state_of(&due), "leased");
    execute("ALTER TABLE run DROP CONSTRAINT no_migration");
    assert_true(run_expire_due(stack->sequencer, stack->pg, &count, &err).ok);
    assert_int_equal(count, 1);
    assert_string_equal(state_of(&due), "expired");
}

/* An older gateway beside a newer one: it must not take such a run for one that has ended. */
static void a_state_of_a_newer_program_is_no_end(void **state)
{
    const struct uuid run = leased_in("newer");
    const struct run_holder holder = {.run = run, .attempt = 1, .key = keys[0]};
    OWNED(permit) *permit = stack_permit(stack, ACTION_RUN_READ, &project);
    const struct run_page page = {.before = INT64_MAX, .limit = 100};
    struct error err = {0};
    struct run_held held;
    struct run found, *runs = NULL;
    size_t count = 0;

    (void)state;
    execute("ALTER TABLE run DROP CONSTRAINT run_state_check");
    execute("UPDATE run SET state = 'of tomorrow' WHERE pool = 'newer'");
    assert_false(run_find(permit, stack->pg, ACTION_RUN_READ, &run, &found, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_false(run_list(permit, stack->pg, &page, &runs, &count, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_false(run_held_find(lookup_of(stack->pg), &holder, &held, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_non_null(strstr(err.message, "of tomorrow"));
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(the_schema_knows_each_state),
        cmocka_unit_test(a_state_that_the_schema_refuses_is_a_failure),
        cmocka_unit_test(no_attempt_uses_more_than_its_order_gives),
        cmocka_unit_test(one_bad_run_does_not_stop_the_others),
        cmocka_unit_test(one_bad_checkpoint_does_not_keep_the_others),
        cmocka_unit_test(a_forged_attempt_removes_no_checkpoint),
        cmocka_unit_test(forged_ends_keep_no_checkpoint_back),
        cmocka_unit_test(a_log_that_is_gone_already_does_not_count),
        cmocka_unit_test(a_state_of_a_newer_program_is_no_end), /* the last one: the constraint is gone afterwards */
    };
    struct CMUnitTest tests[COUNT(end_cases) + COUNT(others)];

    for (size_t i = 0; i < COUNT(end_cases); i++)
        tests[i] = (struct CMUnitTest){.name = end_cases[i].name,
                                       .test_func = only_what_keyd_signed_ends_a_checkpoint,
                                       .initial_state = (void *)(uintptr_t)&end_cases[i]};
    memcpy(tests + COUNT(end_cases), others, sizeof others);
    return cmocka_run_group_tests_name("rounds of training runs", tests, set_up, tear_down);
}
