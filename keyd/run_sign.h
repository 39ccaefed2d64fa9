/*
 * keyd/run_sign.h -- composes and signs orders, leases and admissions of training runs, and requests for tokens (docs/formats/run.md, "Who
 * checks what").
 *
 * A caller gives the run's bundle with all envelopes before the wanted one. keyd composes the wanted envelope. keyd checks the
 * whole bundle with its own keys and pins, as an outsider would. It also refuses a bundle with an enrolment that keyd has not
 * pinned (keyd/key_register.h). It records a promise (keyd/run_ledger.h) before it returns the envelope.
 */
#pragma once

#include "crypto/keyd_protocol.h"
#include "keyd/key_register.h"
#include "keyd/organisation_restrictions.h"
#include "keyd/run_ledger.h"
#include "training/format/bundle.h"

struct run_signer {
    const struct ecdsa_key *key;                         /* of documents */
    const struct ecdsa_key *tokens[KEYD_TOKEN_KEYS_MAX]; /* that sign the registry's tokens; of a request alone */
    size_t token_count;
    const char *origin;              /* of the log: the audience of a request; of a request alone */
    struct bytes log_key;            /* a C2SP note verifier key */
    uint8_t root[ECDSA_PUBLIC_SIZE]; /* of approvers; all zero: none is pinned */
    struct document_pin policy;      /* the policy set in force */
    struct run_ledger *runs;
    struct key_register *keys;                      /* of persons and runners; withdrawn keys are refused */
    struct organisation_restrictions *restrictions; /* NULL: nobody knows of any */
    run_day_check *check_day;                       /* under the policy set in force; of a lease or an admission */
    int64_t now_ms;
};

/** Takes the root and the policy set in force. */
void run_signer_take(struct run_signer *signer, const struct ledger_state *state);

/**
 * Checks what `wanted` names, and appends the signed envelope. The same is true of the next two functions. ERROR_DENIED with the rule that does not hold; ERROR_CONFLICT: another envelope was
 * signed for the same purpose (keyd/run_ledger.h); ERROR_INVALID, ERROR_LIMIT, ERROR_UNAVAILABLE, ERROR_NO_MEMORY.
 */
RESULT run_sign_request(const struct run_signer *signer, const struct keyd_run_request *wanted, struct buffer *envelope,
                        struct error *err);
RESULT run_sign_order(const struct run_signer *signer, const struct keyd_run *wanted, struct buffer *envelope, struct error *err);
RESULT run_sign_lease(const struct run_signer *signer, const struct keyd_run *wanted, struct buffer *envelope, struct error *err);
RESULT run_sign_admission(const struct run_signer *signer, const struct keyd_run *wanted, struct buffer *envelope,
                          struct error *err);
/** Signs nothing. Of a run that has ended: frees what was reserved for its order (run_ledger_end()). `request` is the digest of its request. */
RESULT run_sign_end(struct run_ledger *runs, const uint8_t request[32], int64_t now_ms, struct error *err);
