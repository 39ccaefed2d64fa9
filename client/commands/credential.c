/* `sijil credential`: gives a login to docker, skopeo and others, as their credential helper. So a person's login, which is renewed here, serves all of
 * them (https://github.com/docker/docker-credential-helpers). */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/renew.h"
#include "client/terminal.h"

#define NOT_FOUND "credentials not found in native keychain" /* the words by which these programs know it */
#define LINE_SIZE 512

/* "reg.example:8443" of "https://reg.example:8443/v1/". */
static void take_host(const char *given, char host[LINE_SIZE])
{
    static const char scheme[] = "https://";
    const char *start = strncmp(given, scheme, sizeof scheme - 1) == 0 ? given + sizeof scheme - 1 : given;

    (void)snprintf(host, LINE_SIZE, "%.*s", (int)strcspn(start, "/"), start);
}

static struct result find(const struct invocation *invocation, const char *host, struct host_login *login, struct error *err)
{
    const struct result found = host_login_find(host, login, err);

    if (!found.ok && err->kind == ERROR_DENIED) (void)printf("%s\n", NOT_FOUND);
    TRY(found);
    TRY(host_login_renew(host, login, false, invocation->verbose, err));
    if (!session_has_token(login)) return SUCCESS;
    return failure(err, ERROR_INVALID,
                   "the login of `sijil ci login` is a token of the registry, which other programs can't send");
}

static struct result print(const char *given, const struct host_login *login, struct error *err)
{
    json_t *shown = json_pack("{s:s,s:s,s:s}", "ServerURL", given, "Username", login->username, "Secret", login->password);
    const bool is_written =
        shown != NULL && json_dumpf(shown, stdout, JSON_COMPACT) == 0 && putchar('\n') != EOF && fflush(stdout) == 0;

    json_decref(shown);
    return is_written ? SUCCESS : failure(err, ERROR_INVALID, "the login can't be written");
}

struct result command_credential(struct invocation *invocation, struct error *err)
{
    struct host_login login = {0};
    char given[LINE_SIZE], host[LINE_SIZE];

    if (strcmp(invocation->operands[0], "get") != 0)
        return line_check(invocation, failure(err, ERROR_INVALID, "only \"get\": `sijil login` and `sijil logout` do the rest"));
    TRY(terminal_secret("Registry", given, sizeof given, err));
    take_host(given, host);
    TRY(login_check_host(host, err));
    struct result result = find(invocation, host, &login, err);
    if (result.ok) result = print(given, &login, err);
    explicit_bzero(&login, sizeof login);
    return result;
}
