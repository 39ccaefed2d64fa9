#include "client/session.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "client/address.h"
#include "client/dpop_offer.h"
#include "client/hosts.h"
#include "client/local.h"
#include "client/renew.h"
#include "client/step_up.h"
#include "client/terminal.h"

#define TOKENS_MAX      8     /* scopes of one session; a push needs one, a mount two */
#define TOKEN_MARGIN_MS 15000 /* a token with less time left is not used for a new request */
#define TOKEN_SIZE      16384
#define BEARER_S        3600 /* the end of a token that was fetched before is not known here: the registry says when it is over */
#define SENTENCE_MAX    100  /* letters of a registry's message that fit into the error's message after a name */
#define WARNINGS_SIZE   4096 /* the limit of warnings that a session shows: the specification's limit for one answer */

struct token {
    char scope[800];         /* long enough for two repositories: a mount */
    char header[TOKEN_SIZE]; /* "Bearer ..." or "DPoP ..." */
    int64_t good_until_ms;
};

struct session {
    struct report *report;
    struct http *http;
    struct host_login login;
    const struct token_source *source; /* NULL: /token */
    struct token tokens[TOKENS_MAX];
    unsigned next_token;
    bool told_of_proxy;
    bool has_stepped_up; /* the person has logged in again for it, or was asked to */
    bool has_asked;      /* whether the registry takes proofs of a key */
    struct ecdsa_key
        *key; /* of this session's tokens; NULL: they are bound to none, or to the key of the session that it was cloned from */
    struct buffer warned;   /* the warnings that were shown, one a line, so that each is shown once */
    pthread_mutex_t mutex;  /* of `warned` */
    struct session *parent; /* the session whose `warned` counts: itself, or the one that it was cloned from */
    const atomic_bool *gives_up;
};

static struct result open_with(struct report *report, const struct host_login *login, const struct http_options *options,
                               struct session **session_out, struct error *err)
{
    OWNED(session) *session = memory_zeroed(1, sizeof *session);
    if (session == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a session");

    session->report = report;
    session->login = *login;
    session->warned = BUFFER(WARNINGS_SIZE);
    session->parent = session;
    (void)pthread_mutex_init(&session->mutex, NULL);
    TRY(http_new(options, &session->http, err));
    *session_out = GIVE(session);
    return SUCCESS;
}

struct result session_open(struct report *report, const char *host, const struct host_login *login, struct session **session_out,
                           struct error *err)
{
    const struct http_options options = {
        .host = host, .ca_file = login->ca_file, .proxy = login->proxy, .verbose = report->verbose, .act_key = report->act_key};

    return open_with(report, login, &options, session_out, err);
}

struct result session_open_from(struct report *report, const struct http_options *options, const struct token_source *source,
                                struct session **session_out, struct error *err)
{
    struct host_login login = {.username = ""};

    (void)snprintf(login.username, sizeof login.username, "%s", source->name);
    TRY(open_with(report, &login, options, session_out, err));
    (*session_out)->source = source;
    return SUCCESS;
}

struct result session_clone(struct session *session, struct report *report, struct session **clone_out, struct error *err)
{
    OWNED(session) *clone = NULL;

    assert(session->source == NULL);
    TRY(session_open(report, http_host(session->http), &session->login, &clone, err));
    clone->parent = session->parent;
    clone->has_asked = session->has_asked;
    http_share_key(clone->http, session->http);
    *clone_out = GIVE(clone);
    return SUCCESS;
}

void session_give_up_when(struct session *session, const atomic_bool *gives_up)
{
    session->gives_up = gives_up;
    http_give_up_when(session->http, gives_up);
}

bool session_gives_up(const struct session *session)
{
    return session->gives_up != NULL && atomic_load(session->gives_up);
}

void session_pause(const struct session *session, unsigned seconds, const struct error *why)
{
    const struct timespec tenth = {.tv_nsec = 100000000};
    struct error shown = *why; /* often text of the registry */

    address_hide(shown.message);
    terminal_sanitize(shown.message);
    if (session->report->wait != NULL && !session_gives_up(session)) session->report->wait(shown.message, seconds);

    for (unsigned passed = 0; passed < 10 * seconds && !session_gives_up(session); passed++) (void)nanosleep(&tenth, NULL);
}

struct report *session_report(const struct session *session)
{
    return session->report;
}

static void explain_members(struct report *report, const json_t *detail)
{
    static const char *const members[] = {"asked", "rule", "policy", "missing", "failed", "decision", "reason", "digest"};

    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        report_explain(report, members[i], json_text_of(detail, members[i]));
}

/* Explains the detail and the denials in it, no deeper, because the registry chooses the depth of an answer. */
static void explain_detail(struct report *report, const json_t *detail)
{
    if (json_is_string(detail)) report_explain(report, "detail", json_string_value(detail));
    if (json_is_array(detail)) detail = json_array_get(detail, 0);
    explain_members(report, detail);
    const json_t *denials = json_object_get(detail, "denials"); /* the first one is explained above */
    for (size_t i = 1; i < json_array_size(denials); i++) explain_members(report, json_array_get(denials, i));
}

static enum error_kind kind_of(const struct report *report, long status)
{
    if (status == 401 || status == 403) return ERROR_DENIED;
    if (status == 404) return ERROR_NOT_FOUND;
    if (status == 409 || status == 416) return ERROR_CONFLICT; /* 416: the upload has more bytes than expected */
    if (status == 413 || status == 414) return ERROR_LIMIT;
    if (status == 507 && !report->waits_for_room) return ERROR_FULL;
    if (status == 429 || status >= 500) return ERROR_UNAVAILABLE;
    return ERROR_INVALID;
}

struct result refusal(struct report *report, const struct http_response *response, struct error *err)
{
    OWNED_JSON answer = NULL;
    struct error ignored = {0};
    const char *what = NULL, *code = NULL;

