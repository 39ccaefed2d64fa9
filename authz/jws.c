#include "authz/jws.h"

#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/text.h"

/* Encoded size: a signature of 4096-bit RSA has 683 characters. */
#define SIGNATURE_LETTERS_MAX 683

static const struct algorithm_row {
    const char *name;
    size_t signature_size;
} algorithms[JOSE_ALGORITHM_COUNT] = {
#define X(constant, name, signature, type, curve) [constant] = {name, signature},
    JOSE_ALGORITHMS(X)
#undef X
};

const char *jose_algorithm_name(enum jose_algorithm algorithm)
{
    return algorithms[algorithm].name;
}

bool jose_algorithm_find(const char *name, enum jose_algorithm *algorithm_out)
{
    if (strcmp(name, "Ed25519") == 0) name = algorithms[JOSE_EDDSA].name; /* RFC 9864, 2.2 */
    for (enum jose_algorithm i = 0; i < JOSE_ALGORITHM_COUNT; i++)
        if (strcmp(name, algorithms[i].name) == 0) {
            *algorithm_out = i;
            return true;
        }
    return false;
}

unsigned jose_algorithms_of(const char *names)
{
    unsigned set = 0;

    for (enum jose_algorithm i = 0; i < JOSE_ALGORITHM_COUNT; i++)
        if (strstr(names, algorithms[i].name) != NULL) set |= 1U << i; /* no name is part of another */
    return set;
}

/* Cuts at dots. False unless there are exactly three segments, none of them empty. */
static bool split(struct bytes text, struct bytes segments_out[3])
{
    struct bytes segments[3] = {{0}};
    size_t count = 0, start = 0;

    for (size_t i = 0; i <= text.length; i++) {
        if (i < text.length && text.data[i] != '.') continue;
        if (count == 3 || i == start) return false;
        segments[count++] = (struct bytes){text.data + start, i - start};
        start = i + 1;
    }
    if (count != 3) return false;
    memcpy(segments_out, segments, sizeof segments);
    return true;
}

static struct result decode(struct bytes segment, const char *what, struct buffer *decoded, struct error *err)
{
    struct error cause = {0};

    if (text_from_base64(decoded, BASE64_URL, segment, &cause).ok) return SUCCESS;
    if (cause.kind == ERROR_NO_MEMORY) return failure(err, ERROR_NO_MEMORY, "no memory to read a token");
    return failure(err, ERROR_INVALID, "the token's %s is not base64url in its one canonical spelling", what);
}

#define MEMBER_NAME_MAX 64 /* no name that anybody reads is longer */

/* "sub" and "Sub": a library that reads members without regard to case takes the one that we don't, and whoever checks such a token elsewhere sees another person. */
static struct result check_names(const json_t *object, const char *what, struct error *err)
{
    OWNED_JSON seen = json_object();
    const char *name = NULL;
    json_t *value;

    json_object_foreach ((json_t *)(uintptr_t)object, name, value) {
        char lower[MEMBER_NAME_MAX + 1];
        if (!text_copy(lower, sizeof lower, name)) continue;
        for (char *at = lower; *at != '\0'; at++)
            if (*at >= 'A' && *at <= 'Z') *at = (char)(*at - 'A' + 'a');
        if (json_object_get(seen, lower) != NULL)
            return failure(err, ERROR_INVALID, "the token's %s has a member twice, with letters of another case", what);
        if (json_object_set(seen, lower, value) != 0) return failure(err, ERROR_NO_MEMORY, "no memory to read a token");
    }
    return SUCCESS;
}

static struct result decode_object(struct bytes segment, const char *what, json_t **object_out, struct error *err)
{
    struct buffer OWNED_BUFFER decoded = BUFFER(JWS_SIZE_MAX);
    struct error cause = {0};
    OWNED_JSON value = NULL;

    TRY(decode(segment, what, &decoded, err));
    if (!json_read(buffer_bytes(&decoded), JWS_SIZE_MAX, &value, &cause).ok) {
        if (cause.kind == ERROR_NO_MEMORY) return failure(err, ERROR_NO_MEMORY, "no memory to read a token");
        return failure(err, ERROR_INVALID, "the token's %s: %.200s", what, cause.message);
    }
    if (!json_is_object(value)) return failure(err, ERROR_INVALID, "the token's %s is not a JSON object", what);
    TRY(check_names(value, what, err));
    *object_out = GIVE(value);
    return SUCCESS;
}

/* RFC 7515, 4.1.9: `typ` is a media type, whose letters have no case; "application/" may stand before a type without another slash. */
static const char *without_application(const char *type)
{
    static const char prefix[] = "application/";
    const size_t length = sizeof prefix - 1;

    return strncasecmp(type, prefix, length) == 0 && strchr(type + length, '/') == NULL ? type + length : type;
}

