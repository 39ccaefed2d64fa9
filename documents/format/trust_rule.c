#include "documents/format/trust_rule.h"

#include <string.h>

#include "base/json.h"
#include "base/network.h"
#include "base/text.h"
#include "documents/format/document_priv.h"
#include "documents/format/grant.h"

#define DAY_MS       86400000
#define AUDIENCE_MAX 255
#define SHA256_BYTES 32

static const char *const system_names[TRUST_SYSTEM_COUNT] = {
#define X(constant, name) [constant] = name,
    TRUST_SYSTEMS(X)
#undef X
};

bool trust_system_find(const char *name, enum trust_system *system_out)
{
    for (enum trust_system system = 0; system < TRUST_SYSTEM_COUNT; system++)
        if (strcmp(system_names[system], name) == 0) {
            *system_out = system;
            return true;
        }
    return false;
}

const char *trust_system_name(enum trust_system system)
{
    return system_names[system];
}

/* The members of a body, as json_unpack_ex() returns them. */
struct body {
    const char *issuer, *audience, *system, *certificate;
    const json_t *match, *grant, *immutable, *networks, *single_use;
    json_int_t priority, ttl_max_s;
};

static struct result unpack(const struct document *document, struct body *body, struct error *err)
{
    return document_unpack(json_object_get(document->json, "body"), "the body of a trust rule", err,
                           "{s:s, s:s, s:s, s:o, s:o, s:I, s:I, s:o, s?:o, s?:o, s?:s}", "issuer", &body->issuer, "audience",
                           &body->audience, "system", &body->system, "match", &body->match, "grant", &body->grant, "priority",
                           &body->priority, "max_ttl", &body->ttl_max_s, "single_use", &body->single_use, "immutable",
                           &body->immutable, "networks", &body->networks, "certificate", &body->certificate);
}

static bool is_audience(const char *text)
{
    const size_t length = strlen(text);

    return length > 0 && length <= AUDIENCE_MAX && text_is_visible(bytes_of_text(text)) && strchr(text, ' ') == NULL;
}

static struct result read_texts(const struct body *body, struct trust_rule *rule, struct error *err)
{
    uint8_t thumbprint[SHA256_BYTES];

    TRY(document_check_issuer(body->issuer, err));
    if (!is_audience(body->audience)) return failure(err, ERROR_INVALID, "audience: 1 to %d bytes without blanks", AUDIENCE_MAX);
    if (!trust_system_find(body->system, &rule->system))
        return failure(err, ERROR_INVALID, "system: github, gitlab, kubernetes, jenkins or generic");
    if (body->certificate != NULL &&
        !text_from_base64_exactly(BASE64_URL, bytes_of_text(body->certificate), thumbprint, sizeof thumbprint))
        return failure(err, ERROR_INVALID, "certificate: base64url of the SHA-256 of the client's certificate (x5t#S256)");
    rule->issuer = body->issuer;
    rule->audience = body->audience;
    rule->certificate = body->certificate;
    return SUCCESS;
}

static struct result read_numbers(const struct body *body, struct trust_rule *rule, struct error *err)
{
    if (body->priority < 0 || body->priority > TRUST_PRIORITY_MAX)
        return failure(err, ERROR_INVALID, "priority: 0 to %d; of several rules that match, the highest counts",
                       TRUST_PRIORITY_MAX);
    if (body->ttl_max_s < TRUST_TTL_MIN_S || body->ttl_max_s > TRUST_TTL_MAX_S)
        return failure(err, ERROR_INVALID, "max_ttl: %d to %d seconds", TRUST_TTL_MIN_S, TRUST_TTL_MAX_S);
    if (!json_is_boolean(body->single_use)) return failure(err, ERROR_INVALID, "single_use: true or false");
    rule->priority = body->priority;
    rule->ttl_max_s = (unsigned)body->ttl_max_s;
    rule->single_use = json_is_true(body->single_use);
    return SUCCESS;
}

static struct result read_conditions(const struct body *body, struct trust_rule *rule, struct error *err)
{
    const char *pointer;
    json_t *value;

    if (!json_is_object(body->match) || json_object_size(body->match) == 0 ||
        json_object_size(body->match) > TRUST_CONDITIONS_MAX)
        return failure(err, ERROR_INVALID, "match: an object with 1 to %d JSON Pointers", TRUST_CONDITIONS_MAX);
    json_object_foreach ((json_t *)(uintptr_t)body->match, pointer, value)
        TRY(claim_condition_read(pointer, value, &rule->conditions[rule->condition_count++], err));
    return SUCCESS;
}

/* ---- grants ---- */

static struct result read_grant(const struct document *document, const json_t *json, struct trust_grant *grant, struct error *err)
{
    struct trust_grant read = {0};

    TRY(document_unpack(json, "a grant of a trust rule", err, "{s:s, s:s}", "role", &read.role, "on", &read.on));
    TRY(grant_check(read.role, read.on, document->scope, err));
    *grant = read;
    return SUCCESS;
}

static struct result read_grants(const struct document *document, const struct body *body, struct trust_rule *rule,
                                 struct error *err)
{
    const size_t count = json_array_size(body->grant);

    if (!json_is_array(body->grant) || count == 0 || count > TRUST_GRANTS_MAX)
        return failure(err, ERROR_INVALID, "grant: 1 to %d objects with role and on", TRUST_GRANTS_MAX);
    for (size_t i = 0; i < count; i++)
        TRY(read_grant(document, json_array_get(body->grant, i), &rule->grants[rule->grant_count++], err));
    return SUCCESS;
}

