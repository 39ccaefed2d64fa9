/*
 * runner/sandbox/proof.h -- addresses that a payload must not reach, and the messages of the program that tests this from inside.
 */
#pragma once

#include "base/bytes.h"

#define PROOF_ADDRESSES_MAX 16
#define PROOF_TEXT_SIZE     48 /* an IPv6 address */

struct proof_address {
    char address[PROOF_TEXT_SIZE];
    char port[6];
};

/**
 * The metadata addresses of clouds, the machine's name servers and gateways, and `extra` (the registry's own addresses): written to
 * `addresses`, PROOF_ADDRESSES_MAX at most. Name servers of the machine's own loopback are left out: a sandbox has its own.
 */
size_t proof_addresses(const struct proof_address *extra, size_t extra_count, struct proof_address *addresses);

/** The next message on the socket, with the process that sent it. Waits at most `patience_ms`. ERROR_UNAVAILABLE: none came. */
struct proof_message {
    char text[256];
    pid_t sender; /* as this process sees it */
    bool is_end;  /* the other side has closed it */
};
RESULT proof_receive(int channel, int patience_ms, struct proof_message *message_out, struct error *err);
/** A pair of sockets for whole messages; the first socket tells the sender of each message. */
RESULT proof_channel(int ends_out[2], struct error *err);
