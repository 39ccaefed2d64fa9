/* `sijil login`, `sijil logout` and `sijil whoami`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "client/address.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/hosts.h"
#include "client/local.h"
#include "client/session.h"
#include "client/terminal.h"

static struct result check_host(const char *host, struct error *err)
{
    TRY(address_check(host, err));
    if (strchr(host, '/') != NULL || host[0] == '\0' || strlen(host) > 255)
        return failure(err, ERROR_INVALID, "'%.80s' is no HOST[:PORT]; leave out https:// and any path", host);
    return SUCCESS;
}

static struct result take_ca_file(const struct invocation *invocation, struct host_login *login, struct error *err)
{
    const char *path = invocation_option(invocation, 'c');
    struct buffer OWNED_BUFFER content = BUFFER((size_t)1 << 20);

    if (path == NULL) return SUCCESS;
    TRY(local(file_read(path, &content, err), path, err));
    if (strstr(buffer_text(&content), "-----BEGIN CERTIFICATE-----") == NULL)
        return failure(err, ERROR_INVALID, "%.150s has no PEM certificate", path);
    OWNED_STRING whole = realpath(path, NULL);
    if (whole == NULL) return failure(err, ERROR_INVALID, "can't find %.150s: %s", path, strerror(errno));
    if (strlen(whole) >= sizeof login->ca_file) return failure(err, ERROR_INVALID, "the path of the CA file is too long");
    memcpy(login->ca_file, whole, strlen(whole) + 1);
    return SUCCESS;
}

/* Tries the login before it is stored, so that a wrong password shows now and not at the first push. */
static struct result try_login(struct invocation *invocation, const char *host, const struct host_login *login, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED_RESPONSE response = RESPONSE;
    const struct http_request request = {.method = "GET", .path = "/v2/", .wanted = 200};

    TRY(session_open(invocation_report(invocation), host, login, &session, err));
    return session_call(session, "", &request, &response, err);
}

/* Takes over `value`. */
static struct result say(json_t *value, struct error *err)
{
    OWNED_JSON object = value;

    return object == NULL ? failure(err, ERROR_INVALID, "a name that is not UTF-8, or no memory") : api_print_json(object, err);
}

struct result command_login(struct invocation *invocation, struct error *err)
{
    struct host_login login = {0};
    const char *host = invocation->operands[0], *username = invocation_option(invocation, 'u');

    TRY(line_check(invocation, check_host(host, err)));
    if (username == NULL)
        return line_check(invocation,
                          failure(err, ERROR_INVALID, "--username is missing: a robot's name, or oidc for a CI token"));
    if (!user_name_is_valid(username)) /* may be curl's USER:SECRET, so it is not repeated */
        return line_check(invocation,
                          failure(err, ERROR_INVALID, "a user name has no ':'; the secret is read from standard input"));
    if (strlen(username) >= sizeof login.username)
        return line_check(invocation, failure(err, ERROR_INVALID, "the user name is too long"));
    memcpy(login.username, username, strlen(username) + 1);
    TRY(take_ca_file(invocation, &login, err));
    TRY(host_proxy_find(&login, err));
    TRY(terminal_secret("Password", login.password, sizeof login.password, err));
    struct result result = try_login(invocation, host, &login, err);
    if (result.ok) result = host_login_save(host, &login, err);
    explicit_bzero(&login, sizeof login);
    TRY(result);
    if (invocation->json) return say(json_pack("{s:s,s:s}", "host", host, "username", username), err);
    (void)fprintf(stderr, "logged in at %s as %s\n", host, username);
    return SUCCESS;
}

struct result command_logout(struct invocation *invocation, struct error *err)
{
    const char *host = invocation->operands[0];

    TRY(line_check(invocation, check_host(host, err)));
    TRY(host_login_forget(host, err));
    return invocation->json ? say(json_pack("{s:s}", "host", host), err) : SUCCESS;
}

static void show_roles(const json_t *roles)
{
    char role[CELL_MAX], scope[CELL_MAX], expires[CELL_MAX];

    if (json_array_size(roles) == 0) (void)printf("no role: ask an administrator for one\n");
    for (size_t i = 0; i < json_array_size(roles); i++) {
        const json_t *each = json_array_get(roles, i);
        const char *where = json_text_of(each, "scope");
        cell_text(json_object_get(each, "role"), role);
        cell_text(json_object_get(each, "scope"), scope);
        cell_text(json_object_get(each, "expires"), expires);
        (void)printf("%-17s on %s%s%s\n", role, where == NULL || where[0] == '\0' ? "the registry" : scope,
                     json_object_get(each, "expires") == NULL ? "" : " until ",
                     json_object_get(each, "expires") == NULL ? "" : expires);
    }
}

/* Shows the person that this login counts as; gateways older than that feature don't say. */
static void show_person(const json_t *answer)
{
    const json_t *person = json_object_get(answer, "person");
    const char *text = json_text_of(answer, "person"), *kind = json_text_of(answer, "kind");
    const char *who = "nobody: no person made this robot, or two have seen its secret, so it can't be the second of two";
    char cell[CELL_MAX];

    if (person == NULL) return;
    cell_text(person, cell);
    if (text != NULL && strcmp(text, "administrator") == 0) who = "the administrator: the person who runs the machine";
    else if (text != NULL && kind != NULL && strcmp(kind, "external") == 0) who = "yourself";
    else if (text != NULL) who = cell;
    (void)printf("%-17s %s\n", "person", who);
}

struct result command_whoami(struct invocation *invocation, struct error *err)
{
    static const char *const lines[][2] = {
        {"name", "name"}, {"issuer", "issuer"}, {"id", "id"}, {"secret_expires", "secret ends"}, {"token_expires", "token ends"}};
    const struct http_request request = {.method = "GET", .path = "/api/v1/self", .wanted = 200};
    OWNED(session) *session = NULL;
    OWNED_RESPONSE response = RESPONSE;
    OWNED_JSON answer = NULL;
    char cell[CELL_MAX];

    TRY(line_check(invocation, check_host(invocation->operands[0], err)));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(session_call(session, "", &request, &response, err));
    TRY(json_read(buffer_bytes(&response.body), HTTP_ANSWER_MAX, &answer, err));
    if (invocation->json) return api_print_json(answer, err);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (json_object_get(answer, lines[i][0]) == NULL) continue;
        cell_text(json_object_get(answer, lines[i][0]), cell);
        (void)printf("%-17s %s\n", lines[i][1], cell);
    }
    show_person(answer);
    show_roles(json_object_get(answer, "roles"));
    return SUCCESS;
}
