/*
 * gateway/background/issuer_fetch.h -- asks one issuer for its metadata and its keys.
 *
 * Whatever the issuer does is an outcome and no failure: `problem` says in a sentence what was wrong. An attempt makes at most three calls of
 * ISSUER_CALL_S each, reads at most ISSUER_DOCUMENT_MAX bytes of each, and follows no redirect.
 */
#pragma once

#include "authz/issuer_jobs.h"
#include "outgoing/call.h"

#define ISSUER_CALL_S 5

struct issuer_answer {
    char problem[401];          /* "": the keys were read */
    struct buffer jwks, report; /* the keys in canonical spelling; what was seen, as JSON */
};
#define ISSUER_ANSWER                                                        \
    {                                                                        \
        .jwks = BUFFER(ISSUER_JWKS_MAX), .report = BUFFER(ISSUER_REPORT_MAX) \
    }

/** `gives_up`: ends an attempt within a second. ERROR_NO_MEMORY. */
RESULT issuer_fetch(struct outgoing *outgoing, const struct issuer_task *task, const atomic_bool *gives_up,
                    struct issuer_answer *answer, struct error *err);
void issuer_answer_done(struct issuer_answer *answer);
#define OWNED_ISSUER_ANSWER __attribute__((cleanup(issuer_answer_done))) struct issuer_answer
