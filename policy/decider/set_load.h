/*
 * policy/decider/set_load.h -- policy sets, documents of the first kind (documents/document_store.h): records a new one, and
 * finds the one in force.
 *
 * A stored set is in force only after sijil-keyd has pinned it, and sijil-keyd pins only a set that an event
 * policy.load of the signed log names. First the row and the event become durable, then the log is signed, then
 * sijil-keyd is asked to pin the set with the event's proof. If a gateway dies in between, the next load pins the
 * set. A row without such an event is ignored, even if its set is signed by the approver (docs/decisions/0004).
 */
#pragma once

#include "audit/format/policy_load.h"
#include "audit/sequencer.h"
#include "policy/set.h"

struct keyd_client;

/** Statements of the changes of this folder, for the sequencer. It needs document_table, too. */
extern const struct pg_table policy_set_table;

/** Appends a set and raises the authorization epoch, in the transaction of its event (action policy.load). */
struct policy_set_change {
    struct change change;  /* give &change to the record */
    struct bytes envelope; /* the envelope and both sets must outlive the record */
    const struct policy_set *set, *before;
    const char *draft; /* the name of the draft that ends with it; NULL: there was none */
    int64_t now_us;
    uint8_t digest[32];
    char loaded_by[256];
    char detail[POLICY_LOAD_DETAIL_SIZE]; /* of the event: names the set */
};
/**
 * Fills in `change` for an envelope that policy_set_read() accepted. `before` is the set in force, or NULL: content
 * that it labels and `set` does not keeps its label. Recording fails with ERROR_CONFLICT if another set was loaded in
 * between. `loaded_by`: "robot$acme+ci".
 */
void policy_set_load_change(struct policy_set_change *change, struct bytes envelope, const struct policy_set *set,
                            const struct policy_set *before, const char *loaded_by);

/**
 * Checks an envelope before a policy_set_load_change() is submitted: the approver that sijil-keyd has pinned must
 * have signed it, and it must be well-formed, newer than `base`, the set in force (NULL: none), and name known places. ERROR_DENIED, ERROR_INVALID,
 * ERROR_LIMIT, ERROR_CONFLICT. Calls sijil-keyd, so never on an event thread.
 */
RESULT policy_set_check(struct keyd_client *keyd, const struct policy_set *base, struct bytes envelope,
                        struct policy_set **set_out, struct error *err);

/**
 * What a set that nobody may have signed yet would change of `base`, the set in force (NULL: none): so many persons must sign it. Asks sijil-keyd which ids
 * are new.
 */
struct set_change_found;
RESULT policy_set_foresee(struct keyd_client *keyd, const struct policy_set *base, struct bytes payload,
                          struct set_change_found *found_out, struct error *err);
