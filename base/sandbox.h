/*
 * base/sandbox.h -- what a server can still do once it has started. The process that holds the keys: compute, serve the
 * socket it has, and write the ledger it has open; no new socket, no file, no program, no new memory that can be run. The
 * gateway: all but what only somebody who took it over would ask for.
 */
#pragma once

#include "base/result.h"

/** At the very start: not dumpable or traceable, no core files, no new privileges, umask 0077. */
RESULT sandbox_prepare(struct error *err);
/**
 * Locks all memory, present and future, where the limit allows it; secrets are locked in any case. False when it
 * does not: swap should be encrypted then.
 */
bool sandbox_lock_memory(void);
/**
 * For a worker with a vendor's module in it, which opens files and sockets: it may start no program, look into no other
 * process, and change no user, mount or kernel. EPERM.
 */
RESULT sandbox_enter_helper(struct error *err);
/** Filters the system calls of all threads from now on; all else fails with EPERM. */
RESULT sandbox_enter(struct error *err);
/**
 * For the gateway, once it has started: no program and no process, no look into others, no change of user, mount, clock or kernel,
 * no keys of the kernel, no io_uring, which would pass by this filter. For all threads; EPERM. A build with sanitizers, which
 * look into themselves at their end, may still make processes by clone(2) and trace.
 */
RESULT sandbox_enter_gateway(struct error *err);
