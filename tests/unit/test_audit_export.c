/* Exports of a log of our own making: each is what a look at every entry finds, and each way of leaving something out is refused. */
#include "tests/support/made_export.h"

#include "base/json.h"

#define ROUNDS    200
#define TEXT_MAX  ((size_t)4 << 20)
#define MORE_MAX  26
#define SEED_BASE UINT64_C(0x5149a11)

struct text {
    const struct made_log *log;
    struct buffer bytes;
};

static void text_done(struct text *text)
{
    buffer_done(&text->bytes);
}
#define OWNED_TEXT __attribute__((cleanup(text_done))) struct text

/* In pieces of `step` bytes, as a network brings them. */
static struct result check_text(const struct text *text, size_t step, struct export_report *report, struct error *err)
{
    OWNED(export_check) *check = NULL;

    TRY(export_check_new(&(struct proof_trust){.vkey = buffer_bytes(&text->log->vkey)}, &check, err));
    for (size_t at = 0; at < text->bytes.length; at += step) {
        const size_t left = text->bytes.length - at;
        TRY(export_check_bytes(check, (struct bytes){text->bytes.data + at, left < step ? left : step}, err));
    }
    return export_check_end(check, report, err);
}

static void join(const struct made_export *export, struct text *text)
{
    struct error err = {0};

    buffer_clear(&text->bytes);
    for (size_t i = 0; i < export->count; i++)
        must(buffer_add(&text->bytes, export->lines[i].data, export->lines[i].length, &err), &err);
}

static void refused(const struct text *text, const char *how)
{
    struct export_report report = {.events = 12345};
    struct error err = {0};

    if (check_text(text, 4096, &report, &err).ok) fail_msg("%s is taken: %s", how, buffer_text(&text->bytes));
    assert_true(err.kind == ERROR_DENIED || err.kind == ERROR_INVALID || err.kind == ERROR_LIMIT);
    assert_true(err.message[0] != '\0' && report.events == 12345);
}

/* ---- a question at random ---- */

static void choose_terms(struct made_log *log, struct export_terms *terms)
{
    static const char *const keys[] = {
        "org:acme",         "prj:acme/models", "res:acme/models/digits",
        "res:acme/nothing", "out:denied",      "act:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1",
        "org:zeta"};
    const uint64_t last_ms = (uint64_t)log->entries[log->count - 1].leaf.time_ms;
    uint64_t from = made_random(log, log->count + 2), until = made_random(log, log->count + 2);

    *terms = (struct export_terms){.unit = made_random(log, 2) == 0 ? EXPORT_BY_NUMBER : EXPORT_BY_TIME,
                                   .is_opened = made_random(log, 2) == 0};
    if (terms->unit == EXPORT_BY_TIME) {
        from = (uint64_t)MADE_START_MS + made_random(log, last_ms - (uint64_t)MADE_START_MS + 1000);
        until = (uint64_t)MADE_START_MS + made_random(log, last_ms - (uint64_t)MADE_START_MS + 1000);
    }
    terms->from = made_random(log, 4) == 0 ? 0 : from < until ? from : until;
    terms->until = made_random(log, 4) == 0 ? EXPORT_NUMBER_MAX : from < until ? until : from;
    (void)snprintf(terms->key, sizeof terms->key, "%s", keys[made_random(log, COUNT(keys))]);
    for (size_t i = 0; i < EXPORT_NONCE_MIN; i++) terms->nonce[i] = "0123456789abcdef"[made_random(log, 16)];
}

static uint64_t make_log(struct made_log *log, uint64_t seed, struct export_terms *terms)
{
    made_log_begin(log, seed);
    made_add_some(log, 1 + made_random(log, MORE_MAX));
    choose_terms(log, terms);
    const uint64_t closing = made_close(log, terms);
    made_add_some(log, made_random(log, MORE_MAX));
    made_sign(log);
    return closing;
}

/* ---- what an attacker can do with whole lines ---- */

static void without_lines(const struct made_export *export, size_t from, size_t until, struct text *text)
{
    struct error err = {0};

    buffer_clear(&text->bytes);
    for (size_t i = 0; i < export->count; i++)
        if (i < from || i >= until) must(buffer_add(&text->bytes, export->lines[i].data, export->lines[i].length, &err), &err);
}

