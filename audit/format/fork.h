/*
 * audit/format/fork.h -- whether two signed checkpoints are of one log; and if not, a file with which anybody can check that (docs/formats/audit-dump.md).
 *
 * Two signatures of the log's key over logs that do not continue each other are the proof of a fork. If the checkpoints have different sizes, that
 * takes a third root: the one that the longer log has at the smaller size, with a proof from it to the longer log's signed root.
 */
#pragma once

#include "audit/format/log_keys.h"
#include "audit/format/merkle.h"

#define FORK_EVIDENCE_MAX ((size_t)256 << 10) /* bytes: two notes with their cosignatures, 64 hashes */
#define FORK_NOTE_MAX     ((size_t)64 << 10)

/** Two checkpoints that the key has signed, the one of the smaller size first. */
struct fork_pair {
    struct log_keys keys;
    struct bytes notes[2]; /* views */
    struct checkpoint checkpoints[2];
};
/** Orders them. ERROR_DENIED: one is not signed by this key, or is of another log. */
RESULT fork_pair_read(struct bytes vkey, struct bytes first, struct bytes second, struct fork_pair *pair_out, struct error *err)
    __attribute__((nonnull));

/** What the longer log has at the smaller size, and how its signed root follows. For equal sizes the roots decide, and nothing here is used. */
struct fork_prefix {
    struct merkle_hash root;
    struct merkle_proof proof; /* of consistency, from the smaller size */
};

enum fork_verdict {
    FORK_SAME,      /* the same checkpoint twice */
    FORK_CONTINUES, /* the longer log begins with the shorter one */
    FORK_PROVEN     /* the log's key has signed two logs */
};
/** `prefix` NULL: the sizes are equal. ERROR_DENIED: the proof does not lead to the signed root of the longer log, so it says nothing. */
RESULT fork_decide(const struct fork_pair *pair, const struct fork_prefix *prefix, enum fork_verdict *verdict_out,
                   struct error *err) __attribute__((nonnull(1, 3, 4)));
/**
 * The prefix that a proof of consistency names by itself. False if the smaller size is a power of two: such a proof names no root, and holds or does not
 * hold only for a given one.
 */
bool fork_prefix_of_proof(const struct fork_pair *pair, const struct merkle_proof *proof, struct fork_prefix *prefix_out)
    __attribute__((nonnull));

/** The prefix computed from the hashes of all entries of the longer log, which are given one after the other. */
struct fork_walk;
RESULT fork_walk_new(const struct fork_pair *pair, struct fork_walk **walk_out, struct error *err) __attribute__((nonnull));
void fork_walk_free(struct fork_walk *walk);
DEFINE_OWNED(fork_walk);
void fork_walk_add(struct fork_walk *walk, const struct merkle_hash *leaf_hash) __attribute__((nonnull));
/** ERROR_INVALID: fewer entries came than the longer log has. */
RESULT fork_walk_end(struct fork_walk *walk, struct fork_prefix *prefix_out, struct error *err) __attribute__((nonnull));

/** Appends the evidence of a fork that was proven. */
RESULT fork_evidence_write(const struct fork_pair *pair, const struct fork_prefix *prefix, struct buffer *text, struct error *err)
    __attribute__((nonnull(1, 3, 4)));
/** ERROR_INVALID: it is no evidence; ERROR_DENIED: it proves no fork of the log with this key. The notes are views into `text`. */
RESULT fork_evidence_check(struct bytes vkey, struct bytes text, struct fork_pair *pair_out, struct error *err)
    __attribute__((nonnull));
/** Appends what is proven, in plain words. */
RESULT fork_report_text(const struct fork_pair *pair, enum fork_verdict verdict, struct buffer *text, struct error *err)
    __attribute__((nonnull));
