/* Re-wraps, destroyed versions and scheduled scrubs, against a real database and key process. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/text.h"
#include "registry/jobs/maintenance.h"
#include "registry/jobs/rewrap_store.h"
#include "registry/maintenance.h"
#include "registry/registry_priv.h"
#include "registry/upload/piece.h"
#include "tests/integration/job_fixture.h"
#include "tests/support/keyd_daemon.h"

/* On a slow machine keyd is away for so long that the log is unsigned for more than the five seconds that it may be. */
static void wait_until_served(void)
{
    struct error err = {0};

    for (int tries = 0; !sequencer_is_ready(fixture.stack->sequencer, &err); tries++) {
        if (tries == 300) fail_msg("the log is not signed again: %s", err.message);
        (void)usleep(100000);
    }
}

static int keyd_run(const char *option, const char *value, char *said, size_t room)
{
    const char *const options[] = {option, value, NULL};
    const int status = keyd_process_run(fixture.stack->log.keyd, options, said, room);

    wait_until_served();
    return status;
}

static void keys_are_wrapped_anew_while_they_are_used(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "rewrap");
    char digest[DIGEST_TEXT_SIZE], said[2048];
    struct keyd_identity identity;

    (void)state;
    fixture_push(&where, 700, ARTIFACTS, digest);
    const struct upload_begin begun = fixture_begin(&where); /* a session that stays open during the whole test */
    assert_int_equal(keyd_run("--destroy-version", "1", said, sizeof said), 1);
    assert_non_null(strstr(said, "may be in use"));
    assert_int_equal(keyd_run("--add-version", NULL, said, sizeof said), 0);
    assert_string_equal(ask("SELECT count(*) FROM blob WHERE key_version = 2"), "0");

    const struct job job = {.kind = JOB_REWRAP};
    const struct uuid id = begin(&job);
    struct stopper stopper = {.after = 3}; /* once in the middle */
    assert_true(work_as(fixture.registry, JOB_REWRAP, &stopper));
    assert_string_equal(look(&id).outcome, "");
    assert_int_equal(keyd_run("--destroy-version", "1", said, sizeof said), 1);
    work(JOB_REWRAP);
    assert_string_equal(look(&id).outcome, "completed");
    assert_int_equal(look(&id).found, 0);
    assert_true(look(&id).done > 2 && look(&id).done == look(&id).total);
    assert_string_equal(ask("SELECT (SELECT count(*) FROM blob WHERE key_version = 1)"
                            " + (SELECT count(*) FROM project_key WHERE key_version = 1)"
                            " + (SELECT count(*) FROM upload WHERE key_version = 1)"),
                        "0");
    MUST(keyd_identify(fixture.stack->keyd, &identity, &err));
    assert_true(identity.unused_below == 2 && identity.key_version == 2 && identity.version_count == 2);
    fixture_check(&where, 700, ARTIFACTS);

    /* A session that was begun under the old version ends under the new one. */
    struct job_recorder recorder;
    OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);
    uint8_t *content = fixture_content(701, 1000, digest);
    struct digest parsed;
    MUST(digest_parse(bytes_of_text(digest), &parsed, &err));
    MUST(upload_claim(upload, fixture.stack->pg, &err));
    MUST(upload_write(upload, (struct bytes){content, 1000}, &err));
    MUST(upload_commit(upload, fixture.stack->pg, &parsed, &recorder.recorder, &err));
    free(content);
    assert_string_equal(ask_of("key_version", digest), "2");
}

static void a_destroyed_version_is_gone_and_the_rest_reads(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "rewrap");
    char said[2048];
    struct keyd_identity identity;

    (void)state;
    assert_int_equal(keyd_run("--destroy-version", "2", said, sizeof said), 1);
    assert_int_equal(keyd_run("--destroy-version", "3", said, sizeof said), 1);
    assert_int_equal(keyd_run("--destroy-version", "1", said, sizeof said), 0);
    assert_non_null(strstr(said, "version 1 is destroyed"));
    assert_int_equal(keyd_run("--destroy-version", "1", said, sizeof said), 1);
    MUST(keyd_identify(fixture.stack->keyd, &identity, &err));
    assert_true(identity.version_count == 1 && identity.versions[0] == 2);
    fixture_restart(); /* no key is left in memory */
    fixture_check(&where, 700, ARTIFACTS);
    const struct uuid id = begin_scrub(true);
    work(JOB_SCRUB);
    assert_int_equal(look(&id).found, 0);
}

