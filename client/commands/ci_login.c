/*
 * `sijil ci login`: exchanges the token of a CI system once, and keeps the token of the registry. So a rule that lets each token be used once is
 * enough for a push and a pull.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/dpop_offer.h"
#include "client/hosts.h"
#include "client/terminal.h"
#include "registry/names/reference.h"

#define FORM_MAX  ((size_t)64 * 1024) /* a token of 12 KiB, each byte as three */
#define SCOPE_MAX 8192

/* Names are checked here, because a token that counts once would be used up. */
static struct result write_scope(const struct invocation *invocation, struct buffer *scope, struct error *err)
{
    struct repository_name split;

    for (unsigned i = 1; i < invocation->operand_count; i++) {
        const struct result is_name = repository_name_split(bytes_of_text(invocation->operands[i]), &split, err);
        if (!is_name.ok) failure_name(invocation->operands[i], err);
        TRY(is_name);
        TRY(buffer_format(scope, err, "%srepository:%s:pull,push", i == 1 ? "" : " ", invocation->operands[i]));
    }
    if (invocation_option(invocation, 'a') == NULL) return SUCCESS;
    return buffer_format(scope, err, "%sregistry:admin:* registry:catalog:*", scope->length == 0 ? "" : " ");
}

static struct result write_form(const char *token, const char *scope, struct buffer *form, struct error *err)
{
    TRY(buffer_add_text(form, "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange", err));
    TRY(buffer_add_text(form, "&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt&subject_token=", err));
    TRY(http_escape(form, token, err));
    TRY(buffer_add_text(form, "&scope=", err));
    return http_escape(form, scope, err);
}

static struct result exchange(struct invocation *invocation, const struct host_login *login, const char *scope,
                              json_t **answer_out, struct error *err)
{
    const struct http_options options = {
        .host = invocation->operands[0], .ca_file = login->ca_file, .proxy = login->proxy, .verbose = invocation->verbose};
    struct buffer OWNED_BUFFER form = BUFFER(FORM_MAX);
    OWNED(ecdsa_key) *key = NULL; /* outlives the connection */
    OWNED(http) *http = NULL;
    OWNED_RESPONSE response = RESPONSE;

    TRY(dpop_key_load(true, &key, err));
    TRY(write_form(login->password, scope, &form, err));
    const struct http_request request = {
        .method = "POST", .path = "/token", .content_type = "application/x-www-form-urlencoded", .body = buffer_bytes(&form)};
    struct result called = http_new(&options, &http, err);
    if (called.ok) called = dpop_offer(http, key, err);
    if (called.ok) called = http_call(http, &request, &response, err);
    explicit_bzero(form.data, form.length);
    TRY(called);
    if (response.status != 200) return refusal(invocation_report(invocation), &response, err);
    const struct result read = json_read(buffer_bytes(&response.body), HTTP_ANSWER_MAX, answer_out, err);
    explicit_bzero(response.body.data, response.body.length);
    return read;
}

/* Whether one of the scopes, which are separated by blanks, begins so. */
static bool has_scope(const char *scopes, const char *begin)
{
    const char *at = scopes;

    for (; (at = strstr(at, begin)) != NULL; at++)
        if (at == scopes || at[-1] == ' ') return true;
    return false;
}

static struct result demand(const char *scopes, const char *kind, const char *name, struct error *err)
{
    char begin[sizeof "repository::" + 255]; /* a repository's name */

    (void)snprintf(begin, sizeof begin, "%s:%s:", kind, name);
    if (has_scope(scopes, begin)) return SUCCESS;
    return failure(
        err, ERROR_DENIED,
        "the token was accepted, but no trust rule or role gives it a right on %.256s; nothing was kept, and a single_use "
        "token is spent. sijil ci test-rule says which claim of a rule does not match",
        strcmp(kind, "registry") == 0 ? "the registry's REST interface (--administration)" : name);
}

/* A right that is missing would only be noticed at the first push, or at the first run. */
static struct result check_scope(const struct invocation *invocation, const char *scopes, struct error *err)
{
    for (unsigned i = 1; i < invocation->operand_count; i++) TRY(demand(scopes, "repository", invocation->operands[i], err));
    return invocation_option(invocation, 'a') == NULL ? SUCCESS : demand(scopes, "registry", "admin", err);
}

static struct result keep(const struct invocation *invocation, const json_t *answer, struct host_login *login, struct error *err)
{
    const char *token = json_text_of(answer, "access_token"), *scope = json_text_of(answer, "scope");
    const char *type = json_text_of(answer, "token_type");
    const bool is_bound = type != NULL && strcasecmp(type, "DPoP") == 0;

    if (token == NULL || scope == NULL || strlen(token) >= sizeof login->password)
        return failure(err, ERROR_INVALID, "the registry's /token answered without a token that fits");
    TRY(check_scope(invocation, scope, err));
    (void)snprintf(login->username, sizeof login->username, "%s", is_bound ? SESSION_DPOP : SESSION_BEARER);
    (void)snprintf(login->password, sizeof login->password, "%s", token);
    return host_login_save(invocation->operands[0], login, err);
}

static struct result log_in(struct invocation *invocation, struct host_login *login, json_t **answer_out, struct error *err)
{
    struct buffer OWNED_BUFFER scope = BUFFER(SCOPE_MAX);

    TRY(line_check(invocation, write_scope(invocation, &scope, err)));
    if (scope.length == 0)
        return line_check(invocation, failure(err, ERROR_INVALID, "name the repositories, or give --administration"));
    TRY(login_ca_file(invocation, login, err));
    host_ca_find(login);
    TRY(host_proxy_find(login, err));
    TRY(terminal_secret("Token of the CI system", login->password, sizeof login->password, err));
    TRY(exchange(invocation, login, buffer_text(&scope), answer_out, err));
    return keep(invocation, *answer_out, login, err);
}

struct result command_ci_login(struct invocation *invocation, struct error *err)
{
    struct host_login login = {0};
    OWNED_JSON answer = NULL;
    const char *host = invocation->operands[0];
    char scope[CELL_MAX];

    TRY(line_check(invocation, login_check_host(host, err)));
    const struct result result = log_in(invocation, &login, &answer, err);
    explicit_bzero(login.password, sizeof login.password);
    explicit_bzero(login.proxy, sizeof login.proxy);
    TRY(result);
    OWNED_JSON shown = json_pack("{s:s, s:O, s:O*}", "host", host, "scope", json_object_get(answer, "scope"), "expires_in",
                                 json_object_get(answer, "expires_in"));
    if (shown == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
    if (invocation->json) return api_print_json(shown, err);
    cell_text(json_object_get(answer, "scope"), scope);
    (void)fprintf(stderr, "logged in at %s for %lld s: %s\n", host, (long long)number_of(answer, "expires_in"), scope);
    return SUCCESS;
}
