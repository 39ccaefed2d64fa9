/*
 * keyd/keyring_format.h -- the bytes of the sealed key ring (docs/keys.md).
 *
 * file    "SJKR" | u8 format = 2 or 3 | u8 kdf = 1 (argon2id 1.3) | u16 0 | u32 passes | u32 memory KiB | salt[16]
 *         | box: nonce[24], ciphertext, tag[16] (XChaCha20-Poly1305 under the stretched passphrase, AAD = all bytes before it)
 * body    u32 length and text of the origin | token key[32] | log seed[32] | index key[32] | ledger key[32]
 *         | u32 count, then u32 number, u8 kind and 32 bytes of each key version
 *         | u32 count, then u32 number and root[32] of each subject epoch
 *         | in format 3: u32 count (1 to 8), then seed[32] of each further log key
 * kinds   1: a root of 32 bytes. 2: id[16] of a key in a PKCS#11 token, then zeros. 3: destroyed: u64 time in s, then
 *         zeros. The newest version is never destroyed.
 *
 * Integers are big-endian. The numbers in a list are at least 1 and increase. Each list has 1 to KEYRING_ROOTS_MAX entries.
 * Format 3 is written only for a key ring with further log keys. Format 1, which has no kinds, is read but never written.
 */
#pragma once

#include "base/bytes.h"
#include "crypto/aead.h"
#include "crypto/password.h"

#define KEYRING_HEADER_SIZE 32
#define KEYRING_ROOTS_MAX   64   /* a rotation every month for five years */
#define KEYRING_BODY_MAX    8192 /* three full lists and an origin are 5,199 */
#define KEYRING_FILE_MAX    (KEYRING_HEADER_SIZE + KEYRING_BODY_MAX + BOX_OVERHEAD)
#define KEYRING_ORIGIN_SIZE 128
#define KEYRING_FURTHER_MAX 8 /* log keys: a rotation each year for eight years */

struct keyring_header {
    uint8_t format;
    struct password_cost cost;
    uint8_t salt[PASSWORD_SALT_SIZE];
};
#define KEYRING_FORMAT         2
#define KEYRING_FORMAT_FURTHER 3 /* with further log keys */
void keyring_header_write(const struct keyring_header *header, uint8_t out[KEYRING_HEADER_SIZE]);
/** `file` is the whole file. ERROR_CORRUPT for another file. */
RESULT keyring_header_read(struct bytes file, struct keyring_header *header_out, struct error *err);

enum keyring_kind { KEYRING_ROOT = 1, KEYRING_TOKEN = 2, KEYRING_DESTROYED = 3 };
struct keyring_root {
    uint32_t number;
    enum keyring_kind kind; /* of a subject epoch always KEYRING_ROOT */
    uint8_t bytes[32];      /* a root, the id of a token's key, or the time of destruction */
};
struct keyring_roots {
    uint32_t count;
    struct keyring_root each[KEYRING_ROOTS_MAX];
};
/** All secrets of the key ring. Only in locked memory. */
struct keyring_body {
    char origin[KEYRING_ORIGIN_SIZE];
    uint8_t token_scalar[32], log_seed[32], index_key[32], ledger_key[32];
    struct keyring_roots versions; /* of key-encryption keys */
    struct keyring_roots epochs;   /* of the keys that wrap subjects' keys */
    uint32_t further_count;        /* log keys after the first, the newest last */
    uint8_t further_seeds[KEYRING_FURTHER_MAX][32];
};
RESULT keyring_body_write(const struct keyring_body *body, struct buffer *out, struct error *err);
/** The format that a file with this body has. */
uint8_t keyring_body_format(const struct keyring_body *body);
/** `format` is the header's. ERROR_CORRUPT; `body` may be partly written then. */
RESULT keyring_body_read(struct bytes raw, uint8_t format, struct keyring_body *body, struct error *err);
/** The time in the entry of a destroyed version. */
int64_t keyring_root_destroyed_s(const struct keyring_root *root);
