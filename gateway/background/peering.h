/*
 * gateway/background/peering.h -- the port at which gateways of other regions fetch what they may copy (docs/replication.md, "Gateways of regions").
 *
 * Rule: it serves nobody but them. TLS 1.3 with a certificate of a client, signed by an authority of `peer_ca`, whose URI is sijil:region:REGION; that region is the
 * one of the request, and the policies are asked here again before a byte is read.
 */
#pragma once

#include "base/owned.h"
#include "base/result.h"

struct gateway;
struct peering;

/** *peering_out is NULL if the configuration has no peer_listen_port. Its readers and senders must run. */
RESULT peering_start(struct gateway *gateway, struct peering **peering_out, struct error *err);
/** Reads certificate, key and authorities again. NULL: nothing. */
RESULT peering_reload(struct peering *peering, struct error *err);
/** Lets transfers end for up to shutdown_timeout. */
void peering_free(struct peering *peering);
DEFINE_OWNED(peering);
