/*
 * gateway/pipeline/enrolment_gate.h -- authenticates runners that have no certificate yet (docs/runner.md, "Enrolling a runner").
 *
 * The body has the credential: the code of an invitation with a proof of the key, or the proof alone once the runner's document is in force.
 * Wrong codes and wrong proofs are counted like wrong secrets. A code gives nothing by itself: its invitation must be signed by a key that may
 * approve, and what follows is a draft.
 */
#pragma once

#include "authz/authenticate.h"
#include "gateway/pipeline/request.h"
#include "gateway/pipeline/signed_body.h"

#define ENROLMENT_PROOF_MS 300000 /* a proof is valid for so long before and after its time */

/** The members of the body. The document that `envelope` signs must be exactly the one that follows from the invitation and the key. */
RESULT enrolment_body(struct request *request, const struct signed_body **body_out, struct error *err);

/**
 * For routes of CREDENTIAL_CODE, on a worker. The principal is the runner of the invitation, and request->is_repeated says whether this very document
 * has used the code already. ERROR_INVALID: the body is malformed.
 */
RESULT enrolment_authenticate(struct request *request, struct pg *pg, const struct credential *credential,
                              struct authentication *found, struct error *err);
/** For routes of CREDENTIAL_KEY, on a worker. Sets request->runner, as runner_authenticate() does. */
RESULT enrolment_key_authenticate(struct request *request, struct pg *pg, const struct credential *credential,
                                  struct authentication *found, struct error *err);
