/*
 * authz/erased_subject.h -- what rows outside the log have about a person that is erased (docs/erasure.md), and the change that destroys the person's key.
 *
 * Rights come first: a person with a role is not erased, because it would go on acting. Documents, robots, runs and rights that were given away
 * name a person by a digest, and stay.
 */
#pragma once

#include "audit/erasure.h"
#include "audit/sequencer.h"
#include "authz/person.h"

extern const struct pg_table erased_subject_table;

struct subject_holdings {
    int64_t roles_live, roles_ended; /* of a robot: live robots of the name, and ended ones */
    int64_t robots_live, robots;     /* that count as this person */
    int64_t uploads;                 /* open ones */
    int64_t documents;               /* recorded by the person */
    int64_t given;                   /* roles that it gave */
    int64_t runs;                    /* that it asked for or approved */
    int64_t runs_named;              /* of these, requests of an earlier sijil-keyd, with the person's name in their claims */
};
/** The permit is for `action`, on the registry. */
RESULT subject_holdings_find(const struct permit *permit, enum action action, struct pg *pg, const struct erasure_person *person,
                             struct subject_holdings *holdings_out, struct error *err) __attribute__((nonnull));

/** ERROR_CONFLICT: the person has a role, or an open upload. */
RESULT subject_holdings_check(const struct subject_holdings *holdings, struct error *err) __attribute__((nonnull));

#define SUBJECT_OWNERS_MAX 16
/** The persons behind a subject: itself, or those behind the robots of this name, now and before. */
struct subject_owners {
    size_t count;
    struct person persons[SUBJECT_OWNERS_MAX];
};
/** ERROR_LIMIT for more of them. */
RESULT subject_owners_find(const struct permit *permit, enum action action, struct pg *pg, const struct erasure_person *person,
                           struct subject_owners *owners_out, struct error *err) __attribute__((nonnull));

/**
 * A change under a permit for subject.erase: destroys the key of the person, and takes its name from the rows of roles that have ended. All gateways
 * decide anew and find keys anew before they record anything behind it. ERROR_CONFLICT: the person has a role again.
 */
struct subject_erase {
    struct change change; /* points into what follows: don't copy it */
    struct erasure_begin begin;
    const struct erasure_person *person;
};
void subject_erase_init(struct subject_erase *erase, const struct erasure_begin *begin, const struct erasure_person *person);
