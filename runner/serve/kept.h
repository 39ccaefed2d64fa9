/*
 * runner/serve/kept.h -- what a runner keeps of a lease until it has ended: files in the folder `leases` of its state.
 *
 * The bundle is written before the lease is taken, the result before it is sent. So after a crash a result is sent again, and a lease without
 * a result is given up.
 */
#pragma once

#include "runner/order/lease_journal.h"

enum kept_part { KEPT_BUNDLE, KEPT_RESULT };

/** Opens the folder below that of the state; makes it if it is missing. */
RESULT kept_open(int state, int *folder_out, struct error *err);
/** Durable. ERROR_FULL, ERROR_UNAVAILABLE. */
RESULT kept_write(int folder, const struct taken_lease *lease, enum kept_part part, struct bytes content, struct error *err);
/** Appends the part. ERROR_NOT_FOUND: there is none. */
RESULT kept_read(int folder, const struct taken_lease *lease, enum kept_part part, struct buffer *content, struct error *err);
/** Whether there is a result. */
bool kept_has_result(int folder, const struct taken_lease *lease);
/** Removes all of a lease. */
void kept_remove(int folder, const struct taken_lease *lease);
/** Removes what belongs to no lease of the journal that has not ended. No worker may be about to take a lease. */
RESULT kept_sweep(int folder, const struct lease_journal *journal, struct error *err);
