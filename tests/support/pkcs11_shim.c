/* A PKCS#11 module around SoftHSM that crashes or blocks when a file says so: what a vendor's module may do any day. */
#include <dlfcn.h>
#include <fcntl.h>
#include <p11-kit/pkcs11.h>
#include <stdlib.h>
#include <unistd.h>

static CK_FUNCTION_LIST list;
static CK_RV (*real_decrypt_init)(CK_SESSION_HANDLE, CK_MECHANISM *, CK_OBJECT_HANDLE);

static CK_RV decrypt_init(CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, CK_OBJECT_HANDLE key)
{
    const char *path = getenv("PKCS11_SHIM");
    char what = ' ';

    const int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0 && read(file, &what, 1) == 1 && what == 'c') abort();
    while (what == 'b') (void)pause();
    if (what == 's') return CKR_SESSION_HANDLE_INVALID;
    if (file >= 0) (void)close(file);
    return real_decrypt_init(session, mechanism, key);
}

__attribute__((visibility("default"))) CK_RV C_GetFunctionList(CK_FUNCTION_LIST **list_out)
{
    CK_FUNCTION_LIST *real = NULL;
    CK_C_GetFunctionList get = NULL;
    void *library = dlopen(SOFTHSM, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) return CKR_GENERAL_ERROR;
    *(void **)&get = dlsym(library, "C_GetFunctionList");
    if (get == NULL || get(&real) != CKR_OK) return CKR_GENERAL_ERROR;
    list = *real;
    real_decrypt_init = real->C_DecryptInit;
    list.C_DecryptInit = decrypt_init;
    *list_out = &list;
    return CKR_OK;
}
