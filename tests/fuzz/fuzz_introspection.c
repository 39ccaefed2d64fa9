/* What issuers answer about opaque tokens, the file that says whom to ask, and texts that may be such tokens. */
#include <assert.h>
#include <string.h>

#include "authz/introspection.h"
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_answer(struct bytes text)
{
    OWNED_JSON claims = NULL;
    struct error err = {0};

    if (!introspection_answer_read(text, "https://i", &claims, &err).ok) {
        assert(err.message[0] != '\0' && claims == NULL);
        return;
    }
    if (claims == NULL) return;
    assert(json_is_true(json_object_get(claims, "active")));
    assert(strcmp(json_text_of(claims, "iss"), "https://i") == 0);
}

static void check_file(struct bytes text)
{
    struct introspection_client clients[INTROSPECTION_ISSUERS_MAX];
    struct error err = {0};
    size_t count = 0;

    if (!introspection_clients_read(text, clients, &count, &err).ok) {
        assert(err.message[0] != '\0');
        return;
    }
    assert(count <= INTROSPECTION_ISSUERS_MAX);
    for (size_t i = 0; i < count; i++)
        assert(issuer_url_is_valid(clients[i].issuer) && issuer_keys_url_is_valid(clients[i].endpoint) &&
               clients[i].secret[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes text = {data, size};

    check_answer(text);
    check_file(text);
    if (introspection_token_is_opaque(text)) assert(size <= INTROSPECTION_TOKEN_MAX && memchr(data, '\n', size) == NULL);
    return 0;
}
