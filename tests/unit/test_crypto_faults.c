/* Whatever OpenSSL, libsodium or the heap refuses: it is said, nothing leaks, and no result is written. */
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

static struct result seal_and_open(struct error *err)
{
    OWNED(gcm) *gcm = NULL;
    uint8_t sealed[5 + GCM_TAG_SIZE], plain[5];

    memset(plain, 7, sizeof plain);
    const struct result made = gcm_new(key_bytes, &gcm, err);
    if (!made.ok) assert_null(gcm);
    TRY(made);
    TRY(gcm_seal(gcm, nonce, bytes_of_text("footer"), bytes_of_text("hello"), sealed, err));
    const struct result opened =
        gcm_open(gcm, nonce, bytes_of_text("footer"), (struct bytes){sealed, sizeof sealed}, plain, err);
    if (!opened.ok) assert_true(has_only(plain, sizeof plain, 0)); /* what was not proven is not shown */
    return opened;
}

static struct result make_and_sign(struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;
    struct buffer OWNED_BUFFER der = BUFFER(ECDSA_DER_MAX);
    uint8_t jose[ECDSA_JOSE_SIZE];

    const struct result made = ecdsa_key_new(&key, err);
    if (!made.ok) assert_null(key);
    TRY(made);
    const struct result signed_der = ecdsa_sign_der(key, bytes_of_text("m"), &der, err);
    if (!signed_der.ok) assert_int_equal(der.length, 0);
    TRY(signed_der);
    TRY(ecdsa_sign_jose(key, bytes_of_text("m"), jose, err));
    if (!ecdsa_verify_der(key, bytes_of_text("m"), buffer_bytes(&der)) ||
        !ecdsa_verify_jose(key, bytes_of_text("m"), (struct bytes){jose, sizeof jose}))
        return failure(err, ERROR_DENIED, "not verified");
    return SUCCESS;
}

static struct result take_apart(struct error *err)
{
    OWNED(secret) *scalar = NULL;
    OWNED(ecdsa_key) *pair = NULL;
    OWNED(ecdsa_key) *half = NULL;
    uint8_t point[ECDSA_PUBLIC_SIZE], again[ECDSA_PUBLIC_SIZE];

    ecdsa_key_public(known, point);
    const struct result read_out = ecdsa_key_scalar(known, &scalar, err);
    if (!read_out.ok) assert_null(scalar);
    TRY(read_out);
    const struct result made = ecdsa_key_from_scalar(scalar, &pair, err);
    if (!made.ok) assert_null(pair);
    TRY(made);
    ecdsa_key_public(pair, again);
    assert_memory_equal(point, again, sizeof point);
    const struct result found = ecdsa_key_from_public(point, &half, err);
    if (!found.ok) assert_null(half);
    return found;
}

static struct result keep_in_files(struct error *err)
{
    char path[64];
    OWNED(ecdsa_key) *loaded = NULL;
    struct buffer OWNED_BUFFER pem = BUFFER(ECDSA_PEM_MAX);

    (void)unlink(in_folder("key.pem", path));
    TRY(ecdsa_key_save(known, path, err));
    const struct result loading = ecdsa_key_load(path, &loaded, err);
    if (!loading.ok) assert_null(loaded);
    TRY(loading);
    const struct result written = ecdsa_key_public_pem(known, &pem, err);
    if (!written.ok) assert_int_equal(pem.length, 0);
    return written;
}

static struct result found_an_authority(struct error *err)
{
    struct buffer OWNED_BUFFER pem = BUFFER(CERTIFICATE_PEM_MAX);

    const struct result made = certificate_authority("ca", known, 10, &pem, err);
    if (!made.ok) assert_int_equal(pem.length, 0);
    return made;
}

static struct result issue(struct error *err)
{
    static const char *const names[] = {"localhost", "127.0.0.1"};
    struct buffer OWNED_BUFFER pem = BUFFER(CERTIFICATE_PEM_MAX);
    struct certificate_facts facts = {.not_before_s = -1};

    const struct certificate_request request = {.key = known, .names = names, .name_count = 2, .days = 5};
    const struct result made = certificate_issue(&request, buffer_bytes(&authority), known, &pem, err);
    if (!made.ok) assert_int_equal(pem.length, 0);
    TRY(made);
    const struct result looked = certificate_inspect(buffer_bytes(&pem), &facts, err);
    if (!looked.ok) assert_true(facts.not_before_s == -1);
    TRY(looked);
    return certificate_check_pair(buffer_bytes(&pem), buffer_bytes(&private_pem), &facts, err);
}

