/* Signed documents: the bytes that DSSE signs, and envelopes. */
#include "tests/support/unit.h"

#include <string.h>

#include "base/text.h"
#include "crypto/dsse.h"
#include "crypto/ecdsa.h"
#include "tests/support/hex.h"

/* The example of the DSSE protocol document (v1.0.2): its key, envelope and encoding. */
#define DSSE_EXAMPLE_SIGNATURE "A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAriEGAHTVeCUjW2JIZA=="

static void dsse_encodes_as_its_document_says(void **state)
{
    struct buffer OWNED_BUFFER encoding = BUFFER(256);
    struct buffer OWNED_BUFFER raw = BUFFER(64);
    OWNED(ecdsa_key) *key = NULL;
    uint8_t point[65] = {4};
    struct error err = {0};

    (void)state;
    assert_true(dsse_preauthentication("http://example.com/HelloWorld", bytes_of_text("hello world"), &encoding, &err).ok);
    assert_string_equal(buffer_text(&encoding), "DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    (void)unhex("67cd390f77aa359cb08c2235f652270493a9ed832b0abcc01f70954c0390d238", point + 1, 32);
    (void)unhex("0c782bd54e269125a44f4433aff1432ce94e12bca73aa67ac80cea12608ddf74", point + 33, 32);
    assert_true(ecdsa_key_from_public(point, &key, &err).ok);
    assert_true(text_from_base64(&raw, BASE64_STANDARD, bytes_of_text(DSSE_EXAMPLE_SIGNATURE), &err).ok);
    assert_true(ecdsa_verify_jose(key, buffer_bytes(&encoding), buffer_bytes(&raw))); /* the example has r || s */
}

static void dsse_travels(void **state)
{
    OWNED(ecdsa_key) *first = NULL;
    OWNED(ecdsa_key) *second = NULL;
    OWNED(ecdsa_key) *stranger = NULL;
    OWNED(dsse) *dsse = NULL;
    struct buffer OWNED_BUFFER envelope = BUFFER(DSSE_OVERHEAD);
    struct error err = {0};

    (void)state;
    assert_true(ecdsa_key_new(&first, &err).ok && ecdsa_key_new(&second, &err).ok && ecdsa_key_new(&stranger, &err).ok);
    const struct ecdsa_key *signers[] = {first, second};
    assert_true(dsse_write("text/plain", bytes_of_text("hello"), signers, 2, &envelope, &err).ok);
    assert_true(dsse_read(buffer_bytes(&envelope), DSSE_OVERHEAD, &dsse, &err).ok);
    assert_string_equal(dsse->payload_type, "text/plain");
    assert_string_equal(buffer_text(&dsse->payload), "hello");
    assert_int_equal(dsse->signature_count, 2);
    assert_true(dsse_check_signer(dsse, first, &err).ok && dsse_check_signer(dsse, second, &err).ok);
    assert_false(dsse_check_signer(dsse, stranger, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    dsse->payload.data[0] ^= 1;
    assert_false(dsse_check_signer(dsse, first, &err).ok);
    dsse->payload.data[0] ^= 1;
    dsse->payload_type[0] = 'T';
    assert_false(dsse_check_signer(dsse, first, &err).ok);
}

#define LETTERS_32  "abcdefghijklmnopqrstuvwxyzabcdef"
#define LETTERS_128 LETTERS_32 LETTERS_32 LETTERS_32 LETTERS_32
#define SIG         "{\"sig\":\"AAAA\"}"
static const struct bad_envelope_row {
    const char *name, *json;
    enum error_kind kind;
    const char *said; /* NULL: not checked */
} bad_envelope_rows[] = {
    {"no object", "[]", ERROR_INVALID, NULL},
    {"no payload", "{\"payloadType\":\"t\",\"signatures\":[" SIG "]}", ERROR_INVALID, NULL},
    {"no type", "{\"payload\":\"\",\"signatures\":[" SIG "]}", ERROR_INVALID, NULL},
    {"no signatures", "{\"payload\":\"\",\"payloadType\":\"t\"}", ERROR_INVALID, NULL},
    {"no signature in the list", "{\"payload\":\"\",\"payloadType\":\"t\",\"signatures\":[]}", ERROR_INVALID, NULL},
    {"a signature that is a number", "{\"payload\":\"\",\"payloadType\":\"t\",\"signatures\":[7]}", ERROR_INVALID, NULL},
    {"a number for sig", "{\"payload\":\"\",\"payloadType\":\"t\",\"signatures\":[{\"sig\":7}]}", ERROR_INVALID, NULL},
    {"base64 of URLs", "{\"payload\":\"-_-_\",\"payloadType\":\"t\",\"signatures\":[" SIG "]}", ERROR_INVALID,
     "the \"payload\" of an envelope: a character that base64 does not have"},
    {"no padding", "{\"payload\":\"AA\",\"payloadType\":\"t\",\"signatures\":[" SIG "]}", ERROR_INVALID,
     "the \"payload\" of an envelope: base64 without its padding"},
    {"a sig in base64 of URLs", "{\"payload\":\"\",\"payloadType\":\"t\",\"signatures\":[{\"sig\":\"-_-_\"}]}", ERROR_INVALID,
     "the \"sig\" of an envelope: a character that base64 does not have (standard base64 with padding is read, base64url is not)"},
    {"a sig without padding", "{\"payload\":\"\",\"payloadType\":\"t\",\"signatures\":[{\"sig\":\"AA\"}]}", ERROR_INVALID,
     "the \"sig\" of an envelope: base64 without its padding"},
    {"the payload twice", "{\"payload\":\"\",\"payload\":\"\",\"payloadType\":\"t\",\"signatures\":[" SIG "]}", ERROR_INVALID,
     NULL},
    {"a type that is a number", "{\"payload\":\"\",\"payloadType\":1,\"signatures\":[" SIG "]}", ERROR_INVALID, NULL},
    {"a payload that is a number", "{\"payload\":1,\"payloadType\":\"t\",\"signatures\":[" SIG "]}", ERROR_INVALID, NULL},
    {"an empty type", "{\"payload\":\"\",\"payloadType\":\"\",\"signatures\":[" SIG "]}", ERROR_LIMIT, NULL},
    {"a type of 128 letters", "{\"payload\":\"\",\"payloadType\":\"" LETTERS_128 "\",\"signatures\":[" SIG "]}", ERROR_LIMIT,
     NULL},
    {"signatures that are a number", "{\"payload\":\"\",\"payloadType\":\"t\",\"signatures\":1}", ERROR_INVALID, NULL},
    {"no sig", "{\"payload\":\"\",\"payloadType\":\"t\",\"signatures\":[{}]}", ERROR_INVALID, NULL},
    {"a key id that is a number", "{\"payload\":\"\",\"payloadType\":\"t\",\"signatures\":[{\"keyid\":1,\"sig\":\"AAAA\"}]}",
     ERROR_INVALID, NULL},
    {"a key id of 128 letters",
     "{\"payload\":\"\",\"payloadType\":\"t\",\"signatures\":[{\"keyid\":\"" LETTERS_128 "\",\"sig\":\"AAAA\"}]}", ERROR_LIMIT,
     NULL},
    {"a member that is not covered", "{\"payload\":\"\",\"payloadType\":\"t\",\"signatures\":[" SIG "],\"note\":1}",
     ERROR_INVALID, NULL},
    {"a member of a signature that is not covered",
     "{\"payload\":\"\",\"payloadType\":\"t\",\"signatures\":[{\"sig\":\"AAAA\",\"cert\":\"x\"}]}", ERROR_INVALID, NULL},
    {"nine signatures",
     "{\"payload\":\"\",\"payloadType\":\"t\",\"signatures\":[" SIG "," SIG "," SIG "," SIG "," SIG "," SIG "," SIG "," SIG
     "," SIG "]}",
     ERROR_LIMIT, NULL},
};

static void refuses_envelopes(void **state)
{
    const struct bad_envelope_row *row = *state;
    struct dsse *dsse = NULL;
    struct error err = {0};

    assert_false(dsse_read(bytes_of_text(row->json), 4096, &dsse, &err).ok);
    assert_int_equal(err.kind, row->kind);
    if (row->said != NULL && strstr(err.message, row->said) == NULL) fail_msg("%s", err.message);
    assert_null(dsse);
}

/* Signatures of other algorithms may stand beside ours: they are read, and never verify. */
static void other_signatures_are_kept_apart(void **state)
{
    static const struct {
        const char *sig;
        size_t length;
    } rows[] = {{"", 0}, {"AAAA", 3}, {"base64 of 75 bytes", 0}};
    OWNED(ecdsa_key) *key = NULL;
    struct error err = {0};

    (void)state;
    assert_true(ecdsa_key_new(&key, &err).ok);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buffer OWNED_BUFFER text = BUFFER(4096);
        OWNED(dsse) *dsse = NULL;

        assert_true(buffer_format(&text, &err, "{\"payload\":\"\",\"payloadType\":\"t\",\"signatures\":[{\"sig\":\"%s\"}]}",
                                  rows[i].sig[0] == 'b' ? LETTERS_32 LETTERS_32 LETTERS_32 "abcd" : rows[i].sig)
                        .ok);
        assert_true(dsse_read(buffer_bytes(&text), 4096, &dsse, &err).ok);
        assert_int_equal(dsse->signatures[0].length, rows[i].length);
        assert_string_equal(dsse->signatures[0].keyid, "");
        assert_false(dsse_check_signer(dsse, key, &err).ok);
    }
    static const uint8_t long_signature[ECDSA_DER_MAX + 1] = {0x30};
    assert_false(ecdsa_verify_der(key, bytes_of_text("m"), (struct bytes){long_signature, sizeof long_signature}));
}

/* An envelope needs its room: with less room, it is not written. */
static void envelopes_need_their_room(void **state)
{
    OWNED(ecdsa_key) *key = NULL;
    struct error err = {0};

    (void)state;
    assert_true(ecdsa_key_new(&key, &err).ok);
    const struct ecdsa_key *const signers[] = {key, key};
    for (size_t room = 1; room < 300; room++) { /* two key ids and two signatures of at least 64 bytes */
        struct buffer OWNED_BUFFER narrow = BUFFER(room);
        assert_false(dsse_write("text/plain", bytes_of_text("hello"), signers, 2, &narrow, &err).ok);
        assert_int_equal(err.kind, ERROR_LIMIT);
    }
}

static void read_signed(const char *payload, const struct ecdsa_key *const *signers, size_t count, struct dsse **dsse_out)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(DSSE_OVERHEAD);
    struct error err = {0};

    assert_true(dsse_write("text/plain", bytes_of_text(payload), signers, count, &envelope, &err).ok);
    assert_true(dsse_read(buffer_bytes(&envelope), DSSE_OVERHEAD, dsse_out, &err).ok);
}

/* Persons that sign one after the other, at different places. */
static void signatures_are_joined(void **state)
{
    OWNED(ecdsa_key) *first = NULL;
    OWNED(ecdsa_key) *second = NULL;
    OWNED(dsse) *one = NULL;
    OWNED(dsse) *two = NULL;
    OWNED(dsse) *other = NULL;
    OWNED(dsse) *joined = NULL;
    OWNED(dsse) *full = NULL;
    struct buffer OWNED_BUFFER envelope = BUFFER(DSSE_OVERHEAD), too_much = BUFFER(DSSE_OVERHEAD);
    struct error err = {0};

    (void)state;
    assert_true(ecdsa_key_new(&first, &err).ok && ecdsa_key_new(&second, &err).ok);
    const struct ecdsa_key *by_first[] = {first}, *by_second[] = {second},
                           *by_eight[] = {first, first, first, first, first, first, first, first};
    read_signed("hello", by_first, 1, &one);
    read_signed("hello", by_second, 1, &two);
    read_signed("hallo", by_second, 1, &other);
    read_signed("hello", by_eight, 8, &full);
    assert_true(dsse_join(one, two, &envelope, &err).ok);
    assert_true(dsse_read(buffer_bytes(&envelope), DSSE_OVERHEAD, &joined, &err).ok);
    assert_int_equal(joined->signature_count, 2);
    assert_string_equal(joined->signatures[1].keyid, two->signatures[0].keyid);
    assert_true(dsse_check_signer(joined, first, &err).ok && dsse_check_signer(joined, second, &err).ok);
    assert_false(dsse_join(one, other, &too_much, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_false(dsse_join(full, two, &too_much, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(dsse_encodes_as_its_document_says),
        cmocka_unit_test(dsse_travels),
        cmocka_unit_test(other_signatures_are_kept_apart),
        cmocka_unit_test(envelopes_need_their_room),
        cmocka_unit_test(signatures_are_joined),
    };

    return RUN_TABLE(bad_envelope_rows, refuses_envelopes) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
