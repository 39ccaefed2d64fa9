/*
 * runner/order/order_check.h -- whether this runner may run the order of its lease (docs/formats/run.md, "A runner, before it
 * runs").
 *
 * The registry that sent the bundle is not trusted. Envelopes, keys and the order's event are proven with the keys that were
 * pinned at the enrolment. The runner's properties come from its own document and its own machine. The first check that fails is
 * reported.
 *
 * Not checked here: the policies (runner/order/order_policy.h), and the digests of fetched artifacts.
 */
#pragma once

#include "runner/devices/devices.h"
#include "runner/order/lease_journal.h"
#include "training/format/bundle.h"

#define ORDER_REASON_SIZE 257 /* as in a refusal */

/** The properties of this runner, and what it offers to one run. */
struct order_terms {
    const struct run_trust *trust; /* pinned at the enrolment */
    const char *audience;          /* origin of the log, pinned at the enrolment */
    const char *key;               /* the thumbprint of its own key */
    struct runner_key own;         /* its own document */
    enum isolation isolation;      /* of this machine */
    struct run_limits most;        /* the maximum of each limit */
    const struct lease_journal *journal;
    const struct devices *devices; /* NULL: none */
    const char *device_folder;
    bool in_pod, joins_nodes; /* what it can run (runner/payload/payload.h) */
    int64_t now_ms;           /* wall time */
};

/** The check that failed, and the reason, for a signed refusal. `check` is NULL if all hold. */
struct order_refusal {
    const char *
        check; /* size, form, proof, lease, audience, time, nonce, pool, jurisdiction, isolation, devices, limits; RUN_CHECK_MACHINE */
    char reason[ORDER_REASON_SIZE];
};

/**
 * *bundle_out is NULL if `size`, `form` or `proof` is refused. *grant_out has the devices that the run gets. Fails for local reasons only:
 * ERROR_NO_MEMORY.
 */
RESULT order_check(struct bytes text, const struct order_terms *terms, struct run_bundle **bundle_out,
                   struct device_grant *grant_out, struct order_refusal *refusal_out, struct error *err);
/** The lease of a bundle, as the journal keeps it. */
void order_lease(const struct run_bundle *bundle, struct taken_lease *lease_out);
