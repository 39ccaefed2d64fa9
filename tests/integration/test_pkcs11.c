/* Keys in a PKCS#11 token, in the process that calls it: SoftHSM does the work, and the shim lets chosen calls fail. */
#include "tests/support/unit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crypto/pkcs11.h"
#include "tests/support/pkcs11_shim.h"
#include "tests/support/softhsm.h"

#define PIN SOFTHSM_PIN

static const uint8_t id[PKCS11_ID_SIZE] = "the first key..", unknown[PKCS11_ID_SIZE] = "no such key....";
static const struct pkcs11_options good = {.module = SHIM, .token = "sijil", .pin = {(const uint8_t *)PIN, sizeof PIN - 1}};
static const struct bytes plain = {(const uint8_t *)"0123456789abcdef0123456789abcdef", 32};
static struct pkcs11_shim_plan *plan;
static char folder[64];

static void refuse(const char *function, unsigned nth, CK_RV code)
{
    *plan = (struct pkcs11_shim_plan){.function = function, .nth = nth, .code = code};
}

static void refuse_nothing(void)
{
    *plan = (struct pkcs11_shim_plan){0};
}

static struct pkcs11 *open_good(void)
{
    struct pkcs11 *pkcs11 = NULL;
    struct error err = {0};

    refuse_nothing();
    if (!pkcs11_open(&good, &pkcs11, &err).ok) fail_msg("%s", err.message);
    return pkcs11;
}

static void expect_not_opened(const struct pkcs11_options *options, enum error_kind kind, const char *words)
{
    struct pkcs11 *pkcs11 = NULL;
    struct error err = {0};

    const struct result result = pkcs11_open(options, &pkcs11, &err);
    assert_null(pkcs11);
    softhsm_expect(result, &err, kind, words);
}

static int set_up(void **state)
{
    (void)state;
    softhsm_begin(folder);
    void *shim = dlopen(SHIM, RTLD_NOW | RTLD_LOCAL); /* stays: what it was told would be forgotten */
    assert_non_null(shim);
    plan = dlsym(shim, "pkcs11_shim_plan");
    assert_non_null(plan);
    OWNED(pkcs11) *pkcs11 = open_good();
    struct error err = {0};
    if (!pkcs11_make_key(pkcs11, id, "the first", &err).ok) fail_msg("%s", err.message);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    softhsm_end();
    return 0;
}

/* ---- Opening ---- */

static void what_is_no_module_is_refused(void **state)
{
    struct pkcs11_options options = good;

    (void)state;
    refuse_nothing();
    options.module = "/nowhere/module.so";
    expect_not_opened(&options, ERROR_NOT_FOUND, "can't be loaded");
    options.module = "libm.so.6";
    expect_not_opened(&options, ERROR_INVALID, "is no PKCS#11 module");
    refuse("C_GetFunctionList", 1, CKR_GENERAL_ERROR);
    expect_not_opened(&good, ERROR_INVALID, "is no PKCS#11 module of version 2");
    *plan = (struct pkcs11_shim_plan){.has_no_list = 1};
    expect_not_opened(&good, ERROR_INVALID, "is no PKCS#11 module of version 2");
    *plan = (struct pkcs11_shim_plan){.version = 3};
    expect_not_opened(&good, ERROR_INVALID, "is no PKCS#11 module of version 2");
}

