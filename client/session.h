/*
 * client/session.h -- being logged in at one registry: fetches tokens, explains refusals.
 *
 * Every call names the scope that it needs; a token for it is fetched at /token, kept until it is about to expire,
 * and fetched once more when the registry no longer takes it. Nothing is kept on disk but the login itself.
 */
#pragma once

#include <stdatomic.h>

#include "client/http.h"
#include "client/report.h"

struct session;

struct host_login;
/** Logs nothing in yet: the first call fetches a token. `report` must live on. */
RESULT session_open(struct report *report, const char *host, const struct host_login *login, struct session **session_out,
                    struct error *err);

/**
 * A connection of its own with the same login, for another thread. What the registry warns of is shown once by all of them
 * together. Its refusals are explained in `report`. `session` must live longer.
 */
RESULT session_branch(struct session *session, struct report *report, struct session **branch_out, struct error *err);
/** Once it is set, exchanges end at once with ERROR_UNAVAILABLE, and none begins. NULL: never. */
void session_give_up_when(struct session *session, const atomic_bool *gives_up);
/** It is set: nothing is worth another try. */
bool session_gives_up(const struct session *session);
/** Says that `why` is tried again after so many seconds, and waits, unless the session gives up meanwhile. */
void session_pause(const struct session *session, unsigned seconds, const struct error *why);
struct report *session_report(const struct session *session);

/**
 * One exchange with a token for `scope`. Any answer but the statuses that the request wants is a failure that
 * says what the registry said; its rule, decision and request ids go into the report's explanation.
 */
RESULT session_call(struct session *session, const char *scope, const struct http_request *request,
                    struct http_response *response, struct error *err);

/** "repository:acme/models/digits:pull,push" into `scope`. */
RESULT session_scope(struct buffer *scope, const char *repository, const char *actions, struct error *err);
#define ADMIN_SCOPE "registry:admin:*"

/** Turns a status and the body of an OCI error, problem document or OAuth error into a failure. */
struct result refusal(struct report *report, const struct http_response *response, struct error *err);

void session_free(struct session *session);
DEFINE_OWNED(session);
