#include "crypto/pkcs11.h"

#include <dlfcn.h>
#include <p11-kit/pkcs11.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "crypto/random.h"
#include "crypto/secret.h"

enum { SLOTS_MAX = 64, KEY_BYTES = 32, PLAIN_MAX = 256 /* a wrapped key holds 32 */ };

struct pkcs11 {
    void *library;
    CK_FUNCTION_LIST *call;
    bool is_initialized, has_session;
    CK_SESSION_HANDLE session;
};

static const struct {
    CK_RV code;
    const char *name;
} names[] = {
    {CKR_PIN_INCORRECT, "PIN_INCORRECT"},
    {CKR_PIN_LOCKED, "PIN_LOCKED"},
    {CKR_DEVICE_ERROR, "DEVICE_ERROR"},
    {CKR_DEVICE_REMOVED, "DEVICE_REMOVED"},
    {CKR_TOKEN_NOT_PRESENT, "TOKEN_NOT_PRESENT"},
    {CKR_SESSION_HANDLE_INVALID, "SESSION_HANDLE_INVALID"},
    {CKR_SESSION_CLOSED, "SESSION_CLOSED"},
    {CKR_USER_NOT_LOGGED_IN, "USER_NOT_LOGGED_IN"},
    {CKR_KEY_HANDLE_INVALID, "KEY_HANDLE_INVALID"},
    {CKR_OBJECT_HANDLE_INVALID, "OBJECT_HANDLE_INVALID"},
    {CKR_MECHANISM_INVALID, "MECHANISM_INVALID"},
    {CKR_GENERAL_ERROR, "GENERAL_ERROR"},
};

static struct result refused(struct error *err, const char *what, CK_RV code)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].code == code) return failure(err, ERROR_UNAVAILABLE, "the token's %s failed: CKR_%s", what, names[i].name);
    return failure(err, ERROR_UNAVAILABLE, "the token's %s failed: CKR 0x%lx", what, (unsigned long)code);
}

#define CALL(what, function, ...)                                \
    do {                                                         \
        const CK_RV code_ = pkcs11->call->function(__VA_ARGS__); \
        if (code_ != CKR_OK) return refused(err, what, code_);   \
    } while (0)

/* ---- Opening ---- */

static struct result load(struct pkcs11 *pkcs11, const char *path, struct error *err)
{
    CK_C_GetFunctionList get = NULL;

    pkcs11->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (pkcs11->library == NULL) return failure(err, ERROR_NOT_FOUND, "the PKCS#11 module can't be loaded: %s", dlerror());
    *(void **)&get = dlsym(pkcs11->library, "C_GetFunctionList"); /* this cast is POSIX's way to get a function */
    if (get == NULL) return failure(err, ERROR_INVALID, "%.180s is no PKCS#11 module", path);
    if (get(&pkcs11->call) != CKR_OK || pkcs11->call == NULL || pkcs11->call->version.major != 2)
        return failure(err, ERROR_INVALID, "%.180s is no PKCS#11 module of version 2", path);
    CALL("start", C_Initialize, NULL);
    pkcs11->is_initialized = true;
    return SUCCESS;
}

/* Labels are padded with spaces to 32 characters. */
static bool has_label(const CK_TOKEN_INFO *token, const char *label)
{
    const size_t length = strlen(label);

    if (length == 0 || length > sizeof token->label || memcmp(token->label, label, length) != 0) return false;
    for (size_t i = length; i < sizeof token->label; i++)
        if (token->label[i] != ' ') return false;
    return (token->flags & CKF_TOKEN_INITIALIZED) != 0;
}

static struct result find_token(struct pkcs11 *pkcs11, const char *label, CK_SLOT_ID *slot_out, struct error *err)
{
    CK_SLOT_ID slots[SLOTS_MAX];
    CK_ULONG count = SLOTS_MAX;
    CK_SLOT_ID slot = 0;
    size_t found = 0;

