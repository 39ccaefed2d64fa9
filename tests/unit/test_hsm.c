/* The workers of a token start, or the error has the reason; for tests with a token see tests/integration/test_keyd_token.c. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "keyd/hsm.h"

static char pin_file[] = "/tmp/sijil-pin-XXXXXX";

/* A worker loads the module when it is asked for the first time. */
static const struct hsm_options options = {.module = "/bin/sh", .token = "sijil", .pin_file = pin_file, .timeout_ms = 1500};

static struct result start_and_stop(void *context, struct error *err)
{
    OWNED(hsm) *hsm = NULL;

    (void)context;
    TRY_UNTOUCHED_BYTES(hsm, hsm_start(&options, &hsm, err));
    return SUCCESS;
}

static void a_start_that_fails_says_so(void **state)
{
    (void)state;
    fail_each(start_and_stop, NULL, ERROR_NONE, 9);
}

static const struct pin_row {
    const char *name, *pin;
    mode_t mode;
    enum error_kind kind;
} pin_rows[] = {
    {"none", "", 0600, ERROR_INVALID},
    {"an empty line", "\n1234\n", 0600, ERROR_INVALID},
    {"a file that others may read", "1234\n", 0644, ERROR_DENIED},
};

static void bad_pins_are_refused(void **state)
{
    const struct pin_row *row = *state;
    struct hsm *hsm = NULL;
    struct error err = {0};

    assert_true(file_replace(pin_file, bytes_of_text(row->pin), row->mode, &err).ok);
    assert_false(hsm_start(&options, &hsm, &err).ok);
    assert_int_equal(err.kind, row->kind);
    assert_null(hsm);
}

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(a_start_that_fails_says_so)};
    struct error err = {0};
    const int fd = mkstemp(pin_file);

    if (fd < 0 || close(fd) != 0 || !file_replace(pin_file, bytes_of_text("1234\n"), 0600, &err).ok) return 1;
    const int failed = cmocka_run_group_tests_name("starts", others, NULL, NULL) + RUN_TABLE(pin_rows, bad_pins_are_refused);
    (void)unlink(pin_file);
    return failed;
}