static void removals_are_refused(const struct made_export *export, struct text *text)
{
    for (size_t i = 0; i < export->count; i++) {
        without_lines(export, i, i + 1, text);
        refused(text, "an export without a line");
    }
    for (size_t i = 2; i < export->count; i++) {
        without_lines(export, 1, i, text);
        refused(text, "an export without its left edge");
        without_lines(export, i - 1, export->count - 1, text);
        if (i < export->count) refused(text, "an export without its right edge");
        without_lines(export, i, export->count, text);
        refused(text, "an export without its end");
    }
}

static void swaps_are_refused(struct made_export *export, struct text *text)
{
    for (size_t i = 0; i + 1 < export->count; i++) {
        const struct buffer first = export->lines[i], second = export->lines[i + 1];
        export->lines[i] = second;
        export->lines[i + 1] = first;
        join(export, text);
        refused(text, "an export with two lines in the other order");
        export->lines[i] = first;
        join(export, text);
        refused(text, "an export with a line twice");
        export->lines[i + 1] = second;
    }
}

static void damages_are_refused(struct made_log *log, const struct made_export *export, struct text *text)
{
    for (size_t i = 0; i < 12; i++) {
        join(export, text);
        text->bytes.data[made_random(log, text->bytes.length)] ^= (uint8_t)(1 + made_random(log, 255));
        refused(text, "an export with another byte");
        join(export, text);
        buffer_truncate(&text->bytes, made_random(log, text->bytes.length));
        refused(text, "an export that was cut off");
    }
    join(export, text);
    struct error err = {0};
    must(buffer_add_text(&text->bytes, "\n", &err), &err);
    refused(text, "an export with an empty line behind it");
}

/* The answer to an older question, as the answer to a newer one. */
static void replays_are_refused(struct made_log *log, const struct export_terms *old, uint64_t closing, enum export_format format,
                                struct text *text)
{
    struct export_terms terms = *old;
    OWNED_MADE_EXPORT changed = {0};
    OWNED_MADE_EXPORT honest = {0};
    struct error err = {0};

    for (size_t i = 0; i < 4; i++) {
        terms = *old;
        if (i == 0) terms.nonce[0] = terms.nonce[0] == 'f' ? '0' : 'f';
        if (i == 1) terms.from++, terms.until = EXPORT_NUMBER_MAX;
        if (i == 2) terms.is_opened = !terms.is_opened;
        if (i == 3 && terms.until != EXPORT_NUMBER_MAX) terms.until = EXPORT_NUMBER_MAX;
        else if (i == 3) terms.until = terms.from;
        made_export_done(&changed);
        made_export_write(log, &terms, format, closing, &changed);
        join(&changed, text);
        refused(text, "an export whose closing entry is of another question");
    }
    made_export_write(log, old, format, closing, &honest);
    join(&honest, text);
    struct export_report report;
    must(check_text(text, 4096, &report, &err), &err);
}

static void random_exports_are_complete_and_nothing_less_is(void **state)
{
    uint64_t events = 0, empty = 0;

    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        OWNED_MADE_LOG log = {0};
        OWNED_MADE_EXPORT export = {0};
        OWNED_TEXT text = {&log, BUFFER(TEXT_MAX)};
        const enum export_format format = (enum export_format)(round % EXPORT_FORMAT_COUNT);
        struct export_report report;
        struct export_terms terms;
        struct error err = {0};
        const uint64_t closing = make_log(&log, SEED_BASE + round, &terms);
        made_export_write(&log, &terms, format, closing, &export);
        join(&export, &text);
        must(check_text(&text, 1 + (size_t)made_random(&log, 5000), &report, &err), &err);
        assert_int_equal(report.events, export.events);
        assert_int_equal(report.closing, closing);
        removals_are_refused(&export, &text);
        swaps_are_refused(&export, &text);
        damages_are_refused(&log, &export, &text);
        replays_are_refused(&log, &terms, closing, format, &text);
        events += report.events;
        empty += report.events == 0;
    }
    assert_in_range(events, 300, 100000);
    assert_in_range(empty, 10, ROUNDS - 50);
}

/* ---- places, and what was sealed ---- */

