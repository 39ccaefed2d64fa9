#include "client/provider/provider.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "outgoing/call.h"

#define CONNECT_SECONDS 10
#define WHOLE_SECONDS   30
#define LIFETIME_S      300 /* of an access token whose answer does not say it: shorter than usual, so it is renewed early */
#define LIFETIME_MOST_S (366LL * 24 * 3600)
#define BEARER_SIZE     (PROVIDER_ACCESS_SIZE + 8)
#define TOKEN_LETTERS   "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=" /* RFC 6750 section 2.1 */

struct provider {
    const struct provider_options *options;
    struct outgoing *outgoing;
    struct provider_metadata metadata;
};

void provider_tokens_wipe(struct provider_tokens *tokens)
{
    explicit_bzero(tokens, sizeof *tokens);
}

void provider_answer_done(struct provider_answer *answer)
{
    json_decref(answer->object);
    answer->object = NULL;
}

const struct provider_options *provider_options(const struct provider *issuer)
{
    return issuer->options;
}

const struct provider_metadata *provider_metadata(const struct provider *issuer)
{
    return &issuer->metadata;
}

static bool is_unreserved(char letter)
{
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
           letter == '-' || letter == '.' || letter == '_' || letter == '~';
}

struct result form_add(struct buffer *form, const char *name, const char *value, struct error *err)
{
    TRY(buffer_format(form, err, "%s%s=", form->length == 0 ? "" : "&", name));
    for (; *value != '\0'; value++) {
        if (is_unreserved(*value)) TRY(buffer_add(form, value, 1, err));
        else TRY(buffer_format(form, err, "%%%02X", (unsigned)(unsigned char)*value));
    }
    return SUCCESS;
}

/* ---- Calls ---- */

static struct result take_body(void *context, long status, struct bytes piece, struct error *err)
{
    (void)status;
    return buffer_add(context, piece.data, piece.length, err);
}

static struct result no_answer(const char *url, const struct outgoing_outcome *outcome, struct error *err)
{
    const bool untrusted = outcome->end == OUTGOING_UNTRUSTED;
    char shown[sizeof outcome->reason];

    (void)snprintf(shown, sizeof shown, "%s", outcome->reason);
    terminal_sanitize(shown);
    return failure(err, untrusted ? ERROR_DENIED : ERROR_UNAVAILABLE, "the issuer at %.90s %s: %.100s%s", url,
                   untrusted ? "has a certificate that can't be trusted" : "does not answer", shown,
                   untrusted ? " (--issuer-ca-file)" : "");
}

/* What is sent. */
struct sent {
    const char *url;
    const struct buffer *form; /* NULL: GET */
    const char *authorization; /* NULL: none */
};

static struct result call(const struct provider *issuer, const struct sent *sent, long *status_out, struct buffer *body,
                          struct error *err)
{
    const struct outgoing_header headers[] = {{"Accept", "application/json"},
                                              {"Content-Type", "application/x-www-form-urlencoded"},
                                              {"Authorization", sent->authorization}};
    const size_t count = sent->form == NULL ? 1 : sent->authorization == NULL ? 2 : 3;
    const struct outgoing_request request = {.method = sent->form == NULL ? "GET" : "POST",
                                             .url = sent->url,
                                             .headers = headers,
                                             .header_count = count,
                                             .with_body = sent->form != NULL,
                                             .body = sent->form == NULL ? (struct bytes){0} : buffer_bytes(sent->form),
                                             .is_repeatable = sent->form == NULL,
                                             .limits = {.connect_s = CONNECT_SECONDS,
                                                        .silence_s = WHOLE_SECONDS,
                                                        .slowest_rate = 1,
                                                        .whole_s = WHOLE_SECONDS,
                                                        .answer_bytes = PROVIDER_ANSWER_MAX},
                                             .take = take_body,
                                             .context = body};
    struct outgoing_outcome outcome = {.end = OUTGOING_BROKEN};

    TRY(outgoing_call(issuer->outgoing, &request, &outcome, err));
    if (issuer->options->verbose) (void)fprintf(stderr, "> %s %s\n< %ld\n", request.method, sent->url, outcome.status);
    if (outcome.end != OUTGOING_ANSWERED) return no_answer(sent->url, &outcome, err);
    *status_out = outcome.status;
    return SUCCESS;
}

struct result provider_post(struct provider *issuer, const char *endpoint, const struct buffer *form, const char *bearer,
                            struct provider_answer *answer_out, struct error *err)
{
    struct buffer OWNED_BUFFER body = BUFFER(PROVIDER_ANSWER_MAX), header = BUFFER(BEARER_SIZE);
    struct provider_answer answer = {0};
    struct error ignored = {0};

