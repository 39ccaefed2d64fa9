/*
 * audit/saved_search.h -- searches of the log that an auditor has saved, each under a name.
 *
 * Name and conditions may name persons, so both are sealed under the auditor's key, like the payloads of its events, and are gone when that key is destroyed.
 * Nobody else can list them. Rule: the permit is for audit.read, or for the action of the change. Connections need audit_saved_table and audit_subject_table.
 */
#pragma once

#include "audit/search.h"
#include "audit/sequencer.h"

extern const struct pg_table audit_saved_table;

#define SAVED_SEARCHES_MAX 100 /* of one auditor */
#define SAVED_NAME_MAX     64
#define SAVED_TEXT_MAX     4096 /* "actor=alice&network=192.0.2.0/24", as in a URL */

/** Whose they are: issuer ("" for a robot) and subject. */
struct saved_owner {
    const char *issuer, *subject;
};

struct saved_search {
    struct uuid id;
    char name[SAVED_NAME_MAX + 1];
    char text[SAVED_TEXT_MAX + 1];
    int64_t saved_ms;
};
struct saved_searches {
    size_t count;
    struct saved_search each[SAVED_SEARCHES_MAX];
};
/** Opens all of the owner's, oldest first; those that do not open are left out. The caller frees and wipes them with saved_searches_free(). */
RESULT saved_search_list(const struct permit *permit, enum action action, const struct search_source *source,
                         const struct saved_owner *owner, struct saved_searches **searches_out, struct error *err)
    __attribute__((nonnull));
void saved_searches_free(struct saved_searches *searches);
DEFINE_OWNED(saved_searches);

/** A change under audit.save: seals and stores a search, in place of `replaced` if this is not nil. ERROR_LIMIT: SAVED_SEARCHES_MAX are there. */
struct saved_search_change {
    struct change change; /* points into what follows: don't copy it */
    struct uuid id, replaced;
    uint8_t subject[32], salt[32];
    struct buffer box;
};
RESULT saved_search_change_init(struct saved_search_change *change, const struct search_source *source,
                                const struct saved_owner *owner, const struct saved_search *search, struct error *err)
    __attribute__((nonnull));
void saved_search_change_done(struct saved_search_change *change);

/** A change under audit.unsave: removes one of the owner's. ERROR_NOT_FOUND. */
struct saved_search_removal {
    struct change change;
    struct uuid id;
    uint8_t subject[32];
};
RESULT saved_search_removal_init(struct saved_search_removal *removal, const struct search_source *source,
                                 const struct saved_owner *owner, const struct uuid *id, struct error *err)
    __attribute__((nonnull));
