#include "tests/support/blob_schedule.h"

#include "tests/support/unit.h"

#define ZOMBIES 64 /* writers that lost the upload without notice */

struct schedule {
    struct blob_test *test;
    uint64_t random, seed, length, pace; /* pace: bytes of a large step */
    struct blob_writer *writer;          /* owned */
    struct blob_writer *zombies[ZOMBIES];
    size_t zombie_count;
    bool is_closed;
    struct blob_content content;
};

static bool is_in_memory(const struct blob_test *test)
{
    return test->kind == DRIVER_MEMORY || test->kind == DRIVER_FLAT;
}

static uint64_t draw(struct schedule *schedule, uint64_t below)
{
    schedule->random ^= schedule->random << 13; /* xorshift64 */
    schedule->random ^= schedule->random >> 7;
    schedule->random ^= schedule->random << 17;
    return schedule->random % below;
}

static void reopen(struct schedule *schedule)
{
    struct error err = {0};

    schedule->writer = NULL;
    must(blob_test_writer(schedule->test, &schedule->writer, &err), &err);
    assert_int_equal(blob_writer_offset(schedule->writer), schedule->test->row.offset);
}

static void write_some(struct schedule *schedule)
{
    struct error err = {0};
    uint64_t until = blob_writer_offset(schedule->writer) + draw(schedule, draw(schedule, 2) ? schedule->pace : 100);

    if (until > schedule->length) until = schedule->length;
    must(blob_test_write(schedule->writer, schedule->seed, until, 1 + (size_t)draw(schedule, 70000), &err), &err);
}

/* A stalled writer continues with other content; that content is never committed. */
static void wake_a_zombie(struct schedule *schedule)
{
    struct blob_checkpoint unused;
    struct blob_content content;
    struct error err = {0};

    if (schedule->zombie_count == 0) return;
    struct blob_writer *zombie = schedule->zombies[draw(schedule, schedule->zombie_count)];
    const uint64_t until = blob_writer_offset(zombie) + draw(schedule, schedule->pace);
    struct result result = blob_test_write(zombie, schedule->seed + 1000, until, 50000, &err);
    if (result.ok && draw(schedule, 2)) result = blob_writer_checkpoint(zombie, &unused, &err);
    if (result.ok && draw(schedule, 2)) {
        struct digest digests[2];
        (void)blob_writer_digests(zombie, digests);
        if (schedule->test->kind != DRIVER_FLAT) result = blob_writer_close(zombie, &digests[0], &content, &err);
    }
    (void)result; /* it may fail, because another writer has the upload */
}

static void lose_the_writer(struct schedule *schedule)
{
    if (draw(schedule, 2) && schedule->zombie_count < ZOMBIES) {
        schedule->zombies[schedule->zombie_count++] = GIVE(schedule->writer);
    } else {
        if (is_in_memory(schedule->test) && draw(schedule, 2)) driver_memory_lose_unsynced(schedule->test->driver);
        blob_writer_free(GIVE(schedule->writer));
    }
    reopen(schedule);
}

/* The closing PUT. Sometimes its digest is wrong, and sometimes its commit is lost. */
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
    if (schedule->test->kind != DRIVER_FLAT && draw(schedule, 3) == 0) {
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
    case 1: must(blob_test_checkpoint(schedule->test, schedule->writer, &err), &err); break;
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

static void check_outcome(struct schedule *schedule)
{
    OWNED(blob_reader) *reader = NULL;
    struct blob_test *test = schedule->test;
    struct error err = {0};
    size_t none = 0;

    if (is_in_memory(test)) driver_memory_lose_unsynced(test->driver);
    must(blob_reader_open(test->store, &test->upload.identity, &schedule->content, test->key, &reader, &err), &err);
    if (!blob_test_reads(reader, schedule->seed, 0, schedule->length, 100000, &err))
        fail_msg("the content differs: %s", err.message);
    must(blob_verify(reader, &(struct blob_verify_options){.with_digest = true}, &err), &err);
    must(blob_remove(test->store, &test->upload.identity.blob, &err), &err);
    must(blob_list(test->store, blob_test_count_entry, &none, &err), &err);
    assert_int_equal(none, 0);
}

void blob_schedule_run(struct blob_test *test, uint64_t seed, uint64_t length_max)
{
    struct schedule schedule = {.test = test, .random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1, .seed = seed};

    test->upload.with_sha512 = seed % 2 == 0;
    schedule.pace = length_max / 4;
    schedule.length = draw(&schedule, 4) == 0 ? 65520 * draw(&schedule, length_max / 65520) : draw(&schedule, length_max);
    reopen(&schedule);
    for (unsigned steps = 0; !schedule.is_closed; steps++) {
        assert_true(steps < 10000);
        step(&schedule);
    }
    check_outcome(&schedule);
    for (size_t i = 0; i < schedule.zombie_count; i++) blob_writer_free(schedule.zombies[i]);
    blob_writer_free(schedule.writer);
}
