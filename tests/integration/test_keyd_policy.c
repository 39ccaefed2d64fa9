/* Policy sets that the real sijil-keyd pins, and those that it refuses. */
#include "tests/integration/keyd_fixture.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "crypto/dsse.h"
#include "crypto/keyd_protocol.h"

static enum error_kind pin(const struct ecdsa_key *signer, const char *type, const char *payload)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(DSSE_OVERHEAD);
    uint8_t digest[32];
    uint64_t epoch = 0;
    struct error err = {0};

    assert_true(dsse_write(type, bytes_of_text(payload), &signer, 1, &envelope, &err).ok);
    return keyd_pin_policy(client, buffer_bytes(&envelope), &epoch, digest, &err).ok ? ERROR_NONE : err.kind;
}

#define POLICY_TYPE "application/vnd.sijil.policy-set.v1+json"
#define A64         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B64         "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static void older_policy_sets_never_come_back(void **state)
{
    OWNED(ecdsa_key) *approver = NULL;
    OWNED(ecdsa_key) *other = NULL;
    uint8_t point[65], other_point[65];
    struct error err = {0};

    (void)state;
    assert_true(ecdsa_key_new(&approver, &err).ok && ecdsa_key_new(&other, &err).ok);
    ecdsa_key_public(approver, point);
    ecdsa_key_public(other, other_point);
    assert_int_equal(pin(approver, POLICY_TYPE, "{\"digest\":\"sha256:" A64 "\",\"epoch\":5}"), ERROR_DENIED);
    memset(other_point + 1, 0, 64);
    assert_false(keyd_pin_approver(client, other_point, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_true(keyd_pin_approver(client, point, &err).ok);
    assert_true(keyd_pin_approver(client, point, &err).ok);
    ecdsa_key_public(other, other_point);
    assert_false(keyd_pin_approver(client, other_point, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);

    assert_int_equal(pin(approver, POLICY_TYPE, "{\"digest\":\"sha256:" A64 "\",\"epoch\":5}"), ERROR_NONE);
    assert_int_equal(pin(approver, POLICY_TYPE, "{\"digest\":\"sha256:" A64 "\",\"epoch\":5}"), ERROR_NONE);
    assert_int_equal(pin(approver, POLICY_TYPE, "{\"digest\":\"sha256:" B64 "\",\"epoch\":5}"), ERROR_DENIED);
    assert_int_equal(pin(approver, POLICY_TYPE, "{\"digest\":\"sha256:" B64 "\",\"epoch\":4}"), ERROR_DENIED);
    assert_int_equal(pin(other, POLICY_TYPE, "{\"digest\":\"sha256:" B64 "\",\"epoch\":6}"), ERROR_DENIED);
    assert_int_equal(pin(approver, "text/plain", "{\"digest\":\"sha256:" B64 "\",\"epoch\":6}"), ERROR_INVALID);
    assert_int_equal(pin(approver, POLICY_TYPE, "{\"epoch\":6,\"digest\":\"sha256:" B64 "\"}"), ERROR_INVALID);
    assert_int_equal(pin(approver, POLICY_TYPE, "{\"digest\":\"sha256:" B64 "\",\"epoch\":0}"), ERROR_INVALID);
    assert_int_equal(pin(approver, POLICY_TYPE, "{\"epoch\":6}"), ERROR_INVALID);
    (void)keyd_daemon_end(&process, SIGKILL);
    keyd_daemon_start(&process, NULL);
    assert_int_equal(pin(approver, POLICY_TYPE, "{\"digest\":\"sha256:" B64 "\",\"epoch\":4}"), ERROR_DENIED);
    assert_int_equal(pin(approver, POLICY_TYPE, "{\"digest\":\"sha256:" B64 "\",\"epoch\":6}"), ERROR_NONE);
    assert_int_equal(identify().policy_epoch, 6);
    assert_memory_equal(identify().approver_root, point, 65);
}

static void large_policy_sets_fit(void **state)
{
    OWNED(ecdsa_key) *approver = NULL;
    struct buffer OWNED_BUFFER payload = BUFFER(2 << 20);
    struct buffer OWNED_BUFFER envelope = BUFFER(2 << 20);
    uint8_t point[65], digest[32], *place = NULL;
    uint64_t epoch = 0;
    struct error err = {0};

    (void)state;
    assert_true(ecdsa_key_new(&approver, &err).ok);
    ecdsa_key_public(approver, point);
    assert_true(keyd_pin_approver(client, point, &err).ok);
    assert_true(buffer_add_text(&payload, "{\"digest\":\"sha256:" A64 "\",\"epoch\":1,\"x\":\"", &err).ok);
    assert_true(buffer_reserve(&payload, 1 << 20, &place, &err).ok);
    memset(place, 'x', 1 << 20);
    payload.length += 1 << 20;
    assert_true(buffer_add_text(&payload, "\"}", &err).ok);
    const struct ecdsa_key *signer = approver;
    assert_true(dsse_write(POLICY_TYPE, buffer_bytes(&payload), &signer, 1, &envelope, &err).ok);
    assert_true(keyd_pin_policy(client, buffer_bytes(&envelope), &epoch, digest, &err).ok);
    assert_int_equal(epoch, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(older_policy_sets_never_come_back, start, stop),
        cmocka_unit_test_setup_teardown(large_policy_sets_fit, start, stop),
    };

    return cmocka_run_group_tests_name("policy sets", tests, NULL, NULL);
}
