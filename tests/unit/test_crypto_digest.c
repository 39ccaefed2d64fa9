/* Digests, and exported states of hashers, compared with published vectors. */
#include "tests/support/unit.h"

#include <string.h>

#include "crypto/digest.h"
#include "crypto/hmac.h"
#include "tests/support/hex.h"

static const struct digest_row {
    const char *name, *message;
    size_t repeat;
    const char *text; /* FIPS 180-4 examples and NIST's long messages */
} digest_rows[] = {
    {"SHA-256 of nothing", "", 1, "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"SHA-256 abc", "abc", 1, "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"SHA-256 of two blocks", "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
     "sha256:248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"SHA-256 of a million a", "a", 1000000, "sha256:cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    {"SHA-512 abc", "abc", 1,
     "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
     "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"},
    {"SHA-512 of nothing", "", 1,
     "sha512:cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce"
     "47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e"},
};

static void digests(void **state)
{
    const struct digest_row *row = *state;
    OWNED(hasher) *hasher = NULL;
    struct digest expected, computed;
    struct error err = {0};
    char text[DIGEST_TEXT_SIZE];

    assert_true(digest_parse(bytes_of_text(row->text), &expected, &err).ok);
    assert_true(hasher_new(expected.algorithm, &hasher, &err).ok);
    for (size_t i = 0; i < row->repeat; i++) hasher_add(hasher, bytes_of_text(row->message));
    computed = hasher_digest(hasher);
    assert_true(digest_equal(&computed, &expected));
    assert_int_equal(hasher_length(hasher), row->repeat * strlen(row->message));
    digest_format(&computed, text);
    assert_string_equal(text, row->text);
    if (row->repeat > 1) return;
    computed = digest_of(expected.algorithm, bytes_of_text(row->message));
    assert_true(digest_equal(&computed, &expected));
}

#define ZEROS_64 "0000000000000000000000000000000000000000000000000000000000000000"
static const struct bad_digest_row {
    const char *name, *text;
} bad_digest_rows[] = {
    {"nothing", ""},
    {"no algorithm", ZEROS_64},
    {"another algorithm", "sha384:" ZEROS_64 "00000000000000000000000000000000"},
    {"one digit short", "sha256:000000000000000000000000000000000000000000000000000000000000000"},
    {"one digit long", "sha256:" ZEROS_64 "0"},
    {"upper case digits", "sha256:E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855"},
    {"upper case name", "SHA256:" ZEROS_64},
    {"SHA-512 with 64 digits", "sha512:" ZEROS_64},
    {"a blank before", " sha256:" ZEROS_64},
    {"a line feed after", "sha256:" ZEROS_64 "\n"},
    {"two colons", "sha256::" ZEROS_64},
    {"only the name", "sha256:"},
};

static void refuses_digests(void **state)
{
    const struct bad_digest_row *row = *state;
    struct digest digest = {.algorithm = (enum digest_algorithm)7};
    struct error err = {0};

    assert_false(digest_parse(bytes_of_text(row->text), &digest, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_int_equal((int)digest.algorithm, 7);
}

/* Every length of tail that a block can have, several times over, at every place of the second piece. */
static void check_state_travels(enum digest_algorithm algorithm, size_t size)
{
    uint8_t message[400], exported[HASHER_STATE_MAX], again[HASHER_STATE_MAX];

    for (size_t i = 0; i < sizeof message; i++) message[i] = (uint8_t)(i * 7 + 3);
    const struct digest whole = digest_of(algorithm, (struct bytes){message, sizeof message});
    for (size_t offset = 0; offset <= 300; offset++) {
        OWNED(hasher) *before = NULL;
        OWNED(hasher) *after = NULL;
        struct error err = {0};

        assert_true(hasher_new(algorithm, &before, &err).ok);
        hasher_add(before, (struct bytes){message, offset});
        assert_int_equal(hasher_export(before, exported), size);
        assert_true(hasher_import((struct bytes){exported, size}, &after, &err).ok);
        assert_int_equal(hasher_algorithm(after), algorithm);
        assert_int_equal(hasher_length(after), offset);
        assert_int_equal(hasher_export(after, again), size);
        assert_memory_equal(exported, again, size);
        hasher_add(after, (struct bytes){message + offset, sizeof message - offset});
        const struct digest digest = hasher_digest(after);
        assert_true(digest_equal(&digest, &whole));
    }
}

static void hash_state_travels(void **state)
{
    (void)state;
    check_state_travels(DIGEST_SHA256, HASHER_STATE_SIZE);
    check_state_travels(DIGEST_SHA512, HASHER_STATE_MAX);
}

static void hash_state_has_stated_bytes(void **state)
{
    OWNED(hasher) *hasher = NULL;
    uint8_t exported[HASHER_STATE_SIZE];
    struct error err = {0};

    (void)state;
    assert_true(hasher_new(DIGEST_SHA256, &hasher, &err).ok);
    hasher_add(hasher, bytes_of_text("abc"));
    hasher_export(hasher, exported);
    assert_hex(exported, sizeof exported,
               "534a534841323536" /* SJSHA256, then the initial hash value of FIPS 180-4, 5.3.3 */
               "6a09e667bb67ae853c6ef372a54ff53a510e527f9b05688c1f83d9ab5be0cd19"
               "0000000000000003"
               "61626300000000000000000000000000000000000000000000000000000000000000000000000000"
               "000000000000000000000000000000000000000000000000");
}

static void hash_state_must_be_possible(void **state)
{
    static const struct {
        size_t at;
        uint8_t change;
    } changes[] = {{0, 1}, {7, 1}, {8, 1}, {39, 0x80}, {40, 0x20}, {47, 2}, {51, 1}, {111, 1}};
    OWNED(hasher) *hasher = NULL;
    struct hasher *other = NULL;
    uint8_t exported[HASHER_STATE_SIZE];
    struct error err = {0};

    (void)state;
    assert_true(hasher_new(DIGEST_SHA256, &hasher, &err).ok);
    hasher_add(hasher, bytes_of_text("abc"));
    for (size_t i = 0; i < COUNT(changes); i++) {
        hasher_export(hasher, exported);
        exported[changes[i].at] ^= changes[i].change;
        err.kind = ERROR_NONE;
        assert_false(hasher_import((struct bytes){exported, sizeof exported}, &other, &err).ok);
        assert_int_equal(err.kind, ERROR_CORRUPT);
    }
    hasher_export(hasher, exported);
    for (size_t length = 0; length < sizeof exported; length++)
        assert_false(hasher_import((struct bytes){exported, length}, &other, &err).ok);
    assert_null(other);
}

static void sha512_state_must_be_possible(void **state)
{
    static const size_t changes[] = {0, 7, 8, 71, 72, 79, 83, 207};
    OWNED(hasher) *hasher = NULL;
    struct hasher *other = NULL;
    uint8_t exported[HASHER_STATE_MAX];
    struct error err = {0};

    (void)state;
    assert_true(hasher_new(DIGEST_SHA512, &hasher, &err).ok);
    hasher_add(hasher, bytes_of_text("abc"));
    for (size_t i = 0; i < COUNT(changes); i++) {
        (void)hasher_export(hasher, exported);
        exported[changes[i]] ^= 0x81;
        assert_false(hasher_import((struct bytes){exported, sizeof exported}, &other, &err).ok);
        assert_int_equal(err.kind, ERROR_CORRUPT);
    }
    assert_null(other);
}

/* The example of "SipHash: a fast short-input PRF", appendix A. */
static void table_hashes_are_siphash(void **state)
{
    uint8_t bytes[TABLE_KEY_SIZE];

    (void)state;
    for (uint8_t i = 0; i < sizeof bytes; i++) bytes[i] = i;
    assert_true(table_hash(bytes, (struct bytes){bytes, 15}) == UINT64_C(0xe545be4961ca29a1)); /* its bytes, first to last */
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(table_hashes_are_siphash),      cmocka_unit_test(hash_state_travels),
        cmocka_unit_test(hash_state_has_stated_bytes),   cmocka_unit_test(hash_state_must_be_possible),
        cmocka_unit_test(sha512_state_must_be_possible),
    };

    return RUN_TABLE(digest_rows, digests) + RUN_TABLE(bad_digest_rows, refuses_digests) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}
