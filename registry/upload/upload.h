/*
 * registry/upload/upload.h -- upload sessions: begun, written in pieces, resumed anywhere, committed once.
 *
 * A session belongs to one subject, credential, repository and region, is known by a secret in its Location, and
 * ends 24 hours after it last got on, or once it is idle where its owner, project or organisation has half of what it may have, or
 * when an administrator ends it (registry/upload/upload_admin.h). Its row says what is safe; a writer that still lives in this process goes on in its
 * extent, any other resumes from the last checkpoint (docs/formats/sjb1.md, "Uploads that pause"). Only the writer
 * that claimed the row last can save or commit.
 * OCI Distribution Specification 1.1.1, "Pushing blobs".
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

#define UPLOAD_SHOW_EVERY_MS        10000  /* a body that comes shows so often that it does, and looks whether its session has ended */
#define UPLOAD_SAVE_EVERY_MS        900000 /* a slow body is made safe so often */
#define UPLOAD_COPIES_MAX           2    /* are read again for their SHA-512 at the same time; more are ERROR_LIMIT */

/* ---- POST ---- */

/** A change that makes the session, and the repository if it is the first. Give &change to the record. */
struct upload_begin {
    struct change change;
    struct resource where;           /* the repository; its id may be nil */
    enum digest_algorithm algorithm; /* that the client will close with */
    struct upload_location location; /* made by prepare; goes into the answer */
    struct uuid repository;          /* set by the change */
    struct uuid blob;
    struct key_record key;
    uint8_t bound_to[SHA256_SIZE], secret_hash[SHA256_SIZE];
    char issuer[256], subject[256]; /* of who began it, for lists (registry/upload/upload_admin.h) */
    struct session_limits limits; /* of open uploads, where the project has no quota of them */
    unsigned repositories_max;    /* of the project */
    bool is_counted; /* set by the change: the project has a quota of bytes; true if nobody knows */
};
/** Draws ids, keys and secret; stores nothing. `where` is that of the decision: project and region must be known. */
RESULT upload_begin_prepare(struct registry *registry, const struct resource *where,
                            const struct principal *principal, enum digest_algorithm algorithm,
                            struct upload_begin *begin_out, struct error *err);

/** After the change. This gateway is the session's first writer. */
void upload_begin_finish(struct registry *registry, const struct upload_begin *begin);

/* ---- PATCH, PUT, GET ---- */

struct upload;
/* A session that was found or begun under a permit, for as long as a request lasts: without one the functions below abort. */

/** Who asks for which session. */
struct upload_request {
    enum action action; /* upload.write, upload.commit or upload.read */
    const struct resource *where;
    const struct principal *principal;
    struct upload_location location;
};
/** The session that somebody asks for. Nothing is read yet: upload_find() comes next. */
RESULT upload_new(struct registry *registry, const struct upload_request *request, struct upload **upload_out, struct error *err);
/** Reads the session's row in the transaction of the record that the request is allowed: one round trip less. Changes nothing. */
struct change *upload_search(struct upload *upload);
/**
 * Reads the session's row, unless upload_search() has. ERROR_NOT_FOUND for one that does not exist, has expired, or is not
 * the caller's, of this repository, or known by this secret: nobody learns which. Claims nothing. `permit` is for what was asked.
 */
RESULT upload_find(const struct permit *permit, struct upload *upload, struct pg *pg, struct error *err)
    __attribute__((nonnull(1, 2, 4)));
/** The session that this same request began, as upload_find() would find it: nobody else has been told of it yet. */
RESULT upload_of_begin(const struct permit *permit, struct registry *registry, const struct upload_begin *begun,
                       struct upload **upload_out, struct error *err) __attribute__((nonnull));
/** Bytes that are safe, or, once it is claimed, that the next write follows. */
uint64_t upload_offset(const struct upload *upload);
/**
 * Makes this the session's only writer. ERROR_CONFLICT while another request of this gateway writes; one that has
 * stood still for five seconds, or that another gateway serves, is overtaken instead. ERROR_LIMIT
 * when too many uploads write at the same time; ERROR_CORRUPT when the checkpoint does not verify.
 */