    if (bearer != NULL) TRY(buffer_format(&header, err, "Bearer %s", bearer));
    const struct sent sent = {endpoint, form, bearer == NULL ? NULL : buffer_text(&header)};
    const struct result called = call(issuer, &sent, &answer.status, &body, err);
    if (header.data != NULL) explicit_bzero(header.data, header.length);
    TRY(called);
    if (!json_read_any_number(buffer_bytes(&body), PROVIDER_ANSWER_MAX, &answer.object, &ignored).ok) answer.object = NULL;
    if (body.data != NULL) explicit_bzero(body.data, body.length);
    const char *error = json_text_of(answer.object, "error");
    if (error != NULL) (void)snprintf(answer.error, sizeof answer.error, "%s", error);
    terminal_sanitize(answer.error);
    *answer_out = answer;
    return SUCCESS;
}

const char *provider_advice(const char *error)
{
    if (strcmp(error, "invalid_target") != 0) return "";
    return " (--resource must be known to the issuer, and be the AUDIENCE of \"admin issuer list\")";
}

struct result provider_refused(const struct provider_answer *answer, const char *what, struct error *err)
{
    const char *description = json_text_of(answer->object, "error_description");
    char shown[120] = "";

    if (description != NULL) (void)snprintf(shown, sizeof shown, ": %s", description);
    terminal_sanitize(shown);
    return failure(err, answer->status == 429 || answer->status >= 500 ? ERROR_UNAVAILABLE : ERROR_DENIED,
                   "the issuer refuses %s: %ld %s%s%s", what, answer->status, answer->error, shown,
                   provider_advice(answer->error));
}

/* ---- Discovery ---- */

/* RFC 8414 section 3.1 puts its name between host and path; OpenID Connect puts its own behind the path. */
static struct result write_place(const char *url, bool is_openid, struct buffer *place, struct error *err)
{
    const size_t whole = strlen(url) - (url[strlen(url) - 1] == '/' ? 1 : 0),
                 host = strlen("https://") + strcspn(url + strlen("https://"), "/");

    if (is_openid) return buffer_format(place, err, "%.*s/.well-known/openid-configuration", (int)whole, url);
    return buffer_format(place, err, "%.*s/.well-known/oauth-authorization-server%.*s", (int)host, url,
                         (int)(whole < host ? 0 : whole - host), url + host);
}

static struct result discover(struct provider *issuer, struct error *err)
{
    struct buffer OWNED_BUFFER body = BUFFER(PROVIDER_ANSWER_MAX);
    const char *url = issuer->options->url;
    long status = 0;

    for (int attempt = 0; attempt < 2 && status != 200; attempt++) {
        struct buffer OWNED_BUFFER place = BUFFER(PROVIDER_ENDPOINT_SIZE);
        TRY(write_place(url, attempt == 0, &place, err));
        buffer_clear(&body);
        const struct sent sent = {.url = buffer_text(&place)};
        TRY(call(issuer, &sent, &status, &body, err));
        if (status == 429 || status >= 500)
            return failure(err, ERROR_UNAVAILABLE, "the issuer %.150s answers %ld: try again later", url, status);
    }
    if (status != 200) return failure(err, ERROR_NOT_FOUND, "%.150s is no issuer: it has no metadata (%ld)", url, status);
    return metadata_parse(buffer_bytes(&body), url, &issuer->metadata, err);
}

struct result provider_open(const struct provider_options *options, struct provider **issuer_out, struct error *err)
{
    const struct outgoing_options rules = {
        .reach = OUTGOING_ANY, .ca_file = options->ca_file, .proxy = options->proxy, .takes_tls12 = true};
    OWNED(provider) *issuer = memory_zeroed(1, sizeof *issuer);

    if (issuer == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an issuer");
    if (!provider_url_is_good(options->url) || strchr(options->url, '?') != NULL || strlen(options->url) >= PROVIDER_URL_SIZE)
        return failure(err, ERROR_INVALID, "the issuer's URL begins with https:// and has no query, fragment or user");
    issuer->options = options;
    TRY(outgoing_new(&rules, &issuer->outgoing, err));
    TRY(discover(issuer, err));
    *issuer_out = GIVE(issuer);
    return SUCCESS;
}

void provider_free(struct provider *issuer)
{
    if (issuer == NULL) return;
    outgoing_free(issuer->outgoing);
    free(issuer);
}

/* ---- Tokens ---- */

static bool is_token(const char *text, size_t room)
{
    return text != NULL && text[0] != '\0' && strlen(text) < room && text_consists_of(bytes_of_text(text), TOKEN_LETTERS);
}

/* A refresh token may have any visible letter (RFC 6749 appendix A.17). */
static bool is_refresh_token(const char *text)
{
    if (strlen(text) >= PROVIDER_REFRESH_SIZE) return false;
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~') return false;
    return true;
}

struct result provider_tokens_take(const json_t *answer, int64_t now_ms, struct provider_tokens *tokens_out, struct error *err)
{
    const char *access = json_text_of(answer, "access_token"), *refresh = json_text_of(answer, "refresh_token"),
               *type = json_text_of(answer, "token_type");
    int64_t lifetime_s = LIFETIME_S;

