#include "gateway/pipeline/token_endpoint.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "authz/group_login.h"
#include "authz/mint.h"
#include "authz/opaque_login.h"
#include "authz/trust_rule.h"
#include "base/clock.h"
#include "gateway/http/query.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/handler.h"
#include "gateway/pipeline/token_login.h"
#include "policy/decider/decider.h"
#include "registry/names/reference.h"
#include "registry/registry.h"

#define GRANT_EXCHANGE "urn:ietf:params:oauth:grant-type:token-exchange" /* RFC 8693 section 2.1 */
#define TOKEN_TYPE     "urn:ietf:params:oauth:token-type:"               /* RFC 8693 section 3 */

/* A request to this endpoint, parsed by the target function. */
struct token_grant {
    struct token_scope scope;
    bool is_exchange;
    struct uuid organisation; /* of the first repository that it gets a right for; nil: none */
    unsigned lifetime_max_s;  /* that its organisations demand; 0: none */
    struct trust_mint mint;   /* by a trust rule */
    struct group_mint groups; /* of a person whose groups have changed */
};

static const char *field_of(const struct fields *fields, const char *name)
{
    for (size_t i = 0; i < fields->count; i++)
        if (strcmp(fields->list[i].name, name) == 0) return fields->list[i].value;
    return NULL;
}

/* RFC 6749, 3.2: parameters must not repeat. Only scope may repeat, because clients of registries repeat it. */
static bool has_duplicates(const struct fields *fields)
{
    for (size_t i = 0; i < fields->count; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(fields->list[i].name, fields->list[j].name) == 0 && strcmp(fields->list[i].name, "scope") != 0)
                return true;
    return false;
}

/* The form replaces the query's arguments, so later code need not know where they came from. */
static struct result read_form(struct request *request, struct authentication *authentication, struct error *err)
{
    static const char type[] = "application/x-www-form-urlencoded";
    const char *content_type = request_header(request, "Content-Type");
    struct error wrong = {0};

    if (request->waits > 0) return SUCCESS; /* it was read before an issuer was asked */
    if (content_type == NULL || strncasecmp(content_type, type, sizeof type - 1) != 0)
        token_login_refuse(authentication, OAUTH_INVALID_REQUEST, "the body must be application/x-www-form-urlencoded");
    else if (request->arguments.count > 0)
        token_login_refuse(authentication, OAUTH_INVALID_REQUEST, "the parameters of POST are in its body, not in the query");
    else if (!query_read(request->body, request->arena, &request->arguments, &wrong).ok) {
        if (wrong.kind == ERROR_NO_MEMORY) return failure(err, ERROR_NO_MEMORY, "%s", wrong.message);
        token_login_refuse(authentication, OAUTH_INVALID_REQUEST, wrong.message);
    }
    return SUCCESS;
}

/* A token that is no JWT: its issuer is asked. */
static struct result try_opaque(struct request *request, const struct credential *credential, const char *token,
                                struct authentication *authentication, struct error *err)
{
    const struct opaque_login login = {.introspection = request->gateway->introspection,
                                       .directory = request->gateway->directory,
                                       .credential = credential,
                                       .attempts = authenticator_attempts(request->gateway->authenticator),
                                       .is_first = request->waits == 0,
                                       .is_counted = &request->is_counted,
                                       .issuer = request_argument(request, "subject_issuer"),
                                       .token = bytes_of_text(token)};
    bool is_waiting = false;

    if (login.introspection == NULL) {
        token_login_refuse(authentication, OAUTH_INVALID_GRANT,
                           "subject_token is no JWT, and no issuer is asked about other tokens here");
        return SUCCESS;
    }
    TRY(authenticate_opaque(&login, authentication, &is_waiting, err));
    authentication->is_waiting = is_waiting;
    return SUCCESS;
}

static struct result try_exchange(struct request *request, const struct credential *credential,
                                  struct authentication *authentication, struct error *err)
{
    const char *token = request_argument(request, "subject_token");
    const char *type = request_argument(request, "subject_token_type");

