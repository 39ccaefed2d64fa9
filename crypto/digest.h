/*
 * crypto/digest.h -- digests of content: their text and their computation.
 *
 * A digest in text is "sha256:" and 64, or "sha512:" and 128 lower-case hex digits (OCI image-spec, descriptor.md). No
 * other algorithm and no other spelling is accepted. Digests are public: they are compared in variable time.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"

enum digest_algorithm { DIGEST_SHA256, DIGEST_SHA512 };

#define SHA256_SIZE      32
#define DIGEST_SIZE_MAX  64  /* SHA-512 */
#define DIGEST_TEXT_SIZE 136 /* "sha512:", 128 digits and '\0' */

struct digest {
    enum digest_algorithm algorithm;
    uint8_t bytes[DIGEST_SIZE_MAX]; /* the first digest_size() bytes; the others are zero */
};

/** 32 or 64. */
size_t digest_size(enum digest_algorithm algorithm);
/** ERROR_INVALID for any other form. */
RESULT digest_parse(struct bytes text, struct digest *digest_out, struct error *err);
void digest_format(const struct digest *digest, char text_out[DIGEST_TEXT_SIZE]);
bool digest_equal(const struct digest *a, const struct digest *b);

/** SHA-256 (FIPS 180-4). */
void sha256_of(struct bytes bytes, uint8_t out[SHA256_SIZE]);
/** The digest of `bytes`. */
struct digest digest_of(enum digest_algorithm algorithm, struct bytes bytes);

/** Computes a digest over bytes that arrive in pieces. */
struct hasher;

RESULT hasher_new(enum digest_algorithm algorithm, struct hasher **hasher_out, struct error *err);
void hasher_add(struct hasher *hasher, struct bytes bytes);
/** The digest of all bytes so far; more may be added. */
struct digest hasher_digest(const struct hasher *hasher);
/** The number of bytes added, including the bytes before an import. */
uint64_t hasher_length(const struct hasher *hasher);

/**
 * The state of a hasher, so that another process can continue it. All integers are big-endian:
 *
 * "SJSHA256" | eight u32 words of the hash value | u64 length in bytes | the last length % 64 bytes, zeros up to 64,
 * or "SJSHA512" | eight u64 words | u64 length in bytes | the last length % 128 bytes, zeros up to 128.
 *
 * It reveals content: seal it before it is stored.
 */
#define HASHER_STATE_SIZE 112 /* of SHA-256 */
#define HASHER_STATE_MAX  208 /* of SHA-512 */

enum digest_algorithm hasher_algorithm(const struct hasher *hasher);
/** Writes and returns HASHER_STATE_SIZE or HASHER_STATE_MAX bytes. */
size_t hasher_export(const struct hasher *hasher, uint8_t *state_out);
/** ERROR_CORRUPT for a state that hasher_export() can't have written. */
RESULT hasher_import(struct bytes state, struct hasher **hasher_out, struct error *err);

/** Wipes the state. */
void hasher_free(struct hasher *hasher);
DEFINE_OWNED(hasher);
