/* policy/set_priv.h -- a compiled policy set. */
#pragma once

#include <stdatomic.h>

#include "base/network.h"
#include "policy/compiled_priv.h"
#include "policy/set.h"

struct set_region {
    const char *id;
    json_t *record;               /* of the set's JSON: facts, "attested" and "store" */
    int64_t lapses_us;            /* the first moment at which an attested attribute has expired; INT64_MAX: none ever does */
    struct policy_target *target; /* its facts until then */
    struct policy_target *lapsed; /* and from then on: nothing is known of its attributes; NULL without an end */
    const char *attested_id;      /* "attested:" and the id; in the arena */
    struct policy_target *attested, *attested_lapsed; /* the same facts with the assurance of an attested runner */
};

struct set_network {
    const char *cidr; /* or "authority:sha256:..." or "listener:NAME" */
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
    size_t place_count;                    /* of `networks`: behind the networks the authorities and listeners, sorted by name */
    struct set_region *regions;            /* sorted by id */
    struct set_network *networks;          /* longest prefix first */
    struct policy_exception **exceptions;  /* sorted by project, then canonical text */
    struct declassification *declassified; /* in the arena */
};

/** "10.1.0.0/16" or "2001:db8::/32" in canonical form, with no bits set after the prefix; ERROR_INVALID. */
RESULT set_network_parse(const char *cidr, struct set_network *network, struct error *err);
/** Networks, authorities and listeners. ERROR_INVALID. */
RESULT set_compile_networks(struct policy_set *set, const json_t *array, struct error *err);
/** The network, authority or listener with this name; NULL: the set does not have it. */
const struct set_network *set_place(const struct policy_set *set, const char *name);
/** Whether what is known of clients depends on more than their address in one of the sets, and is not the same in both. */
bool set_places_differ(const struct policy_set *one, const struct policy_set *other);
/** For qsort: longest prefix first. */
int compare_networks(const void *a, const void *b);

/* set_exceptions.c */
/** The policy of the set that an exception is bound to, by id, version and digest; NULL: the set does not have it. */
const struct policy_document *exception_policy(const struct policy_set *set, const struct policy_exception *exception);
/** At its own beginning; whether it has ended is another question. */
bool exception_lifts_something(const struct policy_exception *exception, const struct policy_document *policy);

/* set_region.c */
RESULT set_compile_regions(struct policy_set *set, json_t *object, struct error *err);
void set_free_regions(struct policy_set *set);
/** NULL: the set does not have it. */
const struct set_region *set_region(const struct policy_set *set, const char *region);
const struct policy_target *set_region_facts(const struct set_region *region, int64_t now_us);
