#include "gateway/pipeline/request.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "gateway/pipeline/exchange_priv.h"
#include "gateway/pipeline/passing.h"
#include "gateway/pipeline/runner_gate.h"
#include "policy/set.h"

const char *request_next_argument(const struct request *request, const char *key, size_t *at)
{
    while (*at < request->arguments.count) {
        const struct field *field = &request->arguments.list[(*at)++];
        if (strcmp(field->name, key) == 0) return field->value;
    }
    return NULL;
}

const char *request_argument(const struct request *request, const char *key)
{
    size_t at = 0;
    return request_next_argument(request, key, &at);
}

const char *request_header(const struct request *request, const char *name)
{
    return header_find(&request->headers, name);
}

const struct sockaddr *request_client(const struct request *request)
{
    return request->client.ss_family == AF_UNSPEC ? NULL : (const struct sockaddr *)&request->client;
}

struct policy_client request_place(const struct request *request)
{
    return (struct policy_client){.address = request_client(request),
                                  .authorities = request->client_authorities,
                                  .listener = request->client_listener,
                                  .runner = runner_gate_place(request)};
}

struct resource *request_add_pair(struct request *request, enum action action, const char *name)
{
    assert(request->pair_count < ACTION_PAIRS_MAX);
    struct action_pair *pair = &request->pairs[request->pair_count++];

    *pair = (struct action_pair){.action = action};
    (void)snprintf(pair->resource.name, sizeof pair->resource.name, "%s", name);
    return &pair->resource;
}

/* ---- The head ---- */

static void take_address(struct request *request, const struct sockaddr *address)
{
    const struct sockaddr_in *four = (const void *)address;
    const struct sockaddr_in6 *six = (const void *)address;
    char *text = request->client_address;

    (void)snprintf(text, sizeof request->client_address, "unix");
    if (address == NULL) return;
    if (address->sa_family == AF_INET) {
        memcpy(&request->client, address, sizeof *four);
        (void)inet_ntop(AF_INET, &four->sin_addr, text, sizeof request->client_address);
    } else if (address->sa_family == AF_INET6) {
        memcpy(&request->client, address, sizeof *six);
        (void)inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof request->client_address);
    }
}

/* W3C Trace Context, version 00: "00-<32 hex>-<16 hex>-<2 hex>". */
static void take_trace(struct request *request)
{
    const char *value = request_header(request, "traceparent");
    uint8_t trace[16];

    if (value == NULL || strlen(value) != 55 || strncmp(value, "00-", 3) != 0 || value[35] != '-') return;
    if (text_from_hex((struct bytes){(const uint8_t *)value + 3, 32}, trace, sizeof trace)) memcpy(request->trace, value + 3, 32);
}

/* The connection is of the other gateway. It says which key the client has proved there; where the client is, it has decided itself, and the policies
 * are asked here about the place of the gateway, which gets the bytes first. */
static void take_passed(struct request *request)
{
    const char *certificate = request_header(request, PASSED_CERTIFICATE);

    (void)snprintf(request->client_confirmation, sizeof request->client_confirmation, "%.43s",
                   certificate == NULL ? "" : certificate);
    request->client_authorities[0] = '\0';
    request->client_listener = "";
    request->client_runner = NULL;
}

void request_take_head(struct request *request, const struct http_exchange *http)
{
    request->method = http->method;
    request->headers = http->headers;
    request->speaks_oci = http->request_target != NULL && strncmp(http->request_target, "/v2/", 4) == 0;
    take_address(request, http_client(http));
    take_trace(request);
    request->client_runner = http_client_runner(http);
    request->client_names = http_client_names(http);
    request->client_listener = http_client_listener(http);
    (void)snprintf(request->client_authorities, sizeof request->client_authorities, "%s", http_client_authorities(http));
    (void)snprintf(request->client_confirmation, sizeof request->client_confirmation, "%s", http_client_confirmation(http));
    if (request->is_passed) take_passed(request);
}

/* RFC 9110, 15.5.16. */
static bool is_packed(const struct request *request)
{
    const char *coding = request_header(request, "Content-Encoding");

    return coding != NULL && strcasecmp(coding, "identity") != 0;
}

struct result request_check_body(struct request *request, const struct http_framing *framing, struct error *err)
{
    const struct route *route = request->route;

    if (framing->has_body && route->body == BODY_NONE) return failure(err, ERROR_INVALID, "this request has no body");
    if (framing->has_body && route->body != BODY_STREAMED && is_packed(request))
        response_error(request, 415, "UNSUPPORTED", "The body is packed", "send it without Content-Encoding");
    else if (route->body_limit != 0 && framing->length > route->body_limit)
        return failure(err, ERROR_LIMIT, "the body may have at most %zu bytes", route->body_limit);
    return SUCCESS;
}
