/*
 * training/format/bundle.h -- a whole run in one file, checked offline (docs/formats/run.md, "Bundle").
 *
 * Nothing in the file is trusted: three keys come from the verifier. The report lists what the bundle can't prove.
 */
#pragma once

#include "audit/format/proof_check.h"
#include "training/format/artifacts.h"
#include "training/format/chain.h"
#include "training/format/run_keys.h"

#define RUN_BUNDLE_MAX    (16u << 20)  /* bytes */
#define RUN_MANIFESTS_MAX (4u << 20)   /* bytes of all `manifests` of a bundle */
#define RUN_REPORT_MAX    (512u << 10) /* bytes of what a bundle proves: of 256 nodes with runners in 16 jurisdictions 300 KiB */

struct run_bundle {
    json_t *json;                                                                      /* the whole file */
    struct run_keys keys;                                                              /* of its documents */
    struct run_envelope *envelopes[RUN_TYPES + RUN_APPROVALS_MAX + 3 * RUN_PEERS_MAX]; /* owned; `chain` has views of them */
    size_t envelope_count;
    struct run_peer peers[RUN_PEERS_MAX]; /* of `chain` */
    struct run_chain chain;
    struct proof_report event;      /* of the order */
    bool has_runner;                /* it has a lease */
    struct runner_key runner;       /* what the approvers have signed of the lease's runner */
    struct runner_key *others;      /* likewise, of the runners of the peers; owned */
    struct run_artifacts artifacts; /* of the order */
    const json_t *manifests
        [RUN_ARTIFACTS_MAX]; /* of each artifact, a text with the digest that the order names; NULL: the bundle has it not */
};

/**
 * Checks all parts of the bundle. ERROR_DENIED with the rule that does not hold; ERROR_INVALID, ERROR_LIMIT for a file that is
 * not a bundle; ERROR_NO_MEMORY.
 */
RESULT run_bundle_check(struct bytes text, const struct run_trust *trust, struct run_bundle **bundle_out, struct error *err);

/** Of the runner; of several nodes the lowest. The bundle has a lease. */
int64_t run_bundle_assurance(const struct run_bundle *bundle);

/** The results that the caller computed again from the signed policy sets of the bundle. They equal those in the bundle. */
struct run_repeated {
    uint64_t decisions;  /* 1: the decision of the order's event is equal; 0: the bundle does not have it */
    uint64_t others;     /* further decisions of the bundle: they follow from the sets, and nothing shows that the log has them */
    bool has_terms;      /* the order's obligations and jurisdictions are equal */
    bool has_last_terms; /* the set of the admission asked for no more than was done, and allowed the run where it was */
    size_t manifests, artifacts; /* for how many of the order's artifacts the labels of their manifests counted in that */
};

/**
 * A policy set under which a run is decided once more, whatever its order says: that in force when sijil-keyd signs a lease or an admission. keyd does not
 * know the language of policies, so its program gives it the check (policy/run_day.h).
 */
#define RUN_RESTRICTIONS_MAX 4 /* of one organisation (policy/restriction.h) */
struct run_day {
    const uint8_t *root;   /* ECDSA_PUBLIC_SIZE bytes: the key that has signed the set, unless it says that several persons do */
    const uint8_t *digest; /* 32 bytes: of the set */
    int64_t now_ms;
    /** How many restrictions of an organisation are in force, and the digests of their documents, at most RUN_RESTRICTIONS_MAX. NULL: nobody knows of any. */
    size_t (*restrictions)(const void *context, const char *organisation, uint8_t digests[RUN_RESTRICTIONS_MAX][32]);
    const void *context;
};
/** ERROR_DENIED: the set forbids the run, or asks for more than was done. ERROR_UNAVAILABLE: the bundle does not have the set, or a restriction. */
typedef struct result run_day_check(const struct run_bundle *bundle, const struct run_day *day, struct error *err);

/** Appends what is proven and what is not, in plain words. */
RESULT run_bundle_text(const struct run_bundle *bundle, const struct run_repeated *repeated, struct buffer *text,
                       struct error *err);
/** Appends the same as one JSON object and a line feed. */
RESULT run_bundle_json(const struct run_bundle *bundle, const struct run_repeated *repeated, struct buffer *text,
                       struct error *err);

/** What became of the run: "admitted", "refused", else the status in its result, else "leased" or "ordered", as far as the bundle goes. */
const char *run_bundle_outcome(const struct run_bundle *bundle);

void run_bundle_free(struct run_bundle *bundle);
DEFINE_OWNED(run_bundle);
