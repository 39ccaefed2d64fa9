/*
 * A PKCS#11 module around SoftHSM. It crashes or blocks if a file says so, and fails calls that the test in its process
 * names. A vendor's module may do all of this.
 */
#include "tests/support/pkcs11_shim.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) struct pkcs11_shim_plan pkcs11_shim_plan;
static CK_FUNCTION_LIST list, *real;

static bool is_due(const char *function)
{
    return pkcs11_shim_plan.function != NULL && strcmp(pkcs11_shim_plan.function, function) == 0 && --pkcs11_shim_plan.nth == 0;
}

#define PASS(name, parameters, ...)                      \
    static CK_RV shim_##name parameters                  \
    {                                                    \
        if (is_due(#name)) return pkcs11_shim_plan.code; \
        return real->name(__VA_ARGS__);                  \
    }

PASS(C_Initialize, (void *options), options)
PASS(C_GetSlotList, (CK_BBOOL present, CK_SLOT_ID *slots, CK_ULONG *count), present, slots, count)
PASS(C_OpenSession, (CK_SLOT_ID slot, CK_FLAGS flags, void *application, CK_NOTIFY notify, CK_SESSION_HANDLE *session_out), slot,
     flags, application, notify, session_out)
PASS(C_SignInit, (CK_SESSION_HANDLE session, CK_MECHANISM *how, CK_OBJECT_HANDLE key), session, how, key)
PASS(C_FindObjectsInit, (CK_SESSION_HANDLE session, CK_ATTRIBUTE *wanted, CK_ULONG count), session, wanted, count)
PASS(C_FindObjects, (CK_SESSION_HANDLE session, CK_OBJECT_HANDLE *found, CK_ULONG room, CK_ULONG *count), session, found, room,
     count)
PASS(C_FindObjectsFinal, (CK_SESSION_HANDLE session), session)
PASS(C_GenerateKey,
     (CK_SESSION_HANDLE session, CK_MECHANISM *how, CK_ATTRIBUTE *wanted, CK_ULONG count, CK_OBJECT_HANDLE *key_out), session,
     how, wanted, count, key_out)
PASS(C_DestroyObject, (CK_SESSION_HANDLE session, CK_OBJECT_HANDLE key), session, key)
PASS(C_EncryptInit, (CK_SESSION_HANDLE session, CK_MECHANISM *how, CK_OBJECT_HANDLE key), session, how, key)

static CK_RV shim_C_GetTokenInfo(CK_SLOT_ID slot, CK_TOKEN_INFO *about)
{
    if (is_due("C_GetTokenInfo")) return pkcs11_shim_plan.code;
    const CK_RV code = real->C_GetTokenInfo(slot, about);
    about->flags |= pkcs11_shim_plan.flags;
    return code;
}

/* SoftHSM has no key that asks for the PIN again, so this function acts as one. */
static CK_RV shim_C_Login(CK_SESSION_HANDLE session, CK_USER_TYPE user, CK_BYTE *pin, CK_ULONG length)
{
    if (is_due("C_Login")) return pkcs11_shim_plan.code;
    if (user != CKU_CONTEXT_SPECIFIC) return real->C_Login(session, user, pin, length);
    pkcs11_shim_plan.times_asked++;
    return pin == NULL || length == 0 ? CKR_PIN_INCORRECT : CKR_OK;
}

static CK_RV shim_C_GetAttributeValue(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE object, CK_ATTRIBUTE *wanted, CK_ULONG count)
{
    if (is_due("C_GetAttributeValue")) return pkcs11_shim_plan.code;
    const CK_RV code = real->C_GetAttributeValue(session, object, wanted, count);
    if (pkcs11_shim_plan.asks_each_time && count == 1 && wanted->type == CKA_ALWAYS_AUTHENTICATE)
        *(CK_BBOOL *)wanted->pValue = CK_TRUE;
    return code;
}

static CK_RV shim_C_Sign(CK_SESSION_HANDLE session, CK_BYTE *in, CK_ULONG length, CK_BYTE *out, CK_ULONG *made)
{
    const CK_RV code = real->C_Sign(session, in, length, out, made);

    if (is_due("C_Sign")) return pkcs11_shim_plan.code;
    if (code == CKR_OK && pkcs11_shim_plan.signs_wrongly > 0) out[pkcs11_shim_plan.signs_wrongly - 1] ^= 1;
    if (code == CKR_OK) *made -= pkcs11_shim_plan.shorter;
    return code;
}

static CK_RV shim_C_Encrypt(CK_SESSION_HANDLE session, CK_BYTE *in, CK_ULONG length, CK_BYTE *out, CK_ULONG *made)
{
    const CK_RV code = real->C_Encrypt(session, in, length, out, made); /* ends the operation, with success or not */

    if (is_due("C_Encrypt")) return pkcs11_shim_plan.code;
    if (code == CKR_OK) *made -= pkcs11_shim_plan.shorter;
    return code;
}

static CK_RV shim_C_DecryptInit(CK_SESSION_HANDLE session, CK_MECHANISM *how, CK_OBJECT_HANDLE key)
{
    const char *path = getenv("PKCS11_SHIM");
    char what = ' ';

    if (is_due("C_DecryptInit")) return pkcs11_shim_plan.code;
    const int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0 && read(file, &what, 1) == 1 && what == 'c') abort();
    while (what == 'b') (void)pause();
    if (what == 's') return CKR_SESSION_HANDLE_INVALID;
    if (file >= 0) (void)close(file);
    return real->C_DecryptInit(session, how, key);
}

static CK_RV shim_C_Decrypt(CK_SESSION_HANDLE session, CK_BYTE *in, CK_ULONG length, CK_BYTE *out, CK_ULONG *made)
{
    const CK_RV code = real->C_Decrypt(session, in, length, out, made);

    if (is_due("C_Decrypt")) return pkcs11_shim_plan.code;
    if (code == CKR_OK) *made -= pkcs11_shim_plan.shorter;
    return code;
}

static void put_ours_in(void)
{
    list.C_Initialize = shim_C_Initialize;
    list.C_GetSlotList = shim_C_GetSlotList;
    list.C_GetTokenInfo = shim_C_GetTokenInfo;
    list.C_OpenSession = shim_C_OpenSession;
    list.C_Login = shim_C_Login;
    list.C_GetAttributeValue = shim_C_GetAttributeValue;
    list.C_SignInit = shim_C_SignInit;
    list.C_Sign = shim_C_Sign;
    list.C_FindObjectsInit = shim_C_FindObjectsInit;
    list.C_FindObjects = shim_C_FindObjects;
    list.C_FindObjectsFinal = shim_C_FindObjectsFinal;
    list.C_GenerateKey = shim_C_GenerateKey;
    list.C_DestroyObject = shim_C_DestroyObject;
    list.C_EncryptInit = shim_C_EncryptInit;
    list.C_Encrypt = shim_C_Encrypt;
    list.C_DecryptInit = shim_C_DecryptInit;
    list.C_Decrypt = shim_C_Decrypt;
}

__attribute__((visibility("default"))) CK_RV C_GetFunctionList(CK_FUNCTION_LIST **list_out)
{
    CK_C_GetFunctionList get = NULL;
    void *library = dlopen(SOFTHSM, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) return CKR_GENERAL_ERROR;
    *(void **)&get = dlsym(library, "C_GetFunctionList");
    if (get == NULL || get(&real) != CKR_OK) return CKR_GENERAL_ERROR;
    list = *real;
    put_ours_in();
    if (pkcs11_shim_plan.version != 0) list.version.major = pkcs11_shim_plan.version;
    *list_out = pkcs11_shim_plan.has_no_list ? NULL : &list;
    return is_due("C_GetFunctionList") ? pkcs11_shim_plan.code : CKR_OK;
}
