/* The folder of a runner: what opens it, what does not, and no half of it after any failure. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "crypto/runner_certificate.h"
#include "documents/format/runner_invitation.h"
#include "runner/state/runner_state.h"

#define HOUR_MS  INT64_C(3600000)
#define AUDIENCE "sijil.example/audit"
#define LOG_KEY  "sijil.example/audit+747f8459+ARMH5uQD5Cv8q1MzNnSd8FiJVPR2MoP2kbcukPYKg7ll"

static const char *const files[] = {"key.pem", "registry.json", "ca.pem", "document.json", "certificate.pem"};
static struct ecdsa_key *authority, *root;

struct folder {
    char path[48], state[64];
};

static void folder_make(struct folder *folder)
{
    (void)snprintf(folder->path, sizeof folder->path, "/dev/shm/sijil-runner-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
    (void)snprintf(folder->state, sizeof folder->state, "%s/state", folder->path);
}

static void name(const struct folder *folder, const char *file, char path_out[128])
{
    (void)snprintf(path_out, 128, "%s/%s", folder->state, file);
}

static void folder_empty(const struct folder *folder)
{
    for (size_t i = 0; i < COUNT(files); i++) {
        char path[128];
        name(folder, files[i], path);
        (void)unlink(path);
    }
    (void)rmdir(folder->state);
}

static void folder_remove(struct folder *folder)
{
    folder_empty(folder);
    (void)rmdir(folder->path);
}
#define OWNED_FOLDER __attribute__((cleanup(folder_remove))) struct folder

/* ---- the steps of an enrolment ---- */

static struct result pin(struct runner_state *state, struct error *err)
{
    struct registry_pins pins = {.host = "registry.example", .audience = AUDIENCE, .log_key = LOG_KEY};

    ecdsa_key_public(authority, pins.signer);
    ecdsa_key_public(root, pins.root);
    return runner_state_keep_registry(state, &pins, bytes_of_text("certificates"), err);
}

static struct result sign_document(const struct ecdsa_key *subject, const struct ecdsa_key *signer, struct buffer *envelope,
                                   struct error *err)
{
    struct buffer OWNED_BUFFER invited = BUFFER(RUNNER_INVITATION_MAX), payload = BUFFER(RUNNER_INVITATION_MAX);
    OWNED(runner_invitation) *invitation = NULL;
    uint8_t point[ECDSA_PUBLIC_SIZE];
    OWNED_JSON places = json_pack("[s]", "AE");

    if (places == NULL) return failure(err, ERROR_NO_MEMORY, "no memory");
    const int64_t now_ms = clock_wall_ms();
    const struct runner_invitation_parts parts = {.audience = AUDIENCE,
                                                  .scope = "",
                                                  .pool = "gpu",
                                                  .region = "dxb",
                                                  .isolation = "rlimits",
                                                  .runner = {{1, 2, 3}},
                                                  .jurisdictions = places,
                                                  .assurance = 1,
                                                  .issued_ms = now_ms,
                                                  .expires_ms = now_ms + HOUR_MS,
                                                  .runner_expires_ms = now_ms + 24 * HOUR_MS};
    TRY(runner_invitation_write(&parts, root, &invited, err));
    TRY(runner_invitation_read(buffer_bytes(&invited), &invitation, err));
    ecdsa_key_public(subject, point);
    TRY(runner_invitation_document(invitation, point, &payload, err));
    return document_sign(DOCUMENT_RUNNER, buffer_bytes(&payload), signer, envelope, err);
}

static struct result keep_document(struct runner_state *state, struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(RUNNER_INVITATION_MAX);

    TRY(sign_document(state->key, state->key, &envelope, err));
    return runner_state_keep_document(state, buffer_bytes(&envelope), err);
}

static struct result certify(const struct ecdsa_key *key, struct buffer *pem, struct error *err)
{
    struct buffer OWNED_BUFFER der = BUFFER(RUNNER_CERTIFICATE_MAX);
    const int64_t now_ms = clock_wall_ms() / 1000 * 1000;
    struct runner_certificate wanted = {.runner = {{1, 2, 3}}, .not_before_ms = now_ms, .not_after_ms = now_ms + 24 * HOUR_MS};

    ecdsa_key_public(key, wanted.point);
    TRY(runner_certificate_issue(&wanted, authority, &der, err));
    return runner_certificate_pem(buffer_bytes(&der), pem, err);
}

static struct result keep_certificate(struct runner_state *state, struct error *err)
{
    struct buffer OWNED_BUFFER pem = BUFFER(RUNNER_PEM_MAX);

    TRY(certify(state->key, &pem, err));
    return runner_state_keep_certificate(state, buffer_bytes(&pem), err);
}

static void enrolled(const struct folder *folder)
{
    OWNED(runner_state) *state = NULL;
    struct error err = {0};

    must(runner_state_begin(folder->state, &state, &err), &err);
    must(pin(state, &err), &err);
    must(keep_document(state, &err), &err);
    must(keep_certificate(state, &err), &err);
}

/* ---- what opens ---- */

