/*
 * audit/query_priv.h -- the statements behind audit/query.h.
 */
#pragma once

#include "audit/format/leaf.h"
#include "audit/query.h"

struct audit_selection {
    bool ascending;
    uint64_t from, until;
    size_t limit, key_count; /* an event must have all keys that are given */
    uint8_t keys[2][LEAF_KEY_ID_SIZE];
    const char *
        actor; /* of the one key act:...: the events of this actor alone, without exports that others made under its key; or NULL */
    struct archived_leaves *kept; /* of the same entries, or NULL: they are not read again */
};
RESULT audit_select(struct pg *pg, const struct audit_selection *selection, struct pg_rows **rows_out, struct error *err);

/** A page of a selection, each event compared with its leaf and the keys. Without a permit, as the next ones. */
RESULT audit_page_select(struct pg *pg, const struct audit_selection *selection, struct audit_page **page_out, struct error *err);

/** The entries from <= seq < until, at most AUDIT_PAGE_MAX, without a permit: for the server's own checks. */
RESULT audit_page_between(struct pg *pg, uint64_t from, uint64_t until, struct audit_page **page_out, struct error *err);
/** The same, with leaves that were read before, if they are those of the same entries. `kept` may be NULL. */
RESULT audit_page_between_kept(struct pg *pg, uint64_t from, uint64_t until, struct archived_leaves *kept,
                               struct audit_page **page_out, struct error *err);

/** The entries with these numbers, in this order; numbers without an entry are left out. Without a permit: for the search. */
RESULT audit_page_of_numbers(struct pg *pg, const int64_t *sequences, size_t count, struct audit_page **page_out,
                             struct error *err);
RESULT audit_select_numbers(struct pg *pg, const int64_t *sequences, size_t count, struct pg_rows **rows_out, struct error *err);
/** The subject whose key seals the payload of an event; empty without one. */
struct bytes audit_page_subject(const struct audit_page *page, size_t index);
/** The salt of its commitment to the payload; empty without a payload. */
struct bytes audit_page_salt(const struct audit_page *page, size_t index);

/** With what payloads are opened: sijil-keyd, the origin of the log, and the keys that a job keeps, or NULL (audit/payload_keys_priv.h). */
struct payload_opener {
    struct keyd_client *keyd;
    const char *origin;
    struct kept_keys *kept;
};
/** audit_page_payload() for a caller that has read the event. */
RESULT audit_page_payload_of(struct audit_page *page, size_t index, const struct leaf *leaf, const struct payload_opener *with,
                             struct buffer *payload, struct error *err) __attribute__((nonnull));

/** Appends a C2SP tlog-proof of the entry, which was verified. ERROR_UNAVAILABLE: the checkpoint does not cover it yet. */
RESULT audit_prove_under(struct pg *pg, const struct signed_checkpoint *checkpoint, uint64_t sequence, struct bytes leaf,
                         struct buffer *proof, struct error *err);

/** Digest and text of those facts that are stored, in the order of the digests. */
RESULT audit_select_facts(struct pg *pg, const struct bytes *digests, size_t count, struct pg_rows **rows_out, struct error *err);

/** The facts that query_facts.c keeps with a page. */
struct page_facts;
void page_facts_free(struct page_facts *facts);
DEFINE_OWNED(page_facts);
struct bytes audit_page_facts_digest(const struct audit_page *page, size_t index, size_t target);
#define AUDIT_SEQUENCE_COLUMN 0 /* of these rows */
#define AUDIT_LEAF_COLUMN     1
/** The page takes `facts` over; the caller takes the former ones. */
struct page_facts *audit_page_keep_facts(struct audit_page *page, struct page_facts *facts);
const struct page_facts *audit_page_kept_facts(const struct audit_page *page);

struct audit_row {
    uint64_t sequence;
    struct bytes leaf, hash;                      /* the hashed bytes, and the hash in the column beside them */
    struct bytes salt, box, subject, wrapped_key; /* empty: no payload, or erased */
    int32_t key_version;
};
void audit_read_row(const struct pg_rows *rows, size_t row, struct audit_row *row_out);
