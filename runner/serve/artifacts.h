/*
 * runner/serve/artifacts.h -- fetches the artifacts of an order into the folder of its run, as read-only files.
 *
 * Everything is fetched by digest and compared with it. The names of files follow the rules of `sijil pull`.
 */
#pragma once

#include "client/layers.h"
#include "runner/image/image.h"
#include "runner/serve/floors.h"
#include "training/format/spec.h"

/** The scope of all calls under a run's token: the token names what it allows, so one token serves them all. */
#define LEASED_SCOPE "run"

struct artifacts {
    struct session *session;
    const char *host;
    const struct run_spec *spec;
    const struct floors *floors; /* of the same spec: manifests that are here already; NULL: none */
};

/** Fetches the manifests of the spec's artifacts, and nothing else. ERROR_DENIED: one states a label that can't be read. */
RESULT artifacts_floors(const struct artifacts *artifacts, struct floors **floors_out, struct error *err);

/**
 * Writes `code` and in/NAME below `folder`, which has a folder `in`; a checkpoint becomes in/resume. The umask must leave folders
 * readable for others. ERROR_CORRUPT, ERROR_INVALID, ERROR_NOT_FOUND, ERROR_DENIED: the artifact can't be used; ERROR_FULL;
 * ERROR_UNAVAILABLE: a repeated call begins anew.
 */
RESULT artifacts_fetch(const struct artifacts *artifacts, int folder, struct error *err);
/** The image of the order, as a source; `artifacts` must live as long as it. */
struct image_source artifacts_image(const struct artifacts *artifacts);
