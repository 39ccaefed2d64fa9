/* Key-encryption keys in a PKCS#11 token: a real sijil-keyd beside SoftHSM, which comes and goes, crashes and blocks. */
#include "tests/support/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "crypto/keyd_client.h"
#include "tests/support/keyd_daemon.h"
#include "tests/support/softhsm.h"

#define PIN SOFTHSM_PIN

static struct keyd_daemon keyd;
static struct keyd_client *client;
static char folder[64], pin_file[96], shim_file[96];
static const char *options[] = {
    "--token-module", SHIM, "--token-label", "sijil", "--token-pin-file", pin_file, "--token-timeout", "800", NULL};

static void write_text(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "wbe");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* Runs it to its end with the token's options and these. */
static int run(const char *first, const char *second, const char *third, char *said)
{
    const char *all[16] = {"--passphrase-file", keyd.passphrase};
    size_t count = 2;

    for (const char *const *each = options; *each != NULL; each++) all[count++] = *each;
    if (first != NULL) all[count++] = first;
    if (second != NULL) all[count++] = second;
    if (third != NULL) all[count++] = third;
    return keyd_daemon_run(&keyd, all, said, 2048);
}

static void end_keyd(void)
{
    if (keyd.pid > 0) assert_int_equal(keyd_daemon_end(&keyd, SIGTERM), 0);
}

static void expect_said(const char *said, const char *words)
{
    if (strstr(said, words) == NULL) fail_msg("\"%s\" is not in %s", words, said);
}

static struct key_binding binding(void)
{
    struct key_binding bound = {
        .scope = {.organisation = {{1}}, .project = {{2}}, .region = "azure/uaenorth"}, .blob = {{3}}, .commitment = {4}};

    return bound;
}

static struct wrapped_key wrap(const struct key_binding *bound, struct secret *key)
{
    struct wrapped_key wrapped;
    struct error err = {0};

    if (!keyd_wrap(client, bound, key, &wrapped, &err).ok) fail_msg("%s", err.message);
    return wrapped;
}

static void expect_opens(const struct key_binding *bound, const struct wrapped_key *wrapped, const struct secret *key)
{
    OWNED(secret) *opened = NULL;
    struct error err = {0};

    if (!keyd_unwrap(client, bound, wrapped, &opened, &err).ok) fail_msg("%s", err.message);
    assert_memory_equal(opened->bytes, key->bytes, DATA_KEY_SIZE);
}

static void expect_refused(const struct key_binding *bound, const struct wrapped_key *wrapped, enum error_kind kind,
                           const char *words)
{
    OWNED(secret) *opened = NULL;
    struct error err = {0};

    assert_false(keyd_unwrap(client, bound, wrapped, &opened, &err).ok);
    if (err.kind != kind || strstr(err.message, words) == NULL) fail_msg("%s: %s", error_kind_name(err.kind), err.message);
}

/* Waits until the workers have recovered. */
static void expect_opens_soon(const struct key_binding *bound, const struct wrapped_key *wrapped)
{
    const int64_t until_ms = clock_monotonic_ms() + 15000;
    const struct timespec step = {.tv_nsec = 100000000};

    for (;;) {
        OWNED(secret) *opened = NULL;
        struct error err = {0};
        if (keyd_unwrap(client, bound, wrapped, &opened, &err).ok) return;
        if (clock_monotonic_ms() > until_ms) fail_msg("%s", err.message);
        (void)nanosleep(&step, NULL);
    }
}

static struct secret *data_key;
static struct wrapped_key kept; /* under version 1, in the token */

static int set_up(void **state)
{
    const char *const made[] = {"--init", "--origin", KEYD_DAEMON_ORIGIN, NULL};
    char said[2048];
    struct error err = {0};

    (void)state;
    softhsm_begin(folder);
    (void)snprintf(pin_file, sizeof pin_file, "%s/pin", folder);
    (void)snprintf(shim_file, sizeof shim_file, "%s/shim", folder);
    write_text(pin_file, PIN "\n", 0600);
    assert_int_equal(setenv("PKCS11_SHIM", shim_file, 1), 0);
    keyd_daemon_prepare(&keyd, KEYD_DAEMON_ORIGIN);
    assert_int_equal(setenv("K", keyd.directory, 1), 0);
    softhsm_shell("rm $K/*"); /* made without the token */
    if (run(made[0], made[1], made[2], said) != 0) fail_msg("%s", said);
    keyd_daemon_start(&keyd, options);
    assert_true(keyd_client_new(keyd.socket, 4000, &client, &err).ok);
    assert_true(secret_random(DATA_KEY_SIZE, &data_key, &err).ok);
    const struct key_binding bound = binding();
    kept = wrap(&bound, data_key);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    secret_free(data_key);
    keyd_client_free(client);
    end_keyd();
    keyd_daemon_remove(&keyd);
    softhsm_end();
    return 0;
}

