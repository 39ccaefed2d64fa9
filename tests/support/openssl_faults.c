/*
 * Makes calls of OpenSSL and libsodium fail on demand. The linker redirects each of our calls to this file;
 * tests/unit/CMakeLists.txt reads the list in tests/support/openssl_faults.def too. The n-th call of base/fault.h fails.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sodium.h>

#include "base/fault.h"

#define TAKE_1(a)                      a a_
#define TAKE_2(a, b)                   a a_, b b_
#define TAKE_3(a, b, c)                TAKE_2(a, b), c c_
#define TAKE_4(a, b, c, d)             TAKE_3(a, b, c), d d_
#define TAKE_5(a, b, c, d, e)          TAKE_4(a, b, c, d), e e_
#define TAKE_6(a, b, c, d, e, f)       TAKE_5(a, b, c, d, e), f f_
#define TAKE_7(a, b, c, d, e, f, g)    TAKE_6(a, b, c, d, e, f), g g_
#define TAKE_8(a, b, c, d, e, f, g, h) TAKE_7(a, b, c, d, e, f, g), h h_
#define TAKE_0(none)                   none
#define GIVE_0
#define GIVE_1 a_
#define GIVE_2 a_, b_
#define GIVE_3 GIVE_2, c_
#define GIVE_4 GIVE_3, d_
#define GIVE_5 GIVE_4, e_
#define GIVE_6 GIVE_5, f_
#define GIVE_7 GIVE_6, g_
#define GIVE_8 GIVE_7, h_

#define X(type, name, failed, count, ...)                                           \
    type __real_##name(__VA_ARGS__);                                                \
    type __wrap_##name(TAKE_##count(__VA_ARGS__));                                  \
    type __wrap_##name(TAKE_##count(__VA_ARGS__))                                   \
    {                                                                               \
        return fault_is_due(FAULT_MEMORY) ? (failed) : __real_##name(GIVE_##count); \
    }                                                                               \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&__wrap_##name), __typeof__(&name)), #name);
#include "tests/support/openssl_faults.def"
