#include "gateway/http/http_check.h"

#include <string.h>

#include "base/text.h"

#define REFUSE(number, text)                                                     \
    do {                                                                         \
        *refusal_out = (struct http_refusal){.status = (number), .why = (text)}; \
        return false;                                                            \
    } while (0)

/* RFC 9110 section 5.6.2. */
static bool is_token(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~";
    const size_t length = strspn(text, letters);
    return length > 0 && text[length] == '\0';
}

/* Printable ASCII and tabs: other bytes have no meaning that two readers share (RFC 9110 section 5.5). */
static bool is_field_value(const char *text)
{
    for (const char *at = text; *at != '\0'; at++)
        if ((*at < ' ' || *at > '~') && *at != '\t') return false;
    return true;
}

static size_t count_of(const struct http_head *head, const char *name, const char **value_out)
{
    size_t count = 0;

    for (size_t i = 0; i < head->headers.count; i++) {
        if (strcasecmp(head->headers.list[i].name, name) != 0) continue;
        *value_out = head->headers.list[i].value;
        count++;
    }
    return count;
}

static bool check_line(const struct http_head *head, const struct http_limits *limits, struct http_refusal *refusal_out)
{
    if (!is_token(head->method)) REFUSE(400, "the method is not a token");
    if (strcmp(head->version, "HTTP/1.1") != 0 && strcmp(head->version, "HTTP/1.0") != 0) REFUSE(505, "HTTP/1.1 only");
    const uint8_t *mark = memchr(head->target.data, '?', head->target.length);
    const size_t path = mark == NULL ? head->target.length : (size_t)(mark - head->target.data);
    for (size_t i = 0; i < head->target.length; i++) {
        if (head->target.data[i] > ' ' && head->target.data[i] <= '~') continue;
        *refusal_out =
            (struct http_refusal){.status = 400,
                                  .why = "the request target holds a space or a character that must be percent-encoded",
                                  .is_of_path = i < path};
        return false;
    }
    if (path > limits->path) REFUSE(414, "the path is too long");
    if (head->target.length - path > limits->query) REFUSE(414, "the query is too long");
    return true;
}

static bool check_fields(const struct http_head *head, const struct http_limits *limits, struct http_refusal *refusal_out)
{
    size_t size = 0;

    if (head->headers.count > REQUEST_HEADERS_MAX) REFUSE(431, "too many headers");
    for (size_t i = 0; i < head->headers.count; i++) {
        const struct field *field = &head->headers.list[i];
        size += strlen(field->name) + strlen(field->value) + 4;
        if (!is_token(field->name)) REFUSE(400, "a header's name is not a token");
        if (!is_field_value(field->value)) REFUSE(400, "a header holds a control character or one outside ASCII");
    }
    if (size > limits->headers) REFUSE(431, "the headers are too large");
    return true;
}

/* Headers where two readers could pick different values may stand at most once. */
static bool check_single(const struct http_head *head, struct http_refusal *refusal_out)
{
    static const char *const once[] = {
        "Authorization",   "Content-Length", "Content-Range", "Content-Type",      "DPoP",       "Expect", "Host",
        "Idempotency-Key", "If-Range",       "Range",         "Transfer-Encoding", "traceparent"};
    const char *value = NULL;

    for (size_t i = 0; i < sizeof once / sizeof once[0]; i++)
        if (count_of(head, once[i], &value) > 1) REFUSE(400, "a header that may stand once stands twice");
    if (count_of(head, "Host", &value) == 0) REFUSE(400, "there is no Host");
    return true;
}

/* RFC 9112 section 6. */
static bool check_framing(const struct http_head *head, struct http_framing *framing_out, struct http_refusal *refusal_out)
{
    const char *length = NULL, *coding = NULL, *expect = NULL;
    struct http_framing framing = {0};

    const bool has_length = count_of(head, "Content-Length", &length) > 0;
    framing.is_chunked = count_of(head, "Transfer-Encoding", &coding) > 0;
    if (framing.is_chunked && has_length) REFUSE(400, "Content-Length and Transfer-Encoding exclude each other");
    if (framing.is_chunked && strcasecmp(coding, "chunked") != 0) REFUSE(400, "the only Transfer-Encoding is chunked");
    if (framing.is_chunked && strcmp(head->version, "HTTP/1.0") == 0) REFUSE(400, "HTTP/1.0 has no Transfer-Encoding");
    if (has_length && !text_to_u64(bytes_of_text(length), INT64_MAX, &framing.length))
        REFUSE(400, "Content-Length is not a number");
    framing.has_body = framing.is_chunked || framing.length > 0;
    if (count_of(head, "Expect", &expect) > 0) {
        if (strcasecmp(expect, "100-continue") != 0) REFUSE(417, "the only expectation is 100-continue");
        framing.expects_continue = framing.has_body && strcmp(head->version, "HTTP/1.1") == 0;
    }
    *framing_out = framing;
    return true;
}

bool http_check(const struct http_head *head, const struct http_limits *limits, struct http_framing *framing_out,
                struct http_refusal *refusal_out)
{
    return check_line(head, limits, refusal_out) && check_fields(head, limits, refusal_out) && check_single(head, refusal_out) &&
           check_framing(head, framing_out, refusal_out);
}
