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
    struct repository_entry last; /* that was looked at, or what the caller named: then without an id */
    bool may_see_last;
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
        .permit = request->permit, .where = oci_where(request), .last = catalog->last.name,
        .last_id = catalog->last.id, .limit = CATALOG_MAX};
    OWNED(repository_page) *page = NULL;
    size_t i = 0;

    TRY(repository_list(pg, &query, &page, err));
    for (; i < page->count && catalog->count < catalog->wanted; i++) {
        catalog->last = page->entries[i];
        catalog->may_see_last = may_pull(request, catalog->last.name);
        if (!catalog->may_see_last) continue;
        TRY(buffer_format(catalog->body, err, "%s\"%s\"", catalog->count > 0 ? "," : "", catalog->last.name));
        catalog->count++;
    }
    *has_more_out = page->has_more || i < page->count;
    return SUCCESS;
}

/* `last` of the next page. Where this one ended with what the caller may not see, a random id stands for its name. */
static void format_cursor(const struct catalog *catalog, char cursor_out[RESOURCE_NAME_MAX + 1])
{
    char id[UUID_TEXT_SIZE];

    uuid_format(&catalog->last.id, id);
    if (catalog->may_see_last)
        (void)snprintf(cursor_out, RESOURCE_NAME_MAX + 1, "%s", catalog->last.name);
    else
        (void)snprintf(cursor_out, RESOURCE_NAME_MAX + 1, "~%s", id);
}

/* No name begins with "~". */
static void read_cursor(const char *last, struct catalog *catalog)
{
    if (last[0] == '~' && uuid_parse(bytes_of_text(last + 1), &catalog->last.id)) return;
    if (strlen(last) < sizeof catalog->last.name) memcpy(catalog->last.name, last, strlen(last) + 1);
}

static struct result list(struct request *request, struct pg *pg, struct error *err)
{
    const char *last = request_argument(request, "last");
    struct buffer OWNED_BUFFER body = BUFFER((size_t)CATALOG_MAX * (RESOURCE_NAME_MAX + 4) + 512);
    struct catalog catalog = {.body = &body};
    char cursor[RESOURCE_NAME_MAX + 1];
    bool has_more = true;

    if (!oci_page_size(request, CATALOG_DEFAULT, CATALOG_MAX, &catalog.wanted)) return SUCCESS;
    if (last != NULL) read_cursor(last, &catalog);
    TRY(buffer_add_text(&body, "{\"repositories\":[", err));
    for (int i = 0; i < PAGES_MAX && has_more && catalog.count < catalog.wanted; i++)
        TRY(add_page(request, pg, &catalog, &has_more, err));
    TRY(buffer_add_text(&body, "]}", err));
    oci_body(request, 200, "application/json", &body);
    if (!has_more || catalog.wanted == 0) return SUCCESS;
    format_cursor(&catalog, cursor);
    oci_next_page(request, "_catalog", catalog.wanted, cursor);
    return SUCCESS;
}

const struct handler handler_catalog = {.handle = list};
