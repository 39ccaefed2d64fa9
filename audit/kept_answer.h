/*
 * audit/kept_answer.h -- answers that are kept for a repeat of their request (draft-ietf-httpapi-idempotency-key-header-07; docs/api.md, "Repeats").
 *
 * A request that makes something may bring a key that its client has drawn. A row for the key comes with the change, in one transaction, at whichever gateway. The answer
 * follows, sealed under the key of the caller like the payloads of its events, and bound to the row. Connections, also the sequencer's, need kept_answer_table and
 * audit_subject_table.
 */
#pragma once

#include "audit/search.h"
#include "audit/sequencer.h"
#include "base/bytes.h"
#include "crypto/digest.h"

extern const struct pg_table kept_answer_table;

#define KEPT_HOURS      24
#define KEPT_MOST       1000  /* answers of one caller: of more, the oldest go; what was done stays known */
#define KEPT_ANSWER_MAX 16384 /* bytes; a longer answer is not kept */

/** Which request: the caller ("" is the issuer of a robot), and what it asks for under which key. Views. */
struct kept_request {
    const char *issuer, *subject;
    uint8_t name[SHA256_SIZE];    /* of the key */
    uint8_t digest[SHA256_SIZE];  /* of method, target and body */
    uint8_t request[SHA256_SIZE]; /* what the row has of these */
};
/**
 * Sets request->request, under the caller's key: a row with the digest would tell everybody who guesses a request that it was made, also after the caller was
 * erased. Makes the caller's key, if it has none yet. ERROR_UNAVAILABLE without sijil-keyd or database.
 */
RESULT kept_request_seal(const struct search_source *source, struct kept_request *request, struct error *err)
    __attribute__((nonnull));

enum kept_state {
    KEPT_NOT,     /* nothing was done under this key */
    KEPT_OTHER,   /* another request was */
    KEPT_COMING,  /* this request was, less than a minute ago, and its answer may be kept yet */
    KEPT_UNKNOWN, /* this request was, and its answer is not kept */
    KEPT_ANSWER   /* this request was, and its answer is there */
};
/** Says nothing about the answer but that it is there. ERROR_UNAVAILABLE without sijil-keyd or database. */
RESULT kept_answer_find(const struct search_source *source, const struct kept_request *request, enum kept_state *state_out,
                        struct error *err) __attribute__((nonnull));
/** Appends the answer to `answer`. ERROR_NOT_FOUND: the row is not what a gateway has written, or its key is gone. Needs any permit: the caller's own answer is read. */
RESULT kept_answer_open(const struct permit *permit, const struct search_source *source, const struct kept_request *request,
                        struct buffer *answer, struct error *err) __attribute__((nonnull));
/** Keeps the answer of a request whose change was made. ERROR_LIMIT: it is too long. */
RESULT kept_answer_keep(const struct permit *permit, const struct search_source *source, const struct kept_request *request,
                        struct bytes answer, struct error *err) __attribute__((nonnull));

/** `inner`, and a row for the key in the same transaction. */
struct kept_change {
    struct change change; /* points into what follows: don't copy it */
    struct change *inner;
    const struct kept_request *request;
    uint8_t subject[32];
    bool was_there; /* the key was used meanwhile: ERROR_CONFLICT, and nothing was changed */
};
RESULT kept_change_init(struct kept_change *change, struct keyd_client *keyd, const struct kept_request *request,
                        struct change *inner, struct error *err) __attribute__((nonnull));
