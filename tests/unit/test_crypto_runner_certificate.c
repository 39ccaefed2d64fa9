/* Certificates of runners: those of sijil-keyd are accepted, and no others. */
#include "tests/support/unit.h"

#include <openssl/x509v3.h>
#include <string.h>

#include "crypto/certificate.h"
#include "crypto/ecdsa_priv.h"
#include "crypto/runner_certificate.h"

#define NOW_MS INT64_C(1790000000000)
#define DAY_MS INT64_C(86400000)

static struct ecdsa_key *authority, *runner;
static uint8_t authority_point[ECDSA_PUBLIC_SIZE];
static struct runner_certificate wanted = {.not_before_ms = NOW_MS, .not_after_ms = NOW_MS + 30 * DAY_MS};

static int make_keys(void **state)
{
    struct error err = {0};

    (void)state;
    assert_true(ecdsa_key_new(&authority, &err).ok && ecdsa_key_new(&runner, &err).ok);
    ecdsa_key_public(authority, authority_point);
    ecdsa_key_public(runner, wanted.point);
    assert_true(uuid_parse(bytes_of_text("00112233-4455-4677-8899-aabbccddeeff"), &wanted.runner));
    return 0;
}

static int drop_keys(void **state)
{
    (void)state;
    ecdsa_key_free(authority);
    ecdsa_key_free(runner);
    return 0;
}

static void issue(struct buffer *der)
{
    struct error err = {0};

    assert_true(runner_certificate_issue(&wanted, authority, der, &err).ok);
}

static void what_is_issued_is_read(void **state)
{
    struct buffer OWNED_BUFFER der = BUFFER(RUNNER_CERTIFICATE_MAX);
    struct runner_certificate read;
    struct error err = {0};

    (void)state;
    issue(&der);
    assert_true(runner_certificate_read(buffer_bytes(&der), authority_point, &read, &err).ok);
    assert_memory_equal(&read.runner, &wanted.runner, sizeof read.runner);
    assert_memory_equal(read.point, wanted.point, sizeof read.point);
    assert_int_equal(read.not_before_ms, wanted.not_before_ms);
    assert_int_equal(read.not_after_ms, wanted.not_after_ms);
    assert_true(runner_certificate_is_current(&read, NOW_MS - RUNNER_CERTIFICATE_SKEW_MS));
    assert_false(runner_certificate_is_current(&read, NOW_MS - RUNNER_CERTIFICATE_SKEW_MS - 1));
    assert_true(runner_certificate_is_current(&read, NOW_MS + 30 * DAY_MS - 1));
    assert_false(runner_certificate_is_current(&read, NOW_MS + 30 * DAY_MS));
}

