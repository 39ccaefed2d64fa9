/* Makes the answers to failures, by kind. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "crypto/keyd_client.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/response.h"
#include "gateway/pipeline/route.h"
#include "registry/registry.h"
#include "storage/pg.h"

/*
 * Kind, status, code of OCI errors, title of problems, advice. NULL: the error's message is shown to the caller. All other messages name
 * parts of the service and stay in the log.
 */
#define ANSWERS(X)                                                                                                        \
    X(ERROR_INVALID, 400, "UNKNOWN", "The request breaks a rule", NULL)                                                   \
    X(ERROR_DENIED, 403, "DENIED", "Not allowed", NULL)                                                                   \
    X(ERROR_NOT_FOUND, 404, "NAME_UNKNOWN", "There is no such thing", NULL)                                               \
    X(ERROR_CONFLICT, 409, "UNKNOWN", "It conflicts with what is there", NULL)                                            \
    X(ERROR_LIMIT, 413, "SIZE_INVALID", "A limit was reached", NULL)                                                      \
    X(ERROR_FULL, 507, "UNAVAILABLE", "There is no room",                                                                 \
      "there is no room for it; once the operator has made some, try again: an upload goes on where it stopped")          \
    X(ERROR_UNAVAILABLE, 503, "UNAVAILABLE", "A part of the service is down",                                             \
      "a part of the service is down, and it was not done; try again in a few seconds")                                   \
    X(ERROR_UNCERTAIN, 503, "UNAVAILABLE", "It is not known whether it was done",                                         \
      "a part of the service went down meanwhile; look whether it was done, then try again")                              \
    X(ERROR_CORRUPT, 500, "UNKNOWN", "Stored data is damaged",                                                            \
      "stored data is damaged, or was changed; tell the operator, whose log says what: trying again does not help")       \
    X(ERROR_NO_MEMORY, 503, "UNAVAILABLE", "A part of the service is overloaded",                                         \
      "the service is overloaded, and it was not done; try again in a few seconds")                                       \
    X(ERROR_FORKED, 503, "UNAVAILABLE", "The audit log was changed",                                                      \
      "the audit log in the database is not the one that was signed: nothing is served until the operator has found out " \
      "who changed it, has restored the signed one and has started the gateway again; trying again does not help")

struct answer {
    unsigned status;
    const char *code, *title, *advice;
};

static struct answer answer_of(enum error_kind kind)
{
    switch (kind) {
#define X(constant, status, code, title, advice) \
    case constant: return (struct answer){status, code, title, advice};
        ANSWERS(X)
#undef X
    case ERROR_NONE: break;
    }
    return (struct answer){500, "UNKNOWN", "Something went wrong",
                           "tell the operator: the log says why, by the id of the request"};
}

/* A caller's mistake is not logged as an error: it would hide errors of the service, and any tenant could fill the log with it. */
void failure_log(const struct request *request, const struct error *err)
{
    log_line(answer_of(err->kind).status >= 500 ? LOG_ERROR : LOG_DEBUG, request->route == NULL ? "none" : request->route->name,
             "request", request->id, "kind", error_kind_name(err->kind), "error", err->message, NULL);
}

void failure_words(const struct error *err, char words_out[sizeof err->message])
{
    static const struct {
        const char *begins, *part;
    } private[] = {
        {PG_STATEMENT_FAILED, "the database"}, {PG_CONNECTION_FAILED, "the database"}, {KEYD_NOT_REACHED, "sijil-keyd"}};

    for (size_t i = 0; i < sizeof private / sizeof private[0]; i++) {
        const char *found = strstr(err->message, private[i].begins);
        if (found == NULL) continue;
        (void)snprintf(words_out, sizeof err->message, "%.*s%s: %s; the gateway's log says why", (int)(found - err->message),
                       err->message, private[i].part, error_kind_name(err->kind));
        return;
    }
    (void)snprintf(words_out, sizeof err->message, "%s", err->message);
}

unsigned failure_status(const struct error *err, char words_out[sizeof err->message])
{
    const struct answer answer = answer_of(err->kind);

    if (answer.advice == NULL) failure_words(err, words_out);
    else (void)snprintf(words_out, sizeof err->message, "%s", answer.advice);
    return answer.status;
}

#define PUSH_ANEW "stored data is damaged; tell the operator: trying again does not help, pushing the content anew may"

/* A gateway of one region says where the others are. */
static const char *other_gateway(struct request *request, const char *region)
{
    const char *home = request->reads_copy && request->home_region != NULL ? request->home_region : region;
    char host[REGISTRY_HOST_SIZE];

    if (!registry_is_elsewhere(request->gateway->registry, home, host)) return NULL;
    return arena_format(request->arena, "it was not done here: region %s is served by another gateway%s%s", home,
                        host[0] == '\0' ? "" : ", ", host);
}

/* Names the region only to a caller whose request was permitted: such a caller can see the region of its project. The cause is
 * for the operator only. */
static const char *advice_of(struct request *request, const struct error *err, const char *advice)
{
    const char *region = request->pair_count == 0 ? "" : request->pairs[0].resource.region;

    if (err->kind == ERROR_CORRUPT && request->speaks_oci) return PUSH_ANEW; /* elsewhere no content is involved */
    if (err->kind != ERROR_UNAVAILABLE || request->permit == NULL || region[0] == '\0') return advice;
    const char *other = other_gateway(request, region);
    if (other != NULL) return other;
    if (!registry_region_has_problem(request->gateway->registry, region)) return advice;
    const char *named =
        arena_format(request->arena, "region %s can't be used now, and it was not done; the operator's log says why", region);
    return named == NULL ? advice : named;
}

void response_failure(struct request *request, const struct error *err)
{
    const struct answer answer = answer_of(err->kind);
    char words[sizeof err->message];

    failure_words(err, words);
    const char *detail = answer.advice == NULL ? words : advice_of(request, err, answer.advice);

    response_error(request, answer.status, answer.code, answer.title, detail);
    if (answer.status == 503 && err->kind != ERROR_FORKED) response_header(request, "Retry-After", "%d", 2);
}