static void a_folder_opens_when_the_enrolment_was_sent(void **unused)
{
    OWNED_FOLDER folder;
    OWNED(runner_state) *first = NULL, *again = NULL, *state = NULL;
    uint8_t key[ECDSA_PUBLIC_SIZE], other[ECDSA_PUBLIC_SIZE];
    struct error err = {0};
    struct stat status;

    (void)unused;
    folder_make(&folder);
    assert_false(runner_state_open(folder.state, &state, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    must(runner_state_begin(folder.state, &first, &err), &err);
    must(runner_state_begin(folder.state, &again, &err), &err); /* it goes on with the key that is there */
    ecdsa_key_public(first->key, key);
    ecdsa_key_public(again->key, other);
    assert_memory_equal(key, other, sizeof key);
    assert_true(stat(first->key_file, &status) == 0 && (status.st_mode & 0777) == 0600);
    assert_true(stat(folder.state, &status) == 0 && (status.st_mode & 0777) == 0700);
    assert_false(runner_state_open(folder.state, &state, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    must(pin(again, &err), &err);
    must(keep_document(again, &err), &err);
    must(runner_state_open(folder.state, &state, &err), &err);
    assert_true(state->certificate_until_ms == 0 && state->document != NULL);
    assert_string_equal(state->own.pool, "gpu");
    assert_string_equal(state->registry.host, "registry.example");
    assert_true(strstr(state->ca_file, "/ca.pem") != NULL);
    const struct run_trust trust = runner_state_trust(state);
    ecdsa_key_public(root, key);
    assert_memory_equal(trust.root, key, sizeof key);
    assert_true(bytes_equal(trust.log_key, bytes_of_text(LOG_KEY)) && trust.keyd == state->keyd);
}

static void an_enrolled_folder_is_not_begun_again(void **unused)
{
    OWNED_FOLDER folder;
    OWNED(runner_state) *state = NULL, *other = NULL;
    struct error err = {0};

    (void)unused;
    folder_make(&folder);
    enrolled(&folder);
    assert_false(runner_state_begin(folder.state, &other, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    must(runner_state_open(folder.state, &state, &err), &err);
    assert_true(state->certificate_until_ms > clock_wall_ms() && state->certificate_from_ms <= clock_wall_ms());
}

/* ---- what does not ---- */

static const struct row {
    const char *name, *file, *content; /* content NULL: the mode alone */
    mode_t mode;
    enum error_kind kind;
} rows[] = {
    {"the folder is open to its group", ".", NULL, 0750, ERROR_DENIED},
    {"others may read the key", "key.pem", NULL, 0604, ERROR_DENIED},
    {"the key is damaged", "key.pem", "-----BEGIN", 0600, ERROR_CORRUPT},
    {"the registry is damaged", "registry.json", "{", 0600, ERROR_CORRUPT},
    {"the registry is empty", "registry.json", "", 0600, ERROR_CORRUPT},
    {"the document is damaged", "document.json", "{}", 0600, ERROR_CORRUPT},
    {"the certificate is damaged", "certificate.pem", "x", 0600, ERROR_CORRUPT},
};

static void damage_is_said(void **row_of)
{
    const struct row *row = *row_of;
    OWNED_FOLDER folder;
    OWNED(runner_state) *state = NULL;
    struct error err = {0};
    char path[128];

    folder_make(&folder);
    enrolled(&folder);
    name(&folder, row->file, path);
    if (row->content != NULL) must(file_replace(path, bytes_of_text(row->content), row->mode, &err), &err);
    assert_int_equal(chmod(path, row->mode), 0);
    assert_false(runner_state_open(folder.state, &state, &err).ok);
    if (err.kind != row->kind) fail_msg("%s: %s", error_kind_name(err.kind), err.message);
    assert_null(state);
    assert_int_equal(chmod(folder.state, 0700), 0);
}

static void files_of_another_key_are_refused(void **unused)
{
    OWNED_FOLDER folder;
    struct buffer OWNED_BUFFER pem = BUFFER(RUNNER_PEM_MAX), envelope = BUFFER(RUNNER_INVITATION_MAX),
                               unsigned_one = BUFFER(RUNNER_INVITATION_MAX);
    OWNED(runner_state) *state = NULL;
    OWNED(ecdsa_key) *stranger = NULL;
    struct error err = {0};

    (void)unused;
    folder_make(&folder);
    enrolled(&folder);
    must(runner_state_open(folder.state, &state, &err), &err);
    must(ecdsa_key_new(&stranger, &err), &err);
    must(certify(stranger, &pem, &err), &err);
    const int64_t until_ms = state->certificate_until_ms;
    assert_false(runner_state_keep_certificate(state, buffer_bytes(&pem), &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_int_equal(state->certificate_until_ms, until_ms);
    must(sign_document(stranger, stranger, &envelope, &err), &err);
    assert_false(runner_state_keep_document(state, buffer_bytes(&envelope), &err).ok);
    must(sign_document(state->key, stranger, &unsigned_one, &err), &err);
    assert_false(runner_state_keep_document(state, buffer_bytes(&unsigned_one), &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
}

/* ---- failures ---- */

static struct result open_state(void *context, struct error *err)
{
    const struct folder *folder = context;
    OWNED(runner_state) *state = NULL;

    return runner_state_open(folder->state, &state, err);
}

static struct result enrol(void *context, struct error *err)
{
    const struct folder *folder = context;
    OWNED(runner_state) *state = NULL;

    folder_empty(folder);
    TRY(runner_state_begin(folder->state, &state, err));
    TRY(pin(state, err));
    TRY(keep_document(state, err));
    return keep_certificate(state, err);
}

static void every_failure_is_said(void **unused)
{
    OWNED_FOLDER folder;

    (void)unused;
    folder_make(&folder);
    fail_each(enrol, &folder, ERROR_NONE, 60);
    fail_each(open_state, &folder, ERROR_NONE, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_opens_when_the_enrolment_was_sent),
        cmocka_unit_test(an_enrolled_folder_is_not_begun_again),
        cmocka_unit_test(files_of_another_key_are_refused),
        cmocka_unit_test(every_failure_is_said),
    };
    struct error err = {0};

    assert_true(ecdsa_key_new(&authority, &err).ok && ecdsa_key_new(&root, &err).ok);
    const int failed = RUN_TABLE(rows, damage_is_said) + cmocka_run_group_tests(tests, NULL, NULL);
    ecdsa_key_free(authority);
    ecdsa_key_free(root);
    return failed;
}
