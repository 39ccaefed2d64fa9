/* Pages of all bindings inside a scope, by their ids. */
#include <string.h>

#include "authz/snapshot_priv.h"

struct page {
    const struct resource *scope;
    const struct uuid *after;
    int64_t now_ms;
    size_t most, count;
    const struct authz_binding **bindings; /* sorted by id */
};

static int compare(const struct uuid *a, const struct uuid *b)
{
    const struct bytes left = uuid_bytes(a), right = uuid_bytes(b);

    return memcmp(left.data, right.data, left.length);
}

static bool is_wanted(const struct page *page, const struct authz_binding *binding)
{
    if (!binding_is_live(binding, page->now_ms) || !binding_is_inside(binding, page->scope)) return false;
    if (compare(&binding->id, page->after) <= 0) return false;
    return page->count < page->most || compare(&binding->id, &page->bindings[page->count - 1]->id) < 0;
}

/* Where the binding belongs among those that are there. */
static size_t place_of(const struct page *page, const struct authz_binding *binding)
{
    size_t low = 0, high = page->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare(&page->bindings[middle]->id, &binding->id) < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void insert(struct page *page, const struct authz_binding *binding)
{
    const size_t at = place_of(page, binding);

    if (page->count < page->most) page->count++;
    memmove(page->bindings + at + 1, page->bindings + at, (page->count - 1 - at) * sizeof *page->bindings);
    page->bindings[at] = binding;
}

static void add_part(struct page *page, const struct rights_part *part)
{
    const struct authz_binding *binding = NULL;
    struct part_walk walk = {0};

    while (part != NULL && (binding = part_next_binding(part, &walk)) != NULL)
        if (is_wanted(page, binding)) insert(page, binding);
}

size_t authz_snapshot_page(const struct authz_snapshot *snapshot, const struct resource *scope, const struct uuid *after,
                           int64_t now_ms, const struct authz_binding *bindings_out[], size_t most)
{
    struct page page = {.scope = scope, .after = after, .now_ms = now_ms, .most = most, .bindings = bindings_out};

    if (most == 0) return 0;
    if (scope->kind != RESOURCE_SYSTEM) add_part(&page, snapshot_part(snapshot, &scope->organisation));
    for (size_t i = 0; scope->kind == RESOURCE_SYSTEM && i < snapshot->part_count; i++) add_part(&page, snapshot->parts[i]);
    return page.count;
}

size_t authz_snapshot_endless(const struct authz_snapshot *snapshot)
{
    size_t count = 0;

    for (size_t i = 0; i < snapshot->part_count; i++) count += snapshot->parts[i]->endless_count;
    return count;
}

size_t authz_snapshot_unsigned(const struct authz_snapshot *snapshot)
{
    size_t count = 0;

    for (size_t i = 0; i < snapshot->part_count; i++) count += snapshot->parts[i]->unsigned_count;
    return count;
}

static bool ends_soon(const struct authz_binding *binding, int64_t now_ms, int64_t until_ms)
{
    return binding->expires_ms != 0 && !binding->is_brief && binding_is_kept(binding, now_ms) && binding->expires_ms < until_ms;
}

size_t authz_snapshot_ending(const struct authz_snapshot *snapshot, int64_t now_ms, int64_t until_ms)
{
    size_t count = 0;

    for (size_t i = 0; i < snapshot->part_count; i++) {
        const struct authz_binding *binding = NULL;
        struct part_walk walk = {0};
        while ((binding = part_next_binding(snapshot->parts[i], &walk)) != NULL) count += ends_soon(binding, now_ms, until_ms);
    }
    return count;
}
