#include "client/renew.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"

#define MARGIN_MS 30000 /* a token with less time left is renewed: it must be valid when the registry has it, and clocks differ */

struct provider_options host_issuer_options(const struct host_login *login, bool verbose)
{
    const struct host_issuer *issuer = &login->issuer;

    return (struct provider_options){.url = issuer->url,
                                     .client_id = issuer->client_id,
                                     .scope = issuer->scope,
                                     .resource = issuer->resource,
                                     .ca_file = issuer->ca_file,
                                     .proxy = login->proxy,
                                     .verbose = verbose};
}

static bool is_fresh(const struct host_login *login)
{
    return login->issuer.expires_ms - MARGIN_MS > clock_wall_ms();
}

static struct result ended(const char *host, const struct host_login *login, struct error *err)
{
    return failure(err, ERROR_DENIED, "the login at %.100s has ended: run `sijil login %.80s`", login->issuer.url, host);
}

static struct result ask(const char *host, struct host_login *login, bool verbose, struct error *err)
{
    const struct provider_options options = host_issuer_options(login, verbose);
    OWNED(provider) *issuer = NULL;
    OWNED_TOKENS tokens = {0};

    if (login->issuer.refresh[0] == '\0') return ended(host, login, err);
    TRY(provider_open(&options, &issuer, err));
    const struct result renewed = provider_renew(issuer, login->issuer.refresh, &tokens, err);
    if (!renewed.ok && err->kind == ERROR_DENIED) return ended(host, login, err);
    TRY(renewed);
    (void)text_copy(login->password, sizeof login->password, tokens.access);
    (void)text_copy(login->issuer.refresh, sizeof login->issuer.refresh, tokens.refresh);
    login->issuer.expires_ms = tokens.expires_ms;
    return host_login_save(host, login, err);
}

struct result host_login_renew(const char *host, struct host_login *login, bool is_refused, bool verbose, struct error *err)
{
    struct host_login stored = {0};
    OWNED_FD lock = -1;

    if (login->issuer.url[0] == '\0' || (!is_refused && is_fresh(login))) return SUCCESS;
    TRY(host_lock_renewal(&lock, err));
    TRY(host_login_stored(host, &stored, err)); /* another program may have renewed it while this one waited, or logged out */
    const bool is_other = strcmp(stored.password, login->password) != 0;
    struct result result = SUCCESS;
    if (stored.issuer.url[0] == '\0') result = ended(host, login, err);
    else if (!is_fresh(&stored) || (is_refused && !is_other)) result = ask(host, &stored, verbose, err);
    if (result.ok) *login = stored;
    explicit_bzero(&stored, sizeof stored);
    return result;
}
