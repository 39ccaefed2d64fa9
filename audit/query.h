/*
 * audit/query.h -- reading the log, and proving that an entry is in it.
 *
 * Every function takes the permit of an audit.read and shows only what is inside its resource: an auditor of an
 * organisation or a project sees the events that stand under it. Connections need audit_query_table and
 * audit_tree_table.
 */
#pragma once

#include "audit/format/merkle.h"
#include "audit/permit.h"
#include "audit/signed_checkpoint.h"
#include "crypto/keyd_client.h"
#include "storage/pg.h"

extern const struct pg_table audit_query_table;
extern const struct pg_table audit_tree_table;

#define AUDIT_PAGE_MAX 1001 /* events at a time: a page of 1,000, and one to see whether there is more */

struct audit_filter {
    bool ascending;       /* else newest first */
    const char *key;      /* "res:acme/models/digits", "act:<pseudonym>", "out:denied"; NULL: all */
    uint64_t from, until; /* sequence numbers, from <= seq < until; INT64_MAX: no end */
    size_t limit;         /* 1 to AUDIT_PAGE_MAX */
};

/** Events as they were found. Views live as long as the page. */
struct audit_page;

/** ERROR_INVALID for a limit out of bounds; an empty page is no error. ERROR_FORKED for a row that its leaf contradicts. */
RESULT audit_list(struct pg *pg, const struct permit *permit, const struct audit_filter *filter,
                  struct audit_page **page_out, struct error *err);
/** A page with that one event; ERROR_NOT_FOUND, also if it is outside the permit's resource. */
RESULT audit_find(struct pg *pg, const struct permit *permit, uint64_t sequence, struct audit_page **page_out,
                  struct error *err);
size_t audit_page_count(const struct audit_page *page);
uint64_t audit_page_sequence(const struct audit_page *page, size_t index);
/** The leaf's bytes, as they were hashed. */
struct bytes audit_page_leaf(const struct audit_page *page, size_t index);
/**
 * Is it an event that this version can read? What is not says neither under which keys it stands nor who may see it: a list has its number alone,
 * and only auditors of the registry get its bytes.
 */
bool audit_page_is_readable(const struct audit_page *page, size_t index);
/**
 * Appends the payload (JSON: who, from where), opened with keyd. Appends nothing if the event has none, or it, or the key of its
 * subject, is not there any more: audit_page_missing(). ERROR_CORRUPT if it is not what the leaf committed to.
 */
RESULT audit_page_payload(struct audit_page *page, size_t index, struct keyd_client *keyd, const char *origin,
                          struct buffer *payload, struct error *err);
/** Of an event that committed to a payload: "payload" or "key" (of its subject), if that is not in the database; else NULL. */
const char *audit_page_missing(const struct audit_page *page, size_t index);
/** Reads what the events of the page commit to as facts. Without it they count as missing. */
RESULT audit_page_load_facts(struct pg *pg, struct audit_page *page, struct error *err);
/** Of how many targets an event has facts: of all, or of none. */
size_t audit_page_facts_count(const struct audit_page *page, size_t index);
enum facts_state {
    FACTS_SOUND,
    FACTS_MISSING, /* no row has them */
    FACTS_DAMAGED  /* the row is not what the event committed to, or that is no JSON */
};
/** The text of the facts of one target, while FACTS_SOUND: canonical JSON unless a gateway lied. */
enum facts_state audit_page_facts(const struct audit_page *page, size_t index, size_t target, struct bytes *text_out);
void audit_page_free(struct audit_page *page);
DEFINE_OWNED(audit_page);

/**
 * Appends the proof that entry `sequence` is in the log (c2sp.org/tlog-proof@v1), under `checkpoint`: the newest of the
 * sequencer (sequencer_checkpoint()). ERROR_NOT_FOUND for an entry that is not there or not to be seen; ERROR_UNAVAILABLE if it
 * is not signed yet: soon it will be (within five seconds, or nothing is served). ERROR_FORKED: the database has no proof that verifies.
 */
RESULT audit_prove(struct pg *pg, const struct permit *permit, uint64_t sequence, const struct signed_checkpoint *checkpoint,
                   struct buffer *proof, struct error *err);
/**
 * Hashes alone, so it takes no permit: that entry `sequence` is in the log of `size`, for sijil-keyd to check. The connection
 * needs audit_tree_table.
 */
RESULT audit_prove_inclusion(struct pg *pg, uint64_t sequence, uint64_t size, struct merkle_proof *proof_out, struct error *err);
/** Where an entry and its proof are appended to. */
struct proven_entry {
    struct buffer *entry, *proof;
};
/**
 * For a certificate of deletion: appends the entry of a key.forgotten and its proof. The permit is of a deletion.certify,
 * and the event must be inside its resource. Errors as audit_prove().
 */
RESULT audit_prove_deletion(struct pg *pg, const struct permit *permit, uint64_t sequence,
                            const struct signed_checkpoint *checkpoint, const struct proven_entry *proven, struct error *err);
/** How many events allow a token, and how many of them one for the administration: what explains keyd's count. */
struct audit_mints {
    uint64_t all, administration;
    uint64_t log_size; /* when it was counted */
};
/** The permit is of a job.read of the whole registry. Reads an index over all of them: not for every request. */
RESULT audit_count_mints(struct pg *pg, const struct permit *permit, struct audit_mints *mints_out, struct error *err);
/**
 * The same for a number that nobody asked for: a metric. Adds to *mints those of at most `most` entries from *next on, and
 * moves *next behind them; all are counted when that is mints->log_size. Both begin at 0.
 */
RESULT audit_count_more_mints(struct pg *pg, struct audit_mints *mints, uint64_t *next, uint64_t most, struct error *err);
