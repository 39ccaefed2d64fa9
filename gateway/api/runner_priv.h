/*
 * gateway/api/runner_priv.h -- what the routes of people about runners have in common (docs/runner.md, "Enrolling a runner").
 */
#pragma once

#include "documents/format/runner_key.h"
#include "documents/invitation.h"
#include "gateway/api/document_priv.h"
#include "gateway/pipeline/signed_body.h"

#define RUNNER_SIGNERS (1 + RUNNER_APPROVERS) /* the runner's own key, and two approvers if the root has not signed */

/** A runner's key in any scope: whether a document of it is known, and whether one withdraws it. */
struct known_runner {
    bool is_known, is_withdrawn;
    int64_t since_ms;          /* of withdrawals: the earliest time since which its results do not count */
    struct document *document; /* its enrolment or its withdrawal; NULL: not in this scope. Owned */
};
/** Looks in all scopes for the name, and in `scope` for its document. */
RESULT runner_known(const struct request *request, const char *scope, const char *name, struct known_runner *known_out,
                    struct error *err);