    report->explanation[0] = '\0';
    if (response->body.length > 0 && !json_read(buffer_bytes(&response->body), HTTP_ANSWER_MAX, &answer, &ignored).ok)
        report_explain(report, "answer", "not JSON; is this a Sijil registry?");
    const json_t *first = json_array_get(json_object_get(answer, "errors"), 0);
    if (first != NULL) { /* OCI */
        code = json_text_of(first, "code");
        what = json_text_of(first, "message");
        explain_detail(report, json_object_get(first, "detail"));
    } else if (json_text_of(answer, "title") != NULL) { /* RFC 9457 */
        code = json_text_of(answer, "title");
        what = json_text_of(answer, "detail");
        explain_detail(report, answer);
    } else { /* RFC 6749 */
        code = json_text_of(answer, "error");
        what = json_text_of(answer, "error_description");
    }
    const bool is_long =
        what != NULL && strlen(what) > SENTENCE_MAX; /* shown once and whole, because a solution may be at its end */
    if (is_long) report_explain(report, "message", what);
    report_explain(report, "audit", response->audit);
    report_explain(report, "request", response->request_id);
    return failure(err, kind_of(report, response->status), "%ld %.60s%s%s", response->status,
                   code == NULL ? "from the registry" : code, what == NULL || is_long ? "" : ": ",
                   what == NULL || is_long ? "" : what);
}

static struct result basic_header(const struct host_login *login, struct buffer *header, struct error *err)
{
    struct buffer OWNED_BUFFER pair = BUFFER(TOKEN_SIZE);

    TRY(buffer_format(&pair, err, "%s:%s", login->username, login->password));
    struct result result = buffer_add_text(header, "Basic ", err);
    if (result.ok) result = text_base64(header, BASE64_STANDARD, buffer_bytes(&pair), err);
    explicit_bzero(pair.data, pair.length);
    return result;
}

struct given_token {
    const char *type; /* RFC 6749, 7.1; NULL: Bearer */
    const char *text;
    int64_t lifetime_s;
};

static struct result keep_token(struct session *session, const char *scope, const struct given_token *given,
                                struct token **token_out, struct error *err)
{
    const char *scheme = given->type != NULL && strcasecmp(given->type, "DPoP") == 0 ? "DPoP" : "Bearer";
    struct token *token = &session->tokens[session->next_token++ % TOKENS_MAX];
    const int scope_length = snprintf(token->scope, sizeof token->scope, "%s", scope);
    const int length = snprintf(token->header, sizeof token->header, "%s %s", scheme, given->text);
    if (length < 0 || (size_t)length >= sizeof token->header || (size_t)scope_length >= sizeof token->scope)
        return failure(err, ERROR_LIMIT, "the registry's token or the scope is too long");
    token->good_until_ms = clock_monotonic_ms() + given->lifetime_s * 1000 - TOKEN_MARGIN_MS;
    *token_out = token;
    return SUCCESS;
}

static struct result take_token(struct session *session, const char *scope, const struct http_response *response,
                                struct token **token_out, struct error *err)
{
    OWNED_JSON answer = NULL;
    int64_t lifetime_s = 60; /* what RFC 6749 clients assume when expires_in is missing */