    CALL("list of slots", C_GetSlotList, CK_TRUE, slots, &count);
    for (CK_ULONG i = 0; i < count; i++) {
        CK_TOKEN_INFO token;
        if (pkcs11->call->C_GetTokenInfo(slots[i], &token) != CKR_OK || !has_label(&token, label)) continue;
        slot = slots[i];
        found++;
    }
    if (found == 0)
        return failure(err, ERROR_NOT_FOUND, "there is no token \"%.32s\": is it connected, and its label right?", label);
    if (found > 1) return failure(err, ERROR_INVALID, "there are %zu tokens \"%.32s\": their labels must differ", found, label);
    *slot_out = slot;
    return SUCCESS;
}

static struct result log_in(struct pkcs11 *pkcs11, struct bytes pin, struct error *err)
{
    /* the module only reads the PIN */
    const CK_RV code = pkcs11->call->C_Login(pkcs11->session, CKU_USER, (CK_UTF8CHAR *)(uintptr_t)pin.data, pin.length);

    if (code == CKR_OK || code == CKR_USER_ALREADY_LOGGED_IN) return SUCCESS;
    if (code == CKR_PIN_INCORRECT || code == CKR_PIN_LEN_RANGE || code == CKR_PIN_INVALID)
        return failure(err, ERROR_DENIED, "the token refuses the PIN; it is not tried again, because tokens lock themselves");
    if (code == CKR_PIN_LOCKED)
        return failure(err, ERROR_DENIED, "the token's PIN is locked: its security officer must reset it");
    if (code == CKR_USER_PIN_NOT_INITIALIZED) return failure(err, ERROR_DENIED, "the token has no user PIN yet");
    return refused(err, "login", code);
}

struct result pkcs11_open(const struct pkcs11_options *options, struct pkcs11 **pkcs11_out, struct error *err)
{
    OWNED(pkcs11) *pkcs11 = memory_zeroed(1, sizeof *pkcs11);
    CK_SLOT_ID slot = 0;

    if (pkcs11 == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a token");
    TRY(load(pkcs11, options->module, err));
    TRY(find_token(pkcs11, options->token, &slot, err));
    CALL("session", C_OpenSession, slot, CKF_SERIAL_SESSION | CKF_RW_SESSION, NULL, NULL, &pkcs11->session);
    pkcs11->has_session = true;
    TRY(log_in(pkcs11, options->pin, err));
    *pkcs11_out = GIVE(pkcs11);
    return SUCCESS;
}

void pkcs11_free(struct pkcs11 *pkcs11)
{
    if (pkcs11 == NULL) return;
    if (pkcs11->has_session) (void)pkcs11->call->C_CloseSession(pkcs11->session);
    if (pkcs11->is_initialized) (void)pkcs11->call->C_Finalize(NULL);
    if (pkcs11->library != NULL) (void)dlclose(pkcs11->library);
    free(pkcs11);
}

/* ---- Keys ---- */

static struct result find_key(struct pkcs11 *pkcs11, const uint8_t id[PKCS11_ID_SIZE], CK_OBJECT_HANDLE *key_out,
                              struct error *err)
{
    CK_OBJECT_CLASS class = CKO_SECRET_KEY;
    uint8_t wanted[PKCS11_ID_SIZE];
    CK_ATTRIBUTE template[] = {{CKA_CLASS, &class, sizeof class}, {CKA_ID, wanted, sizeof wanted}};
    CK_OBJECT_HANDLE found[2];
    CK_ULONG count = 0;

