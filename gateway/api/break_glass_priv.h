/*
 * gateway/api/break_glass_priv.h -- what the routes of broken glasses, and /api/v1/self, need of each other (docs/break-glass.md).
 */
#pragma once

#include "authz/break_glass.h"
#include "gateway/api/log_document_priv.h"

/** A broken glass as it was pinned: version 1, or version 2, which ends it. */
struct known_glass {
    uint64_t version, sequence;
    int64_t expires_ms;
    bool is_in_force;
    char principal[BREAK_GLASS_PRINCIPAL_SIZE],
        approved_by[BREAK_GLASS_PRINCIPAL_SIZE]; /* approved_by "": the key is not known */
    uint8_t point[ECDSA_PUBLIC_SIZE];
};
/** By its name. ERROR_NOT_FOUND; ERROR_CORRUPT, ERROR_UNAVAILABLE. */
RESULT break_glass_find(const struct request *request, const char *name, struct known_glass *known_out, struct error *err);
/** Whether the holder's key is enrolled for a scope that contains the place, by this holder, and counts now. ERROR_DENIED. */
RESULT break_glass_check_key(const struct request *request, struct pg *pg, const struct break_glass *glass, struct error *err);
/** Adds `break_glass` to the description of a credential: what the caller itself holds or has held without a review. */
RESULT break_glass_add_own(const struct request *request, json_t *value, struct error *err);
