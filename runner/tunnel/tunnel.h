/*
 * runner/tunnel/tunnel.h -- carries packets between the sandboxes of the nodes of one attempt (docs/runner.md, "Several nodes").
 *
 * A thread has one TLS connection to each other node. Both sides prove the certified keys of their attempt, and name both leases, before a packet
 * passes. A packet passes only from its own node to its own node, which both sides check; every other one is dropped, and counted. No packet reaches the network of
 * this machine: it comes from the device of a sandbox, and goes into such a device.
 *
 * A connection that is lost is made again. If a node can't be reached for `patience_ms`, the tunnel is broken for good.
 */
#pragma once

#include <signal.h>

#include "base/owned.h"
#include "crypto/ecdsa.h"
#include "runner/tunnel/frame.h"

#define TUNNEL_NODES_MAX    256
#define TUNNEL_ADDRESS_SIZE 48 /* an IPv6 address */
#define TUNNEL_WHY_SIZE     224

/** Another node. */
struct tunnel_node {
    int64_t node;
    char key[ECDSA_THUMBPRINT_SIZE]; /* of its attempt, which its runner has certified for its lease */
    uint8_t lease[TUNNEL_DIGEST_SIZE];
    char address[TUNNEL_ADDRESS_SIZE]; /* where its runner listens */
    unsigned port;
};

struct tunnel_options {
    const struct ecdsa_key *key; /* of this attempt; it must live longer, and so must `others` */
    int64_t node, nodes;
    uint8_t lease[TUNNEL_DIGEST_SIZE]; /* of this node */
    const struct tunnel_node *others;  /* all of them: `nodes` - 1 */
    int door, device; /* the socket that listens; the device of the sandbox. tunnel_start() takes both over in any case */
    int64_t patience_ms;
};

struct tunnel;
/** Starts the thread. A node with a larger number connects to one with a smaller number. */
RESULT tunnel_start(const struct tunnel_options *options, struct tunnel **tunnel_out, struct error *err);
/** Waits until all nodes are connected. ERROR_UNAVAILABLE: it is broken, or *cancelled is not 0. */
RESULT tunnel_wait(struct tunnel *tunnel, const volatile sig_atomic_t *cancelled, struct error *err);
/** Whether it is broken; then `why_out` names the node. */
bool tunnel_is_broken(struct tunnel *tunnel, char why_out[TUNNEL_WHY_SIZE]);

struct tunnel_counts {
    uint64_t packets, bytes; /* that passed, in both directions */
    uint64_t dropped;        /* that may not pass, or found no room */
    uint64_t strangers;      /* connections of others that were refused */
    uint64_t joined;         /* connections that were made with other nodes */
};
struct tunnel_counts tunnel_counts(struct tunnel *tunnel);

/** The program of this node has ended, and sends nothing new. Tells the other nodes. */
void tunnel_end(struct tunnel *tunnel);
/**
 * After that: carries on what the kernel of the sandbox still sends, until the programs of all nodes have ended; as a machine does whose program has
 * ended. At most `patience_ms`, or until *cancelled is not 0.
 */
void tunnel_linger(struct tunnel *tunnel, int64_t patience_ms, const volatile sig_atomic_t *cancelled);
void tunnel_free(struct tunnel *tunnel);
DEFINE_OWNED(tunnel);
