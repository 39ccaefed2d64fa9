#include "registry/held_manifest.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "crypto/aead.h"
#include "registry/held_manifest_store.h"
#include "registry/registry_priv.h"
#include "registry/seal_priv.h"
#include "registry/stored_manifest_store.h"

void held_manifests_done(struct held_manifests *held)
{
    for (size_t i = 0; i < held->count; i++) {
        manifest_free(held->each[i].manifest);
        buffer_done(&held->each[i].body);
        buffer_done(&held->each[i].sealed);
    }
    held->count = 0;
}

/* A permit for a run is about its project; its repositories lie in it. */
static void require(const struct permit *permit, enum action action, const struct resource *where)
{
    const struct resource *project = permit_resource(permit, action);

    assert(uuid_equal(&project->project, &where->project));
}

/* ---- holding ---- */

static struct result seal(struct registry *registry, struct pg *pg, struct bytes body, struct held_manifest *held,
                          struct error *err)
{
    struct key_record key;

    TRY(project_key_current(pg, &held->where.project, &key, err));
    const struct sealing sealing = {.where = &held->where, .digest = held->digest, .key = &key};
    held->key = key.id;
    return manifest_seal(registry, &sealing, body, &held->sealed, err);
}

struct result held_manifests_add(const struct permit *permit, struct registry *registry, struct pg *pg,
                                 const struct held_text *text, struct held_manifests *held, struct error *err)
{
    const struct digest digest = digest_of(DIGEST_SHA256, text->body);
    struct manifest *manifest = NULL;

    require(permit, text->action, text->where);
    assert(held->count < HELD_MANIFESTS_MAX);
    if (uuid_is_nil(&text->where->repository))
        return failure(err, ERROR_INVALID, "there is no repository %.200s: the upload of a blob makes it", text->where->name);
    TRY(manifest_parse(text->body, (struct bytes){0}, &manifest, err));
    struct held_manifest *next = &held->each[held->count++];
    *next = (struct held_manifest){.where = *text->where,
                                   .manifest = manifest,
                                   .size_bytes = text->body.length,
                                   .body = BUFFER(MANIFEST_SIZE_MAX),
                                   .sealed = BUFFER(MANIFEST_SIZE_MAX + BOX_OVERHEAD)};
    (void)snprintf(next->name, sizeof next->name, "%s", text->name);
    digest_format(&digest, next->digest);
    return seal(registry, pg, text->body, next, err);
}

struct result held_manifests_insert(const struct permit *permit, struct pg *pg, enum action action,
                                    const struct held_manifests *held, struct error *err)
{
    for (size_t i = 0; i < held->count; i++) {
        require(permit, action, &held->each[i].where);
        TRY(held_row_insert(pg, &held->key, &held->each[i], err));
    }
    return SUCCESS;
}

/* ---- reading ---- */

static struct result open_row(struct registry *registry, const struct held_row *row, struct held_manifest *held,
                              struct error *err)
{
    struct resource sealed_at = held->where;
    const struct sealing sealing = {.where = &sealed_at, .digest = held->digest, .key = &row->key};

    (void)snprintf(sealed_at.region, sizeof sealed_at.region, "%s", row->key_region);
    TRY(manifest_unseal(registry, &sealing, row->sealed, &held->body, err));
    const struct digest digest = digest_of(DIGEST_SHA256, buffer_bytes(&held->body));
    char found[DIGEST_TEXT_SIZE];
    digest_format(&digest, found);
    if (strcmp(found, held->digest) != 0)
        return failure(err, ERROR_CORRUPT, "the manifest of %.63s does not match its digest", held->name);
    held->size_bytes = held->body.length;
    return manifest_parse(buffer_bytes(&held->body), (struct bytes){0}, &held->manifest, err);
}

static struct result read_row(const struct resource *project, struct registry *registry, const struct held_row *row,
                              struct held_manifests *held, struct error *err)
{
    struct held_manifest *next = &held->each[held->count++];

    *next = (struct held_manifest){.body = BUFFER(MANIFEST_SIZE_MAX), .sealed = BUFFER(MANIFEST_SIZE_MAX + BOX_OVERHEAD)};
    next->where = (struct resource){.kind = RESOURCE_REPOSITORY,
                                    .organisation = project->organisation,
                                    .project = project->project,
                                    .repository = row->repository};
    (void)snprintf(next->where.name, sizeof next->where.name, "%s", row->full_name);
    (void)snprintf(next->where.region, sizeof next->where.region, "%s", row->region);
    (void)snprintf(next->name, sizeof next->name, "%s", row->name);
    (void)snprintf(next->digest, sizeof next->digest, "%s", row->digest);
    if (row->is_deleted) return failure(err, ERROR_NOT_FOUND, "the repository of %.63s was deleted", next->name);
    return open_row(registry, row, next, err);
}

struct result held_manifests_read(const struct permit *permit, struct registry *registry, struct pg *pg,
                                  const struct held_key *key, struct held_manifests *held, struct error *err)
{
    const struct resource *project = permit_resource(permit, ACTION_RUN_ADMIT);
    OWNED(pg_rows) *rows = NULL;

    TRY(held_rows_find(pg, key, &project->project, &rows, err));
    held->key = *key;
    for (size_t i = 0; i < pg_rows_count(rows) && held->count < HELD_MANIFESTS_MAX; i++) {
        struct held_row row;
        TRY(held_row_read(rows, i, &row, err));
        TRY(read_row(project, registry, &row, held, err));
    }
    return SUCCESS;
}

/* Nothing else that the run has made: the log is what its readers may read before the admission. */
static struct result find_log(const struct resource *where, struct registry *registry, const struct pg_rows *rows,
                              struct held_manifests *held, struct error *err)
{
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        struct held_row row;
        TRY(held_row_read(rows, i, &row, err));
        if (strcmp(row.name, "log") == 0 && strcmp(row.full_name, where->name) == 0)
            return read_row(where, registry, &row, held, err);
    }
    return failure(err, ERROR_NOT_FOUND, "no result of this attempt and node names a log");
}

struct result held_log_read(const struct permit *permit, struct registry *registry, struct pg *pg, const struct held_key *key,
                            struct buffer *body, struct error *err)
{
    const struct resource *where = permit_resource(permit, ACTION_RUN_LOG);
    OWNED(pg_rows) *rows = NULL;
    OWNED_HELD held = {.count = 0};
    char run[UUID_TEXT_SIZE];

    uuid_format(&key->run, run);
    permit_require_detail(permit, ACTION_RUN_LOG, run);
    TRY(held_rows_find(pg, key, &where->project, &rows, err));
    TRY(find_log(where, registry, rows, &held, err));
    return buffer_add(body, held.each[0].body.data, held.each[0].body.length, err);
}

/* ---- admitting ---- */

struct result held_blobs_link(const struct permit *permit, struct pg *pg, const struct held_links *links, struct error *err)
{
    require(permit, ACTION_RUN_ADMIT, links->from);
    require(permit, ACTION_RUN_ADMIT, links->to);
    return held_links_insert(pg, links, err);
}

struct result manifest_admit(const struct permit *permit, struct pg *pg, struct manifest_push *push, struct error *err)
{
    require(permit, ACTION_RUN_ADMIT, &push->where);
    return manifest_rows_insert(pg, push, err);
}
