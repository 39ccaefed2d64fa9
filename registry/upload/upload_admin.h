/*
 * registry/upload/upload_admin.h -- lists and ends open uploads, for administrators of a project or an organisation.
 *
 * A row has the client, the repository and the number of bytes, never the secret of a session nor its content.
 */
#pragma once

#include "registry/upload/upload.h"

struct upload_query {
    const struct resource *where; /* a project or an organisation; its id is known */
    struct uuid after;            /* nil: from the start */
    size_t limit;                 /* from 1 */
};

struct listed_upload {
    struct uuid upload;
    const char *repository, *region;        /* "acme/models/digits"; views of the page */
    const char *issuer, *subject;           /* of the client: "" and "robot$acme+ci", or those of a token; both "": not known */
    uint64_t bytes, reserved;               /* saved so far; reserved in the project's quota */
    int64_t begun_ms, moved_ms, expires_ms; /* wall clock; moved: the last progress */
};

struct upload_page;
/** In the order of their ids. The permit: upload.list on `where`. */
RESULT upload_list(const struct permit *permit, struct pg *pg, const struct upload_query *query, struct upload_page **page_out,
                   struct error *err) __attribute__((nonnull));
size_t upload_page_count(const struct upload_page *page);
struct listed_upload upload_page_row(const struct upload_page *page, size_t index);
void upload_page_free(struct upload_page *page);
DEFINE_OWNED(upload_page);

/**
 * A change: ends an upload of the project, of any client, and releases its reserved bytes. The permit: upload.end on
 * `where`, whose detail is the id. ERROR_NOT_FOUND: the project has no such upload.
 */
struct upload_end {
    struct change change;
    struct resource where;
    struct uuid upload;
    struct uuid blob; /* set by the change, as is the region */
    char region[REGION_ID_MAX + 1];
};
void upload_end_prepare(const struct resource *where, const struct uuid *upload, struct upload_end *end_out);
/**
 * Call it after the change: stops its writer, if this gateway has it, and removes its bytes. registry_clean_up()
 * repeats what fails.
 */
void upload_end_finish(const struct permit *permit, struct registry *registry, struct pg *pg, const struct upload_end *end)
    __attribute__((nonnull));
