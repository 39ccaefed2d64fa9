/* registry/upload/upload_priv.h -- the upload session of a request. */
#pragma once

#include "registry/registry_priv.h"
#include "registry/upload/upload_store.h"
#include "registry/upload_table.h"

struct upload {
    struct change search;     /* reads the row */
    const struct change *ran; /* the last change that ran under a permit */
    enum { SEARCH_OPEN, SEARCH_FOUND, SEARCH_MISSED } found;
    uint8_t bound_to[SHA256_SIZE], secret_hash[SHA256_SIZE]; /* of the request */
    struct registry *registry;
    enum action action; /* of the permit of each change */
    struct resource where;
    struct upload_row row;
    struct blob_store *blobs;
    struct live_upload live;       /* while is_claimed */
    int64_t safe_ms, heartbeat_ms; /* monotonic: the last save; the last touch of the row; at first both are the claim */
    bool is_of_run;                /* of a principal of that kind, as each request of the session */
    bool is_claimed;
    bool is_dead; /* the writer has failed */
    bool is_lost; /* saved bytes are missing or damaged, so no other writer can continue */
};

/* registry/upload/upload_change.c */
/** What is done with a session, and so which actions may do it. */
enum upload_use {
    UPLOAD_LOOK, /* upload.read, or an action that may fill */
    UPLOAD_FILL, /* claim, write, save, reserve, drop: upload.write, or an action that may close */
    UPLOAD_CLOSE /* commit: upload.commit, or upload.begin for a session that the request has begun itself */
};
bool upload_permits(enum action action, enum upload_use use);
/** Aborts unless the session was found or begun under a permit, of an action that may do this. */
void upload_check(const struct upload *upload, enum upload_use use);
/** The same in a change, for the permit of the change. Notes that the change ran. */
void upload_require(struct upload *upload, const struct permit *permit, const struct change *change, enum upload_use use);
/** Sets upload->search. */
void upload_search_init(struct upload *upload);
struct upload_save {
    struct change change;
    struct upload *upload;
    struct blob_checkpoint checkpoint;
};
void upload_save_init(struct upload_save *save, struct upload *upload);
void upload_drop_init(struct upload_save *drop, struct upload *upload); /* it has no checkpoint */

/** Records `change`. Aborts if the recorder reports success without having run the change. */
RESULT upload_record(struct upload *upload, struct recorder *recorder, enum outcome outcome, const char *note,
                     struct change *change, struct error *err);

/** The hash of a session's owner: issuer, subject, credential and confirmation. */
void upload_owner_hash(const struct principal *principal, uint8_t hash_out[SHA256_SIZE]);
void upload_secret_hash(const struct upload_location *location, uint8_t hash_out[SHA256_SIZE]);
/** Returns the failure `err`, and sets is_lost if it means that. */
RESULT upload_note_loss(struct upload *upload, const struct error *err);
/** Generates a blob id and a wrapped data key. Stores nothing. */
RESULT upload_key_new(struct registry *registry, const struct resource *where, struct key_record *record_out,
                      struct secret **key_out, struct error *err);

/** The row's values of the blob that an upload becomes. */
struct closed_blob {
    struct key_record key; /* its id is the upload's own blob, or another one */
    struct blob_content content;
};
struct upload_closing {
    struct change change;
    struct upload *upload;
    struct closed_blob closed;
    struct dropped_blobs dropped;
    char detail[UUID_TEXT_SIZE + DIGEST_TEXT_SIZE]; /* of the event: the session, a blank, the digest of the blob */
};
void upload_closing_init(struct upload_closing *closing, struct upload *upload, const struct closed_blob *closed);

/**
 * Closes the writer, and writes the blob again under a new key, because the session has not computed the digest's algorithm. ERROR_INVALID
 * if the digest differs. ERROR_LIMIT if too many uploads need a copy; then nothing was done.
 */
RESULT upload_close_as_copy(struct upload *upload, struct pg *pg, const struct digest *expected, struct closed_blob *closed_out,
                            struct error *err);
