/*
 * registry/upload/upload.h -- upload sessions: begin, write in pieces, resume at any gateway, commit once.
 *
 * A session belongs to one subject, credential, repository and region, and a client proves it with the secret in its
 * Location. It ends 24 hours after its last progress. It ends earlier if it is idle while its owner, project or organisation
 * has more than half of the allowed sessions, or when an administrator ends it
 * (registry/upload/upload_admin.h). Its row has the last checkpoint. A writer that still exists in this process
 * continues in its extent; any other writer resumes from the checkpoint (docs/formats/sjb1.md, "Uploads that pause"). Only
 * the writer that claimed the row last can save or commit. OCI Distribution Specification 1.1.1, "Pushing blobs".
 */
#pragma once

#include "authz/principal.h"
#include "crypto/digest.h"
#include "registry/key_cache.h"
#include "registry/names/reference.h"
#include "registry/recorder.h"
#include "registry/registry.h"

/** The statements of this folder. */
extern const struct pg_table upload_statements, upload_admin_statements, abandoned_statements;

#define UPLOAD_HEARTBEAT_MS  10000  /* while a body arrives: how often the session's row is touched and its end is checked */
#define UPLOAD_SAVE_EVERY_MS 900000 /* how often a slow body is saved */
#define UPLOAD_COPIES_MAX    2 /* the most uploads that are copied for a SHA-512 at one time; a further one gets ERROR_LIMIT */

/* ---- POST ---- */

/** A change: makes the session, and the repository if it does not exist. Pass &change to the record. */
struct upload_begin {
    struct change change;
    struct resource where;           /* the repository; its id may be nil */
    enum digest_algorithm algorithm; /* of the digest that the client will close with */
    struct upload_location location; /* made by prepare; for the answer */
    struct uuid repository;          /* set by the change */
    struct uuid blob;
    struct key_record key;
    uint8_t bound_to[SHA256_SIZE], secret_hash[SHA256_SIZE];
    char issuer[256], subject[256]; /* of the client, for lists (registry/upload/upload_admin.h) */
    struct session_limits limits;   /* of open uploads, if the project has no quota of them */
    unsigned repositories_max;      /* of the project */
    bool is_of_run;                 /* a training run uploads: the blob is held (registry/stored_blob.h) */
    bool is_counted;                /* set by the change: the project has a quota of bytes; true if it is not known */
};
/** Generates ids, keys and secret; stores nothing. `where` is the decision's resource; project and region must be known. */
RESULT upload_begin_prepare(struct registry *registry, const struct resource *where, const struct principal *principal,
                            enum digest_algorithm algorithm, struct upload_begin *begin_out, struct error *err);

/** Call it after the change. This gateway is the session's first writer. */
void upload_begin_finish(struct registry *registry, const struct upload_begin *begin);

/* ---- PATCH, PUT, GET ---- */

struct upload;
/*
 * A session, for one request. Each function below that reads or changes the session's row or bytes aborts unless the
 * session was found or begun under a permit. The action of the permit says which of these functions may follow. After
 * upload.read: those that change nothing. After upload.write: all but upload_commit(). After upload.commit and upload.begin: all.
 */

/** A request for a session. */
struct upload_request {
    enum action action; /* upload.write, upload.commit or upload.read */
    const struct resource *where;
    const struct principal *principal;
    struct upload_location location;
};
/** Makes the object for a request. Reads nothing: call upload_find() next. */
RESULT upload_new(struct registry *registry, const struct upload_request *request, struct upload **upload_out, struct error *err);
/** A change without an effect: reads the session's row in the transaction of the record, which saves a round trip. */
struct change *upload_search(struct upload *upload);
/**
 * Reads the session's row, unless upload_search() has read it. ERROR_NOT_FOUND if the session does not exist, has expired, or
 * belongs to another owner or repository, and for a wrong secret; the error does not tell which. Claims nothing.
 * `permit` is for the request's action.
 */
RESULT upload_find(const struct permit *permit, struct upload *upload, struct pg *pg, struct error *err)
    __attribute__((nonnull(1, 2, 4)));
/** The session that this request has begun, as if from upload_find(). No other client knows of it yet. */
RESULT upload_of_begin(const struct permit *permit, struct registry *registry, const struct upload_begin *begun,
                       struct upload **upload_out, struct error *err) __attribute__((nonnull));
