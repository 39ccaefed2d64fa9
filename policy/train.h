/*
 * policy/train.h -- decides `train` for the repositories of a run from the signed policy set alone.
 *
 * For verifiers that do not know the repositories' labels: a runner, and an outsider with a bundle (docs/formats/run.md,
 * "Obligations and jurisdictions"). For each repository the set decides with the least strict label that its policies allow there,
 * joined with the labels that the manifests of the run's artifacts state. What the run writes has the join of all. The real label is at
 * least as strict, so the set forbids everything that is refused here, and demands at least what is demanded here. Other labels
 * above the policies' floors and the exceptions of projects are known to the registry alone.
 */
#pragma once

#include "policy/evaluate.h"
#include "policy/run_restrictions.h"
#include "policy/set.h"
#include "training/format/artifacts.h"

struct train_query {
    const char *repository,
        *region; /* or the place of an attested runner (policy/set.h); nothing is known of a region that the set does not list */
    int64_t now_ms;                           /* policies that are not in force yet do not count */
    const struct label *label;                /* NULL: the least strict that the set allows there */
    const struct policy_documents *documents; /* the policies of the set with restrictions; NULL: without */
};
/** ERROR_NO_MEMORY, ERROR_LIMIT. */
RESULT policy_train(const struct policy_set *set, const struct train_query *query, struct policy_decision **decision_out,
                    struct error *err);
/** The first denial; NULL: it is allowed. */
const struct policy_denial *policy_train_denial(const struct policy_decision *decision);

/**
 * Whether a region of the catalogue lies in a place of docs/formats/run.md: the country of its `geo` ("AE"), the whole `geo` with
 * dashes ("AE-DU"), or one of its `regimes` ("DIFC").
 */
bool policy_region_lies_in(const struct policy_set *set, const char *region, const char *jurisdiction);

/* ---- a whole run ---- */

/** What the manifests of a run's artifacts state, in the order of run_spec_artifacts(). NULL: nothing, or it is not known. */
struct train_floors {
    const struct label *each[RUN_ARTIFACTS_MAX];
};

/** Views. `spec` has the shape of docs/formats/run.md. */
struct train_run {
    const struct policy_set *set;
    const json_t *spec;
    int64_t now_ms;
    const struct train_floors *floors;           /* NULL: no manifest is known */
    const struct run_restrictions *restrictions; /* NULL: none is known */
};
/**
 * The label of all that the run writes: the join of the floors of all its repositories, and of what its artifacts' manifests state. It borrows from the
 * set and the floors. ERROR_DENIED: no label has so much; ERROR_NO_MEMORY.
 */
RESULT policy_train_label(const struct train_run *run, struct label *label_out, struct error *err);
/** What an order says. */
struct train_terms {
    int64_t approvals;
    bool signed_request;
    const json_t *jurisdictions; /* texts */
};
/** ERROR_DENIED with the rule by which the set forbids `train` with a repository of the run in this region; ERROR_NO_MEMORY. */
RESULT policy_train_check_region(const struct train_run *run, const char *region, struct error *err);
/**
 * ERROR_DENIED if the set demands more approvals than the order, or a signed request and the order does not, or if it does not
 * allow one of the order's jurisdictions: each repository in one of the set's regions there, or where nothing is known.
 * ERROR_NO_MEMORY.
 */
RESULT policy_train_check_terms(const struct train_run *run, const struct train_terms *terms, struct error *err);
