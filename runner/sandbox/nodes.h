/*
 * runner/sandbox/nodes.h -- the network device of a sandbox whose attempt has several nodes (docs/runner.md, "Several nodes").
 *
 * It is a TUN device in the network namespace of the sandbox: what the payload sends to another node, and nothing else, comes out of its
 * descriptor. The payload gets no capability for it, and no packet of it is ever seen by this machine's own network.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/result.h"

#define NODES_MAX          256   /* docs/formats/run.md */
#define NODES_MTU          16000 /* bytes: a packet and its head fit into one record of TLS */
#define NODES_ADDRESS_SIZE 16    /* "198.18.1.0" */
#define NODES_DEVICE       "nodes0"

/** The IPv4 address of a node, in the order of this machine. RFC 2544: a range that no real network uses. */
uint32_t nodes_address(int64_t node);
/** The node with this address; -1: there is none. */
int64_t nodes_find(uint32_t address, int64_t nodes);
void nodes_address_text(int64_t node, char text_out[NODES_ADDRESS_SIZE]);

/**
 * Makes the device for `node` of `nodes` in the network namespace of the process `inside`, which this user has started. Only the other nodes'
 * addresses lead to it. The descriptor does not block; it keeps the namespace alive. ERROR_UNAVAILABLE names what this machine lacks.
 */
RESULT nodes_make_device(pid_t inside, int64_t node, int64_t nodes, int *device_out, struct error *err);
