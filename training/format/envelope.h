/*
 * training/format/envelope.h -- one signed envelope of a training run (docs/formats/run.md).
 *
 * Reading proves nothing: run_check_signer() checks the signer, and run_chain_check() (training/format/chain.h) compares the
 * content with the earlier envelopes.
 */
#pragma once

#include "base/json.h"
#include "crypto/digest.h"
#include "crypto/dsse.h"

#define RUN_PAYLOAD_MAX  65536 /* bytes; the largest argv and the largest environment do not fit together */
#define RUN_ENVELOPE_MAX 131072
#define RUN_DIGEST_TEXT  72 /* "sha256:", 64 digits and '\0' */

enum run_type { RUN_REQUEST, RUN_APPROVAL, RUN_ORDER, RUN_LEASE, RUN_CERTIFICATE, RUN_RESULT, RUN_ADMISSION, RUN_REFUSAL };
#define RUN_TYPES 8

struct run_envelope {
    enum run_type type;
    struct dsse *dsse;
    json_t *json;                 /* the payload, of the shape of its type */
    char digest[RUN_DIGEST_TEXT]; /* SHA-256 of the PAE: later envelopes refer to this one by this digest */
};

/** "request", for messages. */
const char *run_type_name(enum run_type type);
/** The payload type of DSSE. */
const char *run_type_media(enum run_type type);
/** Whether a payload has the shape of its type. ERROR_INVALID. */
RESULT run_payload_check(enum run_type type, const json_t *json, struct error *err);

/**
 * Reads an envelope of this type. It must have one signature, canonical spelling, and only known members, each of its form.
 * Verifies no signature. ERROR_INVALID, ERROR_LIMIT, ERROR_NO_MEMORY.
 */
RESULT run_envelope_read(struct bytes envelope, enum run_type type, struct run_envelope **envelope_out, struct error *err);
/** Checks that exactly this key has signed. ERROR_DENIED, ERROR_NO_MEMORY. */
RESULT run_check_signer(const struct run_envelope *envelope, const struct ecdsa_key *key, struct error *err);
/** The digest of an envelope in bytes. */
void run_digest_bytes(const struct run_envelope *envelope, uint8_t digest_out[SHA256_SIZE]);
/** The member at `path`, such as "predicate.runDetails.builder.id"; NULL if it is absent. */
const json_t *run_member(const struct run_envelope *envelope, const char *path);
/** A text that the shape of the type demands. */
const char *run_text(const struct run_envelope *envelope, const char *path);
int64_t run_integer(const struct run_envelope *envelope, const char *path);
/** A time that the shape demands, in milliseconds since 1970. */
int64_t run_time(const struct run_envelope *envelope, const char *path);

void run_envelope_free(struct run_envelope *envelope);
DEFINE_OWNED(run_envelope);
