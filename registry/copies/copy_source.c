#include "registry/copies/copy_source.h"

#include <stdio.h>

#include "base/memory.h"
#include "registry/registry_priv.h"
#include "registry/stored_blob_priv.h"

struct copy_source {
    struct blob_reader *reader;
    struct registry *registry;
    struct resource where; /* with the digest */
    struct uuid blob;
    bool is_marked;
};

/* Not through the cache: a copier evicts no key that is in use. */
static struct result unwrap(struct registry *registry, const struct resource *where, const struct blob_row *row,
                            struct secret **key_out, struct error *err)
{
    const struct key_scope scope = registry_key_scope(where);
    const struct key_binding binding = key_binding_of(&scope, &row->key.id, row->key.commitment);

    return keyd_unwrap(registry->keyd, &binding, &row->key.wrapped, key_out, err);
}

struct result copy_source_open(const struct permit *permit, struct registry *registry, const struct resource *where,
                               const struct blob_row *row, struct copy_source **source_out, struct error *err)
{
    struct blob_identity identity = {.blob = row->key.id, .project = where->project};
    struct blob_store *blobs = NULL;
    OWNED(secret) *key = NULL;

    permit_require(permit, ACTION_COPY_READ, where);
    permit_require_detail(permit, ACTION_COPY_READ, where->detail);
    OWNED(copy_source) *source = memory_zeroed(1, sizeof *source);
    if (source == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a copy");
    source->registry = registry;
    source->where = *where;
    source->blob = row->key.id;
    (void)snprintf(identity.region, sizeof identity.region, "%s", where->region);
    TRY(registry_blobs(registry, where->region, &blobs, err));
    TRY(unwrap(registry, where, row, &key, err));
    TRY(blob_reader_open(blobs, &identity, &row->content, key, &source->reader, err));
    *source_out = GIVE(source);
    return SUCCESS;
}

uint64_t copy_source_length(const struct copy_source *source)
{
    return blob_reader_length(source->reader);
}

struct result copy_source_read(struct copy_source *source, uint64_t offset, uint8_t *into, size_t length, struct error *err)
{
    const struct result read = blob_reader_read(source->reader, offset, into, length, err);

    if (!read.ok && err->kind == ERROR_CORRUPT && !source->is_marked) {
        source->is_marked = true;
        stored_blob_mark(source->registry, &source->where, &source->blob);
    }
    return read;
}

void copy_source_free(struct copy_source *source)
{
    if (source == NULL) return;
    blob_reader_free(source->reader);
    free(source);
}
