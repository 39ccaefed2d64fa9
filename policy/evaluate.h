/*
 * policy/evaluate.h -- evaluates residency policies over stated facts: docs/policies.md.
 *
 * Pure: no clock, network, file or database. The same inputs give the same decision and the same id on any machine at
 * any time. It trusts its facts, also the label: compute that with policy_effective_label().
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
    enum policy_operation op; /* one bit */
    const char *scope;        /* "acme/models/digits" */
    struct uuid project;
    uint64_t policy_epoch;     /* of the policy set */
    const struct label *label; /* NULL: it has none, so it is denied */
    const char *digest;        /* "sha256:..." of the content; NULL if it is not known yet */
    const char *target_id;     /* the region or network of the facts */
    const struct policy_target *target;
    int64_t now_us; /* microseconds since 1970, UTC */
    size_t exception_count;
    const struct policy_exception *const *exceptions; /* sorted by canonical text */
    const char *canonical; /* the canonical JSON of these facts; NULL: composed from the members above */
};

/** Facts from JSON, for replaying decisions. Every member must exist and have its type. */
struct policy_facts_document;
RESULT policy_facts_read(const json_t *json, struct policy_facts_document **facts_out, struct error *err);
const struct policy_facts *policy_facts_of(const struct policy_facts_document *facts);
void policy_facts_document_free(struct policy_facts_document *facts);
DEFINE_OWNED(policy_facts_document);

struct policy_decision;

/** Evaluates the policies. A denial is a decision, not an error: ERROR_NO_MEMORY, ERROR_LIMIT only. */
RESULT policy_evaluate(const struct policy_documents *documents, const struct policy_facts *facts,
                       const struct policy_groups *groups, struct policy_decision **decision_out, struct error *err);
/** As policy_evaluate(), for those who ask what would be decided: the decision's id is "", which saves its hash. */
RESULT policy_judge(const struct policy_documents *documents, const struct policy_facts *facts,
                    const struct policy_groups *groups, struct policy_decision **decision_out, struct error *err);

/** One denial. Texts live as long as the documents and the decision. */
struct policy_denial {
    const char *rule;    /* "H-STORE-AE" or "SYS-..." */
    const char *policy;  /* "health-ae@3", "sys", or the missing pin */
    const char *message; /* "" if the document has none */
    size_t unknown_count, failed_count;
    const char *const *unknown; /* unknown facts: "geo"; sorted */
    const char *const *failed;  /* facts that contradict the rule; sorted */
    const json_t *basis;        /* the legal basis from the document; NULL: none */
};

bool policy_decision_allows(const struct policy_decision *decision);
/** The longest retain_min_days of its duties, with its rule and policy; 0, with nothing written, if there is none. */
int64_t policy_decision_retains(const struct policy_decision *decision, const char **rule_out, const char **policy_out);
/** The longest audit_retain_min_days, in the same way. */
int64_t policy_decision_keeps_events(const struct policy_decision *decision, const char **rule_out, const char **policy_out);
/** The shortest retain_max_days of its duties in *days_out, with its rule and policy; false, with nothing written, if there is none. */
bool policy_decision_ends(const struct policy_decision *decision, int64_t *days_out, const char **rule_out,
                          const char **policy_out);
/** The largest min_sites of its duties; 0 if there is none. */
int64_t policy_decision_sites(const struct policy_decision *decision);
/** How many different anchor copies its duties demand. */
size_t policy_decision_anchors(const struct policy_decision *decision);
/** One of them: canonical JSON, {"geo_within": [...], "max_staleness_s"}. */
const char *policy_decision_anchor(const struct policy_decision *decision, size_t index);
/** The evidence that its duties demand: names, sorted, each once. */
size_t policy_decision_evidence_count(const struct policy_decision *decision);
const char *policy_decision_evidence(const struct policy_decision *decision, size_t index);
/** Whom its duties want told: names, sorted, each once. */
size_t policy_decision_told_count(const struct policy_decision *decision);
const char *policy_decision_told(const struct policy_decision *decision, size_t index);
/** The first rule of a policy in scope that permits the operation, with its policy; NULL: none does. */
const char *policy_decision_permit(const struct policy_decision *decision, const char **policy_out);
/** The largest `approvals` of its duties; 0 if there is none. */
int64_t policy_decision_approvals(const struct policy_decision *decision);
/** Whether one of its duties demands that the requester has signed. */
bool policy_decision_signed_request(const struct policy_decision *decision);
/** "sha256:..." over facts, policies, groups and evaluator. */
const char *policy_decision_id(const struct policy_decision *decision);
size_t policy_decision_denial_count(const struct policy_decision *decision);
const struct policy_denial *policy_decision_denial(const struct policy_decision *decision, size_t index);
/**
 * Whether this is a denial by a policy's own rule that `before` does not have. A denial because no policy permits the
 * label is not one by a rule. A new label for existing content is checked with this.
 */
bool policy_denial_is_new(const struct policy_decision *before, const struct policy_denial *denial);
/** Rules that exceptions have lifted. The place is that of the exception in the facts. */
size_t policy_decision_lifted_count(const struct policy_decision *decision);
size_t policy_decision_lifted(const struct policy_decision *decision, size_t index);
/** Appends the whole decision as canonical JSON: allow, denies, obligations, lifted, warnings and inputs. */
RESULT policy_decision_write(struct buffer *buffer, const struct policy_decision *decision, struct error *err);
void policy_decision_free(struct policy_decision *decision);
DEFINE_OWNED(policy_decision);

/**
 * The floors of the policies in force in `scope`, joined with `own`. Without an own label (NULL) the lineage is
 * unknown. If there is neither a floor nor an own label, *is_labelled_out is false. ERROR_LIMIT. The label borrows
 * from the documents and from `own`.
 */
struct label_query {
    const struct policy_documents *documents;
    const char *scope;
    int64_t now_us;
};
RESULT policy_effective_label(const struct label_query *query, const struct label *own, struct label *label_out,
                              bool *is_labelled_out, struct error *err);
/** As policy_effective_label(), for stored content: the label is never below `stored` (NULL: it had no label). */
RESULT policy_stored_label(const struct label_query *query, const struct label *stored, const struct label *own,
                           struct label *label_out, bool *is_labelled_out, struct error *err);

/** Parses an RFC 3339 time with up to nine digits after the second. False for any other form. */
bool policy_time_parse(struct bytes text, int64_t *us_out);
/** "ingest", ...; NULL unless exactly one bit is set. */
const char *policy_operation_name(unsigned op);
