/*
 * base/notify.h -- reports the state of a server to the service manager, as sd_notify(3) does. It sends one datagram to the
 * socket that NOTIFY_SOCKET names: a path, or '@' and an abstract name. Without that variable nothing is sent, and no
 * function here fails.
 *
 * Call in this order: notify_find() before the environment is cleared; notify_connect() before the system call filter, with
 * one thread; then notify_send().
 */
#pragma once

#include "base/result.h"

/** Removes NOTIFY_SOCKET from the environment, so that no child process can use it. */
void notify_find(void);
/** ERROR_INVALID: it is not the name of a socket. ERROR_UNAVAILABLE: no process listens there. */
RESULT notify_connect(struct error *err);
/** "READY=1", "STOPPING=1". False: the manager did not take it within a second. */
bool notify_send(const char *state);
