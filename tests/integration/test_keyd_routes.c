/* Two real sijil-keyd, the main one and that of a region, through one client: whose keys go where, and what stays after kill -9. */
#include "tests/integration/keyd_fixture.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "crypto/keyd_region.h"

#define REGION "onprem/dc1"

static struct keyd_daemon other;
static char main_key[64]; /* the path of a file */
static char region_key[ECDSA_THUMBPRINT_SIZE];
static const char *const place[] = {"--key-ring", "kr-1", "--key-geo", "AE", NULL};

static void write_main_key(void)
{
    struct buffer OWNED_BUFFER pem = BUFFER(ECDSA_PEM_MAX);
    const struct keyd_identity identity = identify();
    OWNED(ecdsa_key) *key = NULL;
    struct error err = {0};

    assert_true(ecdsa_key_from_public(identity.document_public, &key, &err).ok);
    assert_true(ecdsa_key_public_pem(key, &pem, &err).ok);
    (void)snprintf(main_key, sizeof main_key, "%s.pem", process.folder);
    FILE *file = fopen(main_key, "we");
    assert_true(file != NULL && fwrite(pem.data, 1, pem.length, file) == pem.length && fclose(file) == 0);
}

static int set_up(void **state)
{
    struct error err = {0};

    (void)start(state);
    write_main_key();
    keyd_daemon_prepare(&other, KEYD_DAEMON_ORIGIN "#region=" REGION);
    const char *const trust[] = {"--main-key", main_key, "--passphrase-file", other.passphrase, NULL};
    char said[512];
    if (keyd_daemon_run(&other, trust, said, sizeof said) != 0) fail_msg("%s", said);
    (void)snprintf(region_key, sizeof region_key, "%.43s", said);
    keyd_daemon_start(&other, place);
    assert_true(keyd_region_use(client, REGION, other.socket, &err).ok);
    return 0;
}

static int tear_down(void **state)
{
    (void)unlink(main_key);
    keyd_daemon_remove(&other);
    return stop(state);
}

static struct key_binding binding_in(const char *region)
{
    struct key_binding binding = {.blob = {{3}}, .commitment = {4}};

    (void)snprintf(binding.scope.region, sizeof binding.scope.region, "%s", region);
    return binding;
}

static struct result wrap(const char *region, struct wrapped_key *wrapped_out, struct error *err)
{
    const struct key_binding binding = binding_in(region);
    OWNED(secret) *key = NULL;

    assert_true(secret_random(DATA_KEY_SIZE, &key, err).ok);
    return keyd_wrap(client, &binding, key, wrapped_out, err);
}

static struct result unwrap(const char *region, const struct wrapped_key *wrapped, struct error *err)
{
    const struct key_binding binding = binding_in(region);
    OWNED(secret) *key = NULL;

    return keyd_unwrap(client, &binding, wrapped, &key, err);
}

static void tell(void)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(16384);
    struct document_pin pin;
    struct error err = {0};

    assert_true(keyd_ask_current(client, &envelope, &err).ok);
    if (!keyd_region_hand(client, REGION, buffer_bytes(&envelope), &pin, &err).ok) fail_msg("%s", err.message);
}

