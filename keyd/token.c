#include "keyd/token.h"

#include <stdio.h>

#include "base/json.h"
#include "base/text.h"
#include "crypto/random.h"
#include "keyd/token_keys.h"

enum { JTI_SIZE = 16, PAYLOAD_MAX = KEYD_TOKEN_MAX * 3 / 4 };

/* Takes `value` over. `value` is NULL if its text is not UTF-8, or if there was no memory. */
static bool set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static json_t *text_of(struct bytes text)
{
    return json_stringn((const char *)text.data, text.length);
}

static json_t *actions_of(const struct keyd_access *access)
{
    json_t *actions = json_array();

    if ((access->pull && json_array_append_new(actions, json_string("pull")) != 0) ||
        (access->push && json_array_append_new(actions, json_string("push")) != 0) ||
        (access->remove && json_array_append_new(actions, json_string("delete")) != 0)) {
        json_decref(actions);
        return NULL;
    }
    return actions;
}

/* An entry as in a Docker token (distribution-spec token scope), with the repository's UUID added to its name. */
static json_t *access_entry(const struct keyd_access *access)
{
    OWNED_JSON entry = json_object();
    char id[UUID_TEXT_SIZE];

    uuid_format(&access->repository, id);
    if (!set(entry, "type", json_string("repository")) || !set(entry, "name", text_of(access->name)) ||
        (!uuid_is_nil(&access->repository) && !set(entry, "id", json_string(id))) || !set(entry, "actions", actions_of(access)))
        return NULL;
    return GIVE(entry);
}

static json_t *access_list(const struct keyd_token *request)
{
    OWNED_JSON list = json_array();

    for (size_t i = 0; i < request->access_count; i++)
        if (json_array_append_new(list, access_entry(&request->access[i])) != 0) return NULL;
    return GIVE(list);
}

/* RFC 8705, 3.1 and RFC 9449, 6.1. With both, a token is valid with both only. */
static json_t *confirmation_of(const struct keyd_token *request)
{
    OWNED_JSON confirmation = json_object();

    if ((request->confirmation.length > 0 && !set(confirmation, "x5t#S256", text_of(request->confirmation))) ||
        (request->key.length > 0 && !set(confirmation, "jkt", text_of(request->key))))
        return NULL;
    return GIVE(confirmation);
}

/* RFC 9068, 2.2.1: how and when the person logged in at the issuer. */
static bool set_login(json_t *payload, const struct keyd_token *request)
{
    return (request->acr.length == 0 || set(payload, "acr", text_of(request->acr))) &&
           (request->auth_time_s == 0 || set(payload, "auth_time", json_integer(request->auth_time_s)));
}

static bool set_times(json_t *payload, const struct keyd_token *request, int64_t now_s)
{
    const uint32_t lifetime_s = request->lifetime_s < TOKEN_LIFETIME_MAX_S ? request->lifetime_s : TOKEN_LIFETIME_MAX_S;

    return set(payload, "iat", json_integer(now_s)) && set(payload, "nbf", json_integer(now_s)) &&
           set(payload, "exp", json_integer(now_s + lifetime_s));
}

static json_t *payload_of(const struct keyd_token *request, int64_t now_s, const char *jti)
{
    OWNED_JSON payload = json_object();

    if (set(payload, "iss", text_of(request->issuer)) && set(payload, "aud", text_of(request->audience)) &&
        set(payload, "sub", text_of(request->subject)) && set(payload, "src", text_of(request->source)) &&
        set(payload, "jti", json_string(jti)) && set_times(payload, request, now_s) &&
        set(payload, "access", access_list(request)) && (!request->catalog || set(payload, "catalog", json_true())) &&
        (!request->administration || set(payload, "admin", json_true())) && set_login(payload, request) &&
        ((request->confirmation.length == 0 && request->key.length == 0) || set(payload, "cnf", confirmation_of(request))))
        return GIVE(payload);
    return NULL;
}

struct result token_write_header(const struct ecdsa_key *key, struct buffer *token, struct error *err)
{
    uint8_t point[ECDSA_PUBLIC_SIZE];
    char kid[ECDSA_THUMBPRINT_SIZE], header[160]; /* 44 letters around a key id of 43 */

    ecdsa_key_public(key, point);
    ecdsa_thumbprint(point, kid);
    (void)snprintf(header, sizeof header, "{\"alg\":\"ES256\",\"kid\":\"%s\",\"typ\":\"sijil-reg+jwt\"}", kid);
    return text_base64(token, BASE64_URL, bytes_of_text(header), err);
}

static struct result write_payload(const struct keyd_token *request, int64_t now_s, struct buffer *token, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(PAYLOAD_MAX);
    struct buffer OWNED_BUFFER jti = BUFFER(KEYD_NAME_MAX + 32);
    uint8_t random[JTI_SIZE];

    random_bytes(random, sizeof random);
    TRY(buffer_add(&jti, request->request.data, request->request.length, err));
    if (request->request.length > 0) TRY(buffer_add_u8(&jti, '.', err));
    TRY(text_base64(&jti, BASE64_URL, (struct bytes){random, sizeof random}, err));
    const unsigned before = json_lacks();
    OWNED_JSON payload = payload_of(request, now_s, buffer_text(&jti));
    if (json_lacks() != before) return failure(err, ERROR_NO_MEMORY, "no memory for a token");
    if (payload == NULL) return failure(err, ERROR_INVALID, "a field of the token is not UTF-8");
    TRY(json_write_canonical(&text, payload, err));
    return text_base64(token, BASE64_URL, buffer_bytes(&text), err);
}

struct result token_sign(const struct keyring *keyring, const struct keyd_token *request, int64_t now_s, struct buffer *token,
                         struct error *err)
{
    struct buffer OWNED_BUFFER jwt = BUFFER(KEYD_TOKEN_MAX);
    const struct ecdsa_key *key = token_keys_at(keyring_token_keys(keyring), now_s);
    uint8_t signature[ECDSA_JOSE_SIZE];

    if (request->lifetime_s == 0) return failure(err, ERROR_INVALID, "a token must live at least one second");
    TRY(token_write_header(key, &jwt, err));
    TRY(buffer_add_u8(&jwt, '.', err));
    TRY(write_payload(request, now_s, &jwt, err));
    TRY(ecdsa_sign_jose(key, buffer_bytes(&jwt), signature, err));
    TRY(buffer_add_u8(&jwt, '.', err));
    TRY(text_base64(&jwt, BASE64_URL, (struct bytes){signature, sizeof signature}, err));
    return buffer_add(token, jwt.data, jwt.length, err);
}
