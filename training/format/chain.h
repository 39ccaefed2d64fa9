/*
 * training/format/chain.h -- checks each envelope of a run against those before it (docs/formats/run.md, "The order of
 * checks", steps 3 to 9).
 *
 * It looks at content alone, except for two signers that the content names: a certificate is signed by the key of its lease, and a result by the key of
 * its certificate. The caller checks the signers of the others before, and compares the times with its own clock.
 */
#pragma once

#include "training/format/envelope.h"

#define RUN_APPROVALS_MAX 8
#define RUN_NODES_MAX     256
#define RUN_ATTEMPTS_MAX  100
#define RUN_PEERS_MAX     (RUN_NODES_MAX - 1) /* nodes of an attempt beside node 0 */
#define RUN_LEVEL         "SIJIL_ASSURANCE_"  /* of an admission, with a digit after it */
#define RUN_CHECK_MACHINE "machine"           /* the check of a refusal that leaves the run to other runners */
#define RUN_CLOCK_SKEW_MS 60000               /* between the clock of keyd and those of runners and of people's machines */
#define RUN_LIFE_MAX_MS   INT64_C(2592000000) /* 30 days: of a request, an approval, an order */

/* The issuers in `claims` that are not the URL of an issuer. */
#define RUN_REGISTRY_ISSUER "sijil:registry" /* of a robot; its subject is the robot's UUID */
#define RUN_RULE_ISSUER     "sijil:rule"     /* of a trust rule; its subject is the rule's scope, ":" and its id */

/** A node of the attempt beside node 0. */
struct run_peer {
    const struct run_envelope *lease, *certificate, *result;
};

struct run_chain {
    const struct run_envelope *request;
    size_t approval_count;
    const struct run_envelope *approvals[RUN_APPROVALS_MAX];                     /* in the order of the order's `approvals` */
    const struct run_envelope *order, *lease, *certificate, *result, *admission; /* after the first NULL all are NULL */
    const struct run_envelope *refusal; /* in place of a result; it needs no certificate; or NULL */
    const struct run_peer *peers;       /* in the order of the nodes, from 1 on; with a result of node 0 */
    size_t peer_count;                  /* an admission needs all; without one there may be none */
};

/** Whether sijil-keyd has signed the request for the token of a trust rule. */
bool run_is_of_rule(const struct run_envelope *request);
/**
 * How many approvals the request needs if the policies ask for `asked`. Nobody knows the person that acts by a trust rule or with a robot's
 * token. So a request that sijil-keyd has signed for one of these needs one approval more, if the policies ask for any. The result may be more
 * than RUN_APPROVALS_MAX: then there can be no order.
 */
int64_t run_approvals_needed(const struct run_envelope *request, int64_t asked);

/** Checks a certificate against its lease and order alone: these three members. ERROR_DENIED, ERROR_NO_MEMORY. */
RESULT run_chain_check_certificate(const struct run_chain *chain, struct error *err);
/** Checks all envelopes that are not NULL. ERROR_DENIED names the broken rule; ERROR_NO_MEMORY. */
RESULT run_chain_check(const struct run_chain *chain, struct error *err);
