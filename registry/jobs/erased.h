/*
 * registry/jobs/erased.h -- what is left of organisations, projects and repositories that were deleted (registry/jobs/erase.h).
 *
 * Nothing finds it by a name any more. The garbage collection removes it, a little at a time, after kill -9 from where it was.
 */
#pragma once

#include "registry/jobs/collect_store.h"

#define ERASED_PAGE 1000

/** Up to ERASED_PAGE repositories of a deleted project are deleted like their project; *count_out: how many. */
RESULT erased_bury_some(struct pg *pg, const struct uuid *project, size_t *count_out, struct error *err);
/** The first deleted repository of a project (of a deleted one, any) after the id `last`; `name` is what it had. *found_out. */
RESULT erased_next_repository(struct pg *pg, const struct collect_project *project, const struct uuid *last,
                              struct collect_repository *repository_out, bool *found_out, struct error *err);
/** Up to ERASED_PAGE of its manifests after the digest `last`, with how many tags each has; erased_manifest_of() reads one. */
RESULT erased_read_manifests(struct pg *pg, const struct uuid *repository, const char *last, struct pg_rows **rows_out,
                             struct error *err);
void erased_manifest_of(const struct pg_rows *rows, size_t row, struct collect_manifest *manifest_out);
/** Up to ERASED_PAGE tags of a manifest; *count_out: how many went. */
RESULT erased_tags_delete(struct pg *pg, const struct uuid *repository, const char *digest, size_t *count_out, struct error *err);
/** A manifest with its tags. ERROR_CONFLICT: it is gone, or its repository was not deleted. */
RESULT erased_manifest_delete(struct pg *pg, const struct collect_manifest_row *row, struct error *err);
/** Up to ERASED_PAGE of its links to blobs; *count_out: how many went. */
RESULT erased_links_delete(struct pg *pg, const struct uuid *repository, size_t *count_out, struct error *err);
/** The row, once nothing stands under it and nobody can have found it by its name lately; otherwise it stays for the next run. */
RESULT erased_repository_remove(struct pg *pg, const struct uuid *repository, struct error *err);
/** Is nothing left of a deleted project but its keys? */
RESULT erased_project_is_empty(struct pg *pg, const struct uuid *project, bool *is_empty_out, struct error *err);
/** Keys of manifests, quota and rules of a deleted project. ERROR_CONFLICT: something is left that they are for. */
RESULT erased_project_empty(struct pg *pg, const struct uuid *project, struct error *err);
