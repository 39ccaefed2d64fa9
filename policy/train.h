/*
 * policy/train.h -- decides `train` for the repositories of a run from the signed policy set alone.
 *
 * For verifiers that do not know the repositories' labels: a runner, and an outsider with a bundle (docs/formats/run.md,
 * "Obligations and jurisdictions"). For each repository the set decides with the least strict label that its policies allow there.
 * The real label is at least as strict, so the set forbids everything that is refused here, and demands at least what is demanded
 * here. Labels above the policies' floors and the exceptions of projects are known to the registry alone.
 */
#pragma once

#include "policy/evaluate.h"
#include "policy/set.h"

struct train_query {
    const char *repository, *region; /* nothing is known of a region that the set does not list */
    int64_t now_ms;                  /* policies that are not in force yet do not count */
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

/** Views. `spec` has the shape of docs/formats/run.md. */
struct train_run {
    const struct policy_set *set;
    const json_t *spec;
    int64_t now_ms;
};
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
