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

struct result login_check_host(const char *host, struct error *err)
{
    TRY(address_check(host, err));
    if (strchr(host, '/') != NULL || host[0] == '\0' || strlen(host) > 255)
        return failure(err, ERROR_INVALID, "'%.80s' is no HOST[:PORT]; leave out https:// and any path", host);
    return SUCCESS;
}

struct result login_find_ca_file(const char *path, char *place, size_t room, struct error *err)
{
    struct buffer OWNED_BUFFER content = BUFFER((size_t)1 << 20);

    TRY(local(file_read(path, &content, err), path, err));
    if (strstr(buffer_text(&content), "-----BEGIN CERTIFICATE-----") == NULL)
        return failure(err, ERROR_INVALID, "%.150s has no PEM certificate", path);
    OWNED_STRING whole = realpath(path, NULL);
    if (whole == NULL) return failure(err, ERROR_INVALID, "can't find %.150s: %s", path, strerror(errno));
    if (strlen(whole) >= room) return failure(err, ERROR_INVALID, "the path of the CA file is too long");
    memcpy(place, whole, strlen(whole) + 1);
    return SUCCESS;
}

struct result login_ca_file(const struct invocation *invocation, struct host_login *login, struct error *err)
{
    const char *path = invocation_option(invocation, 'c');

    return path == NULL ? SUCCESS : login_find_ca_file(path, login->ca_file, sizeof login->ca_file, err);
}

static struct result take_user_name(const char *username, struct host_login *login, struct error *err)
{
    if (username == NULL && login->username[0] != '\0') return SUCCESS; /* of the stored login */
    if (username == NULL)
        return failure(err, ERROR_INVALID,
                       "--username is missing: a robot's name, or oidc for a CI token; a person has --issuer");
    if (!user_name_is_valid(username)) /* may be curl's USER:SECRET, so it is not repeated */
        return failure(err, ERROR_INVALID, "a user name has no ':'; the secret is read from standard input");
    if (strlen(username) >= sizeof login->username) return failure(err, ERROR_INVALID, "the user name is too long");
    memcpy(login->username, username, strlen(username) + 1);
    return SUCCESS;
}

/* Without --username and --issuer: the login that is stored for this registry, with a new secret. */
static struct result prepare(struct invocation *invocation, struct host_login *login, struct error *err)
{
    const char *username = invocation_option(invocation, 'u');

    if (username == NULL) TRY(host_login_stored(invocation->operands[0], login, err));
    explicit_bzero(login->password, sizeof login->password);
    TRY(line_check(invocation, login_issuer_options(invocation, login, err)));
    if (login->issuer.url[0] == '\0') TRY(line_check(invocation, take_user_name(username, login, err)));
    TRY(login_ca_file(invocation, login, err));
    return host_proxy_find(login, err);
}

/* A token is not a name: the registry says whose it is. Other registries have no such route, and then `name_out` stays. */
static void learn_name(struct session *session, char name_out[CELL_MAX])
{
    const struct http_request request = {.method = "GET", .path = "/api/v1/self", .wanted = 200};
    OWNED_RESPONSE response = RESPONSE;
    OWNED_JSON answer = NULL;
    struct error ignored = {0};

    if (!session_call(session, "", &request, &response, &ignored).ok) return;
    if (!json_read(buffer_bytes(&response.body), HTTP_ANSWER_MAX, &answer, &ignored).ok) return;
    if (json_text_of(answer, "name") != NULL) cell_text(json_object_get(answer, "name"), name_out);
}

/* Tries the login before it is stored, so that a wrong password shows now and not at the first push. */
static struct result try_login(struct invocation *invocation, const char *host, const struct host_login *login,
                               char name_out[CELL_MAX], struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED_RESPONSE response = RESPONSE;
    const struct http_request request = {.method = "GET", .path = "/v2/", .wanted = 200};

    TRY(session_open(invocation_report(invocation), host, login, &session, err));
    TRY(session_call(session, "", &request, &response, err));
    (void)snprintf(name_out, CELL_MAX, "%s", login->username);
    if (strcmp(login->username, "oidc") == 0) learn_name(session, name_out);
    return SUCCESS;
}

/* Takes over `value`. */
static struct result say(json_t *value, struct error *err)
{
    OWNED_JSON object = value;

    return object == NULL ? failure(err, ERROR_INVALID, "a name that is not UTF-8, or no memory") : api_print_json(object, err);
}

static struct result log_in(struct invocation *invocation, struct host_login *login, char name_out[CELL_MAX], struct error *err)
{
    const char *host = invocation->operands[0];
    struct host_login tried;
    OWNED_FD lock = -1; /* a renewal of the login before would replace this one */