    TRY(json_read(buffer_bytes(&response->body), HTTP_ANSWER_MAX, &answer, err));
    const char *text = json_text_of(answer, "access_token");
    if (text == NULL) text = json_text_of(answer, "token");
    if (text == NULL) return failure(err, ERROR_INVALID, "the registry's /token answered without a token");
    (void)json_integer_of(answer, "expires_in", &lifetime_s);
    const struct given_token given = {json_text_of(answer, "token_type"), text, lifetime_s};
    return keep_token(session, scope, &given, token_out, err);
}

static struct result ask_source(struct session *session, const char *scope, struct token **token_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(TOKEN_SIZE);
    int64_t lifetime_s = 0;

    TRY(session->source->ask(session->source->context, scope, &text, &lifetime_s, err));
    const struct given_token given = {NULL, buffer_text(&text), lifetime_s};
    const struct result kept = keep_token(session, scope, &given, token_out, err);
    explicit_bzero(text.data, text.length);
    return kept;
}

/* The names with which the password is a token of an issuer (docs/identity.md). */
static bool token_is_login(const struct host_login *login)
{
    return strcmp(login->username, "oidc") == 0 || strcmp(login->username, "oauth2accesstoken") == 0 ||
           strcmp(login->username, "<token>") == 0;
}

/* Names the registry and the login, and says what helps. */
static struct result login_refused(struct session *session, const struct http_response *response, struct error *err)
{
    const struct result refused = refusal(session->report, response, err);
    char text[600];

    failure_name(http_host(session->http), err);
    /* a person whom a directory (SCIM) has deactivated gets nothing by another login */
    if (response->status != 401 || strstr(buffer_text(&response->body), "ask who keeps the directory") != NULL) return refused;
    report_explain(session->report, "name", session->login.username);
    (void)snprintf(text, sizeof text, "sijil login %s, with %s", http_host(session->http),
                   !token_is_login(&session->login)
                       ? "a valid secret"
                       : "a new token of your issuer: the stored one may have expired, or is for another audience (--resource)");
    report_explain(session->report, "try", text);
    return refused;
}

/* If the registry can't be reached and HTTPS_PROXY is set, explains once that only SIJIL_PROXY is used. */
static struct result explain_call(struct session *session, struct result called, const struct error *err)
{
    if (called.ok || err->kind != ERROR_UNAVAILABLE || session->login.proxy[0] != '\0' || session->told_of_proxy) return called;
    session->told_of_proxy = host_proxy_is_expected();
    if (session->told_of_proxy) report_explain(session->report, "try", "SIJIL_PROXY=http://HOST:PORT; HTTPS_PROXY is not used");
    return called;
}

static struct result call(struct session *session, const struct http_request *request, struct http_response *response,
                          struct error *err)
{
    return explain_call(session, http_call(session->http, request, response, err), err);
}

static struct result ask_for_token(struct session *session, const char *path, struct http_response *response, struct error *err)
{
    struct buffer OWNED_BUFFER basic = BUFFER(TOKEN_SIZE);

    buffer_clear(&response->body);
    TRY(basic_header(&session->login, &basic, err));
    const struct http_request request = {.method = "GET", .path = path, .authorization = buffer_text(&basic)};
    const struct result called = call(session, &request, response, err);
    explicit_bzero(basic.data, basic.length);
    return called;
}

/* The login of a person is renewed before it ends, and once more if the registry refuses it. */
static struct result fetch_token(struct session *session, const char *scope, struct token **token_out, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(2048);
    OWNED_RESPONSE response = RESPONSE;

    TRY(buffer_add_text(&path, "/token?scope=", err));
    TRY(http_escape(&path, scope, err));
    for (int attempt = 0; attempt == 0 || (attempt == 1 && response.status == 401 && session->login.issuer.url[0] != '\0');
         attempt++) {
        TRY(host_login_renew(http_host(session->http), &session->login, attempt == 1, session->report->verbose, err));
        TRY(ask_for_token(session, buffer_text(&path), &response, err));
    }
    if (response.status != 200) return login_refused(session, &response, err);
    const struct result taken = take_token(session, scope, &response, token_out, err);
    explicit_bzero(response.body.data, response.body.length);
    return taken;
}

bool session_has_token(const struct host_login *login)
{
    return strcmp(login->username, SESSION_BEARER) == 0 || strcmp(login->username, SESSION_DPOP) == 0;
}

/* Tokens of this session are bound to a key of its own, if the registry takes proofs. A token that is kept has its key kept. */
static struct result prepare_key(struct session *session, struct error *err)
{
    const bool is_kept = strcmp(session->login.username, SESSION_DPOP) == 0;