/* ---- what may be absent ---- */

static struct result read_immutable(const struct body *body, struct trust_rule *rule, struct error *err)
{
    const size_t count = json_array_size(body->immutable);

    if (body->immutable == NULL) return SUCCESS;
    if (!json_is_array(body->immutable) || count == 0 || count > TRUST_IMMUTABLE_MAX)
        return failure(err, ERROR_INVALID, "immutable: 1 to %d JSON Pointers", TRUST_IMMUTABLE_MAX);
    for (size_t i = 0; i < count; i++) {
        const char *pointer = json_string_value(json_array_get(body->immutable, i));
        if (pointer == NULL || !claim_pointer_is_valid(pointer))
            return failure(err, ERROR_INVALID, "immutable: 1 to %d JSON Pointers", TRUST_IMMUTABLE_MAX);
        rule->immutable[rule->immutable_count++] = pointer;
    }
    return SUCCESS;
}

static bool read_network(const char *text, struct network *network)
{
    char again[NETWORK_TEXT_SIZE];

    if (text == NULL || network_read(bytes_of_text(text), network) != NETWORK_GOOD) return false;
    network_write(network, again);
    return strcmp(again, text) == 0;
}

static struct result read_networks(const struct body *body, struct trust_rule *rule, struct error *err)
{
    const size_t count = json_array_size(body->networks);
    struct network network;

    rule->networks = body->networks;
    if (body->networks == NULL) return SUCCESS;
    if (!json_is_array(body->networks) || count == 0 || count > TRUST_NETWORKS_MAX)
        return failure(err, ERROR_INVALID, "networks: 1 to %d blocks of addresses, such as 10.1.0.0/16", TRUST_NETWORKS_MAX);
    for (size_t i = 0; i < count; i++)
        if (!read_network(json_string_value(json_array_get(body->networks, i)), &network))
            return failure(err, ERROR_INVALID, "networks: each is a block of addresses in its one spelling, such as 10.1.0.0/16");
    return SUCCESS;
}

/* ---- the whole ---- */

static struct result check_head(const struct document *document, struct error *err)
{
    if (strlen(document->name) > TRUST_RULE_NAME_MAX)
        return failure(err, ERROR_INVALID, "the id of a rule has at most %d characters", TRUST_RULE_NAME_MAX);
    if (document->expires_ms == 0 || document->expires_ms - document->effective_ms > (int64_t)TRUST_RULE_DAYS_MAX * DAY_MS)
        return failure(err, ERROR_INVALID, "a trust rule expires, within %d days", TRUST_RULE_DAYS_MAX);
    return SUCCESS;
}

struct result trust_rule_read(const struct document *document, struct trust_rule *rule_out, struct error *err)
{
    struct trust_rule rule = {0};
    struct body body = {0};

    TRY(check_head(document, err));
    TRY(unpack(document, &body, err));
    TRY(read_texts(&body, &rule, err));
    TRY(read_numbers(&body, &rule, err));
    TRY(read_conditions(&body, &rule, err));
    TRY(read_grants(document, &body, &rule, err));
    TRY(read_immutable(&body, &rule, err));
    TRY(read_networks(&body, &rule, err));
    TRY(trust_rule_lint(&rule, err));
    *rule_out = rule;
    return SUCCESS;
}

static struct result check_body(const struct document *document, struct error *err)
{
    struct trust_rule rule;

    if (!document->is_withdrawn) return trust_rule_read(document, &rule, err);
    TRY(check_head(document, err));
    return document_check_empty(document, "a trust rule", err);
}

struct result document_check_trust_rule(const struct document *document, const struct document_trust *trust, struct error *err)
{
    TRY(check_body(document, err));
    return document_check_persons(document, trust, "a trust rule", err);
}

bool trust_rule_matches(const struct trust_rule *rule, const json_t *claims)
{
    const char *issuer = json_text_of(claims, "iss");

    if (issuer == NULL || strcmp(issuer, rule->issuer) != 0 || !claim_audience_is(claims, rule->audience)) return false;
    for (size_t i = 0; i < rule->condition_count; i++)
        if (claim_test(&rule->conditions[i], claims) != CLAIM_MATCHES) return false;
    return rule->condition_count > 0;
}

bool trust_rules_meet(const struct trust_rule *one, const struct trust_rule *other)
{
    if (strcmp(one->issuer, other->issuer) != 0 || strcmp(one->audience, other->audience) != 0) return false;
    for (size_t i = 0; i < one->condition_count; i++)
        for (size_t k = 0; k < other->condition_count; k++)
            if (strcmp(one->conditions[i].pointer, other->conditions[k].pointer) == 0 &&
                !claim_conditions_meet(&one->conditions[i], &other->conditions[k]))
                return false;
    return true;
}

bool trust_rule_permits_client(const struct trust_rule *rule, const struct sockaddr *client, const char *thumbprint)
{
    struct network address, network;
    bool is_inside_one = rule->networks == NULL;

    if (rule->certificate != NULL && (thumbprint == NULL || strcmp(rule->certificate, thumbprint) != 0)) return false;
    if (is_inside_one) return true;
    if (!network_of_socket(client, &address)) return false;
    for (size_t i = 0; i < json_array_size(rule->networks) && !is_inside_one; i++)
        is_inside_one =
            read_network(json_string_value(json_array_get(rule->networks, i)), &network) && network_holds(&network, &address);
    return is_inside_one;
}