RESULT upload_claim(struct upload *upload, struct pg *pg, struct error *err) __attribute__((nonnull));
struct upload_announcement {
    uint64_t length;    /* bytes that come next */
    bool more_may_come; /* and nobody knows how many: a piece is taken at a time */
};
/**
 * Takes bytes out of the project's quota before they come. Does nothing in a project without one, or while enough is
 * reserved. ERROR_DENIED when they do not fit. What is left is given back by upload_give_back(), or when the session ends.
 */
RESULT upload_reserve(struct upload *upload, const struct upload_announcement *announced, struct recorder *recorder,
                      struct error *err);
/** At the end of a request: what was reserved and did not come is given back. Nothing to do, or not claimed, is a success. */
RESULT upload_give_back(struct upload *upload, struct recorder *recorder, struct error *err);
/** upload_write() of so many bytes needs upload_reserve() first. */
bool upload_must_reserve(const struct upload *upload, size_t length);
/** So many bytes are announced, and probably all that still comes. */
void upload_expect(struct upload *upload, uint64_t length);
/** After a failure only upload_free() may follow; the client goes on from the last offset that was saved. */
RESULT upload_write(struct upload *upload, struct bytes content, struct error *err) __attribute__((nonnull));
/** 64 MiB or a quarter of an hour since the last time. */
bool upload_must_save(const struct upload *upload);
/**
 * While a body comes: shows every few seconds that it does, so that the session is not idle. ERROR_NOT_FOUND when the session was
 * ended meanwhile, ERROR_CONFLICT when another writer has it.
 */
RESULT upload_show(struct upload *upload, struct pg *pg, struct error *err) __attribute__((nonnull));
/** Whoever was refused with ERROR_CONFLICT because the session has ended is told so: ERROR_NOT_FOUND. What was written since goes. */
void upload_note_end(const struct upload *upload, struct pg *pg, struct error *refusal)
    __attribute__((nonnull));
/** What had been made safe is gone or damaged, so that nobody can go on: to be dropped. Decision 24. */
bool upload_is_lost(const struct upload *upload);
/** Its writer is sound: what it wrote so far can be kept. */
bool upload_can_save(const struct upload *upload);
/** Makes what was written durable and records it. ERROR_CONFLICT when another writer has claimed the session. */
RESULT upload_save(struct upload *upload, struct pg *pg, struct recorder *recorder, struct error *err)
    __attribute__((nonnull));
/**
 * Closes the blob, links it to the repository and ends the session, in one transaction with its event. If the
 * project has the digest already, that blob is linked and these bytes are dropped. ERROR_INVALID for another
 * digest: the session stays as it was last saved. ERROR_CONFLICT as in upload_save().
 */
RESULT upload_commit(struct upload *upload, struct pg *pg, const struct digest *expected,
                     struct recorder *recorder, struct error *err) __attribute__((nonnull));
/** Ends a session that nobody can go on with, claimed or just begun, and removes its bytes; `note` says why, for the event. */
RESULT upload_drop(struct upload *upload, struct pg *pg, const char *note, struct recorder *recorder,
                   struct error *err) __attribute__((nonnull));
/** Keeps the writer for the next request, if it can go on. */
void upload_free(struct upload *upload);
DEFINE_OWNED(upload);

/* ---- DELETE ---- */

/** A change that ends a session for its owner. ERROR_NOT_FOUND as in upload_find(). */
struct upload_cancel {
    struct change change;
    struct resource where;
    struct uuid upload;
    uint8_t bound_to[SHA256_SIZE], secret_hash[SHA256_SIZE];
    struct uuid blob; /* set by the change */
};
void upload_cancel_prepare(const struct resource *where, const struct principal *principal,
                           const struct upload_location *location, struct upload_cancel *cancel_out);
/** After the change: stops the writer, if this gateway has it, and removes the bytes now; what fails is done later by registry_tidy(). */
void upload_cancel_finish(struct registry *registry, struct pg *pg, const struct upload_cancel *cancel);
