/*
 * audit/erasure.h -- the erasure of one person from the log (docs/erasure.md): what the log has about the person, and the steps that remove it.
 *
 * A person is named by the pseudonym. What goes: the person's key, the sealed parts of the person's events, and the blind keys of searches that belong to
 * the person. Leaves stay, so every proof stays valid. Rule: each function takes a permit for `action`, or for subject.erase, on the registry; only
 * the server's own work has the latter. Connections need audit_query_table, audit_search_table, audit_subject_table and audit_erasure_table.
 */
#pragma once

#include "audit/search.h"

extern const struct pg_table audit_erasure_table;

#define ERASURE_NAME_SIZE 256

/** It has a name: wipe it with erasure_person_wipe(). */
struct erasure_person {
    char pseudonym[65];
    char issuer[ERASURE_NAME_SIZE]; /* "": a robot of this registry */
    char subject[ERASURE_NAME_SIZE];
    uint64_t events;   /* of this actor; exports of them that auditors made before the newest one count, too */
    uint64_t newest;   /* number of the newest one */
    int64_t newest_ms; /* its time; without events: when a role was last given or ended, or SCIM made or ended the person */
    uint64_t witness;  /* the newest event whose sealed part names the person, or ERASURE_NO_WITNESS */
};
#define ERASURE_NO_WITNESS UINT64_MAX /* the person never acted: a role or SCIM alone names it */
void erasure_person_wipe(struct erasure_person *person);

/** How a caller names a person. */
struct erasure_name {
    enum action action;  /* of the permit */
    const char *issuer;  /* NULL: any that the registry knows, or a robot */
    const char *subject; /* or the pseudonym itself */
};
/**
 * Somebody that never acted and whom a role or SCIM names gets its key and its pseudonym now. ERROR_NOT_FOUND: nobody of this name has acted, and neither
 * names it. ERROR_CONFLICT: several issuers have such a subject; the issuer says which.
 */
RESULT erasure_pseudonym(const struct permit *permit, const struct search_source *source, const struct erasure_name *name,
                         char pseudonym_out[65], struct error *err) __attribute__((nonnull));
/**
 * Opens the sealed part of the newest event of the person that has one; without events, a role or SCIM names the person. ERROR_NOT_FOUND: nobody has this
 * pseudonym. ERROR_CONFLICT: no sealed part names the person any more, so nothing is left to be erased.
 */
RESULT erasure_person_find(const struct permit *permit, enum action action, const struct search_source *source,
                           const char *pseudonym, struct erasure_person *person_out, struct error *err) __attribute__((nonnull));
/** The events under filter->key, which is `act:` and the pseudonym of a person that the caller may ask for, as audit_list() shows them. */
RESULT erasure_person_events(const struct permit *permit, enum action action, struct pg *pg, const struct audit_filter *filter,
                             struct audit_page **page_out, struct error *err) __attribute__((nonnull));
/** How many rows of blind keys belong to the person. */
RESULT erasure_count_blind(const struct permit *permit, enum action action, struct pg *pg, const struct erasure_person *person,
                           int64_t *count_out, struct error *err) __attribute__((nonnull));

/** An erasure that has begun. */
struct erasure_row {
    char pseudonym[65];
    uint64_t asked, begun, ended; /* numbers of events; `ended` 0: it goes on */
    uint32_t key_version;         /* of the destroyed key */
    uint64_t payloads;            /* sealed parts that were deleted */
    int64_t erased_ms;            /* when the key was destroyed */
};
/** ERROR_NOT_FOUND: it has not begun. */
RESULT erasure_row_find(const struct permit *permit, enum action action, struct pg *pg, const char *pseudonym,
                        struct erasure_row *row_out, struct error *err) __attribute__((nonnull));

/* ---- the steps, under a permit for subject.erase whose detail is the pseudonym ---- */

#define ERASURE_STEP 500 /* events, or rows of blind keys, at a time */

/** Deletes some blind keys, while the person's key is still there. *gone_out 0: there are no more. */
RESULT erasure_thin(const struct permit *permit, struct pg *pg, const struct erasure_person *person, int64_t *gone_out,
                    struct error *err) __attribute__((nonnull));
/** In a change: destroys the key, and keeps a row about it. */
struct erasure_begin {
    const char *pseudonym;
    uint64_t witness;
    uint64_t asked;
};
RESULT erasure_begin(const struct permit *permit, struct pg *pg, const struct erasure_begin *begin, struct error *err)
    __attribute__((nonnull));
/** In the same change: roles that have ended lose the name. */
RESULT erasure_rename(const struct permit *permit, struct pg *pg, const struct erasure_person *person, struct error *err)
    __attribute__((nonnull));
/** Deletes the sealed parts of some events from number *next on. *next is set to the number to go on at; INT64_MAX: all are gone. */
RESULT erasure_forget(const struct permit *permit, struct pg *pg, const char *pseudonym, uint64_t *next, struct error *err)
    __attribute__((nonnull));
/** In a change, the last one. */
RESULT erasure_end(const struct permit *permit, struct pg *pg, const char *pseudonym, uint64_t ended, struct error *err)
    __attribute__((nonnull));
