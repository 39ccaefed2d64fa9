/* What an auditor reads, and the proof that he takes home: checked by sijil-verify and by code that is not ours. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit/event_priv.h"
#include "audit/query.h"
#include "base/fault.h"
#include "tests/support/audit_log.h"

static const struct pg_table *const reader_tables[] = {&audit_query_table, &audit_tree_table, NULL};

static struct permit *permitted(enum action action, enum resource_kind kind, const char *name)
{
    struct decision_parts parts = {.verdict = VERDICT_ALLOW, .epoch = TEST_EPOCH, .pair_count = 1};
    OWNED(decision) *decision = NULL;
    struct permit *permit = NULL;
    struct error err = {0};

    parts.pairs[0].action = action;
    parts.pairs[0].resource.kind = kind;
    (void)snprintf(parts.pairs[0].resource.name, sizeof parts.pairs[0].resource.name, "%s", name);
    assert_true(decision_make(&parts, &decision, &err).ok && permit_make(decision, &permit, &err).ok);
    return permit;
}

static struct permit *auditor(enum resource_kind kind, const char *name)
{
    return permitted(ACTION_AUDIT_READ, kind, name);
}

static struct pg *reader(const struct audit_log *log)
{
    struct pg *pg = NULL;
    struct error err = {0};

    if (!pg_open(database_app(log->database), reader_tables, &pg, &err).ok) fail_msg("%s", err.message);
    return pg;
}

static void record_of(struct audit_log *log, enum action action, const char *name, const char *subject, enum verdict verdict)
{
    struct decision_parts parts = {.verdict = verdict,
                                   .epoch = TEST_EPOCH,
                                   .pair_count = 1,
                                   .denial_count = verdict == VERDICT_ALLOW ? 0 : 1,
                                   .denials = {{.rule = "R"}}};
    struct record record = {.context = {.issuer = "https://issuer.example",
                                        .subject = subject,
                                        .client_address = "192.0.2.7",
                                        .user_agent = "a \"quoted\" agent",
                                        .request_id = "r"}};
    struct error err = {0};

    parts.pairs[0] = (struct action_pair){action, {.kind = RESOURCE_REPOSITORY}};
    (void)snprintf(parts.pairs[0].resource.name, sizeof parts.pairs[0].resource.name, "%s", name);
    assert_true(decision_make(&parts, &record.decision, &err).ok);
    sequencer_submit_and_wait(log->sequencer, &record);
    assert_int_equal(record.status, RECORD_DONE);
    record_done(&record);
}

static void record_about(struct audit_log *log, const char *name, const char *subject, enum verdict verdict)
{
    record_of(log, ACTION_BLOB_READ, name, subject, verdict);
}

/* Events 0 to 9: two organisations, three projects, two subjects. */
static void fill(struct audit_log *log)
{
    static const char *const names[] = {"acme/models/digits", "acme/models/fraud", "acme/data/scans", "beta/models/other"};

    audit_log_open(log);
    for (unsigned i = 0; i < 10; i++)
        record_about(log, names[i % 4], i % 2 == 0 ? "alice@example" : "bob@example", i == 7 ? VERDICT_HIDE : VERDICT_ALLOW);
}

static const struct list_row {
    const char *name;
    enum resource_kind kind;
    const char *scope;
    struct audit_filter filter;
    const char *expected; /* sequence numbers */
} list_rows[] = {
    {"newest first", RESOURCE_SYSTEM, "", {.until = INT64_MAX, .limit = 4}, "9 8 7 6 "},
    {"the page after it", RESOURCE_SYSTEM, "", {.until = 6, .limit = 4}, "5 4 3 2 "},
    {"oldest first", RESOURCE_SYSTEM, "", {.ascending = true, .from = 3, .until = INT64_MAX, .limit = 3}, "3 4 5 "},
    {"of one repository", RESOURCE_SYSTEM, "", {.key = "res:acme/models/fraud", .until = INT64_MAX, .limit = 9}, "9 5 1 "},
    {"denials", RESOURCE_SYSTEM, "", {.key = "out:denied", .until = INT64_MAX, .limit = 9}, "7 "},
    {"nothing there", RESOURCE_SYSTEM, "", {.key = "res:nobody", .until = INT64_MAX, .limit = 9}, ""},
    {"an organisation's auditor", RESOURCE_ORGANISATION, "beta", {.until = INT64_MAX, .limit = 9}, "7 3 "},
    {"a project's auditor", RESOURCE_PROJECT, "acme/models", {.ascending = true, .until = INT64_MAX, .limit = 9}, "0 1 4 5 8 9 "},
    {"inside his project", RESOURCE_PROJECT, "acme/models", {.key = "res:acme/models/fraud", .until = 9, .limit = 9}, "5 1 "},
    {"outside his project", RESOURCE_PROJECT, "acme/models", {.key = "res:beta/models/other", .until = 9, .limit = 9}, ""},
    {"denials of others", RESOURCE_ORGANISATION, "acme", {.key = "out:denied", .until = INT64_MAX, .limit = 9}, ""},
};

