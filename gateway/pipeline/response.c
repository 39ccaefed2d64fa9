#include "gateway/pipeline/response.h"

#include <assert.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "scim/attribute.h"

#define WARNING_SIZE      600  /* a sentence with names of 255 letters */
#define WARNINGS_SIZE_MAX 4096 /* of all warnings in an answer, by the specification */
#define WARNINGS_MAX      4    /* so that the pipeline has room for its own */
#define HEADER_VALUE_SIZE 4224 /* a challenge may have 4096 characters; all others are much shorter */

static struct response *begin(struct request *request, unsigned status)
{
    struct response *response = request->response_space;
    struct field *list = response->headers.list;

    *response = (struct response){.status = status, .headers.list = list};
    if (list == NULL) response->headers.list = arena_take(request->arena, RESPONSE_HEADERS_MAX * sizeof *list);
    response->is_broken = response->headers.list == NULL;
    request->response = response;
    return response;
}

void response_empty(struct request *request, unsigned status)
{
    (void)begin(request, status);
}

void response_not_modified(struct request *request, uint64_t length)
{
    begin(request, 304)->unsent_length = length;
}

void response_bytes(struct request *request, unsigned status, const char *content_type, struct bytes body)
{
    begin(request, status)->body = body;
    if (content_type != NULL) response_header(request, "Content-Type", "%s", content_type);
}

static void copied(struct request *request, unsigned status, const char *content_type, struct bytes body)
{
    const char *copy = arena_copy_text(request->arena, body);

    response_bytes(request, status, content_type,
                   copy == NULL ? ((struct bytes){0}) : (struct bytes){(const uint8_t *)copy, body.length});
    if (copy == NULL) request->response->is_broken = true;
}

void response_text(struct request *request, unsigned status, const char *text)
{
    copied(request, status, "text/plain; charset=utf-8", bytes_of_text(text));
}

/* When memory runs out, jansson 2.14 leaves out a member's name and returns success. */
static void json_body(struct request *request, unsigned status, const char *content_type, const json_t *value)
{
    const unsigned before = json_lacks();
    char *text = value == NULL ? NULL : json_dumps(value, JSON_COMPACT);

    copied(request, status, content_type, text == NULL ? ((struct bytes){0}) : bytes_of_text(text));
    if (text == NULL || json_lacks() != before) request->response->is_broken = true;
    free(text);
}

void response_json(struct request *request, unsigned status, const json_t *value)
{
    json_body(request, status, "application/json", value);
}

void response_from_source(struct request *request, unsigned status, const char *content_type,
                          const struct response_source *source)
{
    struct response *response = begin(request, status);
    struct response_source *copy = arena_take(request->arena, sizeof *copy);

    assert(request->source == NULL);
    if (copy == NULL) { /* no other code would close it */
        response->is_broken = true;
        if (source->close != NULL) source->close(source->state);
        return;
    }
    *copy = *source;
    response->source = request->source = copy;
    if (content_type != NULL) response_header(request, "Content-Type", "%s", content_type);
}

/* ---- bodies on the heap ---- */

#define COPIED_MAX ((size_t)128 << 10) /* a request's arena has room for several of these */

struct kept_body {
    struct buffer bytes;
    _Atomic int *count; /* NULL: none */
};

static bool read_kept(void *state, uint64_t offset, uint8_t *destination, size_t length)
{
    const struct kept_body *kept = state;

    memcpy(destination, kept->bytes.data + offset, length);
    return true;
}

static struct result read_on_a_worker(void *state, uint64_t offset, uint8_t *destination, size_t length, struct error *err)
{
    (void)err;
    (void)read_kept(state, offset, destination, length);
    return SUCCESS;
}

static void close_kept(void *state)
{
    struct kept_body *kept = state;

    buffer_done(&kept->bytes);
    if (kept->count != NULL) atomic_fetch_sub(kept->count, 1);
    free(kept);
}

/* A small one is copied, and so is one that the heap has no place for. */
void response_buffer(struct request *request, unsigned status, const char *content_type, struct buffer *body, _Atomic int *count)
{
    struct kept_body *kept = body->length > COPIED_MAX ? memory_zeroed(1, sizeof *kept) : NULL;

    if (kept == NULL) {
        copied(request, status, content_type, buffer_bytes(body));
        buffer_done(body);
        if (count != NULL) atomic_fetch_sub(count, 1);
        return;
    }
    *kept = (struct kept_body){*body, count};
    *body = BUFFER(0);
    const struct response_source source = {
        .state = kept, .length = kept->bytes.length, .read = read_on_a_worker, .read_cached = read_kept, .close = close_kept};
    response_from_source(request, status, content_type, &source);
}

static bool is_clean(const char *text)
{
    for (const char *at = text; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f) return false;
    return true;
}

