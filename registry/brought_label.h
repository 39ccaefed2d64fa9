/*
 * registry/brought_label.h -- labels that content has brought to the name of a repository: a training run, or the annotation of a manifest
 * (docs/policies.md, "A manifest's own label").
 *
 * A row is only added: a label never falls. It counts for each later decision about the repository, until a set declassifies it.
 */
#pragma once

#include "audit/permit.h"
#include "storage/pg.h"

extern const struct pg_table brought_label_statements;

#define BROUGHT_LABELS_MAX              2048 /* different ones, in the whole registry: each gateway has them in memory */
#define BROUGHT_ORGANISATION_LABELS_MAX 512  /* and in one organisation, so that none takes all of them */
#define BROUGHT_PROJECT_LABELS_MAX      64   /* and in one project */

struct brought_label {
    enum action action;           /* of the permit: run.label, manifest.push */
    const struct resource *where; /* the repository, which need not exist */
    const struct uuid *run;       /* that brings it; NULL: a manifest does */
    const char *manifest;         /* its digest; NULL: a run does */
    struct bytes label;           /* canonical JSON of the whole label */
    bool may_lock;                /* the repository may have content already: somebody vouches for it */
};
/**
 * Adds it, if it is new, and raises the authorization epoch. ERROR_LIMIT: there are too many different ones, or the repository has content and
 * nobody vouches for that.
 */
RESULT brought_label_insert(const struct permit *permit, struct pg *pg, const struct brought_label *label, struct error *err)
    __attribute__((nonnull));
