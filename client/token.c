#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "client/token_key_priv.h"

#define SLOTS_MAX 64

struct result token_refused(struct error *err, const char *what, CK_RV code)
{
    return failure(err, ERROR_INVALID, "the token's %s failed: %.100s (0x%lx)", what, p11_kit_strerror(code),
                   (unsigned long)code);
}

/* ---- the URI, and its module ---- */

static struct result read_uri(struct token *token, const char *text, struct error *err)
{
    token->uri = p11_kit_uri_new();
    if (token->uri == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a PKCS#11 URI");
    const int status = p11_kit_uri_parse(text, P11_KIT_URI_FOR_ANY, token->uri);
    if (status != P11_KIT_URI_OK || p11_kit_uri_any_unrecognized(token->uri) != 0)
        return failure(
            err, ERROR_INVALID,
            "this is no PKCS#11 URI (RFC 7512), such as 'pkcs11:token=card;object=key?module-path=/usr/lib/module.so'");
    if (p11_kit_uri_get_pin_value(token->uri) != NULL)
        return failure(
            err, ERROR_INVALID,
            "the URI has the PIN itself, and every user of this machine can read a command line: give pin-source=FILE, or nothing");
    return SUCCESS;
}

static struct result load_named(struct token *token, const char *path, struct error *err)
{
    if (path[0] != '/') return failure(err, ERROR_INVALID, "module-path is an absolute path");
    token->named = p11_kit_module_load(path, 0);
    if (token->named == NULL)
        return failure(err, ERROR_NOT_FOUND, "the PKCS#11 module %.150s can't be loaded: is its package installed?", path);
    const CK_RV code = p11_kit_module_initialize(token->named);
    if (code != CKR_OK) return token_refused(err, "start", code);
    token->is_initialized = true;
    return SUCCESS;
}

static struct result load(struct token *token, struct error *err)
{
    const char *path = p11_kit_uri_get_module_path(token->uri);

    p11_kit_be_quiet(); /* it would write to standard error */
    if (path != NULL) return load_named(token, path, err);
    token->others = p11_kit_modules_load_and_initialize(0);
    if (token->others != NULL && token->others[0] != NULL) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "p11-kit knows no PKCS#11 module: add module-path=FILE to the URI");
}

/* ---- the token ---- */

static bool fits(const struct token *token, CK_SLOT_ID slot, CK_TOKEN_INFO *about)
{
    const CK_SLOT_ID wanted = p11_kit_uri_get_slot_id(token->uri);

    return (wanted == (CK_SLOT_ID)-1 || wanted == slot) && (about->flags & CKF_TOKEN_INITIALIZED) != 0 &&
           p11_kit_uri_match_token_info(token->uri, about) == 1;
}

/* Counts the module's tokens that fit, and keeps the last. */
static void look_in(struct token *token, CK_FUNCTION_LIST *module, size_t *count)
{
    CK_SLOT_ID slots[SLOTS_MAX];
    CK_ULONG slot_count = SLOTS_MAX;

    if (module->C_GetSlotList(CK_TRUE, slots, &slot_count) != CKR_OK) return; /* other modules may have the token */
    for (CK_ULONG i = 0; i < slot_count; i++) {
        CK_TOKEN_INFO about;
        if (module->C_GetTokenInfo(slots[i], &about) != CKR_OK || !fits(token, slots[i], &about)) continue;
        token->module = module;
        token->slot = slots[i];
        token->about = about;
        ++*count;
    }
}

static struct result find_token(struct token *token, struct error *err)
{
    size_t count = 0;

    if (token->named != NULL) look_in(token, token->named, &count);
    for (size_t i = 0; token->others != NULL && token->others[i] != NULL; i++) look_in(token, token->others[i], &count);
    if (count == 1) return SUCCESS;
    if (count == 0)
        return failure(err, ERROR_NOT_FOUND, "no token fits the URI: is it connected, and are token= and serial= right?");
    return failure(err, ERROR_INVALID, "%zu tokens fit the URI: name one with token= or serial=", count);
}

