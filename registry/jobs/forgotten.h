/*
 * registry/jobs/forgotten.h -- forgotten keys: wipes them from memory, records them, certifies deletions (docs/deletion.md).
 *
 * A trigger of the database adds a row for each deleted row of a blob; the blob's wrapped key is deleted with its row. So such
 * a row exists only for a deleted blob.
 */
#pragma once

#include "registry/registry.h"

/** The facts of a certificate of deletion: the newest deletion of the content in a project. */
struct forgotten_key {
    struct uuid blob, project, organisation;
    char name[RESOURCE_NAME_MAX + 1], region[REGION_ID_MAX + 1], digest[140];
    uint64_t size_bytes, sequence;
    uint32_t key_version;
    int64_t forgotten_ms;
    bool is_stored_again;
};
/**
 * `where` is the project, its detail the digest. If no project has that name, the last deleted one with that name is
 * used, of the organisation if that exists. ERROR_NOT_FOUND if no content with this digest was deleted in it;
 * ERROR_CONFLICT while it is stored and was never deleted; ERROR_UNAVAILABLE if its event is not recorded yet.
 */
RESULT forgotten_key_find(const struct permit *permit, struct pg *pg, const struct resource *where, struct forgotten_key *key_out,
                          struct error *err) __attribute__((nonnull));
