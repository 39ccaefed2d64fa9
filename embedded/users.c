#include <unistd.h>

#include "embedded/embedded_priv.h"

static struct result find_user(const char *name, const char *remedy, struct user *user_out, struct error *err)
{
    const struct result found = user_find(name, user_out, err);

    if (found.ok || err->kind != ERROR_NOT_FOUND) return found;
    return failure(err, ERROR_NOT_FOUND, "root needs the system user %s, which is missing: %s", name, remedy);
}

#define MAKE_USER(name)                                                                             \
    "run script/setup, or: useradd --system --user-group --no-create-home --home-dir /nonexistent " \
    "--shell /usr/sbin/nologin " name

struct result users_find_runner(const struct users *users, struct user *user_out, struct error *err)
{
    if (users->separate) return find_user(RUNNER_USER, MAKE_USER(RUNNER_USER), user_out, err);
    *user_out = users->self;
    return SUCCESS;
}

struct result users_find(struct users *users_out, struct error *err)
{
    struct users users = {.separate = geteuid() == 0};

    TRY(user_self(&users.self, err));
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
