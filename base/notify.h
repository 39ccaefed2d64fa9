/*
 * base/notify.h -- tells the service manager how a server is, as sd_notify(3) has it: one datagram to the socket that NOTIFY_SOCKET
 * names, a path, or '@' and an abstract name. Without that variable nobody is told, and nothing here fails.
 *
 * In this order: notify_find() before the environment is cleared, notify_connect() before a system call filter and from one thread,
 * then notify_tell().
 */
#pragma once

#include "base/result.h"

/** Takes NOTIFY_SOCKET out of the environment, so that no child speaks for this process. */
void notify_find(void);
/** ERROR_INVALID: it is no name of a socket; ERROR_UNAVAILABLE: nobody listens there. */
RESULT notify_connect(struct error *err);
/** "READY=1", "STOPPING=1". What the manager does not take within a second is lost: false. */
bool notify_tell(const char *state);
