/*
 * registry/seal_priv.h -- encrypts manifests before they are stored in PostgreSQL.
 *
 * Each project has a key of its own, wrapped by sijil-keyd. A sealed manifest can be opened only for the same digest
 * of the same repository. XChaCha20-Poly1305 with a random nonce (crypto/aead.h, box) under HKDF(key, info "sijil
 * manifest 1"); associated data: project id, repository id, digest, and for
 * a checkpoint the id of the run that kept it: so nobody can show it as another run's. `where` is always the resource of the decision.
 */
#pragma once

#include "crypto/digest.h"
#include "registry/key_cache.h"
#include "registry/manifest.h"
#include "registry/registry.h"

/** Makes a wrapped key for a project. ERROR_UNAVAILABLE without sijil-keyd. */
RESULT project_key_new(struct registry *registry, const struct resource *where, struct key_record *record_out, struct error *err);
/** For changes: stores it as the key of a project that has none. */
RESULT project_key_insert(struct pg *pg, const struct resource *where, const struct key_record *record, struct error *err);
/** The key for new manifests. ERROR_CORRUPT if the project has none. */
RESULT project_key_current(struct pg *pg, const struct uuid *project, struct key_record *record_out, struct error *err);

/** A manifest to be sealed or opened. */
struct sealing {
    const struct resource *where;
    const char *digest;
    const struct key_record *key;
    const struct uuid *run; /* that keeps this checkpoint; NULL: it is another manifest */
};
/** Appends the box to `sealed`. */
RESULT manifest_seal(struct registry *registry, const struct sealing *sealing, struct bytes plain, struct buffer *sealed,
                     struct error *err);
/** Appends the bytes to `plain`. ERROR_CORRUPT. */
RESULT manifest_unseal(struct registry *registry, const struct sealing *sealing, struct bytes sealed, struct buffer *plain,
                       struct error *err);
/** The same with a cached key; never blocks. False if the key is not cached or something failed: then call manifest_unseal(). */
bool manifest_unseal_cached(struct registry *registry, const struct sealing *sealing, struct bytes sealed, struct buffer *plain);
