/*
 * crypto/dsse.h -- signed documents: the Dead Simple Signing Envelope, version 1, with ECDSA P-256.
 *
 * The key id in an envelope is only a hint, and not signed. A caller may use a document only after
 * dsse_check_signer() succeeded with a key that it trusts for this payload type.
 */
#pragma once

#include "base/bytes.h"
#include "crypto/ecdsa.h"

#define DSSE_TYPE_SIZE       128 /* our longest payload type has 50 characters */
#define DSSE_SIGNATURE_COUNT 8   /* two approvers, and room for a change of keys */
#define DSSE_KEYID_SIZE      128 /* ours have 43 characters */
#define DSSE_OVERHEAD        (8 * 1024)

struct dsse_signature {
    char keyid[DSSE_KEYID_SIZE]; /* "" without one */
    uint8_t bytes[ECDSA_DER_MAX];
    size_t length; /* 0: not of our algorithm's size, so it never verifies */
};

struct dsse {
    char payload_type[DSSE_TYPE_SIZE];
    struct buffer payload;
    size_t signature_count;
    struct dsse_signature signatures[DSSE_SIGNATURE_COUNT];
};

/**
 * Reads an envelope of at most `maximum` bytes. ERROR_INVALID, ERROR_LIMIT. Verifies no signature. Stricter than DSSE: a member that
 * DSSE does not name is refused, because no signature covers it, and so is base64url.
 */
RESULT dsse_read(struct bytes envelope, size_t maximum, struct dsse **dsse_out, struct error *err);
/** Whether `key` made one of the signatures over this type and payload: ERROR_DENIED if not, ERROR_NO_MEMORY. */
RESULT dsse_check_signer(const struct dsse *dsse, const struct ecdsa_key *key, struct error *err);

/** Appends the envelope of `payload` with a signature of each signer. The key id is the RFC 7638 thumbprint. */
RESULT dsse_write(const char *payload_type, struct bytes payload, const struct ecdsa_key *const *signers, size_t signer_count,
                  struct buffer *envelope, struct error *err);
/** Appends the envelope of one payload with the signatures of both, which the caller has verified. ERROR_INVALID: other payloads. ERROR_LIMIT. */
RESULT dsse_join(const struct dsse *one, const struct dsse *other, struct buffer *envelope, struct error *err);
/** Appends the bytes that are signed: "DSSEv1", then length and bytes of type and payload. */
RESULT dsse_preauthentication(const char *payload_type, struct bytes payload, struct buffer *encoding, struct error *err);

void dsse_free(struct dsse *dsse);
DEFINE_OWNED(dsse);
