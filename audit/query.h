/*
 * audit/query.h -- reads the log, and proves that an entry is in it.
 *
 * Rule: each function that reads takes the permit first, never null: a permit for audit.read, unless its comment names another action. It
 * shows only events inside the permit's resource. An auditor of an organisation or a project sees the events that have its key. Connections
 * need audit_query_table and audit_tree_table; and audit_archive_table and audit_subject_table, with which leaves that were released are read.
 */
#pragma once

#include "audit/format/merkle.h"
#include "audit/permit.h"
#include "audit/signed_checkpoint.h"
#include "crypto/keyd_client.h"
#include "storage/pg.h"

extern const struct pg_table audit_query_table;
extern const struct pg_table audit_tree_table;

#define AUDIT_PAGE_MAX 1001 /* events at a time: a page of 1,000, and one more that shows whether another page follows */

struct audit_filter {
    bool ascending;       /* true: oldest first; false: newest first */
    const char *key;      /* "res:acme/models/digits", "act:<pseudonym>", "out:denied"; NULL: all */
    uint64_t from, until; /* sequence numbers, from <= seq < until; INT64_MAX: no end */
    size_t limit;         /* 1 to AUDIT_PAGE_MAX */
};

/** Events in the order of the query. Views live as long as the page. */
struct audit_page;

/** ERROR_INVALID for a limit out of bounds; an empty page is no error. ERROR_FORKED for a row that its own leaf contradicts. */
RESULT audit_list(const struct permit *permit, struct pg *pg, const struct audit_filter *filter, struct audit_page **page_out,
                  struct error *err) __attribute__((nonnull));
/** A page with this one event. ERROR_NOT_FOUND, also if it is outside the permit's resource. */
RESULT audit_find(const struct permit *permit, struct pg *pg, uint64_t sequence, struct audit_page **page_out, struct error *err)
    __attribute__((nonnull));
size_t audit_page_count(const struct audit_page *page);
uint64_t audit_page_sequence(const struct audit_page *page, size_t index);
/** The leaf's bytes, exactly as they were hashed. */
struct bytes audit_page_leaf(const struct audit_page *page, size_t index);
/**
 * Whether this version can read the entry as an event. The keys of an unreadable entry are unknown, and so are the auditors
 * that may see it. So a list has only its number, and only auditors of the registry get its bytes.
 */
bool audit_page_is_readable(const struct audit_page *page, size_t index);
/**
 * Appends the payload (JSON: actor and address), opened with keyd. Appends nothing if the event has no payload, or if the
 * payload or its subject's key is no longer stored: audit_page_missing(). ERROR_CORRUPT if the leaf committed to another
 * payload.
 */
RESULT audit_page_payload(struct audit_page *page, size_t index, struct keyd_client *keyd, const char *origin,
                          struct buffer *payload, struct error *err);
/** "payload" or "key" (of its subject), if the event committed to a payload and that part is no longer in the database; else
 *  NULL. */
const char *audit_page_missing(const struct audit_page *page, size_t index);
/** Whether the event committed to a payload. */
bool audit_page_is_sealed(const struct audit_page *page, size_t index);
/** Reads the facts that the events of the page commit to. Before this call facts count as missing. */
RESULT audit_page_load_facts(struct audit_page *page, struct pg *pg, struct error *err) __attribute__((nonnull));
/** The number of targets with facts: all, or none. */
size_t audit_page_facts_count(const struct audit_page *page, size_t index);
enum facts_state {
    FACTS_SOUND,
    FACTS_MISSING, /* no row has this digest */
    FACTS_DAMAGED  /* the row differs from the commitment of the event, or is not JSON */
};
/** The text of the facts of one target, if FACTS_SOUND: canonical JSON, unless the gateway that wrote it was faulty. */
enum facts_state audit_page_facts(const struct audit_page *page, size_t index, size_t target, struct bytes *text_out);
void audit_page_free(struct audit_page *page);
DEFINE_OWNED(audit_page);

