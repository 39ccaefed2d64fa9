/*
 * runner/state/runner_state.h -- the folder in which a runner keeps its key, its certificate, and what it pinned when it was enrolled.
 *
 * The folder is the runner's alone (0700). `sijil-runner enroll` makes it:
 *
 *   key.pem          the runner's P-256 key (PKCS#8, 0600); certifies the keys of attempts, signs refusals, and proves the runner to the registry (mTLS)
 *   registry.json    documents/format/registry_pins.h
 *   ca.pem           authorities for the registry's TLS, if they are not the system's
 *   document.json    the runner's document, in the envelope that the runner's key has signed. It says what the runner was enrolled for. Only proofs
 *                    say whether it is in force
 *   certificate.pem  the client certificate; sijil-keyd makes it once the document is in force, and makes the next one before it expires
 *
 * Each file is replaced as a whole. `leases.journal` and `leases.key` (runner/order/lease_journal.h) and `work` are of `sijil-runner serve`.
 */
#pragma once

#include "documents/format/registry_pins.h"
#include "documents/format/runner_key.h"
#include "training/format/run_keys.h"

#define RUNNER_STATE_FOLDER "/var/lib/sijil-runner"
#define RUNNER_PATH_SIZE    512  /* as OUTGOING_PATH_SIZE */
#define RUNNER_PEM_MAX      8192 /* of a certificate: RUNNER_CERTIFICATE_MAX in base64 */
#define RUNNER_CA_MAX       (256 * 1024)

struct runner_state {
    int folder; /* open */
    char path[RUNNER_PATH_SIZE];
    char key_file[RUNNER_PATH_SIZE], certificate_file[RUNNER_PATH_SIZE]; /* for http_new() */
    char ca_file[RUNNER_PATH_SIZE];                                      /* "": the system's authorities */
    struct registry_pins registry;
    struct ecdsa_key *key;                             /* its own */
    struct ecdsa_key *keyd, *root;                     /* public halves of registry.signer and registry.root */
    char name[ECDSA_THUMBPRINT_SIZE];                  /* thumbprint of its own key: the document's name */
    struct document *document;                         /* NULL: not enrolled yet */
    struct runner_key own;                             /* its content; views into it */
    int64_t certificate_from_ms, certificate_until_ms; /* 0: there is none yet */
};

/**
 * Opens the folder of a runner that was enrolled. ERROR_NOT_FOUND: it was not, or not to the end (there may be no certificate yet).
 * ERROR_DENIED: others may enter the folder or read the key. ERROR_CORRUPT: a file is damaged, or does not belong to the key.
 */
RESULT runner_state_open(const char *path, struct runner_state **state_out, struct error *err);
/** What a verifier of bundles trusts; views into `state`. */
struct run_trust runner_state_trust(const struct runner_state *state);

/** The certificate that the registry has made for the key of `state`. ERROR_INVALID: it is not for this key, or has no period. Durable. */
RESULT runner_state_keep_certificate(struct runner_state *state, struct bytes pem, struct error *err);

/* --- for the enrolment --- */

/**
 * Makes folder and key where they are missing; a key that is there is used. Nothing else is read. ERROR_CONFLICT: the folder is of a
 * runner that has a document already. ERROR_DENIED as above.
 */
RESULT runner_state_begin(const char *path, struct runner_state **state_out, struct error *err);
/** Keeps the pins, and `ca` (empty: the system's authorities). */
RESULT runner_state_keep_registry(struct runner_state *state, const struct registry_pins *pins, struct bytes ca,
                                  struct error *err);
/** Keeps the document. ERROR_INVALID: it is not a runner's document that the key of `state` has signed. */
RESULT runner_state_keep_document(struct runner_state *state, struct bytes envelope, struct error *err);

void runner_state_free(struct runner_state *state);
DEFINE_OWNED(runner_state);
