#include "runner/order/order_peers.h"

#include <string.h>

#include "training/format/certificate.h"

#define NODES_MAX 256 /* docs/formats/run.md */

static struct result check_place(const struct run_bundle *bundle, const struct run_envelope *lease,
                                 const struct order_claim *claim, int64_t now_ms, struct error *err)
{
    const struct run_envelope *own = bundle->chain.lease;
    const long long node = (long long)run_integer(lease, "node");

    if (run_integer(lease, "attempt") != run_integer(own, "attempt"))
        return failure(err, ERROR_DENIED, "the lease of node %lld is of another attempt", node);
    if (node != claim->node) return failure(err, ERROR_DENIED, "the lease of node %lld is said to be another node's", node);
    if (node == run_integer(own, "node"))
        return failure(err, ERROR_DENIED, "another runner has a lease of this node, %lld", node);
    if (now_ms < run_time(lease, "expires")) return SUCCESS;
    return failure(err, ERROR_DENIED, "the lease of node %lld is over", node);
}

/* Steps 1, 2 and 5 of docs/formats/run.md, in the place of this node's own lease. */
static struct result read_lease(const struct run_bundle *bundle, const struct run_trust *trust, const struct order_claim *claim,
                                struct run_envelope **lease_out, struct error *err)
{
    OWNED(run_envelope) *lease = NULL;
    struct run_chain chain = bundle->chain;

    TRY(run_envelope_read(bytes_of_text(claim->lease), RUN_LEASE, &lease, err));
    TRY(run_check_signer(lease, trust->keyd, err));
    chain.lease = lease;
    chain.certificate = NULL;
    chain.result = chain.admission = chain.refusal = NULL;
    TRY(run_chain_check(&chain, err));
    *lease_out = GIVE(lease);
    return SUCCESS;
}

/* Step 6: the key with which the other node speaks. */
static struct result find_key(const struct run_bundle *bundle, const struct run_envelope *lease, const char *text,
                              char key_out[ECDSA_THUMBPRINT_SIZE], struct error *err)
{
    OWNED(run_envelope) *certificate = NULL;

    TRY(run_envelope_read(bytes_of_text(text), RUN_CERTIFICATE, &certificate, err));
    TRY(run_chain_check_certificate(&(struct run_chain){.order = bundle->chain.order, .lease = lease, .certificate = certificate},
                                    err));
    certificate_thumbprint(certificate, CERTIFICATE_ATTEMPT, key_out);
    return SUCCESS;
}

static struct result check_claims(const struct run_bundle *bundle, const struct run_trust *trust,
                                  const struct order_claims *claims, struct order_peer *peers, struct error *err)
{
    bool is_there[NODES_MAX] = {false};

    for (size_t i = 0; i < claims->count; i++) {
        OWNED(run_envelope) *lease = NULL;
        TRY(read_lease(bundle, trust, &claims->each[i], &lease, err));
        TRY(check_place(bundle, lease, &claims->each[i], claims->now_ms, err));
        TRY(find_key(bundle, lease, claims->each[i].certificate, peers[i].key, err));
        peers[i].node = claims->each[i].node;
        run_digest_bytes(lease, peers[i].lease);
        if (is_there[peers[i].node])
            return failure(err, ERROR_DENIED, "the registry names node %lld twice", (long long)peers[i].node);
        is_there[peers[i].node] = true;
    }
    return SUCCESS;
}

struct result order_peers_check(const struct run_bundle *bundle, const struct run_trust *trust, const struct order_claims *claims,
                                struct order_peer *peers, struct error *err)
{
    const int64_t nodes = run_integer(bundle->chain.order, "spec.nodes");
    struct error why = {0};

    if ((int64_t)claims->count != nodes - 1)
        return failure(err, ERROR_DENIED, "the order has %lld nodes, and the registry names %zu others", (long long)nodes,
                       claims->count);
    if (check_claims(bundle, trust, claims, peers, &why).ok) return SUCCESS;
    return failure(err, why.kind == ERROR_NO_MEMORY ? why.kind : ERROR_DENIED, "another node is not proven: %.200s", why.message);
}
