/*
 * registry/jobs/erased_store.h -- the remaining rows of deleted organisations, projects and repositories
 * (registry/jobs/erase.h).
 *
 * They can't be found by a name. The garbage collection removes them in small steps, and continues after a kill -9.
 */
#pragma once

#include "registry/jobs/collect_store.h"

#define ERASED_PAGE 1000

/** Marks up to ERASED_PAGE repositories of a deleted project as deleted; *count_out: how many. */
RESULT erased_mark_repositories(struct pg *pg, const struct uuid *project, size_t *count_out, struct error *err);
/**
 * The first deleted repository of a project (any repository if the project is deleted) after the id `last`; `name` is
 * its former name. *found_out: there is one.
 */
RESULT erased_next_repository(struct pg *pg, const struct collect_project *project, const struct uuid *last,
                              struct collect_repository *repository_out, bool *found_out, struct error *err);
/** Up to ERASED_PAGE manifests of the repository after the digest `last`, with their numbers of tags; erased_manifest_of() reads
 *  a row. */
RESULT erased_read_manifests(struct pg *pg, const struct uuid *repository, const char *last, struct pg_rows **rows_out,
                             struct error *err);
void erased_manifest_of(const struct pg_rows *rows, size_t row, struct collect_manifest *manifest_out);
/** Deletes up to ERASED_PAGE tags of a manifest; *count_out: how many. */
RESULT erased_tags_delete(struct pg *pg, const struct uuid *repository, const char *digest, size_t *count_out, struct error *err);
/** Deletes a manifest with its tags. ERROR_CONFLICT if it does not exist, or its repository was not deleted. */
RESULT erased_manifest_delete(struct pg *pg, const struct collect_manifest_row *row, struct error *err);
/** Deletes up to ERASED_PAGE of the repository's links to blobs; *count_out: how many. */
RESULT erased_links_delete(struct pg *pg, const struct uuid *repository, size_t *count_out, struct error *err);
/**
 * Deletes the row if nothing refers to it and no running request can have found it by its name; otherwise it stays
 * for the next run.
 */
RESULT erased_repository_remove(struct pg *pg, const struct uuid *repository, struct error *err);
/** Whether only the keys of a deleted project are left. */
RESULT erased_project_is_empty(struct pg *pg, const struct uuid *project, bool *is_empty_out, struct error *err);
/** Deletes the keys of manifests, the quota and the rules of a deleted project. ERROR_CONFLICT: content that needs them is
 *  left. */
RESULT erased_project_empty(struct pg *pg, const struct uuid *project, struct error *err);
