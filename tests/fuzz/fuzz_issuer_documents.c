/* What issuers publish about themselves: metadata, and key sets that the server fetches. */
#include <assert.h>
#include <string.h>

#include "authz/issuer_documents.h"
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_metadata(struct bytes text)
{
    struct issuer_metadata metadata;
    struct error err = {0};

    if (!issuer_metadata_read(text, "https://i.example/a", &metadata, &err).ok) {
        assert(err.message[0] != '\0');
        return;
    }
    assert(issuer_keys_url_is_valid(metadata.keys_url) && strncmp(metadata.keys_url, "https://", 8) == 0);
}

/* What is kept makes an issuer with as many keys, and reading it again gives the same text: else an issuer would change its keys each time. */
static void check_keys(struct bytes text)
{
    const unsigned all = (1U << JOSE_ALGORITHM_COUNT) - 1;
    struct buffer OWNED_BUFFER jwks = BUFFER(ISSUER_JWKS_MAX), again = BUFFER(ISSUER_JWKS_MAX);
    OWNED_JSON shown = NULL;
    OWNED_JSON shown_again = NULL;
    struct error err = {0};

    const bool is_read = issuer_keys_read(text, all, &jwks, &shown, &err).ok;
    assert(shown != NULL && json_array_size(shown) <= ISSUER_SHOWN_KEYS);
    if (!is_read) {
        assert(err.message[0] != '\0');
        return;
    }
    assert(issuer_keys_read(buffer_bytes(&jwks), all, &again, &shown_again, &err).ok);
    assert(strcmp(buffer_text(&jwks), buffer_text(&again)) == 0);
    assert(strstr(buffer_text(&jwks), "\"d\"") == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes text = {data, size};

    check_metadata(text);
    check_keys(text);
    return 0;
}
