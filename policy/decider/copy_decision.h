/*
 * policy/decider/copy_decision.h -- decides copies of content in further regions, for the server itself (docs/replication.md).
 *
 * Rule: nobody's rights are asked, so no code that serves a request may include this (tests/lint/closed_headers.txt). The operation is `replicate`, at the
 * region that the content goes to, or `migrate` if that becomes the home. The states of both regions count, too. Exceptions whose uses are counted lift nothing here: they are for requests.
 */
#pragma once

#include "policy/decider/decider.h"

/** A blob of a repository, from the region that it is read in to the one that it goes to. */
struct copy_question {
    const struct resource *where; /* the repository, with its ids; its region is not used */
    const char *digest, *from, *to;
    enum action
        action; /* copy.write, move.write; project.moved, where the repository is the project and the digest the region before */
    int64_t now_ms;
    bool is_at_source; /* asked by the gateway that reads for another one: its event is a copy.read */
};
/** The pairs are the action in `to` and copy.read in `from`, both with the digest; at the source in the other order. A denial is a decision. The caller owns *decision_out. */
RESULT decider_decide_copy(struct decider *decider, const struct copy_question *question, struct decision **decision_out,
                           struct error *err);

/** Stands for the newest organisations, projects, repositories, labels and policies that this gateway knows: if it has more, copies are decided again. */
uint64_t decider_copies_version(struct decider *decider);
#define PLACE_SET_SHIFT 40 /* of the epoch of the policy set in it */
/** Of the epochs of the database at which names were read, and of the policy set. */
uint64_t copies_version(uint64_t names, uint64_t set);
/** Whether `version` knows of something that `reviewed`, perhaps of another gateway, did not know. */
bool copies_version_has_more(uint64_t version, uint64_t reviewed);

/**
 * Whether the policies let a copy that is there stay, or a project move: the operation of the action alone, whatever the states of the regions are. A denial names its rule. ERROR_UNAVAILABLE
 * while the policies are not known; ERROR_LIMIT.
 */
RESULT decider_copy_stays(struct decider *decider, const struct copy_question *question, struct store_answer *answer_out,
                          struct error *err);