    if (token == NULL || type == NULL) {
        token_login_refuse(authentication, OAUTH_INVALID_REQUEST, "an exchange needs subject_token and subject_token_type");
        return SUCCESS;
    }
    if (strcmp(type, TOKEN_TYPE "jwt") != 0 && strcmp(type, TOKEN_TYPE "id_token") != 0 &&
        strcmp(type, TOKEN_TYPE "access_token") != 0) {
        token_login_refuse(authentication, OAUTH_INVALID_REQUEST, "subject_token_type must be jwt, id_token or access_token");
        return SUCCESS;
    }
    if (request_argument(request, "actor_token") != NULL) {
        token_login_refuse(authentication, OAUTH_INVALID_REQUEST, "acting for another is not offered: leave actor_token out");
        return SUCCESS;
    }
    if (strcmp(type, TOKEN_TYPE "id_token") != 0 && introspection_token_is_opaque(bytes_of_text(token)))
        return try_opaque(request, credential, token, authentication, err);
    struct credential exchanged = *credential;
    if (strcmp(type, TOKEN_TYPE "id_token") == 0) exchanged.subject_token = SUBJECT_TOKEN_ID;
    if (strcmp(type, TOKEN_TYPE "access_token") == 0) exchanged.subject_token = SUBJECT_TOKEN_ACCESS;
    return authenticate_token(request->gateway->authenticator, &exchanged, bytes_of_text(token), authentication, err);
}

/* One credential, in the header or in the form, never in both (RFC 6749, 2.3). */
static struct result try_grant(struct request *request, const struct credential *credential,
                               struct authentication *authentication, struct error *err)
{
    const char *grant = request_argument(request, "grant_type");
    const char *name = request_argument(request, "username"), *password = request_argument(request, "password");
    const char *client = request_argument(request, "client_id"), *secret = request_argument(request, "client_secret");
    const bool is_exchange = grant != NULL && strcmp(grant, GRANT_EXCHANGE) == 0;
    const bool is_password = grant != NULL && strcmp(grant, "password") == 0;

    if (credential->authorization != NULL && (is_exchange || is_password || secret != NULL)) {
        token_login_refuse(authentication, OAUTH_INVALID_REQUEST, "one credential is enough: a header or the form");
        return SUCCESS;
    }
    if (is_exchange) return try_exchange(request, credential, authentication, err);
    if (is_password && name != NULL && password != NULL)
        return token_login_password(request, credential, name, password, authentication, err);
    if (is_password) {
        token_login_refuse(authentication, OAUTH_INVALID_REQUEST, "grant_type=password needs username and password");
        return SUCCESS;
    }
    const bool is_client = grant == NULL || strcmp(grant, "client_credentials") == 0;
    if (is_client && credential->authorization == NULL && client != NULL)
        return secret == NULL ? token_login_certificate(request, credential, client, authentication, err)
                              : token_login_password(request, credential, client, secret, authentication, err);
    if (is_client) return authenticate(request->gateway->authenticator, credential, authentication, err);
    token_login_refuse(authentication, OAUTH_UNSUPPORTED_GRANT,
                       "grant_type must be password, client_credentials or token-exchange; there are no refresh tokens");
    return SUCCESS;
}

struct result token_authenticate(struct request *request, const struct credential *credential,
                                 struct authentication *authentication_out, struct error *err)
{
    struct authentication authentication = {.error = OAUTH_NONE};

    if (request->method == METHOD_POST) {
        TRY(read_form(request, &authentication, err));
        if (authentication.error == OAUTH_NONE && has_duplicates(&request->arguments))
            token_login_refuse(&authentication, OAUTH_INVALID_REQUEST, "a parameter comes twice");
        if (authentication.error == OAUTH_NONE) TRY(try_grant(request, credential, &authentication, err));
    } else {
        TRY(authenticate(request->gateway->authenticator, credential, &authentication, err));
    }
    *authentication_out = authentication;
    return SUCCESS;
}

void token_refuse(struct request *request, enum oauth_error error, const char *description)
{
    json_t *value = json_pack("{s:s, s:s}", "error", oauth_error_name(error), "error_description", description);

    response_json(request, oauth_error_status(error), value);
    response_header(request, "Cache-Control", "no-store");
    json_decref(value);
}

static struct result read_scopes(struct request *request, struct token_scope *scope, struct error *err)
{
    const char *text = NULL;

