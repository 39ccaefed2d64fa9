/*
 * training/format/artifact_types.h -- the types of artifacts that a training run leaves beside its outputs (docs/formats/run.md, "Artifacts of a run").
 *
 * Types that begin with RUN_TYPES_RESERVED are for what a registry itself stores when it admits a run: nobody else pushes them, and no output
 * of a run has them. So whoever finds one knows who made it.
 */
#pragma once

#include <stdbool.h>

#define RUN_TYPES_RESERVED "application/vnd.sijil.run-"
#define RUN_LOG_TYPE       RUN_TYPES_RESERVED "log.v1"
#define RUN_METRICS_TYPE   RUN_TYPES_RESERVED "metrics.v1"
#define RUN_PROVENANCE_TYPE \
    RUN_TYPES_RESERVED "provenance.v1" /* its layers are the envelopes of the result and of its certificate */
#define RUN_ADMISSION_TYPE RUN_TYPES_RESERVED "admission.v1" /* its layer is the envelope of the admission */
#define RUN_CHECKPOINT_TYPE \
    RUN_TYPES_RESERVED "checkpoint.v1" /* kept while the run goes on; never an artifact of the repository */
#define RUN_DSSE_TYPE     "application/vnd.dsse.envelope.v1+json"
#define RUN_LOG_TITLE     "log.txt"
#define RUN_METRICS_TITLE "metrics.jsonl"

/* The config of an output, the log and the metrics: that of ModelPack for a model, else the empty one. */
#define RUN_MODEL_TYPE        "application/vnd.cncf.model.manifest.v1+json"
#define RUN_MODEL_CONFIG_TYPE "application/vnd.cncf.model.config.v1+json"
#define RUN_EMPTY_CONFIG_TYPE "application/vnd.oci.empty.v1+json" /* image-spec, "Guidance for an Empty Descriptor" */

/** Whether a media type is reserved, in upper or lower case, and with or without parameters. */
bool run_artifact_is_reserved(const char *media_type);
