/* Asynchronous reads and writes: in order, with their failures reported, and never from or to memory that was given back. */
#include "tests/support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_queue.h"

#define PIECE  65536
#define PIECES 37
#define WRITES 2
#define READS  4

static uint8_t *bytes; /* aligned: a piece for each read; that is one for each write, and one to fill */

/* A file of this test alone; on the disk, because not each file system in memory knows O_DIRECT. */
static int open_file(void)
{
    char path[] = "/var/tmp/sijil_queue_XXXXXX";
    const int file = mkostemp(path, O_CLOEXEC);

    assert_true(file >= 0);
    assert_int_equal(unlink(path), 0);
    (void)fcntl(file, F_SETFL, O_DIRECT); /* without it the kernel only waits, and all else is the same */
    return file;
}

/* A file that accepts no byte, which the kernel notices while it writes. */
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
static struct result write_all(struct file_queue *queue, int file, struct error *err)
{
    for (size_t i = 0; i < PIECES; i++) {
        uint8_t *piece = bytes + i % (WRITES + 1) * PIECE;
        fill(piece, i);
        TRY(file_queue_write(queue, file, (struct bytes){piece, PIECE}, i * PIECE, err));
    }
    TRY(file_queue_sync(queue, file, err));
    return file_queue_wait(queue, err);
}

static void all_arrives_where_it_belongs(void **state)
{
    OWNED(file_queue) *queue = NULL;
    struct error err = {0};

    (void)state;
    must(file_queue_new(WRITES, &queue, &err), &err);
    for (size_t round = 0; round < 2; round++) { /* a queue is used again */
        OWNED_FD file = open_file();
        if (round == 1) (void)fallocate(file, 0, 0, (off_t)PIECES * PIECE);
        must(write_all(queue, file, &err), &err);
        check_file(file, PIECES);
    }
    must(file_queue_wait(queue, &err), &err); /* no call is running */
}