static void auditors_see_what_is_theirs(void **state)
{
    struct audit_log log;
    struct error err = {0};

    (void)state;
    fill(&log);
    OWNED(pg) *pg = reader(&log);
    for (size_t i = 0; i < COUNT(list_rows); i++) {
        const struct list_row *row = &list_rows[i];
        OWNED(permit) *permit = auditor(row->kind, row->scope);
        OWNED(audit_page) *page = NULL;
        char found[64] = ""; /* ten numbers */
        if (!audit_list(pg, permit, &row->filter, &page, &err).ok) fail_msg("%s: %s", row->name, err.message);
        for (size_t k = 0; k < audit_page_count(page); k++)
            (void)snprintf(found + strlen(found), sizeof found - strlen(found), "%u ", (unsigned)audit_page_sequence(page, k));
        if (strcmp(found, row->expected) != 0) fail_msg("%s: %s, not %s", row->name, found, row->expected);
    }
    OWNED(permit) *other = auditor(RESOURCE_ORGANISATION, "beta");
    OWNED(audit_page) *page = NULL;
    assert_false(audit_find(pg, other, 0, &page, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    assert_true(audit_find(pg, other, 3, &page, &err).ok);
    audit_log_close(&log);
}

static void payloads_open_for_auditors_only(void **state)
{
    struct audit_log log;
    struct buffer OWNED_BUFFER payload = BUFFER(65536);
    struct error err = {0};

    (void)state;
    fill(&log);
    OWNED(pg) *pg = reader(&log);
    OWNED(permit) *permit = auditor(RESOURCE_SYSTEM, "");
    OWNED(audit_page) *page = NULL;
    assert_true(audit_find(pg, permit, 7, &page, &err).ok && buffer_add_text(&payload, "before ", &err).ok);
    if (!audit_page_payload(page, 0, keyd_process_client(log.keyd), TEST_ORIGIN, &payload, &err).ok) fail_msg("%s", err.message);
    assert_string_equal(buffer_text(&payload),
                        "before {\"address\":\"192.0.2.7\",\"agent\":\"a \\\"quoted\\\" agent\",\"denials\":[{\"message\":\"\","
                        "\"missing\":\"\",\"policy\":\"\",\"rule\":\"R\"}],\"issuer\":\"https://issuer.example\","
                        "\"subject\":\"bob@example\"}");
    /* Boxes that change places, or another origin, do not open. */
    assert_false(audit_page_payload(page, 0, keyd_process_client(log.keyd), "other/audit", &payload, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    database_execute(log.database, "UPDATE audit_payload p SET salt = o.salt, box = o.box FROM audit_payload o"
                                   " WHERE p.seq = 7 AND o.seq = 5");
    audit_page_free(GIVE(page));
    assert_true(audit_find(pg, permit, 7, &page, &err).ok);
    assert_false(audit_page_payload(page, 0, keyd_process_client(log.keyd), TEST_ORIGIN, &payload, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_null(audit_page_missing(page, 0));
    database_execute(log.database, "DELETE FROM audit_payload WHERE seq = 7");
    audit_page_free(GIVE(page));
    assert_true(audit_find(pg, permit, 7, &page, &err).ok);
    assert_string_equal(audit_page_missing(page, 0), "payload");
    /* An erased subject: the event stays, who it was is gone. */
    database_execute(log.database, "DELETE FROM audit_subject WHERE subject = (SELECT subject FROM audit_payload WHERE seq = 5)");
    audit_page_free(GIVE(page));
    assert_true(audit_find(pg, permit, 5, &page, &err).ok);
    payload.length = 0;
    assert_true(audit_page_payload(page, 0, keyd_process_client(log.keyd), TEST_ORIGIN, &payload, &err).ok);
    assert_int_equal(payload.length, 0);
    assert_string_equal(audit_page_missing(page, 0), "key");
    audit_log_close(&log);
}

/* Pages have bounds, and no event has a number that no log can have. */
static void questions_have_bounds(void **state)
{
    static const struct audit_filter filters[] = {
        {.until = INT64_MAX, .limit = 0},
        {.until = INT64_MAX, .limit = AUDIT_PAGE_MAX + 1},
        {.until = (uint64_t)INT64_MAX + 1, .limit = 1},
        {.from = (uint64_t)INT64_MAX + 1, .until = INT64_MAX, .limit = 1},
    };
    struct audit_log log;
    struct buffer OWNED_BUFFER proof = BUFFER(65536);
    struct error err = {0};

    (void)state;
    audit_log_open(&log);
    OWNED(pg) *pg = reader(&log);
    OWNED(permit) *permit = auditor(RESOURCE_SYSTEM, "");
    struct audit_page *page = NULL;
    for (size_t i = 0; i < COUNT(filters); i++) {
        assert_false(audit_list(pg, permit, &filters[i], &page, &err).ok);
        assert_int_equal(err.kind, ERROR_INVALID);
    }
    assert_false(audit_find(pg, permit, INT64_MAX, &page, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    assert_false(audit_prove(pg, permit, 77, &(struct signed_checkpoint){0}, &proof, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    assert_null(page);
    assert_int_equal(proof.length, 0);
    audit_log_close(&log);
}

/* A page asks keyd once for each subject, and does not believe what a row says of a key. */
static void a_page_opens_many_payloads(void **state)
{
    struct audit_log log;
    struct buffer OWNED_BUFFER payload = BUFFER(65536);
    struct error err = {0};

    (void)state;
    fill(&log);
    OWNED(pg) *pg = reader(&log);
    OWNED(permit) *permit = auditor(RESOURCE_SYSTEM, "");
    OWNED(audit_page) *page = NULL;
    const struct audit_filter all = {.until = INT64_MAX, .limit = 10};
    assert_true(audit_list(pg, permit, &all, &page, &err).ok);
    for (size_t i = 0; i < audit_page_count(page); i++) {
        payload.length = 0;
        assert_true(audit_page_payload(page, i, keyd_process_client(log.keyd), TEST_ORIGIN, &payload, &err).ok);
        assert_non_null(strstr(buffer_text(&payload), i % 2 == 0 ? "bob@example" : "alice@example"));
    }
    database_execute(log.database, "UPDATE audit_subject SET wrapped_key = decode(repeat('00', 300), 'hex')");
    audit_page_free(GIVE(page));
    assert_true(audit_find(pg, permit, 5, &page, &err).ok);
    payload.length = 0;
    assert_false(audit_page_payload(page, 0, keyd_process_client(log.keyd), TEST_ORIGIN, &payload, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_int_equal(payload.length, 0);
    audit_log_close(&log);
}

/* An entry of a newer gateway is shown by its number; one whose hash it has not is a change of the log. */
static void what_cannot_be_read_is_no_change(void **state)
{
    struct audit_log log;
    struct error err = {0};

    (void)state;
    fill(&log);
    OWNED(pg) *pg = reader(&log);
    OWNED(permit) *everything = auditor(RESOURCE_SYSTEM, "");
    OWNED(permit) *models = auditor(RESOURCE_PROJECT, "acme/models");
    struct audit_page *page = NULL;
    database_execute(log.database,
                     "UPDATE audit_entry SET leaf = '{}', leaf_hash = sha256('\\x00' || '{}'::bytea) WHERE seq = 2");
    assert_true(audit_list(pg, everything, &(struct audit_filter){.until = INT64_MAX, .limit = 10}, &page, &err).ok);
    for (size_t i = 0; i < audit_page_count(page); i++)
        assert_int_equal(audit_page_is_readable(page, i), audit_page_sequence(page, i) != 2);
    audit_page_free(GIVE(page));
    assert_true(!audit_find(pg, models, 2, &page, &err).ok && err.kind == ERROR_NOT_FOUND);
    assert_true(audit_find(pg, everything, 2, &page, &err).ok);
    audit_page_free(GIVE(page));
    database_execute(log.database, "UPDATE audit_entry SET leaf = leaf || ' ' WHERE seq = 3");
    assert_true(!audit_list(pg, everything, &(struct audit_filter){.until = INT64_MAX, .limit = 10}, &page, &err).ok &&
                err.kind == ERROR_FORKED);
    audit_log_close(&log);
}

static void write_file(const char *path, struct bytes content)
{
    FILE *file = fopen(path, "wbe");

    assert_non_null(file);
    assert_int_equal(fwrite(content.data, 1, content.length, file), content.length);
    assert_int_equal(fclose(file), 0);
}

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
    return audit_prove(pg, permit, sequence, &checkpoint, proof, err);
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
        assert_true(audit_find(pg, permit, sequences[i], &page, &err).ok);
        (void)snprintf(path, sizeof path, "%s/entry", folder);
        write_file(path, audit_page_leaf(page, 0));
        (void)snprintf(path, sizeof path, "%s/proof", folder);
        write_file(path, buffer_bytes(&proof));
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

/* Whoever may ask for certificates of deletion reads no other events by it. */
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
        const bool ok = audit_prove_deletion(pg, permit, sequence, &checkpoint, &(struct proven_entry){&entry, &proof}, &err).ok;
        if (!ok) assert_int_equal(err.kind, ERROR_NOT_FOUND);
        assert_int_equal(ok, sequence == 10);
        assert_int_equal(entry.length > 0 && proof.length > 0, ok);
        if (ok) assert_non_null(strstr(buffer_text(&entry), "\"key.forgotten\""));
        assert_false(audit_prove_deletion(pg, other, sequence, &checkpoint, &(struct proven_entry){&entry, &proof}, &err).ok);
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
    }
    audit_log_close(&log);
}

/* A proof leads to a signed log: what came after the last signature, or before the first, has none yet. */
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
    /* What stands in the table of checkpoints is asked by nobody. */
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

    TRY_UNTOUCHED_BYTES(page, audit_list(reading->pg, reading->auditor, &filter, &page, err));
    for (size_t i = 0; i < audit_page_count(page); i++) assert_true(audit_page_is_readable(page, i)); /* memory or none */
    TRY_UNTOUCHED_BYTES(found, audit_find(reading->pg, reading->auditor, 5, &found, err));
    assert_true(audit_page_is_readable(found, 0));
    TRY_UNTOUCHED(payload.length, audit_page_payload(found, 0, keyd, TEST_ORIGIN, &payload, err));
    TRY(audit_prove(reading->pg, reading->auditor, 5, &reading->checkpoint, &proof, err));
    TRY_UNTOUCHED(entry.length, audit_prove_deletion(reading->pg, reading->certifier, 10, &reading->checkpoint,
                                                     &(struct proven_entry){&entry, &other}, err));
    return SUCCESS;
}

/* However large the pieces are that it is counted in, and whatever else stands between. */
static void tokens_are_counted_piece_by_piece(void **state)
{
    struct audit_log log;
    struct error err = {0};

    (void)state;
    fill(&log);
    for (unsigned i = 0; i < 7; i++)
        record_of(&log, ACTION_TOKEN_MINT, i < 3 ? "registry:admin:*" : "acme/models", "alice@example", VERDICT_ALLOW);
    record_of(&log, ACTION_TOKEN_MINT, "acme/models", "alice@example", VERDICT_DENY);
    OWNED(pg) *pg = reader(&log);
    for (uint64_t most = 1; most < 40; most += 9) {
        struct audit_mints mints = {0};
        uint64_t next = 0;
        do {
            assert_true(audit_count_more_mints(pg, &mints, &next, most, &err).ok);
        } while (next < mints.log_size);
        assert_true(mints.log_size >= 18 && next == mints.log_size);
        assert_int_equal(mints.all, 7);
        assert_int_equal(mints.administration, 3);
        record_about(&log, "acme/models/digits", "alice@example", VERDICT_ALLOW);
        assert_true(audit_count_more_mints(pg, &mints, &next, most, &err).ok); /* nothing twice */
        assert_int_equal(mints.all, 7);
    }
    audit_log_close(&log);
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
    assert_failures(failures, 180);
    audit_log_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auditors_see_what_is_theirs),
        cmocka_unit_test(payloads_open_for_auditors_only),
        cmocka_unit_test(questions_have_bounds),
        cmocka_unit_test(a_page_opens_many_payloads),
        cmocka_unit_test(what_cannot_be_read_is_no_change),
        cmocka_unit_test(a_proof_is_checked_without_us),
        cmocka_unit_test(only_a_forgotten_key_has_an_entry_for_its_certificate),
        cmocka_unit_test(what_is_not_signed_has_no_proof_yet),
        cmocka_unit_test(tokens_are_counted_piece_by_piece),
        cmocka_unit_test(reading_survives_every_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