static void a_key_that_is_lost_is_a_finding(void **state)
{
    char digest[DIGEST_TEXT_SIZE];
    struct resource where = fixture_repository(&fixture.models, "lost");
    size_t count = 0;

    (void)state;
    fixture_push(&where, 800, 1000, digest);
    fixture_restart();
    execute("UPDATE blob SET key_version = 1 WHERE size_bytes = 1000"
            " AND digest = (SELECT digest FROM blob ORDER BY created_at DESC LIMIT 1)");
    const struct uuid id = begin_scrub(false);
    work(JOB_SCRUB);
    struct job_finding *findings = findings_of(&id, &count);
    assert_int_equal(count, 1);
    assert_int_equal(findings[0].kind, FINDING_KEY);
    assert_non_null(strstr(findings[0].detail, "version 1, which was destroyed"));
    free(findings);
    assert_string_equal(ask("SELECT count(*) FROM blob WHERE damaged_at IS NOT NULL"), "0");
    const struct job job = {.kind = JOB_REWRAP};
    const struct uuid rewrap = begin(&job);
    work(JOB_REWRAP);
    assert_string_equal(look(&rewrap).outcome, "completed");
    assert_int_equal(look(&rewrap).found, 1);
    execute("UPDATE blob SET key_version = 2");
}

/* Each sijil-keyd counts its versions by itself, so the main one's newest says nothing about keys of a region that has one of its own. */
static void keys_of_another_ring_are_left_alone(void **state)
{
    const struct job job = {.kind = JOB_REWRAP};
    struct key_count counts[KEY_COUNTS_MAX];
    size_t count = 0;

    (void)state;
    execute("UPDATE blob SET key_version = 1");
    execute("UPDATE region SET keyd = repeat('k', 43)");
    const struct uuid id = begin(&job);
    work(JOB_REWRAP);
    assert_string_equal(look(&id).outcome, "completed");
    assert_int_equal(look(&id).found, 0);
    assert_string_equal(ask("SELECT count(*) FROM blob WHERE key_version <> 1"), "0");
    MUST(rewrap_count(fixture.stack->pg, ask("SELECT region_id FROM blob LIMIT 1"), counts, &count, &err));
    assert_true(count >= 1 && counts[0].version == 1 && counts[0].keys[KEYS_OF_BLOBS] > 0);
    execute("UPDATE region SET keyd = NULL");
    execute("UPDATE blob SET key_version = 2");
}

static bool is_rotated_meanwhile;

/* Called when the copy's key is drawn, before the first byte is copied. NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
RESULT __wrap_abandoned_reserve(struct pg *pg, const struct uuid *blob, const char *region, struct error *err);
RESULT __real_abandoned_reserve(struct pg *pg, const struct uuid *blob, const char *region, struct error *err);
struct result __wrap_abandoned_reserve(struct pg *pg, const struct uuid *blob, const char *region, struct error *err)
{
    const struct job job = {.kind = JOB_REWRAP};
    char said[2048];

    if (is_rotated_meanwhile) {
        assert_int_equal(keyd_run("--add-version", NULL, said, sizeof said), 0);
        const struct uuid id = begin(&job);
        work(JOB_REWRAP);
        assert_string_equal(look(&id).outcome, "completed");
    }
    return __real_abandoned_reserve(pg, blob, region, err);
} /* NOLINTEND(bugprone-reserved-identifier) */

/*
 * If a client closes with a sha512 that it did not announce, the bytes are copied, perhaps for hours. The copy's key was wrapped
 * before and was in no row that a re-wrap could see, so it was lost with the version that seemed unused.
 */
static void a_copy_outlives_the_version_it_began_under(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "copied");
    char sha256[DIGEST_TEXT_SIZE], text[DIGEST_TEXT_SIZE], said[2048];
    uint8_t *content = fixture_content(900, ARTIFACTS, sha256);
    const struct digest digest = digest_of(DIGEST_SHA512, (struct bytes){content, ARTIFACTS});
    const struct upload_begin begun = fixture_begin(&where);
    struct job_recorder recorder;
    OWNED(upload) *upload = fixture_find(fixture.registry, &begun, &recorder);

    (void)state;
    digest_format(&digest, text);
    MUST(upload_claim(upload, fixture.stack->pg, &err));
    MUST(upload_write(upload, (struct bytes){content, ARTIFACTS}, &err));
    is_rotated_meanwhile = true;
    MUST(upload_commit(upload, fixture.stack->pg, &digest, &recorder.recorder, &err));
    is_rotated_meanwhile = false;
    assert_int_equal(keyd_run("--destroy-version", "2", said, sizeof said), 0);
    registry_forget_keys(fixture.registry);
    fixture_check_as(&where, text, content, ARTIFACTS);
    free(content);
}

