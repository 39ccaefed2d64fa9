/*
 * audit/subject_rewrap.h -- wraps the keys of subjects under sijil-keyd's newest epoch, so that the older ones can be destroyed (docs/keys.md, "Rotation").
 *
 * Keys of blind keys are not wrapped again: they are made anew, and the index of searches with them. Rule: the permit is for job.run on the registry.
 * Connections need audit_rewrap_table, audit_search_table and audit_subject_table.
 */
#pragma once

#include "audit/permit.h"
#include "crypto/keyd_client.h"
#include "storage/pg.h"

extern const struct pg_table audit_rewrap_table;

#define SUBJECT_REWRAP_BATCH 100

/** Zero-initialised. A next call goes on behind the last one; nothing is lost if it begins anew. */
struct subject_rewrap {
    uint32_t epoch;   /* the newest one of sijil-keyd; 0: not asked yet */
    int64_t after;    /* id of the last row that was looked at */
    uint64_t changed; /* keys that were wrapped */
    uint64_t bad;     /* keys that do not unwrap: they are lost already */
    bool is_done;
};
/** Looks at the next keys. ERROR_UNAVAILABLE: sijil-keyd or the database is away; call it again. */
RESULT subject_rewrap_step(const struct permit *permit, struct keyd_client *keyd, struct pg *pg, struct subject_rewrap *rewrap,
                           struct error *err) __attribute__((nonnull));
/** Keys under an older epoch than rewrap->epoch. */
RESULT subject_rewrap_count(const struct permit *permit, struct pg *pg, const struct subject_rewrap *rewrap, uint64_t *old_out,
                            struct error *err) __attribute__((nonnull));
