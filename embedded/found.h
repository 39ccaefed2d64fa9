/*
 * embedded/found.h -- what a registry has before anybody has logged in, also where sijild has a configuration
 * file.
 *
 * Runs as the gateway's user, under permits that are in the audit log, like any other change: pins the
 * approver's key and the first signed policy set, adds the regions, the organisation `main` with the project
 * `main/models`, and an administrator. What is there already stays as it is, so it may be repeated; only the
 * administrator is made anew each time, and the one before is revoked.
 */
#pragma once

#include "gateway/settings.h"

struct found_options {
    const struct settings *settings;
    const char *approver;   /* PEM file: the public key that signs policy sets; read if none is pinned */
    const char *policy_set; /* a signed set (policy/set.h); read if none is pinned */
    int admin_fd; /* the administrator is written there, as {"username", "password", "url", "expires"} */
};
RESULT found_registry(const struct found_options *options, struct error *err);
