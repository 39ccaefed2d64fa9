#include "documents/format/audit_sink.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "documents/format/document_priv.h"

#define SCHEME        "https://"
#define SCHEME_LENGTH (sizeof SCHEME - 1)
#define HOST_LETTERS  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"
#define FILE_LETTERS  HOST_LETTERS "_"
#define PORT_MAX      65535
#define DAY_MS        ((int64_t)86400000)

static const char *const transport_names[SINK_TRANSPORT_COUNT] = {
#define X(constant, name) [constant] = name,
    SINK_TRANSPORTS(X)
#undef X
};
static const char *const field_names[SINK_FIELD_COUNT] = {
#define X(constant, name) [constant] = name,
    SINK_FIELDS(X)
#undef X
};
static const struct {
    const char *name;
    uint32_t number;
} classes[SINK_CLASS_COUNT] = {
#define X(constant, name, number) [constant] = {name, number},
    SINK_CLASSES(X)
#undef X
};

bool sink_class_find(uint32_t number, enum sink_class *class_out)
{
    for (enum sink_class class = 0; class < SINK_CLASS_COUNT; class ++)
        if (classes[class].number == number) {
            *class_out = class;
            return true;
        }
    return false;
}

/* The place of a name in a list; `count` if it is not there. */
static size_t place_of(const char *name, const char *const names[], size_t count)
{
    size_t i = 0;

    while (i < count && (name == NULL || strcmp(names[i], name) != 0)) i++;
    return i;
}

/* The members of a body, as json_unpack_ex() returns them. */
struct body {
    const char *transport, *region, *address, *ca, *signature;
    const json_t *classes, *networks, *names;
};

static struct result unpack(const struct document *document, struct body *body, struct error *err)
{
    return document_unpack(json_object_get(document->json, "body"), "the body of a sink", err,
                           "{s:s, s:s, s:s, s:o, s?:s, s?:o, s?:o, s?:s}", "transport", &body->transport, "region", &body->region,
                           "address", &body->address, "classes", &body->classes, "ca", &body->ca, "networks", &body->networks,
                           "names", &body->names, "signature", &body->signature);
}

/* ---- addresses ---- */

static bool is_port(struct bytes text)
{
    uint64_t port = 0;

    return text_to_u64(text, PORT_MAX, &port) && port >= 1;
}

/* "siem.example:6514" or "[2001:db8::1]:6514". */
static bool is_host_and_port(const char *address)
{
    const char *colon = strrchr(address, ':'), *bracket = strrchr(address, ']');
    struct network network;
    char host[INET6_ADDRSTRLEN + 1];

    if (colon == NULL || colon == address || !is_port(bytes_of_text(colon + 1))) return false;
    if (address[0] != '[')
        return text_consists_of((struct bytes){(const uint8_t *)address, (size_t)(colon - address)}, HOST_LETTERS);
    if (bracket == NULL || bracket + 1 != colon || (size_t)(bracket - address) > sizeof host - 1) return false;
    memcpy(host, address + 1, (size_t)(bracket - address - 1));
    host[bracket - address - 1] = '\0';
    return strchr(host, ':') != NULL && network_of_address(host, &network);
}

static bool is_url(const char *address)
{
    return strncmp(address, SCHEME, SCHEME_LENGTH) == 0 && address[SCHEME_LENGTH] != '\0' && address[SCHEME_LENGTH] != '/' &&
           text_is_visible(bytes_of_text(address)) && strpbrk(address, " @#\"\\") == NULL;
}

/* The folder may have the certificate of deliveries, and its key. */
static bool is_key_file(const char *address, size_t length)
{
    return length >= 4 && (strcmp(address + length - 4, ".pem") == 0 || strcmp(address + length - 4, ".key") == 0);
}

static bool is_file(const char *address)
{
    const size_t length = strlen(address);

    return !is_key_file(address, length) && length <= AUDIT_SINK_FILE_MAX && address[0] != '.' &&
           text_consists_of(bytes_of_text(address), FILE_LETTERS);
}

