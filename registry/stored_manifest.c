#include "registry/stored_manifest.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "crypto/aead.h"
#include "registry/manifest_cache_priv.h"
#include "registry/manifest_use_priv.h"
#include "registry/names/reference.h"
#include "registry/registry_priv.h"
#include "registry/repository_store.h"
#include "registry/seal_priv.h"
#include "registry/stored_manifest_store.h"

/* Before the manifest itself: whether the repository had content is asked there. */
static struct result bring_label(const struct permit *permit, struct pg *pg, const struct brought_label *label, struct error *err)
{
    struct error why = {0};

    if (label == NULL || brought_label_insert(permit, pg, label, &why).ok) return SUCCESS;
    return failure(err, why.kind == ERROR_LIMIT ? ERROR_DENIED : why.kind, "%s", why.message);
}

static struct result run_push(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct manifest_push *push = (struct manifest_push *)(void *)change; /* its first member */

    permit_require(permit, push->is_promotion ? ACTION_MANIFEST_PROMOTE : ACTION_MANIFEST_PUSH, &push->where);
    const struct result brought = bring_label(permit, pg, push->label, err);
    push->is_label_refused = !brought.ok && err->kind == ERROR_DENIED;
    return brought.ok ? manifest_rows_insert(pg, push, err) : brought;
}

_Static_assert(DIGEST_TEXT_SIZE + MANIFEST_TAGS_MAX * (1 + TAG_MAX) <= CHANGE_DETAIL_MAX + 1, "an event names every tag");

/* The detail has the digest and its tags. So the events with a tag show which digest the tag named at each time. */
static void write_detail(struct manifest_push *push)
{
    size_t length = (size_t)snprintf(push->detail, sizeof push->detail, "%s", push->digest);

    for (size_t i = 0; i < push->tag_count; i++)
        length += (size_t)snprintf(push->detail + length, sizeof push->detail - length, " %s", push->tags[i]);
    assert(length < sizeof push->detail);
}

static struct result add_sources(struct lookup *lookup, const struct resource *where, const struct manifest *manifest,
                                 struct buffer *names, struct error *err)
{
    struct bytes *digests = memory_zeroed(manifest->reference_count + 1, sizeof *digests);
    OWNED(pg_rows) *rows = NULL;
    size_t count = 0;

    if (digests == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a manifest's digests");
    for (size_t i = 0; i < manifest->reference_count; i++)
        if (!manifest->references[i].is_manifest) digests[count++] = bytes_of_text(manifest->references[i].digest);
    const struct result found = repository_sources(lookup, &where->project, digests, count, &rows, err);
    free(digests);
    TRY(found);
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        const char *name = pg_text(rows, i, 0);
        TRY(buffer_add(names, name, strlen(name) + 1, err));
    }
    return SUCCESS;
}

struct result manifest_push_origins(struct lookup *lookup, const struct resource *where, const struct manifest_push *push,
                                    struct push_origins *origins, struct error *err)
{
    struct bytes tags[MANIFEST_TAGS_MAX];

    origins->is_protected = false;
    if (uuid_is_nil(&where->repository)) return SUCCESS; /* the push is refused */
    for (size_t i = 0; i < push->tag_count; i++) tags[i] = bytes_of_text(push->tags[i]);
    if (push->tag_count > 0)
        TRY(repository_protects(lookup, &where->repository, tags, push->tag_count, &origins->is_protected, err));
    return add_sources(lookup, where, push->manifest, &origins->names, err);
}

struct result manifest_push_prepare(struct registry *registry, struct pg *pg, const struct resource *where, struct bytes body,
                                    struct manifest_push *push, struct error *err)
{
    struct key_record key;

    assert(push->manifest != NULL && push->tag_count <= MANIFEST_TAGS_MAX && push->digest[0] != '\0');
    if (uuid_is_nil(&where->repository))
        return failure(err, ERROR_NOT_FOUND, "there is no such repository: the first upload of a blob makes it");
    write_detail(push);
    push->change = (struct change){.run = run_push,
                                   .raises_epoch = push->label != NULL,
                                   .invalidates = CHANGE_INVALIDATES_REPOSITORY,
                                   .repository = where->repository,
                                   .detail = push->detail};
    push->where = *where;
    push->size_bytes = body.length;
    push->sealed = BUFFER(MANIFEST_SIZE_MAX + BOX_OVERHEAD);
    TRY(project_key_current(pg, &where->project, &key, err));
    const struct sealing sealing = {.where = where, .digest = push->digest, .key = &key, .run = push->run};
    const struct result sealed = manifest_seal(registry, &sealing, body, &push->sealed, err);
    push->key = key.id;
    if (!sealed.ok) manifest_push_done(push);
    return sealed;
}

void manifest_push_done(struct manifest_push *push)
{
    buffer_done(&push->sealed);
}

/* Checks that the bytes have the digest of their row. */
static struct result check_digest(const struct manifest_row *row, struct bytes body, struct error *err)
{
    struct digest digest;