    memcpy(wanted, id, sizeof wanted);
    CALL("search", C_FindObjectsInit, pkcs11->session, template, 2);
    const CK_RV code = pkcs11->call->C_FindObjects(pkcs11->session, found, 2, &count);
    const CK_RV ended = pkcs11->call->C_FindObjectsFinal(pkcs11->session);
    if (code != CKR_OK || ended != CKR_OK) return refused(err, "search", code != CKR_OK ? code : ended);
    if (count == 0) return failure(err, ERROR_NOT_FOUND, "the token has no key %02x%02x%02x%02x...", id[0], id[1], id[2], id[3]);
    if (count > 1) return failure(err, ERROR_INVALID, "the token has several keys of one id");
    *key_out = found[0];
    return SUCCESS;
}

struct result pkcs11_make_key(struct pkcs11 *pkcs11, const uint8_t id[PKCS11_ID_SIZE], const char *label, struct error *err)
{
    CK_BBOOL yes = CK_TRUE, no = CK_FALSE;
    CK_ULONG size = KEY_BYTES;
    uint8_t name[PKCS11_ID_SIZE];
    char text[64]; /* "sijil key-encryption key v4294967295" */
    CK_MECHANISM mechanism = {CKM_AES_KEY_GEN, NULL, 0};
    CK_OBJECT_HANDLE key = 0;

    memcpy(name, id, sizeof name);
    (void)snprintf(text, sizeof text, "%s", label);
    CK_ATTRIBUTE template[] = {
        {CKA_TOKEN, &yes, sizeof yes},     {CKA_PRIVATE, &yes, sizeof yes}, {CKA_SENSITIVE, &yes, sizeof yes},
        {CKA_EXTRACTABLE, &no, sizeof no}, {CKA_ENCRYPT, &yes, sizeof yes}, {CKA_DECRYPT, &yes, sizeof yes},
        {CKA_WRAP, &no, sizeof no},        {CKA_UNWRAP, &no, sizeof no},    {CKA_VALUE_LEN, &size, sizeof size},
        {CKA_ID, name, sizeof name},       {CKA_LABEL, text, strlen(text)},
    };
    CALL("generation of a key", C_GenerateKey, pkcs11->session, &mechanism, template, sizeof template / sizeof template[0], &key);
    return SUCCESS;
}

struct result pkcs11_destroy_key(struct pkcs11 *pkcs11, const uint8_t id[PKCS11_ID_SIZE], struct error *err)
{
    CK_OBJECT_HANDLE key = 0;

    TRY(find_key(pkcs11, id, &key, err));
    CALL("destruction of a key", C_DestroyObject, pkcs11->session, key);
    return SUCCESS;
}

/* ---- Sealing ---- */

static CK_GCM_PARAMS parameters(uint8_t iv[PKCS11_IV_SIZE], struct bytes associated)
{
    return (CK_GCM_PARAMS){.pIv = iv,
                           .ulIvLen = PKCS11_IV_SIZE,
                           .ulIvBits = 8 * PKCS11_IV_SIZE,
                           .pAAD = (CK_BYTE *)(uintptr_t)associated.data, /* the module only reads it */
                           .ulAADLen = associated.length,
                           .ulTagBits = 8 * PKCS11_TAG_SIZE};
}

/* Some tokens draw the nonce themselves and write it over ours, so it is copied afterwards. */
struct result pkcs11_seal(struct pkcs11 *pkcs11, const struct pkcs11_box *box, struct bytes plain, uint8_t *sealed_out,
                          struct error *err)
{
    uint8_t iv[PKCS11_IV_SIZE], out[PLAIN_MAX + PKCS11_TAG_SIZE];
    CK_GCM_PARAMS gcm = parameters(iv, box->associated);
    CK_MECHANISM mechanism = {CKM_AES_GCM, &gcm, sizeof gcm};
    CK_OBJECT_HANDLE key = 0;
    CK_ULONG length = sizeof out;

