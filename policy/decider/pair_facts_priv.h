/*
 * policy/decider/pair_facts_priv.h -- records the facts that one pair was decided on, so that the decision can be replayed
 * (docs/formats/audit-log.md section 18; policy/replay.h reads them).
 *
 * Facts leave out everything that changes with each request: the caller, the time, the address, and the digest of the
 * content. So equal facts have the same text and are stored once.
 */
#pragma once

#include "policy/evaluate.h"
#include "policy/shape_priv.h"

#define PAIR_FACTS_MAX     ((size_t)16 * 1024) /* bytes of one pair; of larger facts only is_too_large is recorded */
#define PAIR_FACTS_USED    8                   /* exceptions of one pair: two more than a request may use */
#define PAIR_FACTS_REFUSED 4                   /* rights, existence, no policy set, a limit exceeded */

/** The facts of the current pair. Initialise it with PAIR_FACTS, because `entries` needs a maximum. */
struct pair_facts {
    enum action action;
    bool knows_digest, is_too_large;
    size_t refused_count;
    const char *refused[PAIR_FACTS_REFUSED]; /* rules of the system, static */
    struct buffer entries;
    size_t spent_count, used_count; /* exceptions of the entry at hand: used up before, and that have lifted a rule */
    const struct policy_exception *spent[POLICY_LIST_MAX], *used[PAIR_FACTS_USED];
    size_t told_count;
    const char *told[FACTS_TOLD_MAX]; /* sorted, each once; of the set */
};
#define PAIR_FACTS ((struct pair_facts){.entries = BUFFER(PAIR_FACTS_MAX)})

/** Begins the next pair and drops the facts of the previous one. */
void pair_facts_begin(struct pair_facts *facts, enum action action);
/** Records a refusal by a rule of the system. */
void pair_facts_refuse(struct pair_facts *facts, const char *rule);

/**
 * One name that policies were evaluated for, with its label (NULL: none). For a check of a new label, also the label
 * from before.
 */
struct facts_entry {
    const struct label *label, *before;
    bool has_before;
    const char *scope;        /* NULL: the name in the event */
    const char *restrictions; /* the digests of those of the organisation, as canonical JSON; NULL: it has none */
    struct uuid project;
};
RESULT pair_facts_open_entry(struct pair_facts *facts, const struct facts_entry *entry, struct error *err);
/** Records one evaluated operation and its region or network. */
RESULT pair_facts_operation(struct pair_facts *facts, const struct policy_facts *asked, struct error *err);
/** Records that an exception of the set is used up, or that it has lifted a rule; each once. */
void pair_facts_spent(struct pair_facts *facts, const struct policy_exception *exception);
/** ERROR_LIMIT. */
RESULT pair_facts_used(struct pair_facts *facts, const struct policy_exception *exception, struct error *err);
/** Records whom a duty of the decision wants told. */
RESULT pair_facts_tell(struct pair_facts *facts, const struct policy_decision *decision, struct error *err);
RESULT pair_facts_close_entry(struct pair_facts *facts, const struct facts_entry *entry, struct error *err);

/** Appends the canonical text. */
RESULT pair_facts_write(const struct pair_facts *facts, struct buffer *text, struct error *err);

/** Whether the event contains this name unchanged: then the facts leave it out. */
bool pair_facts_event_says(const char *name);
