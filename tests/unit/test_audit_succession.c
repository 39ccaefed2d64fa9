/* Statements about a log that goes on under a new origin: the form, and whose log it is. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "audit/format/log_keys.h"
#include "audit/format/succession_check.h"
#include "crypto/ed25519.h"

#define OFFICERS 3
#define ROOT     "XcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg="
#define HEAD     "sijil-log-succession/v2\nregistry x.example/audit\n"
#define BEFORE   "before x.example/audit 9 " ROOT "\n"
#define LOG      "after x.example/audit/2 7 " ROOT "\n"
#define KEY      "x.example/audit/2+fe4c4421+AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"
#define KEYS     "key " KEY "\nofficers 2\n"
#define AFTER    LOG KEYS
#define REST     "made 1767225600000\nreason the disk is lost\n"
#define NOTE     "x.example/audit\n9\n" ROOT "\n\nsigned\n"
#define GOOD     HEAD BEFORE AFTER REST "pin 1 3 " ROOT "\npin 16 5 " ROOT "\n\n" NOTE

static void logs_have_numbers(void **state)
{
    static const struct {
        const char *origin, *registry;
        uint64_t number;
    } rows[] = {
        {"x.example/audit", "x.example/audit", 1},
        {"x.example/audit/2", "x.example/audit", 2},
        {"x.example/audit/10", "x.example/audit", 10},
        {"x.example/audit/1", "x.example/audit", 0},
        {"x.example/audit/0", "x.example/audit", 0},
        {"x.example/audit/02", "x.example/audit", 0},
        {"x.example/audit/", "x.example/audit", 0},
        {"x.example/audit2", "x.example/audit", 0},
        {"x.example/audit/2/3", "x.example/audit", 0},
        {"x.example", "x.example/audit", 0},
        {"x.example/audit/4294967295", "x.example/audit", 4294967295},
        {"x.example/audit/4294967296", "x.example/audit", 0},
    };
    char origin[CHECKPOINT_ORIGIN_MAX + 1], longest[CHECKPOINT_ORIGIN_MAX + 1];
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (succession_number(rows[i].origin, rows[i].registry) != rows[i].number) fail_msg("%s", rows[i].origin);
        if (rows[i].number == 0) continue;
        must(succession_origin(rows[i].registry, rows[i].number, origin, &err), &err);
        assert_string_equal(origin, rows[i].origin);
    }
    memset(longest, 'x', CHECKPOINT_ORIGIN_MAX);
    longest[CHECKPOINT_ORIGIN_MAX] = '\0';
    must(succession_origin(longest, 1, origin, &err), &err);
    assert_false(succession_origin(longest, 2, origin, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_false(succession_origin("x", 0, origin, &err).ok);
}

static void what_is_written_is_read(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(SUCCESSION_MAX);
    struct succession read;
    struct error err = {0};

    (void)state;
    must(succession_read(bytes_of_text(GOOD), &read, &err), &err);
    assert_string_equal(read.registry, "x.example/audit");
    assert_string_equal(read.after.origin, "x.example/audit/2");
    assert_string_equal(read.reason, "the disk is lost");
    assert_true(read.before.size == 9 && read.after.size == 7 && read.made_ms == 1767225600000);
    assert_true(read.officers == 2 && read.key.public_key[0] == 1 && read.key.public_key[31] == 32);
    assert_true(read.pins[0].epoch == 3 && read.pins[15].epoch == 5 && read.pins[1].epoch == 0);
    assert_true(bytes_equal(read.checkpoint, bytes_of_text(NOTE)));
    must(succession_write(&read, &text, &err), &err);
    assert_string_equal(buffer_text(&text), GOOD);
    read.reason[3] = '\n';
    buffer_clear(&text);
    assert_false(succession_write(&read, &text, &err).ok); /* what can't be read is not written */
}

