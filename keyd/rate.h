/*
 * keyd/rate.h -- how fast one project's keys may be unwrapped, and tokens of one credential be signed: what a gateway
 * that was taken over can carry away.
 *
 * A token bucket for each key. A table of fixed size holds those that are not full; when a key's part of the
 * table is full of busy others it is refused, never let through.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "base/uuid.h"

#define UNWRAP_RATE_PER_S 2000  /* generous: a gateway caches keys */
#define UNWRAP_BURST      10000

/**
 * Of tokens for /api/v1. REALM: the robots of one organisation, or the subjects of one issuer. TENANTS: all of those. REGISTRY: the
 * registry's own robots, whose share no tenant can use up.
 *
 * Each share is at most half of the one around it, in rate and burst, and the last quarter of what is shared is for those that lately took
 * less than a quarter of their own: programs that ask in a loop, with however many credentials, leave it to an administrator who revokes
 * them; and organisations whose robots do so leave it to the others.
 * A token lives at most 900 s, so a credential has 2,300 at a time at most, and all together 22,200.
 */
#define SHARE_OF_ONE(one, all) ((one) * 2 <= (all))
#define ADMINISTRATION_RATE_PER_S          2
#define ADMINISTRATION_BURST               500
#define ADMINISTRATION_REALM_RATE_PER_S    4
#define ADMINISTRATION_REALM_BURST         1000
#define ADMINISTRATION_TENANTS_RATE_PER_S  12
#define ADMINISTRATION_TENANTS_BURST       3000
#define ADMINISTRATION_REGISTRY_RATE_PER_S 8
#define ADMINISTRATION_REGISTRY_BURST      1200
/** Of all others: 460,000 of a credential, 9.1 million of all. */
#define MINT_RATE_PER_S          500
#define MINT_BURST               10000
#define MINT_REALM_RATE_PER_S    3000
#define MINT_REALM_BURST         30000
#define MINT_TENANTS_RATE_PER_S  8000
#define MINT_TENANTS_BURST       80000
#define MINT_REGISTRY_RATE_PER_S 2000
#define MINT_REGISTRY_BURST      20000

_Static_assert(SHARE_OF_ONE(ADMINISTRATION_RATE_PER_S, ADMINISTRATION_REALM_RATE_PER_S) &&
                   SHARE_OF_ONE(ADMINISTRATION_BURST, ADMINISTRATION_REALM_BURST) &&
                   SHARE_OF_ONE(ADMINISTRATION_RATE_PER_S, ADMINISTRATION_REGISTRY_RATE_PER_S) &&
                   SHARE_OF_ONE(ADMINISTRATION_BURST, ADMINISTRATION_REGISTRY_BURST) &&
                   SHARE_OF_ONE(ADMINISTRATION_REALM_RATE_PER_S, ADMINISTRATION_TENANTS_RATE_PER_S) &&
                   SHARE_OF_ONE(ADMINISTRATION_REALM_BURST, ADMINISTRATION_TENANTS_BURST) &&
                   SHARE_OF_ONE(MINT_RATE_PER_S, MINT_REALM_RATE_PER_S) && SHARE_OF_ONE(MINT_BURST, MINT_REALM_BURST) &&
                   SHARE_OF_ONE(MINT_RATE_PER_S, MINT_REGISTRY_RATE_PER_S) && SHARE_OF_ONE(MINT_BURST, MINT_REGISTRY_BURST) &&
                   SHARE_OF_ONE(MINT_REALM_RATE_PER_S, MINT_TENANTS_RATE_PER_S) &&
                   SHARE_OF_ONE(MINT_REALM_BURST, MINT_TENANTS_BURST),
               "one credential or organisation could use up what others need");

struct rate_limit {
    const char *what; /* for people: "the project's keys are unwrapped" */
    int per_s, burst;
};

struct rate;

RESULT rate_new(const struct rate_limit *limit, struct rate **rate_out, struct error *err);
/** Takes one from the key's bucket at `now_ms` (monotonic); ERROR_LIMIT when it is empty. Thread-safe. */
RESULT rate_take(struct rate *rate, const struct uuid *key, int64_t now_ms, struct error *err);
/** How much a key has taken lately, of how much it can have at once, in thousandths of one. It is forgotten at an eighth of its rate. */
struct rate_use {
    int64_t taken, all;
};
struct rate_use rate_use_of(struct rate *rate, const struct uuid *key, int64_t now_ms);
/** As rate_take(), from a bucket that many share: its last quarter is for those that lately took less than a quarter of their own (base/share.h). */
RESULT rate_take_shared(struct rate *rate, const struct uuid *key, int64_t now_ms, const struct rate_use *own, struct error *err);
/** One was taken at `now_ms`, and not used: it goes back into the key's bucket. */
void rate_return(struct rate *rate, const struct uuid *key, int64_t now_ms);
void rate_free(struct rate *rate);
DEFINE_OWNED(rate);
