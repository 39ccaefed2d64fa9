/*
 * registry/upload/upload_priv.h -- what a request holds of an upload session.
 */
#pragma once

#include "registry/registry_priv.h"
#include "registry/upload/upload_store.h"
#include "registry/upload_table.h"

struct upload {
    struct change search; /* reads the row */
    enum { SEARCH_OPEN, SEARCH_FOUND, SEARCH_MISSED } found;
    uint8_t bound_to[SHA256_SIZE], secret_hash[SHA256_SIZE]; /* of who asks */
    struct registry *registry;
    enum action action; /* that permits must be for; they come with each change */
    struct resource where;
    struct upload_row row;
    struct blob_store *blobs;
    struct live_upload live; /* while is_claimed */
    int64_t safe_ms, shown_ms; /* monotonic; when it was claimed, or last saved, or shown */
    bool is_claimed;
    bool is_dead;            /* the writer may not go on */
    bool is_lost;            /* nor may any other: what was safe is gone, or damaged */
};

/** Hash of who a session belongs to: issuer, subject, credential and confirmation. */
void upload_owner_hash(const struct principal *principal, uint8_t hash_out[SHA256_SIZE]);
void upload_secret_hash(const struct upload_location *location, uint8_t hash_out[SHA256_SIZE]);
/** Fails with `err`, and notes whether it means that the upload is lost. */
RESULT upload_note_loss(struct upload *upload, const struct error *err);
/** A fresh blob id with its data key, wrapped. Stores nothing. */
RESULT upload_key_new(struct registry *registry, const struct resource *where, struct key_record *record_out,
                      struct secret **key_out, struct error *err);

/** A blob that takes the place of an upload: its row's values. */
struct closed_blob {
    struct key_record key; /* its id is the upload's own blob, or another one */
    struct blob_content content;
};
/** Closes the writer with the digest that is expected. ERROR_INVALID for another one, ERROR_LIMIT when too many need what upload_close.c
 *  says: then nothing was done. */
RESULT upload_close(struct upload *upload, struct pg *pg, const struct digest *expected, struct closed_blob *closed_out,
                    struct error *err);
