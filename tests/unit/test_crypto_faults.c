/* Each failure of OpenSSL, libsodium or the heap is reported, nothing leaks, and no result is written. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "crypto/aead.h"
#include "crypto/certificate.h"
#include "crypto/digest.h"
#include "crypto/dsse.h"
#include "crypto/ecdsa.h"
#include "crypto/ed25519.h"
#include "crypto/hkdf.h"
#include "crypto/password.h"

static const uint8_t key_bytes[32] = {1, 2, 3}, nonce[GCM_NONCE_SIZE] = {4};
static struct ecdsa_key *known, *other; /* of all tests; made before anything fails */
static struct buffer authority = {.maximum = CERTIFICATE_PEM_MAX}, private_pem = {.maximum = ECDSA_PEM_MAX};
static char folder[] = "/tmp/sijil-crypto-faults-XXXXXX";
static const char *in_folder(const char *name, char path[64])
{
    (void)snprintf(path, 64, "%s/%s", folder, name);
    return path;
}

static bool has_only(const uint8_t *place, size_t length, uint8_t value)
{
    for (size_t i = 0; i < length; i++)
        if (place[i] != value) return false;
    return true;
}

static struct result seal_and_open(void *context, struct error *err)
{
    OWNED(gcm) *gcm = NULL;
    uint8_t sealed[5 + GCM_TAG_SIZE], plain[5];

    (void)context;
    memset(plain, 7, sizeof plain);
    TRY_UNTOUCHED_BYTES(gcm, gcm_new(key_bytes, &gcm, err));
    TRY(gcm_seal(gcm, nonce, bytes_of_text("footer"), bytes_of_text("hello"), sealed, err));
    const struct result opened = gcm_open(gcm, nonce, bytes_of_text("footer"), (struct bytes){sealed, sizeof sealed}, plain, err);
    if (!opened.ok) assert_true(has_only(plain, sizeof plain, 0)); /* unproven bytes are not returned */
    return opened;
}

static struct result make_and_sign(void *context, struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;
    struct buffer OWNED_BUFFER der = BUFFER(ECDSA_DER_MAX);
    uint8_t jose[ECDSA_JOSE_SIZE];

    (void)context;
    TRY_UNTOUCHED_BYTES(key, ecdsa_key_new(&key, err));
    TRY_UNTOUCHED(der.length, ecdsa_sign_der(key, bytes_of_text("m"), &der, err));
    TRY(ecdsa_sign_jose(key, bytes_of_text("m"), jose, err));
    if (!ecdsa_verify_der(key, bytes_of_text("m"), buffer_bytes(&der)) ||
        !ecdsa_verify_jose(key, bytes_of_text("m"), (struct bytes){jose, sizeof jose}))
        return failure(err, ERROR_DENIED, "not verified");
    return SUCCESS;
}

static struct result take_apart(void *context, struct error *err)
{
    OWNED(secret) *scalar = NULL;
    OWNED(ecdsa_key) *pair = NULL;
    OWNED(ecdsa_key) *half = NULL;
    uint8_t point[ECDSA_PUBLIC_SIZE], again[ECDSA_PUBLIC_SIZE];

    (void)context;
    ecdsa_key_public(known, point);
    TRY_UNTOUCHED_BYTES(scalar, ecdsa_key_scalar(known, &scalar, err));
    TRY_UNTOUCHED_BYTES(pair, ecdsa_key_from_scalar(scalar, &pair, err));
    ecdsa_key_public(pair, again);
    assert_memory_equal(point, again, sizeof point);
    TRY_UNTOUCHED_BYTES(half, ecdsa_key_from_public(point, &half, err));
    return SUCCESS;
}

static struct result keep_in_files(void *context, struct error *err)
{
    char path[64];
    OWNED(ecdsa_key) *loaded = NULL;
    struct buffer OWNED_BUFFER pem = BUFFER(ECDSA_PEM_MAX);

    (void)context;
    (void)unlink(in_folder("key.pem", path));
    TRY(ecdsa_key_save(known, path, err));
    TRY_UNTOUCHED_BYTES(loaded, ecdsa_key_load(path, &loaded, err));
    TRY_UNTOUCHED(pem.length, ecdsa_key_public_pem(known, &pem, err));
    return SUCCESS;
}