void response_header(struct request *request, const char *name, const char *format, ...)
{
    struct response *response = request->response;
    char value[HEADER_VALUE_SIZE];
    va_list args;

    assert(response != NULL);
    va_start(args, format);
    const int length = vsnprintf(value, sizeof value, format, args);
    va_end(args);
    if (response->is_broken) return;
    const bool fits = length >= 0 && (size_t)length < sizeof value && response->headers.count < RESPONSE_HEADERS_MAX;
    struct field field = {.name = arena_copy_text(request->arena, bytes_of_text(name)),
                          .value = arena_copy_text(request->arena, bytes_of_text(value))};
    if (!fits || !is_clean(value) || field.name == NULL || field.value == NULL)
        response->is_broken = true; /* becomes a 500, because an incomplete answer could mislead */
    else response->headers.list[response->headers.count++] = field;
}

/* Writes a quoted-string of RFC 9110, section 5.6.4; other characters than printable ASCII are left out. */
static void quote(const char *text, char quoted_out[2 * WARNING_SIZE + 16])
{
    char *to = quoted_out + snprintf(quoted_out, 16, "299 - \"");

    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\') *to++ = '\\';
        *to++ = (char)(*at >= ' ' && *at <= '~' ? *at : '?');
    }
    *to++ = '"';
    *to = '\0';
}

static bool has_room_for(const struct response *response, const char *warning)
{
    size_t length = strlen(warning), count = 0;

    for (size_t i = 0; i < response->headers.count; i++) {
        if (strcmp(response->headers.list[i].name, "Warning") != 0) continue;
        length += strlen(response->headers.list[i].value);
        count++;
    }
    return length <= WARNINGS_SIZE_MAX && count < WARNINGS_MAX;
}

void response_warning(struct request *request, const char *format, ...)
{
    char text[WARNING_SIZE], quoted[2 * WARNING_SIZE + 16];
    va_list args;

    assert(request->response != NULL);
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    quote(text, quoted);
    if (has_room_for(request->response, quoted)) response_header(request, "Warning", "%s", quoted);
}

void response_oci_error(struct request *request, unsigned status, const char *code, const char *message, const json_t *detail)
{
    OWNED_JSON body = json_pack("{s:[{s:s, s:s, s:O*}]}", "errors", "code", code, "message", message, "detail", detail);
    json_body(request, status, "application/json", body);
}

void response_unknown(struct request *request)
{
    if (request->speaks_oci)
        response_oci_error(request, 404, "NAME_UNKNOWN", "there is no such repository or object, or none for you", NULL);
    else response_problem(request, 404, "There is no such thing", "it does not exist, or not for you");
}

void response_error(struct request *request, unsigned status, const char *code, const char *title, const char *why)
{
    if (request->speaks_oci) response_oci_error(request, status, code, why, NULL);
    else response_problem(request, status, title, why);
}

void response_not_allowed(struct request *request, unsigned methods)
{
    char allow[64] = "";
    size_t length = 0;

    for (int method = 0; method < METHOD_COUNT; method++)
        if ((methods & METHOD_BIT(method)) != 0)
            length += (size_t)snprintf(allow + length, sizeof allow - length, "%s%s", length == 0 ? "" : ", ",
                                       method_name((enum method)method));
    response_error(request, 405, "UNSUPPORTED", "Method not allowed", "this path has no such method");
    response_header(request, "Allow", "%s", allow);
}

/* RFC 7644, 3.12. The status is a text there. */
static void scim_problem(struct request *request, unsigned status, const char *message)
{
    const char *detail = message;
    const char *type = scim_error_type(message, &detail);
    char number[16];

    (void)snprintf(number, sizeof number, "%u", status);
    OWNED_JSON body =
        json_pack("{s:[s], s:s, s:s*, s:s}", "schemas", SCIM_ERROR_URN, "status", number, "scimType", type, "detail", detail);
    json_body(request, status, "application/scim+json", body);
}

void response_problem_with(struct request *request, unsigned status, const char *title, const char *detail, const json_t *extra)
{
    char instance[64];

    if (request->speaks_scim) {
        scim_problem(request, status, detail);
        return;
    }

    (void)snprintf(instance, sizeof instance, "urn:uuid:%s", request->id);
    const char *type = extra == NULL ? NULL : json_text_of(extra, "type");
    OWNED_JSON body = json_pack("{s:s, s:s, s:i, s:s, s:s}", "type", type == NULL ? "about:blank" : type, "title", title,
                                "status", (int)status, "detail", detail, "instance", instance);
    OWNED_JSON beside = extra == NULL ? NULL : json_deep_copy(extra);
    if (body != NULL && beside != NULL)
        (void)json_object_update_missing(body, beside); /* without memory only the extra members are missing */
    json_body(request, status, "application/problem+json", body);
}

void response_problem(struct request *request, unsigned status, const char *title, const char *detail)
{
    response_problem_with(request, status, title, detail, NULL);
}
