/* Certificates: an authority, servers, and refusals. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "crypto/certificate.h"

struct authority {
    struct ecdsa_key *key, *server_key;
    struct buffer pem;
};

static void make_authority(struct authority *authority)
{
    struct error err = {0};

    *authority = (struct authority){.pem = BUFFER(CERTIFICATE_PEM_MAX)};
    assert_true(ecdsa_key_new(&authority->key, &err).ok);
    assert_true(ecdsa_key_new(&authority->server_key, &err).ok);
    assert_true(certificate_authority("Sijil test authority", authority->key, 3650, &authority->pem, &err).ok);
}

static void release_authority(struct authority *authority)
{
    ecdsa_key_free(authority->key);
    ecdsa_key_free(authority->server_key);
    buffer_done(&authority->pem);
}

static void write_file(const char *path, struct bytes content)
{
    FILE *file = fopen(path, "wbe");

    assert_non_null(file);
    assert_int_equal(fwrite(content.data, 1, content.length, file), content.length);
    assert_int_equal(fclose(file), 0);
}

/* openssl verify is another reader of the same standard. */
static void certificates_verify(void **state)
{
    static const char *const names[] = {"registry.example", "127.0.0.1", "::1", "localhost"};
    struct authority authority __attribute__((cleanup(release_authority)));
    struct buffer OWNED_BUFFER pem = BUFFER(CERTIFICATE_PEM_MAX);
    struct certificate_facts facts;
    struct error err = {0};

    (void)state;
    make_authority(&authority);
    const struct certificate_request request = {
        .key = authority.server_key, .names = names, .name_count = COUNT(names), .days = 397};
    assert_true(certificate_issue(&request, buffer_bytes(&authority.pem), authority.key, &pem, &err).ok);
    assert_true(certificate_inspect(buffer_bytes(&pem), &facts, &err).ok);
    assert_true(facts.not_before_s <= time(NULL));
    assert_true(facts.not_after_s > time(NULL) + 396 * 86400L && facts.not_after_s <= time(NULL) + 397 * 86400L);

    write_file("crypto_authority.pem", buffer_bytes(&authority.pem));
    write_file("crypto_server.pem", buffer_bytes(&pem));
    assert_int_equal(system("openssl verify -x509_strict -purpose sslserver -verify_hostname registry.example "
                            "-CAfile crypto_authority.pem crypto_server.pem >/dev/null"),
                     0);
    assert_int_equal(system("openssl verify -x509_strict -verify_ip ::1 -CAfile crypto_authority.pem "
                            "crypto_server.pem >/dev/null"),
                     0);
    assert_int_not_equal(system("openssl verify -verify_hostname other.example -CAfile crypto_authority.pem "
                                "crypto_server.pem >/dev/null 2>&1"),
                         0);
    (void)unlink("crypto_authority.pem");
    (void)unlink("crypto_server.pem");
}

