/*
 * keyd/quorum.h -- the policy of witnesses that keyd has pinned, and when its quorum has cosigned the log (docs/witness.md,
 * docs/formats/audit-log.md sections 8, 11 and 15).
 *
 * Rules: after a start nothing new is signed until the quorum has cosigned the last signed checkpoint, at a time after the start. So a key
 * ring and a ledger that were set back together don't sign a second history. After an hour without a quorum no document comes into force, and
 * no run is ordered. Without a pinned policy none of this is demanded.
 *
 * The first policy is pinned as it is given, as the approvers' root is. Another one needs the signature of the root, over an epoch that is
 * larger. The ledger has its digest; a gateway gives the text with each message. Thread-safe.
 */
#pragma once

#include "audit/format/witness_policy.h"
#include "crypto/keyd_protocol.h"
#include "keyd/log_rotation.h"

#define QUORUM_PATIENCE_S  3600
#define QUORUM_AHEAD_MAX_S 300 /* cosignatures from the future would count as fresh after the next start */

struct quorum;
/** `patience_s`: how long documents and orders may go on without a quorum. */
RESULT quorum_new(unsigned patience_s, struct quorum **quorum_out, struct error *err);
void quorum_free(struct quorum *quorum);
DEFINE_OWNED(quorum);

struct quorum_place {
    struct quorum *quorum;
    struct log_rotation *rotation;
    struct ledger *ledger;
};
/** ERROR_DENIED: another policy is pinned, and no envelope of the root replaces it. ERROR_INVALID: it is no policy, or is about another log.
 *  Durable on return. The pinned one again is no error. */
RESULT quorum_pin(const struct quorum_place *place, const struct keyd_witness_policy *request, struct error *err);
/** Takes a cosigned checkpoint. ERROR_DENIED: it proves no quorum, or none after the start; another policy is pinned. ERROR_FORKED: it is not
 *  of the log that this ledger knows. */
RESULT quorum_take(const struct quorum_place *place, const struct keyd_cosigned *request, struct error *err);
/** ERROR_UNAVAILABLE: a message of this type has to wait for the quorum. */
RESULT quorum_check(const struct quorum_place *place, const struct keyd_request *request, struct error *err);
/** Begins as a start does: what is signed waits until the quorum has cosigned the last checkpoint. */
void quorum_close(struct quorum *quorum);
void quorum_read(const struct quorum_place *place, struct keyd_witnesses *witnesses_out);
