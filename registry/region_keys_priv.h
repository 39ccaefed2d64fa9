/*
 * registry/region_keys_priv.h -- the sijil-keyd of regions that have one of their own, as this gateway knows them (docs/region-keyd.md).
 *
 * Rule: keys of such a region are asked of no other sijil-keyd. They can be had when the one at the socket has proved that it has the key that the signed
 * record names, says what the record says of its keys, and was told which policy set is in force.
 */
#pragma once

#include "crypto/keyd_region.h"
#include "policy/decider/region_state.h"

struct decider;
struct registry;

struct region_keys {
    char id[REGION_ID_MAX + 1];
    char key[44];      /* thumbprint of the key that the record names, or with which the region began */
    char problem[256]; /* what is wrong; "": nothing */
    bool is_grave;     /* the problem contradicts the signed record: the region is quarantined */
    bool is_open;      /* it is the right one: its keys can be had while it is current */
    bool is_reached;   /* it answered; the next member is what it said */
    struct keyd_place place;
};

/** From now on keys of the region are asked of no other sijil-keyd than its own, and that is closed until it was asked. ERROR_LIMIT. */
RESULT registry_use_keyd(struct registry *registry, const char *region, struct error *err);
/** What was found last. False: the region has no sijil-keyd of its own. */
bool registry_region_keys(struct registry *registry, const char *region, struct region_keys *keys_out);
/** By their index. False: there are no more. */
bool registry_region_keys_at(struct registry *registry, size_t index, struct region_keys *keys_out);
/** Asks the sijil-keyd of one region now. A problem of it is no error. Errors of the log. */
RESULT registry_ask_keys(struct registry *registry, struct decider *decider, const char *region, struct error *err);