    if (session->key == NULL && is_kept) TRY(dpop_key_load(false, &session->key, err));
    if (session->key == NULL && !session_has_token(&session->login)) TRY(ecdsa_key_new(&session->key, err));
    if (session->key != NULL) TRY(explain_call(session, dpop_offer(session->http, session->key, err), err));
    session->has_asked = true;
    return SUCCESS;
}

static struct result token_for(struct session *session, const char *scope, struct token **token_out, struct error *err)
{
    for (unsigned i = 0; i < TOKENS_MAX; i++) {
        struct token *token = &session->tokens[i];
        if (strcmp(token->scope, scope) != 0 || token->good_until_ms < clock_monotonic_ms()) continue;
        *token_out = token;
        return SUCCESS;
    }
    if (session->source == NULL && !session->has_asked) TRY(prepare_key(session, err));
    const struct given_token kept = {session->login.username, session->login.password, BEARER_S};
    if (session->source == NULL && session_has_token(&session->login)) return keep_token(session, scope, &kept, token_out, err);
    return (session->source == NULL ? fetch_token : ask_source)(session, scope, token_out, err);
}

/* False: it was shown before, or there is no room to note it; then it is not shown. */
static bool is_new_warning(struct session *parent, const char *warning)
{
    struct buffer OWNED_BUFFER line = BUFFER(WARNINGS_SIZE);
    struct error ignored = {0};

    return buffer_format(&line, &ignored, "\n%s\n", warning).ok &&
           strstr(buffer_text(&parent->warned), buffer_text(&line)) == NULL &&
           buffer_add_text(&parent->warned, buffer_text(&line), &ignored).ok;
}

static void show_warnings(struct session *session, char *warnings)
{
    (void)pthread_mutex_lock(&session->parent->mutex);
    for (char *line = warnings, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        terminal_sanitize(line);
        if (session->report->warn != NULL && is_new_warning(session->parent, line)) session->report->warn(line);
    }
    (void)pthread_mutex_unlock(&session->parent->mutex);
    warnings[0] = '\0';
}

/* The login is valid, because it got a token; the token does not cover the request, because no role does. */
static struct result nothing_granted(struct session *session, const char *scope, const struct http_response *response,
                                     struct error *err)
{
    const struct result refused = refusal(session->report, response, err);

    if (strstr(response->challenge, "error=\"request_signature_required\"") != NULL) return refused; /* it says what to do */
    if (step_up_is_wanted(response)) return step_up_refused(session->report, http_host(session->http), response, err);
    report_explain(session->report, "scope", scope);
    if (session_has_token(&session->login))
        return failure(err, ERROR_DENIED, "401: the token of `sijil ci login` has ended, or does not cover this: log in again");
    return failure(err, ERROR_DENIED, "401: no role that %.100s has covers this, or there is no such thing: ask for one",
                   token_is_login(&session->login) ? "this login" : session->login.username);
}

/* An answer to HEAD has no body, so GET asks for the reason. If GET succeeds, only one byte is sent. */
static void ask_why(struct session *session, const struct http_request *request, struct http_response *response)
{
    const long status = response->status;
    struct http_request again = *request;
    struct error ignored = {0}; /* the status says that it is refused; the reason is optional */

    if (status != 403 || strcmp(request->method, "HEAD") != 0) return;
    again.method = "GET";
    again.range = "bytes=0-0";
    buffer_clear(&response->body);
    const struct result asked = http_call(session->http, &again, response, &ignored);
    if (!asked.ok || response->status != status) buffer_clear(&response->body); /* the body is not about the refusal */
    response->status = status;
}

/* Once for each session, and not in a clone, which sends pieces of a large thing: nobody is asked by several threads. */
static struct result log_in_again(struct session *session, const struct http_response *response, bool *is_done_out,
                                  struct error *err)
{
    *is_done_out = false;
    if (session->parent != session || session->has_stepped_up) return SUCCESS;
    session->has_stepped_up = true;
    TRY(step_up_log_in(session->report, http_host(session->http), response, &session->login, is_done_out, err));
    for (unsigned i = 0; *is_done_out && i < TOKENS_MAX; i++) session->tokens[i].good_until_ms = 0;
    return SUCCESS;
}

struct result session_call(struct session *session, const char *scope, const struct http_request *request,
                           struct http_response *response, struct error *err)
{
    for (int attempt = 0;; attempt++) {
        struct token *token = NULL;
        TRY(token_for(session, scope, &token, err));
        struct http_request with_token = *request;
        with_token.authorization = token->header;
        buffer_clear(&response->body);
        TRY(call(session, &with_token, response, err));
        show_warnings(session, response->warnings);
        if (response->status == request->wanted || (request->also != 0 && response->status == request->also)) return SUCCESS;
        if (request->comes_later && response->status == 202) return SUCCESS;
        ask_why(session, &with_token, response);
        bool is_again = false;
        if (step_up_is_wanted(response)) TRY(log_in_again(session, response, &is_again, err));
        if (is_again) continue;
        if (response->status != 401 || attempt > 0) break;
        token->good_until_ms = 0; /* revoked, or the registry has new keys: retry once with a new token */
    }
    if (response->status == 401) return nothing_granted(session, scope, response, err);
    return refusal(session->report, response, err);
}

void session_free(struct session *session)
{
    if (session == NULL) return;
    http_free(session->http);
    ecdsa_key_free(session->key);
    buffer_done(&session->warned);
    (void)pthread_mutex_destroy(&session->mutex);
    explicit_bzero(session, sizeof *session);
    free(session);
}
