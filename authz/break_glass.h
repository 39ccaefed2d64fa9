/*
 * authz/break_glass.h -- who has asked to break a glass, as a row, and which broken glasses wait for a review.
 */
#pragma once

#include "authz/break_glass_entry.h"
#include "documents/change.h"

/** Records a draft, as document_draft_change_init(), and who asks. Contains pointers into itself: don't copy it. */
struct glass_draft_change {
    struct change change;
    struct document_draft_change draft;
    const struct principal *holder;
};
void glass_draft_change_init(struct glass_draft_change *change, const struct document_draft_row *row,
                             const struct principal *holder);

/** Those who have asked within the hour, for approvers: others may not know who has which hash. A row proves nothing: compare the hash. */
struct glass_holders {
    RESULT (*take)(void *context, const char *principal, const char *issuer, const char *subject, struct error *err);
    void *context;
};
RESULT glass_holders_visit(const struct permit *permit, struct pg *pg, const struct glass_holders *holders, struct error *err)
    __attribute__((nonnull));

/** The issuer of a principal of a glass, who may have left; "" if no role that it ever had tells. Time: all roles are looked at. */
RESULT glass_issuer_of(struct lookup *lookup, const char *principal, char issuer_out[256], struct error *err)
    __attribute__((nonnull));

/** A glass that two persons have broken, at any time. */
struct broken_glass {
    const struct document *document; /* the newest version: the end, if there is one */
    uint64_t sequence;
    bool is_in_force, is_reviewed;
};
typedef struct result broken_glass_visitor(void *context, const struct broken_glass *glass, struct error *err);
/** Visits all of them, with the view locked: the visitor may neither block nor use the view. ERROR_CORRUPT, ERROR_UNAVAILABLE. */
RESULT broken_glass_visit(struct document_view *view, int64_t now_ms, broken_glass_visitor *visit, void *context,
                          struct error *err);
/** How many are in force, and how many have ended and were not reviewed. */
struct broken_glass_counts {
    unsigned in_force, unreviewed;
};
RESULT broken_glass_count(struct document_view *view, int64_t now_ms, struct broken_glass_counts *counts_out, struct error *err);