static void keys_open_only_where_they_belong(void **state)
{
    const struct key_binding bound = binding();
    struct key_binding other;
    struct wrapped_key spoiled;

    (void)state;
    assert_int_equal(kept.version, 1);
    assert_int_equal(kept.length, DATA_KEY_SIZE + 12 + 16);
    expect_opens(&bound, &kept, data_key);
    for (unsigned field = 0; field < 5; field++) {
        other = bound;
        if (field == 0) other.scope.organisation.bytes[5] ^= 1;
        if (field == 1) other.scope.project.bytes[5] ^= 1;
        if (field == 2) other.scope.region[0] = 'b';
        if (field == 3) other.blob.bytes[5] ^= 1;
        if (field == 4) other.commitment[5] ^= 1;
        expect_refused(&other, &kept, ERROR_CORRUPT, "does not belong");
    }
    for (size_t i = 0; i < kept.length; i += 7) {
        spoiled = kept;
        spoiled.bytes[i] ^= 1;
        expect_refused(&bound, &spoiled, ERROR_CORRUPT, "does not belong");
    }
    spoiled = kept;
    spoiled.length--;
    expect_refused(&bound, &spoiled, ERROR_CORRUPT, "wrong length");
    const struct wrapped_key again = wrap(&bound, data_key);
    assert_memory_not_equal(again.bytes, kept.bytes, 12); /* never the same nonce */
}

static void what_is_wrong_at_the_start_is_said(void **state)
{
    char said[2048];

    (void)state;
    end_keyd();
    const char *const without[] = {"--socket", keyd.socket, "--passphrase-file", keyd.passphrase, NULL};
    assert_int_equal(keyd_daemon_run(&keyd, without, said, sizeof said), 2);
    expect_said(said, "version 1 of the key-encryption keys is in a token");

    write_text(pin_file, "wrong\n", 0600);
    assert_int_equal(run("--socket", keyd.socket, NULL, said), 2);
    expect_said(said, "refuses the PIN");
    assert_null(strstr(said, "wrong"));
    write_text(pin_file, PIN "\n", 0644);
    assert_int_equal(run("--socket", keyd.socket, NULL, said), 2);
    expect_said(said, "chmod 600");
    write_text(pin_file, PIN "\n", 0600);

    softhsm_shell("mv $D/tokens $D/away && mkdir $D/tokens");
    assert_int_equal(run("--socket", keyd.socket, NULL, said), 1);
    expect_said(said, "there is no token");
    softhsm_make_token("sijil"); /* a fresh one of that name: it has no key */
    assert_int_equal(run("--socket", keyd.socket, NULL, said), 1);
    expect_said(said, "the token has no key");
    softhsm_shell("rm -r $D/tokens && mv $D/away $D/tokens");

    options[1] = "/usr/lib/no-such-module.so";
    assert_int_equal(run("--socket", keyd.socket, NULL, said), 1);
    expect_said(said, "can't be loaded");
    options[1] = SHIM;
    keyd_daemon_start(&keyd, options);
    const struct key_binding bound = binding();
    expect_opens(&bound, &kept, data_key);
}

static void expect_alive(void)
{
    struct keyd_identity identity;
    struct error err = {0};

    if (!keyd_identify(client, &identity, &err).ok) fail_msg("%s", err.message);
}

/* A token is initialised again while keyd runs, and then the old one comes back. */
static void a_token_that_was_lost_and_found_is_used_again(void **state)
{
    const struct key_binding bound = binding();

    (void)state;
    expect_opens(&bound, &kept, data_key);
    softhsm_shell("cp -a $D/tokens $D/backup && rm -r $D/tokens/*");
    softhsm_make_token("sijil");
    expect_refused(&bound, &kept, ERROR_UNAVAILABLE, "");
    expect_alive();
    softhsm_shell("rm -r $D/tokens && mv $D/backup $D/tokens");
    expect_opens_soon(&bound, &kept);
}

