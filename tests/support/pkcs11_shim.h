/*
 * tests/support/pkcs11_shim.h -- what the PKCS#11 module of the tests does otherwise than SoftHSM, for a test in the same
 * process: it finds `pkcs11_shim_plan` with dlsym().
 */
#pragma once

#include <p11-kit/pkcs11.h>

struct pkcs11_shim_plan {
    const char *function; /* its n-th call answers `code`; NULL: none */
    CK_RV code;
    unsigned nth;         /* from 1; counts down */
    unsigned shorter;     /* bytes that C_Encrypt and C_Decrypt keep back of what they made */
    unsigned char version; /* of the list of functions, if not 0 */
    int has_no_list;
};
