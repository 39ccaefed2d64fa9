/* Trust rules of strangers: each that is read is bound to an exact id, gives roles inside its scope only, and matches no token without claims. */
#include <assert.h>
#include <string.h>

#include "base/json.h"
#include "documents/format/own_role.h"
#include "documents/format/trust_rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_grants(const struct document *document, const struct trust_rule *rule)
{
    const size_t length = strlen(document->scope);

    assert(rule->grant_count > 0 && rule->grant_count <= TRUST_GRANTS_MAX);
    for (size_t i = 0; i < rule->grant_count; i++) {
        assert(rule->grants[i].on[0] != '\0' && strncmp(rule->grants[i].on, document->scope, length) == 0);
        const char *role = rule->grants[i].role;
        assert(own_role_name_is_valid(role) || (strstr(role, "admin") == NULL && strstr(role, "officer") == NULL));
    }
}

static void check_conditions(const struct trust_rule *rule)
{
    size_t exact = 0;

    assert(rule->condition_count > 0 && rule->condition_count <= TRUST_CONDITIONS_MAX);
    for (size_t i = 0; i < rule->condition_count; i++) {
        assert(claim_pointer_is_valid(rule->conditions[i].pointer));
        if (rule->conditions[i].test != CLAIM_PREFIX) exact++;
    }
    assert(exact > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(document) *document = NULL;
    OWNED_JSON nothing = json_object();
    struct trust_rule rule;
    struct error err = {0};

    if (!document_read_payload(DOCUMENT_TRUST_RULE, (struct bytes){data, size}, &document, &err).ok) return 0;
    if (document->is_withdrawn || !trust_rule_read(document, &rule, &err).ok) return 0;
    check_grants(document, &rule);
    check_conditions(&rule);
    assert(!trust_rule_matches(&rule, nothing) && rule.ttl_max_s <= TRUST_TTL_MAX_S && document->expires_ms > 0);
    return 0;
}
