/* Keys and signatures. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "crypto/ecdsa.h"
#include "crypto/ed25519.h"
#include "tests/support/hex.h"

/* RFC 6979, A.2.5: the key, and signatures made with it by the RFC; ours are random, so they are checked instead. */
#define RFC6979_SCALAR "c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721"
#define RFC6979_POINT                                                    \
    "0460fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6" \
    "7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299"
#define RFC6979_SAMPLE                                                 \
    "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716" \
    "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"
#define RFC6979_TEST                                                   \
    "f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367" \
    "019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083"

static struct ecdsa_key *rfc6979_key(void)
{
    OWNED(secret) *scalar = NULL;
    struct ecdsa_key *key = NULL;
    struct error err = {0};

    assert_true(secret_new(ECDSA_SCALAR_SIZE, &scalar, &err).ok);
    (void)unhex(RFC6979_SCALAR, scalar->bytes, scalar->length);
    assert_true(ecdsa_key_from_scalar(scalar, &key, &err).ok);
    return key;
}

static void ecdsa_agrees_with_rfc_6979(void **state)
{
    OWNED(ecdsa_key) *key = rfc6979_key();
    OWNED(ecdsa_key) *public_key = NULL;
    OWNED(secret) *again = NULL;
    uint8_t point[65], expected[65], signature[64];
    struct error err = {0};

    (void)state;
    ecdsa_key_public(key, point);
    (void)unhex(RFC6979_POINT, expected, sizeof expected);
    assert_memory_equal(point, expected, sizeof point);
    assert_true(ecdsa_key_scalar(key, &again, &err).ok);
    (void)unhex(RFC6979_SCALAR, expected, sizeof expected);
    assert_memory_equal(again->bytes, expected, 32);

    assert_true(ecdsa_key_from_public(point, &public_key, &err).ok);
    assert_false(ecdsa_key_is_private(public_key));
    (void)unhex(RFC6979_SAMPLE, signature, sizeof signature);
    const struct bytes view = {signature, sizeof signature};
    assert_true(ecdsa_verify_jose(public_key, bytes_of_text("sample"), view));
    assert_false(ecdsa_verify_jose(public_key, bytes_of_text("test"), view));
    (void)unhex(RFC6979_TEST, signature, sizeof signature);
    assert_true(ecdsa_verify_jose(public_key, bytes_of_text("test"), view));
    for (size_t bit = 0; bit < 8 * sizeof signature; bit += 5) {
        signature[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_false(ecdsa_verify_jose(public_key, bytes_of_text("test"), view));
        signature[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    assert_false(ecdsa_verify_jose(public_key, bytes_of_text("test"), (struct bytes){signature, 63}));
}

static void ecdsa_signs_in_both_spellings(void **state)
{
    OWNED(ecdsa_key) *key = NULL;
    struct buffer OWNED_BUFFER der = BUFFER(ECDSA_DER_MAX);
    uint8_t jose[64];
    struct error err = {0};
    const struct bytes message = bytes_of_text("message");

    (void)state;
    assert_true(ecdsa_key_new(&key, &err).ok);
    for (int i = 0; i < 50; i++) { /* r and s of every length */
        buffer_clear(&der);
        assert_true(ecdsa_sign_jose(key, message, jose, &err).ok);
        assert_true(ecdsa_verify_jose(key, message, (struct bytes){jose, sizeof jose}));
        assert_true(ecdsa_sign_der(key, message, &der, &err).ok);
        assert_true(ecdsa_verify_der(key, message, buffer_bytes(&der)));
    }
    assert_false(ecdsa_verify_der(key, message, (struct bytes){jose, sizeof jose}));
    assert_false(ecdsa_verify_der(key, message, (struct bytes){0}));
    assert_false(ecdsa_verify_der(key, bytes_of_text("massage"), buffer_bytes(&der)));
    memset(jose, 0, sizeof jose);
    assert_false(ecdsa_verify_jose(key, message, (struct bytes){jose, sizeof jose}));
}

static const struct bad_scalar_row {
    const char *name, *scalar;
} bad_scalar_rows[] = {
    {"zero", "0000000000000000000000000000000000000000000000000000000000000000"},
    {"the order", "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"},
    {"all ones", "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"},
};

static void refuses_scalars(void **state)
{
    const struct bad_scalar_row *row = *state;
    OWNED(secret) *scalar = NULL;
    struct ecdsa_key *key = NULL;
    struct error err = {0};

    assert_true(secret_new(ECDSA_SCALAR_SIZE, &scalar, &err).ok);
    (void)unhex(row->scalar, scalar->bytes, scalar->length);
    assert_false(ecdsa_key_from_scalar(scalar, &key, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
}

static void refuses_points(void **state)
{
    uint8_t point[65];
    struct ecdsa_key *key = NULL;
    struct error err = {0};

    (void)state;
    (void)unhex(RFC6979_POINT, point, sizeof point);
    point[64] ^= 1; /* not on the curve */
    assert_false(ecdsa_key_from_public(point, &key, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    point[64] ^= 1;
    point[0] = 6; /* the hybrid form */
    assert_false(ecdsa_key_from_public(point, &key, &err).ok);
    memset(point, 0, sizeof point);
    assert_false(ecdsa_key_from_public(point, &key, &err).ok);
}

static struct result key_of_parts(void *context, struct error *err)
{
    uint8_t point[ECDSA_PUBLIC_SIZE];
    OWNED(ecdsa_key) *public_key = NULL;
    OWNED(ecdsa_key) *pair = NULL;

    (void)unhex(RFC6979_POINT, point, sizeof point);
    TRY_UNTOUCHED_BYTES(public_key, ecdsa_key_from_public(point, &public_key, err));
    TRY_UNTOUCHED_BYTES(pair, ecdsa_key_from_scalar(context, &pair, err));
    return SUCCESS;
}

/* A policy set was refused as wrong because there was no memory for a good key. */
static void a_lack_of_memory_is_no_bad_key(void **state)
{
    OWNED(secret) *scalar = NULL;
    struct error err = {0};

    (void)state;
    assert_true(secret_new(ECDSA_SCALAR_SIZE, &scalar, &err).ok);
    memset(scalar->bytes, 7, scalar->length);
    fail_each(key_of_parts, scalar, ERROR_NO_MEMORY, 5);
}

/* The key of RFC 7517, A.1; the thumbprint was computed with Python's hashlib as RFC 7638, 3.1 tells. */
static void jwk_has_a_thumbprint(void **state)
{
    struct buffer OWNED_BUFFER point = BUFFER(65);
    struct buffer OWNED_BUFFER jwk = BUFFER(512);
    char thumbprint[ECDSA_THUMBPRINT_SIZE];
    struct error err = {0};

    (void)state;
    assert_true(buffer_add_u8(&point, 4, &err).ok);
    assert_true(text_from_base64(&point, BASE64_URL, bytes_of_text("MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4"), &err).ok);
    assert_true(text_from_base64(&point, BASE64_URL, bytes_of_text("4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"), &err).ok);
    ecdsa_thumbprint(point.data, thumbprint);
    assert_string_equal(thumbprint, "cn-I_WNMClehiVp51i_0VpOENW1upEerA8sEam5hn-s");
    assert_true(ecdsa_jwk(point.data, &jwk, &err).ok);
    assert_string_equal(
        buffer_text(&jwk),
        "{\"alg\":\"ES256\",\"crv\":\"P-256\",\"kid\":\"cn-I_WNMClehiVp51i_0VpOENW1upEerA8sEam5hn-s\",\"kty\":\"EC\","
        "\"use\":\"sig\",\"x\":\"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4\","
        "\"y\":\"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM\"}");
}

static void keys_live_in_files(void **state)
{
    char folder[] = "/tmp/sijil-key-XXXXXX", path[64];
    OWNED(ecdsa_key) *key = NULL;
    OWNED(ecdsa_key) *again = NULL;
    OWNED(ecdsa_key) *half = NULL;
    struct buffer OWNED_BUFFER pem = BUFFER(ECDSA_PEM_MAX);
    uint8_t point[65], same[65];
    struct error err = {0};
    struct stat about;

    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/key.pem", folder);
    assert_true(ecdsa_key_new(&key, &err).ok);
    assert_true(ecdsa_key_save(key, path, &err).ok);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    assert_false(ecdsa_key_save(key, path, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_true(ecdsa_key_load(path, &again, &err).ok);
    ecdsa_key_public(key, point);
    ecdsa_key_public(again, same);
    assert_memory_equal(point, same, sizeof point);
    assert_true(ecdsa_key_is_private(again));

    assert_true(ecdsa_key_public_pem(key, &pem, &err).ok);
    assert_true(ecdsa_key_from_pem(buffer_bytes(&pem), &half, &err).ok);
    assert_false(ecdsa_key_is_private(half));
    ecdsa_key_public(half, same);
    assert_memory_equal(point, same, sizeof point);
    (void)unlink(path);
    (void)rmdir(folder);
}

static const struct bad_pem_row {
    const char *name, *pem;
} bad_pem_rows[] = {
    {"nothing", ""},
    {"no key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"},
    {"Ed25519", "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n"
                "-----END PRIVATE KEY-----\n"},
    {"P-384", "-----BEGIN PUBLIC KEY-----\nMHYwEAYHKoZIzj0CAQYFK4EEACIDYgAETxRoAHI7aaQww7bUxGU6i8kU0+Tocuej\n"
              "T3RpqvB/EZkhKoSWxxsTf/wvRClwSd31PmUZD1JcWfEACroMr3jGQiLwVT/8I9zB\n"
              "pw+0FDF+MHJ0iYnFwUYzgnW6GinJLFyr\n-----END PUBLIC KEY-----\n"},
};

static void refuses_pem(void **state)
{
    const struct bad_pem_row *row = *state;
    struct ecdsa_key *key = NULL;
    struct error err = {0};

    assert_false(ecdsa_key_from_pem(bytes_of_text(row->pem), &key, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_null(key);
}

static const struct ed25519_row {
    const char *name, *seed, *public_key, *message, *signature; /* RFC 8032, 7.1 */
} ed25519_rows[] = {
    {"RFC 8032, test 1", "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
     "d25bf5f0595bbe24655141438e7a100b"},
    {"RFC 8032, test 2", "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
     "387b2eaeb4302aeeb00d291612bb0c00"},
    {"RFC 8032, test 3", "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
     "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
     "4a7c15e9716ed28dc027beceea1ec40a"},
};

static void ed25519(void **state)
{
    const struct ed25519_row *row = *state;
    OWNED(secret) *seed = NULL;
    uint8_t public_key[32], expected_key[32], message[8], signature[64], expected[64];
    struct error err = {0};

    assert_true(secret_new(ED25519_SEED_SIZE, &seed, &err).ok);
    (void)unhex(row->seed, seed->bytes, seed->length);
    const struct bytes text = {message, unhex(row->message, message, sizeof message)};
    (void)unhex(row->public_key, expected_key, sizeof expected_key);
    (void)unhex(row->signature, expected, sizeof expected);
    assert_true(ed25519_public(seed, public_key, &err).ok);
    assert_memory_equal(public_key, expected_key, sizeof public_key);
    assert_true(ed25519_sign(seed, text, signature, &err).ok);
    assert_memory_equal(signature, expected, sizeof signature);
    assert_true(ed25519_verify(public_key, text, signature));
    signature[40] ^= 4;
    assert_false(ed25519_verify(public_key, text, signature));
    assert_false(ed25519_verify(public_key, bytes_of_text("other"), expected));
}

/* A public key of small order "signs" anything under lax libraries (CCTV, ed25519vectors, flag low_order_A). */
static void ed25519_refuses_small_order(void **state)
{
    static const uint8_t identity[32] = {1};
    static const uint8_t signature[64] = {1};

    (void)state;
    assert_false(ed25519_verify(identity, bytes_of_text("anything"), signature));
}

static void large_pem_is_not_read(void **state)
{
    static uint8_t large[ECDSA_PEM_MAX + 1];
    struct ecdsa_key *key = NULL;
    struct error err = {0};

    (void)state;
    assert_false(ecdsa_key_from_pem((struct bytes){large, sizeof large}, &key, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(ecdsa_agrees_with_rfc_6979),
        cmocka_unit_test(ecdsa_signs_in_both_spellings),
        cmocka_unit_test(refuses_points),
        cmocka_unit_test(a_lack_of_memory_is_no_bad_key),
        cmocka_unit_test(jwk_has_a_thumbprint),
        cmocka_unit_test(keys_live_in_files),
        cmocka_unit_test(ed25519_refuses_small_order),
        cmocka_unit_test(large_pem_is_not_read),
    };

    return RUN_TABLE(bad_scalar_rows, refuses_scalars) + RUN_TABLE(bad_pem_rows, refuses_pem) + RUN_TABLE(ed25519_rows, ed25519) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}
