/*
 * policy/shape_priv.h -- tables that describe our JSON documents, and one strict check for them.
 *
 * Nothing is ignored: a member that is not in the table makes the whole value invalid. The first problem is reported,
 * in the order of the table, so the same input always gives the same message.
 */
#pragma once

#include "base/json.h"

enum shape_kind { SHAPE_ANYTHING, SHAPE_TEXT, SHAPE_WHOLE, SHAPE_BOOLEAN, SHAPE_LIST, SHAPE_MAP, SHAPE_OBJECT };

struct shape;

struct shape_member {
    const char *name;
    const struct shape *shape;
    bool is_required;
};

struct shape {
    enum shape_kind kind;
    const char *what;                    /* for messages: "a place such as AE/DU" */
    bool (*holds)(struct bytes text);    /* TEXT; NULL: anything but "" */
    const char *const *words;            /* TEXT: the allowed words, NULL-terminated; NULL: `holds` checks */
    int64_t low, high;                   /* WHOLE */
    size_t least, most;                  /* LIST, MAP: the number of members; more than `most` is ERROR_LIMIT */
    const struct shape *each;            /* LIST, MAP */
    bool (*key_holds)(struct bytes key); /* MAP; NULL: any name */
    const struct shape_member *members;  /* OBJECT: in the order of checks, ended by a NULL name */
};

/** Whether a name of a document may be repeated in a message. */
bool shape_name_is_plain(const char *key);
/** ERROR_INVALID "policy.rules.target: a member that is not known: geo_withn", or ERROR_LIMIT. */
RESULT shape_check(const struct shape *shape, const json_t *value, const char *where, struct error *err);

extern const struct shape shape_policy, shape_applies_to, shape_exception, shape_label, shape_floor_label;
extern const struct shape shape_target, shape_groups, shape_facts, shape_pair_facts, shape_digest, shape_set, shape_expectations;

/* Words of the language, NULL-terminated; their indexes are the values of the enums. */
extern const char *const class_names[], *const lineage_names[], *const subject_names[], *const operation_names[];

#define FACTS_TOLD_MAX 64 /* whom the duties of one name want told; more are not recorded */

enum effect { EFFECT_REQUIRE, EFFECT_DENY, EFFECT_OBLIGE, EFFECT_PERMIT };
extern const char *const effect_names[];
extern const struct shape *const shape_rules[]; /* the shape of a rule, by effect */

enum group_kind { GROUP_GEO, GROUP_REGIME };
extern const char *const group_kind_names[];
extern const struct shape *const shape_group_kinds[];

/** Index of `text` among NULL-terminated words, or -1. */
int word_index(const char *const *words, const char *text);
/** "2026-11-20", an existing day, as days since 1970. */
bool day_parse(struct bytes text, int64_t *day_out);
