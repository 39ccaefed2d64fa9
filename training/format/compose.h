/*
 * training/format/compose.h -- makes the payloads of a run's envelopes (docs/formats/run.md).
 *
 * Each function appends canonical JSON of the shape of its type; run_sign() makes the envelope. If an envelope repeats a value of
 * an earlier envelope, the function copies it from there. No function checks the earlier envelopes: see run_chain_check(). Texts
 * are NUL-terminated and borrowed. All functions: ERROR_INVALID for a value that the shape forbids, ERROR_LIMIT, ERROR_NO_MEMORY.
 */
#pragma once

#include "training/format/chain.h"

/** Appends an envelope with this key's signature. */
RESULT run_sign(enum run_type type, struct bytes payload, const struct ecdsa_key *key, struct buffer *envelope,
                struct error *err);

/** The verified token of a request that sijil-keyd signs. */
struct run_claims {
    const char *issuer, *subject;
    const char *token; /* digest of its text */
};
struct run_request_parts {
    const char *run, *audience, *project, *requester, *nonce;
    int64_t issued_ms, expires_ms;
    const struct run_claims *claims;     /* NULL: the requester's own key signs */
    const char *rerun_run, *rerun_order; /* of the run that this one repeats; NULL: none */
    const json_t *spec;
};
RESULT run_request_write(const struct run_request_parts *parts, struct buffer *payload, struct error *err);

struct run_approval_parts {
    const char *approver, *nonce;
    int64_t issued_ms, expires_ms;
};
RESULT run_approval_write(const struct run_envelope *request, const struct run_approval_parts *parts, struct buffer *payload,
                          struct error *err);

struct run_order_parts {
    const json_t *jurisdictions; /* a sorted list of texts */
    int64_t approvals;           /* that the policies ask for */
    bool signed_request;
    int64_t epoch;                  /* of the policy set */
    const char *policy, *decision;  /* digests */
    int64_t event_number, log_size; /* the order's event, and the checkpoint that covers it */
    const char *log_root;           /* hex */
    int64_t attempts;
    const char *nonce;
    int64_t not_before_ms, expires_ms;
};
/** `below` has the request and the approvals. */
RESULT run_order_write(const struct run_chain *below, const struct run_order_parts *parts, struct buffer *payload,
                       struct error *err);

struct run_lease_parts {
    int64_t attempt, node;
    const char *runner, *key; /* its UUID, its key's thumbprint */
    const char *nonce;
    int64_t not_before_ms, expires_ms;
};
RESULT run_lease_write(const struct run_envelope *order, const struct run_lease_parts *parts, struct buffer *payload,
                       struct error *err);

/** A key for one attempt of one node. The runner's own key signs the certificate. */
struct run_certificate_parts {
    const char *run, *audience;
    const char *order, *lease; /* digests */
    int64_t attempt, node;
    uint8_t runner[ECDSA_PUBLIC_SIZE], key[ECDSA_PUBLIC_SIZE]; /* the public halves of both */
    int64_t not_before_ms, expires_ms;
};
RESULT run_certificate_write(const struct run_certificate_parts *parts, struct buffer *payload, struct error *err);

/** The values of a refusal. */
struct run_refusal_parts {
    const char *run, *audience, *lease; /* lease: the digest of its envelope */
    const char *check, *reason;
    int64_t at_ms;
};
RESULT run_refusal_write(const struct run_refusal_parts *parts, struct buffer *payload, struct error *err);

struct run_subject {
    const char *name, *digest; /* hex */
};
struct run_device {
    const char *uuid, *type, *driver;
    int64_t memory_bytes, utilisation_percent;
};
struct run_result_parts {
    const struct run_subject *outputs; /* sorted by name, without the log */
    size_t output_count;
    const char *log, *metrics; /* hex; metrics NULL: none */
    int64_t started_ms, finished_ms;
    const char *status, *reason;
    int64_t exit_status, signal;
    int64_t wall_ms, cpu_ms, memory_bytes, output_bytes, log_bytes, device_ms;
    const char *isolation;
    const struct run_device *devices;
    size_t device_count;
};
/** `below` has the order, the lease and the certificate, whose key signs the result. The artifacts that were fetched are those of the order. */
RESULT run_result_write(const struct run_chain *below, const struct run_result_parts *parts, struct buffer *payload,
                        struct error *err);

struct run_admission_parts {
    int64_t verified_ms;
    int64_t epoch;      /* of the policy set in force */
    const char *policy; /* its digest in hex */
    int64_t assurance;  /* of the runner's document; of several nodes the lowest */
};
/** `below` has all envelopes up to the result, and those of the other nodes. */
RESULT run_admission_write(const struct run_chain *below, const struct run_admission_parts *parts, struct buffer *payload,
                           struct error *err);
