/*
 * base/sandbox.h -- limits what a program can do after its start (seccomp).
 *
 * sijil-keyd can then compute, serve its socket and write its open ledger: no new socket, file or program, no new
 * executable memory. The gateway loses the system calls that only an attacker would use. A foreign program loses the calls
 * with which it could leave its confinement.
 */
#pragma once

#include "base/result.h"

/** Call it first: not dumpable or traceable, no core files, no new privileges, umask 0077. */
RESULT sandbox_prepare(struct error *err);
/**
 * Locks all present and future memory, if the limit allows it; secrets are locked in any case. False: it was not locked, so
 * swap should be encrypted.
 */
bool sandbox_lock_memory(void);
/**
 * For a worker process with a vendor's module, which opens files and sockets: it may not start a program, look into another
 * process, or change users, mounts or the kernel. These calls fail with EPERM.
 */
RESULT sandbox_enter_helper(struct error *err);
/** For sijil-keyd: allows a short list of system calls, for all threads, from now on. All others fail with EPERM. */
RESULT sandbox_enter(struct error *err);
/**
 * For the gateway, after its start: no program and no new process, no access to other processes, no change of user, mounts,
 * clock or kernel, no kernel keys, and no io_uring, which would bypass this filter. For all threads; EPERM. A build with
 * sanitizers may still create processes by clone(2) and trace them, because the sanitizers do so at the end.
 */
RESULT sandbox_enter_gateway(struct error *err);
/**
 * For a foreign program, before it begins (child_options.confine): it may start processes and programs. It gets no
 * namespace, mount, user, trace, kernel key, kernel module, clock or io_uring. EPERM. Its child processes have the same
 * filter.
 */
RESULT sandbox_enter_program(struct error *err);
/**
 * For code that nobody has read: writes a filter to `fd`, in the form that bwrap(1) reads (a list of struct sock_filter). A list
 * of calls is allowed. Calls that a library may try in good faith fail with EPERM (trace, mount, namespaces, users, kernel keys);
 * calls that only an attack on the kernel would use (modules, bpf, kexec) end the process; all others do not exist (ENOSYS).
 * Sockets: AF_UNIX, AF_INET and AF_INET6 alone. Calls of another architecture end the process.
 */
enum sandbox_code {
    SANDBOX_CODE,
    SANDBOX_UNPACKS, /* it unpacks an archive, so it may also set owners, which the kernel allows it for its own user alone */
    SANDBOX_TASKS, /* it talks to other tasks: it may also ask which network devices its own namespace has (AF_NETLINK, NETLINK_ROUTE) */
};
RESULT sandbox_write_filter(int fd, enum sandbox_code code, struct error *err);
