/* A person's key in a PKCS#11 token, named by a URI: SoftHSM has it, and the shim lets chosen calls fail. */
#include "tests/support/unit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/token_key.h"
#include "tests/support/pkcs11_shim.h"
#include "tests/support/softhsm.h"

#define PIN    SOFTHSM_PIN
#define MODULE "?module-path=" SHIM
#define ALICE  "pkcs11:token=sijil;object=alice" MODULE

static const struct bytes message = {(const uint8_t *)"what is signed", 14};
static struct pkcs11_shim_plan *plan;
static char folder[64];

static void import_key(const char *algorithm, const char *label, unsigned id, const char *more)
{
    char command[512];

    (void)snprintf(
        command, sizeof command,
        "openssl genpkey %s -out $D/%s-%u.pem 2> /dev/null && softhsm2-util --import $D/%s-%u.pem --token sijil --label %s"
        " --id %02u --pin " PIN " %s > /dev/null",
        algorithm, label, id, label, id, label, id, more);
    softhsm_shell(command);
}

static int set_up(void **state)
{
    const char *const p256 = "-algorithm EC -pkeyopt ec_paramgen_curve:P-256",
                      *const p384 = "-algorithm EC -pkeyopt ec_paramgen_curve:P-384";

    (void)state;
    softhsm_begin(folder);
    softhsm_make_token("another");
    import_key(p256, "alice", 1, "");
    import_key("-algorithm RSA -pkeyopt rsa_keygen_bits:2048", "rsa", 2, "");
    import_key(p384, "p384", 3, "");
    import_key(p256, "twin", 4, "");
    import_key(p256, "twin", 5, "");
    import_key(p256, "lonely", 6, "--no-public-key");
    void *shim = dlopen(SHIM, RTLD_NOW | RTLD_LOCAL); /* stays: what it was told would be forgotten */
    assert_non_null(shim);
    plan = dlsym(shim, "pkcs11_shim_plan");
    assert_non_null(plan);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    softhsm_end();
    return 0;
}

/* ---- the PIN ---- */

struct asked {
    const char *pin; /* that is given */
    unsigned times;
    char label[64], source[64];
};

static struct result give_pin(void *context, const char *label, const char *source, struct secret **pin_out, struct error *err)
{
    struct asked *asked = context;

    asked->times++;
    (void)snprintf(asked->label, sizeof asked->label, "%s", label);
    (void)snprintf(asked->source, sizeof asked->source, "%s", source == NULL ? "" : source);
    return secret_copy(bytes_of_text(asked->pin), pin_out, err);
}

static struct result open_key(const char *uri, struct asked *asked, struct ecdsa_key **key_out, struct error *err)
{
    const struct token_key_options options = {.uri = uri, .context = asked, .read_pin = give_pin};

    return token_key_open(&options, key_out, err);
}

static void expect_not_opened(const char *uri, const char *pin, enum error_kind kind, const char *words)
{
    struct asked asked = {.pin = pin};
    struct ecdsa_key *key = NULL;
    struct error err = {0};

    const struct result result = open_key(uri, &asked, &key, &err);
    assert_null(key);
    softhsm_expect(result, &err, kind, words);
    assert_true(asked.times <= 1);
}

static struct ecdsa_key *open_alice(void)
{
    struct asked asked = {.pin = PIN};
    struct ecdsa_key *key = NULL;
    struct error err = {0};

    if (!open_key(ALICE, &asked, &key, &err).ok) fail_msg("%s", err.message);
    return key;
}

/* ---- signing ---- */

