/*
 * policy/pair_facts_priv.h -- writing down what one pair was decided on, so that the decision can be made again
 * (docs/formats/audit-log.md section 18; policy/replay.h reads it).
 *
 * Only what does not change from request to request: neither who asked, nor when, nor from which address, nor the digest of the
 * content. So the same facts have the same text, however often they occur.
 */
#pragma once

#include "policy/evaluate.h"

#define PAIR_FACTS_MAX     ((size_t)16 * 1024) /* bytes of one pair; of more it is only said that it was too much */
#define PAIR_FACTS_REFUSED 4                   /* rights, existence, no set of policies, too large to be judged */

/** Of the pair at hand. Zeroed is an empty one whose `places` need a maximum: PAIR_FACTS. */
struct pair_facts {
    enum action action;
    bool knows_digest, is_too_large;
    size_t refused_count;
    const char *refused[PAIR_FACTS_REFUSED]; /* rules of the system, static */
    struct buffer places;
};
#define PAIR_FACTS ((struct pair_facts){.places = BUFFER(PAIR_FACTS_MAX)})

/** The next pair; what was noted of the one before is forgotten. */
void pair_facts_begin(struct pair_facts *facts, enum action action);
/** A rule of the system refused it before, or instead of, any policy. */
void pair_facts_refuse(struct pair_facts *facts, const char *rule);

/** What policies were asked of: `label` (NULL: none), and where a new label is judged, the one that was there before. */
struct judged_place {
    const struct label *label, *before;
    bool has_before;
    const char *scope; /* NULL: the name that the event says */
    struct uuid project;
};
RESULT pair_facts_open_place(struct pair_facts *facts, const struct judged_place *place, struct error *err);
/** One operation that was asked there, and of which region or network. */
RESULT pair_facts_operation(struct pair_facts *facts, const struct policy_facts *asked, struct error *err);
RESULT pair_facts_close_place(struct pair_facts *facts, const struct judged_place *place, struct error *err);

/** Appends the canonical text. */
RESULT pair_facts_write(const struct pair_facts *facts, struct buffer *text, struct error *err);

/** Does the event say this name as it is? Then the facts need not. */
bool pair_facts_event_says(const char *name);