static struct result found_an_authority(void *context, struct error *err)
{
    struct buffer OWNED_BUFFER pem = BUFFER(CERTIFICATE_PEM_MAX);

    (void)context;
    TRY_UNTOUCHED(pem.length, certificate_authority("ca", known, 10, &pem, err));
    return SUCCESS;
}

static struct result issue(void *context, struct error *err)
{
    static const char *const names[] = {"localhost", "127.0.0.1"};
    struct buffer OWNED_BUFFER pem = BUFFER(CERTIFICATE_PEM_MAX);
    struct certificate_facts facts, again;

    (void)context;
    const struct certificate_request request = {.key = known, .names = names, .name_count = 2, .days = 5};
    TRY_UNTOUCHED(pem.length, certificate_issue(&request, buffer_bytes(&authority), known, &pem, err));
    TRY_UNTOUCHED_BYTES(facts, certificate_inspect(buffer_bytes(&pem), &facts, err));
    TRY_UNTOUCHED_BYTES(again, certificate_check_pair(buffer_bytes(&pem), buffer_bytes(&private_pem), &again, err));
    return SUCCESS;
}

static struct result derive(void *context, struct error *err)
{
    uint8_t out[40];

    (void)context;
    memset(out, 7, sizeof out);
    const struct result derived =
        hkdf_sha256((struct bytes){key_bytes, 32}, bytes_of_text("salt"), bytes_of_text("info"), out, sizeof out, err);
    if (!derived.ok) assert_true(has_only(out, sizeof out, 7) || has_only(out, sizeof out, 0));
    return derived;
}

static struct result stretch(void *context, struct error *err)
{
    OWNED(secret) *key = NULL;
    OWNED(secret) *fresh = NULL;
    OWNED(secret) *copy = NULL;

    (void)context;
    const struct password_cost cheap = {.passes = 1, .memory_kib = 8};
    TRY_UNTOUCHED_BYTES(key, password_key(bytes_of_text("p"), key_bytes, cheap, &key, err));
    TRY_UNTOUCHED_BYTES(fresh, secret_random(16, &fresh, err));
    TRY_UNTOUCHED_BYTES(copy, secret_copy(secret_bytes(fresh), &copy, err));
    return SUCCESS;
}

static struct result sign_a_note(void *context, struct error *err)
{
    OWNED(secret) *seed = NULL;
    uint8_t public_key[ED25519_PUBLIC_SIZE], signature[ED25519_SIGNATURE_SIZE];

    (void)context;
    TRY(secret_random(ED25519_SEED_SIZE, &seed, err));
    TRY(ed25519_public(seed, public_key, err));
    TRY(ed25519_sign(seed, bytes_of_text("note"), signature, err));
    assert_true(ed25519_verify(public_key, bytes_of_text("note"), signature));
    return SUCCESS;
}

static struct result sign_a_document(void *context, struct error *err)
{
    const struct ecdsa_key *const signers[] = {known, other};
    struct buffer OWNED_BUFFER envelope = BUFFER(DSSE_OVERHEAD);
    OWNED(dsse) *dsse = NULL;

    (void)context;
    TRY(dsse_write("t", bytes_of_text("p"), signers, 2, &envelope, err));
    TRY_UNTOUCHED_BYTES(dsse, dsse_read(buffer_bytes(&envelope), DSSE_OVERHEAD, &dsse, err));
    return dsse_check_signer(dsse, known, err);
}

static struct result hash(void *context, struct error *err)
{
    OWNED(hasher) *hasher = NULL;
    OWNED(hasher) *again = NULL;
    uint8_t state[HASHER_STATE_MAX];

    (void)context;
    TRY(hasher_new(DIGEST_SHA512, &hasher, err));
    const size_t length = hasher_export(hasher, state);
    TRY_UNTOUCHED_BYTES(again, hasher_import((struct bytes){state, length}, &again, err));
    return SUCCESS;
}

