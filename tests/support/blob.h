/*
 * tests/support/blob.h -- shared by the tests of sealed blobs: content, stores, and a checkpoint that the test commits
 * in place of the database.
 */
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/memory.h"
#include "storage/blob.h"

#define TEST_REGION "test/here"

/** Content without repeated pieces. Byte i of one seed is always the same. */
static inline void blob_test_fill(uint64_t seed, uint64_t from, uint8_t *out, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        const uint64_t mixed = (from + i + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ seed * UINT64_C(0xd1342543de82ef95);
        out[i] = (uint8_t)(mixed >> 56 ^ mixed >> 29);
    }
}

/** A separate folder, removed with all its content. */
struct blob_test_folder {
    char path[40]; /* "/dev/shm/sijil_blob_XXXXXX" */
};

/** In memory unless `is_on_disk`, because a busy disk takes long for hundreds of fsyncs. */
static inline struct blob_test_folder blob_test_folder_new(bool is_on_disk)
{
    struct blob_test_folder folder = {.path = "/dev/shm/sijil_blob_XXXXXX"};
    struct statvfs shared;

    if (is_on_disk || statvfs("/dev/shm", &shared) != 0 || shared.f_bavail * shared.f_bsize < (48u << 20) ||
        mkdtemp(folder.path) == NULL) {
        folder = (struct blob_test_folder){.path = "/tmp/sijil_blob_XXXXXX"};
        if (mkdtemp(folder.path) == NULL) abort();
    }
    return folder;
}

static inline void blob_test_folder_done(const struct blob_test_folder *folder)
{
    char command[96];

    (void)snprintf(command, sizeof command, "rm -rf -- %s", folder->path);
    if (system(command) != 0) abort(); /* NOLINT(cert-env33-c): our own mkdtemp() name */
}

/* With ..._PAST_CACHE all extents use direct I/O (O_DIRECT); with the others, all use the page cache. */
enum blob_test_driver {
    DRIVER_FS,
    DRIVER_MEMORY,
    DRIVER_FLAT,
    DRIVER_FS_ON_DISK,
    DRIVER_FS_PAST_CACHE,
    DRIVER_DISK_PAST_CACHE,
    DRIVER_S3
};

struct blob_test {
    struct blob_test_folder folder; /* of DRIVER_FS, DRIVER_FS_ON_DISK */
    enum blob_test_driver kind;
    struct driver *driver; /* the store's */
    struct blob_store *store;
    struct secret *key;
    struct blob_upload upload;
    struct blob_checkpoint row; /* the checkpoint that the database would have */
};

/** A new blob in a store on `driver`; the store takes over the driver. */
static inline bool blob_test_use(struct blob_test *test, struct driver *driver, struct error *err)
{
    struct uuid project = uuid_random();

    test->driver = driver;
    if (!blob_store_new(test->driver, TEST_REGION, NULL, &test->store, err).ok) {
        driver_free(test->driver);
        return false;
    }
    test->upload.upload = uuid_random();
    test->upload.identity = blob_identity_new(test->store, &project);
    return secret_random(32, &test->key, err).ok;
}

static inline bool blob_test_open(struct blob_test *test, enum blob_test_driver kind, struct error *err)
{
    const struct driver_memory_options flat = {.is_flat = true};

    const bool is_on_disk = kind == DRIVER_FS_ON_DISK || kind == DRIVER_DISK_PAST_CACHE;
    const bool is_past = kind == DRIVER_FS_PAST_CACHE || kind == DRIVER_DISK_PAST_CACHE;

    *test = (struct blob_test){.kind = is_on_disk || is_past ? DRIVER_FS : kind};
    if (test->kind == DRIVER_FS) test->folder = blob_test_folder_new(is_on_disk);
    struct result result = test->kind == DRIVER_FS
                               ? driver_fs_open(test->folder.path, is_past ? 0 : UINT64_MAX, &test->driver, err)
                               : driver_memory_open(kind == DRIVER_FLAT ? &flat : NULL, &test->driver, err);
    return result.ok && blob_test_use(test, test->driver, err);
}

/** The same folder by another driver, for which extents of at most `cached_max` bytes go through the page cache. */
static inline void blob_test_reopen(struct blob_test *test, uint64_t cached_max)
{
    struct error err = {0};

    blob_store_free(GIVE(test->store));
    if (!driver_fs_open(test->folder.path, cached_max, &test->driver, &err).ok ||
        !blob_store_new(test->driver, TEST_REGION, NULL, &test->store, &err).ok)
        abort();
}

