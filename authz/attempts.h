/*
 * authz/attempts.h -- how many wrong secrets of one network are looked into and logged, in all and for one name.
 *
 * A network is an IPv4 address, or the first 64 bits of an IPv6 address. Names are counted for each network apart, so
 * that a stranger who knows a robot's name does not fill the share of those elsewhere. A right secret is good beyond any
 * limit: what is limited is the work and the log that wrong ones cost, not who gets in. The table has a fixed size: where
 * it is full, what comes new takes the place of the key that did least. A name counts whether or not a robot has it.
 * authenticate() asks here, so no route has to. Thread-safe.
 */
#pragma once

#include <sys/socket.h>

#include "base/bytes.h"
#include "base/owned.h"

struct attempts;

/** A minute, and so many at once; 0: any number. */
struct attempts_limits {
    unsigned per_network, per_name;
};
RESULT attempts_new(const struct attempts_limits *limits, struct attempts **attempts_out, struct error *err);

struct attempts_who {
    const struct sockaddr *client; /* NULL: behind a proxy that has the addresses; all of these are one network */
    struct bytes name;
};
/**
 * Counts an attempt. False: too many were wrong of late, none is counted, and *wait_s_out seconds later one more is
 * allowed. `now_ms` is of the monotonic clock.
 */
bool attempts_begin(struct attempts *attempts, const struct attempts_who *who, int64_t now_ms, unsigned *wait_s_out);
/** The secret was right: what attempts_begin() counted does not count. */
void attempts_forgive(struct attempts *attempts, const struct attempts_who *who, int64_t now_ms);

void attempts_free(struct attempts *attempts);
DEFINE_OWNED(attempts);
