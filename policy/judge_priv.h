/*
 * policy/judge_priv.h -- one request's decision while it is made: what judge.c, judge_policies.c and judge_notes.c share.
 */
#pragma once

#include "audit/decision_make.h"
#include "policy/compiled_priv.h"
#include "policy/decider_priv.h"
#include "policy/pair_facts_priv.h"

/* A decision while it is made. */
struct making {
    const struct judge *judge;
    struct decision_parts parts;
    struct buffer inputs; /* what the id is over */
    struct pair_facts stated; /* of the pair at hand */
    struct buffer facts;  /* of the pairs, one behind the other */
};

/* One pair of it. */
struct pair {
    const struct action_pair *pair;
    const char *scope;                    /* what is judged: the resource's name, or something below it */
    const struct tenant_project *project; /* NULL: there is none of that name */
    struct label label;
    bool is_labelled;
    char digest[SHA_TEXT_SIZE];           /* "" while the content is not known */
};

/* judge_notes.c */
/** A rule of the system denies. */
void refuse(struct making *making, enum verdict verdict, const char *rule, const char *message);
/** A policy's rule denies. */
void note_denial(struct making *making, const struct policy_denial *denial);

/* judge_policies.c */
/** What is too large to be judged is denied, like everything that is not understood. */
RESULT judge_policies(struct making *making, struct pair *pair, struct error *err);