    if (!is_token(access, PROVIDER_ACCESS_SIZE))
        return failure(err, ERROR_INVALID, "the issuer answers without an access token of at most 12 KiB");
    if (type == NULL || strcasecmp(type, "Bearer") != 0)
        return failure(err, ERROR_INVALID, "the issuer's token is no bearer token");
    if (refresh != NULL && !is_refresh_token(refresh))
        return failure(err, ERROR_INVALID, "the issuer's refresh token has more than 4 KiB, or odd letters");
    (void)json_integer_of(answer, "expires_in", &lifetime_s);
    if (lifetime_s < 0 || lifetime_s > LIFETIME_MOST_S) lifetime_s = LIFETIME_S;
    (void)text_copy(tokens_out->access, sizeof tokens_out->access, access);
    (void)text_copy(tokens_out->refresh, sizeof tokens_out->refresh, refresh == NULL ? "" : refresh);
    tokens_out->expires_ms = now_ms + lifetime_s * 1000;
    return SUCCESS;
}

static struct result finish_form(const struct provider *issuer, struct buffer *form, struct error *err)
{
    TRY(form_add(form, "client_id", issuer->options->client_id, err));
    return form_add(form, "resource", issuer->options->resource, err);
}

bool provider_id_token_is_of(const json_t *id_token, const char *nonce)
{
    const char *text = json_string_value(id_token);
    struct buffer OWNED_BUFFER payload = BUFFER(PROVIDER_ANSWER_MAX);
    OWNED_JSON said = NULL;
    struct error ignored = {0};

    if (text == NULL) return false;
    struct bytes left = bytes_of_text(text);
    (void)text_cut(&left, '.');
    if (!text_from_base64(&payload, BASE64_URL, text_cut(&left, '.'), &ignored).ok) return false;
    if (!json_read_any_number(buffer_bytes(&payload), PROVIDER_ANSWER_MAX, &said, &ignored).ok) return false;
    const char *found = json_text_of(said, "nonce");
    return found != NULL && strcmp(found, nonce) == 0;
}

struct result provider_grant(struct provider *issuer, struct buffer *form, const char *what, const char *nonce,
                             struct provider_tokens *tokens_out, struct error *err)
{
    OWNED_ANSWER answer = {0};

    TRY(finish_form(issuer, form, err));
    const int64_t now_ms = clock_wall_ms(); /* before the call, so that the token ends rather too early here */
    TRY(provider_post(issuer, issuer->metadata.token, form, NULL, &answer, err));
    if (answer.status != 200) return provider_refused(&answer, what, err);
    const json_t *id_token = json_object_get(answer.object, "id_token");
    if (nonce != NULL && id_token != NULL && !provider_id_token_is_of(id_token, nonce))
        return failure(err, ERROR_DENIED, "the issuer's answer is about another login: nothing was kept");
    return provider_tokens_take(answer.object, now_ms, tokens_out, err);
}

struct result provider_renew(struct provider *issuer, const char *refresh, struct provider_tokens *tokens_out, struct error *err)
{
    struct buffer OWNED_BUFFER form = BUFFER(PROVIDER_FORM_MAX);

    TRY(form_add(&form, "grant_type", "refresh_token", err));
    TRY(form_add(&form, "refresh_token", refresh, err));
    const struct result granted = provider_grant(issuer, &form, "to renew the login", NULL, tokens_out, err);
    explicit_bzero(form.data, form.length);
    TRY(granted);
    if (tokens_out->refresh[0] == '\0') (void)text_copy(tokens_out->refresh, sizeof tokens_out->refresh, refresh);
    return SUCCESS;
}

struct result provider_revoke(struct provider *issuer, const struct provider_tokens *tokens, struct error *err)
{
    struct buffer OWNED_BUFFER form = BUFFER(PROVIDER_FORM_MAX);
    OWNED_ANSWER answer = {0};
    const bool has_refresh = tokens->refresh[0] != '\0';

    if (issuer->metadata.revocation[0] == '\0')
        return failure(err, ERROR_INVALID, "the issuer revokes no tokens: end the session at %.150s", issuer->options->url);
    TRY(form_add(&form, "token", has_refresh ? tokens->refresh : tokens->access, err));
    TRY(form_add(&form, "token_type_hint", has_refresh ? "refresh_token" : "access_token", err));
    TRY(form_add(&form, "client_id", issuer->options->client_id, err));
    const struct result posted = provider_post(issuer, issuer->metadata.revocation, &form,
                                               issuer->metadata.revokes_for_bearer ? tokens->access : NULL, &answer, err);
    explicit_bzero(form.data, form.length);
    TRY(posted);
    return answer.status == 200 ? SUCCESS : provider_refused(&answer, "to revoke the login", err);
}
