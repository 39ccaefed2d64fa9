/*
 * runner/serve/floors.h -- the labels that the manifests of an order's artifacts state, read before any of their content is fetched.
 *
 * The manifests are fetched by digest, so a registry that has lost or left out a label in its database can't leave it out here.
 */
#pragma once

#include "client/manifest.h"
#include "policy/label_annotation.h"
#include "policy/train.h"

#define FLOORS_KEPT_MAX (64 * 1024) /* bytes of a manifest that is kept, so that it is not fetched twice */

struct floor {
    struct manifest manifest; /* without bytes: it was too large to be kept */
    struct stated_label stated;
};
/** Of each artifact, in the order of run_spec_artifacts(). */
struct floors {
    struct run_artifacts artifacts;
    struct train_floors views;
    struct floor each[RUN_ARTIFACTS_MAX];
};
void floors_free(struct floors *floors);
DEFINE_OWNED(floors);

/** `fetch` gets the manifest of an artifact. Its errors; ERROR_DENIED: a manifest states a label that can't be read. */
struct floors_source {
    RESULT (*fetch)(void *context, const json_t *artifact, struct manifest *manifest, struct error *err);
    void *context;
};
RESULT floors_read(const struct floors_source *source, const json_t *spec, struct floors **floors_out, struct error *err);
/** The kept manifest of an artifact of the same spec; NULL: fetch it. `floors` may be NULL. */
const struct manifest *floors_manifest(const struct floors *floors, const json_t *artifact);
