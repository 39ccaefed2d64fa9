/*
 * keyd/run_ledger.h -- the statements that keyd has signed for training runs.
 * keyd never signs two different statements for one purpose.
 *
 * There is one promise for each request, order, lease and admission. Its subject is the purpose (for a request, its run; for an order, the request). Its digest
 * is the digest of the signed statement. Another statement for the same subject is refused; the same statement is signed again,
 * with the same nonce and times. A promise is durable before keyd returns the signature, and is kept until keep_ms.
 *
 * The file `runs` in keyd's folder is a journal (journal/journal.h) under the ledger's key. Thread-safe.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "journal/journal.h"

#define RUN_LEDGER_FILE  "runs"
#define RUN_PROMISES_MAX 51200 /* 10,000 orders of one node and three attempts, with what may follow from them */
#define RUN_REQUESTS_MAX 12800 /* requests that keyd has signed, of all organisations together: a quarter */

/*
 * An order reserves the slots of all leases and of the admission that may follow from it. So keyd refuses an order if it could not sign these later,
 * and a signed order never waits for a slot.
 */
struct run_promise {
    uint8_t subject[32];
    uint8_t digest[32]; /* SHA-256 of the PAE */
    uint8_t nonce[16];
    int64_t from_ms, until_ms; /* of the statement */
    int64_t keep_ms;           /* forgotten from then on; 0: the slot is free */
    uint32_t reserves;         /* of an order: slots that are kept for what follows from it, at least one; of a request 0 */
    uint64_t organisation,
        project; /* of a request or an order: whose share it takes, run_ledger_share(). What follows from an order takes the same share */
    uint64_t principal; /* of a request or an order: who asks for the run, run_ledger_share(). 0: not known */
    bool is_request;    /* that keyd has signed for a token: nobody has approved it */
};
/** Stands for a name. Two names have the same number as good as never; then they have one share. */
uint64_t run_ledger_share(struct bytes name);

/** The order that a promise follows from. */
struct run_follows {
    uint8_t order[32]; /* subject of its promise */
    bool is_last;      /* nothing follows any more: what is reserved becomes free */
};

struct run_ledger;

/** `since_ms`: requests that were issued before it are refused. 0 for a new key ring: nothing was signed under it. */
RESULT run_ledger_create(int directory, const uint8_t key[JOURNAL_KEY_SIZE], int64_t since_ms, struct error *err);
/**
 * A folder without the file gets a new one that begins at `now_ms`, because earlier signatures are not known any more.
 * ERROR_CONFLICT, ERROR_CORRUPT.
 */
RESULT run_ledger_open(int directory, const uint8_t key[JOURNAL_KEY_SIZE], int64_t now_ms, struct run_ledger **ledger_out,
                       struct error *err);
int64_t run_ledger_since_ms(const struct run_ledger *ledger);

/** Whether there is a promise for this subject. */
bool run_ledger_find(struct run_ledger *ledger, const uint8_t subject[32], int64_t now_ms, struct run_promise *promise_out);
/**
 * Makes the promise durable; the same promise again changes nothing. `follows` NULL: it is a request or an order. ERROR_CONFLICT: something else was signed for
 * this subject. ERROR_LIMIT: too few slots are free, its organisation, project or principal has its share of them, or requests have all that they get. ERROR_UNAVAILABLE: the file can't be written.
 */
RESULT run_ledger_keep(struct run_ledger *ledger, const struct run_promise *promise, const struct run_follows *follows,
                       int64_t now_ms, struct error *err);

/**
 * The order's run has ended: what is reserved for it becomes free. The order stays, so its request gets no other one. What is asked for it later needs a
 * free slot. So a caller that lies about the end can only keep a run waiting.
 */
RESULT run_ledger_end(struct run_ledger *ledger, const uint8_t order[32], int64_t now_ms, struct error *err);

/** Whether a write has failed: then every new promise is refused. */
bool run_ledger_is_broken(const struct run_ledger *ledger);
void run_ledger_free(struct run_ledger *ledger);
DEFINE_OWNED(run_ledger);
