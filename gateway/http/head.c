/* Copies the head of a request out of libmicrohttpd's memory into the arena, and checks it. */
#include <string.h>

#include "gateway/http/exchange_priv.h"

struct copying {
    struct arena *arena;
    struct fields fields;
    bool is_broken;
};

static enum MHD_Result copy_field(void *context, enum MHD_ValueKind kind, const char *name, size_t name_size, const char *value,
                                  size_t value_size)
{
    struct copying *copying = context;
    struct fields *fields = &copying->fields;
    struct field field = {.name = arena_copy_text(copying->arena, (struct bytes){(const uint8_t *)name, name_size}), .value = ""};

    (void)kind;
    if (value != NULL) field.value = arena_copy_text(copying->arena, (struct bytes){(const uint8_t *)value, value_size});
    if (field.name == NULL || field.value == NULL) {
        copying->is_broken = true;
        return MHD_NO;
    }
    if (fields->count <= REQUEST_HEADERS_MAX) fields->list[fields->count++] = field;
    return MHD_YES;
}

/* Spaces after a value are not part of it (RFC 9110 section 5.5). False: out of memory. */
static bool trim_values(struct arena *arena, struct fields *fields)
{
    for (size_t i = 0; i < fields->count; i++) {
        const char *value = fields->list[i].value;
        const size_t whole = strlen(value);
        size_t length = whole;
        while (length > 0 && (value[length - 1] == ' ' || value[length - 1] == '\t')) length--;
        if (length == whole) continue;
        fields->list[i].value = arena_copy_text(arena, (struct bytes){(const uint8_t *)value, length});
        if (fields->list[i].value == NULL) return false;
    }
    return true;
}

bool head_take(struct http_exchange *exchange, const char *method, const char *version, struct http_refusal *refusal_out)
{
    struct copying copying = {.arena = exchange->arena};

    copying.fields.list = arena_take(exchange->arena, (REQUEST_HEADERS_MAX + 1) * sizeof(struct field));
    *refusal_out = (struct http_refusal){.status = 503, .why = "no memory"};
    if (copying.fields.list == NULL) return false;
    *refusal_out = (struct http_refusal){.status = 414, .why = "the request target is too long"};
    if (exchange->request_target == NULL) return false;

    (void)MHD_get_connection_values_n(exchange->mhd, MHD_HEADER_KIND, copy_field, &copying);
    if (copying.fields.count > REQUEST_HEADERS_MAX)
        *refusal_out = (struct http_refusal){.status = 431, .why = "the headers are too large"};
    else *refusal_out = (struct http_refusal){.status = 503, .why = "no memory"}; /* the arena has no room for all headers */
    if (copying.is_broken) return false;

    const struct http_head head = {
        .method = method,
        .version = version,
        .target = {(const uint8_t *)exchange->request_target, exchange->request_target_length},
        .headers = copying.fields,
    };
    if (!http_check(&head, &exchange->server->options.limits, &exchange->framing, refusal_out)) return false;
    *refusal_out = (struct http_refusal){.status = 503, .why = "no memory"};
    if (!trim_values(exchange->arena, &copying.fields)) return false;
    exchange->headers = copying.fields;
    *refusal_out = (struct http_refusal){.status = 501, .why = "this method is not known here"};
    return method_find(method, &exchange->method);
}
