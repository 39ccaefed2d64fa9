/*
 * runner/enrolment/certificate.h -- the client certificate of an enrolled runner: the first one, and each next one.
 *
 * A certificate lasts at most 30 days. The next one is asked for with the present one, so a runner that was off until its certificate ended must prove
 * its key again, as for the first one: certificate_get() does what is needed.
 */
#pragma once

#include <signal.h>

#include "runner/enrolment/registry.h"

/**
 * The certificate for a runner without a valid one: the key proves who asks. ERROR_DENIED: the document is not in force (not approved yet, expired
 * or withdrawn), or the clock is wrong; the message is the registry's. ERROR_UNAVAILABLE: try again later.
 */
RESULT certificate_get(struct runner_state *state, int64_t now_ms, struct error *err);

/** What a person sees and does while a runner waits for its approval. */
struct certificate_waiting {
    const volatile sig_atomic_t *cancelled; /* not 0: the wait ends */
    void (*tell)(const char *message); /* why there is no certificate yet, when that changes; the text may be the registry's */
};
/**
 * Asks again and again, at most once a minute, until there is a certificate. *is_there_out false: it was cancelled. ERROR_DENIED when the draft has waited for
 * so long that it can't be approved any more; other errors of certificate_get() but ERROR_UNAVAILABLE.
 */
RESULT certificate_wait(struct runner_state *state, const struct certificate_waiting *waiting, bool *is_there_out,
                        struct error *err);

/**
 * Makes sure that the certificate is good for a while. Does nothing unless it is due. *renewed_out true: `state` has another one, so open new connections.
 * A failure leaves the present one in use: try again in a while. Errors of certificate_get().
 */
RESULT runner_renew(struct runner_state *state, int64_t now_ms, bool *renewed_out, struct error *err);
