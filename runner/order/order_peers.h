/*
 * runner/order/order_peers.h -- the other nodes of an attempt, proven by their leases and the certificates of their keys.
 *
 * The registry that names them is not trusted: a lease counts if sijil-keyd has signed it for the same order and attempt, and for another node. Each other node
 * occurs once.
 */
#pragma once

#include "training/format/bundle.h"

/** A lease that somebody says is of `node`, and the certificate of its key. */
struct order_claim {
    int64_t node;
    const char *lease, *certificate; /* the envelopes */
};
struct order_claims {
    const struct order_claim *each;
    size_t count;
    int64_t now_ms; /* wall time */
};

struct order_peer {
    int64_t node;
    char key[ECDSA_THUMBPRINT_SIZE]; /* of its attempt */
    uint8_t lease[SHA256_SIZE];      /* the digest of the lease */
};

/**
 * `bundle` has this node's own lease, and is checked. Fills `peers` for the claims, in their order. ERROR_DENIED names the rule that does not hold;
 * ERROR_NO_MEMORY.
 */
RESULT order_peers_check(const struct run_bundle *bundle, const struct run_trust *trust, const struct order_claims *claims,
                         struct order_peer *peers, struct error *err);