static const struct wrong_row {
    const char *text, *why;
} wrong_rows[] = {
    {"", "begins with"},
    {"sijil-log-succession/v3\n", "begins with"},
    {"sijil-log-succession/v1\nregistry x.example/audit\n" BEFORE LOG REST "\n" NOTE, "make another plan"},
    {HEAD BEFORE LOG REST "\n" NOTE, "\"key\""},
    {HEAD BEFORE LOG "key " KEY "\n" REST "\n" NOTE, "\"officers\""},
    {HEAD BEFORE LOG "key " KEY "\nofficers 0\n" REST "\n" NOTE, "\"officers\""},
    {HEAD BEFORE LOG "key " KEY "\nofficers 9\n" REST "\n" NOTE, "\"officers\""},
    {HEAD BEFORE LOG "key " KEY "=\nofficers 2\n" REST "\n" NOTE, "\"key\""},
    {HEAD BEFORE LOG "key x.example/audit/2+00000000+AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g\nofficers 2\n" REST "\n" NOTE,
     "\"key\""},
    {HEAD BEFORE LOG "key x.example/log/2+0e07cdea+AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g\nofficers 2\n" REST "\n" NOTE,
     "not of the log"},
    {HEAD BEFORE AFTER REST "\nx.example/audit\n9\n" ROOT "\n", "no checkpoint"},
    {HEAD BEFORE AFTER REST "\nx.example/audit\n09\n" ROOT "\n\nsigned\n", "checkpoint"},
    {HEAD, "\"before\""},
    {HEAD BEFORE REST, "\"after\""},
    {HEAD BEFORE AFTER, "\"made\""},
    {HEAD "before x.example/audit 09 " ROOT "\n" AFTER REST "\n" NOTE, "\"before\""},
    {HEAD "before x.example/audit 9 " ROOT " \n" AFTER REST "\n" NOTE, "\"before\""},
    {HEAD "before x.example/audit 9\n" AFTER REST "\n" NOTE, "\"before\""},
    {HEAD "before  9 " ROOT "\n" AFTER REST "\n" NOTE, "\"before\""},
    {HEAD BEFORE AFTER "made now\nreason x\n\n" NOTE, "\"made\""},
    {HEAD BEFORE AFTER "made 1\nreason \n\n" NOTE, "\"reason\""},
    {HEAD BEFORE AFTER "made 1\nreason a\x7f\n\n" NOTE, "\"reason\""},
    {HEAD BEFORE AFTER REST "pin 1 0 " ROOT "\n\n" NOTE, "\"pin\""},
    {HEAD BEFORE AFTER REST "pin 17 1 " ROOT "\n\n" NOTE, "\"pin\""},
    {HEAD BEFORE AFTER REST "pin 0 1 " ROOT "\n\n" NOTE, "\"pin\""},
    {HEAD BEFORE AFTER REST "pin 2 1 " ROOT "\npin 1 1 " ROOT "\n\n" NOTE, "\"pin\""},
    {HEAD BEFORE AFTER REST "pin 2 1 " ROOT "\npin 2 1 " ROOT "\n\n" NOTE, "\"pin\""},
    {HEAD BEFORE AFTER REST "more x\n\n" NOTE, "\"pin\""},
    {HEAD BEFORE AFTER REST NOTE, "\"pin\""},
    {HEAD BEFORE AFTER REST, "\"empty\""},
    {HEAD BEFORE AFTER REST "\n", "no checkpoint"},
    {HEAD BEFORE "after x.example/audit 7 " ROOT "\n" KEYS REST "\n" NOTE, "another origin"},
    {HEAD BEFORE "after x.example/audit/3 7 " ROOT "\n" KEYS REST "\n" NOTE, "another origin"},
    {HEAD BEFORE "after y.example/audit/2 7 " ROOT "\n" KEYS REST "\n" NOTE, "another origin"},
    {HEAD "before y.example/audit 9 " ROOT "\n" AFTER REST "\n" NOTE, "another origin"},
};

