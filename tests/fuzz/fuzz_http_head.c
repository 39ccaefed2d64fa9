/* A head as libmicrohttpd parsed it: a head that http_check() accepts has only one meaning (RFC 9112). */
#include <assert.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "gateway/http/http_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The text up to `end` or the end of all; moves `left` behind it. Cut at a NUL, as C strings are. */
static const char *take(struct bytes *left, char end, struct arena *arena)
{
    const uint8_t *stop = memchr(left->data, end, left->length);
    const size_t length = stop == NULL ? left->length : (size_t)(stop - left->data);
    const char *text = arena_copy_text(arena, (struct bytes){left->data, length});

    assert(text != NULL);
    left->data += length + (stop != NULL);
    left->length -= length + (stop != NULL);
    return text;
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

static void check_accepted(const struct http_head *head, const struct http_framing *framing)
{
    const char *value = NULL;
    const size_t lengths = count_of(head, "content-length", &value);

    assert(lengths <= 1 && (lengths == 0 || strspn(value, "0123456789") == strlen(value)));
    const size_t codings = count_of(head, "transfer-encoding", &value);
    assert(codings + lengths <= 1 && framing->is_chunked == (codings == 1));
    assert(!framing->expects_continue || framing->has_body);
    assert(count_of(head, "host", &value) == 1 && count_of(head, "authorization", &value) <= 1);
    assert(memchr(head->target.data, ' ', head->target.length) == NULL);
    for (size_t i = 0; i < head->headers.count; i++)
        assert(strpbrk(head->headers.list[i].value, "\r\n") == NULL && strpbrk(head->headers.list[i].name, ": \r\n") == NULL);
}

/* A byte that does not count, then "METHOD TARGET VERSION\n" and lines "name:value\n". */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct http_limits limits = {.headers = 16384, .path = 2048, .query = 4096};
    static struct field fields[REQUEST_HEADERS_MAX + 2];
    OWNED(arena) *arena = NULL;
    struct http_framing framing;
    struct http_refusal refusal = {0};
    struct error err;
    struct bytes left = {data, size};

    if (size < 1 || !arena_new((size_t)4 << 20, &arena, &err).ok) return 0;
    struct http_head head = {.headers.list = fields};
    left.data++;
    left.length--;
    head.method = take(&left, ' ', arena);
    head.target = bytes_of_text(take(&left, ' ', arena));
    head.version = take(&left, '\n', arena);
    for (; left.length > 0 && head.headers.count < REQUEST_HEADERS_MAX + 2; head.headers.count++) {
        fields[head.headers.count].name = take(&left, ':', arena);
        fields[head.headers.count].value = take(&left, '\n', arena);
    }
    if (http_check(&head, &limits, &framing, &refusal)) check_accepted(&head, &framing);
    else assert(refusal.status >= 400 && refusal.status < 600 && refusal.why != NULL);
    return 0;
}