static struct result check_address(const struct audit_sink *sink, struct error *err)
{
    const char *address = sink->address;

    if (address[0] == '\0' || strlen(address) > AUDIT_SINK_ADDRESS_MAX)
        return failure(err, ERROR_INVALID, "address: 1 to %d characters", AUDIT_SINK_ADDRESS_MAX);
    if (sink->transport == SINK_SYSLOG && !is_host_and_port(address))
        return failure(err, ERROR_INVALID, "address: of syslog a host and its port, such as siem.example:6514");
    if (sink->transport == SINK_WEBHOOK && !is_url(address))
        return failure(err, ERROR_INVALID, "address: of a webhook an https:// URL without a user's name");
    if (sink->transport == SINK_FILE && !is_file(address))
        return failure(
            err, ERROR_INVALID,
            "address: of a file its name, of at most %d letters, digits, dots, underscores and dashes, not .pem or .key",
            AUDIT_SINK_FILE_MAX);
    return SUCCESS;
}

static struct result read_networks(const json_t *list, struct audit_sink *sink, struct error *err)
{
    char again[NETWORK_TEXT_SIZE];
    size_t i;
    const json_t *value;

    if (list == NULL) return SUCCESS;
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > NETWORKS_MAX)
        return failure(err, ERROR_INVALID, "networks: 1 to %d blocks of addresses, such as 10.1.0.0/16", NETWORKS_MAX);
    json_array_foreach (list, i, value) {
        struct network *network = &sink->networks.each[i];
        const char *text = json_string_value(value);
        if (text == NULL || network_read(bytes_of_text(text), network) != NETWORK_GOOD)
            return failure(err, ERROR_INVALID, "networks: each is a block of addresses, such as 10.1.0.0/16");
        network_write(network, again);
        if (strcmp(again, text) != 0)
            return failure(err, ERROR_INVALID, "networks: %.40s in its one spelling is %s", text, again);
        sink->networks.count = i + 1;
    }
    return SUCCESS;
}

/* ---- what leaves ---- */

static struct result read_hidden(const json_t *list, unsigned *hides, struct error *err)
{
    size_t i;
    const json_t *value;

    if (!json_is_array(list)) return failure(err, ERROR_INVALID, "classes: each is a list of what is left out, perhaps empty");
    json_array_foreach (list, i, value) {
        const size_t field = place_of(json_string_value(value), field_names, SINK_FIELD_COUNT);
        if (field == SINK_FIELD_COUNT)
            return failure(err, ERROR_INVALID, "classes: actor, resource, detail, region, rules, request or raw is left out");
        if ((*hides >> field & 1) != 0)
            return failure(err, ERROR_INVALID, "classes: \"%s\" is left out twice", field_names[field]);
        *hides |= 1U << field;
    }
    return SUCCESS;
}

static struct result read_class(const char *name, const json_t *value, struct audit_sink *sink, struct error *err)
{
    for (enum sink_class class = 0; class < SINK_CLASS_COUNT; class ++)
        if (strcmp(classes[class].name, name) == 0) {
            sink->classes |= 1U << class;
            return read_hidden(value, &sink->hides[class], err);
        }
    return failure(err, ERROR_INVALID, "classes: there is no class \"%.40s\"", name);
}

static struct result read_classes(const json_t *list, struct audit_sink *sink, struct error *err)
{
    const char *name;
    const json_t *value;

    if (!json_is_object(list) || json_object_size(list) == 0)
        return failure(err, ERROR_INVALID,
                       "classes: an object of the classes that are delivered, and what each is delivered without");
    json_object_foreach ((json_t *)(uintptr_t)list, name, value) TRY(read_class(name, value, sink, err));
    return SUCCESS;
}

static struct result read_names(const json_t *names, struct audit_sink *sink, struct error *err)
{
    if (names == NULL) return SUCCESS;
    TRY(document_unpack(names, "names", err, "{s:s}", "purpose", &sink->purpose));
    if (sink->purpose[0] != '\0' && strlen(sink->purpose) <= AUDIT_SINK_PURPOSE_MAX) return SUCCESS;
    return failure(err, ERROR_INVALID, "names: \"purpose\" says why names of persons are delivered, in at most %d bytes",
                   AUDIT_SINK_PURPOSE_MAX);
}