/* ---- logs of training runs ---- */

#define LOGS   2 /* of a run that goes on, and of one that has ended */
#define PIECES 3

static const char *const run_ids[LOGS] = {"00000000-0000-4000-8000-0000000000c1", "00000000-0000-4000-8000-0000000000c2"};
static struct sealed_piece log_pieces[LOGS][PIECES];

static void line_of(int run, int piece, char line_out[64])
{
    (void)snprintf(line_out, 64, "run %d, piece %d\n", run, piece);
}

static void make_log(const struct resource *where, int run)
{
    char sql[2000];

    (void)snprintf(
        sql, sizeof sql,
        "INSERT INTO run (run_id, project_id, state, request, requester, approvals_wanted, pool, expires_at, attempts, attempt)"
        " SELECT '%s', project_id, 'running', sha256('x'), 'robot', 0, 'default', now() + interval '1 day', 3, 1 FROM repository"
        " WHERE full_name = '%s';"
        "INSERT INTO run_attempt (run_id, attempt, node, runner, key, session, deadline, ends_at) VALUES ('%s', 1, 0, '%s',"
        " repeat('k', 43), decode(repeat('00', 16), 'hex'), now() + interval '1 hour', now() + interval '1 hour');"
        "INSERT INTO run_log (run_id, attempt, node, repository_id, project_id, region_id, bytes_max, reserved_bytes)"
        " SELECT '%s', 1, 0, repository_id, project_id, '%s', 1000, 1000 FROM repository WHERE full_name = '%s'",
        run_ids[run], where->name, run_ids[run], run_ids[run], run_ids[run], where->region, where->name);
    execute(sql);
}

/* As run_log_append() does, in training/. */
static void append(const struct resource *where, int run, int piece)
{
    struct sealed_piece *sealed = &log_pieces[run][piece];
    char line[64], id[UUID_TEXT_SIZE], wrapped[2 * WRAPPED_KEY_MAX + 1], commitment[65], sql[2000];

    line_of(run, piece, line);
    MUST(piece_seal(fixture.registry, fixture.stack->pg, where, bytes_of_text(line), sealed, &err));
    uuid_format(&sealed->key.id, id);
    text_hex(sealed->key.wrapped.bytes, sealed->key.wrapped.length, wrapped);
    text_hex(sealed->key.commitment, 32, commitment);
    (void)snprintf(
        sql, sizeof sql,
        "INSERT INTO run_log_piece SELECT run_id, attempt, node, %d, %zu, '%s', project_id, region_id, '%s', %llu, %u, %u,"
        " decode('%s', 'hex'), decode('%s', 'hex') FROM run_log WHERE run_id = '%s'",
        piece * 100, strlen(line), id, sealed->digest, (unsigned long long)sealed->content.length, sealed->content.part,
        sealed->key.wrapped.version, wrapped, commitment, run_ids[run]);
    execute(sql);
}

/* With the key as the row has it now. */
static void must_read(const struct resource *where, int run, int piece)
{
    struct sealed_piece sealed = log_pieces[run][piece];
    char line[64], id[UUID_TEXT_SIZE], sql[200];
    struct buffer OWNED_BUFFER into = BUFFER(PIECE_MAX);

    line_of(run, piece, line);
    uuid_format(&sealed.key.id, id);
    (void)snprintf(sql, sizeof sql, "SELECT encode(wrapped_key, 'hex') FROM run_log_piece WHERE blob_id = '%s'", id);
    const char *hex = ask(sql);
    sealed.key.wrapped.length = (uint16_t)(strlen(hex) / 2);
    assert_true(text_from_hex(bytes_of_text(hex), sealed.key.wrapped.bytes, sealed.key.wrapped.length));
    (void)snprintf(sql, sizeof sql, "SELECT key_version FROM run_log_piece WHERE blob_id = '%s'", id);
    sealed.key.wrapped.version = (uint32_t)strtoul(ask(sql), NULL, 10);
    const struct piece_range range = {0, strlen(line)};
    MUST(piece_read(fixture.registry, where, &sealed, &range, &into, &err));
    assert_true(bytes_equal(buffer_bytes(&into), bytes_of_text(line)));
}

