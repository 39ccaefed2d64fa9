/* A stored extent from a stranger: it opens only if it is the sealed one, byte for byte. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/sjb1_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Identity and key of "nothing" in docs/formats/sjb1-vectors.json: an empty blob, whose file is a seed. */
static const struct blob_identity identity = {
    .blob.bytes = {0x05, 0x6a, 0xd9, 0x64, 0x33, 0x19, 0x44, 0x2c, 0xa8, 0x0c, 0x75, 0xe2, 0xf3, 0xed, 0x72, 0xb1},
    .project.bytes = {0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f},
    .region = "test/here",
};

static void check(struct result result)
{
    if (!result.ok) abort();
}

static struct blob_store *store;
static struct driver *driver;
static struct secret *key;

static void prepare(void)
{
    struct error err;

    check(driver_memory_open(NULL, &driver, &err));
    check(blob_store_new(driver, identity.region, NULL, &store, &err));
    check(secret_new(SJB1_KEY_SIZE, &key, &err));
    for (size_t i = 0; i < SJB1_KEY_SIZE; i++) key->bytes[i] = (uint8_t)(0x80 + i);
}

static void put_file(struct bytes bytes)
{
    const struct driver_history history = {0};
    struct driver_extent *extent = NULL;
    struct error err;

    check(driver->operations->extent_create(driver, &identity.blob, &history, &extent, &err));
    check(driver->operations->extent_append(extent, bytes, &err));
    check(driver->operations->extent_finish(extent, &err));
    driver->operations->extent_close(extent);
}

static void check_headers(const uint8_t *data)
{
    struct sjb1_context format;
    struct error err;

    check(sjb1_context_make(&identity, secret_bytes(key), &format, &err));
    const bool is_accepted = sjb1_header_check(&format, data, &err).ok;
    assert(is_accepted == (memcmp(format.header, data, SJB1_HEADER_SIZE) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(blob_reader) *reader = NULL;
    const struct blob_content content = {.digest = digest_of(DIGEST_SHA256, (struct bytes){0})};
    struct error err = {0};

    if (store == NULL) prepare();
    if (size >= SJB1_HEADER_SIZE) check_headers(data);
    put_file((struct bytes){data, size});
    if (blob_reader_open(store, &identity, &content, key, &reader, &err).ok)
        assert(blob_verify(reader, &(struct blob_verify_options){.with_digest = true}, &err).ok || err.kind == ERROR_CORRUPT);
    else assert(err.kind == ERROR_CORRUPT);
    blob_reader_free(GIVE(reader));
    check(blob_remove(store, &identity.blob, &err));
    return 0;
}
