/* Proofs that `sijil` makes, as the registry reads them; and the file of its key. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "authz/dpop.h"
#include "base/clock.h"
#include "client/dpop.h"

#define NONCE "AAAAAAAAAAAAAAAAAAAAAA"
#define TOKEN "a.token.of-ours"

static struct dpop_nonces *nonces;
static struct ecdsa_key *key;
static char folder[] = "/tmp/sijil-dpop-XXXXXX";

static int set_up(void **state)
{
    const struct keyd_nonces known = {.first = (uint64_t)(clock_wall_ms() / 1000 / KEYD_NONCE_PERIOD_S) - 1};
    struct error err = {0};

    (void)state;
    must(dpop_nonces_new(&nonces, &err), &err);
    must(dpop_nonces_set(nonces, &known, &err), &err);
    must(ecdsa_key_new(&key, &err), &err);
    assert_non_null(mkdtemp(folder));
    return setenv("XDG_CONFIG_HOME", folder, 1);
}

static int tear_down(void **state)
{
    char command[64];

    (void)state;
    dpop_nonces_free(nonces);
    ecdsa_key_free(key);
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static struct result make_and_read(const struct dpop_call *call, const char *path, struct dpop_proof *proof, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(DPOP_PROOF_MAX);
    const struct dpop_rule rule = {.method = "GET",
                                   .url = "https://reg.example:8443",
                                   .path = bytes_of_text(path),
                                   .nonces = nonces,
                                   .now_ms = clock_wall_ms()};

    TRY(dpop_write(key, call, &text, err));
    return dpop_read(buffer_text(&text), &rule, proof, err);
}

static void a_proof_is_read_by_the_registry(void **state)
{
    const struct dpop_call call = {"GET", "https://reg.example:8443/v2/a/b/c/tags/list?n=1", "DPoP " TOKEN, NONCE};
    struct dpop_proof proof, again;
    uint8_t point[ECDSA_PUBLIC_SIZE], digest[SHA256_SIZE];
    char thumbprint[ECDSA_THUMBPRINT_SIZE];
    struct error err = {0};

    (void)state;
    must(make_and_read(&call, "/v2/a/b/c/tags/list", &proof, &err), &err);
    ecdsa_key_public(key, point);
    ecdsa_thumbprint(point, thumbprint);
    assert_string_equal(proof.key, thumbprint);
    assert_true(proof.is_fresh);
    sha256_of(bytes_of_text(TOKEN), digest);
    assert_true(dpop_is_for(&proof, digest));
    must(make_and_read(&call, "/v2/a/b/c/tags/list", &again, &err), &err);
    assert_memory_not_equal(proof.digest, again.digest, SHA256_SIZE); /* a jti of its own */
}

/* At /token, and before a nonce is known. */
static void a_proof_for_no_token(void **state)
{
    const struct dpop_call call = {"GET", "https://reg.example:8443/token", "Basic eDp5", ""};
    struct dpop_proof proof;
    struct error err = {0};

    (void)state;
    must(make_and_read(&call, "/token", &proof, &err), &err);
    assert_string_equal(proof.token, "");
    assert_false(proof.is_fresh);
}

static void the_key_is_made_once_for_its_owner_alone(void **state)
{
    struct buffer OWNED_BUFFER path = BUFFER(256);
    OWNED(ecdsa_key) *none = NULL;
    OWNED(ecdsa_key) *first = NULL;
    OWNED(ecdsa_key) *second = NULL;
    uint8_t points[2][ECDSA_PUBLIC_SIZE];
    struct stat status;
    struct error err = {0};

    (void)state;
    assert_false(dpop_key_load(false, &none, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    must(dpop_key_load(true, &first, &err), &err);
    must(dpop_key_load(true, &second, &err), &err);
    ecdsa_key_public(first, points[0]);
    ecdsa_key_public(second, points[1]);
    assert_memory_equal(points[0], points[1], ECDSA_PUBLIC_SIZE);
    must(buffer_format(&path, &err, "%s/sijil/dpop.pem", folder), &err);
    assert_int_equal(stat(buffer_text(&path), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(chmod(buffer_text(&path), 0640), 0);
    assert_false(dpop_key_load(true, &none, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_int_equal(unlink(buffer_text(&path)), 0);
}

static struct result write_one(void *context, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(DPOP_PROOF_MAX);

    return dpop_write(key, context, &text, err);
}

static void without_memory(void **state)
{
    struct dpop_call call = {"GET", "https://reg.example:8443/v2/", "DPoP " TOKEN, NONCE};

    (void)state;
    fail_each(write_one, &call, ERROR_NO_MEMORY, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_proof_is_read_by_the_registry),
        cmocka_unit_test(a_proof_for_no_token),
        cmocka_unit_test(the_key_is_made_once_for_its_owner_alone),
        cmocka_unit_test(without_memory),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