static const struct fallible_row rows[] = {
    {"AES-GCM", seal_and_open, 10},
    {"a fresh key signs", make_and_sign, 25},
    {"a key from its parts", take_apart, 30},
    {"keys in files", keep_in_files, 20},
    {"an authority", found_an_authority, 18},
    {"a server's certificate", issue, 45},
    {"HKDF", derive, 2},
    {"secrets", stretch, 7},
    {"Ed25519", sign_a_note, 5},
    {"DSSE", sign_a_document, 15},
    {"a hash that travels", hash, 2},
};

/* OpenSSL looks the algorithm up once. This may fail too, until it succeeds once; so it runs in a separate process. */
static void a_look_up_that_fails_is_tried_again(void **state)
{
    int status = 0;

    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        struct error err = {0};

        fault_arm(1);
        const bool failed = !derive(NULL, &err).ok && fault_has_fired() && err.kind == ERROR_NO_MEMORY;
        fault_arm(0);
        _exit(failed && derive(NULL, &err).ok ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* In a child, whose shared region for small secrets is not made yet: the n-th question of one secret fails. */
static bool succeeds_after(unsigned long nth, size_t length)
{
    int status = 0;
    const pid_t child = fork();

    if (child == 0) {
        OWNED(secret) *secret = NULL;
        struct error err = {0};

        fault_arm(nth);
        const bool ok = secret_new(length, &secret, &err).ok, has_fired = fault_has_fired();
        fault_arm(0);
        if (ok) memset(secret->bytes, 1, length);
        secret_free(GIVE(secret));
        _exit(!has_fired || (!ok && err.kind != ERROR_NO_MEMORY) ? 2 : ok ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
    return WEXITSTATUS(status) == 0;
}

/* Without the shared region a small secret has its own locked memory; if no memory can be locked, it is refused. */
static void secrets_are_locked_or_refused(void **state)
{
    (void)state;
    assert_false(succeeds_after(1, 32) || succeeds_after(2, 32));   /* its own memory */
    assert_true(succeeds_after(3, 32));                             /* the region */
    assert_true(succeeds_after(4, 32));                             /* the region can't be locked */
    assert_false(succeeds_after(3, 100) || succeeds_after(4, 100)); /* too large for it: memory, then the lock */
}

/* More small secrets than the shared region holds, an empty one among them. */
static void the_region_may_be_full(void **state)
{
    static struct secret *many[300];
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(many); i++) {
        assert_true(secret_new(i % 65, &many[i], &err).ok);
        memset(many[i]->bytes, (int)i, many[i]->length);
    }
    for (size_t i = 0; i < COUNT(many); i++) {
        assert_true(has_only(many[i]->bytes, many[i]->length, (uint8_t)i));
        secret_free(GIVE(many[i]));
    }
}

static void make_known(void)
{
    char path[64];
    struct error err = {0};

    assert_non_null(mkdtemp(folder));
    assert_true(ecdsa_key_new(&known, &err).ok && ecdsa_key_new(&other, &err).ok);
    assert_true(certificate_authority("ca", known, 10, &authority, &err).ok);
    assert_true(ecdsa_key_save(known, in_folder("known.pem", path), &err).ok);
    FILE *file = fopen(path, "rbe");
    char text[ECDSA_PEM_MAX];
    assert_non_null(file);
    const size_t length = fread(text, 1, sizeof text, file);
    (void)fclose(file);
    (void)unlink(path);
    assert_true(buffer_add(&private_pem, text, length, &err).ok);
}

int main(void)
{
    const struct CMUnitTest first[] = {cmocka_unit_test(a_look_up_that_fails_is_tried_again),
                                       cmocka_unit_test(secrets_are_locked_or_refused), cmocka_unit_test(the_region_may_be_full)};
    char path[64];

    int failed = cmocka_run_group_tests_name("at the start", first, NULL, NULL);
    make_known();
    failed += RUN_TABLE(rows, failures_are_said);
    (void)unlink(in_folder("key.pem", path));
    (void)rmdir(folder);
    ecdsa_key_free(known);
    ecdsa_key_free(other);
    buffer_done(&authority);
    buffer_done(&private_pem);
    return failed;
}
