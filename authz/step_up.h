/*
 * authz/step_up.h -- dangerous actions need a fresh login of the person (RFC 9470).
 *
 * An issuer says in acr and auth_time how and when the person logged in. Tokens of ours keep both, so a renewed token is as old as its login. Robots, runners
 * and CI jobs have no login: their roles, and the persons behind them, limit them.
 */
#pragma once

#include "audit/action.h"
#include "authz/principal.h"

#define STEP_UP_ANY "any" /* instead of acr values: each login will do, if it is fresh */

/**
 * Forgets how and when the person has logged in, unless it was by one of these clients of the issuer ("": by any; names with blanks between them). A login by a code that is typed
 * elsewhere (RFC 8628) can be talked out of somebody, so it has a client of its own, which is not listed. Tokens of ours say what they said when they were made.
 */
void step_up_forget(struct principal *principal, const char *clients);

/**
 * Whether the principal's login is good enough for the action. `wanted` is "" (each is), STEP_UP_ANY, or a list of acr values with blanks between them, one of which
 * the login must have. If it is not, *age_s_out is the age that a login may have.
 */
bool step_up_is_met(const struct principal *principal, enum action action, const char *wanted, int64_t now_ms,
                    unsigned *age_s_out);
