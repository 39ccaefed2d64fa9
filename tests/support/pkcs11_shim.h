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
    unsigned shorter;      /* the number of bytes that the results of C_Encrypt, C_Decrypt and C_Sign lack */
    unsigned char version; /* of the list of functions, if not 0 */
    int has_no_list;
    CK_FLAGS flags;         /* that every token has in addition to its own */
    unsigned signs_wrongly; /* changes this byte of each signature, counted from 1; 0: none */
    int asks_each_time;     /* keys ask for the PIN before each signature, */
    unsigned times_asked;   /* and how often they got it */
};
