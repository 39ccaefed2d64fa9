/*
 * outgoing/addresses.h -- the addresses of a host, for a program that shows that they are out of somebody's reach.
 *
 * Calls don't use it: outgoing_call() checks the very address that it connects to.
 */
#pragma once

#include <stddef.h>

#define OUTGOING_ADDRESS_SIZE 48 /* an IPv6 address with its zone */

struct outgoing_address {
    char address[OUTGOING_ADDRESS_SIZE], port[6];
};

/**
 * `host` is "registry.example", "127.0.0.1:8443" or "[::1]:8443"; without a port it is 443. Addresses of the own loopback are left out.
 * Returns how many were written, `room` at most; 0 also for a name that can't be resolved.
 */
size_t outgoing_addresses(const char *host, struct outgoing_address *addresses, size_t room);
