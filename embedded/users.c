#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "embedded/embedded_priv.h"

#define ENTRY_SIZE 4096 /* of one line of /etc/passwd, or what LDAP has for it */

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

static struct result find_user(const char *name, const char *remedy, struct user *user_out, struct error *err)
{
    char text[ENTRY_SIZE];
    struct passwd entry, *found = NULL;

    const int status = getpwnam_r(name, &entry, text, sizeof text, &found);
    if (status != 0)
        return failure(err, ERROR_UNAVAILABLE, "can't look up user %s: %s", name, strerror(status));
    if (found == NULL)
        return failure(err, ERROR_NOT_FOUND, "root needs the system user %s, which is missing: %s", name,
                       remedy);
    return copy_user(found, user_out, err);
}

static struct result find_self(struct user *user_out, struct error *err)
{
    char text[ENTRY_SIZE];
    struct passwd entry, *found = NULL;

    const int status = getpwuid_r(geteuid(), &entry, text, sizeof text, &found);
    if (status != 0 || found == NULL)
        return failure(err, ERROR_NOT_FOUND, "user id %ld has no name: add it to /etc/passwd",
                       (long)geteuid());
    TRY(copy_user(found, user_out, err));
    user_out->gid = getegid();
    return SUCCESS;
}

#define MAKE_USER(name)                                                                             \
    "run script/setup, or: useradd --system --user-group --no-create-home --home-dir /nonexistent " \
    "--shell /usr/sbin/nologin " name

struct result users_find(struct users *users_out, struct error *err)
{
    struct users users = {.separate = geteuid() == 0};

    TRY(find_self(&users.self, err));
    if (users.separate) {
        TRY(find_user("sijil", MAKE_USER("sijil"), &users.gateway, err));
        TRY(find_user("sijil-keyd", MAKE_USER("sijil-keyd"), &users.keyd, err));
        TRY(find_user("postgres", "install the package postgresql-15", &users.postgres, err));
    } else {
        users.gateway = users.keyd = users.postgres = users.self;
    }
    *users_out = users;
    return SUCCESS;
}

struct result user_become(const struct user *user, struct error *err)
{
    if (geteuid() != 0 || user->uid == 0) return SUCCESS;
    if (initgroups(user->name, user->gid) != 0 || setresgid(user->gid, user->gid, user->gid) != 0 ||
        setresuid(user->uid, user->uid, user->uid) != 0)
        return failure(err, ERROR_DENIED, "can't become user %s: %s", user->name, strerror(errno));
    if (setuid(0) == 0) return failure(err, ERROR_DENIED, "could not give up root for user %s", user->name);
    return SUCCESS;
}
