/* What others need to know about our tokens: metadata of the authorization server (RFC 8414), and the keys (RFC 7517). */
#include "authz/authenticate.h"
#include "gateway/pipeline/document.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/handler.h"

#define GRANT_EXCHANGE "urn:ietf:params:oauth:grant-type:token-exchange"
#define KEYS_PATH      "/.well-known/jwks.json"
#define CACHE_SECONDS  "3600" /* a key is published for a month before it signs */

PART_WITH(SCHEMA_IS_OPEN, published_key, "a public key (RFC 7517)",
          HAS_TEXT("kid", REQUIRED, FORM_FREE, 1, 128, "its name in tokens"),
          HAS_TEXT("kty", REQUIRED, FORM_FREE, 1, 8, "its kind"), HAS_TEXT("alg", REQUIRED, FORM_FREE, 1, 8, "its algorithm"))
SCHEMA(published_keys, "a key set (RFC 7517)", HAS_LIST("keys", REQUIRED, 3, schema_published_key, "the first one signs now"))

SCHEMA_WITH(SCHEMA_IS_OPEN, server_metadata, "metadata of an authorization server (RFC 8414)",
            HAS_TEXT("issuer", REQUIRED, FORM_URL, 1, 255, "`iss` of the registry's tokens"),
            HAS_TEXT("token_endpoint", REQUIRED, FORM_URL, 1, 300, "where tokens are made"),
            HAS_TEXT("jwks_uri", REQUIRED, FORM_URL, 1, 300, "the keys that verify them"))

static struct result add_url(json_t *value, const char *member, const struct request *request, const char *path,
                             struct error *err)
{
    struct buffer OWNED_BUFFER url = BUFFER(512);

    TRY(buffer_format(&url, err, "%s%s", authenticator_issuer(request->gateway->authenticator), path));
    if (json_object_set_new(value, member, json_string(buffer_text(&url))) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for metadata");
}

/* There is no authorization endpoint: people come with tokens of their issuer. So no response type is offered. */
static struct result metadata(struct request *request, struct pg *pg, struct error *err)
{
    const struct settings *settings = request->gateway->settings;
    const bool has_authorities = settings->tls_client_ca[0] != '\0',
               has_certificates = has_authorities || settings->tls_client_any;
    OWNED_JSON value = json_pack(
        "{s:s, s:[], s:[s,s,s], s:[s,s,s*,s*], s:[s,s], s:b, s:[s,s]}", "issuer",
        authenticator_issuer(request->gateway->authenticator), "response_types_supported", "grant_types_supported",
        "client_credentials", "password", GRANT_EXCHANGE, "token_endpoint_auth_methods_supported", "client_secret_basic",
        "client_secret_post", has_certificates ? "self_signed_tls_client_auth" : NULL, has_authorities ? "tls_client_auth" : NULL,
        "scopes_supported", "registry:catalog:*", "registry:admin:*", "tls_client_certificate_bound_access_tokens",
        has_certificates, "dpop_signing_alg_values_supported", "ES256", "EdDSA");

    (void)pg;
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for metadata");
    TRY(add_url(value, "token_endpoint", request, "/token", err));
    TRY(add_url(value, "jwks_uri", request, KEYS_PATH, err));
    response_json(request, 200, value);
    const bool has_nonce = request_header(request, "DPoP") != NULL; /* the answer to a proof has one: RFC 9449, 8.2 */
    response_header(request, "Cache-Control", "%s", has_nonce ? "no-store" : "max-age=" CACHE_SECONDS);
    return SUCCESS;
}

static struct result keys(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER jwks = BUFFER(AUTHENTICATOR_JWKS_MAX);

    (void)pg;
    TRY(authenticator_jwks(request->gateway->authenticator, &jwks, err));
    const char *copy = arena_copy_text(request->arena, buffer_bytes(&jwks));
    if (copy == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for keys");
    response_bytes(request, 200, "application/json", bytes_of_text(copy));
    response_header(request, "Cache-Control", "max-age=" CACHE_SECONDS);
    return SUCCESS;
}

const struct handler handler_server_metadata = {.handle = metadata};
const struct handler handler_published_keys = {.handle = keys};