    TRY(digest_parse(bytes_of_text(row->digest), &digest, err));
    const struct digest actual = digest_of(digest.algorithm, body);
    if (!digest_equal(&actual, &digest)) return failure(err, ERROR_CORRUPT, "a stored manifest does not match its digest");
    return SUCCESS;
}

/* Manifests are in the database, under the key of the home region: a read that is decided for another region, with copies of the blobs, finds them there. */
static struct resource where_sealed(const struct resource *where, const struct manifest_row *row)
{
    struct resource sealed_at = *where;

    memcpy(sealed_at.region, row->key_region, sizeof sealed_at.region);
    return sealed_at;
}

static struct result unseal(struct registry *registry, const struct resource *where, const struct manifest_row *row,
                            struct buffer *body, struct error *err)
{
    const struct resource sealed_at = where_sealed(where, row);
    const struct sealing sealing = {.where = &sealed_at, .digest = row->digest, .key = &row->key};

    TRY(manifest_unseal(registry, &sealing, row->sealed, body, err));
    return check_digest(row, buffer_bytes(body), err);
}

static struct result no_such_manifest(struct error *err)
{
    return failure(err, ERROR_NOT_FOUND, "this repository has no such manifest");
}

static void require(const struct permit *permit, const struct manifest_query *query)
{
    permit_require(permit, query->action, query->where);
    assert(query->action == ACTION_MANIFEST_READ || query->action == ACTION_MANIFEST_STAT || query->action == ACTION_RUN_FETCH);
}

static struct manifest_key key_of(const struct registry *registry, const struct manifest_query *query)
{
    const struct uuid *repository = &query->where->repository;

    return (struct manifest_key){.repository = *repository,
                                 .reference = query->reference,
                                 .alterations = sequencer_alterations(registry->sequencer, repository)};
}

/* Copies the row's facts, without the body. */
static struct stored_manifest *describe(const struct manifest_row *row)
{
    struct stored_manifest *manifest = memory_zeroed(1, sizeof *manifest);

    if (manifest == NULL) return NULL;
    manifest->body = BUFFER(MANIFEST_SIZE_MAX);
    (void)snprintf(manifest->digest, sizeof manifest->digest, "%s", row->digest);
    (void)snprintf(manifest->media_type, sizeof manifest->media_type, "%s", row->media_type);
    (void)snprintf(manifest->sealed_in, sizeof manifest->sealed_in, "%s", row->key_region);
    manifest->size_bytes = (size_t)row->size_bytes;
    return manifest;
}

