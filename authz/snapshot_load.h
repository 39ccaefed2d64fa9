/*
 * authz/snapshot_load.h -- reads a snapshot of the rights from the database.
 *
 * Rule: it needs no permit, because decisions need the snapshot. No code that serves a request may include this
 * (tests/lint/closed_headers.txt).
 */
#pragma once

#include "authz/snapshot.h"
#include "storage/pg.h"

/**
 * Brings the view up to date with sijil-keyd, and takes the rules in force from it; if none has changed since `before` (may be NULL), this
 * adds an owner to `before`. A view that differs from keyd's pin has no rules: none then counts. Blocks. Errors of document_view_read().
 */
RESULT trust_rules_load(struct document_view *view, const struct document_source *source, const struct trust_rules *before,
                        struct trust_rules **rules_out, struct error *err);

/**
 * Reads the live rows. Run it in one repeatable-read transaction with everything else of the same moment, or compare
 * authorization_epoch before and after. An issuer whose keys can't be read is left out, so its tokens are refused,
 * and is counted in authz_snapshot_bad_issuers(). The grants of `rules` (NULL: none) become bindings of the subjects of TRUST_ISSUER; rows of
 * such subjects are left out, because nobody has signed them.
 */
RESULT authz_snapshot_load(struct pg *pg, const struct trust_rules *rules, struct authz_snapshot **snapshot_out,
                           struct error *err);
/** Finds the organisations of the documents of persons, roles and officers, by their names. Part of each load. */
RESULT persons_places_load(struct pg *pg, const struct trust_rules *rules, struct error *err);

/**
 * What has changed: organisations, and since an epoch single roles in any. The nil id stands for the registry: its robots, its bindings and the
 * issuers.
 */
struct rights_change {
    const struct uuid *organisations;
    size_t count;   /* at most RIGHTS_CHANGE_MAX */
    uint64_t since; /* the epoch of the snapshot before; 0: no single roles are read */
};
#define RIGHTS_CHANGE_MAX   64   /* after changes in more organisations everything is read */
#define RIGHTS_BINDINGS_MAX 1024 /* after changes of more single roles as well; 1.2 MB */
/**
 * As authz_snapshot_load(), but reads only the rows of the changed organisations and the roles that changed one by one, and shares the robots and
 * bindings of all others with `before`, which must have the same rules. Run it in the transaction that read `change`.
 */
RESULT authz_snapshot_renew(struct pg *pg, const struct authz_snapshot *before, const struct rights_change *change,
                            struct authz_snapshot **snapshot_out, struct error *err);
/**
 * The same in one round trip, outside of a transaction, if only single roles have changed since the epoch of `before`. Else *epoch_out is 0, and *snapshot_out is not
 * written.
 */
RESULT authz_snapshot_add(struct pg *pg, const struct authz_snapshot *before, uint64_t since, uint64_t *epoch_out,
                          struct authz_snapshot **snapshot_out, struct error *err);