    for (size_t at = 0; (text = request_next_argument(request, "scope", &at)) != NULL;)
        TRY(token_scope_add(scope, bytes_of_text(text), err));
    return SUCCESS;
}

/* The event holds the requested scope, as far as it fits. */
static struct result describe_scope(const struct token_scope *scope, struct resource *resource, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER((size_t)64 << 10);

    const struct token_scope administration = {.administration = scope->administration};
    struct token_scope others = *scope;

    others.administration = false;
    TRY(token_scope_write(&administration, &text, err)); /* first, because keyd's count of such tokens is compared with it */
    if (text.length > 0) TRY(buffer_add_u8(&text, ' ', err));
    TRY(token_scope_write(&others, &text, err));
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", buffer_text(&text));
    return SUCCESS;
}

static bool names_other_service(const struct request *request, const char *parameter)
{
    const char *value = request_argument(request, parameter);

    return value != NULL && strcmp(value, request->gateway->settings->service) != 0;
}

/* The challenge names it to everybody. */
static void refuse_service(struct request *request, enum oauth_error error, const char *parameter)
{
    char text[320];

    (void)snprintf(text, sizeof text, "%s must be %.255s, which is the only one here", parameter,
                   request->gateway->settings->service);
    token_refuse(request, error, text);
}

/* RFC 6749, RFC 8693 and the forms of OCI's clients; clients also send parameters that are not used here. */
static const struct schema_member members_of_token_form[] = {
    HAS_WORD("grant_type", OPTIONAL, "client_credentials password " GRANT_EXCHANGE,
             "where the credential is: in the header, as username and password here, or as subject_token here"),
    HAS_TEXT("scope", OPTIONAL, FORM_FREE, 0, 4096, "the access that is asked for; may be repeated"),
    HAS_TEXT("service", OPTIONAL, FORM_FREE, 1, 255, "the service of the challenge"),
    HAS_TEXT("audience", OPTIONAL, FORM_FREE, 1, 255, "the same"),
    HAS_TEXT("username", OPTIONAL, FORM_FREE, 1, 0, "of a password: the name of a robot"),
    HAS_TEXT("password", OPTIONAL, FORM_FREE, 1, 0, "of a password: the robot's secret"),
    HAS_TEXT(
        "client_id", OPTIONAL, FORM_FREE, 1, 0,
        "of client_credentials without a header: the name of a robot; without client_secret its certificate, which TLS brings (RFC 8705)"),
    HAS_TEXT("client_secret", OPTIONAL, FORM_FREE, 1, 0, "of client_credentials without a header: the robot's secret"),
    HAS_TEXT("subject_token", OPTIONAL, FORM_FREE, 1, 0, "of an exchange: a token of a trusted issuer"),
    HAS_WORD("subject_token_type", OPTIONAL, TOKEN_TYPE "jwt " TOKEN_TYPE "id_token " TOKEN_TYPE "access_token",
             "of an exchange: what subject_token is"),
    HAS_TEXT("subject_issuer", OPTIONAL, FORM_FREE, 1, 255,
             "of an exchange: whose token it is, if it is no JWT and several issuers are asked about such tokens"),
};
const struct schema schema_token_form = {.name = "token_form",
                                         .meaning = "a form, as OAuth 2.0 has it",
                                         .content_type = "application/x-www-form-urlencoded",
                                         .flags = SCHEMA_IS_OPEN | SCHEMA_IS_READ_ELSEWHERE,
                                         .count = sizeof members_of_token_form / sizeof members_of_token_form[0],
                                         .members = members_of_token_form};

SCHEMA(token, "a token, as OCI's clients and OAuth 2.0 have it",
       HAS_TEXT("access_token", REQUIRED, FORM_FREE, 1, 0, "goes into Authorization: Bearer, or DPoP"),
       HAS_TEXT("token", REQUIRED, FORM_FREE, 1, 0, "the same"),
       HAS_TEXT("token_type", OPTIONAL, FORM_FREE, 1, 0, "Bearer, or DPoP for one that is bound to the key of a proof"),
       HAS_NUMBER("expires_in", REQUIRED, 1, 86400, "seconds that it lives"), HAS_TIME("issued_at", REQUIRED, "when it was made"),
       HAS_TEXT("issued_token_type", OPTIONAL, FORM_FREE, 1, 0, "of an exchange: that it is an access token"),
       HAS_TEXT("scope", OPTIONAL, FORM_FREE, 0, 0, "what it is for"))

