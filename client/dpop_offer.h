/*
 * client/dpop_offer.h -- asks a registry whether it binds tokens to keys: its metadata says so (RFC 9449, 5.1).
 *
 * The question has a proof, so the answer has the nonce for the next one, and no request is refused because it lacks one. Registries without such metadata get
 * no proofs, nor do those that know themselves by another host than the client does, because a proxy between changes it.
 */
#pragma once

#include "client/http.h"

/** From now on the requests have proofs of `key`, if the registry takes such. ERROR_UNAVAILABLE: it does not answer. */
RESULT dpop_offer(struct http *http, const struct ecdsa_key *key, struct error *err);
