/*
 * registry/held_manifest.h -- manifests of a training run's result. Nobody can pull them until the run is admitted (docs/runs.md); then the
 * server itself makes them manifests of their repositories.
 *
 * They are sealed like manifests. Their blobs are not collected while the run waits for its admission, and for 30 days after any other
 * end. The resource of each permit is the run's project.
 */
#pragma once

#include "registry/stored_manifest.h"

extern const struct pg_table held_manifest_statements;

#define HELD_MANIFESTS_MAX 18 /* sixteen outputs, log and metrics (docs/formats/run.md) */
#define HELD_NAME_SIZE     64

/** Of one node of one attempt. */
struct held_key {
    struct uuid run;
    int64_t attempt, node; /* attempt: 0 is the newest one, for readers */
};

struct held_manifest {
    char name[HELD_NAME_SIZE]; /* of the subject in the result */
    struct resource where;     /* the repository; its id is known */
    struct manifest *manifest; /* owned */
    char digest[DIGEST_TEXT_SIZE];
    struct buffer body, sealed; /* body: to be held, it is empty */
    size_t size_bytes;
    struct uuid key; /* of the seal */
};
struct held_manifests {
    struct held_key key;
    size_t count;
    struct held_manifest each[HELD_MANIFESTS_MAX];
};
void held_manifests_done(struct held_manifests *held);
#define OWNED_HELD __attribute__((cleanup(held_manifests_done))) struct held_manifests

/** Parses and seals the bytes as the next one of `held`; stores nothing. The permit: `action`. ERROR_INVALID, ERROR_LIMIT. */
struct held_text {
    enum action action;
    const char *name;
    const struct resource *where;
    struct bytes body;
};
RESULT held_manifests_add(const struct permit *permit, struct registry *registry, struct pg *pg, const struct held_text *text,
                          struct held_manifests *held, struct error *err) __attribute__((nonnull));

/**
 * For changes: stores them. ERROR_INVALID: a blob is not in its repository, is damaged, or has another size. What is stored already stays as it is.
 */
RESULT held_manifests_insert(const struct permit *permit, struct pg *pg, enum action action, const struct held_manifests *held,
                             struct error *err) __attribute__((nonnull));

/** Reads them back, opened, with the present names of their repositories. ERROR_CORRUPT: one is not what was stored. ERROR_NOT_FOUND: its repository was deleted. */
RESULT held_manifests_read(const struct permit *permit, struct registry *registry, struct pg *pg, const struct held_key *key,
                           struct held_manifests *held, struct error *err) __attribute__((nonnull));

/** Appends the manifest of the log of one node, as its result names it. The permit: run.log on the repository; its detail is the run. ERROR_NOT_FOUND. */
RESULT held_log_read(const struct permit *permit, struct registry *registry, struct pg *pg, const struct held_key *key,
                     struct buffer *body, struct error *err) __attribute__((nonnull));

/** Blobs that a run has uploaded to one repository, and that this one or another one of the same project shall serve from now on. */
struct held_links {
    const struct resource *from, *to;
    const struct manifest *manifest; /* that needs them */
};
/** For changes: links the blobs, and all requests find them. A blob that lacks is found by manifest_admit(). The permit: run.admit. */
RESULT held_blobs_link(const struct permit *permit, struct pg *pg, const struct held_links *links, struct error *err)
    __attribute__((nonnull));
/** For changes: stores a manifest of an admission, as a push does. The permit: run.admit. Errors of a push. */
RESULT manifest_admit(const struct permit *permit, struct pg *pg, struct manifest_push *push, struct error *err)
    __attribute__((nonnull));
