/*
 * gateway/http/quota.h -- limits requests at a time, requests a second and memory, for each address and each principal.
 *
 * So no client can use up all workers or fill the audit log. Keys are hashed; the table has a fixed size. If there is no free slot, a new
 * key takes a slot from the realm that has the most slots there, unless that is its own realm: many robots of one tenant only displace
 * each other. If no slot can be taken, the key is refused as if it had too many requests.
 */
#pragma once

#include <stdint.h>

#include "base/owned.h"
#include "base/result.h"

#define QUOTA_HELD 2 /* kinds of memory, counted separately */

struct quota;

struct quota_limits {
    unsigned at_a_time;
    unsigned rate;     /* a second, with a burst of ten times as many; 0: no limit */
    const char *realm; /* the organisation or issuer that the key belongs to; NULL: the key stands alone */
};

/** One use of a quota, from quota_enter() to quota_leave(). Zeroed: none. */
struct quota_ticket {
    unsigned slot;                  /* 1 + index */
    int64_t held_bytes[QUOTA_HELD]; /* quota_hold() */
};

/** Room for `keys` keys at a time. */
RESULT quota_new(unsigned keys, struct quota **quota_out, struct error *err);
/** ERROR_LIMIT; its message names the limit. `kind` separates addresses from principals. */
RESULT quota_enter(struct quota *quota, const char *kind, const char *key, const struct quota_limits *limits,
                   struct quota_ticket *ticket_out, struct error *err);
/**
 * Counts memory of one kind (less than QUOTA_HELD) for the ticket's key; negative `bytes` give memory back. False: the key has more than
 * `most` now. That memory counts too, until it is given back or the ticket is. An empty ticket counts nothing and gives true.
 */
bool quota_hold(struct quota *quota, struct quota_ticket *ticket, unsigned kind, int64_t bytes, int64_t most);
/** A number for a key; outsiders can't foresee it. 0: the key is too long. */
uint64_t quota_number(const struct quota *quota, const char *kind, const char *key);
void quota_leave(struct quota *quota, struct quota_ticket *ticket);

void quota_free(struct quota *quota);
DEFINE_OWNED(quota);
