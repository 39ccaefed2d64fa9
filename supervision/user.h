/*
 * supervision/user.h -- users of the operating system, and how a process changes to one of them.
 */
#pragma once

#include <sys/types.h>

#include "base/result.h"

struct user {
    char name[64]; /* useradd(8) allows 32 characters */
    uid_t uid;
    gid_t gid;
};

/** ERROR_NOT_FOUND if no user has this name. */
RESULT user_find(const char *name, struct user *user_out, struct error *err);
/** ERROR_NOT_FOUND if no user has this id. */
RESULT user_of(uid_t uid, struct user *user_out, struct error *err);
/** The user and the group of this process. ERROR_NOT_FOUND if its user id has no name. */
RESULT user_self(struct user *user_out, struct error *err);
/**
 * This process becomes `user` for good, with the groups of that user. Nothing changes if it is that user already.
 * ERROR_DENIED for a process that may not change its user, and for a process that could change back.
 */
RESULT user_become(const struct user *user, struct error *err);