static void relabelled_lines_are_refused(void **state)
{
    OWNED_MADE_LOG log = {0};
    OWNED_MADE_EXPORT export = {0};
    OWNED_TEXT text = {&log, BUFFER(TEXT_MAX)};
    struct export_terms terms = {.from = 10, .until = 20, .key = "org:acme", .nonce = "00112233445566778899aabbccddeeff"};
    struct error err = {0};

    (void)state;
    made_log_begin(&log, 7);
    made_add_some(&log, 40);
    const uint64_t closing = made_close(&log, &terms);
    made_sign(&log);
    made_export_write(&log, &terms, EXPORT_CSV, closing, &export);
    assert_in_range(export.count, 6, 40);
    for (size_t i = 1; i < export.count; i++)
        for (unsigned place = EXPORT_LEFT; place <= EXPORT_CLOSING; place++) {
            struct export_text parts = EXPORT_TEXT;
            struct buffer OWNED_BUFFER other = BUFFER(EXPORT_LINE_MAX);
            struct export_line line;
            struct leaf leaf;
            const struct bytes bytes = {export.lines[i].data, export.lines[i].length - 1};
            must(export_line_read(EXPORT_CSV, bytes, &parts, &line, &leaf, &err), &err);
            if (line.place != (enum export_place)place) {
                line.place = (enum export_place)place;
                must(export_line_write(EXPORT_CSV, &line, &leaf, &other, &err), &err);
                const struct buffer honest = export.lines[i];
                export.lines[i] = other;
                join(&export, &text);
                refused(&text, "an export with an entry in another place");
                export.lines[i] = honest;
            }
            export_text_done(&parts);
        }
}

static void only_what_was_committed_to_is_shown(void **state)
{
    OWNED_MADE_LOG log = {0};
    OWNED_MADE_EXPORT export = {0};
    OWNED_TEXT text = {&log, BUFFER(TEXT_MAX)};
    struct export_terms terms = {
        .until = EXPORT_NUMBER_MAX, .key = "res:acme/a/b", .nonce = "00112233445566778899aabbccddeeff", .is_opened = true};
    struct export_report report;
    struct error err = {0};

    (void)state;
    made_log_begin(&log, 9);
    struct made_entry *entry = made_add(&log, "blob.read", "acme/a/b", "allowed");
    made_seal(&log, entry, "alice");
    made_write(&log, entry);
    const uint64_t closing = made_close(&log, &terms);
    made_sign(&log);
    made_export_write(&log, &terms, EXPORT_OCSF, closing, &export);
    join(&export, &text);
    must(check_text(&text, 1, &report, &err), &err);
    assert_int_equal(report.opened, 1);
    assert_non_null(strstr(buffer_text(&text.bytes), "\"name\":\"alice\""));
    made_export_done(&export);
    entry->payload.data[entry->payload.length - 3] = 'f'; /* alicf */
    made_export_write(&log, &terms, EXPORT_OCSF, closing, &export);
    join(&export, &text);
    refused(&text, "an export with another name");
    entry->payload.data[entry->payload.length - 3] = 'e';
    entry->salt[0] ^= 1;
    made_export_done(&export);
    made_export_write(&log, &terms, EXPORT_OCSF, closing, &export);
    join(&export, &text);
    refused(&text, "an export with another salt");
}

/* ---- keys of the log ---- */