/** The number of saved bytes; after a claim, the offset of the next write. */
uint64_t upload_offset(const struct upload *upload);
/**
 * Makes this the session's only writer. ERROR_CONFLICT while another request of this gateway writes. A request
 * without progress for five seconds, or one at another gateway, loses the session instead. ERROR_LIMIT if too many
 * uploads write at the same time; ERROR_CORRUPT if the checkpoint does not verify.
 */
RESULT upload_claim(struct upload *upload, struct pg *pg, struct error *err) __attribute__((nonnull));
struct upload_announcement {
    uint64_t length;    /* of the next bytes */
    bool more_may_come; /* more bytes of an unknown number follow, so they are reserved piece by piece */
};
/**
 * Reserves bytes in the project's quota before they arrive. Does nothing in a project without a quota, or while
 * enough is reserved. ERROR_DENIED if the quota has no room. upload_give_back(), or the end of the session, releases
 * unused bytes.
 */
RESULT upload_reserve(struct upload *upload, const struct upload_announcement *announced, struct recorder *recorder,
                      struct error *err);
/**
 * Call it at the end of a request: releases reserved bytes that did not arrive. Succeeds if there are none, and
 * without a claim.
 */
RESULT upload_give_back(struct upload *upload, struct recorder *recorder, struct error *err);
/** Whether upload_reserve() must be called before upload_write() of `length` bytes. */
bool upload_must_reserve(const struct upload *upload, size_t length);
/** A hint: `length` bytes are announced, and probably no more will follow. */
void upload_expect(struct upload *upload, uint64_t length);
/** After a failure only upload_free() may follow; the client continues from the last saved offset. */
RESULT upload_write(struct upload *upload, struct bytes content, struct error *err) __attribute__((nonnull));
/** True 64 MiB or a quarter of an hour after the last save. */
bool upload_must_save(const struct upload *upload);
/**
 * While a body arrives, after a claim: touches the row every few seconds, so that the session is not idle. ERROR_NOT_FOUND if the
 * session has ended, ERROR_CONFLICT if another writer has it.
 */
RESULT upload_heartbeat(struct upload *upload, struct pg *pg, struct error *err) __attribute__((nonnull));
/**
 * After ERROR_CONFLICT of a function above: if the session has ended, changes the refusal to ERROR_NOT_FOUND and removes
 * the bytes that were written after the end. Does nothing after another error.
 */
void upload_note_end(const struct upload *upload, struct pg *pg, struct error *refusal) __attribute__((nonnull));
/** Are saved bytes missing or damaged? Then no writer can continue, and the session must be dropped (docs/decisions/0024). */
bool upload_is_lost(const struct upload *upload);
/** Whether its writer still works. Then the written bytes can be saved. */
bool upload_can_save(const struct upload *upload);
/** Makes the written bytes durable and records a checkpoint. ERROR_CONFLICT if another writer has claimed the session. */
RESULT upload_save(struct upload *upload, struct pg *pg, struct recorder *recorder, struct error *err) __attribute__((nonnull));
/**
 * Closes the blob, links it to the repository and ends the session, in one transaction with its event. If the project
 * has the digest already, that blob is linked and these bytes are dropped. ERROR_INVALID if the digest differs: the
 * session then stays at its last checkpoint. ERROR_CONFLICT as in upload_save().
 */
RESULT upload_commit(struct upload *upload, struct pg *pg, const struct digest *expected, struct recorder *recorder,
                     struct error *err) __attribute__((nonnull));
/**
 * Ends a session that can't be continued, and removes its bytes once the end is recorded. Aborts unless this request has
 * claimed or begun the session. `note` is the reason, for the event.
 */
RESULT upload_drop(struct upload *upload, struct pg *pg, const char *note, struct recorder *recorder, struct error *err)
    __attribute__((nonnull));
/** Keeps the writer for the next request, if it has not failed. */
void upload_free(struct upload *upload);
DEFINE_OWNED(upload);

/* ---- DELETE ---- */

/** A change: ends a session for its owner. ERROR_NOT_FOUND as in upload_find(). */
struct upload_cancel {
    struct change change;
    struct resource where;
    struct uuid upload;
    uint8_t bound_to[SHA256_SIZE], secret_hash[SHA256_SIZE];
    struct uuid blob; /* set by the change */
};
void upload_cancel_prepare(const struct resource *where, const struct principal *principal,
                           const struct upload_location *location, struct upload_cancel *cancel_out);
/**
 * Call it after the change: stops the writer, if this gateway has it, and removes the bytes. registry_clean_up()
 * repeats a removal that fails.
 */
void upload_cancel_finish(const struct permit *permit, struct registry *registry, struct pg *pg,
                          const struct upload_cancel *cancel) __attribute__((nonnull));