/* Roles by groups that the token names anew come with the event. */
static bool has_role(const struct request *request)
{
    return request->rule->groups.grants > 0 || request->rule->groups.external_id[0] != '\0' ||
           decider_has_role(request->gateway->decider, request->principal, clock_wall_ms());
}

struct result target_token_mint(struct request *request, struct lookup *lookup, struct error *err)
{
    struct token_grant *token_grant = arena_take(request->arena, sizeof *token_grant);
    const char *grant = field_of(&request->arguments, "grant_type");
    struct error wrong = {0};

    (void)lookup;
    if (token_grant == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a token");
    request->handler_state = token_grant;
    token_grant->is_exchange = grant != NULL && strcmp(grant, GRANT_EXCHANGE) == 0;
    struct resource *resource = request_add_pair(request, ACTION_TOKEN_MINT, "");
    if (request->principal->kind == PRINCIPAL_NONE) return SUCCESS; /* gets a challenge, whatever the request */
    if (names_other_service(request, "service")) refuse_service(request, OAUTH_INVALID_REQUEST, "service");
    else if (names_other_service(request, "audience")) refuse_service(request, OAUTH_INVALID_TARGET, "audience");
    else if (!read_scopes(request, &token_grant->scope, &wrong).ok) token_refuse(request, OAUTH_INVALID_SCOPE, wrong.message);
    /* The event must show exactly the tokens for the administration that are issued, so the event's scope must not name the administration if the
     * token will not have it (docs/keys.md). */
    if (token_grant->scope.administration) token_grant->scope.administration = has_role(request);
    return describe_scope(&token_grant->scope, resource, err);
}

/* Limits the requested scope to the present rights. A name that can't be a repository's has no rights. Without any right nothing is looked up,
 * because the time of a look-up would show whether the repository exists. */
static struct result narrow(struct request *request, struct pg *pg, struct token_grant *token_grant,
                            struct principal_access *wanted, struct error *err)
{
    struct principal_access live = {.pull = false};
    struct repository_name name;
    struct resource resource;
    struct error wrong = {0};
    const uint64_t version = decider_names_version(request->gateway->decider); /* taken before the look-ups that it covers */

    if (repository_name_split(bytes_of_text(wanted->name), &name, &wrong).ok) {
        decider_live_access(request->gateway->decider, request->principal, wanted->name, clock_wall_ms(), &live);
        decider_resolve(request->gateway->decider, wanted->name, &resource);
        const bool has_right = live.pull || live.push || live.remove;
        if (has_right) TRY(registry_resolve(request->gateway->registry, lookup_of(pg), version, &resource, err));
        if (has_right && uuid_is_nil(&token_grant->organisation)) token_grant->organisation = resource.organisation;
        live.repository = resource.repository;
    }
    token_scope_narrow(wanted, &live);
    return SUCCESS;
}

/* A subject of an issuer may have roles in several organisations; the requested scope says which of them the token belongs to. */
static struct uuid organisation_of(const struct request *request, const struct token_grant *token_grant)
{
    if (request->principal->kind == PRINCIPAL_EXTERNAL && !uuid_is_nil(&token_grant->organisation))
        return token_grant->organisation;
    return decider_home(request->gateway->decider, request->principal, clock_wall_ms());
}

/* Only organisations where it has a right now count: those of others, and whether they exist, must not show. */
struct token_demand token_demanded(struct request *request)
{
    struct token_grant *token_grant = request->handler_state;
    struct decider *decider = request->gateway->decider;
    const int64_t now_ms = clock_wall_ms();
    const struct uuid home = decider_home(decider, request->principal, now_ms);
    struct token_demand demand = decider_token_demand(decider, &home, now_ms);

