/* The vectors of docs/formats/documents.md, which tests/vectors/documents.py has made and checks too. */
#include "tests/support/unit.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "documents/format/signing_key.h"

static json_t *read_vectors(void)
{
    struct buffer OWNED_BUFFER text = BUFFER(1 << 20);
    json_t *vectors = NULL;
    struct error err = {0};

    assert_true(file_read(DOCUMENTS_VECTORS, &text, &err).ok);
    assert_true(json_read(buffer_bytes(&text), 1 << 20, &vectors, &err).ok);
    return vectors;
}

static void check_vector(const json_t *row, const struct document *document, struct document_pin *pin)
{
    char detail[DOCUMENT_DETAIL_SIZE], digest[2 * DOCUMENT_DIGEST_SIZE + 1];
    struct error err = {0};
    int64_t number = 0;

    document_detail(document, detail);
    assert_string_equal(detail, json_text_of(row, "detail"));
    assert_true(json_integer_of(row, "sequence", &number));
    assert_true(document_pin_next(pin, document, (uint64_t)number, pin, &err).ok);
    text_hex(pin->digest, sizeof pin->digest, digest);
    assert_string_equal(digest, json_text_of(row, "pin"));
    assert_true(json_integer_of(row, "epoch", &number) && pin->epoch == (uint64_t)number);
}

static struct document *read_vector(const json_t *row)
{
    const json_t *texts = json_object_get(row, "envelopes");
    struct bytes views[DOCUMENT_SIGNATURES_MAX];
    struct document *document = NULL;
    struct error err = {0};

    for (size_t i = 0; i < json_array_size(texts); i++) views[i] = bytes_of_text(json_string_value(json_array_get(texts, i)));
    if (!document_read(views, json_array_size(texts), &document, &err).ok)
        fail_msg("%s: %s", json_text_of(row, "name"), err.message);
    return document;
}

/* Documents that are refused after all others. */
static void check_refused(const json_t *rows, const struct document_trust *trust)
{
    const json_t *row;
    size_t i;

    assert_true(json_array_size(rows) >= 6);
    json_array_foreach (rows, i, row) {
        OWNED(document) *document = read_vector(row);
        struct error err = {0};
        if (document_check(document, trust, &err).ok) fail_msg("%s: it is accepted", json_text_of(row, "name"));
        assert_int_equal(err.kind, ERROR_INVALID);
    }
}

/* As sijil-keyd takes them, one after the other; the first approver comes in with the second of them. */
static void vectors_hold(void **state)
{
    OWNED_JSON vectors = read_vectors();
    const json_t *cases = json_object_get(vectors, "cases");
    struct document_pin pins[DOCUMENT_KIND_COUNT] = {{0}};
    struct document_trust trust = {0};
    struct error err = {0};

    (void)state;
    assert_true(json_array_size(cases) == 16 && clock_parse(bytes_of_text(json_text_of(vectors, "now")), &trust.now_ms));
    assert_true(
        text_from_hex(bytes_of_text(json_text_of(json_object_get(vectors, "keys"), "root")), trust.root, sizeof trust.root));
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *row = json_array_get(cases, i);
        OWNED(document) *document = read_vector(row);
        if (!document_check(document, &trust, &err).ok) fail_msg("%s: %s", json_text_of(row, "name"), err.message);
        check_vector(row, document, &pins[document->kind]);
        if (document->kind == DOCUMENT_SIGNING_KEY)
            assert_true(signing_key_note(document, trust.approvers, trust.now_ms, &err).ok);
    }
    check_refused(json_object_get(vectors, "refused"), &trust);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_hold),
    };

    return cmocka_run_group_tests_name("vectors of documents", tests, NULL, NULL);
}
