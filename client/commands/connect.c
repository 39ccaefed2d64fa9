/* The session of a command. Warnings of its registry go to standard error, as text or as JSON. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "client/address.h"
#include "client/commands/commands_priv.h"
#include "client/hosts.h"

static void warn_person(const char *warning)
{
    (void)fprintf(stderr, "warning from the registry: %s\n", warning);
}

static void warn_program(const char *warning)
{
    OWNED_JSON object = json_pack("{s:s}", "warning", warning);

    if (object == NULL) warn_person(warning);
    else if (json_dumpf(object, stderr, JSON_COMPACT) == 0) (void)fputc('\n', stderr);
}

static void print_wait(const char *why, unsigned seconds)
{
    (void)fprintf(stderr, "%s%s; trying again in %u s\n", isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "", why, seconds);
}

static struct result log_in(struct report *report, const char *host, const char *acr_values, struct error *err)
{
    struct invocation *invocation = (struct invocation *)(void *)((char *)report - offsetof(struct invocation, report));

    (void)fprintf(stderr, "This needs a login at your issuer that is a few minutes old.\n");
    TRY(login_again(invocation, host, acr_values, err));
    (void)fprintf(stderr, "logged in; the request is sent again\n");
    return SUCCESS;
}

struct report *invocation_report(struct invocation *invocation)
{
    invocation->report.verbose = invocation->verbose;
    invocation->report.warn = invocation->json ? warn_program : warn_person;
    invocation->report.log_in = login_can_ask(invocation) ? log_in : NULL;
    invocation->report.wait = invocation->json ? NULL : print_wait;
    return &invocation->report;
}

struct result command_session(struct invocation *invocation, const char *host, struct session **session_out, struct error *err)
{
    struct host_login login = {0};

    TRY(line_check(invocation, address_check(host, err)));
    if (strchr(host, '/') != NULL)
        return line_check(invocation,
                          failure(err, ERROR_INVALID, "'%.80s' is no HOST[:PORT]; leave out https:// and any path", host));
    if (invocation->act_key == NULL) TRY(command_other_signer(invocation, SIGN_WITH, &invocation->act_key, err));
    invocation->report.act_key = invocation->act_key;
    TRY(host_login_find(host, &login, err));
    const struct result opened = session_open(invocation_report(invocation), host, &login, session_out, err);
    explicit_bzero(&login, sizeof login);
    return opened;
}

const char *notes_folder(struct invocation *invocation)
{
    struct buffer OWNED_BUFFER path = BUFFER(sizeof invocation->notes - 1);
    struct error ignored = {0};

    if (!user_folder("XDG_CACHE_HOME", ".cache", true, &path, &ignored).ok) return NULL;
    (void)snprintf(invocation->notes, sizeof invocation->notes, "%s", buffer_text(&path));
    return invocation->notes;
}