static void a_key_signs_in_its_token(void **state)
{
    struct asked asked = {.pin = PIN};
    struct buffer OWNED_BUFFER der = BUFFER(ECDSA_DER_MAX);
    uint8_t jose[ECDSA_JOSE_SIZE], point[ECDSA_PUBLIC_SIZE], expected[ECDSA_PUBLIC_SIZE];
    char path[96];
    OWNED(ecdsa_key) *file = NULL;
    OWNED(ecdsa_key) *key = NULL;
    struct error err = {0};

    (void)state;
    (void)snprintf(path, sizeof path, "%s/alice-1.pem", folder);
    assert_true(ecdsa_key_load(path, &file, &err).ok);
    *plan = (struct pkcs11_shim_plan){0};
    if (!open_key(ALICE "&pin-source=/run/pin", &asked, &key, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(asked.times, 1);
    assert_string_equal(asked.label, "sijil");
    assert_string_equal(asked.source, "/run/pin");
    ecdsa_key_public(file, expected);
    ecdsa_key_public(key, point);
    assert_memory_equal(point, expected, sizeof point);
    assert_true(ecdsa_key_is_private(key));
    for (int i = 0; i < 40; i++) { /* so that r and s have leading zeros, and leading ones */
        der.length = 0;
        if (!ecdsa_sign_der(key, message, &der, &err).ok) fail_msg("%s", err.message);
        assert_true(ecdsa_verify_der(file, message, buffer_bytes(&der)));
    }
    assert_true(ecdsa_sign_jose(key, message, jose, &err).ok);
    assert_true(ecdsa_verify_jose(file, message, (struct bytes){jose, sizeof jose}));
}

static void a_key_that_asks_each_time_is_given_the_pin(void **state)
{
    struct buffer OWNED_BUFFER der = BUFFER(ECDSA_DER_MAX);
    struct error err = {0};

    (void)state;
    *plan = (struct pkcs11_shim_plan){.asks_each_time = 1};
    OWNED(ecdsa_key) *key = open_alice();
    assert_int_equal(plan->times_asked, 0);
    if (!ecdsa_sign_der(key, message, &der, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(plan->times_asked, 1);
}

static void a_signature_that_does_not_fit_is_not_used(void **state)
{
    struct buffer OWNED_BUFFER der = BUFFER(ECDSA_DER_MAX);
    struct error err = {0};

    (void)state;
    *plan = (struct pkcs11_shim_plan){.signs_wrongly = 40};
    OWNED(ecdsa_key) *key = open_alice();
    softhsm_expect(ecdsa_sign_der(key, message, &der, &err), &err, ERROR_CORRUPT, "does not fit the public key");
    assert_int_equal(der.length, 0);
    *plan = (struct pkcs11_shim_plan){.shorter = 1};
    softhsm_expect(ecdsa_sign_der(key, message, &der, &err), &err, ERROR_INVALID, "in another form: 63 bytes");
    *plan = (struct pkcs11_shim_plan){.function = "C_SignInit", .nth = 1, .code = CKR_KEY_FUNCTION_NOT_PERMITTED};
    softhsm_expect(ecdsa_sign_der(key, message, &der, &err), &err, ERROR_INVALID, "signature failed");
    *plan = (struct pkcs11_shim_plan){.function = "C_Sign", .nth = 1, .code = CKR_DEVICE_REMOVED};
    softhsm_expect(ecdsa_sign_der(key, message, &der, &err), &err, ERROR_INVALID, "signature failed");
}

/* ---- what is refused ---- */

static const struct refusal_row {
    const char *name, *uri, *pin;
    enum error_kind kind;
    const char *words;
} refusal_rows[] = {
    {"no URI", "key.pem", PIN, ERROR_INVALID, "no PKCS#11 URI"},
    {"an unknown part", "pkcs11:token=sijil;more=1" MODULE, PIN, ERROR_INVALID, "no PKCS#11 URI"},
    {"the PIN in it", ALICE "&pin-value=" PIN, PIN, ERROR_INVALID, "pin-source=FILE"},
    {"a module by name", "pkcs11:token=sijil?module-path=libsofthsm2.so", PIN, ERROR_INVALID, "absolute"},
    {"a module that is missing", "pkcs11:token=sijil?module-path=/nowhere/module.so", PIN, ERROR_NOT_FOUND, "can't be loaded"},
    {"a file that is no module", "pkcs11:token=sijil?module-path=/etc/passwd", PIN, ERROR_NOT_FOUND, "can't be loaded"},
    {"no such token", "pkcs11:token=nobody;object=alice" MODULE, PIN, ERROR_NOT_FOUND, "no token fits"},
    {"no such slot", "pkcs11:slot-id=77;object=alice" MODULE, PIN, ERROR_NOT_FOUND, "no token fits"},
    {"two tokens", "pkcs11:object=alice" MODULE, PIN, ERROR_INVALID, "2 tokens fit"},
    {"a wrong PIN", ALICE, "000000", ERROR_DENIED, "refuses the PIN; it is not tried again"},
    {"no such key", "pkcs11:token=sijil;object=bob" MODULE, PIN, ERROR_NOT_FOUND, "no private key"},
    {"no such id", "pkcs11:token=sijil;object=alice;id=%07" MODULE, PIN, ERROR_NOT_FOUND, "no private key"},
    {"two keys", "pkcs11:token=sijil;object=twin" MODULE, PIN, ERROR_INVALID, "several private keys"},
    {"all keys", "pkcs11:token=sijil" MODULE, PIN, ERROR_INVALID, "several private keys"},
    {"the public key", "pkcs11:token=sijil;object=alice;type=public" MODULE, PIN, ERROR_INVALID, "type is not private"},
    {"RSA", "pkcs11:token=sijil;object=rsa" MODULE, PIN, ERROR_INVALID, "not an ECDSA key on P-256"},
    {"another curve", "pkcs11:token=sijil;object=p384" MODULE, PIN, ERROR_INVALID, "not an ECDSA key on P-256"},
    {"no public half", "pkcs11:token=sijil;object=lonely" MODULE, PIN, ERROR_NOT_FOUND, "no public key"},
};

static void a_uri_that_names_no_key_is_refused(void **state)
{
    const struct refusal_row *row = *state;

    *plan = (struct pkcs11_shim_plan){0};
    expect_not_opened(row->uri, row->pin, row->kind, row->words);
}

static void one_of_twins_is_named_by_its_id(void **state)
{
    struct asked asked = {.pin = PIN};
    OWNED(ecdsa_key) *key = NULL;
    struct error err = {0};

    (void)state;
    *plan = (struct pkcs11_shim_plan){0};
    if (!open_key("pkcs11:token=sijil;object=twin;id=%05;type=private" MODULE, &asked, &key, &err).ok)
        fail_msg("%s", err.message);
}

static const struct device_row {
    const char *name;
    struct pkcs11_shim_plan plan;
    const char *pin;
    enum error_kind kind;
    const char *words;
} device_rows[] = {
    {"the start fails", {.function = "C_Initialize", .nth = 1, .code = CKR_GENERAL_ERROR}, PIN, ERROR_INVALID, "start failed"},
    {"no list of slots",
     {.function = "C_GetSlotList", .nth = 1, .code = CKR_GENERAL_ERROR},
     PIN,
     ERROR_NOT_FOUND,
     "no token fits"},
    {"no session", {.function = "C_OpenSession", .nth = 1, .code = CKR_DEVICE_REMOVED}, PIN, ERROR_INVALID, "session failed"},
    {"the login fails", {.function = "C_Login", .nth = 1, .code = CKR_DEVICE_ERROR}, PIN, ERROR_INVALID, "login failed"},
    {"no PIN yet", {.function = "C_Login", .nth = 1, .code = CKR_USER_PIN_NOT_INITIALIZED}, PIN, ERROR_DENIED, "no user PIN"},
    {"a PIN that locked itself", {.function = "C_Login", .nth = 1, .code = CKR_PIN_LOCKED}, PIN, ERROR_DENIED, "PIN is locked"},
    {"a PIN that is locked", {.flags = CKF_USER_PIN_LOCKED}, PIN, ERROR_DENIED, "PIN is locked"},
    {"the last try but one", {.flags = CKF_USER_PIN_FINAL_TRY}, "000000", ERROR_DENIED, "one try is left"},
    {"a keypad", {.flags = CKF_PROTECTED_AUTHENTICATION_PATH}, PIN, ERROR_INVALID, "login failed"}, /* SoftHSM has none */
    {"no search", {.function = "C_FindObjectsInit", .nth = 1, .code = CKR_DEVICE_ERROR}, PIN, ERROR_INVALID, "search failed"},
    {"no object", {.function = "C_FindObjects", .nth = 1, .code = CKR_DEVICE_ERROR}, PIN, ERROR_INVALID, "search failed"},
    {"no end", {.function = "C_FindObjectsFinal", .nth = 1, .code = CKR_DEVICE_ERROR}, PIN, ERROR_INVALID, "search failed"},
    {"no second search",
     {.function = "C_FindObjectsInit", .nth = 2, .code = CKR_DEVICE_ERROR},
     PIN,
     ERROR_INVALID,
     "search failed"},
    {"no type", {.function = "C_GetAttributeValue", .nth = 1, .code = CKR_DEVICE_ERROR}, PIN, ERROR_INVALID, "not an ECDSA key"},
    {"no id", {.function = "C_GetAttributeValue", .nth = 4, .code = CKR_DEVICE_ERROR}, PIN, ERROR_NOT_FOUND, "no public key"},
    {"no point", {.function = "C_GetAttributeValue", .nth = 5, .code = CKR_DEVICE_ERROR}, PIN, ERROR_NOT_FOUND, "no public key"},
};

static void what_the_token_refuses_is_named(void **state)
{
    const struct device_row *row = *state;

    *plan = row->plan;
    expect_not_opened(ALICE, row->pin, row->kind, row->words);
}

static struct result each_call(void *context, struct error *err)
{
    struct buffer OWNED_BUFFER der = BUFFER(ECDSA_DER_MAX);
    struct asked asked = {.pin = PIN};
    OWNED(ecdsa_key) *key = NULL;

    (void)context;
    TRY(open_key(ALICE, &asked, &key, err));
    return ecdsa_sign_der(key, message, &der, err);
}

static void our_own_failures(void **state)
{
    (void)state;
    *plan = (struct pkcs11_shim_plan){0};
    fail_each(each_call, NULL, ERROR_NONE, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_signs_in_its_token),
        cmocka_unit_test(a_key_that_asks_each_time_is_given_the_pin),
        cmocka_unit_test(a_signature_that_does_not_fit_is_not_used),
        cmocka_unit_test(one_of_twins_is_named_by_its_id),
        cmocka_unit_test(our_own_failures),
    };
    void *none = NULL;

    if (set_up(&none) != 0) return 1;
    const int failures = RUN_TABLE(refusal_rows, a_uri_that_names_no_key_is_refused) +
                         RUN_TABLE(device_rows, what_the_token_refuses_is_named) +
                         cmocka_run_group_tests_name("keys in a token", tests, NULL, NULL);
    (void)tear_down(&none);
    return failures;
}
