/* Writes that go on meanwhile: in order of places, told when they fail, and never from bytes that are given back. */
#include "tests/support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/write_queue.h"

#define PIECE  65536
#define PIECES 37

static uint8_t *bytes; /* aligned: a piece for each write that may be under way, and one to fill */

static void must(struct result result, const struct error *err)
{
    if (!result.ok) fail_msg("%s", err->message);
}

/* A file that nobody else has; on the disk, because not each file system in memory knows O_DIRECT. */
static int open_file(void)
{
    char path[] = "/var/tmp/sijil_queue_XXXXXX";
    const int file = mkostemp(path, O_CLOEXEC);

    assert_true(file >= 0);
    assert_int_equal(unlink(path), 0);
    (void)fcntl(file, F_SETFL, O_DIRECT); /* without it the kernel only waits, and all else is the same */
    return file;
}

/* One that takes no byte, which the kernel finds out while it writes. */
static int open_sealed(void)
{
    const int file = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, PIECE), 0);
    assert_int_equal(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE), 0);
    return file;
}

static void fill(uint8_t *piece, size_t number)
{
    memset(piece, (int)(number * 7 + 1), PIECE);
}

static void check_file(int file, size_t pieces)
{
    static uint8_t got[PIECE], expected[PIECE];
    struct error err = {0};

    assert_int_equal(fcntl(file, F_SETFL, 0), 0);
    for (size_t i = 0; i < pieces; i++) {
        fill(expected, i);
        must(file_read_at(file, got, PIECE, i * PIECE, &err), &err);
        assert_memory_equal(got, expected, PIECE);
    }
}

/* Each piece is filled again as soon as the header allows it. */
static struct result write_all(struct write_queue *queue, int file, struct error *err)
{
    for (size_t i = 0; i < PIECES; i++) {
        uint8_t *piece = bytes + i % (WRITE_QUEUE_DEPTH + 1) * PIECE;
        fill(piece, i);
        TRY(write_queue_add(queue, file, (struct bytes){piece, PIECE}, i * PIECE, err));
    }
    return write_queue_wait(queue, err);
}

static void all_arrives_where_it_belongs(void **state)
{
    OWNED(write_queue) *queue = NULL;
    struct error err = {0};

    (void)state;
    must(write_queue_new(&queue, &err), &err);
    for (size_t round = 0; round < 2; round++) { /* a queue is used again */
        OWNED_FD file = open_file();
        if (round == 1) (void)fallocate(file, 0, 0, (off_t)PIECES * PIECE);
        must(write_all(queue, file, &err), &err);
        check_file(file, PIECES);
    }
    must(write_queue_wait(queue, &err), &err); /* nothing is under way */
}

static void a_failure_is_told_later_and_once(void **state)
{
    OWNED(write_queue) *queue = NULL;
    OWNED_FD sealed = open_sealed();
    OWNED_FD file = open_file();
    struct error err = {0};

    (void)state;
    must(write_queue_new(&queue, &err), &err);
    must(write_queue_add(queue, sealed, (struct bytes){bytes, 4096}, 0, &err), &err);
    assert_false(write_queue_wait(queue, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    must(write_queue_wait(queue, &err), &err);

    must(write_queue_add(queue, sealed, (struct bytes){bytes, 4096}, 0, &err), &err);
    struct result result = SUCCESS;
    for (size_t i = 0; i < WRITE_QUEUE_DEPTH && result.ok; i++)
        result = write_queue_add(queue, file, (struct bytes){bytes, 4096}, 4096, &err);
    assert_false(result.ok);
    assert_false(write_queue_add(queue, file, (struct bytes){bytes, 4096}, 4096, &err).ok);
    assert_false(write_queue_wait(queue, &err).ok);
    must(write_all(queue, file, &err), &err);
    check_file(file, PIECES);
}

/* A descriptor that can't be written is refused when the write begins. */
static void what_can_not_begin_is_told_at_once(void **state)
{
    OWNED(write_queue) *queue = NULL;
    OWNED_FD file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct error err = {0};

    (void)state;
    must(write_queue_new(&queue, &err), &err);
    assert_false(write_queue_add(queue, file, (struct bytes){bytes, 4096}, 0, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    must(write_queue_wait(queue, &err), &err);
}

static struct result make_and_write(void *context, struct error *err)
{
    OWNED(write_queue) *queue = NULL;

    TRY(write_queue_new(&queue, err));
    return write_all(queue, *(int *)context, err);
}

static void every_failure_is_told(void **state)
{
    OWNED_FD file = open_file();

    (void)state;
    for (unsigned long nth = 1, fired = 1; fired; nth++) {
        struct error err = {0};
        fault_arm(nth);
        const struct result result = make_and_write(&file, &err);
        fired = fault_has_fired();
        fault_arm(0);
        assert_int_equal(result.ok, !fired);
        if (fired) assert_true(err.kind == ERROR_UNAVAILABLE || err.kind == ERROR_NO_MEMORY);
    }
    check_file(file, PIECES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_arrives_where_it_belongs),
        cmocka_unit_test(a_failure_is_told_later_and_once),
        cmocka_unit_test(what_can_not_begin_is_told_at_once),
        cmocka_unit_test(every_failure_is_told),
    };

    if (posix_memalign((void **)&bytes, WRITE_QUEUE_ALIGNMENT, (size_t)(WRITE_QUEUE_DEPTH + 1) * PIECE) != 0) return 1;
    const int failed = cmocka_run_group_tests_name("write queue", tests, NULL, NULL);
    free(bytes);
    return failed;
}