    TRY(prepare(invocation, login, err));
    if (login->issuer.url[0] != '\0') TRY(login_at_issuer(invocation, login, err));
    else TRY(terminal_secret("Password", login->password, sizeof login->password, err));
    tried = *login;
    tried.issuer.url[0] = '\0'; /* what is not stored can't be renewed */
    const struct result result = try_login(invocation, host, &tried, name_out, err);
    explicit_bzero(&tried, sizeof tried);
    if (!result.ok && login->issuer.url[0] != '\0') login_withdraw(invocation, login);
    TRY(result);
    TRY(host_lock_renewal(&lock, err));
    return host_login_save(host, login, err);
}

struct result command_login(struct invocation *invocation, struct error *err)
{
    struct host_login login = {0};
    const char *host = invocation->operands[0];
    char name[CELL_MAX];

    TRY(line_check(invocation, login_check_host(host, err)));
    const struct result result = log_in(invocation, &login, name, err);
    explicit_bzero(login.password, sizeof login.password);
    explicit_bzero(login.proxy, sizeof login.proxy);
    explicit_bzero(login.issuer.refresh, sizeof login.issuer.refresh);
    TRY(result);
    const char *issuer = login.issuer.url[0] == '\0' ? NULL : login.issuer.url;
    if (invocation->json)
        return say(json_pack("{s:s,s:s,s:s,s:s*}", "host", host, "username", login.username, "name", name, "issuer", issuer),
                   err);
    (void)fprintf(stderr, "logged in at %s as %s\n", host, name);
    return SUCCESS;
}

struct result command_logout(struct invocation *invocation, struct error *err)
{
    const char *host = invocation->operands[0];
    struct host_login login = {0};
    OWNED_FD lock = -1; /* a renewal that another program began would put the login back */

    TRY(line_check(invocation, login_check_host(host, err)));
    TRY(host_lock_renewal(&lock, err));
    TRY(host_login_stored(host, &login, err));
    const struct result revoked = login.issuer.url[0] == '\0' ? SUCCESS : login_revoke(invocation, &login, err);
    explicit_bzero(&login, sizeof login);
    struct error other = {0};
    const struct result forgotten = host_login_forget(host, revoked.ok ? err : &other);
    if (!revoked.ok && forgotten.ok) failure_name("forgotten here, but it may go on at the issuer", err);
    TRY(revoked);
    TRY(forgotten);
    return invocation->json ? say(json_pack("{s:s}", "host", host), err) : SUCCESS;
}

/* A role of administrators and officers counts by a signed document. */
static void show_officer(const json_t *role)
{
    char cell[CELL_MAX];

    if (json_object_get(role, "bound_as") != NULL) {
        cell_text(json_object_get(role, "bound_as"), cell);
        (void)printf(", bound as %s, which counts when a document of officers is signed (admin officers draft)", cell);
    } else if (json_text_of(role, "document") != NULL && strcmp(json_text_of(role, "origin"), "binding") == 0) {
        cell_text(json_object_get(role, "document"), cell);
        (void)printf(", by the signed document %s", cell);
    }
}

/* Older gateways don't say where a role comes from. */
static void show_origin(const json_t *role)
{
    const char *origin = json_text_of(role, "origin");
    char binding[CELL_MAX], giver[CELL_MAX];

    if (origin == NULL) return;
    show_officer(role);
    if (strcmp(origin, "rule") == 0) {
        (void)printf(", by a signed trust rule");
        return;
    }
    if (strcmp(origin, "group") == 0) {
        cell_text(json_object_get(role, "document"), giver);
        (void)printf(", by a group (admin groups show %s)", giver);
        return;
    }
    if (strcmp(origin, "break-glass") == 0) {
        cell_text(json_object_get(role, "document"), giver);
        (void)printf(", by the broken glass %s", giver);
        return;
    }
    cell_text(json_object_get(role, "binding"), binding);
    cell_text(json_object_get(role, "granted_by"), giver);
    (void)printf(", by binding %s of %s", binding, giver);
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
        (void)printf("%-17s on %s%s%s", role, where == NULL || where[0] == '\0' ? "the registry" : scope,
                     json_object_get(each, "expires") == NULL ? "" : " until ",
                     json_object_get(each, "expires") == NULL ? "" : expires);
        if (json_object_get(each, "role_version") != NULL) {
            cell_text(json_object_get(each, "role_version"), role);
            (void)printf(", version %s of the role", role);
        }
        show_origin(each);
        (void)putchar('\n');
    }
}

