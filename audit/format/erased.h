/*
 * audit/format/erased.h -- a certificate of erasure: a signed statement (DSSE) of sijil-keyd that a person's key was destroyed, with the two events of
 * the log and their proofs. docs/erasure.md says what each stage proves, and what it does not prove.
 *
 * The bundle is one JSON object: {"certificate": the envelope, "document": what two persons signed, as text, "asked" and "erased": entries as text,
 * "asked_proof" and "erased_proof": tlog-proofs as text}. It is checked offline, with the log's key and the key that signs documents. It names the person
 * by the pseudonym alone.
 */
#pragma once

#include "audit/format/proof_check.h"
#include "crypto/ecdsa.h"

#define ERASED_TYPE         "application/vnd.sijil.erasure-certificate.v1+json"
#define ERASED_ASKED        "audit.erase"
#define ERASED_DONE         "subject.erase"
#define ERASED_PAYLOAD_MAX  2048       /* two hashes, a pseudonym, an origin and numbers: 700 at most */
#define ERASED_ENVELOPE_MAX 8192       /* in base64, with one signature */
#define ERASED_BUNDLE_MAX   (2u << 20) /* two entries and two proofs, escaped */
#define ERASED_DOCUMENT_MAX 4096

/** The content of a certificate. Times are wall time. */
struct erased {
    char origin[128];
    char pseudonym[65];
    uint64_t asked, done; /* numbers of the event that two persons have signed, and of the one behind the work */
    uint8_t asked_hash[32], done_hash[32];
    uint64_t payloads;    /* sealed parts that were deleted */
    uint32_t key_version; /* that the person's key was wrapped under last */
    int64_t erased_ms;    /* when the key was destroyed */
    /* Added by sijil-keyd. */
    unsigned stage; /* 1: the key is destroyed in the database. 2: keyd holds no epoch that it was ever wrapped under */
    int64_t issued_ms;
};

/** Appends the payload. */
RESULT erased_write(const struct erased *erased, struct buffer *payload, struct error *err);
/** ERROR_INVALID unless erased_write() could have written it. */
RESULT erased_read(struct bytes payload, struct erased *erased_out, struct error *err);

struct erased_report {
    struct erased erased;
    struct proof_report proof; /* of the event behind the work */
};
/** Whether the text is a bundle of this kind, and not of another certificate; it proves nothing. */
bool erased_is_bundle(struct bytes bundle);
/**
 * As proof_check_cosigned(), for both events. In addition `signer` must have signed the certificate; it must be about exactly these events; and the first of them
 * must name the document, which is an erasure of this pseudonym.
 */
RESULT erased_check(const struct proof_trust *trust, const struct ecdsa_key *signer, struct bytes bundle,
                    struct erased_report *report_out, struct error *err);
/** Appends what is proven and what is not, in plain words. */
RESULT erased_report_text(const struct erased_report *report, struct buffer *text, struct error *err);
/** Appends the report as one JSON object and a line feed. */
RESULT erased_report_json(const struct erased_report *report, struct buffer *text, struct error *err);