static struct result check_type(const json_t *header, enum jws_type *type_out, struct error *err)
{
    const json_t *member = json_object_get(header, "typ");
    const char *text = json_is_string(member) ? without_application(json_string_value(member)) : NULL;

    if (member == NULL || (text != NULL && strcasecmp(text, "JWT") == 0)) {
        *type_out = JWS_TYPE_JWT;
    } else if (text != NULL && strcasecmp(text, "at+jwt") == 0) {
        *type_out = JWS_TYPE_ACCESS;
    } else if (text != NULL && strcmp(json_string_value(member), "sijil-reg+jwt") == 0) {
        *type_out = JWS_TYPE_REGISTRY;
    } else {
        return failure(err, ERROR_INVALID, "the token's typ is not one that is accepted here");
    }
    return SUCCESS;
}

/* Refuses members that name another place for the key, or that a verifier must understand. */
static struct result check_no_tricks(const json_t *header, struct error *err)
{
    static const char *const refused[] = {"crit", "jku", "jwk", "x5u", "x5c", "b64", "zip", "enc"};

    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (json_object_get(header, refused[i]) != NULL)
            return failure(err, ERROR_INVALID, "the token's header has the member %s, which is not accepted", refused[i]);
    return SUCCESS;
}

static bool is_kid(const char *text)
{
    if (text == NULL || text[0] == '\0' || strlen(text) >= JWS_KID_SIZE) return false;
    for (const char *at = text; *at != '\0'; at++)
        if (*at <= ' ' || *at > '~') return false;
    return true;
}

static struct result check_header(struct jws *token, struct error *err)
{
    const char *algorithm = json_text_of(token->header, "alg");

    TRY(check_no_tricks(token->header, err));
    if (algorithm == NULL || !jose_algorithm_find(algorithm, &token->algorithm))
        return failure(err, ERROR_INVALID, "the token's alg is not one of RS256, PS256, ES256, ES384, EdDSA");
    TRY(check_type(token->header, &token->type, err));
    token->kid = json_text_of(token->header, "kid");
    if (!is_kid(token->kid)) return failure(err, ERROR_INVALID, "the token's kid is not a plain text");
    return SUCCESS;
}

static struct result check_signature(struct bytes segment, enum jose_algorithm algorithm, struct error *err)
{
    struct buffer OWNED_BUFFER decoded = BUFFER(SIGNATURE_LETTERS_MAX);
    const size_t size = algorithms[algorithm].signature_size;

    if (segment.length > SIGNATURE_LETTERS_MAX)
        return failure(err, ERROR_INVALID, "the token's signature is longer than any that is accepted");
    TRY(decode(segment, "signature", &decoded, err));
    if (size != 0 ? decoded.length != size : decoded.length < 256 || decoded.length > 512)
        return failure(err, ERROR_INVALID, "a signature of %zu bytes does not fit %s", decoded.length,
                       algorithms[algorithm].name);
    return SUCCESS;
}

static struct result open_segments(const struct bytes segments[3], struct jws *token, struct error *err)
{
    TRY(decode_object(segments[0], "header", &token->header, err));
    TRY(check_header(token, err));
    TRY(check_signature(segments[2], token->algorithm, err));
    TRY(decode_object(segments[1], "payload", &token->payload, err));
    token->issuer = json_text_of(token->payload, "iss");
    if (token->issuer == NULL || token->issuer[0] == '\0') return failure(err, ERROR_INVALID, "the token names no issuer");
    return SUCCESS;
}

struct result jws_parse(struct bytes text, struct jws *token_out, struct error *err)
{
    struct jws OWNED_JWS token = {.text = text};
    struct bytes segments[3];

    if (text.length > JWS_SIZE_MAX)
        return failure(err, ERROR_LIMIT, "a token of %zu bytes; at most %d are read", text.length, JWS_SIZE_MAX);
    if (!split(text, segments)) return failure(err, ERROR_INVALID, "a token has three segments between dots");
    token.signature_at = (size_t)(segments[2].data - text.data);
    TRY(open_segments(segments, &token, err));
    *token_out = token;
    token.header = token.payload = NULL; /* given away */
    return SUCCESS;
}

void jws_share(const struct jws *token, struct bytes text, struct jws *token_out)
{
    *token_out = *token;
    token_out->text = text;
    json_incref(token->header);
    json_incref(token->payload);
}

void jws_done(struct jws *token)
{
    json_decref(token->header);
    json_decref(token->payload);
    token->header = token->payload = NULL;
}