static inline void blob_test_done(struct blob_test *test)
{
    blob_store_free(test->store);
    secret_free(test->key);
    if (test->kind == DRIVER_FS && test->folder.path[0] != '\0') blob_test_folder_done(&test->folder);
}

/** Claims the upload, and opens a writer at the row's checkpoint. */
static inline struct result blob_test_writer(struct blob_test *test, struct blob_writer **writer_out, struct error *err)
{
    test->upload.writer_epoch++;
    return blob_writer_open(test->store, &test->upload, test->key, &test->row, writer_out, err);
}

/** Content from the writer's offset up to `until`, in pieces of `piece` bytes. */
static inline struct result blob_test_write(struct blob_writer *writer, uint64_t seed, uint64_t until, size_t piece,
                                            struct error *err)
{
    uint8_t *block = memory_zeroed(1, piece);
    struct result result = block == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for a test") : SUCCESS;

    while (result.ok && blob_writer_offset(writer) < until) {
        const uint64_t left = until - blob_writer_offset(writer);
        const size_t length = left < piece ? (size_t)left : piece;
        blob_test_fill(seed, blob_writer_offset(writer), block, length);
        result = blob_writer_write(writer, (struct bytes){block, length}, err);
    }
    free(block);
    return result;
}

static inline struct digest blob_test_digest(enum digest_algorithm algorithm, uint64_t seed, uint64_t length)
{
    static uint8_t block[65536];
    struct hasher *hasher = NULL;
    struct error err;

    if (!hasher_new(algorithm, &hasher, &err).ok) abort();
    for (uint64_t at = 0; at < length; at += sizeof block) {
        const size_t count = length - at < sizeof block ? (size_t)(length - at) : sizeof block;
        blob_test_fill(seed, at, block, count);
        hasher_add(hasher, (struct bytes){block, count});
    }
    const struct digest digest = hasher_digest(hasher);
    hasher_free(hasher);
    return digest;
}

/** Makes a checkpoint and commits it. */
static inline struct result blob_test_checkpoint(struct blob_test *test, struct blob_writer *writer, struct error *err)
{
    TRY(blob_writer_checkpoint(writer, &test->row, err));
    blob_writer_committed(writer);
    return SUCCESS;
}

/** Whether all bytes from `from` to `to`, read in pieces of `piece`, are those of `seed`. */
static inline bool blob_test_reads(struct blob_reader *reader, uint64_t seed, uint64_t from, uint64_t to, size_t piece,
                                   struct error *err)
{
    uint8_t *got = memory_zeroed(2, piece);
    bool same = got != NULL;

    for (; same && from < to; from += piece) {
        const size_t length = to - from < piece ? (size_t)(to - from) : piece;
        blob_test_fill(seed, from, got + piece, length);
        same = blob_reader_read(reader, from, got, length, err).ok && memcmp(got, got + piece, length) == 0;
    }
    free(got);
    return same;
}

/** The path of an extent's file, or of a small object's. */
static inline void blob_test_path(const struct blob_test *test, const char *suffix, char out[160])
{
    char hex[33];

    for (size_t i = 0; i < 16; i++) (void)snprintf(hex + 2 * i, 3, "%02x", test->upload.identity.blob.bytes[i]);
    (void)snprintf(out, 160, "%s/%.2s/%s.%s", test->folder.path, hex, hex, suffix);
}

/**
 * Whether all of these bytes are in the page cache. `from` is the start of a page, and the length at most 1 MiB. Only
 * mincore(2) does not change the cache: with a read that must not wait, newer kernels begin to read missing pages.
 */
static inline bool blob_test_is_cached(int file, size_t from, size_t length)
{
    unsigned char pages[256] = {0};
    const size_t count = (length + 4095) / 4096;
    bool all = count <= sizeof pages;
    void *map = mmap(NULL, length, PROT_READ, MAP_SHARED, file, (off_t)from);

    if (map == MAP_FAILED || !all || mincore(map, length, pages) != 0) abort();
    (void)munmap(map, length);
    for (size_t i = 0; i < count; i++) all = all && (pages[i] & 1) != 0;
    return all;
}

/** For blob_list(): counts the entries in the size_t that `context` points to. */
static inline struct result blob_test_count_entry(void *context, const struct driver_entry *entry, struct error *err)
{
    (void)entry;
    (void)err;
    ++*(size_t *)context;
    return SUCCESS;
}
