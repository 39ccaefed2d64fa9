/* Pages of lists: docs/api.md. */
#include <string.h>

#include "base/text.h"
#include "gateway/api/api_priv.h"

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

static struct result add_rows(struct request *request, const struct api_list *list, json_t *rows, struct error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        json_t *row = NULL;
        TRY(list->describe(request, list->rows, i, &row, err));
        if (row != NULL && json_array_append_new(rows, row) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    }
    return SUCCESS;
}

struct result api_answer_list(struct request *request, const struct api_list *list, struct error *err)
{
    char next[API_CURSOR_SIZE] = "";
    OWNED_JSON rows = json_array();

    if (rows == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(add_rows(request, list, rows, err));
    OWNED_JSON value = json_pack("{s:O}", list->name, rows);
    if (list->has_more) list->cursor(list->rows, list->count - 1, next);
    if (value == NULL || (list->has_more && json_object_set_new(value, "next", json_string(next)) != 0))
        return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    response_json(request, 200, value);
    return SUCCESS;
}