static void a_failure_is_told_later_and_once(void **state)
{
    OWNED(file_queue) *queue = NULL;
    OWNED_FD sealed = open_sealed();
    OWNED_FD file = open_file();
    struct error err = {0};

    (void)state;
    must(file_queue_new(WRITES, &queue, &err), &err);
    must(file_queue_write(queue, sealed, (struct bytes){bytes, 4096}, 0, &err), &err);
    assert_false(file_queue_wait(queue, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    must(file_queue_wait(queue, &err), &err);

    must(file_queue_write(queue, sealed, (struct bytes){bytes, 4096}, 0, &err), &err);
    struct result result = SUCCESS;
    for (size_t i = 0; i < WRITES && result.ok; i++)
        result = file_queue_write(queue, file, (struct bytes){bytes, 4096}, 4096, &err);
    assert_false(result.ok);
    assert_false(file_queue_write(queue, file, (struct bytes){bytes, 4096}, 4096, &err).ok);
    assert_false(file_queue_wait(queue, &err).ok);
    must(write_all(queue, file, &err), &err);
    check_file(file, PIECES);
}

/* A descriptor that can't be written is refused when the write begins. */
static void what_can_not_begin_is_told_at_once(void **state)
{
    OWNED(file_queue) *queue = NULL;
    OWNED_FD file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct error err = {0};

    (void)state;
    must(file_queue_new(WRITES, &queue, &err), &err);
    assert_false(file_queue_write(queue, file, (struct bytes){bytes, 4096}, 0, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    must(file_queue_wait(queue, &err), &err);
}

/* A folder has an fsync of its own, which writes don't wait for; a pipe has none. */
static void folders_are_made_durable_beside_writes(void **state)
{
    OWNED(file_queue) *queue = NULL;
    OWNED_FD folder = open("/var/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    OWNED_FD file = open_file();
    int ends[2] = {-1, -1};
    struct error err = {0};

    (void)state;
    must(file_queue_new(WRITES, &queue, &err), &err);
    must(file_queue_sync(queue, folder, &err), &err);
    must(file_queue_write(queue, file, (struct bytes){bytes, 4096}, 0, &err), &err);
    must(file_queue_sync(queue, file, &err), &err);
    must(file_queue_wait(queue, &err), &err);
    assert_int_equal(pipe(ends), 0);
    assert_false(file_queue_sync(queue, ends[1], &err).ok && file_queue_wait(queue, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    (void)close(ends[0]);
    (void)close(ends[1]);
    must(write_all(queue, file, &err), &err);
    check_file(file, PIECES);
}

/* ---- Reads ---- */

/* As many at a time as a queue allows; each piece must be complete when its read is reported. */
static struct result read_all(struct file_queue *queue, int file, size_t *short_out, struct error *err)
{
    static uint8_t expected[PIECE];
    size_t begun = 0, length = 0;

    for (size_t i = 0; i < PIECES; i++) {
        for (; begun < PIECES && begun < i + READS; begun++)
            TRY(file_queue_read(queue, file, bytes + begun % READS * PIECE, PIECE, begun * PIECE, err));
        TRY(file_queue_read_end(queue, &length, err));
        fill(expected, i);
        assert_memory_equal(bytes + i % READS * PIECE, expected, length);
        *short_out += PIECE - length;
    }
    return SUCCESS;
}

static int written_file(size_t length)
{
    OWNED(file_queue) *queue = NULL;
    const int file = open_file();
    struct error err = {0};

    must(file_queue_new(WRITES, &queue, &err), &err);
    must(write_all(queue, file, &err), &err);
    assert_int_equal(ftruncate(file, (off_t)length), 0);
    return file;
}

static void what_was_asked_for_comes_in_order(void **state)
{
    OWNED(file_queue) *queue = NULL;
    OWNED_FD file = written_file((size_t)PIECES * PIECE - 12345);
    struct error err = {0};
    size_t missing = 0, length = 0;

    (void)state;
    must(file_queue_new(READS, &queue, &err), &err);
    must(read_all(queue, file, &missing, &err), &err);
    assert_int_equal(missing, 12345);
    must(file_queue_read(queue, file, bytes, PIECE, (uint64_t)PIECES * PIECE, &err), &err);
    must(file_queue_read_end(queue, &length, &err), &err); /* behind the end */
    assert_int_equal(length, 0);
    for (size_t i = 0; i < READS; i++) must(file_queue_read(queue, file, bytes + i * PIECE, PIECE, 0, &err), &err);
    must(file_queue_wait(queue, &err), &err); /* no caller waits for them */
    missing = 0;
    must(read_all(queue, file, &missing, &err), &err);
}

static void a_file_that_is_closed_is_read_to_its_end(void **state)
{
    OWNED(file_queue) *queue = NULL;
    const int file = written_file((size_t)PIECES * PIECE);
    static uint8_t expected[PIECE];
    struct error err = {0};
    size_t length = 0;

    (void)state;
    must(file_queue_new(READS, &queue, &err), &err);
    must(file_queue_read(queue, file, bytes, PIECE, 0, &err), &err);
    assert_int_equal(close(file), 0);
    must(file_queue_read_end(queue, &length, &err), &err);
    fill(expected, 0);
    assert_int_equal(length, PIECE);
    assert_memory_equal(bytes, expected, PIECE);
}

static void a_read_that_can_not_begin_is_none(void **state)
{
    OWNED(file_queue) *queue = NULL;
    OWNED_FD unreadable = open("/dev/null", O_WRONLY | O_CLOEXEC);
    OWNED_FD file = written_file((size_t)PIECES * PIECE);
    struct error err = {0};
    size_t missing = 0;

    (void)state;
    must(file_queue_new(READS, &queue, &err), &err);
    assert_false(file_queue_read(queue, unreadable, bytes, PIECE, 0, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    must(read_all(queue, file, &missing, &err), &err);
    assert_int_equal(missing, 0);
}

/* ---- Failures ---- */

static int64_t told_outcome; /* of the next call that is done, if not 0 */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d, long e);

/* Replaces the C library's function: reports an operation as if the disk was full or broken. */
long __wrap_syscall(long number, long a, long b, long c, long d, long e)
{
    const long outcome = __real_syscall(number, a, b, c, d, e);
    struct io_event *event = (struct io_event *)(uintptr_t)d;

    if (number != SYS_io_getevents || outcome < 1 || told_outcome == 0) return outcome;
    const struct iocb *call = (const struct iocb *)(uintptr_t)event->obj;
    if (told_outcome > 0) assert_int_equal(ftruncate((int)call->aio_fildes, told_outcome), 0);
    event->res = told_outcome;
    told_outcome = 0;
    return outcome;
}

static struct result begin_write(struct file_queue *queue, int file, struct error *err)
{
    return file_queue_write(queue, file, (struct bytes){bytes, PIECE}, 0, err);
}

static struct result begin_sync(struct file_queue *queue, int file, struct error *err)
{
    return file_queue_sync(queue, file, err);
}

/* A full disk is reported as such, whenever the kernel notices; and the same queue works again when there is room. */
static void a_full_disk_is_not_a_broken_one(void **state)
{
    static const struct {
        struct result (*begin)(struct file_queue *queue, int file, struct error *err);
        int reason;
        enum error_kind kind;
    } failures[] = {
        {begin_write, ENOSPC, ERROR_FULL},     {begin_write, EDQUOT, ERROR_FULL}, {begin_write, EFBIG, ERROR_FULL},
        {begin_write, EIO, ERROR_UNAVAILABLE}, {begin_sync, ENOSPC, ERROR_FULL},  {begin_sync, EDQUOT, ERROR_FULL},
        {begin_sync, EIO, ERROR_UNAVAILABLE},
    };
    OWNED(file_queue) *queue = NULL;
    OWNED_FD file = open_file();
    struct error err = {0};

    (void)state;
    must(file_queue_new(WRITES, &queue, &err), &err);
    for (size_t i = 0; i < COUNT(failures); i++) {
        told_outcome = -failures[i].reason;
        must(failures[i].begin(queue, file, &err), &err);
        assert_false(file_queue_wait(queue, &err).ok);
        assert_int_equal(err.kind, failures[i].kind);
        assert_non_null(strstr(err.message, strerror(failures[i].reason)));
        must(write_all(queue, file, &err), &err);
        check_file(file, PIECES);
        (void)fcntl(file, F_SETFL, O_DIRECT);
    }
}

/* As on a full disk that has room again: no byte is missing. */
static void a_write_that_ends_early_is_finished(void **state)
{
    OWNED(file_queue) *queue = NULL;
    OWNED_FD file = open_file();
    struct error err = {0};

    (void)state;
    must(file_queue_new(WRITES, &queue, &err), &err);
    fill(bytes, 0);
    told_outcome = FILE_QUEUE_ALIGNMENT;
    must(begin_write(queue, file, &err), &err);
    must(file_queue_wait(queue, &err), &err);
    check_file(file, 1);
}

static void a_read_that_failed_is_told(void **state)
{
    OWNED(file_queue) *queue = NULL;
    OWNED_FD file = written_file((size_t)PIECES * PIECE);
    struct error err = {0};
    size_t missing = 0, length = 7;

    (void)state;
    must(file_queue_new(READS, &queue, &err), &err);
    told_outcome = -EIO;
    must(file_queue_read(queue, file, bytes, PIECE, 0, &err), &err);
    assert_false(file_queue_read_end(queue, &length, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_int_equal(length, 7);
    must(read_all(queue, file, &missing, &err), &err);
    assert_int_equal(missing, 0);
}

static struct result make_and_read(void *context, struct error *err)
{
    OWNED(file_queue) *queue = NULL;
    size_t missing = 0;

    TRY_UNTOUCHED_BYTES(queue, file_queue_new(READS, &queue, err));
    return read_all(queue, *(int *)context, &missing, err);
}

static struct result make_and_write(void *context, struct error *err)
{
    OWNED(file_queue) *queue = NULL;

    TRY_UNTOUCHED_BYTES(queue, file_queue_new(WRITES, &queue, err));
    return write_all(queue, *(int *)context, err);
}

static void every_failure_is_told(void **state)
{
    OWNED_FD file = open_file();

    (void)state;
    fail_each(make_and_write, &file, ERROR_NONE, 70);
    fail_each(make_and_read, &file, ERROR_NONE, 70);
    check_file(file, PIECES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_arrives_where_it_belongs),
        cmocka_unit_test(a_failure_is_told_later_and_once),
        cmocka_unit_test(what_can_not_begin_is_told_at_once),
        cmocka_unit_test(folders_are_made_durable_beside_writes),
        cmocka_unit_test(what_was_asked_for_comes_in_order),
        cmocka_unit_test(a_file_that_is_closed_is_read_to_its_end),
        cmocka_unit_test(a_read_that_can_not_begin_is_none),
        cmocka_unit_test(a_full_disk_is_not_a_broken_one),
        cmocka_unit_test(a_write_that_ends_early_is_finished),
        cmocka_unit_test(a_read_that_failed_is_told),
        cmocka_unit_test(every_failure_is_told),
    };

    if (posix_memalign((void **)&bytes, FILE_QUEUE_ALIGNMENT, (size_t)READS * PIECE) != 0) return 1;
    const int failed = cmocka_run_group_tests_name("file queue", tests, NULL, NULL);
    free(bytes);
    return failed;
}
