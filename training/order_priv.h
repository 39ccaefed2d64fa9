/* training/order_priv.h -- an order while it is made: what is decided, and its row. */
#pragma once

#include "training/bundle.h"
#include "training/order_jobs.h"
#include "training/run.h"

#define DRAFT_JURISDICTIONS_SIZE 528    /* 16 names of 32 letters, with blanks between them */
#define DRAFT_REGIONS_SIZE       163841 /* 1,000 regions of 63 letters, each also with "attested:", and blanks */
#define DRAFT_POLICIES           72     /* "sha256:", 64 digits and '\0' */

/** All that an order is made from, beside the request and the approvals. */
struct run_draft {
    uint64_t event;                               /* the number of the order's event; set in its transaction */
    char policies[DRAFT_POLICIES];                /* digest of the set that the decision was made with */
    char jurisdictions[DRAFT_JURISDICTIONS_SIZE]; /* jurisdictions, sorted, with blanks between them */
    char *regions;                                /* likewise; owned */
    int64_t approvals, attempts;
    bool signed_request;
    char checkpoint[KEYD_NOTE_MAX + 1]; /* "": none yet */
};
void run_draft_done(struct run_draft *draft);
#define OWNED_DRAFT __attribute__((cleanup(run_draft_done))) struct run_draft

/** A requested run that this gateway works on. */
struct run_wish {
    struct uuid run;
    struct resource where;              /* the project; the detail is "DIGEST RUN" */
    char requester[PRINCIPAL_KEY_SIZE]; /* principal_key() */
    int64_t approvals;                  /* that it has */
    struct run_envelope *request;       /* owned */
};
void run_wish_done(struct run_wish *wish);
#define OWNED_WISH __attribute__((cleanup(run_wish_done))) struct run_wish

/* --- order_decide.c --- */

/** What is decided of a wish. Either it may be ordered, or `reason` says why it ends. */
struct run_verdict {
    struct decision *decision; /* of the event run.order, or a denied one to be recorded; owned */
    struct principal requester;
    bool may;
    char reason[RUN_REASON_SIZE];
};
void run_verdict_done(struct run_verdict *verdict);
#define OWNED_VERDICT __attribute__((cleanup(run_verdict_done))) struct run_verdict
/** With today's rights of the requester, and today's policies. Fills in the draft, without event and checkpoint. */
RESULT run_wish_decide(struct decider *decider, const struct run_wish *wish, struct run_draft *draft,
                       struct run_verdict *verdict_out, struct error *err);

/* --- order_persons.c --- */

/**
 * Whether each stored approval fits the request and is by another person. Each counts in the order, and a row proves nothing: the route that
 * checks persons may not have stored it. reason_out: "", or why the run ends. Call it before each signature.
 */
RESULT run_wish_check_approvals(struct pg *pg, struct decider *decider, const struct run_wish *wish,
                                char reason_out[RUN_REASON_SIZE], struct error *err);

/* --- order_store.c; the caller has checked the permit --- */

/** At most one more than RUN_APPROVALS_MAX. Column: the envelope. */
RESULT run_rows_approvals(struct pg *pg, const struct uuid *run, struct pg_rows **rows_out, struct error *err);

/** Keeps other gateways away from the run for half a minute. */
RESULT run_row_wish(struct pg *pg, const char *instance, struct run_wish *wish_out, bool *found_out, struct error *err);
RESULT run_row_draft_find(struct pg *pg, const struct uuid *run, struct run_draft *draft, bool *found_out, struct error *err);
/** ERROR_CONFLICT: the run is not requested any more, or has a draft. */
RESULT run_row_draft(struct pg *pg, const struct uuid *run, const struct run_draft *draft, struct error *err);
RESULT run_row_draft_checkpoint(struct pg *pg, const struct uuid *run, const struct run_draft *draft, struct error *err);
RESULT run_row_draft_drop(struct pg *pg, const struct uuid *run, struct error *err);
/** Runs that have ended, and sijil-keyd was not told so yet. Columns: run, digest of the request. */
RESULT run_rows_ended(struct pg *pg, size_t most, struct pg_rows **rows_out, struct error *err);
RESULT run_row_freed(struct pg *pg, const struct uuid *run, struct error *err);
