/*
 * policy/label.h -- the label of content: its class, its regimes, and the policies that are pinned to it.
 *
 * A label never falls: the only way to combine two is label_join(), whose result is at least as strict as each. A
 * label borrows its texts (from compiled documents, a snapshot, or parsed JSON) and owns nothing. So it may be
 * copied, and must not outlive them.
 */
#pragma once

#include "base/json.h"

/* Least strict first. */
#define LABEL_CLASSES(X)  \
    X(LABEL_OPEN, "open") \
    X(LABEL_CONFIDENTIAL, "confidential") X(LABEL_SENSITIVE, "sensitive") X(LABEL_SECRET, "secret")
enum label_class {
#define X(constant, name) constant,
    LABEL_CLASSES(X)
#undef X
};

/* Strictest first: the origin is unknown, it is claimed, or it is proven. */
#define LABEL_LINEAGES(X) X(LINEAGE_UNKNOWN, "unknown") X(LINEAGE_DECLARED, "declared") X(LINEAGE_ATTESTED, "attested")
enum label_lineage {
#define X(constant, name) constant,
    LABEL_LINEAGES(X)
#undef X
};

/* The subjects of content: a set of bits, in this order. */
#define LABEL_SUBJECTS(X)                      \
    X(SUBJECT_PERSONAL, "personal")            \
    X(SUBJECT_SPECIAL, "special")              \
    X(SUBJECT_HEALTH, "health")                \
    X(SUBJECT_BIOMETRIC, "biometric")          \
    X(SUBJECT_GENETIC, "genetic")              \
    X(SUBJECT_CHILD, "child")                  \
    X(SUBJECT_FINANCIAL, "financial-customer") \
    X(SUBJECT_GOVERNMENT, "government")        \
    X(SUBJECT_INFRASTRUCTURE, "critical-infra")
enum label_subject {
#define X(constant, name) constant,
    LABEL_SUBJECTS(X)
#undef X
        LABEL_SUBJECT_COUNT
};

/** Labels that training runs or the annotations of manifests bring are stored as if this policy had given them: so a set can declassify it. */
#define LABEL_CARRIED_POLICY "sijil-run"

#define LABEL_REGIMES_MAX 32 /* legal regimes of one label; the samples have at most 2 */
#define LABEL_PINS_MAX    64 /* the most policies of a set */

struct label {
    enum label_class class;
    enum label_lineage lineage;
    uint32_t subjects; /* bit i: subject i of LABEL_SUBJECTS */
    size_t regime_count, pin_count;
    const char *regimes[LABEL_REGIMES_MAX]; /* "attached" in JSON; sorted, each once */
    const char *pins[LABEL_PINS_MAX];       /* ids of policies; sorted, each once */
};

/** Class open, lineage unknown, nothing else. Floors are joined with this label if the content has no label of its own. */
struct label label_initial(void);

/** Raises `label` to be at least as strict as `other`. ERROR_LIMIT past the maxima; `label` is then unusable.
 */
RESULT label_join(struct label *label, const struct label *other, struct error *err);
/** Whether `label` is at least as strict as `floor` in everything, so that a join would change nothing. */
bool label_covers(const struct label *label, const struct label *floor);

/** Whether a label has the class, the subjects and the regimes of `other`. Lineage and pins don't count: they say where a label is from. */
bool label_restricts_as(const struct label *label, const struct label *other);

/**
 * The floor label of an organisation, project or repository, as stored: {"class", "subjects", "attached", "lineage"},
 * each optional, nothing else. An absent member is the least strict: class open, lineage attested. *is_stated_out is
 * false for {}. ERROR_INVALID; ERROR_LIMIT for more regimes or pins than a label has. The label borrows from `floor`.
 */
RESULT label_read_floor(const json_t *floor, struct label *label_out, bool *is_stated_out, struct error *err);
/** A floor label from a request; its texts are in an arena. */
struct asked_label {
    struct label label;
    bool is_stated, has_lineage; /* is_stated is false for {} */
};
struct arena;
/** As label_read_floor(), but a regime has to be known (policy/places.h): no rule would ever meet a misspelt one. ERROR_INVALID, ERROR_LIMIT,
 *  ERROR_NO_MEMORY. */
RESULT label_read_asked(const json_t *floor, struct arena *arena, struct asked_label **asked_out, struct error *err);
/** A whole label, as in facts: class, subjects, attached, pins and lineage are all required. ERROR_INVALID. */
RESULT label_read(const json_t *json, struct label *label_out, struct error *err);
/** Appends the canonical JSON of a whole label. */
RESULT label_write(struct buffer *buffer, const struct label *label, struct error *err);