static void a_signature_by_another_key_is_refused(void **state)
{
    OWNED_MADE_LOG log = {0};
    OWNED_MADE_EXPORT export = {0};
    OWNED_TEXT text = {&log, BUFFER(TEXT_MAX)};
    OWNED(export_check) *check = NULL;
    struct buffer OWNED_BUFFER vkey = BUFFER(512);
    struct export_report report;
    struct export_terms terms;
    struct note_key other;
    struct error err = {0};

    (void)state;
    const uint64_t closing = make_log(&log, 3, &terms);
    made_export_write(&log, &terms, EXPORT_NDJSON, closing, &export);
    join(&export, &text);
    must(note_key_make("other.example/audit", NOTE_ED25519, log.key.public_key, &other, &err), &err);
    buffer_clear(&log.vkey);
    must(note_key_write(&other, &log.vkey, &err), &err);
    refused(&text, "an export of another log");
    must(note_key_make(MADE_ORIGIN, NOTE_COSIGNATURE, log.key.public_key, &other, &err), &err);
    must(note_key_write(&other, &vkey, &err), &err);
    assert_false(export_check_new(&(struct proof_trust){.vkey = buffer_bytes(&vkey)}, &check, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    buffer_clear(&log.vkey);
    must(check_text(&text, 4096, &report, &err), &err);
    assert_false(report.is_signed);
}

/* ---- heads ---- */

static void a_head_without_its_checkpoint_is_refused(void **state)
{
    OWNED_MADE_LOG log = {0};
    OWNED_MADE_EXPORT export = {0};
    OWNED_TEXT text = {&log, BUFFER(TEXT_MAX)};
    struct export_terms terms;
    struct export_report report;
    struct error err = {0};

    (void)state;
    const uint64_t closing = make_log(&log, 3, &terms);
    made_export_write(&log, &terms, EXPORT_NDJSON, closing, &export);
    join(&export, &text);
    char *head = strstr(buffer_text(&text.bytes), "\"checkpoint\":");
    assert_non_null(head);
    head[1] = 'C'; /* another member */
    assert_false(check_text(&text, 4096, &report, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_non_null(strstr(err.message, "line 1: the head of the export lacks a member"));
}

/* ---- reports, and the beginning of an organisation ---- */

static void reports_say_what_is_proven(void **state)
{
    OWNED_MADE_LOG log = {0};
    OWNED_MADE_EXPORT export = {0};
    OWNED_TEXT text = {&log, BUFFER(TEXT_MAX)};
    struct buffer OWNED_BUFFER words = BUFFER(65536), json = BUFFER(65536);
    OWNED_JSON value = NULL;
    struct export_terms terms = {
        .from = 2, .until = EXPORT_NUMBER_MAX, .key = "org:acme", .nonce = "00112233445566778899aabbccddeeff"};
    struct export_report report;
    struct error err = {0};

    (void)state;
    made_log_begin(&log, 5);
    made_write(&log, made_add(&log, "organisation.create", "acme", "allowed"));
    made_write(&log, made_add(&log, "organisation.delete", "acme", "allowed"));
    made_write(&log, made_add(&log, "organisation.create", "acme", "allowed"));
    const uint64_t closing = made_close(&log, &terms);
    made_sign(&log);
    made_export_write(&log, &terms, EXPORT_NDJSON, closing, &export);
    without_lines(&export, 1, 2, &text); /* the left neighbour is of the deleted organisation */
    must(check_text(&text, 100, &report, &err), &err);
    assert_int_equal(report.left, EXPORT_EDGE_BEGINNING);
    assert_int_equal(report.right, EXPORT_EDGE_CLOSING);
    must(export_report_text(&report, &words, &err), &err);
    assert_non_null(strstr(buffer_text(&words), "complete only if the writer was honest"));
    assert_non_null(strstr(buffer_text(&words), "began this organisation"));
    assert_non_null(strstr(buffer_text(&words), "that the nonce is yours"));
    report.has_own_nonce = true;
    buffer_clear(&words);
    must(export_report_text(&report, &words, &err), &err);
    assert_null(strstr(buffer_text(&words), "that the nonce is yours"));
    must(export_report_json(&report, &json, &err), &err);
    must(json_read(buffer_bytes(&json), json.maximum, &value, &err), &err);
    assert_string_equal(json_string_value(json_object_get(value, "left")), "beginning");
    for (size_t room = 1; room < words.length; room += 7) {
        struct buffer OWNED_BUFFER narrow = BUFFER(room);
        assert_false(export_report_text(&report, &narrow, &err).ok);
    }
    for (size_t room = 1; room < json.length; room += 7) {
        struct buffer OWNED_BUFFER narrow = BUFFER(room);
        assert_false(export_report_json(&report, &narrow, &err).ok);
    }
}

/* ---- failures ---- */

static struct result check_again(void *context, struct error *err)
{
    struct export_report report;

    return check_text(context, 512, &report, err);
}

static void each_failure_is_said(void **state)
{
    (void)state;
    /* Not OCSF: jansson 2.14 ends the program if memory is short inside a long text with escapes. */
    for (unsigned format = EXPORT_NDJSON; format <= EXPORT_CSV; format++) {
        OWNED_MADE_LOG log = {0};
        OWNED_MADE_EXPORT export = {0};
        OWNED_TEXT text = {&log, BUFFER(TEXT_MAX)};
        struct export_terms terms = {
            .until = EXPORT_NUMBER_MAX, .key = "org:acme", .nonce = "00112233445566778899aabbccddeeff", .is_opened = true};
        made_log_begin(&log, 21);
        made_add_some(&log, 6);
        const uint64_t closing = made_close(&log, &terms);
        made_sign(&log);
        made_export_write(&log, &terms, (enum export_format)format, closing, &export);
        join(&export, &text);
        fail_each(check_again, &text, ERROR_NONE, 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_exports_are_complete_and_nothing_less_is),
        cmocka_unit_test(relabelled_lines_are_refused),
        cmocka_unit_test(only_what_was_committed_to_is_shown),
        cmocka_unit_test(a_signature_by_another_key_is_refused),
        cmocka_unit_test(a_head_without_its_checkpoint_is_refused),
        cmocka_unit_test(reports_say_what_is_proven),
        cmocka_unit_test(each_failure_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
