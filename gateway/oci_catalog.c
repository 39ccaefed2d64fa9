/* GET _catalog: the repositories that the caller may pull from, in byte order and in pages. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "gateway/oci_priv.h"
#include "policy/decider.h"
#include "registry/project.h"

#define CATALOG_DEFAULT 100
#define CATALOG_MAX     1000
#define PAGES_MAX       10 /* of names that the caller may not see, before an answer goes out shorter than asked */

struct catalog {
    struct buffer *body;
    unsigned wanted, count;
    char last[RESOURCE_NAME_MAX + 1]; /* that was looked at */
};

struct result target_catalog(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    (void)err;
    request_add_pair(request, ACTION_CATALOG_LIST, "")->kind = RESOURCE_SYSTEM;
    return SUCCESS;
}

static bool may_pull(const struct request *request, const char *name)
{
    struct principal_access access;

    decider_live_access(request->gateway->decider, &request->principal, name, clock_wall_ms(), &access);
    return access.pull;
}

/* *has_more_out: there are names after catalog->last. */
static struct result add_page(struct request *request, struct pg *pg, struct catalog *catalog, bool *has_more_out,
                              struct error *err)
{
    const struct repository_query query = {
        .permit = request->permit, .where = oci_where(request), .last = catalog->last, .limit = CATALOG_MAX};
    OWNED(repository_page) *page = NULL;
    size_t i = 0;

    TRY(repository_list(pg, &query, &page, err));
    for (; i < page->count && catalog->count < catalog->wanted; i++) {
        (void)snprintf(catalog->last, sizeof catalog->last, "%s", page->names[i]);
        if (!may_pull(request, page->names[i])) continue;
        TRY(buffer_format(catalog->body, err, "%s\"%s\"", catalog->count > 0 ? "," : "", page->names[i]));
        catalog->count++;
    }
    *has_more_out = page->has_more || i < page->count;
    return SUCCESS;
}

static struct result list(struct request *request, struct pg *pg, struct error *err)
{
    const char *last = request_argument(request, "last");
    struct buffer OWNED_BUFFER body = BUFFER((size_t)CATALOG_MAX * (RESOURCE_NAME_MAX + 4) + 512);
    struct catalog catalog = {.body = &body};
    bool has_more = true;

    if (!oci_page_size(request, CATALOG_DEFAULT, CATALOG_MAX, &catalog.wanted)) return SUCCESS;
    if (last != NULL && strlen(last) < sizeof catalog.last) memcpy(catalog.last, last, strlen(last) + 1);
    TRY(buffer_add_text(&body, "{\"repositories\":[", err));
    for (int i = 0; i < PAGES_MAX && has_more && catalog.count < catalog.wanted; i++)
        TRY(add_page(request, pg, &catalog, &has_more, err));
    TRY(buffer_add_text(&body, "]}", err));
    oci_body(request, 200, "application/json", &body);
    if (has_more && catalog.wanted > 0) oci_next_page(request, "_catalog", catalog.wanted, catalog.last);
    return SUCCESS;
}

const struct handler handler_catalog = {.handle = list};