/**
 * Appends the proof (c2sp.org/tlog-proof@v1) that entry `sequence` is in the log, under `checkpoint`, the sequencer's
 * newest (sequencer_checkpoint()). ERROR_NOT_FOUND for an entry that does not exist or that the permit does not cover.
 * ERROR_UNAVAILABLE for an entry that is not signed yet: entries are signed within five seconds, or the gateway stops serving.
 * ERROR_FORKED: the database yields no proof that verifies.
 */
RESULT audit_prove(const struct permit *permit, struct pg *pg, uint64_t sequence, const struct signed_checkpoint *checkpoint,
                   struct buffer *proof, struct error *err) __attribute__((nonnull));
/** The buffers that an entry and its proof are appended to. */
struct proven_entry {
    struct buffer *entry, *proof;
};
/**
 * For a certificate of deletion: appends the entry of a key.forgotten and its proof. The permit is of a deletion.certify,
 * and the event must be inside its resource. Errors as audit_prove().
 */
RESULT audit_prove_deletion(const struct permit *permit, struct pg *pg, uint64_t sequence,
                            const struct signed_checkpoint *checkpoint, const struct proven_entry *proven, struct error *err)
    __attribute__((nonnull));
/** A receipt: appends an entry whose actor is `actor`, a pseudonym, and its proof. The permit is of a subject.read of that actor. Errors as
 *  audit_prove(); ERROR_NOT_FOUND also for what was denied: an entry has its number under the keys of its resource, so who may see nothing could count the events of
 *  others, and learn what exists. */
struct own_entry {
    const char *actor;
    uint64_t sequence;
    const struct signed_checkpoint *checkpoint;
};
RESULT audit_prove_own(const struct permit *permit, struct pg *pg, const struct own_entry *own, const struct proven_entry *proven,
                       struct error *err) __attribute__((nonnull));
/** As audit_prove_deletion(), for a certificate of erasure: the permit is of an erasure.read, and the event an audit.erase or a subject.erase. */
RESULT audit_prove_erasure(const struct permit *permit, struct pg *pg, uint64_t sequence,
                           const struct signed_checkpoint *checkpoint, const struct proven_entry *proven, struct error *err)
    __attribute__((nonnull));
/** The same for a residency report: the permit is of a report.residency, and the event, of the system, a policy.load. */
RESULT audit_prove_set(const struct permit *permit, struct pg *pg, uint64_t sequence, const struct signed_checkpoint *checkpoint,
                       const struct proven_entry *proven, struct error *err) __attribute__((nonnull));
/** An entry for the bundle of a training run. */
struct run_entry {
    enum action action; /* that the permit allows, on the run's project */
    uint64_t sequence;
    const struct signed_checkpoint *checkpoint; /* of the proof */
};
/**
 * Appends the entry and its proof. The event must be a run.order of this project, or one that puts a document of a key or of a trust rule into force: bundles
 * prove the keys of persons and runners, and the rule that asked, with these, whatever their scope. Errors as audit_prove().
 */
RESULT audit_prove_run(const struct permit *permit, struct pg *pg, const struct run_entry *entry,
                       const struct proven_entry *proven, struct error *err) __attribute__((nonnull));
/**
 * Appends the decision of a run.order of this project as a line of `sijil audit show --json`, without its actor. *is_whole_out false:
 * some of its facts are not stored, and nothing was appended. Errors as audit_prove().
 */
RESULT audit_decision_of_run(const struct permit *permit, struct pg *pg, const struct run_entry *entry, struct buffer *line,
                             bool *is_whole_out, struct error *err) __attribute__((nonnull));
/** The number of events that allow a token, and the number of those for the administration scope: to compare with
 *  keyd's count. */
struct audit_mints {
    uint64_t all, administration;
    uint64_t log_size; /* at the time of the count */
};
/** The permit is of a job.read of the whole registry. Reads all of an index: not for every request. */
RESULT audit_count_mints(const struct permit *permit, struct pg *pg, struct audit_mints *mints_out, struct error *err)
    __attribute__((nonnull));
