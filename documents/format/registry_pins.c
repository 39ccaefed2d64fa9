#include "documents/format/registry_pins.h"

#include <stdio.h>
#include <string.h>

#include "audit/format/note.h"
#include "audit/format/succession.h"
#include "base/json.h"
#include "base/text.h"

#define SCHEMA  "sijil.runner-registry/v1"
#define HTTPS   "https://"
#define CA_FILE "ca.pem"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-."

struct members {
    const char *schema, *url, *audience, *log_key, *signer, *root, *ca;
};

/* ":8443", or nothing */
static bool is_port(const char *text)
{
    uint64_t port = 0;

    return text[0] == '\0' || (text[0] == ':' && text_to_u64(bytes_of_text(text + 1), 65535, &port) && port > 0);
}

bool registry_host_is_valid(const char *host)
{
    const bool is_bracketed = host[0] == '[';
    const size_t length = is_bracketed ? strspn(host + 1, "0123456789abcdefABCDEF:.") : strspn(host, LETTERS);

    if (strlen(host) >= REGISTRY_HOST_SIZE || length == 0) return false;
    if (!is_bracketed) return is_port(host + length);
    return host[length + 1] == ']' && is_port(host + length + 2);
}

static bool take(const char *text, char *destination, size_t room)
{
    const size_t length = strlen(text);

    if (length == 0 || length >= room) return false;
    memcpy(destination, text, length + 1);
    return true;
}

static struct result read_point(const char *name, const char *text, uint8_t point_out[ECDSA_PUBLIC_SIZE], struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;

    if (!text_from_base64_exactly(BASE64_URL, bytes_of_text(text), point_out, ECDSA_PUBLIC_SIZE))
        return failure(err, ERROR_INVALID, "%s: base64url of the %d bytes of a P-256 point", name, ECDSA_PUBLIC_SIZE);
    return ecdsa_key_from_public(point_out, &key, err);
}

static struct result check_log_key(const struct registry_pins *pins, struct error *err)
{
    struct note_key key;

    TRY(note_key_read(bytes_of_text(pins->log_key), &key, err));
    if (key.algorithm != NOTE_ED25519) return failure(err, ERROR_INVALID, "log_key: the key of a log is Ed25519");
    if (succession_number(key.name, pins->audience) != 0)
        return SUCCESS; /* the first log of the registry, or one after a recovery */
    return failure(err, ERROR_INVALID, "log_key: it is the key of the log %.100s, and audience is another", key.name);
}

static struct result take_members(const struct members *members, struct registry_pins *pins, struct error *err)
{
    if (strcmp(members->schema, SCHEMA) != 0) return failure(err, ERROR_INVALID, "schema: %s", SCHEMA);
    if (strncmp(members->url, HTTPS, strlen(HTTPS)) != 0 || !registry_host_is_valid(members->url + strlen(HTTPS)) ||
        !take(members->url + strlen(HTTPS), pins->host, sizeof pins->host))
        return failure(err, ERROR_INVALID, "url: https://HOST or https://HOST:PORT");
    if (!take(members->audience, pins->audience, sizeof pins->audience))
        return failure(err, ERROR_INVALID, "audience: 1 to %d bytes", REGISTRY_AUDIENCE_SIZE - 1);
    if (!take(members->log_key, pins->log_key, sizeof pins->log_key))
        return failure(err, ERROR_INVALID, "log_key: 1 to %d bytes", REGISTRY_LOG_KEY_SIZE - 1);
    if (!text_is_visible(bytes_of_text(pins->audience)) || !text_is_visible(bytes_of_text(pins->log_key)))
        return failure(err, ERROR_INVALID, "audience, log_key: only characters that a person sees");
    if (members->ca != NULL && strcmp(members->ca, CA_FILE) != 0) return failure(err, ERROR_INVALID, "ca_file: %s", CA_FILE);
    pins->has_ca = members->ca != NULL;
    TRY(check_log_key(pins, err));
    TRY(read_point("signer", members->signer, pins->signer, err));
    return read_point("root", members->root, pins->root, err);
}

struct result registry_pins_read(struct bytes text, struct registry_pins *pins_out, struct error *err)
{
    struct registry_pins pins = {.has_ca = false};
    struct members members = {.url = NULL};
    json_error_t why = {.line = 0};
    OWNED_JSON json = NULL;

    TRY(json_read(text, REGISTRY_PINS_MAX, &json, err));
    if (json_unpack_ex(json, &why, JSON_STRICT, "{s:s, s:s, s:s, s:s, s:s, s:s, s?:s}", "schema", &members.schema, "url",
                       &members.url, "audience", &members.audience, "log_key", &members.log_key, "signer", &members.signer,
                       "root", &members.root, "ca_file", &members.ca) != 0)
        return failure(err, ERROR_INVALID, "%.150s", why.text);
    TRY(take_members(&members, &pins, err));
    *pins_out = pins;
    return SUCCESS;
}

struct result registry_pins_write(const struct registry_pins *pins, struct buffer *text, struct error *err)
{
    char url[sizeof HTTPS + REGISTRY_HOST_SIZE], signer[ECDSA_POINT_TEXT_SIZE], root[ECDSA_POINT_TEXT_SIZE];
    struct registry_pins again;

    (void)snprintf(url, sizeof url, HTTPS "%s", pins->host);
    TRY(ecdsa_point_text(pins->signer, signer, err));
    TRY(ecdsa_point_text(pins->root, root, err));
    const unsigned before = json_lacks();
    OWNED_JSON json =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s*}", "schema", SCHEMA, "url", url, "audience", pins->audience, "log_key",
                  pins->log_key, "signer", signer, "root", root, "ca_file", pins->has_ca ? CA_FILE : NULL);
    if (json_lacks() != before) return failure(err, ERROR_NO_MEMORY, "no memory for the keys of a registry");
    if (json == NULL) return failure(err, ERROR_INVALID, "audience, log_key: text in UTF-8");
    TRY(json_write_canonical(text, json, err));
    return registry_pins_read(buffer_bytes(text), &again, err);
}
