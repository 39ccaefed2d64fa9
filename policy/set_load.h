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
extern const struct pg_table policy_set_table;

/** Appends a set and raises the authorization epoch, in the transaction of its event (action policy.load). */
struct policy_set_change {
    struct change change;   /* give &change to the record */
    struct bytes envelope;  /* this and both sets must outlive the record */
    const struct policy_set *set, *before;
    int64_t now_us;
    uint8_t digest[32];
    char loaded_by[256];
};
/**
 * Fills in `change` for an envelope that policy_set_read() accepted. `before`: the set in force, NULL for none; what it
 * labels and `set` does not keeps its label. ERROR_CONFLICT while recording, when another set came between.
 * `loaded_by`: "robot$acme+ci".
 */
void policy_set_load_change(struct policy_set_change *change, struct bytes envelope, const struct policy_set *set,
                            const struct policy_set *before, const char *loaded_by);

/**
 * For the first start: appends the set in a transaction of its own and has keyd pin it. `permit` allows policy.load
 * on the system. A set that is stored already is no error.
 */
RESULT policy_set_install(struct pg *pg, struct keyd_client *keyd, const struct permit *permit,
                          struct bytes envelope, struct error *err);

struct policy_set_source {
    struct pg *pg;
    struct keyd_client *keyd;
};
/**
 * The set in force: the stored one that keyd has pinned. A newer one that was recorded but not yet pinned is pinned
 * first. If it is still `current` (may be NULL), that is kept once more. *set_out is NULL when there is none yet.
 * ERROR_CORRUPT when the pinned one is not stored; ERROR_UNAVAILABLE.
 */
RESULT policy_set_load(const struct policy_set_source *source, struct policy_set *current,
                       struct policy_set **set_out, struct error *err);

/**
 * What a handler asks before it submits a policy_set_load_change(): is the envelope signed by the approver that keyd
 * has pinned, well-formed, and newer than the set in force? ERROR_DENIED, ERROR_INVALID, ERROR_LIMIT, ERROR_CONFLICT.
 * Calls keyd, so never on an event thread.
 */
RESULT policy_set_check(struct keyd_client *keyd, struct bytes envelope, struct policy_set **set_out,
                        struct error *err);
