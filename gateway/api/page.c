/* Pages of lists: docs/api.md. */
#include <string.h>

#include "base/text.h"
#include "gateway/api/api_priv.h"
#include "gateway/http/percent.h"
#include "gateway/pipeline/route.h"

#define LINK_MAX 8192 /* the path and the arguments of a request, with escapes */

bool api_page(struct request *request, struct api_page *page_out)
{
    const char *limit = request_argument(request, "limit"), *after = request_argument(request, "after");
    uint64_t value = API_LIMIT_DEFAULT;

    if (limit != NULL && (!text_to_u64(bytes_of_text(limit), API_LIMIT_MAX, &value) || value == 0)) {
        response_problem(request, 400, "The request breaks a rule", "limit is a number from 1 to 1000");
        return false;
    }
    *page_out = (struct api_page){.limit = (unsigned)value, .after = after == NULL ? "" : after};
    return true;
}

struct result api_after_id(const struct api_page *page, struct uuid *id_out, struct error *err)
{
    if (page->after[0] == '\0' || uuid_parse(bytes_of_text(page->after), id_out)) return SUCCESS;
    return failure(err, ERROR_INVALID, "after is the \"next\" of the page before");
}

struct result api_after_number(const struct api_page *page, int64_t *number_out, struct error *err)
{
    uint64_t number = 0;

    if (page->after[0] == '\0') return SUCCESS;
    if (!text_to_u64(bytes_of_text(page->after), INT64_MAX, &number))
        return failure(err, ERROR_INVALID, "after is the \"next\" of the page before");
    *number_out = (int64_t)number;
    return SUCCESS;
}

struct result api_order(const struct request *request, bool *ascending_out, struct error *err)
{
    const char *order = request_argument(request, "order");

    *ascending_out = order != NULL && strcmp(order, "ascending") == 0;
    if (order == NULL || *ascending_out || strcmp(order, "descending") == 0) return SUCCESS;
    return failure(err, ERROR_INVALID, "order is ascending or descending");
}

static struct result add_rows(struct request *request, const struct api_list *list, json_t *rows, struct error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        json_t *row = NULL;
        TRY(list->describe(request, list->rows, i, &row, err));
        if (row != NULL && json_array_append_new(rows, row) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    }
    return SUCCESS;
}

static struct result add_escaped(const struct request *request, const char *text, struct buffer *link, struct error *err)
{
    const char *escaped = percent_encode(text, request->arena);

    return escaped == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for a list") : buffer_add_text(link, escaped, err);
}

/* The path of the request, as its route writes it. A name keeps its slashes; it needs no escapes, because it exists. */
static struct result add_path(const struct request *request, struct buffer *link, struct error *err)
{
    static const char name[] = "{name}", reference[] = "{reference}";

    for (const char *at = request->route->pattern; *at != '\0';) {
        const size_t plain = strcspn(at, "{");
        TRY(buffer_add(link, at, plain, err));
        at += plain;
        if (strncmp(at, name, sizeof name - 1) == 0) {
            TRY(buffer_add_text(link, request->name, err));
            at += sizeof name - 1;
        } else if (*at != '\0') {
            TRY(add_escaped(request, request->reference, link, err));
            at += sizeof reference - 1;
        }
    }
    return SUCCESS;
}

struct result api_link_next(struct request *request, const char *next, struct error *err)
{
    struct buffer OWNED_BUFFER link = BUFFER(LINK_MAX);

    TRY(add_path(request, &link, err));
    TRY(buffer_add_text(&link, "?", err));
    for (size_t i = 0; i < request->arguments.count; i++) {
        const struct field *argument = &request->arguments.list[i];
        if (strcmp(argument->name, "after") == 0) continue;
        TRY(buffer_format(&link, err, "%s=", argument->name));
        TRY(add_escaped(request, argument->value, &link, err));
        TRY(buffer_add_text(&link, "&", err));
    }
    TRY(buffer_add_text(&link, "after=", err));
    TRY(add_escaped(request, next, &link, err));
    response_header(request, "Link", "<%s>; rel=\"next\"", buffer_text(&link));
    return SUCCESS;
}

/* `next`: the cursor of the page after this one; NULL: this is the last one. */
static struct result answer_page(struct request *request, const char *name, json_t *rows, const char *next, struct error *err)
{
    OWNED_JSON value = json_pack("{s:O, s:s*}", name, rows, "next", next);

    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    response_json(request, 200, value);
    return next == NULL ? SUCCESS : api_link_next(request, next, err);
}

struct result api_answer_list(struct request *request, const struct api_list *list, struct error *err)
{
    char next[API_CURSOR_SIZE];
    OWNED_JSON rows = json_array();

    if (rows == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(add_rows(request, list, rows, err));
    if (list->has_more) list->cursor(list->rows, list->count - 1, next);
    return answer_page(request, list->name, rows, list->has_more ? next : NULL, err);
}

struct result api_answer_rows(struct request *request, const struct api_page *page, const struct api_rows *rows,
                              struct error *err)
{
    const size_t count = rows->count < page->limit ? rows->count : page->limit;
    OWNED_JSON list = json_array();

    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(list, rows->describe((const char *)rows->rows + i * rows->row_size)) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    const char *next = json_text_of(json_array_get(list, count - 1), rows->cursor);
    return answer_page(request, rows->name, list, rows->count > count ? next : NULL, err);
}
