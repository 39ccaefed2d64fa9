#include <stdio.h>
#include <string.h>

#include "crypto/random.h"
#include "registry/repository_store.h"
#include "registry/upload/abandoned_store.h"
#include "registry/upload/upload_priv.h"

/* Every part has a maximum size, so one buffer has room for all. */
void upload_owner_hash(const struct principal *principal, uint8_t hash_out[SHA256_SIZE])
{
    uint8_t parts[sizeof principal->issuer + sizeof principal->subject + sizeof principal->source +
                  sizeof principal->confirmation + sizeof principal->id + 1] = {0};
    const char *const texts[] = {principal->issuer, principal->subject, principal->source, principal->confirmation};
    size_t length = 0;

    parts[length++] = (uint8_t)principal->kind;
    memcpy(parts + length, principal->id.bytes, sizeof principal->id.bytes);
    length += sizeof principal->id.bytes;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        memcpy(parts + length, texts[i], strlen(texts[i]));
        length += strlen(texts[i]) + 1; /* with its '\0', so that parts can't run together */
    }
    sha256_of((struct bytes){parts, length}, hash_out);
}

void upload_secret_hash(const struct upload_location *location, uint8_t hash_out[SHA256_SIZE])
{
    sha256_of((struct bytes){location->secret, sizeof location->secret}, hash_out);
}

static struct result run_begin(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct upload_begin *begin = (struct upload_begin *)(void *)change; /* its first member */

    permit_require(permit, ACTION_UPLOAD_BEGIN, &begin->where);
    TRY(repository_ensure(pg, &begin->where, begin->repositories_max, &begin->repository, err));
    return upload_row_insert(pg, begin, err);
}

static struct result add_begin(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct upload_begin *begin = (const struct upload_begin *)(void *)change; /* its first member */

    permit_require(permit, ACTION_UPLOAD_BEGIN, &begin->where);
    return upload_row_add(pg, begin, err);
}

static void take_begin(struct change *change, const struct pg_rows *answer)
{
    upload_row_take_begin(answer, (struct upload_begin *)(void *)change); /* its first member */
}

struct result upload_key_new(struct registry *registry, const struct resource *where, struct key_record *record_out,
                             struct secret **key_out, struct error *err)
{
    const struct key_scope scope = registry_key_scope(where);
    struct blob_store *blobs = NULL;
    struct key_record record;

    TRY(registry_blobs(registry, where->region, &blobs, err));
    const struct blob_identity identity = blob_identity_new(blobs, &where->project);
    OWNED(secret) *key = NULL;
    TRY(secret_random(DATA_KEY_SIZE, &key, err));
    record = (struct key_record){.id = identity.blob};
    TRY(blob_commitment(&identity, key, record.commitment, err));
    const struct key_binding binding = key_binding_of(&scope, &record.id, record.commitment);
    TRY(keyd_wrap(registry->keyd, &binding, key, &record.wrapped, err));
    *record_out = record;
    *key_out = GIVE(key);
    return SUCCESS;
}

static struct result make_key(struct registry *registry, struct upload_begin *begin, struct error *err)
{
    OWNED(secret) *key = NULL;

    TRY(upload_key_new(registry, &begin->where, &begin->key, &key, err));
    begin->blob = begin->key.id;
    registry_remember_key(registry, &begin->where, &begin->key, key);
    return SUCCESS;
}

struct result upload_begin_prepare(struct registry *registry, const struct resource *where, const struct principal *principal,
                                   enum digest_algorithm algorithm, struct upload_begin *begin_out, struct error *err)
{
    struct upload_begin begin = {.change = {.run = run_begin, .take = take_begin, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                 .where = *where,
                                 .algorithm = algorithm,
                                 .is_of_run = principal->kind == PRINCIPAL_RUN,
                                 .is_counted = true};

    begin.repository = where->repository;
    begin.limits = registry->uploads_open;
    begin.repositories_max = registry->namespaces.repositories_per_project;
    memcpy(begin.issuer, principal->issuer, sizeof begin.issuer);
    memcpy(begin.subject, principal->subject, sizeof begin.subject);
    if (!uuid_is_nil(&where->repository)) begin.change.add = add_begin; /* a new repository needs other statements first */
    if (uuid_is_nil(&where->project)) return failure(err, ERROR_NOT_FOUND, "there is no such project");
    begin.location.upload = uuid_random();
    random_bytes(begin.location.secret, sizeof begin.location.secret);
    upload_secret_hash(&begin.location, begin.secret_hash);
    upload_owner_hash(principal, begin.bound_to);
    TRY(make_key(registry, &begin, err));
    *begin_out = begin;
    return SUCCESS;
}

void upload_begin_finish(struct registry *registry, const struct upload_begin *begin)
{
    upload_table_note_begun(registry->uploads, &begin->location.upload);
}

static struct result run_cancel(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct upload_cancel *cancel = (struct upload_cancel *)(void *)change; /* its first member */
    const struct upload_key key = {
        .upload = cancel->upload,
        .repository = cancel->where.repository,
        .region = cancel->where.region,
        .bound_to = cancel->bound_to,
        .secret_hash = cancel->secret_hash,
    };

    permit_require(permit, ACTION_UPLOAD_CANCEL, &cancel->where);
    return upload_row_cancel(pg, &key, &cancel->blob, err);
}

void upload_cancel_prepare(const struct resource *where, const struct principal *principal,
                           const struct upload_location *location, struct upload_cancel *cancel_out)
{
    *cancel_out = (struct upload_cancel){
        .change = {.run = run_cancel, .invalidates = CHANGE_INVALIDATES_NOTHING}, .where = *where, .upload = location->upload};
    upload_owner_hash(principal, cancel_out->bound_to);
    upload_secret_hash(location, cancel_out->secret_hash);
}

void upload_cancel_finish(const struct permit *permit, struct registry *registry, struct pg *pg,
                          const struct upload_cancel *cancel)
{
    struct abandoned_object object = {.blob = cancel->blob};

    permit_require(permit, ACTION_UPLOAD_CANCEL, &cancel->where);
    upload_table_end(registry->uploads, &cancel->upload);
    (void)snprintf(object.region, sizeof object.region, "%s", cancel->where.region);
    (void)upload_sweep(registry, pg, &object);
}
