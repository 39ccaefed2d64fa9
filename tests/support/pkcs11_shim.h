/*
 * tests/support/pkcs11_shim.h -- the plan in which the tests' PKCS#11 module differs from SoftHSM. A test in the same process
 * finds `pkcs11_shim_plan` with dlsym().
 */
#pragma once

#include <p11-kit/pkcs11.h>

struct pkcs11_shim_plan {
    const char *function; /* its n-th call answers `code`; NULL: none */
    CK_RV code;
    unsigned nth;          /* from 1; counts down */
    unsigned shorter;      /* by so many bytes the results of C_Encrypt and C_Decrypt are too short */
    unsigned char version; /* of the list of functions, if not 0 */
    int has_no_list;
};
