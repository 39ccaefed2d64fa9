/* Uploads that crash, stall, race, run out of disk or memory: what is acknowledged stays, no nonce is used
 * twice. */
#include "tests/support/unit.h"

#include "crypto/aead.h"
#include "tests/support/blob.h"

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
        uses =
            realloc(uses, use_capacity * sizeof *uses); /* not through memory.h: it may not fail on demand */
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

struct result __real_gcm_seal(struct gcm *gcm, const uint8_t nonce[12], struct bytes associated,
                              struct bytes plain, uint8_t *sealed_out, struct error *err);
struct result __wrap_gcm_seal(struct gcm *gcm, const uint8_t nonce[12], struct bytes associated,
                              struct bytes plain, uint8_t *sealed_out, struct error *err);
struct result __wrap_gcm_seal(struct gcm *gcm, const uint8_t nonce[12], struct bytes associated,
                              struct bytes plain, uint8_t *sealed_out, struct error *err)
{
    size_t i = key_count;

    while (i > 0 && keys[i - 1].gcm != gcm)
        i--; /* the latest at this address */
    assert_true(i > 0);
    note_use(keys[i - 1].key, nonce, 12);
    return __real_gcm_seal(gcm, nonce, associated, plain, sealed_out, err);
}

void __real_xchacha_seal(const uint8_t key[32], const uint8_t nonce[24], struct bytes associated,
                         struct bytes plain, uint8_t *sealed_out);
void __wrap_xchacha_seal(const uint8_t key[32], const uint8_t nonce[24], struct bytes associated,
                         struct bytes plain, uint8_t *sealed_out);
void __wrap_xchacha_seal(const uint8_t key[32], const uint8_t nonce[24], struct bytes associated,
                         struct bytes plain, uint8_t *sealed_out)
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
        if (memcmp(&uses[i - 1], &uses[i], sizeof *uses) == 0)
            fail_msg("a nonce was used twice under one key");
    use_count = key_count = 0;
}

/* ---- Random schedules ---- */

#define LENGTH_MAX 600000
#define ZOMBIES    64 /* writers that lost the upload and do not know it */

struct schedule {
    struct blob_test test;
    uint64_t random, seed, length;
    struct blob_writer *writer; /* owned */
    struct blob_writer *zombies[ZOMBIES];
    size_t zombie_count;
    bool is_closed;
    struct blob_content content;
};

static uint64_t draw(struct schedule *schedule, uint64_t below)
{
    schedule->random ^= schedule->random << 13; /* xorshift64 */
    schedule->random ^= schedule->random >> 7;
    schedule->random ^= schedule->random << 17;
    return schedule->random % below;
}

static void must(struct result result, const struct error *err)
{
    if (!result.ok) fail_msg("%s", err->message);
}

static void reopen(struct schedule *schedule)
{
    struct error err = {0};

    schedule->writer = NULL;
    must(blob_test_writer(&schedule->test, &schedule->writer, &err), &err);
    assert_int_equal(blob_writer_offset(schedule->writer), schedule->test.row.offset);
}

static void write_some(struct schedule *schedule)
{
    struct error err = {0};
    uint64_t until = blob_writer_offset(schedule->writer) + draw(schedule, draw(schedule, 2) ? 150000 : 100);

    if (until > schedule->length) until = schedule->length;
    must(blob_test_write(schedule->writer, schedule->seed, until, 1 + (size_t)draw(schedule, 70000), &err),
         &err);
}

/* A stalled writer goes on as if nothing had happened, with content of its own; nobody commits it. */
static void wake_a_zombie(struct schedule *schedule)
{
    struct blob_checkpoint unused;
    struct blob_content content;
    struct error err = {0};

    if (schedule->zombie_count == 0) return;
    struct blob_writer *zombie = schedule->zombies[draw(schedule, schedule->zombie_count)];
    const uint64_t until = blob_writer_offset(zombie) + draw(schedule, 150000);
    struct result result = blob_test_write(zombie, schedule->seed + 1000, until, 50000, &err);
    if (result.ok && draw(schedule, 2)) result = blob_writer_checkpoint(zombie, &unused, &err);
    if (result.ok && draw(schedule, 2)) {
        struct digest digests[2];
        (void)blob_writer_digests(zombie, digests);
        if (schedule->test.kind != DRIVER_FLAT)
            result = blob_writer_close(zombie, &digests[0], &content, &err);
    }
    (void)result; /* it may fail: its upload went on without it */
}

static void lose_the_writer(struct schedule *schedule)
{
    if (draw(schedule, 2) && schedule->zombie_count < ZOMBIES) {
        schedule->zombies[schedule->zombie_count++] = GIVE(schedule->writer);
    } else {
        if (schedule->test.kind != DRIVER_FS && draw(schedule, 2))
            driver_memory_lose_unsynced(schedule->test.driver);
        blob_writer_free(GIVE(schedule->writer));
    }
    reopen(schedule);
}