/* Shows the person that this login counts as; gateways older than that feature don't say. */
static void show_person(const json_t *answer)
{
    const json_t *person = json_object_get(answer, "person");
    const char *text = json_text_of(answer, "person"), *kind = json_text_of(answer, "kind");
    const char *who = "nobody: it is not known who is behind it, so it can't be the second of two";
    char cell[CELL_MAX];

    if (person == NULL) return;
    cell_text(person, cell);
    if (kind != NULL && strcmp(kind, "rule") == 0) who = "nobody: a CI job is never the second of two";
    else if (text != NULL && strcmp(text, "administrator") == 0)
        who = "the administrator: one person, who runs the machine, whatever it does";
    else if (text != NULL && kind != NULL && strcmp(kind, "external") == 0) who = "yourself";
    else if (text != NULL) who = cell;
    else if (json_object_get(answer, "persons") != NULL) who = "several persons have seen its secret: it counts as all of them";
    (void)printf("%-17s %s\n", "person", who);
}

/* Said only where it is not as it should be. */
static void show_officers(const json_t *answer)
{
    const char *officers = json_text_of(answer, "officers");

    if (officers != NULL && strcmp(officers, "bindings") == 0)
        (void)printf("%-17s bindings alone make administrators and officers here (admin officers draft)\n", "officers");
}

/* What waits for a review is shown until a third person has reviewed it. */
static void show_glasses(const json_t *glasses)
{
    char name[CELL_MAX];

    for (size_t i = 0; i < json_array_size(glasses); i++) {
        const json_t *glass = json_array_get(glasses, i);
        const char *review = json_text_of(glass, "review");
        if (review == NULL || strcmp(review, "open") != 0) continue;
        cell_text(json_object_get(glass, "name"), name);
        (void)printf("%-17s %s waits for a review by a third person (admin break-glass review)\n", "broken glass", name);
    }
}

/* Somebody who did not ask for it withdraws it. */
static void show_waiting_keys(const json_t *keys)
{
    char name[CELL_MAX], until[CELL_MAX];

    for (size_t i = 0; i < json_array_size(keys); i++) {
        cell_text(json_object_get(json_array_get(keys, i), "name"), name);
        cell_text(json_object_get(json_array_get(keys, i), "waits_until"), until);
        (void)printf("%-17s %s is to replace a key of yours from %s on; if you did not ask for it: key revoke\n", "waiting key",
                     name, until);
    }
}

static void show_unknown(const json_t *members)
{
    static const char *const words[][2] = {{"waiting_keys", "keys that wait"}, {"break_glass", "broken glasses"}};

    for (size_t i = 0; i < json_array_size(members); i++) {
        const char *member = json_string_value(json_array_get(members, i));
        for (size_t k = 0; member != NULL && k < sizeof words / sizeof words[0]; k++)
            if (strcmp(member, words[k][0]) == 0)
                (void)printf("%-17s %s of yours, because the registry's keys are out of reach: ask again\n", "can't be told",
                             words[k][1]);
    }
}

/* What is stored here is known without the registry. */
static void show_stored(const char *host)
{
    struct host_login login;
    struct error ignored = {0};

    if (!host_login_find(host, &login, &ignored).ok) return;
    (void)printf("%-17s %s\n", "login", login.issuer.url[0] != '\0' ? login.issuer.url : login.username);
    (void)printf("%-17s name, person and roles: the registry does not answer\n", "can't be told");
    explicit_bzero(&login, sizeof login);
}

struct result command_whoami(struct invocation *invocation, struct error *err)
{
    static const char *const lines[][2] = {
        {"name", "name"}, {"issuer", "issuer"}, {"id", "id"}, {"secret_expires", "secret ends"}, {"token_expires", "token ends"}};
    const struct http_request request = {.method = "GET", .path = "/api/v1/self", .wanted = 200};
    OWNED(session) *session = NULL;
    OWNED_RESPONSE response = RESPONSE;
    OWNED_JSON answer = NULL;
    char cell[CELL_MAX], principal[SIGNING_PRINCIPAL_SIZE];
    struct error ignored = {0};

    TRY(line_check(invocation, login_check_host(invocation->operands[0], err)));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    const struct result called = session_call(session, "", &request, &response, err);
    if (!called.ok && err->kind == ERROR_UNAVAILABLE && !invocation->json) show_stored(invocation->operands[0]);
    TRY(called);
    TRY(json_read(buffer_bytes(&response.body), HTTP_ANSWER_MAX, &answer, err));
    if (invocation->json) return api_print_json(answer, err);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (json_object_get(answer, lines[i][0]) == NULL) continue;
        cell_text(json_object_get(answer, lines[i][0]), cell);
        (void)printf("%-17s %s\n", lines[i][1], cell);
    }
    if (self_principal(answer, principal, &ignored).ok) (void)printf("%-17s %s\n", "principal", principal);
    show_person(answer);
    show_officers(answer);
    show_roles(json_object_get(answer, "roles"));
    show_glasses(json_object_get(answer, "break_glass"));
    show_waiting_keys(json_object_get(answer, "waiting_keys"));
    show_unknown(json_object_get(answer, "unknown"));
    return SUCCESS;
}
