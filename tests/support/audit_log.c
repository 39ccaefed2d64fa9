#include "tests/support/audit_log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/format/leaf.h"
#include "base/clock.h"
#include "base/text.h"
#include "tests/support/unit.h"

void audit_log_init(struct audit_log *log)
{
    *log = (struct audit_log){.database = database_new(), .keyd = keyd_process_new(TEST_ORIGIN)};
}

struct result audit_log_try_start(const struct audit_log *log, const char *instance, struct sequencer **sequencer_out,
                                  struct error *err)
{
    struct sequencer_options options = {.conninfo = database_app(log->database),
                                        .tables = log->tables,
                                        .keyd = keyd_process_client(log->keyd),
                                        .origin = TEST_ORIGIN,
                                        .deadline_ms = log->deadline_ms};

    (void)snprintf(options.instance, sizeof options.instance, "%s", instance);
    return sequencer_start(&options, sequencer_out, err);
}

struct sequencer *audit_log_start(const struct audit_log *log, const char *instance)
{
    struct sequencer *sequencer = NULL;
    struct error err = {0};

    if (!audit_log_try_start(log, instance, &sequencer, &err).ok) fail_msg("%s", err.message);
    return sequencer;
}

void audit_log_open(struct audit_log *log)
{
    audit_log_init(log);
    log->sequencer = audit_log_start(log, "gw1");
}

void audit_log_close(struct audit_log *log)
{
    sequencer_free(log->sequencer);
    keyd_process_free(log->keyd);
    database_free(log->database);
}

struct decision *test_decision(enum verdict verdict, uint64_t epoch)
{
    struct decision_parts parts = {
        .verdict = verdict,
        .epoch = epoch,
        .id = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        .policy_digest = "sha256:fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210",
        .pair_count = 1,
        .pairs = {{ACTION_BLOB_READ,
                   {.kind = RESOURCE_REPOSITORY,
                    .name = "acme/models/digits",
                    .detail = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                    .region = "local/main"}}},
        .facts = {bytes_of_text(verdict == VERDICT_ALLOW ? TEST_FACTS("") : TEST_FACTS("\"SYS-NO-BINDING\""))},
        .decided_ms = 1795171186000,
        .denial_count = verdict == VERDICT_ALLOW ? 0 : 1,
        .denials = {{.rule = "SYS-NO-BINDING", .policy = "sys", .message = "No role allows this.", .missing = ""}},
    };
    struct decision *decision = NULL;
    struct error err = {0};

    if (!decision_make(&parts, &decision, &err).ok) fail_msg("%s", err.message);
    return decision;
}

struct record test_record(enum verdict verdict)
{
    const bool is_known = verdict != VERDICT_CHALLENGE;

    return (struct record){.decision = test_decision(verdict, TEST_EPOCH),
                           .context = {.issuer = is_known ? "" : NULL,
                                       .subject = is_known ? "robot$acme+ci" : NULL,
                                       .client_address = "192.0.2.7",
                                       .user_agent = "oras/1.2",
                                       .request_id = "5f0c8f0e-93a1-4c1a-8a4e-0d8f6d1f2b30"}};
}

static void check_leaf(struct audit_log *log, uint64_t sequence, struct merkle_frontier *frontier)
{
    char sql[256];
    uint8_t text[LEAF_MAX];
    struct leaf leaf;
    struct error err = {0};
    struct merkle_hash hash;

    (void)snprintf(sql, sizeof sql, "SELECT encode(leaf, 'hex') FROM audit_entry WHERE seq = %llu", (unsigned long long)sequence);
    const char *hex = database_ask(log->database, sql);
    const size_t length = strlen(hex) / 2;
    if (length == 0) fail_msg("entry %llu is missing", (unsigned long long)sequence);
    assert_true(length <= sizeof text && text_from_hex(bytes_of_text(hex), text, length));
    if (!leaf_read((struct bytes){text, length}, &leaf, &err).ok)
        fail_msg("entry %llu: %s: %.*s", (unsigned long long)sequence, err.message, (int)length, (const char *)text);
    assert_int_equal(leaf.sequence, sequence);
    merkle_leaf_hash((struct bytes){text, length}, &hash);
    merkle_append(frontier, &hash);
}