static void what_the_module_refuses_is_named(void **state)
{
    static const struct {
        const char *function;
        CK_RV code;
        enum error_kind kind;
        const char *words;
    } rows[] = {
        {"C_Initialize", CKR_GENERAL_ERROR, ERROR_UNAVAILABLE, "start failed: CKR_GENERAL_ERROR"},
        {"C_GetSlotList", CKR_BUFFER_TOO_SMALL, ERROR_UNAVAILABLE, "list of slots failed: CKR 0x150"},
        {"C_OpenSession", CKR_DEVICE_REMOVED, ERROR_UNAVAILABLE, "session failed: CKR_DEVICE_REMOVED"},
        {"C_Login", CKR_PIN_INCORRECT, ERROR_DENIED, "refuses the PIN"},
        {"C_Login", CKR_PIN_LEN_RANGE, ERROR_DENIED, "refuses the PIN"},
        {"C_Login", CKR_PIN_INVALID, ERROR_DENIED, "refuses the PIN"},
        {"C_Login", CKR_PIN_LOCKED, ERROR_DENIED, "PIN is locked"},
        {"C_Login", CKR_USER_PIN_NOT_INITIALIZED, ERROR_DENIED, "no user PIN"},
        {"C_Login", CKR_DEVICE_ERROR, ERROR_UNAVAILABLE, "login failed: CKR_DEVICE_ERROR"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        refuse(rows[i].function, 1, rows[i].code);
        expect_not_opened(&good, rows[i].kind, rows[i].words);
    }
}

static void whoever_is_logged_in_already_may_go_on(void **state)
{
    struct pkcs11 *pkcs11 = NULL;
    struct error err = {0};

    (void)state;
    refuse("C_Login", 1, CKR_USER_ALREADY_LOGGED_IN);
    if (!pkcs11_open(&good, &pkcs11, &err).ok) fail_msg("%s", err.message);
    pkcs11_free(pkcs11);
    pkcs11_free(NULL);
}

static void a_token_is_found_by_its_whole_label(void **state)
{
    static const char *const wrong[] = {"", "siji", "sijil2", "Sijil", "a label that is longer than 32 letters"};
    struct pkcs11_options options = good;

    (void)state;
    refuse_nothing();
    for (size_t i = 0; i < COUNT(wrong); i++) {
        options.token = wrong[i];
        expect_not_opened(&options, ERROR_NOT_FOUND, "there is no token");
    }
    refuse("C_GetTokenInfo", 1, CKR_TOKEN_NOT_PRESENT);
    OWNED(pkcs11) *other = NULL; /* SoftHSM has a slot for a token to come beside it: the first asked is one or the other */
    struct error err = {0};
    const bool is_found = pkcs11_open(&good, &other, &err).ok;
    assert_true(is_found || strstr(err.message, "there is no token") != NULL);
    pkcs11_free(GIVE(other));
    refuse_nothing();
    softhsm_shell("cp -a $D/tokens $D/before");
    softhsm_make_token("sijil");
    expect_not_opened(&good, ERROR_INVALID, "there are 2 tokens \"sijil\"");
    softhsm_shell("rm -r $D/tokens && mv $D/before $D/tokens");
}

static struct result open_and_close(void *context, struct error *err)
{
    struct pkcs11 *pkcs11 = NULL;

    (void)context;
    TRY_UNTOUCHED_BYTES(pkcs11, pkcs11_open(&good, &pkcs11, err));
    pkcs11_free(pkcs11);
    return SUCCESS;
}

static void memory_that_ends_is_said(void **state)
{
    (void)state;
    refuse_nothing();
    fail_each(open_and_close, NULL, ERROR_NO_MEMORY, 1);
}

/* ---- Keys ---- */

static void keys_are_made_and_destroyed(void **state)
{
    static const uint8_t twice[PKCS11_ID_SIZE] = "twice the same.";
    uint8_t sealed[32 + PKCS11_OVERHEAD];
    struct error err = {0};

    (void)state;
    OWNED(pkcs11) *pkcs11 = open_good();
    softhsm_expect(pkcs11_destroy_key(pkcs11, unknown, &err), &err, ERROR_NOT_FOUND, "the token has no key 6e6f2073");
    refuse("C_GenerateKey", 1, CKR_MECHANISM_INVALID);
    softhsm_expect(pkcs11_make_key(pkcs11, twice, "second", &err), &err, ERROR_UNAVAILABLE, "CKR_MECHANISM_INVALID");
    refuse_nothing();
    assert_true(pkcs11_make_key(pkcs11, twice, "second", &err).ok);
    refuse("C_DestroyObject", 1, CKR_OBJECT_HANDLE_INVALID);
    softhsm_expect(pkcs11_destroy_key(pkcs11, twice, &err), &err, ERROR_UNAVAILABLE,
                   "destruction of a key failed: CKR_OBJECT_HANDLE");
    refuse_nothing();
    assert_true(pkcs11_destroy_key(pkcs11, twice, &err).ok);
    softhsm_expect(pkcs11_destroy_key(pkcs11, twice, &err), &err, ERROR_NOT_FOUND, "no key");
    assert_true(pkcs11_make_key(pkcs11, twice, "second", &err).ok);
    assert_true(pkcs11_make_key(pkcs11, twice, "third", &err).ok);
    const struct pkcs11_box box = {.id = twice};
    softhsm_expect(pkcs11_seal(pkcs11, &box, plain, sealed, &err), &err, ERROR_INVALID, "several keys of one id");
}

static void a_search_that_breaks_off_leaves_the_session_usable(void **state)
{
    static const char *const calls[] = {"C_FindObjectsInit", "C_FindObjects", "C_FindObjectsFinal"};
    struct error err = {0};

    (void)state;
    OWNED(pkcs11) *pkcs11 = open_good();
    for (size_t i = 0; i < COUNT(calls); i++) {
        refuse(calls[i], 1, CKR_SESSION_HANDLE_INVALID);
        softhsm_expect(pkcs11_destroy_key(pkcs11, unknown, &err), &err, ERROR_UNAVAILABLE,
                       "search failed: CKR_SESSION_HANDLE_INVALID");
        pkcs11_free(GIVE(pkcs11)); /* as its caller does: a search that was not ended goes with its session */
        pkcs11 = open_good();
        softhsm_expect(pkcs11_destroy_key(pkcs11, unknown, &err), &err, ERROR_NOT_FOUND, "no key");
    }
}

/* ---- Sealing ---- */

static const struct pkcs11_box box = {.id = id, .associated = {(const uint8_t *)"blob 7", 6}};

static void what_was_sealed_opens_where_it_belongs(void **state)
{
    static const size_t lengths[] = {1, 32, 256};
    uint8_t text[256], sealed[256 + PKCS11_OVERHEAD], opened[256];
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof text; i++) text[i] = (uint8_t)(i * 7);
    OWNED(pkcs11) *pkcs11 = open_good();
    for (size_t i = 0; i < COUNT(lengths); i++) {
        const size_t length = lengths[i] + PKCS11_OVERHEAD;
        if (!pkcs11_seal(pkcs11, &box, (struct bytes){text, lengths[i]}, sealed, &err).ok) fail_msg("%s", err.message);
        if (!pkcs11_unseal(pkcs11, &box, (struct bytes){sealed, length}, opened, &err).ok) fail_msg("%s", err.message);
        assert_memory_equal(opened, text, lengths[i]);
        const struct pkcs11_box other = {.id = id, .associated = {(const uint8_t *)"blob 8", 6}};
        softhsm_expect(pkcs11_unseal(pkcs11, &other, (struct bytes){sealed, length}, opened, &err), &err, ERROR_CORRUPT,
                       "does not belong");
        for (size_t at = 0; at < lengths[i]; at++) assert_int_equal(opened[at], 0);
        for (size_t at = 0; at < length; at += 9) {
            sealed[at] ^= 0x10;
            softhsm_expect(pkcs11_unseal(pkcs11, &box, (struct bytes){sealed, length}, opened, &err), &err, ERROR_CORRUPT,
                           "does not belong");
            sealed[at] ^= 0x10;
        }
    }
    softhsm_expect(pkcs11_seal(pkcs11, &box, (struct bytes){text, 257}, sealed, &err), &err, ERROR_INVALID, "at most 256 bytes");
    softhsm_expect(pkcs11_unseal(pkcs11, &box, (struct bytes){sealed, PKCS11_OVERHEAD}, opened, &err), &err, ERROR_CORRUPT,
                   "wrong length");
    softhsm_expect(pkcs11_unseal(pkcs11, &box, (struct bytes){sealed, 257 + PKCS11_OVERHEAD}, opened, &err), &err, ERROR_CORRUPT,
                   "wrong length");
}