static struct result derive(struct error *err)
{
    uint8_t out[40];

    memset(out, 7, sizeof out);
    const struct result derived = hkdf_sha256((struct bytes){key_bytes, 32}, bytes_of_text("salt"),
                                              bytes_of_text("info"), out, sizeof out, err);
    if (!derived.ok) assert_true(has_only(out, sizeof out, 7) || has_only(out, sizeof out, 0));
    return derived;
}

static struct result stretch(struct error *err)
{
    OWNED(secret) *key = NULL;
    OWNED(secret) *fresh = NULL;
    OWNED(secret) *copy = NULL;

    const struct result made = password_key(bytes_of_text("p"), key_bytes,
                                            (struct password_cost){.passes = 1, .memory_kib = 8}, &key, err);
    if (!made.ok) assert_null(key);
    TRY(made);
    TRY(secret_random(16, &fresh, err));
    TRY(secret_copy(secret_bytes(fresh), &copy, err));
    return SUCCESS;
}

static struct result sign_a_note(struct error *err)
{
    OWNED(secret) *seed = NULL;
    uint8_t public_key[ED25519_PUBLIC_SIZE], signature[ED25519_SIGNATURE_SIZE];

    TRY(secret_random(ED25519_SEED_SIZE, &seed, err));
    TRY(ed25519_public(seed, public_key, err));
    TRY(ed25519_sign(seed, bytes_of_text("note"), signature, err));
    assert_true(ed25519_verify(public_key, bytes_of_text("note"), signature));
    return SUCCESS;
}

static struct result sign_a_document(struct error *err)
{
    const struct ecdsa_key *const signers[] = {known, other};
    struct buffer OWNED_BUFFER envelope = BUFFER(DSSE_OVERHEAD);
    OWNED(dsse) *dsse = NULL;

    TRY(dsse_write("t", bytes_of_text("p"), signers, 2, &envelope, err));
    const struct result read = dsse_read(buffer_bytes(&envelope), DSSE_OVERHEAD, &dsse, err);
    if (!read.ok) assert_null(dsse);
    TRY(read);
    return dsse_check_signer(dsse, known, err);
}

static struct result hash(struct error *err)
{
    OWNED(hasher) *hasher = NULL;
    OWNED(hasher) *again = NULL;
    uint8_t state[HASHER_STATE_MAX];

    TRY(hasher_new(DIGEST_SHA512, &hasher, err));
    const size_t length = hasher_export(hasher, state);
    const struct result read = hasher_import((struct bytes){state, length}, &again, err);
    if (!read.ok) assert_null(again);
    return read;
}

static const struct row {
    const char *name;
    struct result (*run)(struct error *err);
    unsigned long least; /* how many failures there are, at least */
} rows[] = {
    {"AES-GCM", seal_and_open, 10},
    {"a fresh key signs", make_and_sign, 25},
    {"a key from its parts", take_apart, 30},
    {"keys in files", keep_in_files, 20},
    {"an authority", found_an_authority, 18},
    {"a server's certificate", issue, 45},
    {"HKDF", derive, 2},
    {"secrets", stretch, 10},
    {"Ed25519", sign_a_note, 6},
    {"DSSE", sign_a_document, 15},
    {"a hash that travels", hash, 2},
};

static void failures_are_said(void **state)
{
    const struct row *row = *state;
    unsigned long nth = 1;

    for (;; nth++) {
        struct error err = {0};

        fault_arm(nth);
        const bool ok = row->run(&err).ok;
        if (!fault_has_fired()) {
            if (!ok) fail_msg("%s", err.message);
            break;
        }
        if (ok) fail_msg("failure %lu of %s was not noticed", nth, row->name);
        assert_int_not_equal(err.kind, ERROR_NONE);
        assert_int_not_equal(err.message[0], '\0');
    }
    fault_arm(0);
    assert_true(nth > row->least);
}

/* OpenSSL looks the algorithm up once: that may fail too, and only until it succeeds. A process of its own. */
static void a_look_up_that_fails_is_tried_again(void **state)
{
    int status = 0;

    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        struct error err = {0};

        fault_arm(1);
        const bool failed = !derive(&err).ok && fault_has_fired() && err.kind == ERROR_NO_MEMORY;
        fault_arm(0);
        _exit(failed && derive(&err).ok ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
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
    const struct CMUnitTest first[] = {cmocka_unit_test(a_look_up_that_fails_is_tried_again)};
    char path[64];

    int failed = cmocka_run_group_tests_name("look-up", first, NULL, NULL);
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
