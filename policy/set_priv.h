/*
 * policy/set_priv.h -- what a compiled policy set consists of.
 */
#pragma once

#include <stdatomic.h>

#include "policy/compiled_priv.h"
#include "policy/set.h"

struct set_region {
    const char *id;
    struct target *target;
};

/* A block of addresses; IPv4 and IPv6 never match each other. */
struct set_network {
    const char *cidr;
    bool is_ipv4;
    unsigned prefix_bits;
    uint8_t address[16]; /* IPv4: the first four */
    struct target *target;
};

/* What was stored under this policy, in these places, keeps its label no longer. */
struct declassification {
    const char *policy;
    struct scope_list scopes;
};

struct policy_set {
    _Atomic unsigned holders;
    _Atomic uint64_t judged_until;         /* see policy_set_judged_until() */
    json_t *json;
    uint64_t epoch;
    char digest[SHA_TEXT_SIZE];
    struct policy_documents *documents;
    struct policy_groups *groups;
    struct target *unknown;
    struct arena *arena;
    size_t region_count, network_count, exception_count, declassified_count;
    struct set_region *regions;            /* sorted by id */
    struct set_network *networks;          /* longest prefix first */
    struct policy_exception **exceptions;  /* sorted by project, then canonical text */
    struct declassification *declassified; /* in the arena */
};

/** "10.1.0.0/16" or "2001:db8::/32" in its one spelling, no bits set behind the prefix; ERROR_INVALID. */
RESULT network_parse(const char *cidr, struct set_network *network, struct error *err);
/** For qsort: longest prefix first. */
int compare_networks(const void *a, const void *b);
