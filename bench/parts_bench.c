/*
 * bench/parts_bench.c -- the parts of a push measured alone, each on one core: SHA-256, AES-256-GCM, a file that is
 * written and synced by the driver of regions in folders.
 *
 * usage: parts_bench FOLDER [MIB]
 * FOLDER is made into a region. The file stays in it: removing it takes CPU time, too, and gives back memory that the next one would profit from.
 * Prints CPU seconds (user and kernel) per GB as JSON. Each part has its bytes in the second-level cache, in pieces as the
 * gateway hands them on, and does nothing else: no part pays for the hand-over to the next one, so their sum is what
 * a push can't get below with these libraries and this kernel.
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/text.h"
#include "crypto/aead.h"
#include "crypto/digest.h"
#include "storage/driver.h"

enum {
    PIECE = 128 << 10,  /* of a body */
    RECORD = 64 << 10,  /* that is sealed at a time */
    APPEND = 256 << 10, /* to a blob's file */
};

static uint8_t piece[PIECE], sealed[RECORD + GCM_TAG_SIZE];
static _Alignas(4096) uint8_t block[APPEND];

static double cpu_seconds(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static bool hash(uint64_t length)
{
    OWNED(hasher) *hasher = NULL;
    struct error err = {0};

    if (!hasher_new(DIGEST_SHA256, &hasher, &err).ok) return false;
    for (uint64_t done = 0; done < length; done += PIECE) hasher_add(hasher, (struct bytes){piece, PIECE});
    const struct digest digest = hasher_digest(hasher);
    piece[0] = (uint8_t)(piece[0] ^ digest.bytes[0]); /* so that it is needed */
    return true;
}

static bool seal(uint64_t length)
{
    static const uint8_t key[GCM_KEY_SIZE];
    OWNED(gcm) *gcm = NULL;
    uint8_t nonce[GCM_NONCE_SIZE] = {0};
    struct error err = {0};

    if (!gcm_new(key, &gcm, &err).ok) return false;
    for (uint64_t done = 0; done < length; done += RECORD) {
        store_u64(nonce, done);
        if (!gcm_seal(gcm, nonce, (struct bytes){0}, (struct bytes){piece, RECORD}, sealed, &err).ok) return false;
    }
    return true;
}

static bool write_file(struct driver *driver, uint64_t length, struct error *err)
{
    const struct driver_operations *operations = driver->operations;
    const struct driver_history nothing = {0};
    const struct uuid blob = uuid_random();
    struct driver_extent *extent = NULL;
    struct result result = operations->extent_create(driver, &blob, &nothing, &extent, err);

    if (!result.ok) return false;
    for (uint64_t done = 0; done < length && result.ok; done += APPEND)
        result = operations->extent_append(extent, (struct bytes){block, APPEND}, err);
    if (result.ok) result = operations->extent_finish(extent, err);
    operations->extent_close(extent);
    return result.ok;
}

int main(int count, char **words)
{
    uint64_t mib = 1024;

    if (count < 2 || count > 3 || (count == 3 && !text_to_u64(bytes_of_text(words[2]), 1 << 20, &mib))) {
        (void)fprintf(stderr, "usage: parts_bench FOLDER [MIB]\n");
        return 2;
    }
    OWNED(driver) *driver = NULL;
    struct error err = {0};
    if (!driver_fs_open(words[1], 64 << 20, &driver, &err).ok) {
        (void)fprintf(stderr, "parts_bench: %s\n", err.message);
        return 1;
    }
    const uint64_t length = mib << 20;
    const double gigabytes = (double)length / 1e9;
    for (size_t i = 0; i < PIECE; i++) piece[i] = (uint8_t)(i * 31 + i / 256);
    const double start = cpu_seconds();
    bool ok = hash(length);
    const double hashed = cpu_seconds();
    ok = ok && seal(length);
    const double encrypted = cpu_seconds();
    ok = ok && write_file(driver, length, &err);
    const double written = cpu_seconds();
    if (!ok) {
        (void)fprintf(stderr, "parts_bench: %s\n", err.message);
        return 1;
    }
    (void)printf("{\"sha256\":%.4f,\"aes-256-gcm\":%.4f,\"write and fsync\":%.4f}\n", (hashed - start) / gigabytes,
                 (encrypted - hashed) / gigabytes, (written - encrypted) / gigabytes);
    return 0;
}
