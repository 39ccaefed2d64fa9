/*
 * gateway/pipeline/run_gate.h -- what the token of a run may do in one request (docs/runs.md, "What a run may read and write").
 *
 * A token of a run gives nothing by itself. At each request the runner's document must be in force, its certificate must be the one that the
 * token is bound to, the lease must go on, and lease and order must be what sijil-keyd has signed. Then the order says what this one request may
 * read or write.
 */
#pragma once

#include "authz/authenticate.h"
#include "gateway/pipeline/request.h"
#include "training/lease.h"

/** The lease behind a request of a principal of the kind PRINCIPAL_RUN. */
struct run_grant {
    struct run_holder holder;          /* its key is the next member */
    char key[RUN_KEY_SIZE];            /* thumbprint of the runner's key */
    char region[REGION_ID_MAX + 1];    /* of the runner, as its approvers have signed it */
    int64_t upload_max;                /* bytes of all blobs of this lease */
    bool resumes;                      /* the request is for the manifest of the checkpoint that the order names */
    char checkpoint[DIGEST_TEXT_SIZE]; /* the request may be for a blob of this checkpoint; "": it is not */
};

/**
 * The order of a lease; both must be what sijil-keyd has signed, for this holder, at this time. *ends_ms_out: the lease's end. ERROR_DENIED: it has
 * signed no such lease; ERROR_CORRUPT: no such order.
 */
RESULT run_lease_prove(const struct request *request, struct pg *pg, const struct run_holder *holder,
                       struct run_envelope **order_out, int64_t *ends_ms_out, struct error *err);
/**
 * Whether an envelope certifies a key for the lease of this holder, which sijil-keyd has signed, with the runner's key, for this time. ERROR_INVALID: it is no
 * certificate; ERROR_DENIED: it is not one for this lease; ERROR_CORRUPT.
 */
RESULT run_certificate_prove(const struct request *request, struct pg *pg, const struct run_holder *holder,
                             struct bytes certificate, struct error *err);
/** As run_lease_prove(), for a report of the holder that nothing is decided for. A row of an attempt alone lets nobody report. */
RESULT run_lease_require(const struct request *request, struct pg *pg, const struct run_holder *holder, struct error *err);
/** Whether a request with this credential must be authenticated on a worker: `pg` is NULL, and the token is a run's. */
bool run_gate_waits(const struct authentication *found, const struct pg *pg);
/**
 * For a token of a run: fills found->principal with what its order allows this request, and sets request->run; or `found` says why the token
 * counts no more. Does nothing for other credentials. ERROR_UNAVAILABLE, ERROR_CORRUPT.
 */
RESULT run_gate(struct request *request, struct pg *pg, struct authentication *found, struct error *err);
