/*
 * gateway/pipeline/runner_gate.h -- authenticates runners (docs/runner.md, "How a runner is known").
 *
 * A runner is known by its client certificate alone, which names its UUID and its key. The certificate gives nothing by itself: at each
 * request the key must stand in a document of the kind runner with this UUID, which sijil-keyd has pinned and which is in force. The view of
 * documents is compared with keyd's newest pin each time, so a withdrawn runner is refused at its next request, on every gateway.
 */
#pragma once

#include "authz/authenticate.h"
#include "documents/format/runner_key.h"
#include "gateway/pipeline/request.h"
#include "policy/set.h"

#define RUNNER_JURISDICTIONS_MAX 16
#define RUNNER_JURISDICTION_SIZE 33

/** The facts of the runner's enrolment. The approvers have signed all of them. */
struct enrolled_runner {
    struct runner_key key; /* without its JSON: see below */
    bool is_attested;
    char name[ECDSA_THUMBPRINT_SIZE]; /* of the document: the thumbprint of the key */
    char scope[DOCUMENT_SCOPE_SIZE];  /* "": the registry, "acme": an organisation */
    uint64_t sequence;                /* of the event that put the document into force */
    int64_t expires_ms;               /* of the document */
    size_t jurisdiction_count;
    char jurisdictions[RUNNER_JURISDICTIONS_MAX][RUNNER_JURISDICTION_SIZE];
};

/** Where the signed record of the request's runner and its connection together say that it is; POLICY_RUNNER_NONE for another client. */
enum policy_runner runner_gate_place(const struct request *request);
/** The name of that place, for questions to the policies: the runner's region, or "attested:" before it. */
void runner_gate_name(const struct request *request, char place_out[RUNNER_PLACE_SIZE]);
/** For a request that has waited: whether the document that authenticated it is still in force. */
RESULT runner_still_counts(const struct request *request, struct pg *pg, bool *counts_out, struct error *err);
/**
 * For routes of CREDENTIAL_RUNNER, on a worker. Sets request->runner. A request without the certificate of a runner, or with another
 * credential besides, is not authenticated; `found` says why. ERROR_UNAVAILABLE, ERROR_CORRUPT: nobody can be known now.
 */
RESULT runner_authenticate(struct request *request, struct pg *pg, const struct credential *credential,
                           struct authentication *found, struct error *err);
/** The same for a runner that has proven its key in another way: `claimed` is in the arena, and names the key and the runner. */
RESULT runner_authenticate_claimed(struct request *request, struct pg *pg, const struct runner_certificate *claimed,
                                   int64_t now_ms, struct authentication *found, struct error *err);
