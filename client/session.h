/*
 * client/session.h -- a login at one registry: fetches tokens, explains refusals.
 *
 * Every call names the scope that it needs. Its token is fetched at /token, or from another source, kept until shortly before its expiry, and fetched once more when
 * the registry refuses it. Tokens are not stored on disk.
 */
#pragma once

#include <stdatomic.h>

#include "client/http.h"
#include "client/report.h"

struct session;

struct host_login;
/** The user name of a login whose password is a token of the registry itself, which is sent as it is: `sijil ci login`. */
#define SESSION_BEARER "bearer"
/** The same, of a token that is bound to the stored key (client/dpop.h). */
#define SESSION_DPOP "dpop"
/** Whether the login's password is a token of the registry. */
bool session_has_token(const struct host_login *login);
/** Sends nothing yet: the first call fetches a token. `report` must outlive the session. */
RESULT session_open(struct report *report, const char *host, const struct host_login *login, struct session **session_out,
                    struct error *err);

/** Where tokens come from, if not from /token. */
struct token_source {
    /** Appends a token for `scope` (a Bearer token's text), with its remaining life in seconds. */
    RESULT (*ask)(void *context, const char *scope, struct buffer *token, int64_t *lifetime_s_out, struct error *err);
    void *context;
    const char *name; /* of the holder, for messages */
};
/**
 * A session without a login: its tokens come from `source`. `source` and `report` must outlive the session. It can't be cloned.
 */
RESULT session_open_from(struct report *report, const struct http_options *options, const struct token_source *source,
                         struct session **session_out, struct error *err);

/**
 * A session of its own with the same login, for another thread. Warnings of the registry are shown once for all clones together; refusals
 * are explained in `report`. `session` must outlive the clone.
 */
RESULT session_clone(struct session *session, struct report *report, struct session **clone_out, struct error *err);
/** When the flag becomes true, running requests end with ERROR_UNAVAILABLE, and no new one begins. NULL: no flag. */
void session_give_up_when(struct session *session, const atomic_bool *gives_up);
/** Whether the flag is true; then nothing should be retried. */
bool session_gives_up(const struct session *session);
/** Reports the retry in `seconds` because of `why`, and waits, unless the session gives up. */
void session_pause(const struct session *session, unsigned seconds, const struct error *why);
struct report *session_report(const struct session *session);

/**
 * Sends one request with a token for `scope`. Any status but those that the request wants is a failure with the registry's message; rule,
 * decision and request ids go into the report's explanation.
 */
RESULT session_call(struct session *session, const char *scope, const struct http_request *request,
                    struct http_response *response, struct error *err);

#define ADMIN_SCOPE "registry:admin:*"

/** Turns a status and the body of an OCI error, problem document or OAuth error into a failure. */
struct result refusal(struct report *report, const struct http_response *response, struct error *err);

void session_free(struct session *session);
DEFINE_OWNED(session);
