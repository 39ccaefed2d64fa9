/*
 * runner/serve/harvest.h -- what a run leaves: uploads files as blobs, and makes the manifest of each subject of the result.
 *
 * /out/NAME, a file or a folder, is the output NAME of the order. /out/metrics.jsonl are the metrics. A file of another name refuses all
 * outputs, because nobody would ever find it. The log and the metrics lie in the repository of the first output.
 */
#pragma once

#include "client/session.h"
#include "client/upload.h"
#include "runner/sandbox/outputs.h"
#include "training/format/artifact_types.h"
#include "training/format/compose.h"

#define HARVEST_OUTPUTS_MAX  16         /* docs/formats/run.md */
#define HARVEST_FILES_MAX    4096       /* of all outputs: a manifest of so many is below the limit of registries */
#define HARVEST_MANIFEST_MAX (4u << 20) /* bytes: the limit of registries */
#define HARVEST_METRICS      "metrics.jsonl"

struct harvest_options {
    struct session *session;
    const char *host;
    const json_t *outputs;      /* of the order's spec */
    const char *folder;         /* that the program wrote to, for messages: "/out" */
    const struct buffer *label; /* the annotation of each manifest; the caller's, read when they are made */
};
struct harvest;
RESULT harvest_new(const struct harvest_options *options, struct harvest **harvest_out, struct error *err);
/**
 * Takes one file that the program left (sandbox_options.output). With `metrics_only`, other files are left out. A file that belongs nowhere is no
 * error: see harvest_refusal(). ERROR_UNAVAILABLE: it could not be uploaded.
 */
RESULT harvest_take(struct harvest *harvest, const struct output_file *file, bool metrics_only, struct error *err);
/** Uploads `size` bytes of the open file as the log. */
RESULT harvest_log(struct harvest *harvest, int fd, uint64_t size, struct error *err);

/** NULL, or the rule that the outputs break; asked after the last file. */
const char *harvest_refusal(const struct harvest *harvest);
/** The first output that the program did not write; NULL: there is none. */
const char *harvest_lacks(const struct harvest *harvest);
/** Forgets all outputs, but not log and metrics: the result names none. */
void harvest_drop(struct harvest *harvest);

/** The subjects of the result. Views. */
struct harvested {
    struct run_subject outputs[HARVEST_OUTPUTS_MAX];
    size_t output_count;
    const char *log, *metrics; /* hex of their manifests; metrics NULL: none */
    json_t *manifests;         /* texts by name */
};
/** Uploads what manifests need besides, and makes them. harvest_log() came before. */
RESULT harvest_finish(struct harvest *harvest, struct harvested *harvested_out, struct error *err);

/** Uploads what the first output needs besides, and makes its manifest alone: for a checkpoint. A view; its digest. */
RESULT harvest_finish_first(struct harvest *harvest, struct bytes *manifest_out, struct digest *digest_out, struct error *err);

void harvest_free(struct harvest *harvest);
DEFINE_OWNED(harvest);
