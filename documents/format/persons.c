#include "documents/format/persons.h"

#include <string.h>

#include "base/text.h"
#include "documents/format/document_priv.h"

#define DAY_MS       ((int64_t)86400000)
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789._-"
#define HEX_LETTERS  "0123456789abcdef"

static bool is_organisation(const char *name)
{
    const bool begins = (name[0] >= 'a' && name[0] <= 'z') || (name[0] >= '0' && name[0] <= '9');

    return begins && strlen(name) <= PERSONS_NAME_MAX && text_consists_of(bytes_of_text(name), NAME_LETTERS);
}

static struct result check_head(const struct document *document, struct error *err)
{
    if (!is_organisation(document->name) && strcmp(document->name, PERSONS_REGISTRY) != 0)
        return failure(err, ERROR_INVALID, "the name is that of an organisation, or %s for all others", PERSONS_REGISTRY);
    if (document->scope[0] != '\0') return failure(err, ERROR_INVALID, "persons are of the registry: their scope is \"\"");
    if (document->expires_ms == 0 || document->expires_ms - document->effective_ms > PERSONS_DAYS_MAX * DAY_MS)
        return failure(err, ERROR_INVALID, "a document of persons expires, within %d days", PERSONS_DAYS_MAX);
    return SUCCESS;
}

static bool is_subject(const char *key)
{
    return key != NULL && strlen(key) == PERSONS_SEPARATE_KEY && strncmp(key, "ext:", 4) == 0 &&
           text_consists_of(bytes_of_text(key + 4), HEX_LETTERS);
}

static struct result read_separate(const json_t *list, struct persons_rule *rule, struct error *err)
{
    const size_t count = json_array_size(list);

    if (list == NULL) return SUCCESS;
    if (!json_is_array(list) || count > PERSONS_SEPARATE_MAX)
        return failure(err, ERROR_INVALID, "separate: a list of at most %d subjects", PERSONS_SEPARATE_MAX);
    for (size_t i = 0; i < count; i++) {
        const char *key = json_string_value(json_array_get(list, i));
        if (!is_subject(key))
            return failure(err, ERROR_INVALID,
                           "separate: ext: and the SHA-256 of issuer, line feed and subject, as sijil whoami shows it");
        rule->separate[rule->separate_count++] = key;
    }
    return SUCCESS;
}

static struct result read_binding(const char *bound_to, struct token_demand *tokens, struct error *err)
{
    if (bound_to == NULL) return SUCCESS;
    tokens->any = strcmp(bound_to, "any") == 0;
    tokens->key = strcmp(bound_to, "key") == 0;
    tokens->certificate = strcmp(bound_to, "certificate") == 0;
    if (tokens->any || tokens->key || tokens->certificate) return SUCCESS;
    return failure(err, ERROR_INVALID, "tokens.bound_to: any, key or certificate");
}

static struct result read_tokens(const json_t *json, struct token_demand *tokens, struct error *err)
{
    const char *bound_to = NULL, *acts = NULL;
    json_int_t lifetime = 0;

    if (json == NULL) return SUCCESS;
    TRY(document_unpack(json, "tokens", err, "{s?:s, s?:I, s?:s}", "bound_to", &bound_to, "lifetime_max", &lifetime, "acts",
                        &acts));
    if (acts != NULL && strcmp(acts, "signed") != 0) return failure(err, ERROR_INVALID, "tokens.acts: signed");
    tokens->signed_acts = acts != NULL;
    TRY(read_binding(bound_to, tokens, err));
    if (json_object_get(json, "lifetime_max") == NULL) return SUCCESS;
    if (lifetime < PERSONS_LIFETIME_MIN || lifetime > PERSONS_LIFETIME_MAX)
        return failure(err, ERROR_INVALID, "tokens.lifetime_max: %d to %d seconds", PERSONS_LIFETIME_MIN, PERSONS_LIFETIME_MAX);
    tokens->lifetime_max_s = (unsigned)lifetime;
    return SUCCESS;
}

struct result persons_rule_read(const struct document *document, struct persons_rule *rule_out, struct error *err)
{
    struct persons_rule rule = {0};
    const json_t *separate = NULL, *tokens = NULL;

    TRY(check_head(document, err));
    TRY(document_unpack(json_object_get(document->json, "body"), "the body of persons", err, "{s:s, s?:o, s?:o}", "issuer",
                        &rule.issuer, "separate", &separate, "tokens", &tokens));
    TRY(document_check_issuer(rule.issuer, err));
    TRY(read_separate(separate, &rule, err));
    TRY(read_tokens(tokens, &rule.tokens, err));
    *rule_out = rule;
    return SUCCESS;
}

struct result document_check_persons_rule(const struct document *document, const struct document_trust *trust, struct error *err)
{
    struct persons_rule rule;

    if (document->is_withdrawn) {
        TRY(check_head(document, err));
        TRY(document_check_empty(document, "persons", err));
    } else {
        TRY(persons_rule_read(document, &rule, err));
    }
    return document_check_persons(document, trust, "a document of persons", err);
}
