#include "gateway/http/query.h"

#include <string.h>

#include "gateway/http/percent.h"

static struct result printable(const char *text, struct error *err)
{
    for (const char *at = text; *at != '\0'; at++)
        if (*at < ' ' || *at > '~') return failure(err, ERROR_INVALID, "arguments are printable ASCII, once decoded");
    return SUCCESS;
}

static struct result add_argument(struct bytes part, struct arena *arena, struct fields *fields, struct error *err)
{
    const uint8_t *equals = memchr(part.data, '=', part.length);
    const size_t length = equals == NULL ? part.length : (size_t)(equals - part.data);
    const struct bytes value = equals == NULL ? ((struct bytes){0}) : (struct bytes){equals + 1, part.length - length - 1};
    struct field field = {0};

    if (fields->count == REQUEST_ARGUMENTS_MAX) return failure(err, ERROR_LIMIT, "at most %d arguments", REQUEST_ARGUMENTS_MAX);
    TRY(percent_decode((struct bytes){part.data, length}, true, arena, &field.name, err));
    TRY(percent_decode(value, true, arena, &field.value, err));
    TRY(printable(field.name, err));
    TRY(printable(field.value, err));
    fields->list[fields->count++] = field;
    return SUCCESS;
}

struct result query_read(struct bytes text, struct arena *arena, struct fields *fields_out, struct error *err)
{
    struct fields fields = {.list = arena_take(arena, REQUEST_ARGUMENTS_MAX * sizeof(struct field))};

    if (fields.list == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for arguments");
    for (size_t at = 0; at < text.length;) {
        const uint8_t *mark = memchr(text.data + at, '&', text.length - at);
        const size_t end = mark == NULL ? text.length : (size_t)(mark - text.data);
        if (end > at) TRY(add_argument((struct bytes){text.data + at, end - at}, arena, &fields, err));
        at = end + 1;
    }
    *fields_out = fields;
    return SUCCESS;
}
