/* The objects that the gateway makes at its start, while memory or the disk fails. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "crypto/certificate.h"
#include "crypto/ecdsa.h"
#include "crypto/keyd_client.h"
#include "gateway/http/quota.h"
#include "gateway/http/tls.h"
#include "gateway/pipeline/event_quota.h"
#include "gateway/pipeline/response.h"
#include "gateway/settings/settings.h"
#include "storage/pg.h"

static char folder[] = "/tmp/sijil-gateway-failures-XXXXXX";
static struct settings settings; /* with a certificate and a key that fit */
static char settings_path[64];

static struct result read_settings(void *context, struct error *err)
{
    static struct settings read;

    (void)context;
    TRY(settings_read(settings_path, &read, err));
    assert_int_equal(read.listen_port, 443);
    return SUCCESS;
}

static struct result load_credentials(void *context, struct error *err)
{
    const struct tls_files files = {
        .certificate = settings.tls_certificate, .key = settings.tls_key, .client_ca = settings.tls_client_ca};
    OWNED(tls) *tls = NULL;

    (void)context;
    TRY_UNTOUCHED_BYTES(tls, tls_new(&files, &tls, err));
    return tls_reload(tls, err);
}

static struct result make_tables(void *context, struct error *err)
{
    OWNED(event_quota) *quotas = NULL;
    OWNED(quota) *quota = NULL;
    struct event_quota_answer now;

    (void)context;
    TRY_UNTOUCHED_BYTES(quotas, event_quota_new(&quotas, err));
    TRY_UNTOUCHED_BYTES(now, event_quota_take(quotas, &(struct uuid){{1}}, NULL, &now, err));
    TRY_UNTOUCHED_BYTES(quota, quota_new(8, &quota, err));
    return SUCCESS;
}

static const struct fallible_row work_rows[] = {
    {"settings are read", read_settings, 2},
    {"credentials are loaded", load_credentials, 15},
    {"tables are made", make_tables, 3},
};

/* PostgreSQL's messages name tables and addresses. */
static void words_for_anybody_are_our_own(void **state)
{
    static const struct {
        struct error err;
        const char *words;
    } rows[] = {
        {{ERROR_INVALID, "a label is too long"}, "a label is too long"},
        {{ERROR_INVALID, PG_STATEMENT_FAILED "robot_find: relation \"robot\" does not exist (42P01)"},
         "the database: invalid; the gateway's log says why"},
        {{ERROR_UNAVAILABLE, PG_CONNECTION_FAILED "connection to server at \"10.0.0.5\" failed"},
         "the database: unavailable; the gateway's log says why"},
        {{ERROR_UNAVAILABLE, "rights were last checked more than 5 s ago: " PG_CONNECTION_FAILED "no answer in time"},
         "rights were last checked more than 5 s ago: the database: unavailable; the gateway's log says why"},
        {{ERROR_UNAVAILABLE, KEYD_NOT_REACHED "/run/keyd: No such file or directory"},
         "sijil-keyd: unavailable; the gateway's log says why"},
    };
    char words[sizeof rows[0].err.message];

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        failure_words(&rows[i].err, words);
        assert_string_equal(words, rows[i].words);
    }
}

/* Pushing mends content, and neither documents nor rows: the advice once stood on every path. */
static void damage_is_told_with_advice_that_helps(void **state)
{
    static const struct error damaged = {ERROR_CORRUPT, "the database differs from what sijil-keyd has pinned"};

    (void)state;
    for (int speaks_oci = 0; speaks_oci < 2; speaks_oci++) {
        OWNED(arena) *arena = NULL;
        struct response space = {0};
        struct error err = {0};
        assert_true(arena_new(65536, &arena, &err).ok);
        struct request request = {.arena = arena, .response_space = &space, .speaks_oci = speaks_oci != 0};
        response_failure(&request, &damaged);
        assert_int_equal(space.status, 500);
        const char *body = arena_copy_text(arena, space.body);
        assert_non_null(body);
        assert_int_equal(strstr(body, "pushing the content anew") != NULL, speaks_oci);
        assert_non_null(strstr(body, "trying again does not help"));
        assert_null(strstr(body, "pinned")); /* the cause is for the operator */
    }
}

static struct result write_files(struct error *err)
{
    struct buffer OWNED_BUFFER certificate = BUFFER(CERTIFICATE_PEM_MAX);
    struct buffer OWNED_BUFFER text = BUFFER(4096);
    OWNED(ecdsa_key) *key = NULL;

    TRY(ecdsa_key_new(&key, err));
    TRY(certificate_authority("localhost", key, 10, &certificate, err));
    (void)snprintf(settings.tls_certificate, sizeof settings.tls_certificate, "%s/certificate.pem", folder);
    (void)snprintf(settings.tls_key, sizeof settings.tls_key, "%s/key.pem", folder);
    (void)snprintf(settings_path, sizeof settings_path, "%s/sijild.conf", folder);
    TRY(file_replace(settings.tls_certificate, buffer_bytes(&certificate), 0600, err));
    TRY(ecdsa_key_save(key, settings.tls_key, err));
    TRY(buffer_format(
        &text, err,
        "public_url = \"https://registry.example\"\ntls_certificate = \"%s\"\ntls_key = \"%s\"\n"
        "database = \"dbname=sijil\"\nkeyd_socket = \"/run/keyd\"\nmetadata_region = \"local/main\"\nlisten_port = 443\n"
        "region \"local/main\" {\n driver = fs\n location = \"/var/lib/sijil\"\n}\n",
        settings.tls_certificate, settings.tls_key));
    return file_replace(settings_path, buffer_bytes(&text), 0600, err);
}

int main(void)
{
    struct error err = {0};
    char command[100];

    if (mkdtemp(folder) == NULL || !write_files(&err).ok) return 1;
    const struct CMUnitTest words[] = {cmocka_unit_test(words_for_anybody_are_our_own),
                                       cmocka_unit_test(damage_is_told_with_advice_that_helps)};
    const int failed = RUN_TABLE(work_rows, failures_are_said) + cmocka_run_group_tests(words, NULL, NULL);
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? failed : 1; /* NOLINT(cert-env33-c): our own mkdtemp() name */
}
