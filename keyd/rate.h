/*
 * keyd/rate.h -- limits how fast the keys of one project are unwrapped, and how fast tokens of one credential are signed. So
 * it limits the damage by a gateway under an attacker's control.
 *
 * A token bucket for each key. A table of fixed size holds the buckets that are not full. A key has a few possible places
 * in the table. If all of them hold other busy keys, the request is refused, never allowed.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "base/uuid.h"

#define UNWRAP_RATE_PER_S 2000 /* generous, because a gateway caches keys */
#define UNWRAP_BURST      10000

/**
 * For tokens for /api/v1. REALM: the robots of one organisation, or the subjects of one issuer. TENANTS: all realms
 * together. REGISTRY: the registry's own robots, whose limit no tenant can use up.
 *
 * Each limit is at most half of the one around it, in rate and burst. The last quarter of a shared limit is for
 * credentials and realms that lately took less than a quarter of their own limit. So programs that ask in a loop, with any
 * number of credentials, can't use up the part that an administrator needs to revoke them, and one organisation can't use
 * up the part of the others.
 *
 * A token is valid for at most 900 s, so a credential has at most 2,300 at a time, and all together have 22,200.
 */
#define SHARE_OF_ONE(one, all)             ((one)*2 <= (all))
#define ADMINISTRATION_RATE_PER_S          2
#define ADMINISTRATION_BURST               500
#define ADMINISTRATION_REALM_RATE_PER_S    4
#define ADMINISTRATION_REALM_BURST         1000
#define ADMINISTRATION_TENANTS_RATE_PER_S  12
#define ADMINISTRATION_TENANTS_BURST       3000
#define ADMINISTRATION_REGISTRY_RATE_PER_S 8
#define ADMINISTRATION_REGISTRY_BURST      1200
/** For all other tokens: 460,000 of a credential, 9.1 million in total. */
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
    const char *what; /* for error messages: "the project's keys are unwrapped" */
    int per_s, burst;
};

struct rate;

RESULT rate_new(const struct rate_limit *limit, struct rate **rate_out, struct error *err);
/** Takes one from the key's bucket at `now_ms` (monotonic). ERROR_LIMIT if it is empty. Thread-safe. */
RESULT rate_take(struct rate *rate, const struct uuid *key, int64_t now_ms, struct error *err);
/** How much a key has taken lately, and the most that it can take at once, in thousandths of one. The first amount shrinks
 *  at an eighth of the key's rate. */
struct rate_use {
    int64_t taken, all;
};
struct rate_use rate_use_of(struct rate *rate, const struct uuid *key, int64_t now_ms);
/** As rate_take(), from a shared bucket: its last quarter is for keys that lately took less than a quarter of their own limit
 *  (base/share.h). */
RESULT rate_take_shared(struct rate *rate, const struct uuid *key, int64_t now_ms, const struct rate_use *own, struct error *err);
/** Puts one back into the key's bucket. It was taken at `now_ms` and was not used. */
void rate_return(struct rate *rate, const struct uuid *key, int64_t now_ms);
void rate_free(struct rate *rate);
DEFINE_OWNED(rate);
