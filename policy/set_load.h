/*
 * policy/set_load.h -- policy sets in PostgreSQL, appended and never changed: recording one, and the one in force.
 *
 * A stored set is in force only once keyd has pinned it, and keyd pins only what an event policy.load of the signed log names.
 * Recording comes first: row and event are durable, then the log is signed, then keyd is asked to pin with the event's proof;
 * a gateway that dies in between leaves a set that the next load pins. A row without such an event counts for nothing, whoever
 * signed the set in it (docs/decisions/0004).
 */
#pragma once

#include "audit/format/policy_load.h"
#include "audit/sequencer.h"
#include "policy/set.h"

struct keyd_client;

/** What changes of this folder run: for the sequencer. */
extern const struct pg_table policy_set_table;

/** Appends a set and raises the authorization epoch, in the transaction of its event (action policy.load). */
struct policy_set_change {
    struct change change;   /* give &change to the record */
    struct bytes envelope;  /* this and both sets must outlive the record */
    const struct policy_set *set, *before;
    int64_t now_us;
    uint8_t digest[32];
    char loaded_by[256];
    char detail[POLICY_LOAD_DETAIL_SIZE]; /* of the event: only one with the change names the set */
};
/**
 * Fills in `change` for an envelope that policy_set_read() accepted. `before`: the set in force, NULL for none; what it
 * labels and `set` does not keeps its label. ERROR_CONFLICT while recording, when another set came between.
 * `loaded_by`: "robot$acme+ci".
 */
void policy_set_load_change(struct policy_set_change *change, struct bytes envelope, const struct policy_set *set,
                            const struct policy_set *before, const char *loaded_by);

/** Newer than the set in force, and nobody loaded them: somebody wrote them past the application. */
#define STRANGE_SETS_MAX 1000 /* that one look goes over, rows or events; none of their envelopes is read */
struct strange_sets {
    uint64_t count, newest; /* newest: an epoch; count stops at STRANGE_SETS_MAX */
};

/** `pg` needs policy_set_table and audit_tree_table. */
struct policy_set_source {
    struct pg *pg;
    struct keyd_client *keyd;
    struct sequencer *sequencer; /* has the log signed that is to prove an event */
    struct strange_sets strange; /* as the last policy_set_load() has found them */
};
/**
 * The set in force: the stored one that keyd has pinned. A newer one that was loaded but not yet pinned is pinned first. If it is
 * still `current` (may be NULL), that is kept once more. *set_out is NULL when there is none yet.
 * ERROR_CORRUPT when the pinned one is not stored; ERROR_UNAVAILABLE. Blocks: the log may have to be signed.
 */
RESULT policy_set_load(struct policy_set_source *source, struct policy_set *current, struct policy_set **set_out,
                       struct error *err);

/**
 * What a handler asks before it submits a policy_set_load_change(): is the envelope signed by the approver that keyd
 * has pinned, well-formed, and newer than the set in force? ERROR_DENIED, ERROR_INVALID, ERROR_LIMIT, ERROR_CONFLICT.
 * Calls keyd, so never on an event thread.
 */
RESULT policy_set_check(struct keyd_client *keyd, struct bytes envelope, struct policy_set **set_out,
                        struct error *err);
