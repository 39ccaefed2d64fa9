/*
 * training/papers.h -- the envelopes of a run, read back from the database, with the lease that they belong to.
 *
 * They were checked when they were stored. Whoever relies on them checks them again (training/format/chain.h).
 */
#pragma once

#include "audit/permit.h"
#include "storage/pg.h"
#include "training/format/chain.h"

struct run_papers_query {
    enum action action; /* that the permit allows on the run's project */
    struct uuid run;
    enum run_type last;    /* the newest envelope that is wanted; a refusal comes with RUN_RESULT */
    int64_t attempt, node; /* the lease; attempt 0: that of the result or refusal, else the newest of node 0 */
};

/* An envelope, and its text. */
struct run_paper {
    struct run_envelope *read; /* NULL: there is none */
    const char *text;
};
struct run_papers {
    struct pg_rows *rows, *leases;                                  /* the texts are theirs */
    struct run_paper each[RUN_TYPES], approvals[RUN_APPROVALS_MAX]; /* approvals in the order of an order's */
    size_t approval_count;
    struct pg_rows *node_rows; /* the results of the other nodes */
    struct run_paper *leases_of, *certificates_of,
        *results_of; /* of the other nodes, in order, from 1 on; NULL: there are none, or not all are there */
    struct run_peer *peers;
    size_t peer_count;
    struct run_chain chain; /* views of them */
};

/** Call run_find() first, unless the run comes from the database. ERROR_NOT_FOUND: there is no such run; ERROR_CORRUPT. */
RESULT run_papers_read(const struct permit *permit, struct pg *pg, const struct run_papers_query *query,
                       struct run_papers **papers_out, struct error *err) __attribute__((nonnull));
void run_papers_free(struct run_papers *papers);
DEFINE_OWNED(run_papers);

/** Whether the very same envelope is stored for this run, of any kind. `sijil run show` lists all kinds. */
bool run_papers_have(const struct run_papers *papers, const struct run_envelope *envelope);