struct result stored_manifest_find(const struct permit *permit, struct registry *registry, struct pg *pg,
                                   const struct manifest_query *query, struct stored_manifest **manifest_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct manifest_row row;

    require(permit, query);
    if (uuid_is_nil(&query->where->repository)) return no_such_manifest(err);
    const struct manifest_key key = key_of(registry, query); /* taken before the row is read */
    TRY(manifest_rows_find(pg, &key.repository, query->reference, &rows, err));
    if (pg_rows_count(rows) == 0) return no_such_manifest(err);
    TRY(manifest_row_read(rows, 0, &row, err));
    OWNED(stored_manifest) *manifest = describe(&row);
    if (manifest == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a manifest");
    if (query->action != ACTION_MANIFEST_STAT && !query->without_body)
        TRY(unseal(registry, query->where, &row, &manifest->body, err));
    manifest_cache_put(registry->manifests, &key, &row);
    manifest_uses_note(registry->uses, &key.repository, row.digest);
    *manifest_out = GIVE(manifest);
    return SUCCESS;
}

static bool unseal_cached(struct registry *registry, const struct manifest_query *query, const struct manifest_row *row,
                          struct buffer *body)
{
    const struct resource sealed_at = where_sealed(query->where, row);
    const struct sealing sealing = {.where = &sealed_at, .digest = row->digest, .key = &row->key};
    struct error ignored = {0};

    return manifest_unseal_cached(registry, &sealing, row->sealed, body) && check_digest(row, buffer_bytes(body), &ignored).ok;
}

bool stored_manifest_find_cached(const struct permit *permit, struct registry *registry, const struct manifest_query *query,
                                 struct stored_manifest **manifest_out)
{
    struct manifest_row row;

    require(permit, query);
    const struct manifest_key key = key_of(registry, query);
    OWNED(cached_manifest) *cached = manifest_cache_get(registry->manifests, &key, &row);
    OWNED(stored_manifest) *manifest = cached == NULL ? NULL : describe(&row);
    if (manifest == NULL) return false;
    if (query->action != ACTION_MANIFEST_STAT && !unseal_cached(registry, query, &row, &manifest->body)) return false;
    manifest_uses_note(registry->uses, &key.repository, row.digest);
    *manifest_out = GIVE(manifest);
    return true;
}

void stored_manifest_free(struct stored_manifest *manifest)
{
    if (manifest == NULL) return;
    buffer_done(&manifest->body);
    free(manifest);
}

static struct result run_delete(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct manifest_delete *deletion = (const struct manifest_delete *)(const void *)change; /* its first member */

    permit_require(permit, ACTION_MANIFEST_DELETE, &deletion->where);
    return manifest_row_delete(pg, &deletion->where.repository, deletion->digest, &deletion->retention, deletion->condition, err);
}

void manifest_delete_prepare(const struct resource *where, const char *digest, const struct policy_retention *retention,
                             struct manifest_delete *delete_out)
{
    *delete_out = (struct manifest_delete){
        .where = *where,
        .retention = *retention,
        .change = {.run = run_delete, .invalidates = CHANGE_INVALIDATES_REPOSITORY, .repository = where->repository}};
    (void)snprintf(delete_out->digest, sizeof delete_out->digest, "%s", digest);
}

/* image-spec, descriptor.md; distribution-spec, "Listing Referrers": annotations are copied from the manifest. */
static struct result add_descriptor(const struct manifest_row *row, struct bytes body, struct buffer *out, struct error *err)
{
    OWNED_JSON document = NULL;

    TRY(json_read_any_number(body, MANIFEST_SIZE_MAX, &document, err));
    const json_t *annotations = json_object_get(document, "annotations");
    TRY(buffer_format(out, err, "%s{\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":%lld", out->length > 0 ? "," : "",
                      row->media_type, row->digest, (long long)row->size_bytes));
    if (row->artifact_type[0] != '\0') TRY(buffer_format(out, err, ",\"artifactType\":\"%s\"", row->artifact_type));
    if (json_object_size(annotations) > 0) {
        TRY(buffer_add_text(out, ",\"annotations\":", err));
        TRY(json_write_canonical(out, annotations, err));
    }
    return buffer_add_u8(out, '}', err);
}

/* Limits of one query. A row has up to 4 MiB, so a number of rows alone would not bound the memory. */
#define REFERRER_ROWS  100
#define REFERRER_BYTES ((int64_t)8 << 20)

struct referrer_reading {
    const struct referrer_query *query;
    struct referrer_page *page;
    uint64_t read_bytes; /* of manifests */
    bool is_full;        /* another page follows */
};

/* The next descriptor. If the page has no room, it adds nothing and sets is_full. */
static struct result add_referrer(struct registry *registry, struct referrer_reading *reading, const struct manifest_row *row,
                                  struct error *err)
{
    struct buffer OWNED_BUFFER body = BUFFER(MANIFEST_SIZE_MAX);
    struct referrer_page *page = reading->page;
    const size_t before = page->descriptors.length;

    reading->is_full = before > reading->query->page_bytes || (before > 0 && reading->read_bytes >= reading->query->read_bytes);
    if (reading->is_full) return SUCCESS;
    TRY(unseal(registry, reading->query->where, row, &body, err));
    TRY(add_descriptor(row, buffer_bytes(&body), &page->descriptors, err));
    reading->read_bytes += body.length;
    reading->is_full = before > 0 && page->descriptors.length > reading->query->page_bytes;
    if (reading->is_full) buffer_truncate(&page->descriptors, before);
    else (void)snprintf(page->last, sizeof page->last, "%s", row->digest);
    return SUCCESS;
}

/* *is_last_out: no rows follow these. */
static struct result add_rows(struct registry *registry, struct referrer_reading *reading, const struct pg_rows *rows,
                              bool *is_last_out, struct error *err)
{
    const size_t count = pg_rows_count(rows);
    int64_t bytes = 0;

    for (size_t i = 0; i < count && !reading->is_full; i++) {
        struct manifest_row row;
        TRY(manifest_row_read(rows, i, &row, err));
        bytes += row.size_bytes;
        TRY(add_referrer(registry, reading, &row, err));
    }
    *is_last_out = count < REFERRER_ROWS && bytes < REFERRER_BYTES;
    return SUCCESS;
}

struct result referrers_list(const struct permit *permit, struct registry *registry, struct pg *pg,
                             const struct referrer_query *query, struct referrer_page *page, struct error *err)
{
    struct referrer_key key = {.subject = query->subject,
                               .artifact_type = query->artifact_type,
                               .last = query->last,
                               .limit = REFERRER_ROWS,
                               .bytes = REFERRER_BYTES};
    struct referrer_reading reading = {.query = query, .page = page};
    bool is_last = false;

    permit_require(permit, ACTION_REFERRER_LIST, query->where);
    page->last[0] = '\0';
    if (uuid_is_nil(&query->where->repository)) return SUCCESS;
    key.repository = query->where->repository;
    while (!reading.is_full && !is_last) {
        OWNED(pg_rows) *rows = NULL;
        TRY(manifest_rows_referring(pg, &key, &rows, err));
        TRY(add_rows(registry, &reading, rows, &is_last, err));
        key.last = page->last;
    }
    if (!reading.is_full) page->last[0] = '\0';
    return SUCCESS;
}