static void a_lost_session_is_opened_again(void **state)
{
    const struct key_binding bound = binding();

    (void)state;
    write_text(shim_file, "s", 0644);
    expect_refused(&bound, &kept, ERROR_UNAVAILABLE, "SESSION_HANDLE_INVALID");
    assert_int_equal(unlink(shim_file), 0);
    expect_opens(&bound, &kept, data_key);
}

static void a_module_that_crashes_takes_nobody_along(void **state)
{
    const struct key_binding bound = binding();

    (void)state;
    write_text(shim_file, "c", 0644);
    expect_refused(&bound, &kept, ERROR_UNAVAILABLE, "");
    expect_alive();
    assert_int_equal(unlink(shim_file), 0);
    expect_opens_soon(&bound, &kept);
}

static void a_module_that_blocks_is_killed(void **state)
{
    const struct key_binding bound = binding();

    (void)state;
    write_text(shim_file, "b", 0644);
    for (unsigned i = 0; i < 6; i++) { /* more than there are workers */
        const int64_t before_ms = clock_monotonic_ms();
        expect_refused(&bound, &kept, ERROR_UNAVAILABLE, "");
        assert_true(clock_monotonic_ms() - before_ms < 5000);
        expect_alive();
    }
    assert_int_equal(unlink(shim_file), 0);
    expect_opens_soon(&bound, &kept);
}

static void versions_move_between_file_and_token(void **state)
{
    const struct key_binding bound = binding();
    struct wrapped_key in_file, in_token;
    char said[2048];
    struct error err = {0};

    (void)state;
    end_keyd();
    const char *const in_file_only[] = {"--add-version", "--passphrase-file", keyd.passphrase, NULL};
    assert_int_equal(keyd_daemon_run(&keyd, in_file_only, said, sizeof said), 0);
    keyd_daemon_start(&keyd, options);
    if (!keyd_rewrap(client, &bound, &kept, &in_file, &err).ok) fail_msg("%s", err.message);
    assert_true(in_file.version == 2 && in_file.length == DATA_KEY_SIZE + 40);
    expect_opens(&bound, &in_file, data_key);

    end_keyd();
    assert_int_equal(run("--add-version", NULL, NULL, said), 0);
    keyd_daemon_start(&keyd, options);
    if (!keyd_rewrap(client, &bound, &in_file, &in_token, &err).ok) fail_msg("%s", err.message);
    assert_true(in_token.version == 3 && in_token.length == DATA_KEY_SIZE + 28);
    expect_opens(&bound, &in_token, data_key);
    expect_opens(&bound, &kept, data_key);

    assert_true(keyd_versions_unused(client, 2, &err).ok);
    end_keyd();
    const char *const no_token[] = {"--destroy-version", "1", "--passphrase-file", keyd.passphrase, NULL};
    assert_int_equal(keyd_daemon_run(&keyd, no_token, said, sizeof said), 1);
    expect_said(said, "version 1 is in a token");
    assert_int_equal(run("--destroy-version", "1", NULL, said), 0);
    keyd_daemon_start(&keyd, options);
    expect_refused(&bound, &kept, ERROR_CORRUPT, "version 1, which was destroyed");
    expect_opens(&bound, &in_token, data_key);
    expect_opens(&bound, &in_file, data_key);
}

static void nothing_outlives_keyd(void **state)
{
    char command[160];

    (void)state;
    assert_int_not_equal(keyd_daemon_end(&keyd, SIGKILL), 0);
    (void)snprintf(command, sizeof command,
                   "for i in $(seq 50); do pgrep -f '[s]ijil-keyd.*%s' > /dev/null || exit 0; sleep 0.1; done; exit 1",
                   keyd.folder);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): a text of this test */
    keyd_daemon_start(&keyd, options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_open_only_where_they_belong),
        cmocka_unit_test(what_is_wrong_at_the_start_is_said),
        cmocka_unit_test(a_token_that_was_lost_and_found_is_used_again),
        cmocka_unit_test(a_lost_session_is_opened_again),
        cmocka_unit_test(a_module_that_crashes_takes_nobody_along),
        cmocka_unit_test(a_module_that_blocks_is_killed),
        cmocka_unit_test(versions_move_between_file_and_token),
        cmocka_unit_test(nothing_outlives_keyd),
    };

    return cmocka_run_group_tests_name("token", tests, set_up, tear_down);
}