static void expect(struct audit_log *log, const char *sql, const char *answer)
{
    const char *got = database_ask(log->database, sql);

    if (strcmp(got, answer) != 0) fail_msg("%s: \"%s\", not \"%s\"", sql, got, answer);
}

uint64_t audit_log_check(struct audit_log *log)
{
    struct merkle_frontier frontier = {0};
    struct buffer OWNED_BUFFER stored = BUFFER(4096);
    struct error err = {0};
    char hex[2 * 64 * MERKLE_HASH_SIZE + 1];
    uint64_t size = 0;

    assert_true(text_to_u64(bytes_of_text(database_ask(log->database, "SELECT size FROM audit_log")), INT64_MAX, &size));
    for (uint64_t i = 0; i < size; i++) check_leaf(log, i, &frontier);
    expect(log, "SELECT count(*) = (SELECT size FROM audit_log) FROM audit_entry", "t");
    assert_true(merkle_frontier_write(&frontier, &stored, &err).ok);
    text_hex(stored.data, stored.length, hex);
    assert_string_equal(database_ask(log->database, "SELECT encode(frontier, 'hex') FROM audit_log"), hex);
    expect(log, "SELECT count(*) FROM audit_entry WHERE sha256('\\x00'::bytea || leaf) <> leaf_hash", "0");
    /* Each text of facts that an event commits to exists. */
    expect(log,
           "SELECT count(*) FROM audit_entry e, json_array_elements_text(convert_from(leaf, 'UTF8')::json -> 'facts') f"
           " WHERE NOT EXISTS (SELECT FROM audit_facts a WHERE a.digest = decode(f, 'hex'))",
           "0");
    /* Each key counts 1, 2, 3, ... in the order of the log. */
    expect(log,
           "SELECT count(*) FROM (SELECT n, row_number() OVER (PARTITION BY key ORDER BY seq) AS place FROM audit_key) k"
           " WHERE n <> place",
           "0");
    /* The ordinals in the leaves are those in the index. */
    expect(log,
           "SELECT count(*) FROM audit_entry e, json_each_text(convert_from(leaf, 'UTF8')::json -> 'k') j"
           " LEFT JOIN audit_key k ON k.key = substr(sha256(convert_to(j.key, 'UTF8')), 1, 16)"
           " WHERE k.seq = e.seq AND k.n::text <> j.value",
           "0");
    expect(log,
           "SELECT (SELECT count(*) FROM audit_entry, json_each(convert_from(leaf, 'UTF8')::json -> 'k'))"
           " = (SELECT count(*) FROM audit_key)",
           "t");
    expect(log, "SELECT count(*) FROM (SELECT ts - lag(ts) OVER (ORDER BY seq) AS step FROM audit_entry) t WHERE step < 0", "0");
    /* A gateway's numbers rise in the order of the log, and each occurs once. */
    expect(log,
           "SELECT count(*) FROM (SELECT (s ->> 2)::bigint - lag((s ->> 2)::bigint) OVER"
           " (PARTITION BY s ->> 0, s ->> 1 ORDER BY seq) AS step"
           " FROM (SELECT seq, convert_from(leaf, 'UTF8')::json -> 'src' AS s FROM audit_entry) e) t WHERE step < 1",
           "0");
    return size;
}

void record_some(const struct audit_log *log, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct record record = test_record(i % 3 == 0 ? VERDICT_DENY : VERDICT_ALLOW);
        sequencer_submit_and_wait(log->sequencer, &record);
        if (record.status != RECORD_DONE) fail_msg("%s", record.error.message);
        record_done(&record);
    }
}

void wait_for_answer(struct audit_log *log, const char *sql, const char *answer)
{
    const int64_t until_ms = clock_monotonic_ms() + 20000;

    while (strcmp(database_ask(log->database, sql), answer) != 0) {
        if (clock_monotonic_ms() > until_ms) fail_msg("%s: still %s", sql, database_ask(log->database, sql));
        (void)usleep(20000);
    }
}
