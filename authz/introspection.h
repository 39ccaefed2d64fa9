/*
 * authz/introspection.h -- opaque tokens: what their issuers say about them (RFC 7662), kept for a short time.
 *
 * Nothing here calls anybody: a thread for each issuer takes questions and brings answers (gateway/background/introspect.h), so an issuer that hangs costs
 * the tokens of others nothing. An answer counts for INTROSPECTION_KEPT_MS at most, and never longer than the token: so a revoked token ends within that
 * time. Tokens wait here as secrets for seconds; the table of answers has their digests only. Thread-safe.
 */
#pragma once

#include <jansson.h>

#include "authz/issuer_documents.h"

#define INTROSPECTION_ISSUERS_MAX 8
#define INTROSPECTION_TOKEN_MAX   2048
#define INTROSPECTION_ANSWER_MAX  65536
#define INTROSPECTION_KEPT_MS     30000
#define INTROSPECTION_PATIENCE_MS 8000 /* a question that is not answered by then has failed */
#define INTROSPECTION_FAILED_MS   2000 /* until it is asked again */
#define INTROSPECTION_QUEUE       32   /* questions that wait for one issuer */

/** How the registry asks one issuer: a line of the file of introspection. */
struct introspection_client {
    char issuer[ISSUER_URL_SIZE], endpoint[ISSUER_KEYS_URL_SIZE];
    char client[128], secret[256]; /* HTTP Basic (RFC 6749, 2.3.1) */
};
/**
 * Reads a file with a line for each issuer, "ISSUER ENDPOINT CLIENT SECRET", empty lines, and lines that begin with #. ERROR_INVALID, ERROR_LIMIT. The
 * caller wipes the clients, also after a failure.
 */
RESULT introspection_clients_read(struct bytes text, struct introspection_client clients[INTROSPECTION_ISSUERS_MAX],
                                  size_t *count_out, struct error *err);

/**
 * Reads an answer (RFC 7662, 2.2). *claims_out: the claims of an active token, with `iss` added if it is missing; NULL: the token is not active, or
 * is no access token. ERROR_INVALID: it is no answer, or is that of another issuer; ERROR_LIMIT, ERROR_NO_MEMORY.
 */
RESULT introspection_answer_read(struct bytes text, const char *issuer, json_t **claims_out, struct error *err);

/** Whether a text can be an opaque token: 1 to INTROSPECTION_TOKEN_MAX letters of RFC 6750, 2.1, and not of the form of a JWT, nor of a
 * robot's secret: that must not be shown to an issuer by mistake. */
bool introspection_token_is_opaque(struct bytes token);

struct introspection;

/** Copies the clients. */
RESULT introspection_new(const struct introspection_client *clients, size_t count, struct introspection **introspection_out,
                         struct error *err);
size_t introspection_count(const struct introspection *introspection);
const struct introspection_client *introspection_client_at(const struct introspection *introspection, size_t number);

enum introspection_state {
    INTROSPECTION_WAITS,    /* the issuer is being asked: look again soon */
    INTROSPECTION_ACTIVE,   /* *claims_out is set; the caller owns a reference */
    INTROSPECTION_INACTIVE, /* the issuer says so */
    INTROSPECTION_FAILED,   /* the issuer does not answer as it must, or too many tokens wait for it */
    INTROSPECTION_UNKNOWN,  /* and it may not be asked */
};
/** What is known of a token of the issuer with this number; asks if nothing is, and `may_ask`. `now_ms` of clock_monotonic_ms(). */
enum introspection_state introspection_look(struct introspection *introspection, size_t issuer, struct bytes token,
                                            int64_t now_ms, bool may_ask, json_t **claims_out);

struct introspection_question {
    size_t issuer;
    uint8_t digest[32];
    char token[INTROSPECTION_TOKEN_MAX + 1]; /* wiped by introspection_settle() */
};
/** Takes a question, or waits for one, at most so long. False: there is none. */
bool introspection_take(struct introspection *introspection, size_t issuer, int64_t wait_ms,
                        struct introspection_question *question_out);
/** Ends a question: ACTIVE with claims, which are borrowed, INACTIVE or FAILED; it counts until `until_ms`. */
void introspection_settle(struct introspection *introspection, struct introspection_question *question,
                          enum introspection_state state, json_t *claims, int64_t until_ms);

void introspection_free(struct introspection *introspection);
DEFINE_OWNED(introspection);
