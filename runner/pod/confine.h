/*
 * runner/pod/confine.h -- what the payload's side can't do any more: the list of system calls of a sandbox, and no socket of a network.
 *
 * All containers of a pod share one network, the agent's, so a rule of the network would give to the payload what the agent needs. A run with several tasks gets
 * sockets all the same, which the payload's first program makes (loopback.h).
 */
#pragma once

#include "base/result.h"

enum confinement {
    CONFINE_ALONE, /* no socket but AF_UNIX */
    CONFINE_TASKS, /* streams of AF_INET, too: the caller's listener makes them; and questions which network devices there are (AF_NETLINK, NETLINK_ROUTE) */
    CONFINE_LISTENER /* the process that makes them: it may open sockets of its own */
};
/**
 * For this process and its later children; call sandbox_prepare() first. *listener_out gets the descriptor of CONFINE_TASKS (seccomp_unotify(2)), else -1.
 * ERROR_DENIED.
 */
RESULT pod_confine(enum confinement confinement, int *listener_out, struct error *err);
