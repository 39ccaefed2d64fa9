/* Walks over the pages of a list. */
#include "base/json.h"
#include "client/commands/api_priv.h"

#define PAGES_MAX 100000 /* a registry whose pages never end must not hold the command for ever */

static struct result get_page(struct session *session, const char *path, const json_t *after, json_t **page_out,
                              struct error *err)
{
    struct buffer OWNED_BUFFER url = BUFFER(8192);

    TRY(buffer_add_text(&url, path, err));
    TRY(api_add_after(&url, after, err));
    return api_call_in(session, "GET", buffer_text(&url), NULL, page_out, err);
}

struct result api_walk(struct session *session, const struct page_walk *walk, struct error *err)
{
    OWNED_JSON next = NULL;
    bool is_enough = false;

    for (unsigned count = 0; count < PAGES_MAX; count++) {
        OWNED_JSON page = NULL;
        TRY(get_page(session, walk->path, next, &page, err));
        TRY(walk->take(walk->context, page, &is_enough, err));
        json_t *after = json_object_get(page, "next");
        if (is_enough || after == NULL || json_is_null(after)) return SUCCESS;
        if (json_equal(after, next)) return failure(err, ERROR_INVALID, "the registry's pages go round in a circle");
        json_decref(next);
        next = json_incref(after);
    }
    return failure(err, ERROR_LIMIT, "a list of more than %d pages: ask for a part of it", PAGES_MAX);
}

/* The rows of a list that come together. */
struct collecting {
    const char *list;
    size_t most;
    json_t *rows;
};

static struct result take_rows(void *context, const json_t *page, bool *is_enough_out, struct error *err)
{
    const struct collecting *collecting = context;
    const json_t *list = json_object_get(page, collecting->list);

    if (!json_is_array(list)) return failure(err, ERROR_INVALID, "the registry answered without '%s'", collecting->list);
    if (json_array_extend(collecting->rows, (json_t *)(uintptr_t)list) != 0) return api_no_memory(err);
    *is_enough_out = json_array_size(collecting->rows) >= collecting->most;
    return SUCCESS;
}

struct result api_collect(struct session *session, const char *path, const char *list, size_t most, json_t *rows,
                          struct error *err)
{
    struct collecting collecting = {list, most, rows};
    const struct page_walk walk = {path, take_rows, &collecting};

    TRY(api_walk(session, &walk, err));
    while (json_array_size(rows) > most) (void)json_array_remove(rows, json_array_size(rows) - 1);
    return SUCCESS;
}
