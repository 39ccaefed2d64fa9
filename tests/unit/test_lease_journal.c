/* The journal of leases: no lease is taken twice, with any fault in between. */
#include "tests/support/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "journal/journal.h"
#include "runner/order/lease_journal.h"
#include "tests/support/signal_process.h"

#define HOUR_MS INT64_C(3600000)
#define NOW_MS  INT64_C(1800000000000)

struct folder {
    char path[40];
    int fd;
};

static void folder_make(struct folder *folder)
{
    (void)snprintf(folder->path, sizeof folder->path, "/dev/shm/sijil-leases-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
    folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder->fd >= 0);
}

static void folder_remove(struct folder *folder)
{
    (void)unlinkat(folder->fd, "leases.journal", 0);
    (void)unlinkat(folder->fd, "leases.key", 0);
    (void)close(folder->fd);
    (void)rmdir(folder->path);
}
#define OWNED_FOLDER __attribute__((cleanup(folder_remove))) struct folder

static struct taken_lease lease_of(uint32_t number)
{
    struct taken_lease lease = {.attempt = 1, .node = 2, .begins_ms = NOW_MS + number, .expires_ms = NOW_MS + HOUR_MS};

    store_u32(lease.nonce, number);
    store_u32(lease.digest, number);
    store_u32(lease.run.bytes, number);
    return lease;
}

static struct lease_journal *open_journal(const struct folder *folder)
{
    struct lease_journal *journal = NULL;
    struct error err = {0};

    if (!lease_journal_open(folder->fd, &journal, &err).ok) fail_msg("%s", err.message);
    return journal;
}

/* ERROR_NONE: it was taken. */
static enum error_kind take(struct lease_journal *journal, const struct taken_lease *lease, int64_t now_ms)
{
    struct error err = {0};

    return lease_journal_take(journal, lease, now_ms, &err).ok ? ERROR_NONE : err.kind;
}

