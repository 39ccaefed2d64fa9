/*
 * gateway/pipeline/passing.h -- a read of content that this gateway does not have, and the gateway of another region has: it is asked there, for the
 * client (docs/replication.md, "What its clients get").
 *
 * Rule: the credential of the request goes with it, over mutual TLS, and the other gateway checks it, decides and records by itself. Nothing is kept
 * here: bytes go through memory of a fixed size.
 */
#pragma once

#include "audit/permit.h"
#include "gateway/pipeline/request.h"

struct settings;
struct passings; /* of a gateway: the other gateways, and how many reads are passed on now */
struct passing;

/** *passings_out is NULL if the configuration names no other gateway. `settings` must outlive it. */
RESULT passings_new(const struct settings *settings, struct passings **passings_out, struct error *err);
/** Whether there is a gateway to ask about content of the region. NULL: no. */
bool passings_have(const struct passings *passings, const char *region);
/**
 * The threads that wait for other gateways, as many as there are passings at a time, without a database. No other thread does: a gateway that is silent
 * holds up nobody else.
 */
struct work_pool *passings_threads(const struct passings *passings) __attribute__((nonnull));
/** No passing may be left. */
void passings_free(struct passings *passings);
DEFINE_OWNED(passings);

/** `length` bytes from `first` on, of content with `size` bytes. */
struct passing_part {
    uint64_t first, length, size;
};
/**
 * Sends the request to the gateway of the region of its first pair, which the permit is for, and waits until the answer begins: on a thread of passings_threads(). The request outlives the
 * passing. *passing_out is NULL if the other gateway refuses it (403, 404): then its answer is the answer. ERROR_LIMIT: too many are passed
 * on now; ERROR_UNAVAILABLE: it can't be reached, or can't answer now.
 */
RESULT passing_open(const struct permit *permit, struct request *request, const struct passing_part *part,
                    struct passing **passing_out, struct error *err) __attribute__((nonnull));
/** The next `length` bytes; `offset`, from the beginning of the part, only grows. May block. ERROR_UNAVAILABLE: the other gateway has ended the answer. */
RESULT passing_read(struct passing *passing, uint64_t offset, uint8_t *into, size_t length, struct error *err);
/** Ends the call, within a second. */
void passing_free(struct passing *passing);
DEFINE_OWNED(passing);

/** Headers of a request that a gateway passes on, beside the client's own: only the port of gateways believes them. */
#define PASSED_CERTIFICATE \
    "Sijil-Passed-Certificate" /* x5t#S256 of the client's certificate: it has proved its key to that gateway */
/** Whether a request that came to the port of gateways is of one: its certificate is of a gateway of a region. */
bool passing_is_of_gateway(const struct request *request);
