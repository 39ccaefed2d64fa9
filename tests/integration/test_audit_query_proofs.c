/* The proof that an auditor gets, checked by sijil-verify and by foreign code. */
#include "tests/integration/audit_query_fixture.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit/format/leaf.h"
#include "audit/query.h"
#include "base/fault.h"
#include "base/file.h"
#include "tests/support/audit_log.h"

static int run(const char *command, ...) __attribute__((format(printf, 1, 2)));
static int run(const char *command, ...)
{
    char line[4096];
    va_list arguments;

    va_start(arguments, command);
    (void)vsnprintf(line, sizeof line, command, arguments);
    va_end(arguments);
    const int status = system(line);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static struct result prove_now(const struct audit_log *log, struct pg *pg, const struct permit *permit, uint64_t sequence,
                               struct buffer *proof, struct error *err)
{
    struct signed_checkpoint checkpoint;

    TRY(sequencer_checkpoint(log->sequencer, &checkpoint, err));
    return audit_prove(permit, pg, sequence, &checkpoint, proof, err);
}

static struct signed_checkpoint prove_when_signed(const struct audit_log *log, struct pg *pg, const struct permit *permit,
                                                  uint64_t sequence, struct buffer *proof)
{
    struct signed_checkpoint checkpoint = {0};
    struct error err = {0};

    for (unsigned tries = 0; tries < 100; tries++) {
        if (prove_now(log, pg, permit, sequence, proof, &err).ok) {
            assert_true(sequencer_checkpoint(log->sequencer, &checkpoint, &err).ok);
            return checkpoint;
        }
        assert_int_equal(err.kind, ERROR_UNAVAILABLE);
        (void)usleep(100000);
    }
    fail_msg("%s", err.message);
    return checkpoint;
}

#define VERIFY "'" SIJIL_VERIFY "' proof --key '%s' --entry %s/entry %s/proof >/dev/null 2>&1"

static void a_proof_is_checked_without_us(void **state)
{
    struct audit_log log;
    struct keyd_identity identity;
    struct error err = {0};
    char folder[] = "/tmp/sijil-test-proof.XXXXXX", path[64]; /* the folder and a name */

    (void)state;
    fill(&log);
    for (unsigned i = 10; i < 300; i++) record_about(&log, "acme/models/digits", "alice@example", VERDICT_ALLOW);
    assert_true(keyd_identify(keyd_process_client(log.keyd), &identity, &err).ok);
    assert_non_null(mkdtemp(folder));
    OWNED(pg) *pg = reader(&log);
    OWNED(permit) *permit = auditor(RESOURCE_SYSTEM, "");
    static const uint64_t sequences[] = {0, 7, 255, 256, 299};
    for (size_t i = 0; i < COUNT(sequences); i++) {
        struct buffer OWNED_BUFFER proof = BUFFER(65536);
        OWNED(audit_page) *page = NULL;
        (void)prove_when_signed(&log, pg, permit, sequences[i], &proof);
        assert_true(audit_find(permit, pg, sequences[i], &page, &err).ok);
        (void)snprintf(path, sizeof path, "%s/entry", folder);
        assert_true(file_replace(path, audit_page_leaf(page, 0), 0600, &err).ok);
        (void)snprintf(path, sizeof path, "%s/proof", folder);
        assert_true(file_replace(path, buffer_bytes(&proof), 0600, &err).ok);
        assert_int_equal(run(VERIFY, identity.log_vkey, folder, folder), 0);
        assert_int_equal(
            run("/usr/bin/python3 '%s' '%s' %s/entry %s/proof >/dev/null", AUDIT_LOG_PY, identity.log_vkey, folder, folder), 0);
        assert_int_equal(run("'" SIJIL_VERIFY "' proof --json --key '%s' --entry - %s/proof <%s/entry |"
                             " grep -q '\"verified\":true,.*\"index\":%u,'",
                             identity.log_vkey, folder, folder, (unsigned)sequences[i]),
                         0);
        /* One bit of the entry, another entry's proof, another key, no file. */
        assert_int_equal(run("sed -i 's/allowed/alloweD/; s/denied/denieD/' %s/entry", folder), 0);
        assert_int_equal(run(VERIFY, identity.log_vkey, folder, folder), 1);
    }
    assert_int_equal(run("sed -i 's/^index .*/index 3/' %s/proof", folder), 0);
    assert_int_equal(run(VERIFY, identity.log_vkey, folder, folder), 1);
    assert_int_equal(run(VERIFY, "sijil.example/audit+d589d843+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4", folder, folder), 1);
    assert_int_equal(run(VERIFY, "nonsense", folder, folder), 2);
    assert_int_equal(
        run("'" SIJIL_VERIFY "' proof --key '%s' --entry %s/none %s/proof 2>/dev/null", identity.log_vkey, folder, folder), 2);
    assert_int_equal(run("'" SIJIL_VERIFY "' proof 2>/dev/null"), 2);
    assert_int_equal(run("rm -r %s", folder), 0);
    audit_log_close(&log);
}

/* The right to certificates of deletion does not allow to read other events. */
static void only_a_forgotten_key_has_an_entry_for_its_certificate(void **state)
{
    struct audit_log log;
    struct buffer OWNED_BUFFER signed_by_now = BUFFER(65536);
    struct error err = {0};

    (void)state;
    fill(&log);
    record_of(&log, ACTION_KEY_FORGOTTEN, "acme/models/digits", "alice@example", VERDICT_ALLOW);
    OWNED(pg) *pg = reader(&log);
    OWNED(permit) *asker = auditor(RESOURCE_SYSTEM, "");
    OWNED(permit) *permit = permitted(ACTION_DELETION_CERTIFY, RESOURCE_PROJECT, "acme/models");
    OWNED(permit) *other = permitted(ACTION_DELETION_CERTIFY, RESOURCE_PROJECT, "beta/models");
    const struct signed_checkpoint checkpoint = prove_when_signed(&log, pg, asker, 10, &signed_by_now);
    for (uint64_t sequence = 0; sequence <= 11; sequence++) {
        struct buffer OWNED_BUFFER entry = BUFFER(LEAF_MAX);
        struct buffer OWNED_BUFFER proof = BUFFER(65536);
        const bool ok = audit_prove_deletion(permit, pg, sequence, &checkpoint, &(struct proven_entry){&entry, &proof}, &err).ok;
        if (!ok) assert_int_equal(err.kind, ERROR_NOT_FOUND);
        assert_int_equal(ok, sequence == 10);
        assert_int_equal(entry.length > 0 && proof.length > 0, ok);
        if (ok) assert_non_null(strstr(buffer_text(&entry), "\"key.forgotten\""));
        assert_false(audit_prove_deletion(other, pg, sequence, &checkpoint, &(struct proven_entry){&entry, &proof}, &err).ok);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
    }
    audit_log_close(&log);
}

/* A proof leads to a signed log, so an entry after the last signature, or before the first, has no proof yet. */
static void what_is_not_signed_has_no_proof_yet(void **state)
{
    struct audit_log log;
    struct error err = {0};
    struct buffer OWNED_BUFFER proof = BUFFER(65536);

    (void)state;
    fill(&log);
    OWNED(pg) *pg = reader(&log);
    OWNED(permit) *permit = auditor(RESOURCE_SYSTEM, "");
    (void)prove_when_signed(&log, pg, permit, 9, &proof);
    buffer_clear(&proof);
    keyd_process_pause(log.keyd, true);
    record_about(&log, "acme/models/digits", "alice@example", VERDICT_ALLOW);
    assert_false(prove_now(&log, pg, permit, 10, &proof, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "not signed yet"));
    keyd_process_pause(log.keyd, false);
    /* No code relies on the table of checkpoints. */
    database_execute(log.database, "DELETE FROM audit_checkpoint");
    (void)prove_when_signed(&log, pg, permit, 10, &proof);
    audit_log_close(&log);
}

struct reading {
    struct audit_log *log;
    struct pg *pg;
    struct permit *auditor, *certifier;
    struct signed_checkpoint checkpoint;
};

static struct result read_all(const struct reading *reading, struct error *err)
{
    const struct audit_filter filter = {.until = INT64_MAX, .limit = 20};
    struct keyd_client *keyd = keyd_process_client(reading->log->keyd);
    struct buffer OWNED_BUFFER proof = BUFFER(65536), entry = BUFFER(LEAF_MAX), other = BUFFER(65536), payload = BUFFER(65536);
    OWNED(audit_page) *page = NULL;
    OWNED(audit_page) *found = NULL;

    TRY_UNTOUCHED_BYTES(page, audit_list(reading->auditor, reading->pg, &filter, &page, err));
    for (size_t i = 0; i < audit_page_count(page); i++) assert_true(audit_page_is_readable(page, i)); /* memory or none */
    TRY_UNTOUCHED_BYTES(found, audit_find(reading->auditor, reading->pg, 5, &found, err));
    assert_true(audit_page_is_readable(found, 0));
    TRY_UNTOUCHED(payload.length, audit_page_payload(found, 0, keyd, TEST_ORIGIN, &payload, err));
    TRY(audit_prove(reading->auditor, reading->pg, 5, &reading->checkpoint, &proof, err));
    TRY_UNTOUCHED(entry.length, audit_prove_deletion(reading->certifier, reading->pg, 10, &reading->checkpoint,
                                                     &(struct proven_entry){&entry, &other}, err));
    return SUCCESS;
}

static void reading_survives_every_failure(void **state)
{
    struct audit_log log;
    struct buffer OWNED_BUFFER first = BUFFER(65536);
    unsigned long nth = 1, failures = 0;

    (void)state;
    fill(&log);
    record_of(&log, ACTION_KEY_FORGOTTEN, "acme/models/digits", "alice@example", VERDICT_ALLOW);
    OWNED(pg) *pg = reader(&log);
    OWNED(permit) *permit = auditor(RESOURCE_SYSTEM, "");
    OWNED(permit) *certifier = permitted(ACTION_DELETION_CERTIFY, RESOURCE_PROJECT, "acme/models");
    const struct reading reading = {&log, pg, permit, certifier, prove_when_signed(&log, pg, permit, 10, &first)};
    sequencer_free(log.sequencer); /* its threads would take the faults */
    log.sequencer = NULL;
    for (bool has_fired = true; has_fired; nth++) {
        struct error err = {0};
        if (pg_is_broken(pg)) assert_true(pg_reopen(pg, &err).ok);
        fault_arm(nth);
        const bool ok = read_all(&reading, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        assert_true(ok || (has_fired && err.message[0] != '\0'));
        failures += !ok; /* a connection to keyd that breaks is made once more */
    }
    assert_failures(failures, 40);
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_proof_is_checked_without_us),
        cmocka_unit_test(only_a_forgotten_key_has_an_entry_for_its_certificate),
        cmocka_unit_test(what_is_not_signed_has_no_proof_yet),
        cmocka_unit_test(reading_survives_every_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