static void another_authority_is_refused(void **state)
{
    struct buffer OWNED_BUFFER der = BUFFER(RUNNER_CERTIFICATE_MAX);
    struct runner_certificate read = {.not_after_ms = 7};
    struct error err = {0};

    (void)state;
    issue(&der);
    assert_false(runner_certificate_read(buffer_bytes(&der), wanted.point, &read, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_int_equal(read.not_after_ms, 7);
}

static void a_changed_byte_is_refused(void **state)
{
    struct buffer OWNED_BUFFER der = BUFFER(RUNNER_CERTIFICATE_MAX);
    struct runner_certificate read;

    (void)state;
    issue(&der);
    for (size_t i = 0; i < der.length; i++) {
        struct error err = {0};
        der.data[i] ^= 0x01;
        assert_false(runner_certificate_read(buffer_bytes(&der), authority_point, &read, &err).ok);
        assert_true(err.kind == ERROR_INVALID || err.kind == ERROR_DENIED);
        der.data[i] ^= 0x01;
        assert_false(runner_certificate_read((struct bytes){der.data, i}, authority_point, &read, &err).ok);
    }
    struct error err = {0};
    assert_true(buffer_add_u8(&der, 0, &err).ok);
    assert_false(runner_certificate_read(buffer_bytes(&der), authority_point, &read, &err).ok);
    assert_non_null(strstr(err.message, "bytes follow"));
}

static void periods_are_short(void **state)
{
    const int64_t ends[] = {NOW_MS - 1, NOW_MS, NOW_MS + 31 * DAY_MS, INT64_MAX};
    struct buffer OWNED_BUFFER der = BUFFER(RUNNER_CERTIFICATE_MAX);

    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct runner_certificate bad = wanted;
        struct error err = {0};
        bad.not_after_ms = ends[i];
        assert_false(runner_certificate_issue(&bad, authority, &der, &err).ok);
        assert_int_equal(err.kind, ERROR_INVALID);
    }
    assert_int_equal(der.length, 0);
}

/* ---- certificates that the authority has signed, and that are no runner's ---- */

static void extend(X509 *certificate, int nid, const char *value)
{
    X509V3_CTX context;
    const int at = X509_get_ext_by_NID(certificate, nid, -1);

    if (at >= 0) X509_EXTENSION_free(X509_delete_ext(certificate, at));
    if (value == NULL) return;
    X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static void live_long(X509 *certificate)
{
    assert_non_null(ASN1_TIME_set(X509_getm_notAfter(certificate), (NOW_MS + 31 * DAY_MS) / 1000));
}

static void have_version_2(X509 *certificate)
{
    assert_int_equal(X509_set_version(certificate, X509_VERSION_2), 1);
}

static void have_a_large_key(X509 *certificate)
{
    EVP_PKEY *key = EVP_EC_gen("P-384");

    assert_int_equal(X509_set_pubkey(certificate, key), 1);
    EVP_PKEY_free(key);
}

static const struct form_row {
    const char *name;
    int nid;
    const char *value; /* of the extension; NULL: without it */
    void (*change)(X509 *certificate);
    const char *expected;
} form_rows[] = {
    {"an authority", NID_basic_constraints, "critical,CA:TRUE", NULL, "of an authority"},
    {"no basic constraints", NID_basic_constraints, NULL, NULL, "of an authority"},
    {"a server", NID_ext_key_usage, "serverAuth", NULL, "clients alone"},
    {"a client and server", NID_ext_key_usage, "clientAuth,serverAuth", NULL, "clients alone"},
    {"no extended use", NID_ext_key_usage, NULL, NULL, "clients alone"},
    {"signs certificates", NID_key_usage, "critical,digitalSignature,keyCertSign", NULL, "clients alone"},
    {"no use", NID_key_usage, NULL, NULL, "clients alone"},
    {"an unknown critical extension", NID_netscape_comment, "critical,hello", NULL, "not known"},
    {"no name", NID_subject_alt_name, NULL, NULL, "name one runner"},
    {"a host", NID_subject_alt_name, "DNS:urn.sijil.runner", NULL, "name one runner"},
    {"two names", NID_subject_alt_name,
     "URI:urn:sijil:runner:00112233-4455-4677-8899-aabbccddeeff,URI:urn:sijil:runner:00112233-4455-4677-8899-aabbccddeeff", NULL,
     "name one runner"},
    {"another URN", NID_subject_alt_name, "URI:urn:sijil:runnes:00112233-4455-4677-8899-aabbccddeeff", NULL, "name one runner"},
    {"capital letters", NID_subject_alt_name, "URI:urn:sijil:runner:00112233-4455-4677-8899-AABBCCDDEEFF", NULL,
     "name one runner"},
    {"nobody", NID_subject_alt_name, "URI:urn:sijil:runner:00000000-0000-0000-0000-000000000000", NULL, "name one runner"},
    {"31 days", NID_undef, NULL, live_long, "period"},
    {"version 2", NID_undef, NULL, have_version_2, "version"},
    {"another curve", NID_undef, NULL, have_a_large_key, "P-256"},
};

static void refuses_form(void **state)
{
    const struct form_row *row = *state;
    struct buffer OWNED_BUFFER der = BUFFER(RUNNER_CERTIFICATE_MAX);
    struct runner_certificate read;
    struct error err = {0};
    uint8_t *changed = NULL;

    issue(&der);
    const uint8_t *at = der.data;
    X509 *certificate = d2i_X509(NULL, &at, (long)der.length);
    assert_non_null(certificate);
    if (row->nid != NID_undef) extend(certificate, row->nid, row->value);
    if (row->change != NULL) row->change(certificate);
    assert_true(X509_sign(certificate, authority->pkey, EVP_sha256()) > 0);
    const int length = i2d_X509(certificate, &changed);
    assert_true(length > 0);
    assert_false(runner_certificate_read((struct bytes){changed, (size_t)length}, authority_point, &read, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_non_null(strstr(err.message, row->expected));
    OPENSSL_free(changed);
    X509_free(certificate);
}

static void its_uri_is_found_whole(void **state)
{
    static const struct {
        const char *uri;
        bool has;
    } rows[] = {{"urn:sijil:runner:00112233-4455-4677-8899-aabbccddeeff", true},
                {"urn:sijil:runner:00112233-4455-4677-8899-aabbccddeef", false},
                {"urn:sijil:runner:00112233-4455-4677-8899-aabbccddeeff0", false},
                {"00112233-4455-4677-8899-aabbccddeeff", false}, /* the subject */
                {"", false}};
    struct buffer OWNED_BUFFER der = BUFFER(RUNNER_CERTIFICATE_MAX), pem = BUFFER(2 * RUNNER_CERTIFICATE_MAX);
    struct error err = {0};
    bool has = false;

    (void)state;
    issue(&der);
    assert_true(runner_certificate_pem(buffer_bytes(&der), &pem, &err).ok);
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_true(certificate_has_uri(buffer_bytes(&pem), rows[i].uri, &has, &err).ok);
        assert_int_equal(has, rows[i].has);
    }
    assert_false(certificate_has_uri(buffer_bytes(&der), rows[0].uri, &has, &err).ok);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(what_is_issued_is_read),
        cmocka_unit_test(its_uri_is_found_whole),
        cmocka_unit_test(another_authority_is_refused),
        cmocka_unit_test(a_changed_byte_is_refused),
        cmocka_unit_test(periods_are_short),
    };

    (void)make_keys(NULL);
    const int failed = RUN_TABLE(form_rows, refuses_form) + cmocka_run_group_tests_name("others", others, NULL, NULL);
    (void)drop_keys(NULL);
    return failed;
}
