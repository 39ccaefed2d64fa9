/*
 * runner/sandbox/closed.h -- what the first program beside untrusted code looks at, from inside. Of the C library alone: programs without libraries use it.
 */
#pragma once

#include <stdbool.h>

/**
 * Whether the kernel refuses each connection to the address at once, because there is no route, or no right to a socket. A connection that
 * begins, or that a peer refuses, has left the confinement. False also for a text that is no address.
 */
bool closed_to(const char *address, const char *port);
/**
 * Whether nothing answers there, for a network that may drop instead of refusing: neither a connection nor a refusal (TCP) within
 * `patience_ms`, and at port 53 no answer to a question (UDP).
 */
bool closed_silent(const char *address, const char *port, int patience_ms);
/** No capability in any set, no new privileges, a system call filter, and not root. NULL, or what is wrong. */
const char *closed_privileges(void);
