#include "authz/issuer_documents.h"

#include <stdio.h>
#include <string.h>

#include "authz/jwk.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/key_proof.h"

#define OPENID "/.well-known/openid-configuration"       /* OpenID Connect Discovery 1.0, 4 */
#define OAUTH  "/.well-known/oauth-authorization-server" /* RFC 8414, 3.1 */

struct result issuer_metadata_url(const char *issuer_url, unsigned number, struct buffer *url, struct error *err)
{
    size_t length = strlen(issuer_url);
    const char *host = strstr(issuer_url, "//");
    const size_t host_end = host == NULL ? length : (size_t)(host + 2 - issuer_url) + strcspn(host + 2, "/");

    while (length > host_end && issuer_url[length - 1] == '/') length--;
    if (number == 0) return buffer_format(url, err, "%.*s" OPENID, (int)length, issuer_url);
    return buffer_format(url, err, "%.*s" OAUTH "%.*s", (int)host_end, issuer_url, (int)(length - host_end),
                         issuer_url + host_end);
}

bool issuer_keys_url_is_valid(const char *url)
{
    char without_query[ISSUER_KEYS_URL_SIZE];
    const char *query = strchr(url, '?');

    if (strlen(url) >= ISSUER_KEYS_URL_SIZE) return false;
    (void)snprintf(without_query, sizeof without_query, "%.*s", (int)(query == NULL ? strlen(url) : (size_t)(query - url)), url);
    if (!issuer_url_is_valid(without_query)) return false;
    for (const char *at = query == NULL ? "" : query; *at != '\0'; at++)
        if (*at <= ' ' || *at >= 0x7f || strchr("#\\\"<>^`{|}", *at) != NULL) return false;
    return true;
}

static struct result read_document(struct bytes text, const char *what, json_t **value_out, struct error *err)
{
    struct error cause = {0};

    if (json_read_any_number(text, ISSUER_DOCUMENT_MAX, value_out, &cause).ok) return SUCCESS;
    return failure(err, cause.kind, "%s: %.150s", what, cause.message);
}

struct result issuer_metadata_read(struct bytes text, const char *issuer_url, struct issuer_metadata *metadata_out,
                                   struct error *err)
{
    struct issuer_metadata metadata = {.keys_url = ""};
    OWNED_JSON value = NULL;

    TRY(read_document(text, "its metadata", &value, err));
    const char *issuer = json_text_of(value, "issuer"), *keys_url = json_text_of(value, "jwks_uri");
    if (issuer == NULL || strcmp(issuer, issuer_url) != 0)
        return failure(err, ERROR_INVALID, "its metadata is that of another issuer: %.120s",
                       issuer == NULL ? "none is named" : issuer);
    if (keys_url == NULL || !issuer_keys_url_is_valid(keys_url))
        return failure(err, ERROR_INVALID, "its metadata has no jwks_uri that is an https URL of at most %d characters",
                       ISSUER_KEYS_URL_SIZE - 1);
    (void)snprintf(metadata.keys_url, sizeof metadata.keys_url, "%s", keys_url);
    *metadata_out = metadata;
    return SUCCESS;
}

/* ---- keys ---- */

/* A usable key, with its place in the set. */
struct found_key {
    struct jwk jwk;
    unsigned algorithms; /* those of the key that the issuer may use */
};

struct found_keys {
    struct found_key *each[ISSUER_KEYS_MAX];
    size_t count;
};

static void found_done(struct found_keys *found)
{
    for (size_t i = 0; i < found->count; i++) free(found->each[i]);
}
#define OWNED_FOUND __attribute__((cleanup(found_done))) struct found_keys

/* NULL: it is used. */
static const char *why_unused(const json_t *key, const struct jwk *jwk, unsigned algorithms)
{
    if (!json_is_object(key)) return "not an object";
    if (!jwk_is_public(key)) return "a private key, which nobody may publish";
    if (jwk->lacks_kid) return "no kid of 1 to 128 of A-Z a-z 0-9 -_.:/=+@~";
    if (!jwk->is_usable) return "not for signatures, or of a kind that is not accepted here";
    return (jwk->algorithms & algorithms) == 0 ? "for no algorithm that this issuer may use" : NULL;
}

static json_t *text_or_null(const json_t *key, const char *member)
{
    const char *text = json_text_of(key, member);
    char shown[JWS_KID_SIZE];

    if (text == NULL) return json_null();
    (void)snprintf(shown, sizeof shown, "%s", text);
    json_t *value = json_string(shown);
    return value != NULL ? value : json_string("?"); /* cut in the middle of a character */
}