/* ---- the whole ---- */

static struct result read_texts(const struct body *body, struct audit_sink *sink, struct error *err)
{
    const size_t transport = place_of(body->transport, transport_names, SINK_TRANSPORT_COUNT);
    const size_t region = strlen(body->region);

    if (transport == SINK_TRANSPORT_COUNT) return failure(err, ERROR_INVALID, "transport: syslog, webhook or file");
    if (region == 0 || region > AUDIT_SINK_REGION_MAX || !text_is_visible(bytes_of_text(body->region)))
        return failure(err, ERROR_INVALID, "region: the id of a region in the policy set");
    sink->transport = (enum sink_transport)transport;
    sink->region = body->region;
    sink->address = body->address;
    return check_address(sink, err);
}

static struct result read_trust(const struct body *body, struct audit_sink *sink, struct error *err)
{
    if (sink->transport == SINK_FILE && (body->ca != NULL || body->networks != NULL))
        return failure(err, ERROR_INVALID, "a file has neither \"ca\" nor \"networks\"");
    if (body->ca != NULL && (strncmp(body->ca, "-----BEGIN CERTIFICATE-----\n", 28) != 0 || strlen(body->ca) > AUDIT_SINK_CA_MAX))
        return failure(err, ERROR_INVALID, "ca: certificates in PEM, of at most %zu bytes", AUDIT_SINK_CA_MAX);
    if (sink->transport == SINK_WEBHOOK && body->signature == NULL)
        return failure(err, ERROR_INVALID, "signature: of a webhook v1 (HMAC) or v1a (Ed25519)");
    if (body->signature != NULL &&
        (sink->transport != SINK_WEBHOOK || (strcmp(body->signature, "v1") != 0 && strcmp(body->signature, "v1a") != 0)))
        return failure(err, ERROR_INVALID, "signature: only of a webhook, v1 (HMAC) or v1a (Ed25519)");
    sink->ca = body->ca;
    sink->signs_ed25519 = body->signature != NULL && strcmp(body->signature, "v1a") == 0;
    return SUCCESS;
}

static struct result check_head(const struct document *document, struct error *err)
{
    if (strlen(document->name) > AUDIT_SINK_NAME_MAX)
        return failure(err, ERROR_INVALID, "the name of a sink has at most %d characters", AUDIT_SINK_NAME_MAX);
    if (document->scope[0] != '\0') return failure(err, ERROR_INVALID, "a sink is of the registry: its scope is \"\"");
    if (document->expires_ms == 0 || document->expires_ms - document->effective_ms > AUDIT_SINK_DAYS_MAX * DAY_MS)
        return failure(err, ERROR_INVALID, "a sink expires, within %d days", AUDIT_SINK_DAYS_MAX);
    return SUCCESS;
}

struct result audit_sink_read(const struct document *document, struct audit_sink *sink_out, struct error *err)
{
    struct audit_sink sink = {0};
    struct body body = {0};

    TRY(check_head(document, err));
    TRY(unpack(document, &body, err));
    TRY(read_texts(&body, &sink, err));
    TRY(read_trust(&body, &sink, err));
    TRY(read_networks(body.networks, &sink, err));
    TRY(read_classes(body.classes, &sink, err));
    TRY(read_names(body.names, &sink, err));
    *sink_out = sink;
    return SUCCESS;
}

struct result document_check_audit_sink(const struct document *document, const struct document_trust *trust, struct error *err)
{
    struct audit_sink sink;

    if (document->is_withdrawn) {
        TRY(check_head(document, err));
        TRY(document_check_empty(document, "a sink", err));
    } else {
        TRY(audit_sink_read(document, &sink, err));
    }
    return document_check_persons(document, trust, "a sink", err);
}
