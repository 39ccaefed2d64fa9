/*
 * audit/format/fsck.h -- checks a dump of the log against itself and against the signed checkpoints (docs/formats/audit-dump.md).
 *
 * It needs no database and no secret, and trusts nothing but the log's public key: the tree is computed from the bytes of the leaves, and all other
 * rows must follow from the leaves. Memory is bounded: a log that is too long for it is read in several passes, each with a window of its numbers.
 * A difference is a finding, and the check goes on. What can't be read as a dump is an error.
 */
#pragma once

#include "audit/format/dump.h"
#include "audit/format/log_keys.h"

#define FSCK_MEMORY_MIN     ((uint64_t)64 << 20) /* bytes */
#define FSCK_MEMORY_DEFAULT ((uint64_t)256 << 20)
#define FSCK_MEMORY_MAX     ((uint64_t)1 << 40)
#define FSCK_THREADS_MAX    64
#define FSCK_UNSIGNED_MS    ((int64_t)60000) /* a gateway serves nothing while an entry is unsigned for five seconds */
#define FSCK_FINDINGS_SHOWN 32               /* those with the smallest numbers */
#define FSCK_FINDING_SIZE   224

/* What a finding is about. */
#define FSCK_KINDS(X)                      \
    X(STATE, "state of the log")           \
    X(ENTRY, "entry")                      \
    X(COLUMN, "column beside an entry")    \
    X(TILE, "tile")                        \
    X(CHECKPOINT, "checkpoint")            \
    X(KEY_INDEX, "index by key")           \
    X(SEARCH_INDEX, "index of searches")   \
    X(ADDRESS_INDEX, "index of addresses") \
    X(PAYLOAD, "sealed part")              \
    X(FACTS, "facts")                      \
    X(TAG, "tag")                          \
    X(BINDING, "binding")                  \
    X(PROVISIONED, "person of SCIM")       \
    X(GROUP, "group of SCIM")              \
    X(UNWRAPS, "chain of unwraps")

enum fsck_kind {
#define X(kind, name) FSCK_##kind,
    FSCK_KINDS(X)
#undef X
        FSCK_KIND_COUNT
};
const char *fsck_kind_name(enum fsck_kind kind);

/** Something that is not as it was signed, or does not follow from what was signed. */
struct fsck_finding {
    uint64_t number; /* of the first entry that it is about */
    enum fsck_kind kind;
    char what[FSCK_FINDING_SIZE];
};

struct fsck_report {
    char origin[CHECKPOINT_ORIGIN_MAX + 1];
    uint64_t size, signed_size; /* of the log, and of the largest checkpoint that its key has signed */
    struct merkle_hash root;    /* over all entries, as computed from their leaves */
    uint64_t unreadable;        /* entries of a later version, which this one can't read */
    uint64_t released, released_first,
        released_last;        /* entries whose bytes are archived: the tree has the hash that is stored for each */
    uint64_t keys;            /* under which events are counted */
    struct merkle_hash heads; /* the root over the heads of the keys (docs/formats/audit-dump.md, "Heads of keys") */
    uint64_t payloads, checkpoints, foreign, facts, tags, bindings, persons,
        groups; /* rows; foreign: checkpoints that the key has not signed */
    uint64_t links,
        untold; /* subjects of persons' tokens; rows about persons that no event tells, because an earlier version wrote them: they give no role */
    uint64_t erased;         /* sealed parts that are gone by an event */
    uint64_t indexed;        /* entries that the index of searches has */
    uint64_t unwraps, reads; /* keys that sijil-keyd has unwrapped, by the last event; events that allow reading content */
    uint64_t successions;    /* recoveries: this log goes on from another one (docs/recovery.md) */
    uint64_t succeeds_at;    /* the number of the newest one's entry */
    char succeeds[FSCK_FINDING_SIZE]; /* "sha256:STATEMENT SIZE ROOT OFFICERS", of the log that ended */
    int64_t made_ms;                  /* when the dump was made */
    unsigned passes;
    uint64_t findings[FSCK_KIND_COUNT]; /* their number, by kind */
    size_t shown;
    struct fsck_finding first[FSCK_FINDINGS_SHOWN]; /* in the order of numbers */
};
uint64_t fsck_report_count(const struct fsck_report *report) __attribute__((nonnull));
/** Appends the results in plain words, or as one line of JSON. */
RESULT fsck_report_text(const struct fsck_report *report, struct buffer *text, struct error *err) __attribute__((nonnull));
RESULT fsck_report_json(const struct fsck_report *report, struct buffer *text, struct error *err) __attribute__((nonnull));
/** Appends the statement about the heads of all keys. ERROR_DENIED if there is a finding about the entries, the checkpoints or the index by key. */
RESULT fsck_heads_text(const struct fsck_report *report, struct buffer *text, struct error *err) __attribute__((nonnull));

struct fsck_options {
    struct bytes vkey; /* of the log */
    uint64_t memory;   /* bytes, from FSCK_MEMORY_MIN on */
    unsigned threads;  /* from 1 on */
};

struct fsck;
/** ERROR_INVALID for a key that is none, or options out of their bounds. */
RESULT fsck_new(const struct fsck_options *options, struct fsck **fsck_out, struct error *err) __attribute__((nonnull));
void fsck_free(struct fsck *fsck);
DEFINE_OWNED(fsck);
/** Takes the next bytes of a dump. ERROR_INVALID: it is none, was damaged, or is of another log; ERROR_LIMIT: more memory is needed. */
RESULT fsck_feed(struct fsck *fsck, struct bytes piece, struct error *err) __attribute__((nonnull));
/** The dump is over. *again_out: the same bytes are wanted once more, from the beginning. */
RESULT fsck_end_pass(struct fsck *fsck, bool *again_out, struct error *err) __attribute__((nonnull));
/** After the last pass. Lives as long as the check. */
const struct fsck_report *fsck_report(const struct fsck *fsck) __attribute__((nonnull));