    for (size_t i = 0; i < token_grant->scope.count; i++) {
        struct principal_access live = {.pull = false};
        struct resource resource;
        decider_live_access(decider, request->principal, token_grant->scope.access[i].name, now_ms, &live);
        decider_resolve(decider, token_grant->scope.access[i].name, &resource);
        if (!live.pull && !live.push && !live.remove) continue;
        const struct token_demand other = decider_token_demand(decider, &resource.organisation, now_ms);
        token_demand_add(&demand, &other);
    }
    const struct token_demand everywhere = {.lifetime_max_s = decider_shortest_token(decider, now_ms)};
    if (token_grant->scope.administration) token_demand_add(&demand, &everywhere);
    token_grant->lifetime_max_s = demand.lifetime_max_s;
    return demand;
}

static unsigned lifetime_of(const struct request *request, const struct token_grant *token_grant)
{
    const unsigned usual_s = request->rule->ttl_max_s == 0 ? MINT_SECONDS_DEFAULT : request->rule->ttl_max_s;

    return token_grant->lifetime_max_s > 0 && token_grant->lifetime_max_s < usual_s ? token_grant->lifetime_max_s : usual_s;
}

static struct result mint(struct request *request, const struct token_grant *token_grant, struct buffer *answer,
                          struct error *err)
{
    const struct gateway *gateway = request->gateway;
    const struct mint_request asked = {.issuer = authenticator_issuer(gateway->authenticator),
                                       .service = authenticator_service(gateway->authenticator),
                                       .principal = request->principal,
                                       .granted = &token_grant->scope,
                                       .organisation = organisation_of(request, token_grant),
                                       .thumbprint =
                                           request->client_confirmation[0] == '\0' ? NULL : request->client_confirmation,
                                       .key = request->proof == NULL ? NULL : request->proof->key,
                                       .lifetime_s = lifetime_of(request, token_grant),
                                       .is_exchange = token_grant->is_exchange,
                                       .request = request->id,
                                       .now_ms = clock_wall_ms()};

    return mint_token(gateway->keyd, &asked, answer, err);
}

static struct result handle_token(struct request *request, struct pg *pg, struct error *err)
{
    struct token_grant *token_grant = request->handler_state;
    struct buffer OWNED_BUFFER answer = BUFFER(MINT_ANSWER_MAX);
    struct error wrong = {0};

    if (group_use_changes(&request->rule->groups))
        TRY(decider_await_newer(request->gateway->decider, permit_epoch(request->permit), err));
    for (size_t i = 0; i < token_grant->scope.count; i++)
        TRY(narrow(request, pg, token_grant, &token_grant->scope.access[i], err));
    token_scope_compact(&token_grant->scope);
    if (!mint(request, token_grant, &answer, &wrong).ok) {
        if (wrong.kind == ERROR_LIMIT) {
            response_error(request, 429, "TOOMANYREQUESTS", "Too many tokens", wrong.message);
            response_header(request, "Retry-After", "%d", 1);
            response_header(request, "RateLimit", "\"tokens\";r=0;t=1");
            return SUCCESS;
        }
        if (wrong.kind != ERROR_DENIED) return failure(err, wrong.kind, "%s", wrong.message);
        token_refuse(request, OAUTH_INVALID_GRANT, wrong.message);
        return SUCCESS;
    }
    const char *copy = arena_copy_text(request->arena, buffer_bytes(&answer));
    if (copy == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a token");
    response_bytes(request, 200, "application/json", bytes_of_text(copy));
    response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}
/* The event of a token that a trust rule makes names the rule; its transaction spends the CI system's token. That of a person whose groups have changed
 * gives and takes their roles. */
static struct change *search_rule(struct request *request)
{
    struct token_grant *token_grant = request->handler_state;

    if (group_use_changes(&request->rule->groups)) {
        group_mint_init(&token_grant->groups, &request->rule->groups, request->pairs[0].resource.detail);
        return &token_grant->groups.change;
    }
    if (request->rule->key[0] == '\0') return NULL;
    trust_mint_init(&token_grant->mint, request->rule, request->pairs[0].resource.detail);
    return &token_grant->mint.change;
}

static void answer_refused(struct request *request, const struct error *why)
{
    if (why->kind == ERROR_CONFLICT) token_refuse(request, OAUTH_INVALID_GRANT, why->message);
    else response_failure(request, why);
}

const struct handler handler_token_mint = {.handle = handle_token, .search = search_rule, .refused = answer_refused};
