/*
 * What one core does with blobs: blob_bench FOLDER [MIB]. The folder is made; its blobs are removed at the
 * end. Wall time is what a client sees; CPU time is what a core can do when the disk is not the limit.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/text.h"
#include "crypto/aead.h"
#include "storage/blob.h"

enum {
    PIECE = 128 << 10, /* as the gateway's ring hands them over */
    ROUNDS = 4,        /* the first ones may pay for memory that a virtual machine never touched before */
};

static uint8_t piece[PIECE];

struct span {
    double wall, user, system;
};

static double seconds(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static struct span start(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return (struct span){seconds(CLOCK_MONOTONIC), (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6,
                         (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6};
}

/* What a client sees; what a core can do; what our own code costs without the kernel's copying and
 * allocating. */
static void report(const char *what, struct span began, double bytes)
{
    const struct span ended = start();
    const double user = ended.user - began.user, system = ended.system - began.system;

    printf("%-34s %6.0f MB/s wall %6.0f of CPU time %6.0f of user time; kernel %.2f s/GB\n", what,
           bytes / (ended.wall - began.wall) / 1e6, bytes / (user + system) / 1e6, bytes / user / 1e6, system / bytes * 1e9);
}

static void must(struct result result, const struct error *err)
{
    if (result.ok) return;
    (void)fprintf(stderr, "%s\n", err->message);
    exit(1);
}

static struct digest hash_only(uint64_t length)
{
    OWNED(hasher) *hasher = NULL;
    struct error err = {0};
    const struct span began = start();

    must(hasher_new(DIGEST_SHA256, &hasher, &err), &err);
    for (uint64_t done = 0; done < length; done += PIECE) hasher_add(hasher, (struct bytes){piece, PIECE});
    const struct digest digest = hasher_digest(hasher);
    report("hash (SHA-256)", began, (double)length);
    return digest;
}

static void seal_only(uint64_t length)
{
    static uint8_t sealed[BLOB_RECORD_PLAIN + GCM_TAG_SIZE];
    static const uint8_t key[GCM_KEY_SIZE];
    OWNED(gcm) *gcm = NULL;
    uint8_t nonce[GCM_NONCE_SIZE] = {0};
    struct error err = {0};
    const struct span began = start();

    must(gcm_new(key, &gcm, &err), &err);
    for (uint64_t done = 0; done < length; done += BLOB_RECORD_PLAIN) {
        store_u64(nonce, done);
        must(gcm_seal(gcm, nonce, (struct bytes){0}, (struct bytes){piece, BLOB_RECORD_PLAIN}, sealed, &err), &err);
    }
    report("seal (AES-256-GCM, 64 KiB)", began, (double)length);
}

struct bench {
    struct blob_store *store;
    struct secret *key;
    struct blob_upload upload;
    struct blob_content content;
};

static void push(struct bench *bench, const char *what, const struct digest *digest, uint64_t length, bool checkpoints)
{
    OWNED(blob_writer) *writer = NULL;
    struct blob_checkpoint row;
    struct error err = {0};
    const struct span began = start();

    must(blob_writer_open(bench->store, &bench->upload, bench->key, NULL, &writer, &err), &err);
    for (uint64_t done = 0; done < length; done += PIECE) {
        must(blob_writer_write(writer, (struct bytes){piece, PIECE}, &err), &err);
        if (!checkpoints || !blob_writer_is_checkpoint_due(writer)) continue;
        must(blob_writer_checkpoint(writer, &row, &err), &err);
        blob_writer_committed(writer);
    }
    must(blob_writer_close(writer, digest, &bench->content, &err), &err);
    blob_writer_committed(writer);
    report(what, began, (double)length);
}

static void pull(struct bench *bench, const char *what)
{
    static uint8_t block[BLOB_READ_SIZE];
    OWNED(blob_reader) *reader = NULL;
    struct error err = {0};
    const struct span began = start();

    must(blob_reader_open(bench->store, &bench->upload.identity, &bench->content, bench->key, &reader, &err), &err);
    for (uint64_t at = 0; at < bench->content.length; at += sizeof block) {
        const uint64_t left = bench->content.length - at;
        must(blob_reader_read(reader, at, block, left < sizeof block ? (size_t)left : sizeof block, &err), &err);
    }
    report(what, began, (double)bench->content.length);
}

static void scrub(struct bench *bench)
{
    OWNED(blob_reader) *reader = NULL;
    struct error err = {0};
    const struct span began = start();

    must(blob_reader_open(bench->store, &bench->upload.identity, &bench->content, bench->key, &reader, &err), &err);
    must(blob_verify(reader, &(struct blob_verify_options){.with_digest = true}, &err), &err);
    report("verify with digest", began, (double)bench->content.length);
}

static void small_blobs(struct bench *bench, bool is_durable)
{
    enum { COUNT = 500, SIZE = 2000 };
    const struct digest digest = digest_of(DIGEST_SHA256, (struct bytes){piece, SIZE});
    struct uuid blobs[COUNT]; /* one for each, to remove them */
    struct error err = {0};
    double wall = seconds(CLOCK_MONOTONIC);

    for (size_t i = 0; i < COUNT; i++) {
        OWNED(blob_writer) *writer = NULL;
        bench->upload.identity = blob_identity_new(bench->store, &bench->upload.upload);
        blobs[i] = bench->upload.identity.blob;
        must(blob_writer_open(bench->store, &bench->upload, bench->key, NULL, &writer, &err), &err);
        must(blob_writer_write(writer, (struct bytes){piece, SIZE}, &err), &err);
        must(blob_writer_close(writer, &digest, &bench->content, &err), &err);
    }
    printf("%-34s %8.0f a second\n", is_durable ? "blobs of 2,000 bytes, in a folder" : "blobs of 2,000 bytes, in memory",
           COUNT / (seconds(CLOCK_MONOTONIC) - wall));
    wall = seconds(CLOCK_MONOTONIC);
    for (size_t i = 0; i < COUNT; i++) {
        OWNED(blob_reader) *reader = NULL;
        bench->upload.identity.blob = blobs[i];
        must(blob_reader_open(bench->store, &bench->upload.identity, &bench->content, bench->key, &reader, &err), &err);
        must(blob_reader_read(reader, 0, piece, SIZE, &err), &err);
    }
    printf("%-34s %8.0f a second\n", "read back", COUNT / (seconds(CLOCK_MONOTONIC) - wall));
    for (size_t i = 0; i < COUNT; i++) must(blob_remove(bench->store, &blobs[i], &err), &err);
}

static void run(struct bench *bench, struct driver *driver, uint64_t length, const struct digest *digest)
{
    const struct uuid project = uuid_random();
    const bool is_durable = strcmp(driver->operations->kind, "fs") == 0;
    struct error err = {0};

    must(blob_store_new(driver, "bench/here", NULL, &bench->store, &err), &err);
    must(secret_random(32, &bench->key, &err), &err);
    bench->upload.identity = blob_identity_new(bench->store, &project);
    for (unsigned round = 0; round < ROUNDS; round++) {
        must(blob_remove(bench->store, &bench->upload.identity.blob, &err), &err);
        push(bench, is_durable ? "push: hash, seal, write, fsync" : "push into memory", digest, length, false);
    }
    pull(bench, is_durable ? "pull from the page cache" : "pull from memory");
    if (is_durable) {
        scrub(bench); /* drops the page cache as it goes */
        pull(bench, "pull from the disk");
    }
    must(blob_remove(bench->store, &bench->upload.identity.blob, &err), &err);
    push(bench, "push with checkpoints", digest, length, true);
    must(blob_remove(bench->store, &bench->upload.identity.blob, &err), &err);
    small_blobs(bench, is_durable);
    blob_store_free(bench->store);
    secret_free(bench->key);
}

int main(int argc, char **argv)
{
    struct bench bench = {0};
    struct driver *driver = NULL;
    struct error err = {0};
    uint64_t mib = 1024;

    if (argc < 2 || argc > 3 || (argc == 3 && !text_to_u64(bytes_of_text(argv[2]), 1 << 20, &mib))) {
        (void)fprintf(stderr, "usage: blob_bench FOLDER [MIB]\n");
        return 2;
    }
    const uint64_t length = mib << 20;
    for (size_t i = 0; i < PIECE; i++) piece[i] = (uint8_t)(i * 31 + i / 256);
    const struct digest digest = hash_only(length);
    seal_only(length);
    must(driver_fs_open(argv[1], 64 << 20, &driver, &err), &err);
    run(&bench, driver, length, &digest);
    must(driver_memory_open(NULL, &driver, &err), &err);
    run(&bench, driver, length, &digest);
    return 0;
}
