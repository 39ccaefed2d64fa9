#include "client/dpop_offer.h"

#include <string.h>

#include "base/json.h"

static bool offers(const struct http_response *response)
{
    OWNED_JSON metadata = NULL;
    struct error ignored = {0};
    const json_t *each;
    size_t i;

    if (response->status != 200 || !json_read(buffer_bytes(&response->body), HTTP_ANSWER_MAX, &metadata, &ignored).ok)
        return false;
    json_array_foreach (json_object_get(metadata, "dpop_signing_alg_values_supported"), i, each)
        if (json_is_string(each) && strcmp(json_string_value(each), "ES256") == 0) return true;
    return false;
}

struct result dpop_offer(struct http *http, const struct ecdsa_key *key, struct error *err)
{
    const struct http_request request = {.method = "GET", .path = "/.well-known/oauth-authorization-server"};
    OWNED_RESPONSE response = RESPONSE;

    http_use_key(http, key);
    const struct result called = http_call(http, &request, &response, err);
    if (!called.ok || !offers(&response)) http_use_key(http, NULL);
    return called;
}