static void keys_of_logs_are_wrapped_anew(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "rewrap");
    char said[2048], version[16], sql[400];
    struct keyd_identity identity;
    const struct job job = {.kind = JOB_REWRAP};

    (void)state;
    where.organisation = fixture.organisation;
    MUST(keyd_identify(fixture.stack->keyd, &identity, &err));
    (void)snprintf(version, sizeof version, "%u", identity.key_version);
    for (int run = 0; run < LOGS; run++) {
        make_log(&where, run);
        for (int piece = 0; piece < PIECES - 1; piece++) append(&where, run, piece);
    }
    (void)snprintf(sql, sizeof sql,
                   "UPDATE run SET state = 'failed', ended_at = now() WHERE run_id = '%s';"
                   "UPDATE run_attempt SET ended_at = now(), outcome = 'lost' WHERE run_id = '%s'",
                   run_ids[1], run_ids[1]);
    execute(sql);
    assert_int_equal(keyd_run("--add-version", NULL, said, sizeof said), 0);
    for (int run = 0; run < LOGS; run++) append(&where, run, PIECES - 1); /* under the new version */
    assert_int_equal(keyd_run("--destroy-version", version, said, sizeof said), 1);
    const struct uuid id = begin(&job);
    work(JOB_REWRAP);
    assert_string_equal(look(&id).outcome, "completed");
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FILTER (WHERE key_version = %s) || ' ' || count(*) FROM run_log_piece",
                   version);
    assert_string_equal(ask(sql), "0 6");
    assert_int_equal(keyd_run("--destroy-version", version, said, sizeof said), 0);
    fixture_restart(); /* no key is left in memory */
    for (int run = 0; run < LOGS; run++)
        for (int piece = 0; piece < PIECES; piece++) must_read(&where, run, piece);
}

struct mending {
    unsigned asked, due;
};

static bool mends_it(void *context)
{
    struct mending *mending = context;

    if (++mending->asked == mending->due)
        execute("UPDATE blob SET wrapped_key = set_byte(wrapped_key, 20, get_byte(wrapped_key, 20) # 1)");
    return false;
}

/* A re-wrap replaces the key of a blob after its page was read: the old key, whose version is destroyed, was a finding. */
static void a_key_that_was_wrapped_anew_is_read_anew(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "scrub/anew");
    char digest[DIGEST_TEXT_SIZE];

    (void)state;
    fixture_push(&where, 800, 10, digest);
    for (unsigned due = 1; due <= 2; due++) { /* before the page is read, and after it */
        struct mending mending = {.due = due};
        const struct job_options options = {.kind = JOB_SCRUB, .instance = "gw1", .is_stopping = mends_it, .context = &mending};
        struct mending breaking = {.due = 1};
        const struct uuid id = begin_scrub(false);
        bool worked = false;
        (void)mends_it(&breaking);
        MUST(registry_work(fixture.registry, fixture.stack->pg, &options, &worked, &err));
        assert_string_equal(look(&id).outcome, "completed");
        assert_int_equal(look(&id).found, 0);
    }
}

/* By default content was never read again, unless an operator began a scrub. */
static void scrubs_begin_by_themselves(void **state)
{
    const struct scrub_schedule weekly = {.interval_s = 604800, .rate_bytes = 1 << 30}, parallel = {0, 1 << 30};
    static const char count[] = "SELECT count(*) FROM job WHERE kind = 'scrub' AND region_id = '" TEST_REGION "'";

    (void)state;
    execute("DELETE FROM job");
    MUST(job_begin_scrubs_if_due(fixture.registry, fixture.stack->pg, &weekly, &err));
    assert_string_equal(ask(count), "1");
    MUST(job_begin_scrubs_if_due(fixture.registry, fixture.stack->pg, &weekly, &err));
    assert_string_equal(ask(count), "1"); /* not again for a week */
    MUST(job_begin_scrubs_if_due(fixture.registry, fixture.stack->pg, &parallel, &err));
    assert_string_equal(ask(count), "1"); /* nor beside one that is not over */
    work(JOB_SCRUB);
    assert_string_equal(ask("SELECT outcome FROM job WHERE kind = 'scrub'"), "completed");
    execute("UPDATE job SET requested_at = now() - interval '8 days'");
    MUST(job_begin_scrubs_if_due(fixture.registry, fixture.stack->pg, &weekly, &err));
    assert_string_equal(ask(count), "2");
    work(JOB_SCRUB);
}

/* ---- a region with a sijil-keyd of its own ---- */

static struct keyd_daemon ring;
static char main_key[64]; /* the path of a file */

