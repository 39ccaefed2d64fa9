/*
 * registry/brought_label.h -- labels that content has brought to the name of a repository: a training run, or the annotation of a manifest
 * (docs/policies.md, "A manifest's own label").
 *
 * A label never falls: the row stays as long as there is a repository of the name. It counts for each later decision about it, until a set
 * declassifies it.
 */
#pragma once

#include "audit/permit.h"
#include "storage/pg.h"

extern const struct pg_table brought_label_statements;

#define BROUGHT_LABELS_MAX              2048 /* different ones, in the whole registry: each gateway has them in memory */
#define BROUGHT_ORGANISATION_LABELS_MAX 512  /* and in one organisation, so that none takes all of them */
#define BROUGHT_PROJECT_LABELS_MAX      64   /* and in one project */
/* Manifests that somebody pushes who may not label their repository bring half of each at most. */

struct brought_label {
    enum action action;           /* of the permit: run.label, manifest.push, blob.mount */
    const struct resource *where; /* the repository, which need not exist */
    const struct uuid *run;       /* that brings it; NULL: a manifest does */
    const char *manifest;         /* its digest, or that of a mounted blob; NULL: a run does */
    struct bytes label;           /* canonical JSON of the whole label */
    bool may_lock;                /* the repository may have content already: somebody vouches for it */
};
/** For the lineage of a pushed manifest: repositories of the project that have a manifest with the digest of its subject. In other projects nothing is
 *  looked for: the time of the answer would tell what lies there. */
#define LABEL_SOURCES_MAX 16
struct label_sources {
    bool is_here; /* the subject lies in the same repository, whose label counts in any case */
    size_t count;
    char names[LABEL_SOURCES_MAX][RESOURCE_NAME_MAX + 1]; /* the others that have it, the oldest first */
};
/** Before the record, because the record brings the label. None of the names may be shown to a client that may not see it. */
RESULT label_sources_find(struct pg *pg, const struct resource *where, const char *subject, struct label_sources *sources_out,
                          struct error *err) __attribute__((nonnull));
/** Whether it may take one of the places that are kept for runs, and for people that may label what they push to. */
bool brought_label_is_reserved(const struct brought_label *label);
/**
 * Adds it, if it is new, and raises the authorization epoch. ERROR_LIMIT: there are too many different ones, or the repository has content and
 * nobody vouches for that.
 */
RESULT brought_label_insert(const struct permit *permit, struct pg *pg, const struct brought_label *label, struct error *err)
    __attribute__((nonnull));
