/*
 * registry/jobs/erase.h -- deletes an organisation, a project or a repository with all its content
 * (docs/deletion.md).
 *
 * A deletion frees the name and ends sessions, roles and robots, in one short transaction. From then on the content
 * is garbage (registry/jobs/collect_erased.c). The rule: exactly the counted content is deleted. Counting takes time
 * in proportion to the content, so it runs before the deletion, without a lock. The change then checks in the log
 * whether the content was changed since: each change of a tag, manifest, blob, upload or rule has an event in the
 * same transaction, with the key of its namespace. Each change of roles, robots, labels and projects raises the
 * epoch.
 */
#pragma once

#include "crypto/digest.h"
#include "registry/registry.h"

#define ERASE_ROWS_MAX   350000 /* the most tags, manifests and links of a deletion: counting takes a few seconds, without a lock */
#define ERASE_RIGHTS_MAX 1000   /* the most roles, robots, sessions and projects of a deletion, which end under the log's lock */
#define ERASE_EVENTS_MAX 2000   /* the most events since the count that are checked under the log's lock */
#define ERASE_PAGE       1000

/** What a deletion removes. */
struct erase_counts {
    int64_t seen; /* size of the log before the count */
    int64_t projects, repositories, tags, manifests, uploads, bindings, robots;
    int64_t labels;               /* of projects and repositories, and stored labels of replaced policies */
    int64_t blobs, bytes;         /* to be removed; bytes include manifests */
    int64_t blobs_shared;         /* blobs that stay, because another repository of the project has them */
    int64_t tags_immutable;       /* immutable tags, which forbid the deletion */
    int64_t drafts;               /* of signed documents, which wait for signatures */
    int64_t documents;            /* signing keys and runners of the scope; they no longer count after the deletion */
    uint8_t content[SHA256_SIZE]; /* a hash over all content: tags, digests, sessions, roles and so on */
};
/** Is it empty? Then it may be deleted without a plan. */
bool erase_is_empty(const struct erase_counts *counts);

/** The action and resource of the permit: deletion.plan, or the deletion itself. */
struct erase_view {
    enum action action;
    const struct resource *where; /* its ids are known */
};
/** The action that deletes a resource of this kind. */
enum action erase_action(enum resource_kind kind);
/** ERROR_LIMIT: more than ERASE_ROWS_MAX, or ERASE_RIGHTS_MAX; ERROR_NOT_FOUND. */
RESULT erase_count(const struct permit *permit, struct pg *pg, const struct erase_view *view, struct erase_counts *counts_out,
                   struct error *err) __attribute__((nonnull));
/**
 * Call it just before the change: checks the events since the count, so that few are left to check under the log's
 * lock. ERROR_CONFLICT if something changed.
 */
RESULT erase_catch_up(const struct permit *permit, struct pg *pg, const struct erase_view *view, struct erase_counts *counts,
                      struct error *err) __attribute__((nonnull));
/** "acme/models/digits:v1", one of the immutable tags. */
RESULT erase_immutable_tag(const struct permit *permit, struct pg *pg, const struct erase_view *view, char *tag_out, size_t size,
                           struct error *err) __attribute__((nonnull));

/** A repository with content, and the time of its last store. */
struct erase_repository {
    char name[RESOURCE_NAME_MAX + 1];
    int64_t stored_ms;
    bool is_held; /* by a legal hold (registry/content_hold.h) */
};
struct erase_page {
    const char *last;                      /* the page begins after this name; "" for the start */
    struct erase_repository *repositories; /* has room for ERASE_PAGE */
    size_t count;                          /* set */
};
/** The next ERASE_PAGE, by name. */
RESULT erase_repositories(const struct permit *permit, struct pg *pg, const struct erase_view *view, struct erase_page *page,
                          struct error *err) __attribute__((nonnull));

/** A change: the deletion. ERROR_CONFLICT if the content changed since the count, or rights or policies changed after `epoch`. */
struct erase {
    struct change change;
    struct resource where;
    int64_t seen;
    uint64_t epoch; /* at which the policies' retention was checked */
};
void erase_prepare(const struct resource *where, const struct erase_counts *counts, uint64_t epoch, struct erase *erase_out);