static struct result show_key(const json_t *key, const char *why, json_t *shown, struct error *err)
{
    const unsigned before = json_lacks();
    json_t *object = json_pack("{s:o,s:o,s:o,s:b,s:s*}", "kid", text_or_null(key, "kid"), "kty", text_or_null(key, "kty"), "alg",
                               text_or_null(key, "alg"), "used", why == NULL, "why", why);

    if (json_array_size(shown) >= ISSUER_SHOWN_KEYS) {
        json_decref(object);
        return SUCCESS;
    }
    if (object == NULL || json_array_append_new(shown, object) != 0 || json_lacks() != before)
        return failure(err, ERROR_NO_MEMORY, "no memory for the keys of an issuer");
    return SUCCESS;
}

/* In the order of kids. */
static struct result insert(const struct jwk *jwk, unsigned algorithms, struct found_keys *found, struct error *err)
{
    size_t at = 0;

    while (at < found->count && strcmp(found->each[at]->jwk.kid, jwk->kid) < 0) at++;
    if (at < found->count && strcmp(found->each[at]->jwk.kid, jwk->kid) == 0)
        return failure(err, ERROR_INVALID, "its key set has the kid %.60s twice", jwk->kid);
    if (found->count == ISSUER_KEYS_MAX)
        return failure(err, ERROR_LIMIT, "its key set has more than %d usable keys", ISSUER_KEYS_MAX);
    struct found_key *fresh = memory_zeroed(1, sizeof *fresh);
    if (fresh == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the keys of an issuer");
    *fresh = (struct found_key){*jwk, jwk->algorithms & algorithms};
    memmove(&found->each[at + 1], &found->each[at], (found->count - at) * sizeof found->each[0]);
    found->each[at] = fresh;
    found->count++;
    return SUCCESS;
}

static struct result take_key(const json_t *key, unsigned algorithms, struct found_keys *found, json_t *shown, struct error *err)
{
    struct jwk jwk = {.is_usable = false};

    if (json_is_object(key)) TRY(jwk_read(key, &jwk, err));
    const char *why = why_unused(key, &jwk, algorithms);
    TRY(show_key(key, why, shown, err));
    if (json_is_object(key) && !jwk_is_public(key))
        return failure(err, ERROR_INVALID, "it publishes a private key, so anybody may sign in its name");
    return why == NULL ? insert(&jwk, algorithms, found, err) : SUCCESS;
}

/* The text of a key in struct jwk begins with "{". A key of RSA that names its algorithm is for that one only. */
static struct result write_key(const struct found_key *key, struct buffer *jwks, struct error *err)
{
    const enum jose_algorithm only = key->jwk.algorithms == 1U << JOSE_PS256 ? JOSE_PS256 : JOSE_RS256;

    if (key->jwk.algorithms != 1U << only) return buffer_add_text(jwks, key->jwk.text, err);
    return buffer_format(jwks, err, "{\"alg\":\"%s\",%s", jose_algorithm_name(only), key->jwk.text + 1);
}

static struct result write_set(const struct found_keys *found, struct buffer *jwks, struct error *err)
{
    TRY(buffer_add_text(jwks, "{\"keys\":[", err));
    for (size_t i = 0; i < found->count; i++) {
        if (i > 0) TRY(buffer_add_text(jwks, ",", err));
        TRY(write_key(found->each[i], jwks, err));
    }
    return buffer_add_text(jwks, "]}", err);
}

struct result issuer_keys_read(struct bytes text, unsigned algorithms, struct buffer *jwks, json_t **shown_out, struct error *err)
{
    OWNED_FOUND found = {.count = 0};
    OWNED_JSON set = NULL;
    const json_t *key;
    size_t i;

    *shown_out = json_array();
    if (*shown_out == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the keys of an issuer");
    TRY(read_document(text, "its key set", &set, err));
    const json_t *keys = json_object_get(set, "keys");
    if (!json_is_array(keys)) return failure(err, ERROR_INVALID, "its key set is no object with an array called keys");
    json_array_foreach (keys, i, key) TRY(take_key(key, algorithms, &found, *shown_out, err));
    if (found.count == 0) return failure(err, ERROR_INVALID, "its key set has no key that is accepted here");
    return write_set(&found, jwks, err);
}
