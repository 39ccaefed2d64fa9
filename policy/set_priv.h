/* policy/set_priv.h -- a compiled policy set. */
#pragma once

#include <stdatomic.h>

#include "base/network.h"
#include "policy/compiled_priv.h"
#include "policy/set.h"

struct set_region {
    const char *id;
    struct policy_target *target;
};

struct set_network {
    const char *cidr;
    struct network block;
    struct policy_target *target;
};

/* Content that was stored under this policy, in these scopes, loses the policy's label. */
struct declassification {
    const char *policy;
    struct scope_list scopes;
};

struct policy_set {
    _Atomic unsigned holders;
    _Atomic uint64_t checked_until; /* see policy_set_checked_until() */
    json_t *json;
    struct buffer envelope; /* empty: it was not read from one */
    uint64_t epoch;
    char digest[SHA_TEXT_SIZE];
    struct policy_documents *documents;
    struct policy_groups *groups;
    struct policy_target *unknown;
    struct arena *arena;
    size_t region_count, network_count, exception_count, declassified_count;
    struct set_region *regions;            /* sorted by id */
    struct set_network *networks;          /* longest prefix first */
    struct policy_exception **exceptions;  /* sorted by project, then canonical text */
    struct declassification *declassified; /* in the arena */
};

/** "10.1.0.0/16" or "2001:db8::/32" in canonical form, with no bits set after the prefix; ERROR_INVALID. */
RESULT set_network_parse(const char *cidr, struct set_network *network, struct error *err);
/** For qsort: longest prefix first. */
int compare_networks(const void *a, const void *b);
