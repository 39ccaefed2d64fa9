/* training/admit_priv.h -- an admission while it is made. */
#pragma once

#include "documents/format/runner_key.h"
#include "registry/held_manifest.h"
#include "training/result_priv.h"

#define REFERRERS_MAX 4 /* of an output: provenance, admission, log, metrics */
#define PUSHES_MAX \
    (HELD_MANIFESTS_MAX + 16 * REFERRERS_MAX + 2 * RUN_PEERS_MAX) /* of each further node its log, and a referrer */

struct admitting {
    const struct run_admit_source *source;
    struct run_finishing run;
    struct permit *permit;     /* run.admit on the project; owned */
    struct run_papers *papers; /* owned */
    struct run_makes makes;
    struct held_manifests held;
    char region[RUNNER_PLACE_SIZE]; /* of the runner that was looked at last, as its record says */
    struct buffer admission;        /* the envelope */
    struct run_duties duties;       /* of the policies of the admission, for all repositories */
    char reason[RUN_REASON_SIZE];   /* why the run is quarantined; "" */
};

/* --- admit_held.c --- */

/** Sets the reason: a check has failed for good. Returns success. */
RESULT admit_refuse(struct admitting *admitting, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool admit_is_refused(const struct admitting *admitting);
/** Whether no earlier one of the held manifests is for the same repository. */
bool admit_is_first(const struct admitting *admitting, size_t index);

/** Reads the manifests that a result of this run names. Refuses the admission if they are not what was signed. */
RESULT admit_read_held(struct admitting *admitting, const struct run_envelope *result, struct held_manifests *held,
                       struct error *err);
/** Reads what the result of a further node names: its log. Refuses the admission if that is not what was signed. */
RESULT admit_read_node(struct admitting *admitting, size_t index, struct held_manifests *held, struct error *err);

/* --- admit_decide.c --- */

/** With today's enrolment of the runner, policies and labels: `train` for each repository; for each output its label, and `ingest`. */
RESULT admit_decide(struct admitting *admitting, struct error *err);
/** What a manifest states goes along with it to other registries; here its repository must have it, too. Else refuses the admission. */
RESULT admit_check_stated(struct admitting *admitting, const struct held_manifest *held, struct error *err);

/* --- admit_artifacts.c --- */

/** The manifests that an admission stores, and blobs of repositories that others need. */
struct admit_pushes {
    size_t count, link_count;
    struct manifest_push each[PUSHES_MAX];
    struct manifest *manifests[PUSHES_MAX]; /* owned; of the pushes */
    struct held_links links[2 * 16];
};
void admit_pushes_free(struct admit_pushes *pushes);
DEFINE_OWNED(admit_pushes);
/** Uploads the envelopes as blobs, and makes the referrers of each output. It may refuse the admission. */
RESULT admit_prepare(struct admitting *admitting, struct admit_pushes **pushes_out, struct error *err);
