#include "registry/upload/piece.h"

#include <assert.h>
#include <stdio.h>

#include "crypto/random.h"
#include "registry/repository_store.h"
#include "registry/upload/abandoned_store.h"
#include "registry/upload/upload_priv.h"

#define SALT_SIZE 16

static struct blob_identity identity_of(const struct resource *where, const struct uuid *blob)
{
    struct blob_identity identity = {.blob = *blob, .project = where->project};

    (void)snprintf(identity.region, sizeof identity.region, "%s", where->region);
    return identity;
}

static struct digest salted_digest(const uint8_t salt[SALT_SIZE], struct bytes content, struct hasher *hasher)
{
    hasher_add(hasher, (struct bytes){salt, SALT_SIZE});
    hasher_add(hasher, content);
    return hasher_digest(hasher);
}

static struct result write_object(struct blob_store *blobs, const struct blob_upload *upload, const struct secret *key,
                                  struct bytes content, struct blob_content *content_out, struct error *err)
{
    OWNED(blob_writer) *writer = NULL;
    OWNED(hasher) *hasher = NULL;
    uint8_t salt[SALT_SIZE];

    random_bytes(salt, sizeof salt);
    TRY(hasher_new(DIGEST_SHA256, &hasher, err));
    const struct digest digest = salted_digest(salt, content, hasher);
    TRY(blob_writer_open(blobs, upload, key, NULL, &writer, err));
    blob_writer_expect(writer, sizeof salt + content.length);
    TRY(blob_writer_write(writer, (struct bytes){salt, sizeof salt}, err));
    TRY(blob_writer_write(writer, content, err));
    TRY(blob_writer_close(writer, &digest, content_out, err));
    blob_writer_committed(writer);
    return SUCCESS;
}

struct result piece_seal(struct registry *registry, struct pg *pg, const struct resource *where, struct bytes content,
                         struct sealed_piece *piece_out, struct error *err)
{
    struct blob_upload upload = {.upload = uuid_random(), .writer_epoch = 1};
    struct blob_store *blobs = NULL;
    struct sealed_piece piece;
    OWNED(secret) *key = NULL;

    assert(content.length > 0 && content.length <= PIECE_MAX);
    TRY(registry_blobs(registry, where->region, &blobs, err));
    TRY(upload_key_new(registry, where, &piece.key, &key, err));
    TRY(abandoned_reserve(pg, &piece.key.id, where->region, err));
    upload.identity = identity_of(where, &piece.key.id);
    TRY(write_object(blobs, &upload, key, content, &piece.content, err));
    registry_remember_key(registry, where, &piece.key, key);
    digest_format(&piece.content.digest, piece.digest);
    *piece_out = piece;
    return SUCCESS;
}

struct result piece_read(struct registry *registry, const struct resource *where, const struct sealed_piece *piece,
                         const struct piece_range *range, struct buffer *into, struct error *err)
{
    const struct blob_identity identity = identity_of(where, &piece->key.id);
    struct blob_store *blobs = NULL;
    OWNED(secret) *key = NULL;
    OWNED(blob_reader) *reader = NULL;
    uint8_t *place = NULL;

    TRY(registry_blobs(registry, where->region, &blobs, err));
    TRY(registry_unwrap(registry, where, &piece->key, &key, err));
    TRY(blob_reader_open(blobs, &identity, &piece->content, key, &reader, err));
    TRY(buffer_reserve(into, range->length, &place, err));
    TRY(blob_reader_read(reader, SALT_SIZE + range->offset, place, range->length, err));
    into->length += range->length;
    return SUCCESS;
}

struct result piece_repository(const struct registry *registry, struct pg *pg, const struct resource *where,
                               struct uuid *repository_out, struct error *err)
{
    return repository_ensure(pg, where, registry->namespaces.repositories_per_project, repository_out, err);
}

void piece_add(struct pg_arguments *arguments, const struct sealed_piece *piece)
{
    pg_add_uuid(arguments, &piece->key.id);
    pg_add_text(arguments, piece->digest);
    pg_add_int8(arguments, (int64_t)piece->content.length);
    pg_add_int8(arguments, (int64_t)piece->content.part);
    key_record_add(arguments, &piece->key);
}

struct result piece_take(const struct pg_rows *rows, size_t row, size_t first_column, struct sealed_piece *piece_out,
                         struct error *err)
{
    struct sealed_piece piece = {.content.length = (uint64_t)pg_int8(rows, row, first_column + 2),
                                 .content.part = (uint32_t)pg_int8(rows, row, first_column + 3)};

    TRY(digest_parse(bytes_of_text(pg_text(rows, row, first_column + 1)), &piece.content.digest, err));
    digest_format(&piece.content.digest, piece.digest);
    piece.key.id = pg_uuid(rows, row, first_column);
    TRY(key_record_read(rows, row, first_column + 4, &piece.key, err));
    *piece_out = piece;
    return SUCCESS;
}
