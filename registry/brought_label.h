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
    enum action action;           /* of the permit: run.label, manifest.push */
    const struct resource *where; /* the repository, which need not exist */
    const struct uuid *run;       /* that brings it; NULL: a manifest does */
    const char *manifest;         /* its digest; NULL: a run does */
    struct bytes label;           /* canonical JSON of the whole label */
    bool may_lock;                /* the repository may have content already: somebody vouches for it */
};
/** Whether it may take one of the places that are kept for runs, and for people that may label what they push to. */
bool brought_label_is_reserved(const struct brought_label *label);
/**
 * Adds it, if it is new, and raises the authorization epoch. ERROR_LIMIT: there are too many different ones, or the repository has content and
 * nobody vouches for that.
 */
RESULT brought_label_insert(const struct permit *permit, struct pg *pg, const struct brought_label *label, struct error *err)
    __attribute__((nonnull));
