/*
 * audit/format/deletion.h -- a certificate of deletion: what sijil-keyd states of a key that was forgotten, signed
 * (DSSE), with the log's entry and its proof. docs/deletion.md says what each stage means, and what it does not.
 *
 * The bundle is one JSON object: {"certificate": the envelope, "entry": the log's entry as text, "proof": the tlog-proof
 * as text}. Checked offline, given the log's key and the key that documents are signed with.
 */
#pragma once

#include "audit/format/proof_check.h"
#include "base/uuid.h"
#include "crypto/ecdsa.h"

#define DELETION_TYPE         "application/vnd.sijil.deletion-certificate.v1+json"
#define DELETION_ACTION       "key.forgotten"
#define DELETION_PAYLOAD_MAX  4096         /* names, ids and times: 1,400 at most */
#define DELETION_ENVELOPE_MAX 8192         /* in base64, with one signature */
#define DELETION_BUNDLE_MAX   (2u << 20)   /* an entry and a proof, escaped */

/** What is stated. Times are wall time. */
struct deletion {
    /* The event in the log. */
    char origin[128];
    uint64_t sequence;
    uint8_t leaf_hash[32];
    /* What was deleted. */
    struct uuid organisation, project, blob;
    char name[256];   /* "acme/models" */
    char region[64];
    char digest[136]; /* of the content */
    uint64_t size_bytes;
    int64_t forgotten_ms;
    uint32_t key_version;  /* of the key-encryption key */
    bool is_stored_again;  /* the same content was pushed again afterwards, as another blob with another key */
    /* What sijil-keyd adds. */
    unsigned stage;        /* 1: the wrapped key is forgotten. 2: no version that it was ever wrapped under is held */
    int64_t destroyed_ms;  /* stage 2: when the last of them was destroyed; 0: before that was kept */
    int64_t issued_ms;
};

/** Appends the payload. */
RESULT deletion_write(const struct deletion *deletion, struct buffer *payload, struct error *err);
/** ERROR_INVALID unless it is what deletion_write() makes. */
RESULT deletion_read(struct bytes payload, struct deletion *deletion_out, struct error *err);

struct deletion_report {
    struct deletion deletion;
    struct proof_report proof;
};
/** As proof_check(), and: the certificate is signed by `signer`, and is about exactly that entry. */
RESULT deletion_check(struct bytes vkey, const struct ecdsa_key *signer, struct bytes bundle,
                      struct deletion_report *report_out, struct error *err);
/** Appends what was proven and what was not, in plain words. */
RESULT deletion_report_text(const struct deletion_report *report, struct buffer *text, struct error *err);
/** The same as one JSON object and a line feed. */
RESULT deletion_report_json(const struct deletion_report *report, struct buffer *text, struct error *err);
