/*
 * keyd/hsm_priv.h -- the messages between keyd and the workers of a token. One packet each way.
 *
 * request  u64 number | u8 operation | key id[16] | u16 length of the associated data | associated data | data
 * reply    u64 number | u8 0 or an error's kind | data or message
 */
#pragma once

#include "keyd/hsm.h"

enum hsm_operation { HSM_CHECK = 1, HSM_MAKE, HSM_DESTROY, HSM_SEAL, HSM_UNSEAL };

#define HSM_HEADER_SIZE  (8 + 1 + PKCS11_ID_SIZE + 2)
#define HSM_DATA_MAX     128
#define HSM_MESSAGE_MAX  (HSM_HEADER_SIZE + HSM_ASSOCIATED_MAX + HSM_DATA_MAX)
#define HSM_REPLY_HEADER 9
#define HSM_REPLY_MAX    (HSM_REPLY_HEADER + 256) /* an error's message */

/** The state of supervisor and workers. All of them share `pin_refused`. */
struct hsm_worker {
    struct hsm_options options;
    struct bytes pin;
    volatile int *pin_refused;
};
/** Serves one socket until its other end is closed. Never returns. */
_Noreturn void hsm_worker_run(const struct hsm_worker *worker, int socket);
/** Keeps a worker running on each of the sockets until all have ended normally. Never returns. */
_Noreturn void hsm_supervise(const struct hsm_worker *worker, const int *sockets, size_t count);
/** Closes all descriptors from 3 on except these. */
void hsm_close_others(const int *kept, size_t count);
