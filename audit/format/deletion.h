/*
 * audit/format/deletion.h -- a certificate of deletion: a signed statement (DSSE) of sijil-keyd about a forgotten key, with
 * the log's entry and its proof. docs/deletion.md says what each stage proves, and what it does not prove.
 *
 * The bundle is one JSON object: {"certificate": the envelope, "entry": the log's entry as text, "proof": the tlog-proof as
 * text}. It is checked offline, with the log's key and the key that signs documents.
 */
#pragma once

#include "audit/format/proof_check.h"
#include "base/uuid.h"
#include "crypto/ecdsa.h"

#define DELETION_TYPE         "application/vnd.sijil.deletion-certificate.v1+json"
#define DELETION_ACTION       "key.forgotten"
#define DELETION_PAYLOAD_MAX  4096       /* names, ids and times: 1,400 at most */
#define DELETION_ENVELOPE_MAX 8192       /* in base64, with one signature */
#define DELETION_BUNDLE_MAX   (2u << 20) /* an entry and a proof, escaped */

/** The content of a certificate. Times are wall time. */
struct deletion {
    /* The event in the log. */
    char origin[128];
    uint64_t sequence;
    uint8_t leaf_hash[32];
    /* What was deleted. */
    struct uuid organisation, project, blob;
    char name[256]; /* "acme/models" */
    char region[64];
    char digest[136]; /* of the content */
    uint64_t size_bytes;
    int64_t forgotten_ms;
    uint32_t key_version; /* of the key-encryption key */
    bool is_stored_again; /* the same content was pushed again later, as another blob with another key */
    /* Added by sijil-keyd. */
    unsigned stage;       /* 1: the wrapped key is forgotten. 2: keyd holds no version that it was ever wrapped under */
    int64_t destroyed_ms; /* stage 2: when the last of these versions was destroyed; 0: its time was not recorded */
    int64_t issued_ms;
    char keyd
        [ECDSA_THUMBPRINT_SIZE]; /* stage 1: the sijil-keyd of the region, which alone held the version; "": the one that signed, or not known */
};

/** Appends the payload. */
RESULT deletion_write(const struct deletion *deletion, struct buffer *payload, struct error *err);
/** ERROR_INVALID unless deletion_write() could have written it. */
RESULT deletion_read(struct bytes payload, struct deletion *deletion_out, struct error *err);

struct deletion_report {
    struct deletion deletion;
    struct proof_report proof;
};
/** As proof_check_cosigned(). In addition `signer` must have signed the certificate, and the certificate must be about
 *  exactly that entry. */
RESULT deletion_check(const struct proof_trust *trust, const struct ecdsa_key *signer, struct bytes bundle,
                      struct deletion_report *report_out, struct error *err);
/** Appends what is proven and what is not, in plain words. */
RESULT deletion_report_text(const struct deletion_report *report, struct buffer *text, struct error *err);
/** Appends the report as one JSON object and a line feed. */
RESULT deletion_report_json(const struct deletion_report *report, struct buffer *text, struct error *err);
