/* authz/rights_priv.h -- the steps that all changes of rights share, inside the transaction of the change. */
#pragma once

#include "storage/pg.h"

/**
 * Raises the authorization epoch: the last step of each change. Only decisions about the changed organisation become
 * stale, and only its rights are read again. A nil id stands for the registry, so all decisions.
 */
RESULT rights_raise_epoch(struct pg *pg, const struct uuid *organisation, struct error *err) __attribute__((nonnull));

/** The same for all organisations and the registry: the rights of all are read again. */
RESULT rights_raise_all(struct pg *pg, struct error *err) __attribute__((nonnull));

/** The same for one role that was given or taken: all other rights of its organisation stay in the memory of gateways. */
RESULT rights_raise_binding(struct pg *pg, const struct uuid *binding, struct error *err) __attribute__((nonnull));

struct binding_create;
struct change;
/**
 * Gives a role in one round trip, and raises the epoch: as binding_row_insert() does it. Not *is_given_out: it is a role of officers, or this grant needs more than that, or it is
 * refused; nothing was done.
 */
RESULT rights_give(struct pg *pg, struct binding_create *create, bool *is_given_out, struct error *err) __attribute__((nonnull));
/**
 * The same for all grants of a group of the log, in one statement of a pipeline: each of `creates` is a binding_create of a role that is none of officers. If one of them can't be
 * given so, or with is_refused, it raises an error.
 */
RESULT rights_add_given(struct pg *pg, struct change *const *creates, size_t count, bool is_refused, struct error *err)
    __attribute__((nonnull));
/** Takes a row of the answer. */
void rights_take_given(struct binding_create *create, const struct pg_rows *rows, size_t row) __attribute__((nonnull));

/** Counts the live bindings of registry-admin whose holder can still authenticate. */
RESULT rights_count_administrators(struct pg *pg, int64_t *count_out, struct error *err) __attribute__((nonnull));
/**
 * For the end of a change, with the count from before it. ERROR_CONFLICT if the change removed the last administrator of
 * the registry: without one, only a process with the database's credentials could make another. The caller rolls it back.
 */
RESULT rights_keep_administrator(struct pg *pg, int64_t before, struct error *err) __attribute__((nonnull));

/**
 * Before a security officer is appointed there. ERROR_CONFLICT while the row of one is doubted: nobody's rights come from it, so it would seem that there is none, and
 * one administrator could appoint the first one alone.
 */
RESULT rights_trust_officers(struct pg *pg, const struct uuid *organisation, struct error *err) __attribute__((nonnull));

/** What ends: one of the three; the others are NULL. */
struct officer_end {
    const struct uuid *binding, *robot, *issuer;
    const char *by; /* principal_key() of the one that ends it */
};
/**
 * Before the change. ERROR_CONFLICT if it ends the last security officer of a scope, and another person has appointed that one: whoever is left could
 * appoint the first one again, alone.
 */
RESULT rights_keep_officer(struct pg *pg, const struct officer_end *end, struct error *err) __attribute__((nonnull));
