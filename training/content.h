/*
 * training/content.h -- what the order of a run lets its runner read and write (docs/runs.md).
 *
 * The order is the envelope that sijil-keyd has signed; the caller has checked its signature.
 */
#pragma once

#include "registry/manifest.h"
#include "storage/lookup.h"
#include "training/format/envelope.h"
#include "training/format/spec.h"
#include "training/lease.h"

extern const struct pg_table run_content_table;

/** A run keeps its two newest checkpoints: the newest may be the one that is broken. */
#define RUN_CHECKPOINTS_KEPT 2

#define RUN_CONFIG_MAX ((int64_t)1 << 20) /* of the config of one output, the log or the metrics: it names at most 4,096 files */

/** The digests that the order names in this repository; views into the order. Returns how many. */
size_t run_order_digests(const struct run_envelope *order, const char *repository, struct bytes digests_out[RUN_ARTIFACTS_MAX]);
/** The digest of the order's checkpoint if it is in this repository of the run's own project, else NULL: checkpoints of runs stay in their project. */
const char *run_order_resume(const struct run_envelope *order, const char *repository);
/** Whether an output of the order belongs into this repository. */
bool run_order_writes(const struct run_envelope *order, const char *repository);
/** The repository of the first output, which also gets the log and the metrics. `run` is an order or a request. */
const char *run_first_output(const struct run_envelope *run);
/** The most bytes of the log that are kept. */
int64_t run_order_log_bytes(const struct run_envelope *order);
/** The most bytes of one checkpoint: those of all outputs. */
int64_t run_order_checkpoint_max(const struct run_envelope *order);
/**
 * The most bytes of all blobs of one node of an attempt: outputs, log and configs, the kept checkpoints and the one that comes. Nodes other than the first
 * have their log alone.
 */
int64_t run_order_upload_max(const struct run_envelope *order, int64_t node);

/** What a digest is to the manifests that an order names in one repository. */
struct run_content {
    bool is_manifest; /* one of them, or one that an index among them lists */
    bool is_blob;     /* a config or a layer of one of those */
    bool is_kept;     /* the rows say that the checkpoint needs the blob: held_checkpoint_has() asks the checkpoint itself */
};
struct run_content_query {
    const struct uuid *repository;
    const struct bytes *digests; /* that the order names there */
    size_t count;
    const char *digest; /* that the request names */
    const char *resume; /* run_order_resume(); a checkpoint that is kept for its run counts here alone */
};
RESULT run_content_find(struct lookup *lookup, const struct run_content_query *query, struct run_content *content_out,
                        struct error *err);

/** How many bytes of blobs the holder has kept in this attempt. ERROR_NOT_FOUND: the holder's lease has ended. */
RESULT run_uploaded_find(struct lookup *lookup, const struct run_holder *holder, int64_t *bytes_out, struct error *err);

#define RUN_WATCHED_MAX 1000 /* in one call */
struct run_watched {
    struct uuid run;
    int64_t attempt, node;
    bool has_ended;
};
/** Sets has_ended of each of these leases, at most RUN_WATCHED_MAX; a lease that is not there has ended. */
RESULT run_watched_look(struct lookup *lookup, struct run_watched *watched, size_t count, struct error *err);

/** Bytes that are about to come into an upload that is open. */
struct run_reserving {
    enum action action;           /* of the permit: one that writes into an upload */
    const struct resource *where; /* the repository */
    const struct run_holder *holder;
    const struct uuid *upload;
    int64_t bytes;      /* of the whole upload, with those */
    int64_t most_bytes; /* run_order_upload_max() */
};
/**
 * Counts them, until the upload ends: what is kept and what is open may have twice the order's bytes, because an upload that its runner has given up
 * lives on for a while. ERROR_DENIED: they would be more. ERROR_NOT_FOUND: the holder's
 * lease has ended.
 */
RESULT run_upload_reserve(const struct permit *permit, struct pg *pg, const struct run_reserving *reserving, struct error *err)
    __attribute__((nonnull));

/** A blob that is about to be kept. */
struct run_uploaded {
    enum action action;           /* of the permit: upload.begin or upload.commit */
    const struct resource *where; /* the repository */
    const struct run_holder *holder;
    const struct uuid *upload;
    const char *digest;
    int64_t size_bytes, most_bytes; /* most_bytes: run_order_upload_max() */
};
/**
 * Counts a blob before it is committed; the same blob again counts once. ERROR_DENIED: the order allows no more bytes. ERROR_NOT_FOUND: the
 * holder's lease has ended.
 */
RESULT run_uploaded_keep(const struct permit *permit, struct pg *pg, const struct run_uploaded *uploaded, struct error *err)
    __attribute__((nonnull));
/**
 * Notes that the counted blob is whole: its bytes have its digest. Before that it is only what the runner says. Call it after the commit and
 * before the answer.
 */
RESULT run_uploaded_confirm(const struct permit *permit, struct pg *pg, const struct run_uploaded *uploaded, struct error *err)
    __attribute__((nonnull));

/** A manifest that the holder of a lease sends, and the repository that its blobs must be in. */
struct run_sent {
    enum action action; /* that the permit allows */
    const struct run_holder *holder;
    const char *name; /* of the artifact, for messages */
    const char *repository;
    const struct manifest *manifest;
};
/**
 * Whether the holder itself has uploaded each blob of the manifest, under this lease, into that repository, with the size that the manifest
 * says. A blob of somebody else must not get into what a run has made: who may push there may not even read it. ERROR_INVALID names the first
 * one, whether or not somebody else has such a blob there.
 */
RESULT run_sent_check(const struct permit *permit, struct pg *pg, const struct run_sent *sent, struct error *err)
    __attribute__((nonnull));