static void certificates_know_their_key(void **state)
{
    static const char *const names[] = {"localhost"};
    struct authority authority __attribute__((cleanup(release_authority)));
    struct buffer OWNED_BUFFER pem = BUFFER(CERTIFICATE_PEM_MAX);
    struct buffer OWNED_BUFFER key_pem = BUFFER(ECDSA_PEM_MAX);
    struct certificate_facts facts;
    struct error err = {0};

    (void)state;
    make_authority(&authority);
    const struct certificate_request request = {.key = authority.server_key, .names = names, .name_count = 1, .days = 90};
    assert_false(certificate_issue(&request, buffer_bytes(&authority.pem), authority.server_key, &pem, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_true(certificate_issue(&request, buffer_bytes(&authority.pem), authority.key, &pem, &err).ok);

    static const char path[] = "crypto_pair.pem", other[] = "crypto_other_pair.pem";
    (void)unlink(path);
    (void)unlink(other);
    assert_true(ecdsa_key_save(authority.server_key, path, &err).ok);
    assert_true(ecdsa_key_save(authority.key, other, &err).ok);
    assert_true(file_read(path, &key_pem, &err).ok);
    assert_true(certificate_check_pair(buffer_bytes(&pem), buffer_bytes(&key_pem), &facts, &err).ok);
    buffer_clear(&key_pem);
    assert_true(file_read(other, &key_pem, &err).ok);
    assert_false(certificate_check_pair(buffer_bytes(&pem), buffer_bytes(&key_pem), &facts, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_false(certificate_check_pair(buffer_bytes(&pem), buffer_bytes(&pem), &facts, &err).ok);
    (void)unlink(path);
    (void)unlink(other);
}

#define LETTERS_50 "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeee"
static const char long_host[] = LETTERS_50 LETTERS_50 LETTERS_50 LETTERS_50 LETTERS_50 "four";
static const char host_of_70[] = LETTERS_50 ".registry.example.org";

static const struct bad_name_row {
    const char *name, *host;
    unsigned days;
} bad_name_rows[] = {
    {"empty", "", 90},
    {"upper case", "Registry.example", 90},
    {"a blank", "registry example", 90},
    {"another extension smuggled in", "a,DNS:b", 90},
    {"a hyphen first", "-registry.example", 90},
    {"a dot first", ".registry.example", 90},
    {"a name of 254 letters", long_host, 90},
    {"four hundred days", "registry.example", 398},
    {"no day", "registry.example", 0},
};

static void refuses_names(void **state)
{
    const struct bad_name_row *row = *state;
    struct authority authority __attribute__((cleanup(release_authority)));
    struct buffer OWNED_BUFFER pem = BUFFER(CERTIFICATE_PEM_MAX);
    struct error err = {0};

    make_authority(&authority);
    const struct certificate_request request = {
        .key = authority.server_key, .names = &row->host, .name_count = 1, .days = row->days};
    assert_false(certificate_issue(&request, buffer_bytes(&authority.pem), authority.key, &pem, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_int_equal(pem.length, 0);
}

static const struct bad_authority_row {
    const char *name, *common_name;
    unsigned days;
} bad_authority_rows[] = {
    {"no name", "", 10},
    {"a name of 65 letters", LETTERS_50 "fifteen letters", 10},
    {"no day", "ca", 0},
    {"more than ten years", "ca", 3654},
};

static void refuses_authorities(void **state)
{
    const struct bad_authority_row *row = *state;
    OWNED(ecdsa_key) *key = NULL;
    struct buffer OWNED_BUFFER pem = BUFFER(CERTIFICATE_PEM_MAX);
    struct error err = {0};

    assert_true(ecdsa_key_new(&key, &err).ok);
    assert_false(certificate_authority(row->common_name, key, row->days, &pem, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_int_equal(pem.length, 0);
}

static time_t ahead_s; /* how far our clock is ahead: the linker replaces time() by a function here */
time_t __real_time(time_t *out);
time_t __wrap_time(time_t *out);
time_t __wrap_time(time_t *out)
{
    const time_t now = __real_time(NULL) + ahead_s;

    if (out != NULL) *out = now;
    return now;
}

/* No server outlives its authority, and an authority that has ended makes none. */
static void authorities_end(void **state)
{
    static const char *const names[] = {host_of_70}; /* too long for a common name: it is an alternative name alone */
    struct authority authority __attribute__((cleanup(release_authority)));
    struct buffer OWNED_BUFFER pem = BUFFER(CERTIFICATE_PEM_MAX);
    struct certificate_facts of_authority, of_server;
    struct error err = {0};

    (void)state;
    make_authority(&authority);
    assert_true(certificate_inspect(buffer_bytes(&authority.pem), &of_authority, &err).ok);
    const struct certificate_request request = {.key = authority.server_key, .names = names, .name_count = 1, .days = 397};
    ahead_s = 3500 * 86400L;
    assert_true(certificate_issue(&request, buffer_bytes(&authority.pem), authority.key, &pem, &err).ok);
    assert_true(certificate_inspect(buffer_bytes(&pem), &of_server, &err).ok);
    assert_true(of_server.not_after_s == of_authority.not_after_s);
    ahead_s = 3651 * 86400L;
    assert_false(certificate_issue(&request, buffer_bytes(&authority.pem), authority.key, &pem, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    ahead_s = 0;
}

static void requests_have_bounds(void **state)
{
    static const char *names[CERTIFICATE_NAMES_MAX + 1];
    static const size_t counts[] = {0, CERTIFICATE_NAMES_MAX + 1};
    static uint8_t large[CERTIFICATE_PEM_MAX + 1];
    struct authority authority __attribute__((cleanup(release_authority)));
    struct buffer OWNED_BUFFER pem = BUFFER(CERTIFICATE_PEM_MAX);
    struct certificate_facts facts;
    struct error err = {0};

    (void)state;
    make_authority(&authority);
    for (size_t i = 0; i < COUNT(names); i++) names[i] = "localhost";
    for (size_t i = 0; i < COUNT(counts); i++) {
        const struct certificate_request request = {
            .key = authority.server_key, .names = names, .name_count = counts[i], .days = 5};
        assert_false(certificate_issue(&request, buffer_bytes(&authority.pem), authority.key, &pem, &err).ok);
        assert_int_equal(err.kind, ERROR_INVALID);
    }
    assert_false(certificate_inspect((struct bytes){large, sizeof large}, &facts, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(certificates_verify),
        cmocka_unit_test(certificates_know_their_key),
        cmocka_unit_test(authorities_end),
        cmocka_unit_test(requests_have_bounds),
    };

    return RUN_TABLE(bad_name_rows, refuses_names) + RUN_TABLE(bad_authority_rows, refuses_authorities) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}