static void what_is_no_statement_is_refused(void **state)
{
    struct buffer OWNED_BUFFER large = BUFFER(SUCCESSION_MAX + 2);
    struct succession read;
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(wrong_rows); i++) {
        if (succession_read(bytes_of_text(wrong_rows[i].text), &read, &err).ok) fail_msg("row %zu is accepted", i);
        if (err.kind != ERROR_INVALID || strstr(err.message, wrong_rows[i].why) == NULL) fail_msg("row %zu: %s", i, err.message);
    }
    must(buffer_add_text(&large, GOOD, &err), &err);
    while (large.length < SUCCESSION_MAX) must(buffer_add_u8(&large, 'x', &err), &err);
    must(succession_read(buffer_bytes(&large), &read, &err), &err);
    must(buffer_add_u8(&large, 'x', &err), &err);
    assert_false(succession_read(buffer_bytes(&large), &read, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

/* ---- with the keys of the log that ended ---- */

#define ORIGIN "x.example/audit"

static struct secret *seeds[2];
static struct note_key log_key[2];

static void add_signed(struct buffer *note, struct bytes text, size_t first, size_t last)
{
    uint8_t signature[ED25519_SIGNATURE_SIZE];
    struct error err = {0};

    must(note_write_text(note, text, &err), &err);
    for (size_t i = first; i <= last; i++) {
        must(ed25519_sign(seeds[i], text, signature, &err), &err);
        must(note_write_signature(note, &log_key[i], (struct bytes){signature, sizeof signature}, &err), &err);
    }
}

/* The root of the empty tree is as good as any. */
static void add_checkpoint(struct buffer *note, uint64_t size, size_t first, size_t last)
{
    struct buffer OWNED_BUFFER text = BUFFER(CHECKPOINT_TEXT_MAX);
    struct checkpoint checkpoint = {.origin = ORIGIN, .size = size, .root = merkle_empty_root()};
    struct error err = {0};

    must(checkpoint_write(&checkpoint, &text, &err), &err);
    add_signed(note, buffer_bytes(&text), first, last);
}

static void add_vkey(struct buffer *text, size_t index)
{
    struct error err = {0};

    must(note_key_write(&log_key[index], text, &err), &err);
    must(buffer_add_u8(text, '\n', &err), &err);
}

/* The second key follows the first one at 5 entries. */
static void add_key_change(struct buffer *text)
{
    struct buffer OWNED_BUFFER signed_text = BUFFER(4096);
    struct log_handover change = {.origin = ORIGIN, .size = 5, .root = merkle_empty_root(), .old = log_key[0], .new = log_key[1]};
    struct error err = {0};

    must(log_handover_write(&change, &signed_text, &err), &err);
    add_signed(text, buffer_bytes(&signed_text), 0, 1);
}

struct plan_row {
    size_t stated;     /* which key the plan names */
    unsigned officers; /* who sign it */
};

/* A plan, as its officers have signed it. */
static void make_plans(struct bytes note, struct ecdsa_key *const officers[OFFICERS], const struct plan_row *row,
                       struct succession_plans *plans)
{
    struct buffer OWNED_BUFFER statement = BUFFER(SUCCESSION_MAX), file = BUFFER(OFFICERS * SUCCESSION_ENVELOPE_MAX);
    struct succession plan = {.registry = ORIGIN,
                              .before = {ORIGIN, 9, merkle_empty_root()},
                              .after = {ORIGIN "/2", 7, merkle_empty_root()},
                              .officers = row->officers,
                              .reason = "lost",
                              .checkpoint = note};
    struct error err = {0};

    must(note_key_make(ORIGIN "/2", NOTE_ED25519, log_key[row->stated].public_key, &plan.key, &err), &err);
    must(succession_write(&plan, &statement, &err), &err);
    for (size_t i = 0; i < row->officers; i++) {
        const struct ecdsa_key *officer = officers[i];
        must(dsse_write(SUCCESSION_PAYLOAD, buffer_bytes(&statement), &officer, 1, &file, &err), &err);
        must(buffer_add_u8(&file, '\n', &err), &err);
    }
    must(succession_plans_read(buffer_bytes(&file), plans, &err), &err);
}

/* The new log has the newest key of the one that ended. Whoever does not know that key must not take another one for it. */
static void make_keys(struct ecdsa_key *officers[OFFICERS])
{
    uint8_t public[ED25519_PUBLIC_SIZE];
    struct error err = {0};

    for (size_t i = 0; i < OFFICERS; i++) must(ecdsa_key_new(&officers[i], &err), &err);
    for (size_t i = 0; i < 2; i++) {
        const uint8_t seed[32] = {(uint8_t)(i + 1)};
        must(secret_copy((struct bytes){seed, sizeof seed}, &seeds[i], &err), &err);
        must(ed25519_public(seeds[i], public, &err), &err);
        must(note_key_make(ORIGIN, NOTE_ED25519, public, &log_key[i], &err), &err);
    }
}

static void free_keys(struct ecdsa_key *officers[OFFICERS])
{
    for (size_t i = 0; i < OFFICERS; i++) ecdsa_key_free(officers[i]);
    for (size_t i = 0; i < 2; i++) secret_free(seeds[i]);
}

static void the_new_log_has_the_newest_key(void **state)
{
    static const struct {
        const char *name;
        size_t trusted, first, last; /* the signers of the checkpoint */
        uint64_t size;
        bool has_change, is_good;
        size_t stated;
    } rows[] = {
        {"the old key, in the overlap", 0, 0, 1, 9, false, false, 1},
        {"the old key, at the change", 0, 0, 1, 5, false, false, 1},
        {"the old key, after the overlap", 0, 1, 1, 9, false, false, 1},
        {"the old key and the change", 0, 0, 1, 9, true, true, 1},
        {"the new key", 1, 0, 1, 9, false, true, 1},
        {"the new key and the change", 1, 1, 1, 9, true, true, 1},
        {"a plan from before the change", 0, 0, 0, 4, true, false, 0},
        {"a plan from before the change, for somebody who does not know of it", 0, 0, 0, 4, false, true, 0},
        {"a plan behind the change, with a checkpoint from before", 0, 0, 0, 4, false, false, 1},
    };
    struct ecdsa_key *officers[OFFICERS] = {NULL};
    struct error err = {0};

    (void)state;
    make_keys(officers);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buffer OWNED_BUFFER note = BUFFER(4096), vkey = BUFFER(LOG_KEYS_TEXT_MAX);
        struct succession_plans plans = {.count = 0};
        struct succession_report report;
        add_checkpoint(&note, rows[i].size, rows[i].first, rows[i].last);
        const struct plan_row row = {rows[i].stated, SUCCESSION_OFFICERS};
        make_plans(buffer_bytes(&note), officers, &row, &plans);
        add_vkey(&vkey, rows[i].trusted);
        if (rows[i].has_change) add_key_change(&vkey);
        const struct succession_trust trust = {.log = {buffer_bytes(&vkey), NULL}, .officers = {officers[0], officers[1]}};
        const bool is_good = succession_check(&trust, &plans, &report, &err).ok;
        if (is_good != rows[i].is_good || (!is_good && err.kind != ERROR_DENIED)) fail_msg("%s: %s", rows[i].name, err.message);
        if (is_good)
            assert_memory_equal(report.plan.key.public_key, log_key[rows[i].stated].public_key,
                                sizeof report.plan.key.public_key);
        succession_plans_done(&plans);
    }
    free_keys(officers);
}

/* One officer is no two, also if the verifier would be content with the first one. */
static void one_officer_is_said_and_never_taken_for_two(void **state)
{
    static const struct {
        const char *name, *says;
        unsigned officers, given;
        bool is_good;
        unsigned root; /* persons, by the policy set */
    } rows[] = {
        {"two, and both are given", "both officers have signed", 2, 2, true, 0},
        {"two, and one is given", "--signer", 2, 1, false, 0},
        {"one, and two are given", "leave out --signer", 1, 2, false, 0},
        {"one, and one is given", "the root of approvers ALONE has signed", 1, 1, true, 1},
        {"three, and all are given", "all 3 officers have signed", 3, 3, true, 3},
        {"three, and two are given", "the keys of 2 are given", 3, 2, false, 0},
        {"two, and three are given", "2 officers have signed the statement, and the keys of 3", 2, 3, false, 0},
        {"two, and the root is three", "the policy set says that the root is 3 persons", 2, 2, false, 3},
        {"one, and the root is two", "the policy set says that the root is 2 persons", 1, 1, false, 2},
    };
    struct ecdsa_key *officers[OFFICERS] = {NULL};
    struct error err = {0};

    (void)state;
    make_keys(officers);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buffer OWNED_BUFFER note = BUFFER(4096), vkey = BUFFER(LOG_KEYS_TEXT_MAX), text = BUFFER(4096),
                                   json = BUFFER(4096);
        struct succession_plans plans = {.count = 0};
        struct succession_report report;
        const struct plan_row row = {0, rows[i].officers};
        add_checkpoint(&note, 9, 0, 0);
        make_plans(buffer_bytes(&note), officers, &row, &plans);
        add_vkey(&vkey, 0);
        struct succession_trust trust = {.log = {buffer_bytes(&vkey), NULL}, .root = rows[i].root};
        for (unsigned k = 0; k < rows[i].given; k++) trust.officers[k] = officers[k];
        const bool is_good = succession_check(&trust, &plans, &report, &err).ok;
        if (is_good != rows[i].is_good) fail_msg("%s: %s", rows[i].name, err.message);
        if (is_good) must(succession_report_text(&report, &text, &err), &err);
        if (is_good) must(succession_report_json(&report, &json, &err), &err);
        if (strstr(is_good ? buffer_text(&text) : err.message, rows[i].says) == NULL)
            fail_msg("%s: %s", rows[i].name, is_good ? buffer_text(&text) : err.message);
        char count[32];
        (void)snprintf(count, sizeof count, "\"officers\":%u", rows[i].officers);
        if (is_good) assert_non_null(strstr(buffer_text(&json), count));
        succession_plans_done(&plans);
    }
    free_keys(officers);
}

/* The first entry of the new log has what outsiders can compare: the checkpoint that witnesses have seen, not what sijil-keyd says alone. */
static void the_entry_has_the_checkpoint_of_the_statement(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(SUCCESSION_MAX);
    char detail[SUCCESSION_DETAIL_SIZE];
    struct succession plan;
    struct error err = {0};

    (void)state;
    must(succession_read(bytes_of_text(GOOD), &plan, &err), &err);
    plan.checkpoint = bytes_of_text("x.example/audit\n4611686018427387904\n" ROOT "\n\nsigned\n");
    must(succession_write(&plan, &text, &err), &err);
    must(succession_detail(&plan, buffer_bytes(&text), detail, &err), &err);
    assert_int_equal(strlen(strchr(detail, ' ')), 1 + 19 + 1 + 43 + 2);
    assert_non_null(strstr(detail, " 4611686018427387904 XcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz-Nw7_RgQyg 2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logs_have_numbers),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_is_no_statement_is_refused),
        cmocka_unit_test(the_new_log_has_the_newest_key),
        cmocka_unit_test(one_officer_is_said_and_never_taken_for_two),
        cmocka_unit_test(the_entry_has_the_checkpoint_of_the_statement),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