/* The closing PUT: a wrong digest now and then, and sometimes the commit is lost after it. */
static void close_it(struct schedule *schedule)
{
    struct error err = {0};
    struct digest digest = blob_test_digest(DIGEST_SHA256, schedule->seed, schedule->length);

    if (blob_writer_offset(schedule->writer) < schedule->length) return;
    if (draw(schedule, 3) == 0) {
        digest.bytes[5] ^= 1;
        assert_false(blob_writer_close(schedule->writer, &digest, &schedule->content, &err).ok);
        assert_int_equal(err.kind, ERROR_INVALID);
        return;
    }
    must(blob_writer_close(schedule->writer, &digest, &schedule->content, &err), &err);
    if (schedule->test.kind != DRIVER_FLAT && draw(schedule, 3) == 0) {
        lose_the_writer(schedule);
        return;
    }
    blob_writer_committed(schedule->writer);
    schedule->is_closed = true;
}

static void step(struct schedule *schedule)
{
    struct blob_checkpoint lost;
    struct error err = {0};

    switch (draw(schedule, 12)) {
    case 0:
    case 1: must(blob_test_checkpoint(&schedule->test, schedule->writer, &err), &err); break;
    case 2: /* the commit of a checkpoint fails */
        must(blob_writer_checkpoint(schedule->writer, &lost, &err), &err);
        lose_the_writer(schedule);
        break;
    case 3: lose_the_writer(schedule); break;
    case 4: wake_a_zombie(schedule); break;
    case 5: close_it(schedule); break;
    default: write_some(schedule); break;
    }
}

static struct result count_entry(void *context, const struct driver_entry *entry, struct error *err)
{
    (void)entry;
    (void)err;
    ++*(size_t *)context;
    return SUCCESS;
}

static void check_outcome(struct schedule *schedule)
{
    OWNED(blob_reader) *reader = NULL;
    struct blob_test *test = &schedule->test;
    struct error err = {0};
    size_t before = 0, after = 0, none = 0;

    if (test->kind != DRIVER_FS) driver_memory_lose_unsynced(test->driver);
    must(blob_reader_open(test->store, &test->upload.identity, &schedule->content, test->key, &reader, &err),
         &err);
    must(blob_list(test->store, count_entry, &before, &err), &err);
    for (int round = 0; round < 2; round++) {
        if (!blob_test_reads(reader, schedule->seed, 0, schedule->length, 100000, &err))
            fail_msg("the content differs: %s", err.message);
        must(blob_verify(reader, &(struct blob_verify_options){.with_digest = true}, &err), &err);
        must(blob_reader_tidy(reader, &err), &err);
    }
    must(blob_list(test->store, count_entry, &after, &err), &err);
    assert_true(after >= 1 && after <= before);
    must(blob_remove(test->store, &test->upload.identity.blob, &err), &err);
    must(blob_list(test->store, count_entry, &none, &err), &err);
    assert_int_equal(none, 0);
}

static void run_schedule(enum blob_test_driver driver, uint64_t seed)
{
    struct schedule schedule = {.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1, .seed = seed};
    struct error err = {0};

    assert_true(blob_test_open(&schedule.test, driver, &err));
    schedule.test.upload.with_sha512 = seed % 2 == 0;
    schedule.length = draw(&schedule, 4) == 0 ? 65520 * draw(&schedule, 9) : draw(&schedule, LENGTH_MAX);
    reopen(&schedule);
    for (unsigned steps = 0; !schedule.is_closed; steps++) {
        assert_true(steps < 10000);
        step(&schedule);
    }
    check_outcome(&schedule);
    no_nonce_was_used_twice();
    for (size_t i = 0; i < schedule.zombie_count; i++)
        blob_writer_free(schedule.zombies[i]);
    blob_writer_free(schedule.writer);
    blob_test_done(&schedule.test);
}

static const struct schedule_row {
    const char *name;
    enum blob_test_driver driver;
    uint64_t first, last;
} schedule_rows[] = {
    {"40 schedules in a folder", DRIVER_FS, 1, 40},
    {"100 schedules in memory", DRIVER_MEMORY, 100, 199},
    {"100 schedules in a flat store", DRIVER_FLAT, 300, 399},
};

static void any_schedule_gives_the_same_content(void **state)
{
    const struct schedule_row *row = *state;

    for (uint64_t seed = row->first; seed <= row->last; seed++)
        run_schedule(row->driver, seed);
}

int main(void)
{
    const int failed = RUN_TABLE(schedule_rows, any_schedule_gives_the_same_content);

    free(uses);
    free(keys);
    return failed;
}
