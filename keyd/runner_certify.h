/*
 * keyd/runner_certify.h -- makes the client certificate of a runner (crypto/runner_certificate.h, docs/runner.md).
 *
 * keyd composes it from the runner's document, with its own clock. The document must be one that keyd has pinned. A certificate gives no right:
 * gateways look the document up at each request, so they refuse a runner that was withdrawn.
 */
#pragma once

#include "crypto/keyd_client.h"
#include "keyd/answer.h"

/** Appends the DER. ERROR_DENIED: the document was not pinned, or is not in force, or the key was withdrawn. ERROR_CONFLICT: a newer document was pinned. */
RESULT runner_certify(const struct keyd *keyd, const struct document_chain_request *request, int64_t now_ms, struct buffer *der,
                      struct error *err);
