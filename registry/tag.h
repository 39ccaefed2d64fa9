/*
 * registry/tag.h -- tags: names of manifests.
 *
 * Tags are sorted in byte order. A manifest's push sets them (registry/stored_manifest.h).
 */
#pragma once

#include "registry/names/reference.h"
#include "registry/registry.h"
#include "registry/stored_manifest.h"

#define TAG_PAGE_MAX 5000 /* tags in one answer: 0.7 MB at most; clients follow the Link */

struct tag_query {
    const struct resource *where; /* the resource of the permit for tag.list */
    const char *last;             /* the page begins after it; "" for the start */
    unsigned limit;               /* 1 to TAG_PAGE_MAX */
};
struct tag_page {
    size_t count;
    char (*names)[TAG_MAX + 1];
    bool has_more;
};
RESULT tag_list(const struct permit *permit, struct pg *pg, const struct tag_query *query, struct tag_page **page_out,
                struct error *err) __attribute__((nonnull));
void tag_page_free(struct tag_page *page);
DEFINE_OWNED(tag_page);

/** The digest of the manifest that a tag of the repository names; "": there is no such tag. */
RESULT tag_stands_for(struct lookup *lookup, const struct uuid *repository, const char *name, char digest_out[DIGEST_TEXT_SIZE],
                      struct error *err) __attribute__((nonnull));

/** A change: deletes the tag; its manifest stays. ERROR_NOT_FOUND; ERROR_DENIED if it is immutable. */
struct tag_delete {
    struct change change;
    struct resource where;
    char name[TAG_MAX + 1];
    struct manifest_condition *condition; /* NULL, as prepared: none */
};
void tag_delete_prepare(const struct resource *where, const char *name, struct tag_delete *delete_out);
