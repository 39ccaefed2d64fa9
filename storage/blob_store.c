#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "crypto/random.h"
#include "storage/blob_priv.h"

static void fill_from_kernel(void *context, uint8_t *out, size_t length)
{
    (void)context;
    random_bytes(out, length);
}

struct result blob_store_new(struct driver *driver, const char *region, const struct blob_random *random,
                             struct blob_store **store_out, struct error *err)
{
    const size_t length = strlen(region);

    if (length == 0 || length > BLOB_REGION_MAX)
        return failure(err, ERROR_INVALID, "a region's id has 1 to %d characters, not %zu", BLOB_REGION_MAX, length);
    OWNED(blocks) *blocks = NULL;
    TRY(blocks_new(BLOB_MEMORY_SIZE, &blocks, err));
    struct blob_store *store = memory_zeroed(1, sizeof *store);
    if (store == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a blob store");
    store->blocks = GIVE(blocks);
    store->driver = driver;
    store->operations = driver->operations;
    store->random = random == NULL ? ((struct blob_random){.fill = fill_from_kernel}) : *random;
    memcpy(store->region, region, length);
    *store_out = store;
    return SUCCESS;
}

void blob_store_free(struct blob_store *store)
{
    if (store == NULL) return;
    driver_free(store->driver);
    blocks_free(store->blocks);
    free(store);
}

void blob_store_random(struct blob_store *store, uint8_t *out, size_t length)
{
    store->random.fill(store->random.context, out, length);
}

struct result blob_store_owns(const struct blob_store *store, const struct blob_identity *identity, struct error *err)
{
    if (strcmp(store->region, identity->region) != 0)
        return failure(err, ERROR_INVALID, "a blob of region %s is not in region %s", identity->region, store->region);
    return SUCCESS;
}

struct blob_identity blob_identity_new(struct blob_store *store, const struct uuid *project)
{
    struct blob_identity identity = {.project = *project};

    blob_store_random(store, identity.blob.bytes, sizeof identity.blob.bytes);
    identity.blob.bytes[6] = (uint8_t)((identity.blob.bytes[6] & 0x0f) | 0x40); /* RFC 9562, version 4 */
    identity.blob.bytes[8] = (uint8_t)((identity.blob.bytes[8] & 0x3f) | 0x80);
    memcpy(identity.region, store->region, sizeof identity.region);
    return identity;
}

struct result blob_commitment(const struct blob_identity *identity, const struct secret *data_key, uint8_t commitment_out[32],
                              struct error *err)
{
    struct sjb1_context context;

    TRY(sjb1_context_make(identity, secret_bytes(data_key), &context, err));
    memcpy(commitment_out, sjb1_commitment(&context), SJB1_KEY_SIZE);
    return SUCCESS;
}

void blob_checkpoint_name(const uint8_t digest[SHA256_SIZE], char out[CHECKPOINT_NAME_SIZE])
{
    out[0] = 'c';
    text_hex(digest, SHA256_SIZE / 2, out + 1);
}

struct result blob_remove(struct blob_store *store, const struct uuid *blob, struct error *err)
{
    return store->operations->remove(store->driver, blob, NULL, 0, err);
}

struct result blob_list(struct blob_store *store, driver_visit *visit, void *context, struct error *err)
{
    return store->operations->list(store->driver, visit, context, err);
}

static struct result probe(struct blob_store *store, const struct driver_entry *entry, struct error *err)
{
    struct driver_part *part = NULL;

    if (!entry->is_extent) {
        struct buffer OWNED_BUFFER content = BUFFER(SJB1_CHECKPOINT_MAX);
        return store->operations->small_get(store->driver, &entry->blob, entry->name, &content, err);
    }
    const struct result opened = store->operations->part_open(store->driver, &entry->blob, entry->part, &part, err);
    if (opened.ok) store->operations->part_close(part);
    return opened;
}

struct result blob_has(struct blob_store *store, const struct driver_entry *entry, bool *has_out, struct error *err)
{
    const struct result probed = probe(store, entry, err);

    /* An object that is longer or shorter than ours also exists. */
    if (!probed.ok && err->kind != ERROR_NOT_FOUND && err->kind != ERROR_LIMIT && err->kind != ERROR_CORRUPT) return probed;
    *has_out = probed.ok || err->kind != ERROR_NOT_FOUND;
    return SUCCESS;
}

struct result blob_store_check(struct blob_store *store, struct error *err)
{
    return store->operations->check == NULL ? SUCCESS : store->operations->check(store->driver, err);
}

void blob_store_close(struct blob_store *store, bool is_closed)
{
    atomic_store(&store->is_closed, is_closed);
}

struct result blob_store_require_open(const struct blob_store *store, struct error *err)
{
    if (!atomic_load_explicit(&store->is_closed, memory_order_relaxed)) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "region %.63s is quarantined or retired: nothing is read or written there",
                   store->region);
}

bool blob_store_is_closed(const struct blob_store *store)
{
    return atomic_load_explicit(&store->is_closed, memory_order_relaxed);
}

struct result blob_store_survey(struct blob_store *store, struct driver_survey *survey_out, struct error *err)
{
    if (store->operations->survey == NULL) return failure(err, ERROR_NOT_FOUND, "there is nothing to ask this store");
    return store->operations->survey(store->driver, survey_out, err);
}

struct result blob_store_mark(struct blob_store *store, const char *mark, struct error *err)
{
    if (store->operations->mark == NULL) return failure(err, ERROR_NOT_FOUND, "this store has no place for a mark");
    return store->operations->mark(store->driver, mark, err);
}

struct result blob_store_room(struct blob_store *store, struct driver_room *room_out, struct error *err)
{
    if (store->operations->room == NULL) return failure(err, ERROR_NOT_FOUND, "this store has no bound that it knows of");
    return store->operations->room(store->driver, room_out, err);
}