/* ---- the PIN ---- */

/* Asks for the PIN of the token with this label. Labels are padded with spaces. */
static struct result read_pin(struct token *token, const struct token_key_options *options, struct error *err)
{
    char label[sizeof token->about.label + 1];
    size_t length = sizeof token->about.label;

    while (length > 0 && token->about.label[length - 1] == ' ') length--;
    memcpy(label, token->about.label, length);
    label[length] = '\0';
    return options->read_pin(options->context, label, p11_kit_uri_get_pin_source(token->uri), &token->pin, err);
}

/* The token does not tell how many tries are left, only that there are few. */
static struct result wrong_pin(struct token *token, struct error *err)
{
    CK_TOKEN_INFO now = {.flags = 0};
    const bool is_known = token->module->C_GetTokenInfo(token->slot, &now) == CKR_OK;

    if (is_known && (now.flags & CKF_USER_PIN_LOCKED) != 0)
        return failure(err, ERROR_DENIED, "the token refuses the PIN, and has locked itself: its security officer must reset it");
    return failure(err, ERROR_DENIED,
                   "the token refuses the PIN; it is not tried again, because the token counts wrong PINs and locks itself%s",
                   is_known && (now.flags & CKF_USER_PIN_FINAL_TRY) != 0 ? ": one try is left" : "");
}

struct result token_log_in(struct token *token, CK_USER_TYPE user, struct error *err)
{
    CK_UTF8CHAR *pin = token->pin == NULL ? NULL : token->pin->bytes;
    const CK_RV code = token->module->C_Login(token->session, user, pin, token->pin == NULL ? 0 : token->pin->length);

    if (code == CKR_OK || code == CKR_USER_ALREADY_LOGGED_IN) return SUCCESS;
    if (code == CKR_PIN_INCORRECT || code == CKR_PIN_LEN_RANGE || code == CKR_PIN_INVALID) return wrong_pin(token, err);
    if (code == CKR_PIN_LOCKED)
        return failure(err, ERROR_DENIED, "the token's PIN is locked: its security officer must reset it");
    if (code == CKR_USER_PIN_NOT_INITIALIZED) return failure(err, ERROR_DENIED, "the token has no user PIN yet");
    return token_refused(err, "login", code);
}

static struct result log_in(struct token *token, const struct token_key_options *options, struct error *err)
{
    const CK_FLAGS flags = token->about.flags;

    if ((flags & CKF_LOGIN_REQUIRED) == 0) return SUCCESS;
    if ((flags & CKF_USER_PIN_LOCKED) != 0)
        return failure(err, ERROR_DENIED, "the token's PIN is locked: its security officer must reset it");
    if ((flags & CKF_PROTECTED_AUTHENTICATION_PATH) == 0) TRY(read_pin(token, options, err));
    return token_log_in(token, CKU_USER, err);
}

struct result token_open(const struct token_key_options *options, struct token **token_out, struct error *err)
{
    OWNED(token) *token = memory_zeroed(1, sizeof *token);

    if (token == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a token");
    TRY(read_uri(token, options->uri, err));
    TRY(load(token, err));
    TRY(find_token(token, err));
    const CK_RV code = token->module->C_OpenSession(token->slot, CKF_SERIAL_SESSION, NULL, NULL, &token->session);
    if (code != CKR_OK) return token_refused(err, "session", code);
    token->has_session = true;
    TRY(log_in(token, options, err));
    *token_out = GIVE(token);
    return SUCCESS;
}

void token_free(struct token *token)
{
    if (token == NULL) return;
    if (token->has_session) (void)token->module->C_CloseSession(token->session);
    if (token->is_initialized) (void)p11_kit_module_finalize(token->named);
    if (token->named != NULL) p11_kit_module_release(token->named);
    if (token->others != NULL) p11_kit_modules_finalize_and_release(token->others);
    p11_kit_uri_free(token->uri);
    secret_free(token->pin);
    free(token);
}
