/*
 * policy/replay_restrictions.h -- the restrictions of organisations that a replay has at hand, and from which event of the log to which each was in force.
 *
 * Facts name the restrictions that were evaluated, by the digests of their policies. So a decision that was made without one that was in force, or with another one, differs.
 */
#pragma once

#include "audit/format/leaf.h"
#include "documents/format/document.h"
#include "policy/restriction_chain.h"

#define REPLAY_RESTRICTIONS_MAX 256

struct replay_restrictions;

RESULT replay_restrictions_new(struct replay_restrictions **restrictions_out, struct error *err);
/** Adds a version of a restriction, or a withdrawal, which ends the others of its name; one that is there changes nothing. ERROR_INVALID, ERROR_LIMIT, ERROR_NO_MEMORY. */
RESULT replay_restrictions_add(struct replay_restrictions *restrictions, const struct document *document, struct error *err);
/** Adds what is proven, with the numbers of its events: then a decision without it is found though the export lacks them. The same errors. */
RESULT replay_restrictions_add_proven(struct replay_restrictions *restrictions, const struct restriction_proven *proven,
                                      struct error *err);
/** Notes that an event of the log brings one into force, if it is at hand. Events come in their order. */
void replay_restrictions_note(struct replay_restrictions *restrictions, const struct leaf *leaf);

/** Whether it is the event that brings a restriction of any organisation into force, or ends one. */
bool replay_restriction_is_noted(const struct leaf *leaf);
/** The number of the first event that is proven to have brought one into force; 0: none is. */
uint64_t replay_restrictions_first(const struct replay_restrictions *restrictions);

/** One question: what was decided under which set, for which name, with which digests (canonical JSON array; NULL: none). */
struct replay_restrictions_query {
    const struct policy_set *set;
    const char *scope;
    const json_t *digests;
    uint64_t sequence;   /* of the event */
    bool is_decided_now; /* the event decides; else it completes what an earlier one has permitted */
};
/**
 * *documents_out: the policies of the set, joined with those that the digests name; they live until the next call. ERROR_NOT_FOUND: one is not at hand. ERROR_DENIED: others were
 * in force when the event was recorded, as far as its log and the restrictions at hand tell. `restrictions` NULL: none is at hand.
 */
RESULT replay_restrictions_join(struct replay_restrictions *restrictions, const struct replay_restrictions_query *query,
                                const struct policy_documents **documents_out, struct error *err);
void replay_restrictions_free(struct replay_restrictions *restrictions);
DEFINE_OWNED(replay_restrictions);
