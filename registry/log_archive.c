#include "registry/log_archive.h"

#include <stdio.h>

#include "crypto/random.h"
#include "registry/registry_priv.h"
#include "storage/blob.h"

/* A piece belongs to no project. */
static struct result write_piece(void *context, const char *region, const struct secret *key, struct bytes content,
                                 struct archive_place *place_out, struct error *err)
{
    static const struct uuid none;
    const struct registry *registry = context;
    const struct digest expected = digest_of(DIGEST_SHA256, content);
    struct blob_store *blobs = NULL;
    OWNED(blob_writer) *writer = NULL;
    struct archive_place place;

    TRY(registry_blobs(registry, region, &blobs, err));
    struct blob_upload session = {.identity = blob_identity_new(blobs, &none), .writer_epoch = 1};
    session.upload = session.identity.blob;
    TRY(blob_writer_open(blobs, &session, key, NULL, &writer, err));
    blob_writer_expect(writer, content.length);
    TRY(blob_writer_write(writer, content, err));
    TRY(blob_writer_close(writer, &expected, &place.content, err));
    blob_writer_committed(writer);
    place.blob = session.identity.blob;
    (void)snprintf(place.region, sizeof place.region, "%s", region);
    *place_out = place;
    return SUCCESS;
}

static struct result remove_piece(void *context, const struct archive_place *place, struct error *err)
{
    const struct registry *registry = context;
    struct blob_store *blobs = NULL;

    TRY(registry_blobs(registry, place->region, &blobs, err));
    return blob_remove(blobs, &place->blob, err);
}

static struct result read_piece(void *context, const struct archive_place *place, const struct secret *key,
                                const struct archive_range *range, struct error *err)
{
    const struct registry *registry = context;
    struct blob_identity identity = {.blob = place->blob};
    struct blob_store *blobs = NULL;
    OWNED(blob_reader) *reader = NULL;

    TRY(registry_blobs(registry, place->region, &blobs, err));
    (void)snprintf(identity.region, sizeof identity.region, "%s", place->region);
    if (!blob_reader_open(blobs, &identity, &place->content, key, &reader, err).ok) {
        if (err->kind != ERROR_NOT_FOUND) return (struct result){.ok = false};
        return failure(err, ERROR_CORRUPT, "an archived piece of the log is missing in region %s", place->region);
    }
    return blob_reader_read(reader, range->offset, range->into, range->length, err);
}

const struct archive_store *registry_log_archive(struct registry *registry)
{
    registry->log_archive = (struct archive_store){
        .context = registry, .write = write_piece, .remove = remove_piece, .read = read_piece, .keyd = registry->keyd};
    return &registry->log_archive;
}