static void tell_ring(void)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(16384);
    struct region_keys *keys = &fixture.registry->key_places[0];
    char key[ECDSA_THUMBPRINT_SIZE];
    struct document_pin pin;

    MUST(keyd_ask_current(fixture.stack->keyd, &envelope, &err));
    MUST(keyd_region_hand(fixture.stack->keyd, TEST_REGION, buffer_bytes(&envelope), &pin, &err));
    MUST(keyd_ask_place(fixture.stack->keyd, TEST_REGION, &keys->place, key, &err));
    assert_true(keys->place.is_current);
}

static void begin_ring(void)
{
    struct buffer OWNED_BUFFER pem = BUFFER(ECDSA_PEM_MAX);
    struct region_keys keys = {.id = TEST_REGION, .is_open = true, .is_reached = true};
    struct keyd_identity identity;
    OWNED(ecdsa_key) *key = NULL;
    char origin[256], said[512];

    MUST(keyd_identify(fixture.stack->keyd, &identity, &err));
    MUST(ecdsa_key_from_public(identity.document_public, &key, &err));
    MUST(ecdsa_key_public_pem(key, &pem, &err));
    (void)snprintf(origin, sizeof origin, "%s#region=%s", identity.origin, TEST_REGION);
    keyd_daemon_prepare(&ring, origin);
    (void)snprintf(main_key, sizeof main_key, "%s.pem", ring.folder);
    FILE *file = fopen(main_key, "we");
    assert_true(file != NULL && fwrite(pem.data, 1, pem.length, file) == pem.length && fclose(file) == 0);
    const char *const trust[] = {"--main-key", main_key, "--passphrase-file", ring.passphrase, NULL};
    assert_int_equal(keyd_daemon_run(&ring, trust, said, sizeof said), 0);
    keyd_daemon_start(&ring, NULL);
    MUST(keyd_region_use(fixture.stack->keyd, TEST_REGION, ring.socket, &err));
    keyd_region_open(fixture.stack->keyd, TEST_REGION);
    fixture.registry->key_places[0] = keys; /* as registry_follow_keys() does with a policy set */
    fixture.registry->key_count = 1;
    fixture.registry->recorded.keyd_folder = ring.folder;
    tell_ring();
}

/* It is the last test: what was in the region before is under the main one. */
static void keys_of_a_region_are_wrapped_by_its_own(void **state)
{
    struct resource where = fixture_repository(&fixture.models, "ring");
    const struct job job = {.kind = JOB_REWRAP};
    char digest[DIGEST_TEXT_SIZE], said[512];

    (void)state;
    execute("UPDATE blob SET key_version = 50"); /* not to be touched here */
    execute("UPDATE project_key SET key_version = 50");
    execute("UPDATE upload SET key_version = 50");
    execute("UPDATE run_log_piece SET key_version = 50");
    execute("UPDATE region SET keyd = repeat('k', 43)");
    begin_ring();
    fixture_push(&where, 900, 1000, digest);
    assert_string_equal(ask_of("key_version", digest), "1");
    assert_true(keyd_daemon_end(&ring, SIGTERM) == 0);
    const char *const add[] = {"--add-version", "--passphrase-file", ring.passphrase, NULL};
    assert_int_equal(keyd_daemon_run(&ring, add, said, sizeof said), 0);
    keyd_daemon_start(&ring, NULL);
    tell_ring();
    const struct uuid id = begin(&job);
    work(JOB_REWRAP);
    assert_string_equal(look(&id).outcome, "completed");
    assert_int_equal(look(&id).found, 0);
    assert_string_equal(ask_of("key_version", digest), "2");
    tell_ring();
    assert_int_equal(fixture.registry->key_places[0].place.unused_below, 2);
    registry_forget_keys(fixture.registry);
    fixture_check(&where, 900, 1000);
    (void)unlink(main_key);
    keyd_daemon_remove(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scrubs_begin_by_themselves),
        cmocka_unit_test(keys_are_wrapped_anew_while_they_are_used),
        cmocka_unit_test(a_destroyed_version_is_gone_and_the_rest_reads),
        cmocka_unit_test(a_key_that_is_lost_is_a_finding),
        cmocka_unit_test(keys_of_another_ring_are_left_alone),
        cmocka_unit_test(a_copy_outlives_the_version_it_began_under),
        cmocka_unit_test(a_key_that_was_wrapped_anew_is_read_anew),
        cmocka_unit_test(keys_of_logs_are_wrapped_anew),
        cmocka_unit_test(keys_of_a_region_are_wrapped_by_its_own),
    };

    return cmocka_run_group_tests_name("rewrap", tests, fixture_set_up, fixture_tear_down);
}
