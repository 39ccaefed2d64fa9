/*
 * embedded/found.h -- what a registry has before anybody has logged in, also where sijild has a configuration
 * file.
 *
 * Runs as the gateway's user, under permits that are in the audit log, like any other change: pins the
 * approver's key and the first signed policy set, adds the regions, the organisation `main` with the project
 * `main/models`, and an administrator. What is there already stays as it is, so it may be repeated: that never makes, revokes
 * or changes an administrator once there was one. A lost one is replaced on demand only, which the log shows
 * (`administrator.replace`).
 */
#pragma once

#include "gateway/settings/settings.h"

enum found_admin {
    FOUND_ADMIN_ONCE, /* only if none was ever made */
    FOUND_ADMIN_ANEW, /* revokes the one that there may be, and makes another */
};

struct found_options {
    const struct settings *settings;
    const char *approver;   /* PEM file: the public key that signs policy sets; read if none is pinned */
    const char *policy_set; /* a signed set (policy/set.h); read if none is pinned */
    enum found_admin admin;
    bool admin_is_person; /* it counts as one person: where all is on one machine, as whoever runs that */
    int admin_fd; /* the administrator is written there, as {"username", "password", "url", "expires"}; -1: there is no place */
};
/** *made_admin_out: whether an administrator was made; else nothing was written to admin_fd. */
RESULT found_registry(const struct found_options *options, bool *made_admin_out, struct error *err);
/** The administrator alone, in place of one that there was; ERROR_INVALID if there was none. */
RESULT found_administrator(const struct found_options *options, struct error *err);
