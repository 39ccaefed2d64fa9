#include "supervision/user.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#define ENTRY_SIZE 4096 /* of one line of /etc/passwd, or of an entry from LDAP */

static struct result copy_user(const struct passwd *entry, struct user *user_out, struct error *err)
{
    const size_t length = strlen(entry->pw_name);

    if (length >= sizeof user_out->name)
        return failure(err, ERROR_LIMIT, "the name of user %ld is too long", (long)entry->pw_uid);
    memcpy(user_out->name, entry->pw_name, length + 1);
    user_out->uid = entry->pw_uid;
    user_out->gid = entry->pw_gid;
    return SUCCESS;
}

struct result user_find(const char *name, struct user *user_out, struct error *err)
{
    char text[ENTRY_SIZE];
    struct passwd entry, *known = NULL;

    const int status = getpwnam_r(name, &entry, text, sizeof text, &known);
    if (status != 0) return failure(err, ERROR_UNAVAILABLE, "can't look up user %s: %s", name, strerror(status));
    if (known == NULL) return failure(err, ERROR_NOT_FOUND, "there is no system user %s", name);
    return copy_user(known, user_out, err);
}

struct result user_of(uid_t uid, struct user *user_out, struct error *err)
{
    char text[ENTRY_SIZE];
    struct passwd entry, *known = NULL;

    const int status = getpwuid_r(uid, &entry, text, sizeof text, &known);
    if (status != 0 || known == NULL)
        return failure(err, ERROR_NOT_FOUND, "user id %ld has no name: add it to /etc/passwd", (long)uid);
    return copy_user(known, user_out, err);
}

struct result user_self(struct user *user_out, struct error *err)
{
    TRY(user_of(geteuid(), user_out, err));
    user_out->gid = getegid();
    return SUCCESS;
}

struct result user_become(const struct user *user, struct error *err)
{
    if (user->uid == geteuid()) return SUCCESS;
    if (initgroups(user->name, user->gid) != 0 || setresgid(user->gid, user->gid, user->gid) != 0 ||
        setresuid(user->uid, user->uid, user->uid) != 0)
        return failure(err, ERROR_DENIED, "can't become user %s: %s", user->name, strerror(errno));
    if (setuid(0) == 0) return failure(err, ERROR_DENIED, "could not give up root for user %s", user->name);
    return SUCCESS;
}
