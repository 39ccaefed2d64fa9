/*
 * authz/attempts.h -- a rate limit for wrong secrets: for each network, and for each name within a network.
 *
 * A network is an IPv4 address, or the first 64 bits of an IPv6 address. A name is counted for each network
 * separately, so a client that knows a robot's name can't use up the limit of clients in other networks. A right
 * secret is accepted beyond any limit: only the work and the log entries that wrong secrets cost are limited. The
 * table has a fixed size: when a set is full, a new key replaces the key with the lowest count. A name counts whether
 * or not a robot has it. authenticate() calls this for all routes. Thread-safe.
 */
#pragma once

#include <sys/socket.h>

#include "base/bytes.h"
#include "base/owned.h"

struct attempts;

/** Attempts a minute, which may all come at once; 0: not limited. */
struct attempts_limits {
    unsigned per_network, per_name;
};
RESULT attempts_new(const struct attempts_limits *limits, struct attempts **attempts_out, struct error *err);

struct attempts_who {
    const struct sockaddr *client; /* NULL: the client's address is known to a proxy only; all such clients are one network */
    struct bytes name;
};
/**
 * Counts an attempt. False: too many recent attempts were wrong; this one is not counted, and *wait_s_out seconds
 * later one more is allowed. `now_ms` is monotonic time.
 */
bool attempts_begin(struct attempts *attempts, const struct attempts_who *who, int64_t now_ms, unsigned *wait_s_out);
/** Call it after a right secret: takes back the count of attempts_begin(). */
void attempts_reset(struct attempts *attempts, const struct attempts_who *who, int64_t now_ms);

void attempts_free(struct attempts *attempts);
DEFINE_OWNED(attempts);
