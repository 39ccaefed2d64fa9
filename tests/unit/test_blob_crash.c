/* Uploads that crash, stall, race, run out of disk or memory: acknowledged bytes stay, and no nonce is used twice. */
#include "tests/support/unit.h"

#include "crypto/aead.h"
#include "tests/support/blob.h"
#include "tests/support/blob_schedule.h"

#define LENGTH_MAX 600000

/* ---- Every (key, nonce) in use; the linker puts these functions in front of crypto's own ---- */

struct use {
    uint8_t key[32], nonce[24];
};
static struct use *uses;
static size_t use_count, use_capacity;
static struct key_of {
    const struct gcm *gcm;
    uint8_t key[32];
} * keys;
static size_t key_count, key_capacity;

static void note_use(const uint8_t key[32], const uint8_t *nonce, size_t length)
{
    if (use_count == use_capacity) {
        use_capacity = use_capacity == 0 ? 1024 : use_capacity * 2;
        uses = realloc(uses, use_capacity * sizeof *uses); /* not through memory.h, because it must not fail on demand */
        assert_non_null(uses);
    }
    uses[use_count] = (struct use){0};
    memcpy(uses[use_count].key, key, 32);
    memcpy(uses[use_count++].nonce, nonce, length);
}

struct result __real_gcm_new(const uint8_t key[32], struct gcm **gcm_out, struct error *err);
struct result __wrap_gcm_new(const uint8_t key[32], struct gcm **gcm_out, struct error *err);
struct result __wrap_gcm_new(const uint8_t key[32], struct gcm **gcm_out, struct error *err)
{
    TRY(__real_gcm_new(key, gcm_out, err));
    if (key_count == key_capacity) {
        key_capacity = key_capacity == 0 ? 1024 : key_capacity * 2;
        keys = realloc(keys, key_capacity * sizeof *keys);
        assert_non_null(keys);
    }
    keys[key_count].gcm = *gcm_out;
    memcpy(keys[key_count++].key, key, 32);
    return SUCCESS;
}

struct result __real_gcm_seal(struct gcm *gcm, const uint8_t nonce[12], struct bytes associated, struct bytes plain,
                              uint8_t *sealed_out, struct error *err);
struct result __wrap_gcm_seal(struct gcm *gcm, const uint8_t nonce[12], struct bytes associated, struct bytes plain,
                              uint8_t *sealed_out, struct error *err);
struct result __wrap_gcm_seal(struct gcm *gcm, const uint8_t nonce[12], struct bytes associated, struct bytes plain,
                              uint8_t *sealed_out, struct error *err)
{
    size_t i = key_count;

    while (i > 0 && keys[i - 1].gcm != gcm) i--; /* the latest at this address */
    assert_true(i > 0);
    note_use(keys[i - 1].key, nonce, 12);
    return __real_gcm_seal(gcm, nonce, associated, plain, sealed_out, err);
}

void __real_xchacha_seal(const uint8_t key[32], const uint8_t nonce[24], struct bytes associated, struct bytes plain,
                         uint8_t *sealed_out);
void __wrap_xchacha_seal(const uint8_t key[32], const uint8_t nonce[24], struct bytes associated, struct bytes plain,
                         uint8_t *sealed_out);
void __wrap_xchacha_seal(const uint8_t key[32], const uint8_t nonce[24], struct bytes associated, struct bytes plain,
                         uint8_t *sealed_out)
{
    note_use(key, nonce, 24);
    __real_xchacha_seal(key, nonce, associated, plain, sealed_out);
}

static int compare_uses(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct use));
}

static void no_nonce_was_used_twice(void)
{
    assert_true(use_count > 0);
    qsort(uses, use_count, sizeof *uses, compare_uses);
    for (size_t i = 1; i < use_count; i++)
        if (memcmp(&uses[i - 1], &uses[i], sizeof *uses) == 0) fail_msg("a nonce was used twice under one key");
    use_count = key_count = 0;
}

/* ---- Random schedules ---- */

static const struct schedule_row {
    const char *name;
    enum blob_test_driver driver;
    uint64_t first, last;
} schedule_rows[] = {
    {"40 schedules in a folder", DRIVER_FS, 1, 40},
    {"30 schedules past the page cache", DRIVER_FS_PAST_CACHE, 1, 30},
    {"100 schedules in memory", DRIVER_MEMORY, 100, 199},
    {"100 schedules in a flat store", DRIVER_FLAT, 300, 399},
};

static void any_schedule_gives_the_same_content(void **state)
{
    const struct schedule_row *row = *state;

    for (uint64_t seed = row->first; seed <= row->last; seed++) {
        struct blob_test test;
        struct error err = {0};
        assert_true(blob_test_open(&test, row->driver, &err));
        blob_schedule_run(&test, seed, LENGTH_MAX);
        no_nonce_was_used_twice();
        blob_test_done(&test);
    }
}

int main(void)
{
    const int failed = RUN_TABLE(schedule_rows, any_schedule_gives_the_same_content);

    free(uses);
    free(keys);
    return failed;
}
