#include "client/dpop_offer.h"

#include <string.h>
#include <strings.h>

#include "base/json.h"

/* A proxy between may give the registry another host, and then the registry would refuse proofs for the URLs that the client knows. */
static bool is_known_by(const json_t *metadata, const char *host)
{
    const char *endpoint = json_string_value(json_object_get(metadata, "token_endpoint"));
    const size_t scheme = strlen("https://"), length = strlen(host);

    return endpoint != NULL && strncmp(endpoint, "https://", scheme) == 0 && strncasecmp(endpoint + scheme, host, length) == 0 &&
           endpoint[scheme + length] == '/';
}

static bool offers(const struct http_response *response, const char *host)
{
    OWNED_JSON metadata = NULL;
    struct error ignored = {0};
    const json_t *each;
    size_t i;

    if (response->status != 200 || !json_read(buffer_bytes(&response->body), HTTP_ANSWER_MAX, &metadata, &ignored).ok)
        return false;
    if (!is_known_by(metadata, host)) return false;
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
    if (!called.ok || !offers(&response, http_host(http))) http_use_key(http, NULL);
    return called;
}