static void what_fails_while_sealing_is_said(void **state)
{
    static const struct {
        const char *function;
        unsigned shorter;
        const char *words;
    } rows[] = {
        {"C_FindObjectsInit", 0, "search failed: CKR_DEVICE_ERROR"},
        {"C_EncryptInit", 0, "encryption failed: CKR_DEVICE_ERROR"},
        {"C_Encrypt", 0, "encryption failed: CKR_DEVICE_ERROR"},
        {"", 1, "the token seals in another form"},
    };
    uint8_t sealed[32 + PKCS11_OVERHEAD];
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        OWNED(pkcs11) *pkcs11 = open_good();
        *plan = (struct pkcs11_shim_plan){
            .function = rows[i].function, .nth = 1, .code = CKR_DEVICE_ERROR, .shorter = rows[i].shorter};
        softhsm_expect(pkcs11_seal(pkcs11, &box, plain, sealed, &err), &err, ERROR_UNAVAILABLE, rows[i].words);
    }
}

/*
 * The blob of a key that is called damaged may be lost. So a short failure of the token is not reported as damage of its input.
 */
static void a_moment_s_failure_is_no_damage(void **state)
{
    static const struct {
        const char *function;
        unsigned shorter;
        const char *words; /* NULL: it opens */
    } rows[] = {
        {"C_FindObjectsInit", 0, "search failed: CKR_DEVICE_ERROR"},
        {"C_DecryptInit", 0, NULL},
        {"C_Decrypt", 0, NULL},
        {"", 1, "the token seals in another form"},
    };
    uint8_t sealed[32 + PKCS11_OVERHEAD], opened[32];
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        OWNED(pkcs11) *pkcs11 = open_good();
        if (!pkcs11_seal(pkcs11, &box, plain, sealed, &err).ok) fail_msg("%s", err.message);
        *plan = (struct pkcs11_shim_plan){
            .function = rows[i].function, .nth = 1, .code = CKR_DEVICE_ERROR, .shorter = rows[i].shorter};
        const struct result result = pkcs11_unseal(pkcs11, &box, (struct bytes){sealed, sizeof sealed}, opened, &err);
        if (rows[i].words != NULL) {
            softhsm_expect(result, &err, ERROR_UNAVAILABLE, rows[i].words);
            continue;
        }
        if (!result.ok) fail_msg("%s: %s", rows[i].function, err.message);
        assert_memory_equal(opened, plain.data, plain.length);
    }
}

