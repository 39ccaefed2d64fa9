/*
 * registry/project.h -- organisations and projects, their home regions and their floor labels.
 *
 * A project's home region is set when it is made and never changes. Its label is set before its first push, because
 * OCI sends blobs before the manifest. A label of an organisation, project or repository can only rise. Each change
 * raises the authorization epoch.
 */
#pragma once

#include "base/json.h"
#include "registry/key_cache.h"
#include "registry/names/reference.h"
#include "registry/registry.h"

#define LABEL_TEXT_MAX     8192 /* canonical JSON of a floor label: room for all regimes and subjects */
#define NAMESPACE_PAGE_MAX 1000 /* organisations or projects in one answer */

/** Appends the canonical text of a floor label (policy/label.h); `label` NULL is {}. ERROR_INVALID, ERROR_LIMIT. */
RESULT floor_label_write(const json_t *label, struct buffer *text, struct error *err);

/** A change: makes an organisation. ERROR_CONFLICT if the name is taken. The permit: organisation.create on it. */
struct organisation_create {
    struct change change;
    struct resource where;    /* name: "acme"; ids nil */
    const char *label;        /* canonical; must outlive the record */
    struct uuid organisation; /* made by prepare */
};
RESULT organisation_create_prepare(const struct resource *where, const char *label, struct organisation_create *create_out,
                                   struct error *err);

/**
 * A change: makes a project and the key of its manifests. ERROR_CONFLICT: the name is taken, or the organisation has
 * as many projects as it may have; ERROR_NOT_FOUND: no such organisation or region. The permit: project.create on it.
 */
struct project_create {
    struct change change;
    struct resource where; /* name: "acme/models"; organisation known, project nil; region: the home region */
    const char *label;     /* canonical; must outlive the record */
    struct uuid project;   /* made by prepare */
    struct key_record key;
    unsigned most; /* the most projects of the organisation */
};
/** ERROR_UNAVAILABLE without sijil-keyd; ERROR_INVALID if this gateway does not serve the region. */
RESULT project_create_prepare(struct registry *registry, const struct resource *where, const char *label,
                              struct project_create *create_out, struct error *err);

/**
 * A change: sets the floor label of an organisation, project or repository. ERROR_CONFLICT if it would fall;
 * ERROR_NOT_FOUND. The permit: project.label, or repository.label for a repository.
 */
struct label_change {
    struct change change;
    struct resource where; /* an organisation, project or repository; its id is known */
    const char *label;     /* canonical; must outlive the record */
};
void label_change_prepare(const struct resource *where, const char *label, struct label_change *change_out);

struct namespace_record {
    struct uuid id;
    char name[RESOURCE_NAME_MAX + 1]; /* "acme" or "acme/models" */
    char region[REGION_ID_MAX + 1];   /* "" for an organisation */
    const char *label;                /* JSON; a view of the page's rows */
    int64_t created_ms;
};
struct namespace_page {
    size_t count;
    struct namespace_record *records;
    bool has_more;
    struct pg_rows *rows;
};
/** The namespaces that a caller may see: these organisations with their projects, and these projects. */
struct namespace_reader {
    const struct uuid *organisations, *projects;
    size_t organisation_count, project_count; /* at most NAMESPACE_READER_MAX each */
};
#define NAMESPACE_READER_MAX 256 /* bindings of one principal */
struct namespace_query {
    const struct namespace_reader *reader; /* for the list of the system; NULL: may see all */
    const struct resource *where;          /* an organisation or one project, with project.read; the system, with project.list */
    bool projects;                         /* true: projects; false: organisations */
    struct uuid last;                      /* the page begins after this organisation or project; nil for the start */
    unsigned limit;                        /* 1 to NAMESPACE_PAGE_MAX */
};
/**
 * The namespaces at or below `where` that the reader may see, by name in byte order. Hidden ones are neither read nor
 * counted.
 */
RESULT namespace_list(const struct permit *permit, struct pg *pg, const struct namespace_query *query,
                      struct namespace_page **page_out, struct error *err) __attribute__((nonnull));
void namespace_page_free(struct namespace_page *page);
DEFINE_OWNED(namespace_page);

/**
 * The first sequence number whose event can concern the organisation or project of a permit for audit.read. Earlier
 * events may concern a deleted one with the same name. 0 for the registry.
 */
RESULT namespace_born(const struct permit *permit, struct pg *pg, uint64_t *sequence_out, struct error *err)
    __attribute__((nonnull));

/** Names of repositories in byte order: "acme/models/digits". The caller states the range of names that the reader may see. */
struct repository_query {
    const struct resource *where; /* the system: the resource of the permit for catalog.list */
    const char *from, *until;     /* names n with from <= n < until */
    const char *last;             /* and after this one; "" for the start */
    unsigned limit;               /* 1 to NAMESPACE_PAGE_MAX + 1 */
};
struct repository_page {
    size_t count;
    char (*names)[RESOURCE_NAME_MAX + 1];
};
RESULT repository_list(const struct permit *permit, struct pg *pg, const struct repository_query *query,
                       struct repository_page **page_out, struct error *err) __attribute__((nonnull));
void repository_page_free(struct repository_page *page);
DEFINE_OWNED(repository_page);
