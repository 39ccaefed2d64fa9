#include "client/provider/code.h"

#include <stdio.h>
#include <string.h>

#include "base/terminal_text.h"
#include "base/text.h"
#include "client/provider/callback.h"
#include "crypto/digest.h"
#include "crypto/random.h"

#define SECRET_BYTES 32 /* CALLBACK_STATE letters */

/* The secrets of one login. */
struct attempt {
    char state[CALLBACK_STATE + 1], nonce[CALLBACK_STATE + 1], verifier[CALLBACK_STATE + 1], challenge[CALLBACK_STATE + 1];
};

static struct result write_base64(struct bytes data, char out[CALLBACK_STATE + 1], struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(CALLBACK_STATE);

    TRY(text_base64(&text, BASE64_URL, data, err));
    (void)text_copy(out, CALLBACK_STATE + 1, buffer_text(&text));
    explicit_bzero(text.data, text.length);
    return SUCCESS;
}

static struct result write_secret(char out[CALLBACK_STATE + 1], struct error *err)
{
    uint8_t secret[SECRET_BYTES];

    random_bytes(secret, sizeof secret);
    const struct result written = write_base64((struct bytes){secret, sizeof secret}, out, err);
    explicit_bzero(secret, sizeof secret);
    return written;
}

/* RFC 7636 section 4.2: S256. */
static struct result begin(struct attempt *attempt, struct error *err)
{
    uint8_t hash[SHA256_SIZE];

    TRY(write_secret(attempt->state, err));
    TRY(write_secret(attempt->nonce, err));
    TRY(write_secret(attempt->verifier, err));
    sha256_of(bytes_of_text(attempt->verifier), hash);
    return write_base64((struct bytes){hash, sizeof hash}, attempt->challenge, err);
}

/* Without the person's consent an issuer ignores this scope (OpenID Connect Core 1.0 section 11). */
static bool asks_offline(const char *scope)
{
    struct bytes left = bytes_of_text(scope);

    while (left.length > 0)
        if (bytes_equal(text_cut(&left, ' '), bytes_of_text("offline_access"))) return true;
    return false;
}

/* OpenID Connect Core, 3.1.2.1, and RFC 9470, 4. */
static struct result write_prompt(const struct code_browser *browser, const char *scope, struct buffer *query, struct error *err)
{
    const char *prompt = asks_offline(scope) ? (browser->is_fresh ? "login consent" : "consent") : "login";

    if (asks_offline(scope) || browser->is_fresh) TRY(form_add(query, "prompt", prompt, err));
    if (browser->is_fresh) TRY(form_add(query, "max_age", "0", err));
    return browser->acr_values == NULL ? SUCCESS : form_add(query, "acr_values", browser->acr_values, err);
}

static struct result write_url(const struct provider *issuer, const struct code_browser *browser, const struct attempt *attempt,
                               const char *address, struct buffer *url, struct error *err)
{
    struct buffer OWNED_BUFFER query = BUFFER(CODE_URL_MAX);
    const struct provider_options *options = provider_options(issuer);
    const char *endpoint = provider_metadata(issuer)->authorization;

    TRY(form_add(&query, "response_type", "code", err));
    TRY(form_add(&query, "client_id", options->client_id, err));
    TRY(form_add(&query, "redirect_uri", address, err));
    if (options->scope[0] != '\0') TRY(form_add(&query, "scope", options->scope, err));
    TRY(write_prompt(browser, options->scope, &query, err));
    TRY(form_add(&query, "state", attempt->state, err));
    TRY(form_add(&query, "nonce", attempt->nonce, err)); /* some issuers demand one */
    TRY(form_add(&query, "code_challenge", attempt->challenge, err));
    TRY(form_add(&query, "code_challenge_method", "S256", err));
    TRY(form_add(&query, "resource", options->resource, err));
    return buffer_format(url, err, "%s%c%s", endpoint, strchr(endpoint, '?') == NULL ? '?' : '&', buffer_text(&query));
}

/* Which issuer answered: another one could have the person's code exchanged where it wants (RFC 9207 section 1). */
static struct result check(const struct provider *issuer, struct callback *callback, struct error *err)
{
    const char *url = provider_options(issuer)->url;

    if (callback->issuer[0] == '\0' ? provider_metadata(issuer)->names_itself : strcmp(callback->issuer, url) != 0)
        return failure(err, ERROR_DENIED, "the browser came back from another issuer than %.150s: nothing was kept", url);
    if (callback->error[0] == '\0') return SUCCESS;
    terminal_sanitize(callback->error);
    terminal_sanitize(callback->description);
    return failure(err, ERROR_DENIED, "the issuer refuses the login: %s%s%s%s", callback->error,
                   callback->description[0] == '\0' ? "" : ": ", callback->description, provider_advice(callback->error));
}

static struct result redeem(struct provider *issuer, const struct attempt *attempt, const char *code, const char *address,
                            struct provider_tokens *tokens_out, struct error *err)
{
    struct buffer OWNED_BUFFER form = BUFFER(PROVIDER_FORM_MAX);

    TRY(form_add(&form, "grant_type", "authorization_code", err));
    TRY(form_add(&form, "code", code, err));
    TRY(form_add(&form, "redirect_uri", address, err));
    TRY(form_add(&form, "code_verifier", attempt->verifier, err));
    const struct result granted = provider_grant(issuer, &form, "the code of the login", attempt->nonce, tokens_out, err);
    explicit_bzero(form.data, form.length);
    return granted;
}

static struct result log_in(struct provider *issuer, const struct code_browser *browser, struct attempt *attempt,
                            struct callback *callback, struct provider_tokens *tokens_out, struct error *err)
{
    OWNED(callback_listener) *listener = NULL;
    struct buffer OWNED_BUFFER url = BUFFER(CODE_URL_MAX);

    TRY(callback_listen(browser->port, &listener, err));
    TRY(begin(attempt, err));
    TRY(write_url(issuer, browser, attempt, callback_address(listener), &url, err));
    browser->show(browser->context, buffer_text(&url));
    TRY(callback_wait(listener, attempt->state, browser->longest_ms, callback, err));
    TRY(check(issuer, callback, err));
    return redeem(issuer, attempt, callback->code, callback_address(listener), tokens_out, err);
}

struct result code_log_in(struct provider *issuer, const struct code_browser *browser, struct provider_tokens *tokens_out,
                          struct error *err)
{
    struct attempt attempt = {0};
    struct callback callback = {0};

    if (provider_metadata(issuer)->authorization[0] == '\0')
        return failure(err, ERROR_INVALID, "the issuer has no page to log in: log in with --device");
    if (provider_metadata(issuer)->without_s256)
        return failure(err, ERROR_INVALID, "the issuer has no PKCE with S256, so a code could be stolen: log in with --device");
    const struct result logged_in = log_in(issuer, browser, &attempt, &callback, tokens_out, err);
    explicit_bzero(&attempt, sizeof attempt);
    explicit_bzero(&callback, sizeof callback);
    return logged_in;
}
