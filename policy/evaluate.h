/*
 * policy/evaluate.h -- the decision of residency policies over stated facts: docs/policies.md.
 *
 * Pure: no clock, network, file or database; the same inputs give the same decision and the same id, on any
 * machine, later. It trusts its facts, also the label: compute that with policy_effective_label().
 */
#pragma once

#include "audit/action.h"
#include "policy/document.h"
#include "policy/label.h"
#include "policy/target.h"

#define POLICY_SCOPE_MAX     RESOURCE_NAME_MAX
#define POLICY_TARGET_ID_MAX 255

/** Views; all must outlive the call. */
struct policy_facts {
    enum policy_operation op;        /* one bit */
    const char *scope;               /* "acme/models/digits" */
    struct uuid project;
    uint64_t policy_epoch;           /* of the policy set */
    const struct label *label;       /* NULL: nothing gives it one; denied */
    const char *digest;              /* "sha256:..." of the content; NULL while it is not known */
    const char *target_id;           /* region, or whose facts these are */
    const struct target *target;
    int64_t now_us;                  /* microseconds since 1970, UTC */
    size_t exception_count;
    const struct policy_exception *const *exceptions; /* sorted by canonical text */
    const char *canonical;           /* canonical JSON of all this; NULL: written from the members above */
};

/** Facts from JSON, for replaying decisions: every member must be there and of its type. */
struct policy_facts_document;
RESULT policy_facts_read(const json_t *json, struct policy_facts_document **facts_out, struct error *err);
const struct policy_facts *policy_facts_of(const struct policy_facts_document *facts);
void policy_facts_document_free(struct policy_facts_document *facts);
DEFINE_OWNED(policy_facts_document);

struct policy_decision;

/** Decides. A denial is a decision, not an error: ERROR_NO_MEMORY, ERROR_LIMIT only. */
RESULT policy_decide(const struct policy_documents *documents, const struct policy_facts *facts,
                     const struct policy_groups *groups, struct policy_decision **decision_out,
                     struct error *err);

/** One reason why not. Texts live as long as the documents and the decision. */
struct policy_denial {
    const char *rule;              /* "H-STORE-AE" or "SYS-..." */
    const char *policy;            /* "health-ae@3", "sys", or the pin that is missing */
    const char *message;           /* "" if the document has none */
    size_t unknown_count, failed_count;
    const char *const *unknown;    /* facts that nobody stated: "geo"; sorted */
    const char *const *failed;     /* facts that are not as required; sorted */
    const json_t *basis;           /* the law, as the document has it; NULL: none */
};

bool policy_decision_allows(const struct policy_decision *decision);
/** The longest retain_min_days of its duties, and who says so; 0 and untouched names if there is none. */
int64_t policy_decision_retains(const struct policy_decision *decision, const char **rule_out, const char **policy_out);
/** "sha256:..." over facts, policies, groups and evaluator. */
const char *policy_decision_id(const struct policy_decision *decision);
size_t policy_decision_denial_count(const struct policy_decision *decision);
const struct policy_denial *policy_decision_denial(const struct policy_decision *decision, size_t index);
/**
 * Of a denial: does a policy's own rule deny, that is not among those of `before`? That nothing permits what is labelled so is no
 * rule's. A new label of what is there is judged by this.
 */
bool policy_denial_is_new(const struct policy_decision *before, const struct policy_denial *denial);
/** Appends the whole decision as canonical JSON: allow, denies, obligations, lifted, warnings and what it is over. */
RESULT policy_decision_write(struct buffer *buffer, const struct policy_decision *decision, struct error *err);
void policy_decision_free(struct policy_decision *decision);
DEFINE_OWNED(policy_decision);

/**
 * The floors of the policies in force in `scope`, joined with `own`. Without an own label (NULL) the lineage is
 * unknown; without both *is_labelled_out is false. ERROR_LIMIT. The label borrows from documents and `own`.
 */
struct policy_place {
    const struct policy_documents *documents;
    const char *scope;
    int64_t now_us;
};
RESULT policy_effective_label(const struct policy_place *place, const struct label *own, struct label *label_out,
                              bool *is_labelled_out, struct error *err);
/** The same for something already stored: never below `stored` (NULL: it had none). */
RESULT policy_stored_label(const struct policy_place *place, const struct label *stored, const struct label *own,
                           struct label *label_out, bool *is_labelled_out, struct error *err);

/** An RFC 3339 text with up to nine digits of a second -> microseconds. False for any other form. */
bool policy_time_parse(struct bytes text, int64_t *us_out);
/** "ingest", ...; NULL unless exactly one bit is set. */
const char *policy_operation_name(unsigned op);
