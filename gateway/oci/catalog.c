/* GET _catalog: the repositories that the caller may pull from, in byte order, page by page. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "gateway/oci/oci_priv.h"
#include "policy/decider/decider.h"
#include "registry/project.h"

#define CATALOG_DEFAULT 100
#define CATALOG_MAX     1000
#define LOOKED_MAX      100000 /* consecutive names that may not be listed: half a second of work */

struct catalog {
    struct buffer *body;
    unsigned wanted, count;
    const char *after;                   /* the caller's argument */
    char last[RESOURCE_NAME_MAX + 1];    /* the last listed name */
    bool has_more;                       /* there are more names than wanted */
    char checked[RESOURCE_NAME_MAX + 1]; /* the last name that was checked, listed or not */
    unsigned looked_count;
};

struct result target_catalog(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    request_add_pair(request, ACTION_CATALOG_LIST, "")->kind = RESOURCE_SYSTEM;
    return SUCCESS;
}

/* The bindings allow the caller to list the name; the policies are evaluated for each name. */
static struct result add_name(const struct request *request, const char *name, struct catalog *catalog, struct error *err)
{
    const struct policy_client client = request_place(request);
    bool may = false;

    if (++catalog->looked_count > LOOKED_MAX)
        return failure(err, ERROR_LIMIT, "more than %d repositories in a row may not be listed from here", LOOKED_MAX);
    (void)snprintf(catalog->checked, sizeof catalog->checked, "%s", name);
    TRY(decider_may_list(request->gateway->decider, name, &client, clock_wall_ms(), &may, err));
    if (!may) return SUCCESS;
    catalog->has_more = catalog->count == catalog->wanted;
    if (catalog->has_more) return SUCCESS;
    TRY(buffer_format(catalog->body, err, "%s\"%s\"", catalog->count > 0 ? "," : "", name));
    (void)snprintf(catalog->last, sizeof catalog->last, "%s", name);
    catalog->count++;
    catalog->looked_count = 0;
    return SUCCESS;
}

/* Adds the names of a range that follow `after`, as many as are wanted, and one more that tells whether there is a next page. */
static struct result add_range(struct request *request, struct pg *pg, const struct name_range *range, struct catalog *catalog,
                               struct error *err)
{
    unsigned limit = catalog->wanted - catalog->count + 1;
    bool is_full = false;

    do {
        const struct repository_query query = {
            .where = oci_where(request), .from = range->from, .until = range->until, .last = catalog->checked, .limit = limit};
        OWNED(repository_page) *page = NULL;
        TRY(repository_list(request->permit, pg, &query, &page, err));
        is_full = page->count == limit;
        limit = NAMESPACE_PAGE_MAX; /* some may not be listed, so the number of names to check is unknown */
        for (size_t i = 0; i < page->count && !catalog->has_more; i++) TRY(add_name(request, page->names[i], catalog, err));
    } while (is_full && !catalog->has_more);
    return SUCCESS;
}

static struct result add_ranges(struct request *request, struct pg *pg, const struct name_ranges *readable,
                                struct catalog *catalog, struct error *err)
{
    for (size_t i = 0; i < readable->count && !catalog->has_more; i++)
        if (strcmp(catalog->after, readable->ranges[i].until) < 0)
            TRY(add_range(request, pg, &readable->ranges[i], catalog, err));
    return SUCCESS;
}

/* A few organisations at a time, because the caller may have roles in any number of them. */
static struct result add_names(struct request *request, struct pg *pg, struct catalog *catalog, struct error *err)
{
    char after[RESOURCE_NAME_MAX + 2];
    bool goes_on = catalog->wanted > 0;

    (void)snprintf(after, sizeof after, "%s", catalog->after);
    while (goes_on) {
        OWNED(name_ranges) *readable = NULL;
        TRY(decider_readable(request->gateway->decider, request->principal, after, clock_wall_ms(), &readable, err));
        TRY(add_ranges(request, pg, readable, catalog, err));
        goes_on = readable->has_more && !catalog->has_more && strcmp(after, readable->next) < 0;
        memcpy(after, readable->next, sizeof after);
    }
    return SUCCESS;
}

static struct result list(struct request *request, struct pg *pg, struct error *err)
{
    const char *last = request_argument(request, "last");
    struct buffer OWNED_BUFFER body = BUFFER((size_t)CATALOG_MAX * (RESOURCE_NAME_MAX + 4) + 512);
    struct catalog catalog = {.body = &body, .after = last == NULL ? "" : last};

    (void)snprintf(catalog.checked, sizeof catalog.checked, "%s", catalog.after);
    if (!oci_page_size(request, CATALOG_DEFAULT, CATALOG_MAX, &catalog.wanted)) return SUCCESS;
    TRY(buffer_add_text(&body, "{\"repositories\":[", err));
    if (!add_names(request, pg, &catalog, err).ok) return oci_fail(request, "NAME_UNKNOWN", err);
    TRY(buffer_add_text(&body, "]}", err));
    response_buffer(request, 200, "application/json", &body, NULL);
    if (catalog.has_more) oci_next_page(request, "_catalog", catalog.wanted, catalog.last);
    return SUCCESS;
}

const struct handler handler_catalog = {.handle = list};
