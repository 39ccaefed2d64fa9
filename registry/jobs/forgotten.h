/*
 * registry/jobs/forgotten.h -- keys that were forgotten: dropped from memory, recorded, certified (docs/deletion.md).
 *
 * The database itself writes down each blob whose row goes, and with it the wrapped key; no program can do that without
 * removing the row.
 */
#pragma once

#include "registry/registry.h"

/** The channel that tells of one: for pg_listen(). */
#define FORGOTTEN_CHANNEL "sijil_key_forgotten"

/** Wipes what this gateway still has in memory of keys that were forgotten lately. Call it when told, and now and then. */
RESULT registry_drop_forgotten(struct registry *registry, struct pg *pg, struct error *err);
/**
 * Records up to fifty forgotten keys that have no event yet, each with a key.forgotten of its own. *count_out: how many.
 * Several gateways may do it at once. If one is killed in between, an event may be recorded twice.
 */
RESULT registry_record_forgotten(struct registry *registry, struct pg *pg, size_t *count_out, struct error *err);

/** What a certificate of deletion is about: the newest deletion of that content in a project. */
struct forgotten_key {
    struct uuid blob, project, organisation;
    char name[RESOURCE_NAME_MAX + 1], region[REGION_ID_MAX + 1], digest[140];
    uint64_t size_bytes, sequence;
    uint32_t key_version;
    int64_t forgotten_ms;
    bool is_stored_again;
};
/**
 * `where` is the project, its detail the digest. Without a project of that name it is the last one that was deleted, of the
 * organisation if there is one. ERROR_NOT_FOUND when nothing of that digest was deleted here;
 * ERROR_CONFLICT while it is stored and never was deleted; ERROR_UNAVAILABLE when its event is not recorded yet.
 */
RESULT forgotten_key_find(const struct permit *permit, struct pg *pg, const struct resource *where, struct forgotten_key *key_out,
                          struct error *err) __attribute__((nonnull));
