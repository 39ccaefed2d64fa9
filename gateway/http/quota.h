/*
 * gateway/http/quota.h -- how many requests one address or one principal may have at a time, and a second, and how much memory.
 *
 * Nobody can take all workers, or fill the audit log, for others. Keys are hashed; the table has a fixed size. Where it is full, a
 * new key takes the place of one of the realm that has the most there, if that is not its own: so many robots of one tenant
 * take the places of each other. Else it is refused like one that has too many.
 */
#pragma once

#include <stdint.h>

#include "base/owned.h"
#include "base/result.h"

#define QUOTA_HELD 2 /* kinds of memory, which are counted apart */

struct quota;

struct quota_limits {
    unsigned at_a_time;
    unsigned rate;       /* a second, with a burst of ten times as many; 0: not limited */
    const char *realm;   /* whose keys have their places together: an organisation, an issuer; NULL: this key stands alone */
};

/** Taken by quota_enter(), given back by quota_leave(). Zeroed: none. */
struct quota_ticket {
    unsigned slot;                  /* 1 + index */
    int64_t held_bytes[QUOTA_HELD]; /* quota_hold() */
};

/** Room for `keys` keys at a time. */
RESULT quota_new(unsigned keys, struct quota **quota_out, struct error *err);
/** ERROR_LIMIT, whose message names the limit. `kind` keeps addresses and principals apart. */
RESULT quota_enter(struct quota *quota, const char *kind, const char *key, const struct quota_limits *limits,
                   struct quota_ticket *ticket_out, struct error *err);
/**
 * Counts memory of one kind (less than QUOTA_HELD) that the ticket's key has: bytes, less than 0 when they are given back. False: it
 * has more than `most` now; that counts, too, until it is given back, or the ticket is. Without a ticket nothing is counted: true.
 */
bool quota_hold(struct quota *quota, struct quota_ticket *ticket, unsigned kind, int64_t bytes, int64_t most);
/** A number for a key, which nobody outside can foresee; 0: the key is too long. */
uint64_t quota_number(const struct quota *quota, const char *kind, const char *key);
void quota_leave(struct quota *quota, struct quota_ticket *ticket);

void quota_free(struct quota *quota);
DEFINE_OWNED(quota);
