/* keyd/run_sign_priv.h -- one envelope of a run while it is made: what orders, leases and admissions have in common. */
#pragma once

#include "keyd/run_sign.h"

#define DAY_MS            86400000
#define HEX_32            65     /* 64 digits and '\0' */
#define ADMISSION_WAIT_MS DAY_MS /* after the order's end: a result may wait for a gateway that was down */

/* One envelope that is wanted. */
struct signing {
    const struct run_signer *signer;
    const struct keyd_run *wanted;
    enum run_type type;
    json_t *json; /* the bundle */
    size_t count;
    struct run_envelope *owned[RUN_TYPES + RUN_APPROVALS_MAX + 3 * RUN_PEERS_MAX];
    struct run_peer peers[RUN_PEERS_MAX]; /* of an admission */
    struct run_chain below;
    struct proof_report *event;
    struct run_promise promise;
    bool is_again; /* the ledger has the promise already */
};
void signing_done(struct signing *signing);
#define OWNED_SIGNING __attribute__((cleanup(signing_done))) struct signing

/** Sets whose share of the ledger the envelope takes: "acme/models" is a project of the organisation acme. */
void signing_set_share(struct signing *signing, struct bytes project);
/** Whether the trust rule that asked for the run is in force now, and is the newest that this keyd has pinned. ERROR_DENIED. */
RESULT signing_check_rule(const struct signing *signing, const struct run_bundle *bundle, struct error *err);

/**
 * Of a lease or an admission: whether the requester's key or trust rule was not withdrawn since the order, and the policy set in force allows the run where it
 * is. ERROR_DENIED; ERROR_UNAVAILABLE: the bundle does not have that set.
 */
RESULT signing_check_day(const struct signing *signing, const struct run_bundle *bundle, struct error *err);

/** Reads the bundle, up to the envelope below the wanted one. */
RESULT signing_begin(struct signing *signing, struct error *err);
/** Finds what was promised for this purpose; `below`: the digest of the envelope that it is about. */
void signing_subject(struct signing *signing, const char *below, unsigned attempt, unsigned node);
/** ERROR_DENIED unless the ledger has this order or lease. */
RESULT signing_check_promised(const struct signing *signing, const struct run_envelope *below, const char *subject_of,
                              unsigned attempt, unsigned node, struct error *err);
/** Checks the whole bundle, as far as it goes, and that each enrolment is pinned. */
RESULT signing_check_whole(const struct signing *signing, struct run_bundle **bundle_out, struct error *err);
/** Signs the payload, and adds the envelope to the bundle. ERROR_CONFLICT: another one was promised. */
RESULT signing_add(struct signing *signing, struct bytes payload, struct buffer *envelope, struct error *err);
/** The last step: the promise is durable before the envelope leaves. */
RESULT signing_release(struct signing *signing, const struct buffer *made, struct buffer *envelope, struct error *err);