static void a_lease_is_taken_once(void **state)
{
    OWNED_FOLDER folder;
    struct taken_lease first = lease_of(1), same_nonce = lease_of(1), same_digest = lease_of(1), second = lease_of(2), unfinished;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    same_nonce.digest[9] = 1;
    same_digest.nonce[9] = 1;
    for (int again = 0; again < 2; again++) {
        OWNED(lease_journal) *journal = open_journal(&folder);
        assert_int_equal(take(journal, &first, NOW_MS), again == 0 ? ERROR_NONE : ERROR_CONFLICT);
        assert_int_equal(take(journal, &same_nonce, NOW_MS), ERROR_CONFLICT);
        assert_int_equal(take(journal, &same_digest, NOW_MS), ERROR_CONFLICT);
        assert_int_equal(take(journal, &second, NOW_MS), again == 0 ? ERROR_NONE : ERROR_CONFLICT);
        assert_true(lease_journal_latest_ms(journal) == NOW_MS);
        assert_int_equal(lease_journal_list(journal, &unfinished, 1), 1);
        assert_memory_equal(unfinished.nonce, again == 0 ? first.nonce : second.nonce, LEASE_NONCE_SIZE);
        assert_true(unfinished.node == 2 && unfinished.attempt == 1);
        assert_true(lease_journal_end(journal, again == 0 ? first.nonce : second.nonce, &err).ok);
    }
    OWNED(lease_journal) *journal = open_journal(&folder);
    assert_int_equal(lease_journal_list(journal, &unfinished, 1), 0);
    assert_false(lease_journal_end(journal, lease_of(3).nonce, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

static void leases_are_forgotten_when_they_are_over(void **state)
{
    OWNED_FOLDER folder;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    OWNED(lease_journal) *journal = open_journal(&folder);
    for (uint32_t i = 0; i < LEASES_MAX; i++) {
        const struct taken_lease lease = lease_of(i);
        assert_true(lease_journal_has_room(journal));
        assert_int_equal(take(journal, &lease, NOW_MS), ERROR_NONE);
    }
    const struct taken_lease more = lease_of(LEASES_MAX);
    assert_false(lease_journal_has_room(journal));
    assert_int_equal(take(journal, &more, NOW_MS), ERROR_LIMIT);
    assert_int_equal(take(journal, &more, NOW_MS + 2 * HOUR_MS), ERROR_LIMIT); /* all have expired, and have not ended */
    assert_true(lease_journal_end(journal, lease_of(7).nonce, &err).ok);
    assert_true(lease_journal_has_room(journal));
    assert_int_equal(take(journal, &more, NOW_MS), ERROR_NONE);
    assert_int_equal(take(journal, &more, NOW_MS), ERROR_CONFLICT);
    assert_true(lease_journal_latest_ms(journal) == NOW_MS + 2 * HOUR_MS);
}

#define MORE 50 /* than the journal has room for */

/* Many short runs under long leases: the first of them make room, and none of them can be taken again. */
static void a_journal_is_never_full_of_ended_leases(void **state)
{
    const struct taken_lease first = lease_of(0), second = lease_of(1), last = lease_of(LEASES_MAX + MORE);
    struct taken_lease late = lease_of(5 * LEASES_MAX);
    OWNED_FOLDER folder;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    {
        OWNED(lease_journal) *journal = open_journal(&folder);
        for (uint32_t i = 0; i < LEASES_MAX + MORE; i++) {
            const struct taken_lease lease = lease_of(i);
            assert_int_equal(take(journal, &lease, NOW_MS), ERROR_NONE);
            if (i != 1) assert_true(lease_journal_end(journal, lease.nonce, &err).ok); /* that one runs on */
        }
    }
    OWNED(lease_journal) *journal = open_journal(&folder);
    struct taken_lease unfinished;
    assert_int_equal(lease_journal_list(journal, &unfinished, 1), 1);
    assert_memory_equal(unfinished.nonce, second.nonce, LEASE_NONCE_SIZE);
    for (uint32_t i = 0; i < LEASES_MAX + MORE; i++) {
        const struct taken_lease lease = lease_of(i);
        const enum error_kind kind = i == 1 || i > MORE ? ERROR_CONFLICT : ERROR_LIMIT;
        assert_int_equal(take(journal, &lease, NOW_MS), kind);
    }
    late.begins_ms = first.begins_ms; /* another lease of a time that is forgotten */
    assert_int_equal(take(journal, &late, NOW_MS), ERROR_LIMIT);
    assert_int_equal(take(journal, &last, NOW_MS), ERROR_NONE);
}

/* ---- version 1 ---- */

#define COPY_SIZE   81920
#define BODY_SIZE_1 (12 + 1000 * 75)
#define ENDED_1     5 /* its number; it has ended, and has not expired */

static size_t body_size_1(uint8_t version)
{
    return version == 1 ? BODY_SIZE_1 : 0;
}

static void write_1(const void *state, uint8_t *body_out)
{
    const struct taken_lease lease = lease_of(ENDED_1);
    uint8_t *to = body_out + 12;

    (void)state;
    memset(body_out, 0, BODY_SIZE_1);
    store_u64(body_out, (uint64_t)NOW_MS);
    store_u32(body_out + 8, 1);
    memcpy(to, lease.nonce, LEASE_NONCE_SIZE);
    memcpy(to + 16, lease.digest, LEASE_DIGEST_SIZE);
    memcpy(to + 48, lease.run.bytes, sizeof lease.run);
    to[64] = lease.attempt;
    to[65] = lease.node;
    to[66] = 1;
    store_u64(to + 67, (uint64_t)lease.expires_ms);
}

/* A file of version 1 does not say when a lease began, so the lease makes no room before it has expired. */
static void version_1_is_read(void **state)
{
    static const struct journal_format format = {.name = "leases.journal",
                                                 .magic = "SJLJ",
                                                 .version = 1,
                                                 .copy_size = COPY_SIZE,
                                                 .body_size = body_size_1,
                                                 .write = write_1};
    static const uint8_t key[JOURNAL_KEY_SIZE] = {1};
    const struct taken_lease known = lease_of(ENDED_1), more = lease_of(2 * LEASES_MAX);
    OWNED_FOLDER folder;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_true(journal_create(folder.fd, &format, key, "", &err).ok);
    assert_true(file_replace_at(folder.fd, "leases.key", (struct bytes){key, sizeof key}, 0600, &err).ok);
    for (int again = 0; again < 2; again++) {
        OWNED(lease_journal) *journal = open_journal(&folder);
        assert_true(lease_journal_latest_ms(journal) == NOW_MS);
        struct taken_lease unfinished;
        assert_int_equal(lease_journal_list(journal, &unfinished, 1), 0);
        assert_int_equal(take(journal, &known, NOW_MS), ERROR_CONFLICT);
    }
    OWNED(lease_journal) *journal = open_journal(&folder);
    for (uint32_t i = LEASES_MAX; i < 2 * LEASES_MAX - 1; i++) {
        const struct taken_lease lease = lease_of(i);
        assert_int_equal(take(journal, &lease, NOW_MS), ERROR_NONE);
    }
    assert_int_equal(take(journal, &more, NOW_MS), ERROR_LIMIT);
    assert_int_equal(take(journal, &more, NOW_MS + 2 * HOUR_MS), ERROR_NONE);
}

static void the_generation_only_rises(void **state)
{
    OWNED_FOLDER folder;
    uint64_t before = 0;

    (void)state;
    folder_make(&folder);
    for (uint32_t i = 0; i < 3; i++) {
        OWNED(lease_journal) *journal = open_journal(&folder);
        const struct taken_lease lease = lease_of(i);
        assert_true(lease_journal_generation(journal) > before);
        before = lease_journal_generation(journal);
        assert_int_equal(take(journal, &lease, NOW_MS), ERROR_NONE);
        assert_true(lease_journal_generation(journal) > before);
        before = lease_journal_generation(journal);
    }
}

static enum error_kind open_fails(const struct folder *folder)
{
    struct lease_journal *journal = NULL;
    struct error err = {0};

    assert_false(lease_journal_open(folder->fd, &journal, &err).ok);
    return err.kind;
}

static void what_is_no_journal_is_refused(void **state)
{
    OWNED_FOLDER folder;

    (void)state;
    folder_make(&folder);
    {
        OWNED(lease_journal) *journal = open_journal(&folder);
        assert_int_equal(open_fails(&folder), ERROR_CONFLICT); /* one process at a time */
    }
    OWNED_FD file = openat(folder.fd, "leases.journal", O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(file, "x", 1, 40), 1);
    lease_journal_free(open_journal(&folder)); /* the second copy is valid */
    assert_int_equal(pwrite(file, "x", 1, 40), 1);
    assert_int_equal(pwrite(file, "x", 1, 81920 + 40), 1);
    assert_int_equal(open_fails(&folder), ERROR_CORRUPT);
    assert_int_equal(unlinkat(folder.fd, "leases.journal", 0), 0);
    assert_int_equal(open_fails(&folder), ERROR_CORRUPT); /* its key shows that it existed */
    assert_int_equal(unlinkat(folder.fd, "leases.key", 0), 0);
    lease_journal_free(open_journal(&folder)); /* only the registry can notice this: the generation is 2 */
}

/* Takes leases from number `from` on, and reports each, until it is killed. */
static void take_for_ever(const struct folder *folder, uint32_t from, int told)
{
    struct lease_journal *journal = NULL;
    struct error err;

    if (!lease_journal_open(folder->fd, &journal, &err).ok) _exit(1);
    for (uint32_t i = from;; i++) {
        const struct taken_lease lease = lease_of(i);
        if (!lease_journal_take(journal, &lease, NOW_MS, &err).ok || write(told, &i, sizeof i) != sizeof i ||
            !lease_journal_end(journal, lease.nonce, &err).ok)
            _exit(1);
    }
}

/* The number of the last reported lease. */
static uint32_t kill_while_it_takes(const struct folder *folder, uint32_t from, unsigned after_us)
{
    uint32_t number = 0, last = from;
    int ends[2];
    int status = 0;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const pid_t child = fork();
    if (child == 0) take_for_ever(folder, from, ends[1]);
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &number, sizeof number), sizeof number);
    (void)usleep(after_us);
    (void)signal_process(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    last = number;
    while (read(ends[0], &number, sizeof number) == sizeof number) last = number;
    (void)close(ends[0]);
    return last;
}

static void nothing_is_taken_twice_after_a_kill(void **state)
{
    OWNED_FOLDER folder;
    uint32_t next = 0;
    uint64_t generation = 0;

    (void)state;
    folder_make(&folder);
    for (unsigned round = 0; round < 20; round++) {
        const uint32_t last = kill_while_it_takes(&folder, next, round * 700);
        OWNED(lease_journal) *journal = open_journal(&folder);
        assert_true(lease_journal_generation(journal) > generation);
        generation = lease_journal_generation(journal);
        for (uint32_t i = next; i <= last; i++) {
            const struct taken_lease lease = lease_of(i);
            assert_int_equal(take(journal, &lease, NOW_MS), ERROR_CONFLICT);
        }
        next = last + 2; /* it may have taken one more before the report */
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(a_lease_is_taken_once),
                                              cmocka_unit_test(leases_are_forgotten_when_they_are_over),
                                              cmocka_unit_test(a_journal_is_never_full_of_ended_leases),
                                              cmocka_unit_test(version_1_is_read),
                                              cmocka_unit_test(the_generation_only_rises),
                                              cmocka_unit_test(what_is_no_journal_is_refused),
                                              cmocka_unit_test(nothing_is_taken_twice_after_a_kill)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
