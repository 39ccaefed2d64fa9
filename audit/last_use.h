/*
 * audit/last_use.h -- when somebody last did something that a role permits, in the scope of that role.
 *
 * Answered from the index of searches, and compared with the leaves, as a search is. An event does not name the role that allowed it, so it counts
 * for each role of its actor that permits the action there. Rule: the permit is for access.review, on the scope or above it. Connections need
 * audit_query_table, audit_search_table and audit_subject_table.
 */
#pragma once

#include "audit/search.h"

/** A role of one principal. */
struct role_use {
    const char *issuer, *subject; /* as struct principal has them; issuer "": a robot of this registry */
    const struct resource *scope; /* kind, name and ids; of all repositories below a path: its name ends in "/" and an asterisk */
    const bool *permits;          /* ACTION_COUNT elements: the actions that the role permits */
};
struct last_use {
    bool is_late; /* not found in the time that one role has, LAST_USE_MS: nothing is known */
    bool is_used;
    uint64_t sequence;
    int64_t wall_ms;
};

/** How far the index knows the log, and how long the log is: uses in later events are not found. */
RESULT last_use_known(const struct permit *permit, struct pg *pg, uint64_t *known_out, uint64_t *size_out, struct error *err)
    __attribute__((nonnull));

#define LAST_USE_MS 1000
/** The newest event with an outcome other than denied or failed. ERROR_CORRUPT: the index is damaged. */
RESULT audit_last_use(const struct permit *permit, const struct search_source *source, const struct role_use *role,
                      struct last_use *use_out, struct error *err) __attribute__((nonnull));
