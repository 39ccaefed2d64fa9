/*
 * registry/jobs/erase.h -- deleting an organisation, a project or a repository with all that is in it (docs/deletion.md).
 *
 * A deletion takes the name away, ends sessions, roles and robots, in one short transaction; what it held is garbage from then on
 * (registry/jobs/collect_erased.c). Its rule: what is deleted is what was seen. Counting takes the longer the more there is, so it
 * is done before, without a lock. The change then asks the log itself whether anything of the place was changed since: whatever
 * changes a tag, manifest, blob, upload or rule has an event in the same transaction, under the place's key. What changes roles,
 * robots, labels and projects raises the epoch.
 */
#pragma once

#include "crypto/digest.h"
#include "registry/registry.h"

#define ERASE_ROWS_MAX   350000 /* tags, manifests and links that are counted at a time: a few seconds, in which nobody waits */
#define ERASE_RIGHTS_MAX 1000   /* roles, robots, sessions and projects that end at a time, under the log's lock */
#define ERASE_EVENTS_MAX 2000   /* of the place, since it was counted, that are looked at under the log's lock */
#define ERASE_PAGE       1000

/** What a deletion removes. */
struct erase_counts {
    int64_t seen;                /* size of the log before it was counted */
    int64_t projects, repositories, tags, manifests, uploads, bindings, robots;
    int64_t labels;              /* of projects and repositories; and stored ones, of policies that are gone */
    int64_t blobs, bytes;        /* that go; bytes with those of manifests */
    int64_t blobs_shared;        /* that stay, because another repository of the project has them */
    int64_t tags_immutable;      /* which forbids it */
    uint8_t content[SHA256_SIZE]; /* over all of it: which tags, digests, sessions, roles and so on */
};
/** Nothing is inside that anybody could miss: it may go without having been looked at. */
bool erase_is_empty(const struct erase_counts *counts);

/** What the permit is for: deletion.plan, or the deletion itself. */
struct erase_view {
    enum action action;
    const struct resource *where; /* with its ids */
};
/** The action that deletes something of this kind. */
enum action erase_action(enum resource_kind kind);
/** ERROR_LIMIT: more than ERASE_ROWS_MAX, or ERASE_RIGHTS_MAX; ERROR_NOT_FOUND. */
RESULT erase_count(const struct permit *permit, struct pg *pg, const struct erase_view *view, struct erase_counts *counts_out,
                   struct error *err) __attribute__((nonnull));
/**
 * Just before the change: looks at what was recorded while it was counted, so that little is left to look at under the log's lock.
 * ERROR_CONFLICT: something changed.
 */
RESULT erase_catch_up(const struct permit *permit, struct pg *pg, const struct erase_view *view, struct erase_counts *counts,
                      struct error *err) __attribute__((nonnull));
/** "acme/models/digits:v1", one of the immutable tags. */
RESULT erase_immutable_tag(const struct permit *permit, struct pg *pg, const struct erase_view *view, char *tag_out, size_t size,
                           struct error *err) __attribute__((nonnull));

/** A repository with something in it, and when that was stored last. */
struct erase_repository {
    char name[RESOURCE_NAME_MAX + 1];
    int64_t stored_ms;
};
struct erase_page {
    const char *last;                      /* the page begins after this name; "" for the start */
    struct erase_repository *repositories; /* has room for ERASE_PAGE */
    size_t count;                          /* set */
};
/** The next ERASE_PAGE, by name. */
RESULT erase_repositories(const struct permit *permit, struct pg *pg, const struct erase_view *view, struct erase_page *page,
                          struct error *err) __attribute__((nonnull));

/** A change. ERROR_CONFLICT: something of the place changed since it was counted, or rights or policies after `epoch`. */
struct erase {
    struct change change;
    struct resource where;
    int64_t seen;
    uint64_t epoch; /* at which it was judged whether policies keep something */
};
void erase_prepare(const struct resource *where, const struct erase_counts *counts, uint64_t epoch, struct erase *erase_out);
