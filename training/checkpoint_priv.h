/* training/checkpoint_priv.h -- the rows of checkpoints (training/checkpoint.h). The caller has checked the permit. */
#pragma once

#include "training/checkpoint.h"
#include "training/doubt.h"
#include "training/run_priv.h"

/** Locks the attempt. ERROR_CONFLICT: it has ended, or is not this key's. */
RESULT checkpoint_row_lock(struct pg *pg, const struct run_holder *holder, struct error *err);
/**
 * Removes all but the newest RUN_CHECKPOINTS_KEPT of the run, and those that open runs continue from. Blobs of the attempt that no kept checkpoint has
 * do not count in its limit any more.
 */
RESULT checkpoint_rows_thin(struct pg *pg, const struct run_holder *holder, struct error *err);

/**
 * For the change of a request: notes which checkpoint the run continues from. ERROR_INVALID: it is neither kept for a run of this project nor a manifest
 * of the repository.
 */
RESULT checkpoint_row_resume(struct pg *pg, const struct run_request *request, struct error *err);
/** Whether checkpoint_row_resume() would find it. */
RESULT checkpoint_row_look(struct pg *pg, const struct run_request *request, struct error *err);

/** A checkpoint that goes. */
struct due_checkpoint {
    struct uuid run;
    struct resource where; /* the project */
    char digest[DIGEST_TEXT_SIZE];
    char key[RUN_KEY_SIZE]; /* of the withdrawn runner; "": it goes for another reason */
    bool is_deleted;        /* its repository or project */
};
/** Those of runs that are over, and of deleted repositories, by the rows. */
RESULT checkpoint_rows_due(struct pg *pg, const struct row_window *window, struct due_checkpoint *due_out, size_t *count_out,
                           struct error *err);
/** The envelopes of a run that may show that it is over. Columns: kind, envelope. */
RESULT checkpoint_rows_over(struct pg *pg, const struct uuid *run, struct pg_rows **rows_out, struct error *err);
/** Those of runs that withdrawn runners have had since then, by the rows of attempts. */
RESULT checkpoint_rows_doubted(struct pg *pg, const struct run_withdrawals *withdrawals, const struct row_window *window,
                               struct due_checkpoint *due_out, size_t *count_out, struct error *err);
/** ERROR_CONFLICT: it is gone. */
RESULT checkpoint_row_forget(struct pg *pg, const struct uuid *run, const char *digest, struct error *err);
