/*
 * embedded/bootstrap.h -- initialises a registry before anyone can log in, for --embedded and for sijild with a configuration file.
 *
 * Runs as the gateway's user, under permits that are in the audit log, like any other change. It pins the approver's key and the first
 * signed policy set, and adds the regions, the organisation `main` with the project `main/models`, and an administrator. Existing parts
 * stay as they are, so it may be repeated. Once there was an administrator, a repetition never makes, revokes or changes one. A lost
 * administrator is replaced only by bootstrap_administrator(), which the log shows (`administrator.replace`).
 */
#pragma once

#include "gateway/settings/settings.h"

enum bootstrap_admin {
    BOOTSTRAP_ADMIN_ONCE, /* only if none was ever made */
    BOOTSTRAP_ADMIN_ANEW, /* revokes the current one, if there is one, and makes another */
};

struct bootstrap_options {
    const struct settings *settings;
    const char *approver;   /* PEM file: the public key that signs policy sets; read if none is pinned. May be NULL */
    const char *policy_set; /* a signed set (policy/set.h); read if none is pinned. May be NULL */
    bool compares;          /* if one is pinned already, the given one is read, too, and must be the same */
    enum bootstrap_admin admin;
    bool admin_is_person; /* counts as one person: on a single machine, the person who runs it */
    int admin_fd;         /* receives {"username", "password", "url", "expires", "id"} of the administrator; -1: none */
    bool makes_trainer;   /* with the first project: a robot that pushes to it and trains in it, of the administrator's person */
    int trainer_fd;       /* receives the same of the trainer */
};
/**
 * *made_admin_out: an administrator was made; else nothing was written to admin_fd. ERROR_CONFLICT: another approver or policy set is
 * pinned. Logs a warning for each region that the policy set in force does not list.
 */
RESULT bootstrap_registry(const struct bootstrap_options *options, bool *made_admin_out, struct error *err);
/** Replaces the administrator, and does nothing else. ERROR_INVALID if there was none. */
RESULT bootstrap_administrator(const struct bootstrap_options *options, struct error *err);
