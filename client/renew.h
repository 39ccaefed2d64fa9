/*
 * client/renew.h -- keeps the login of a person alive: a new access token from the issuer before the old one ends.
 *
 * The issuer replaces the refresh token with each renewal, so the new one is in the file before it is used. Of several programs that need a renewal
 * one asks the issuer, and the others take what it stored.
 */
#pragma once

#include "client/hosts.h"

/** The rules for calls of the login's issuer; views into the login. */
struct provider_options host_issuer_options(const struct host_login *login, bool verbose);

/**
 * Renews the stored login of the host if its access token ends soon, or if the registry refused it (`is_refused`). Does nothing for a login without
 * an issuer. ERROR_DENIED: the login at the issuer has ended; the message says how to log in.
 */
RESULT host_login_renew(const char *host, struct host_login *login, bool is_refused, bool verbose, struct error *err);
