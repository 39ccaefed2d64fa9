/* What each kind of failure is answered with. */
#include "gateway/response.h"

/* kind, status, code of OCI errors, title of problems, whether the message is for the caller's eyes */
#define ANSWERS(X)                                                                     \
    X(ERROR_INVALID, 400, "UNKNOWN", "The request breaks a rule", true)                \
    X(ERROR_DENIED, 403, "DENIED", "Not allowed", true)                                \
    X(ERROR_NOT_FOUND, 404, "NAME_UNKNOWN", "There is no such thing", true)            \
    X(ERROR_CONFLICT, 409, "UNKNOWN", "It changed meanwhile", true)                    \
    X(ERROR_LIMIT, 413, "SIZE_INVALID", "A limit was reached", true)                   \
    X(ERROR_FULL, 507, "UNAVAILABLE", "There is no room", false)                       \
    X(ERROR_UNAVAILABLE, 503, "UNAVAILABLE", "A part of the service is down", false)   \
    X(ERROR_UNCERTAIN, 503, "UNAVAILABLE", "It is not known whether it was done", false) \
    X(ERROR_CORRUPT, 500, "UNKNOWN", "Stored data is damaged", false)                  \
    X(ERROR_NO_MEMORY, 503, "UNAVAILABLE", "A part of the service is overloaded", false)

struct answer {
    unsigned status;
    const char *code, *title;
    bool is_public;
};

static struct answer answer_of(enum error_kind kind)
{
    switch (kind) {
#define X(constant, status, code, title, is_public) \
    case constant: return (struct answer){status, code, title, is_public};
        ANSWERS(X)
#undef X
    case ERROR_NONE: break;
    }
    return (struct answer){500, "UNKNOWN", "Something went wrong", false};
}

void response_failure(struct request *request, const struct error *err)
{
    const struct answer answer = answer_of(err->kind);
    const char *detail = answer.is_public ? err->message
                                          : "the request was not done; the operator finds it in the log by its id";

    if (request->speaks_oci)
        response_oci_error(request, answer.status, answer.code, answer.is_public ? err->message : answer.title, NULL);
    else
        response_problem(request, answer.status, answer.title, detail);
    if (answer.status == 503) response_header(request, "Retry-After", "%d", 2);
}
