/*
 * tests/support/softhsm.h -- tokens of SoftHSM in a folder of the test's own.
 */
#pragma once

#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/result.h"

#define SOFTHSM_PIN "471147"

/** Runs `command` in a shell that knows the folder as $D. */
static inline void softhsm_shell(const char *command)
{
    if (system(command) != 0) fail_msg("%s", command); /* NOLINT(cert-env33-c): our own words */
}

static inline void softhsm_make_token(const char *label)
{
    char command[160];

    (void)snprintf(command, sizeof command,
                   "softhsm2-util --init-token --free --label '%s' --pin " SOFTHSM_PIN " --so-pin 12345678 > /dev/null", label);
    softhsm_shell(command);
}

/** Makes the folder, the configuration that SoftHSM and its programs use from now on, and the token `sijil`. */
static inline void softhsm_begin(char folder_out[64])
{
    char conf[96];

    (void)snprintf(folder_out, 64, "/tmp/sijil-softhsm-XXXXXX");
    assert_non_null(mkdtemp(folder_out));
    (void)snprintf(conf, sizeof conf, "%s/softhsm2.conf", folder_out);
    FILE *file = fopen(conf, "wbe");
    assert_non_null(file);
    assert_true(fprintf(file, "directories.tokendir = %s/tokens\nobjectstore.backend = file\nlog.level = ERROR\n", folder_out) >
                0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(setenv("SOFTHSM2_CONF", conf, 1), 0);
    assert_int_equal(setenv("D", folder_out, 1), 0);
    softhsm_shell("mkdir $D/tokens");
    softhsm_make_token("sijil");
}

static inline void softhsm_end(void)
{
    softhsm_shell("rm -rf $D");
}

/** Checks that `result` failed with this kind and these words, and that the message does not contain the PIN. */
static inline void softhsm_expect(struct result result, const struct error *err, enum error_kind kind, const char *words)
{
    assert_false(result.ok);
    if (err->kind != kind || strstr(err->message, words) == NULL)
        fail_msg("%s: \"%s\", not %s: \"%s\"", error_kind_name(err->kind), err->message, error_kind_name(kind), words);
    assert_null(strstr(err->message, SOFTHSM_PIN));
}
