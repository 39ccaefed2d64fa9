/*
 * registry/project.h -- organisations and projects, their home regions and their floor labels.
 *
 * A project gets its home region when it is made, for good, and its label before its first push, because OCI sends
 * blobs before the manifest. Once it has a label, that only rises, of an organisation, project or repository. Each change
 * raises the authorization epoch.
 */
#pragma once

#include "base/json.h"
#include "registry/key_cache.h"
#include "registry/names/reference.h"
#include "registry/registry.h"

#define LABEL_TEXT_MAX     8192 /* canonical JSON of a floor label: all regimes and subjects have room */
#define SCOPE_PAGE_MAX     1000 /* organisations or projects in one answer */

/** Canonical text of a floor label as policy/label.h reads it; `label` NULL is {}. ERROR_INVALID, ERROR_LIMIT. */
RESULT floor_label_write(const json_t *label, struct buffer *text, struct error *err);

/** A change: the organisation. ERROR_CONFLICT when the name is taken. The permit: organisation.create on it. */
struct organisation_create {
    struct change change;
    struct resource where;   /* name: "acme"; ids nil */
    const char *label;       /* canonical; must outlive the record */
    struct uuid organisation; /* made by prepare */
};
RESULT organisation_create_prepare(const struct resource *where, const char *label,
                                   struct organisation_create *create_out, struct error *err);

/** A change: the project and the key of its manifests. ERROR_CONFLICT: name taken, or the organisation has its most; ERROR_NOT_FOUND: no such
 *  organisation or region. The permit: project.create on it. */
struct project_create {
    struct change change;
    struct resource where;   /* name: "acme/models"; organisation known, project nil; region: the home region */
    const char *label;       /* canonical; must outlive the record */
    struct uuid project;     /* made by prepare */
    struct key_record key;
    unsigned most;           /* projects of the organisation */
};
/** ERROR_UNAVAILABLE without sijil-keyd; ERROR_INVALID when this gateway does not serve the region. */
RESULT project_create_prepare(struct registry *registry, const struct resource *where, const char *label,
                              struct project_create *create_out, struct error *err);

/** A change: the floor label of an organisation, project or repository. ERROR_CONFLICT when it would fall;
 *  ERROR_NOT_FOUND. The permit: project.label, or repository.label for a repository. */
struct label_change {
    struct change change;
    struct resource where;   /* its kind says what is labelled; its id is known */
    const char *label;       /* canonical; must outlive the record */
};
void label_change_prepare(const struct resource *where, const char *label, struct label_change *change_out);

struct scope_record {
    struct uuid id;
    char name[RESOURCE_NAME_MAX + 1];  /* "acme" or "acme/models" */
    char region[REGION_ID_MAX + 1];    /* "" for an organisation */
    const char *label;                 /* JSON; a view of the page's rows */
    int64_t created_ms;
};
struct scope_page {
    size_t count;
    struct scope_record *records;
    bool has_more;
    struct pg_rows *rows;
};
/** What a reader may see: these organisations with their projects, and these projects. */
struct scope_reader {
    const struct uuid *organisations, *projects;
    size_t organisation_count, project_count; /* at most SCOPE_READER_MAX each */
};
#define SCOPE_READER_MAX 256 /* bindings of one principal */
struct scope_query {
    const struct scope_reader *reader; /* of the system's list; NULL: sees all */
    const struct resource *where; /* an organisation or one project, with project.read; the system, with project.list */
    bool projects;               /* else organisations */
    struct uuid last;            /* the page begins after this organisation or project; nil for the start */
    unsigned limit;              /* 1 to SCOPE_PAGE_MAX */
};
/** What is at or below `where` and the reader may see, by name in byte order. What he may not see costs nothing and counts nowhere. */
RESULT scope_list(const struct permit *permit, struct pg *pg, const struct scope_query *query, struct scope_page **page_out, struct error *err)
    __attribute__((nonnull));
void scope_page_free(struct scope_page *page);
DEFINE_OWNED(scope_page);

/**
 * The sequence number before which no event concerns the organisation or project that an audit.read is permitted for: one of the same
 * name may have been there and been deleted. 0 for the registry.
 */
RESULT scope_born(const struct permit *permit, struct pg *pg, uint64_t *sequence_out, struct error *err) __attribute__((nonnull));

/** Names of repositories in byte order: "acme/models/digits". Who asks says between which names the reader may look. */
struct repository_query {
    const struct resource *where; /* the system, that the permit for catalog.list is for */
    const char *from, *until;    /* names n with from <= n < until */
    const char *last;            /* and after this one; "" for the start */
    unsigned limit;              /* 1 to SCOPE_PAGE_MAX + 1 */
};
struct repository_page {
    size_t count;
    char (*names)[RESOURCE_NAME_MAX + 1];
};
RESULT repository_list(const struct permit *permit, struct pg *pg, const struct repository_query *query,
                       struct repository_page **page_out, struct error *err) __attribute__((nonnull));
void repository_page_free(struct repository_page *page);
DEFINE_OWNED(repository_page);