/* Its key opens nothing, not even a box that it has just sealed: the token is at fault, and the input is not called damaged. */
static void a_token_that_opens_nothing_is_not_believed(void **state)
{
    uint8_t sealed[32 + PKCS11_OVERHEAD], opened[32];
    struct error err = {0};

    (void)state;
    OWNED(pkcs11) *pkcs11 = open_good();
    if (!pkcs11_seal(pkcs11, &box, plain, sealed, &err).ok) fail_msg("%s", err.message);
    sealed[20] ^= 1;
    refuse("C_DecryptInit", 2, CKR_KEY_HANDLE_INVALID); /* the first is of what was given */
    softhsm_expect(pkcs11_unseal(pkcs11, &box, (struct bytes){sealed, sizeof sealed}, opened, &err), &err, ERROR_UNAVAILABLE,
                   "decryption failed: CKR");
    refuse_nothing();
    sealed[20] ^= 1;
    if (!pkcs11_unseal(pkcs11, &box, (struct bytes){sealed, sizeof sealed}, opened, &err).ok) fail_msg("%s", err.message);
    assert_memory_equal(opened, plain.data, plain.length);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_module_is_refused),
        cmocka_unit_test(what_the_module_refuses_is_named),
        cmocka_unit_test(whoever_is_logged_in_already_may_go_on),
        cmocka_unit_test(a_token_is_found_by_its_whole_label),
        cmocka_unit_test(memory_that_ends_is_said),
        cmocka_unit_test(keys_are_made_and_destroyed),
        cmocka_unit_test(a_search_that_breaks_off_leaves_the_session_usable),
        cmocka_unit_test(what_was_sealed_opens_where_it_belongs),
        cmocka_unit_test(what_fails_while_sealing_is_said),
        cmocka_unit_test(a_moment_s_failure_is_no_damage),
        cmocka_unit_test(a_token_that_opens_nothing_is_not_believed),
    };

    return cmocka_run_group_tests_name("pkcs11", tests, set_up, tear_down);
}
