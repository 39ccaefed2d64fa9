/* The payload of a token with a right signature, from a careless or hostile issuer. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "authz/claims.h"
#include "authz/run_token.h"
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The source of a run's token: what is accepted names exactly one lease. */
static void read_run(const json_t *payload, struct principal *principal)
{
    const char *subject = json_text_of(payload, "sub");
    const struct claims claims = {.subject = subject, .confirmation = "x"};
    char again[sizeof principal->source];
    struct run_token token;
    struct error err = {0};

    if (subject == NULL || strncmp(subject, "run:", 4) != 0 || !run_token_read(&claims, principal, &err).ok) return;
    assert(run_token_of(principal, &token) && uuid_equal(&token.run, &principal->id) && principal->access_count == 0);
    (void)snprintf(again, sizeof again, "lease:%lld:%lld:%s", (long long)token.attempt, (long long)token.node, token.key);
    assert(strcmp(again, principal->source) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct claims_rule rule = {
        .audience = "us", .lifetime_max_s = 900, .subject_max = CLAIMS_SUBJECT_MAX, .now_ms = 1700000000000};
    struct principal principal = {0};
    OWNED_JSON payload = NULL;
    struct claims claims;
    struct error err = {0};

    if (!json_read((struct bytes){data, size}, 65536, &payload, &err).ok || !json_is_object(payload)) return 0;
    if (claims_check(payload, &rule, &claims, &err).ok) {
        assert(strlen(claims.subject) <= rule.subject_max && claims.subject[0] != '\0' && claims.issuer != NULL);
        assert(claims.expires_s * 1000 > rule.now_ms && claims.confirmation == NULL);
        assert(claims.issued_s >= 0 && claims.issued_s < claims.expires_s && claims.expires_s < INT64_C(1) << 40);
        const json_t *audience = json_object_get(payload, "aud"); /* text, or a list of one (RFC 7519, 4.1.3) */
        assert(!json_is_array(audience) || json_array_size(audience) == 1);
        assert(strcmp(json_string_value(json_is_array(audience) ? json_array_get(audience, 0) : audience), rule.audience) == 0);
    } else {
        assert(err.kind == ERROR_DENIED && err.message[0] != '\0');
    }
    if (!claims_read_rights(payload, &principal, &err).ok) return 0;
    assert(principal.access_count <= PRINCIPAL_ACCESS_MAX);
    for (size_t i = 0; i < principal.access_count; i++)
        assert(memchr(principal.access[i].name, '\0', sizeof principal.access[i].name) != NULL);
    read_run(payload, &principal);
    return 0;
}
