/*
 * client/step_up.h -- the registry refuses a login that is too old, or of another kind, for what was asked (RFC 9470).
 */
#pragma once

#include "client/hosts.h"
#include "client/http.h"
#include "client/report.h"

/** Whether this is why the answer is 401. */
bool step_up_is_wanted(const struct http_response *response);
/** The person logs in again, if the program can ask: then *is_done_out is true, and `login` is the new one, which is stored. */
RESULT step_up_log_in(struct report *report, const char *host, const struct http_response *response, struct host_login *login,
                      bool *is_done_out, struct error *err);
/** Explains what the person can do. Always a failure. */
struct result step_up_refused(struct report *report, const char *host, const struct http_response *response, struct error *err);
