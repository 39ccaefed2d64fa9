/*
 * policy/set_load.h -- policy sets in PostgreSQL, appended and never changed: recording one, and the one in force.
 *
 * A stored set is in force only once keyd has pinned it. Recording comes first: the row and its event are durable,
 * then keyd is asked to pin, and a gateway that dies between the two leaves a set that the next start pins.
 */
#pragma once

#include "audit/sequencer.h"
#include "policy/set.h"

struct keyd_client;

/** What changes of this folder run: for the sequencer, and for the connection of policy_set_install(). */
extern const struct pg_table policy_statements;

/** Appends a set and raises the authorization epoch, in the transaction of its event (action policy.load). */
struct policy_set_change {
    struct change change;   /* give &change to the record */
    struct bytes envelope;  /* must outlive the record */
    uint64_t epoch;
    char digest[72], loaded_by[256];
};
/** Fills in `change` for an envelope that policy_set_read() accepted. `loaded_by`: "robot$acme+ci". */
void policy_set_load_change(struct policy_set_change *change, struct bytes envelope, const struct policy_set *set,
                            const char *loaded_by);

/**
 * For the first start: appends the set in a transaction of its own and has keyd pin it. `permit` allows policy.load
 * on the system. A set that is stored already is no error.
 */
RESULT policy_set_install(struct pg *pg, struct keyd_client *keyd, const struct permit *permit,
                          struct bytes envelope, struct error *err);

/**
 * The set in force: the stored one that keyd has pinned. Newer sets that were recorded but not yet pinned are
 * pinned first. *set_out is NULL when there is none yet. ERROR_CORRUPT when the pinned one is not stored, or is not
 * what keyd pinned; ERROR_UNAVAILABLE.
 */
RESULT policy_set_load(struct pg *pg, struct keyd_client *keyd, struct policy_set **set_out, struct error *err);
