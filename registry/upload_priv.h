/*
 * registry/upload_priv.h -- what a request holds of an upload session.
 */
#pragma once

#include "registry/registry_priv.h"
#include "registry/upload_store.h"
#include "registry/upload_table.h"

struct upload {
    struct registry *registry;
    const struct permit *permit;
    enum action action;
    struct resource where;
    struct upload_row row;
    struct blob_store *blobs;
    struct live_upload live; /* while is_claimed */
    bool is_claimed;
    bool is_dead;            /* the writer may not go on */
};

/** Hash of who a session belongs to: issuer, subject, credential and confirmation. */
void upload_owner_hash(const struct principal *principal, uint8_t hash_out[SHA256_SIZE]);
void upload_secret_hash(const struct upload_location *location, uint8_t hash_out[SHA256_SIZE]);
/** Removes the bytes of an object that is in abandoned_object; what fails (false) is tried again by registry_tidy(). */
bool upload_sweep(struct registry *registry, struct pg *pg, const struct abandoned_object *object);
