#include "client/provider/metadata.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"

bool provider_url_is_good(const char *url)
{
    static const char start[] = "https://";

    if (strncmp(url, start, strlen(start)) != 0 || strlen(url) >= PROVIDER_ENDPOINT_SIZE) return false;
    const char *authority = url + strlen(start);
    const size_t length = strcspn(authority, "/?");
    for (const char *letter = url; *letter != '\0'; letter++)
        if (*letter <= ' ' || *letter > '~' || strchr("\"#'<>\\^`{|}", *letter) != NULL) return false;
    return length > 0 && authority[0] != ':' && memchr(authority, '@', length) == NULL;
}

static bool lists(const json_t *object, const char *key, const char *wanted)
{
    const json_t *list = json_object_get(object, key);

    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (text != NULL && strcmp(text, wanted) == 0) return true;
    }
    return false;
}

static struct result take_endpoint(const json_t *document, const char *key, char destination[PROVIDER_ENDPOINT_SIZE],
                                   struct error *err)
{
    const char *text = json_text_of(document, key);

    if (json_object_get(document, key) == NULL) return SUCCESS;
    if (text == NULL || !provider_url_is_good(text))
        return failure(err, ERROR_INVALID, "the issuer's %s is no https URL that can be called", key);
    (void)text_copy(destination, PROVIDER_ENDPOINT_SIZE, text);
    return SUCCESS;
}

static void take_abilities(const json_t *document, struct provider_metadata *metadata)
{
    static const char revokers[] = "revocation_endpoint_auth_methods_supported",
                      challenges[] = "code_challenge_methods_supported";

    metadata->names_itself = json_is_true(json_object_get(document, "authorization_response_iss_parameter_supported"));
    metadata->without_s256 = json_object_get(document, challenges) != NULL && !lists(document, challenges, "S256");
    metadata->revokes_for_bearer = lists(document, revokers, "bearer") && !lists(document, revokers, "none");
}

struct result metadata_parse(struct bytes text, const char *url, struct provider_metadata *metadata_out, struct error *err)
{
    struct provider_metadata metadata = {0};
    OWNED_JSON document = NULL;

    TRY(json_read_any_number(text, PROVIDER_ANSWER_MAX, &document, err));
    const char *issuer = json_text_of(document, "issuer");
    if (issuer == NULL || strcmp(issuer, url) != 0)
        return failure(err, ERROR_DENIED,
                       "what is found at %.150s is about another issuer; its URL must be the same, letter by letter", url);
    TRY(take_endpoint(document, "token_endpoint", metadata.token, err));
    TRY(take_endpoint(document, "authorization_endpoint", metadata.authorization, err));
    TRY(take_endpoint(document, "device_authorization_endpoint", metadata.device, err));
    TRY(take_endpoint(document, "revocation_endpoint", metadata.revocation, err));
    if (metadata.token[0] == '\0') return failure(err, ERROR_INVALID, "the issuer says nothing about a token endpoint");
    take_abilities(document, &metadata);
    *metadata_out = metadata;
    return SUCCESS;
}