    if (plain.length > PLAIN_MAX) return failure(err, ERROR_INVALID, "a token seals at most %d bytes here", PLAIN_MAX);
    random_bytes(iv, sizeof iv);
    TRY(find_key(pkcs11, box->id, &key, err));
    CALL("encryption", C_EncryptInit, pkcs11->session, &mechanism, key);
    CALL("encryption", C_Encrypt, pkcs11->session, (CK_BYTE *)(uintptr_t)plain.data, plain.length, out, &length);
    if (length != plain.length + PKCS11_TAG_SIZE) return failure(err, ERROR_UNAVAILABLE, "the token seals in another form");
    memcpy(sealed_out, iv, sizeof iv);
    memcpy(sealed_out + sizeof iv, out, length);
    return SUCCESS;
}

static CK_RV decrypt(struct pkcs11 *pkcs11, CK_OBJECT_HANDLE key, const struct pkcs11_box *box, struct bytes sealed,
                     uint8_t out[PLAIN_MAX + PKCS11_TAG_SIZE], CK_ULONG *length)
{
    uint8_t iv[PKCS11_IV_SIZE];
    CK_GCM_PARAMS gcm = parameters(iv, box->associated);
    CK_MECHANISM mechanism = {CKM_AES_GCM, &gcm, sizeof gcm};

    memcpy(iv, sealed.data, sizeof iv);
    const CK_RV code = pkcs11->call->C_DecryptInit(pkcs11->session, &mechanism, key);
    if (code != CKR_OK) return code;
    return pkcs11->call->C_Decrypt(pkcs11->session, (CK_BYTE *)(uintptr_t)sealed.data + PKCS11_IV_SIZE,
                                   sealed.length - PKCS11_IV_SIZE, out, length);
}

/* CKR_OK only if the module returned the right number of bytes; they are then in `plain_out`. */
static CK_RV open_box(struct pkcs11 *pkcs11, CK_OBJECT_HANDLE key, const struct pkcs11_box *box, struct bytes sealed,
                      uint8_t *plain_out)
{
    uint8_t out[PLAIN_MAX + PKCS11_TAG_SIZE]; /* some modules demand room for the tag */
    CK_ULONG length = sizeof out;

    CK_RV code = decrypt(pkcs11, key, box, sealed, out, &length);
    if (code == CKR_OK && length != sealed.length - PKCS11_OVERHEAD) code = CKR_ENCRYPTED_DATA_LEN_RANGE;
    if (code == CKR_OK) memcpy(plain_out, out, length);
    secret_wipe(out, sizeof out);
    return code;
}

/* Checks whether the key can open a box that it seals now. If not, a failure to open another box proves nothing. */
static struct result probe(struct pkcs11 *pkcs11, CK_OBJECT_HANDLE key, const struct pkcs11_box *box, CK_RV said,
                           struct error *err)
{
    static const uint8_t nothing[KEY_BYTES];
    uint8_t sealed[KEY_BYTES + PKCS11_OVERHEAD], out[KEY_BYTES];

    TRY(pkcs11_seal(pkcs11, box, (struct bytes){nothing, sizeof nothing}, sealed, err));
    if (open_box(pkcs11, key, box, (struct bytes){sealed, sizeof sealed}, out) != CKR_OK) return refused(err, "decryption", said);
    return SUCCESS;
}

/*
 * Modules return different codes for a wrong tag, and a token may fail for a moment. So the wrapped key is called corrupt
 * only if the key opens a box that it seals now, and then still does not open this one.
 */
struct result pkcs11_unseal(struct pkcs11 *pkcs11, const struct pkcs11_box *box, struct bytes sealed, uint8_t *plain_out,
                            struct error *err)
{
    CK_OBJECT_HANDLE key = 0;

    if (sealed.length <= PKCS11_OVERHEAD || sealed.length > PLAIN_MAX + PKCS11_OVERHEAD)
        return failure(err, ERROR_CORRUPT, "a wrapped key of the wrong length");
    memset(plain_out, 0, sealed.length - PKCS11_OVERHEAD);
    TRY(find_key(pkcs11, box->id, &key, err));
    const CK_RV said = open_box(pkcs11, key, box, sealed, plain_out);
    if (said == CKR_OK) return SUCCESS;
    TRY(probe(pkcs11, key, box, said, err));
    if (open_box(pkcs11, key, box, sealed, plain_out) == CKR_OK) return SUCCESS;
    return failure(err, ERROR_CORRUPT, "a wrapped key does not belong to this blob, project and region");
}
