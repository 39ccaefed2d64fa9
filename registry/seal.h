/*
 * registry/seal.h -- manifests are sealed before they reach PostgreSQL.
 *
 * Each project has a key of its own, wrapped by sijil-keyd; a sealed manifest opens only as the same digest of the
 * same repository. XChaCha20-Poly1305 with a random nonce (crypto/aead.h, box) under HKDF(key, info "sijil manifest
 * 1"); associated data: project id, repository id, digest. `where` is always that of the decision.
 */
#pragma once

#include "crypto/digest.h"
#include "registry/key_cache.h"
#include "registry/manifest.h"
#include "registry/registry.h"

/** A fresh key of a project, wrapped. ERROR_UNAVAILABLE without sijil-keyd. */
RESULT project_key_new(struct registry *registry, const struct resource *where, struct key_record *record_out,
                       struct error *err);
/** For changes: makes it the key of a project that has none. */
RESULT project_key_insert(struct pg *pg, const struct resource *where, const struct key_record *record,
                          struct error *err);
/** The key that new manifests are sealed under. ERROR_CORRUPT when the project has none. */
RESULT project_key_current(struct pg *pg, const struct uuid *project, struct key_record *record_out,
                           struct error *err);

/** A manifest on its way in or out. */
struct sealing {
    const struct resource *where;
    const char *digest;
    const struct key_record *key;
};
/** Appends the box to `sealed`. */
RESULT manifest_seal(struct registry *registry, const struct sealing *sealing, struct bytes plain,
                     struct buffer *sealed, struct error *err);
/** Appends the bytes to `plain`. ERROR_CORRUPT. */
RESULT manifest_unseal(struct registry *registry, const struct sealing *sealing, struct bytes sealed,
                       struct buffer *plain, struct error *err);
/** The same with a key that is in the cache; never blocks. False: it is not there, or anything else; ask manifest_unseal(). */
bool manifest_unseal_at_hand(struct registry *registry, const struct sealing *sealing, struct bytes sealed,
                             struct buffer *plain);
