/*
 * outgoing/peers.h -- the regions that other gateways serve, and where these gateways are (docs/replication.md).
 *
 * Rule: a list comes from the configuration alone. Each call to a peer goes through outgoing_call(), with the networks that the operator allows.
 */
#pragma once

#include "base/bytes.h"
#include "base/result.h"

#define PEERS_MAX     16
#define PEER_NAME_MAX 63
#define PEER_URL_SIZE 256

struct peer {
    char region[PEER_NAME_MAX + 1];
    char url[PEER_URL_SIZE]; /* https://host:port, without a final slash; "": nothing is fetched from there */
};
struct peers {
    size_t count;
    struct peer each[PEERS_MAX];
};
/** Reads "ae/dxb=https://gate.example:9443, ae/auh", or "". Messages begin with `setting`. ERROR_INVALID; ERROR_LIMIT. */
RESULT peers_parse(const char *setting, const char *text, struct peers *peers_out, struct error *err);
/** NULL: the list does not name the region. */
const struct peer *peers_find(const struct peers *peers, const char *region);
/** The host of the URL, without its port; "" if there is none. */
void peer_host(const struct peer *peer, char host_out[PEER_URL_SIZE]);
