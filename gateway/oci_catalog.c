/* GET _catalog: the repositories that the caller may pull from, in byte order and in pages. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "gateway/oci_priv.h"
#include "policy/decider.h"
#include "registry/project.h"

#define CATALOG_DEFAULT 100
#define CATALOG_MAX     1000

struct catalog {
    struct buffer *body;
    unsigned wanted, count;
    const char *after;                /* what the caller named */
    char last[RESOURCE_NAME_MAX + 1]; /* that was added */
    bool has_more;                    /* than are wanted */
};

struct result target_catalog(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    (void)err;
    request_add_pair(request, ACTION_CATALOG_LIST, "")->kind = RESOURCE_SYSTEM;
    return SUCCESS;
}

/* What of a range is after the caller's name and still wanted; one more tells whether another page follows. */
static struct result add_range(struct request *request, struct pg *pg, const struct name_range *range,
                               struct catalog *catalog, struct error *err)
{
    const struct repository_query query = {
        .permit = request->permit, .where = oci_where(request), .from = range->from, .until = range->until,
        .last = catalog->after, .limit = catalog->wanted - catalog->count + 1};
    OWNED(repository_page) *page = NULL;

    TRY(repository_list(pg, &query, &page, err));
    for (size_t i = 0; i < page->count; i++) {
        catalog->has_more = catalog->count == catalog->wanted;
        if (catalog->has_more) return SUCCESS;
        TRY(buffer_format(catalog->body, err, "%s\"%s\"", catalog->count > 0 ? "," : "", page->names[i]));
        memcpy(catalog->last, page->names[i], sizeof catalog->last);
        catalog->count++;
    }
    return SUCCESS;
}

static struct result add_names(struct request *request, struct pg *pg, struct catalog *catalog, struct error *err)
{
    OWNED(name_ranges) *readable = NULL;

    if (catalog->wanted == 0) return SUCCESS;
    TRY(decider_readable(request->gateway->decider, &request->principal, clock_wall_ms(), &readable, err));
    for (size_t i = 0; i < readable->count && !catalog->has_more; i++)
        if (strcmp(catalog->after, readable->ranges[i].until) < 0)
            TRY(add_range(request, pg, &readable->ranges[i], catalog, err));
    return SUCCESS;
}

static struct result list(struct request *request, struct pg *pg, struct error *err)
{
    const char *last = request_argument(request, "last");
    struct buffer OWNED_BUFFER body = BUFFER((size_t)CATALOG_MAX * (RESOURCE_NAME_MAX + 4) + 512);
    struct catalog catalog = {.body = &body, .after = last == NULL ? "" : last};

    if (!oci_page_size(request, CATALOG_DEFAULT, CATALOG_MAX, &catalog.wanted)) return SUCCESS;
    TRY(buffer_add_text(&body, "{\"repositories\":[", err));
    TRY(add_names(request, pg, &catalog, err));
    TRY(buffer_add_text(&body, "]}", err));
    oci_body(request, 200, "application/json", &body);
    if (catalog.has_more) oci_next_page(request, "_catalog", catalog.wanted, catalog.last);
    return SUCCESS;
}

const struct handler handler_catalog = {.handle = list};