static void keys_go_where_their_region_has_them(void **state)
{
    char key[ECDSA_THUMBPRINT_SIZE];
    struct wrapped_key here, there;
    struct keyd_place said;
    struct error err = {0};

    (void)state;
    assert_false(wrap(REGION, &there, &err).ok); /* it was not compared with the record yet */
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_true(keyd_ask_place(client, REGION, &said, key, &err).ok);
    assert_string_equal(key, region_key);
    assert_string_equal(said.geo, "AE");
    assert_false(said.is_current);
    keyd_region_open(client, REGION);
    assert_false(wrap(REGION, &there, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_non_null(strstr(err.message, KEYD_REGION_REFUSED));
    tell();
    if (!wrap(REGION, &there, &err).ok || !wrap("onprem/main", &here, &err).ok) fail_msg("%s", err.message);
    assert_true(unwrap(REGION, &there, &err).ok);
    assert_true(unwrap("onprem/main", &here, &err).ok);
    assert_int_equal(identify().unwrap_count, 1); /* the main one opened its own alone */
    assert_true(keyd_ask_place(client, REGION, &said, key, &err).ok);
    assert_true(said.is_current && said.unwraps == 1);
    assert_true(keyd_region_use(client, "onprem/far", "", &err).ok); /* one that this gateway does not reach */
    assert_false(wrap("onprem/far", &here, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_false(keyd_ask_place(client, "onprem/far", &said, key, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    keyd_region_close(client, REGION, "as a test");
    assert_false(unwrap(REGION, &there, &err).ok);
    assert_non_null(strstr(err.message, "as a test"));
    assert_true(keyd_region_drop(client, REGION));
    assert_false(unwrap(REGION, &there, &err).ok); /* the main one is asked now, and can't open it */
    assert_int_equal(err.kind, ERROR_CORRUPT);
}

static void after_a_kill_it_waits_for_a_statement(void **state)
{
    struct wrapped_key wrapped;
    struct error err = {0};

    (void)state;
    keyd_region_open(client, REGION);
    tell();
    assert_true(wrap(REGION, &wrapped, &err).ok);
    (void)keyd_daemon_end(&other, SIGKILL);
    assert_false(unwrap(REGION, &wrapped, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    keyd_daemon_start(&other, place);
    assert_false(unwrap(REGION, &wrapped, &err).ok);
    assert_non_null(strstr(err.message, KEYD_REGION_REFUSED));
    tell();
    if (!unwrap(REGION, &wrapped, &err).ok) fail_msg("%s", err.message);
}

/* A gateway under an attacker's control has the socket, and every message. */
static void its_socket_gives_no_signature(void **state)
{
    const struct checkpoint_request checkpoint = {.size = 1};
    struct buffer OWNED_BUFFER note = BUFFER(4096);
    struct keyd_client *direct = NULL;
    struct keyd_identity identity;
    uint8_t index[32];
    struct error err = {0};

    (void)state;
    assert_true(keyd_client_new(other.socket, CALL_MS, &direct, &err).ok);
    assert_false(keyd_sign_checkpoint(direct, &checkpoint, &note, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_false(keyd_identify(direct, &identity, &err).ok);
    assert_false(keyd_ask_current(direct, &note, &err).ok);
    assert_false(keyd_subject_index(direct, "issuer", "subject", index, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    keyd_client_free(direct);
}

static void what_does_not_fit_the_key_ring_is_refused(void **state)
{
    const char *const facts[] = {"--passphrase-file", process.passphrase, "--socket", "s", "--key-geo", "AE", NULL};
    const char *const trust[] = {"--passphrase-file", process.passphrase, "--main-key", main_key, NULL};
    const char *const log_key[] = {"--passphrase-file", other.passphrase, "--add-log-key", NULL};
    char said[1024];

    (void)state;
    (void)keyd_daemon_end(&process, SIGTERM);
    (void)keyd_daemon_end(&other, SIGTERM);
    assert_int_not_equal(keyd_daemon_run(&process, facts, said, sizeof said), 0);
    assert_non_null(strstr(said, "of no region"));
    assert_int_not_equal(keyd_daemon_run(&process, trust, said, sizeof said), 0);
    assert_non_null(strstr(said, "of no region"));
    assert_int_not_equal(keyd_daemon_run(&other, log_key, said, sizeof said), 0);
    assert_non_null(strstr(said, "signs no log"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_go_where_their_region_has_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(after_a_kill_it_waits_for_a_statement, set_up, tear_down),
        cmocka_unit_test_setup_teardown(its_socket_gives_no_signature, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_does_not_fit_the_key_ring_is_refused, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("keyd_routes", tests, NULL, NULL);
}
