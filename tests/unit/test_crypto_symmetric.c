/* MACs, derivation, encryption and passwords against published vectors. */
#include "tests/support/unit.h"

#include <string.h>

#include "crypto/aead.h"
#include "crypto/hkdf.h"
#include "crypto/hmac.h"
#include "crypto/password.h"
#include "crypto/secret.h"
#include "tests/support/hex.h"

#define ZEROS_64 "0000000000000000000000000000000000000000000000000000000000000000"

static const struct hmac_row {
    const char *name, *key, *message, *mac; /* RFC 4231, section 4 */
} hmac_rows[] = {
    {"RFC 4231, 4.2", "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "4869205468657265",
     "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
    {"RFC 4231, 4.3", "4a656665", "7768617420646f2079612077616e7420666f72206e6f7468696e673f",
     "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
    {"RFC 4231, 4.7: a key longer than a block",
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     "54657374205573696e67204c6172676572205468616e20426c6f636b2d53697a65204b6579202d2048617368204b6579204669727374",
     "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
};

static void hmac(void **state)
{
    const struct hmac_row *row = *state;
    uint8_t key[160], message[160], mac[HMAC_SIZE];
    const size_t key_length = unhex(row->key, key, sizeof key);
    const size_t length = unhex(row->message, message, sizeof message);

    hmac_sha256((struct bytes){key, key_length}, (struct bytes){message, length}, mac);
    assert_hex(mac, sizeof mac, row->mac);
}

static const struct hkdf_row {
    const char *name, *key, *salt, *info, *out; /* RFC 5869, appendix A */
} hkdf_rows[] = {
    {"RFC 5869, A.1", "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "000102030405060708090a0b0c", "f0f1f2f3f4f5f6f7f8f9",
     "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"},
    {"RFC 5869, A.2",
     "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f"
     "303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f",
     "606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f"
     "909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeaf",
     "b0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf"
     "e0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
     "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09"
     "da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87"},
    {"RFC 5869, A.3: no salt, no info", "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "", "",
     "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"},
};

static void hkdf(void **state)
{
    const struct hkdf_row *row = *state;
    uint8_t key[96], salt[96], info[96], out[96];
    const size_t length = strlen(row->out) / 2;
    struct error err = {0};

    const struct bytes key_view = {key, unhex(row->key, key, sizeof key)};
    const struct bytes salt_view = {salt, unhex(row->salt, salt, sizeof salt)};
    const struct bytes info_view = {info, unhex(row->info, info, sizeof info)};
    assert_true(hkdf_sha256(key_view, salt_view, info_view, out, length, &err).ok);
    assert_hex(out, length, row->out);
}

static void hkdf_takes_absent_salt_and_info(void **state)
{
    static const uint8_t key[22] = {11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11};
    uint8_t out[42]; /* RFC 5869, A.3 again */
    struct error err = {0};

    (void)state;
    assert_true(hkdf_sha256((struct bytes){key, sizeof key}, (struct bytes){0}, (struct bytes){0}, out, sizeof out, &err).ok);
    assert_hex(out, sizeof out, "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
}

static const struct gcm_row {
    const char *name, *key, *nonce, *associated, *plain, *sealed; /* McGrew and Viega's test cases 13 to 16 */
} gcm_rows[] = {
    {"GCM test case 13", ZEROS_64, "000000000000000000000000", "", "", "530f8afbc74536b9a963b4f1c4cb738b"},
    {"GCM test case 14", ZEROS_64, "000000000000000000000000", "", "00000000000000000000000000000000",
     "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"},
    {"GCM test case 15", "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888", "",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525"
     "b16aedf5aa0de657ba637b391aafd255",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838"
     "c5f61e6393ba7a0abcc9f662898015adb094dac5d93471bdec1a502270e3cc6c"},
    {"GCM test case 16", "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525"
     "b16aedf5aa0de657ba637b39",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838"
     "c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b"},
};

static void gcm(void **state)
{
    const struct gcm_row *row = *state;
    uint8_t key[32], nonce[12], associated[32], plain[80], sealed[96], opened[80];
    OWNED(gcm) *context = NULL;
    struct error err = {0};

    (void)unhex(row->key, key, sizeof key);
    (void)unhex(row->nonce, nonce, sizeof nonce);
    const struct bytes extra = {associated, unhex(row->associated, associated, sizeof associated)};
    const struct bytes text = {plain, unhex(row->plain, plain, sizeof plain)};
    assert_true(gcm_new(key, &context, &err).ok);
    for (int turn = 0; turn < 2; turn++) { /* the context is used again, in both directions */
        assert_true(gcm_seal(context, nonce, extra, text, sealed, &err).ok);
        assert_hex(sealed, text.length + GCM_TAG_SIZE, row->sealed);
        const struct bytes box = {sealed, text.length + GCM_TAG_SIZE};
        assert_true(gcm_open(context, nonce, extra, box, opened, &err).ok);
        assert_memory_equal(opened, plain, text.length);
    }
    memcpy(sealed, plain, text.length);
    assert_true(gcm_seal(context, nonce, extra, (struct bytes){sealed, text.length}, sealed, &err).ok);
    assert_hex(sealed, text.length + GCM_TAG_SIZE, row->sealed);
}

static void gcm_finds_every_flipped_bit(void **state)
{
    uint8_t key[32] = {1}, nonce[12] = {2}, plain[40] = "forty bytes that nobody may change", sealed[56], opened[40];
    static const uint8_t zeros[40];
    OWNED(gcm) *context = NULL;
    struct error err = {0};

    (void)state;
    const struct bytes extra = bytes_of_text("footer");
    assert_true(gcm_new(key, &context, &err).ok);
    assert_true(gcm_seal(context, nonce, extra, (struct bytes){plain, sizeof plain}, sealed, &err).ok);
    for (size_t bit = 0; bit < 8 * sizeof sealed; bit++) {
        sealed[bit / 8] ^= (uint8_t)(1U << bit % 8);
        err.kind = ERROR_NONE;
        memset(opened, 0xee, sizeof opened);
        assert_false(gcm_open(context, nonce, extra, (struct bytes){sealed, sizeof sealed}, opened, &err).ok);
        assert_int_equal(err.kind, ERROR_CORRUPT);
        assert_memory_equal(opened, zeros, sizeof zeros);
        sealed[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    assert_false(gcm_open(context, nonce, bytes_of_text("Footer"), (struct bytes){sealed, sizeof sealed}, opened, &err).ok);
    assert_false(gcm_open(context, nonce, extra, (struct bytes){sealed, 15}, opened, &err).ok);
    assert_true(gcm_open(context, nonce, extra, (struct bytes){sealed, sizeof sealed}, opened, &err).ok);
    assert_memory_equal(opened, plain, sizeof plain);
}

/* draft-irtf-cfrg-xchacha-03, appendix A.3.1 */
static void xchacha_matches_the_draft(void **state)
{
    static const char text[] = "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the "
                               "future, sunscreen would be it.";
    uint8_t key[32], nonce[24], associated[12], sealed[sizeof text - 1 + XCHACHA_TAG_SIZE], opened[sizeof text - 1];
    struct error err = {0};

    (void)state;
    (void)unhex("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f", key, sizeof key);
    (void)unhex("404142434445464748494a4b4c4d4e4f5051525354555657", nonce, sizeof nonce);
    (void)unhex("50515253c0c1c2c3c4c5c6c7", associated, sizeof associated);
    const struct bytes extra = {associated, sizeof associated};
    xchacha_seal(key, nonce, extra, bytes_of_text(text), sealed);
    assert_hex(sealed, sizeof sealed,
               "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb731c7f1b0b4aa6440bf3a82f4eda7e39"
               "ae64c6708c54c216cb96b72e1213b4522f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff9"
               "21f9664c97637da9768812f615c68b13b52e"
               "c0875924c1c7987947deafd8780acf49");
    assert_true(xchacha_open(key, nonce, extra, (struct bytes){sealed, sizeof sealed}, opened, &err).ok);
    assert_memory_equal(opened, text, sizeof opened);
    sealed[3] ^= 1;
    assert_false(xchacha_open(key, nonce, extra, (struct bytes){sealed, sizeof sealed}, opened, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
}

static void boxes_are_never_equal_and_check_themselves(void **state)
{
    uint8_t key[32] = {9}, first[5 + BOX_OVERHEAD], second[5 + BOX_OVERHEAD], opened[5];
    struct error err = {0};

    (void)state;
    box_seal(key, bytes_of_text("a"), bytes_of_text("hello"), first);
    box_seal(key, bytes_of_text("a"), bytes_of_text("hello"), second);
    assert_memory_not_equal(first, second, sizeof first);
    assert_true(box_open(key, bytes_of_text("a"), (struct bytes){first, sizeof first}, opened, &err).ok);
    assert_memory_equal(opened, "hello", 5);
    assert_false(box_open(key, bytes_of_text("b"), (struct bytes){first, sizeof first}, opened, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_false(box_open(key, bytes_of_text("a"), (struct bytes){first, BOX_OVERHEAD - 1}, opened, &err).ok);
    key[0] ^= 1;
    assert_false(box_open(key, bytes_of_text("a"), (struct bytes){first, sizeof first}, opened, &err).ok);
}

/* Made with the reference implementation: argon2 -id -t 2 -k 1024 -p 1 -l 32 */
static void passwords(void **state)
{
    static const uint8_t salt[PASSWORD_SALT_SIZE] = "somesaltsomesalt";
    static const struct password_cost small = {.passes = 2, .memory_kib = 1024}, none = {.passes = 0, .memory_kib = 64};
    OWNED(secret) *key = NULL;
    OWNED(secret) *other = NULL;
    struct error err = {0};

    (void)state;
    assert_true(password_key(bytes_of_text("password"), salt, small, &key, &err).ok);
    assert_hex(key->bytes, key->length, "08a19ee7f6d7f589c2ab6af18d6e724172b19f7d6fd462b38430ab31ceabeaf0");
    assert_true(password_key(bytes_of_text("Password"), salt, small, &other, &err).ok);
    assert_false(bytes_equal(secret_bytes(key), secret_bytes(other)));
    assert_false(password_key(bytes_of_text("password"), salt, none, &key, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
}

static const struct cost_row {
    const char *name;
    struct password_cost cost;
} cost_rows[] = {
    {"no pass", {0, 64}},
    {"seventeen passes", {17, 64}},
    {"seven KiB", {1, 7}},
    {"more than a GiB", {1, 1024 * 1024 + 1}},
};

static void costs_have_bounds(void **state)
{
    const struct cost_row *row = *state;
    static const uint8_t salt[PASSWORD_SALT_SIZE];
    struct secret *key = NULL;
    struct error err = {0};

    assert_false(password_key(bytes_of_text("p"), salt, row->cost, &key, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_null(key);
}

static void nothing_can_be_a_secret(void **state)
{
    OWNED(secret) *empty = NULL;
    struct error err = {0};

    (void)state;
    assert_true(secret_copy((struct bytes){0}, &empty, &err).ok);
    assert_int_equal(secret_bytes(empty).length, 0);
}

/* A tag alone seals nothing: it is checked all the same. */
static void a_tag_alone_is_checked(void **state)
{
    static const uint8_t key[XCHACHA_KEY_SIZE], nonce[XCHACHA_NONCE_SIZE];
    uint8_t tag[XCHACHA_TAG_SIZE], nothing = 7;
    struct error err = {0};

    (void)state;
    xchacha_seal(key, nonce, bytes_of_text("a"), (struct bytes){0}, tag);
    const struct bytes sealed = {tag, sizeof tag};
    assert_true(xchacha_open(key, nonce, bytes_of_text("a"), sealed, &nothing, &err).ok);
    assert_false(xchacha_open(key, nonce, bytes_of_text("b"), sealed, &nothing, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_int_equal(nothing, 7);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(hkdf_takes_absent_salt_and_info),
        cmocka_unit_test(gcm_finds_every_flipped_bit),
        cmocka_unit_test(xchacha_matches_the_draft),
        cmocka_unit_test(boxes_are_never_equal_and_check_themselves),
        cmocka_unit_test(passwords),
        cmocka_unit_test(nothing_can_be_a_secret),
        cmocka_unit_test(a_tag_alone_is_checked),
    };

    return RUN_TABLE(hmac_rows, hmac) + RUN_TABLE(hkdf_rows, hkdf) + RUN_TABLE(gcm_rows, gcm) +
           RUN_TABLE(cost_rows, costs_have_bounds) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
