/* A journal: a durable change is there after a crash at any byte, and no other content is taken for it. */
#include "tests/support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "journal/journal.h"

#define COPY_SIZE 4096

/* Numbers that are used once, as in a program that must not do a thing twice. */
struct used {
    uint32_t count;
    uint64_t numbers[8];
    uint8_t since_2; /* a field that version 1 did not have */
};
enum { BODY_1 = 4 + 64, BODY_2 = BODY_1 + 1 };

static size_t used_size(uint8_t version)
{
    return version == 1 ? BODY_1 : version == 2 ? BODY_2 : 0;
}

static void used_write(const void *context, uint8_t *body_out)
{
    const struct used *used = context;

    store_u32(body_out, used->count);
    for (size_t i = 0; i < COUNT(used->numbers); i++) store_u64(body_out + 4 + 8 * i, used->numbers[i]);
    body_out[BODY_1] = used->since_2;
}

static void used_write_1(const void *context, uint8_t *body_out)
{
    uint8_t body[BODY_2];

    used_write(context, body);
    memcpy(body_out, body, BODY_1);
}

static void used_read(uint8_t version, struct bytes body, void *state_out)
{
    struct used *used = state_out;

    *used = (struct used){.count = load_u32(body.data)};
    for (size_t i = 0; i < COUNT(used->numbers); i++) used->numbers[i] = load_u64(body.data + 4 + 8 * i);
    if (version >= 2) used->since_2 = body.data[BODY_1];
}

static const struct journal_format format = {.name = "used",
                                             .magic = "TEST",
                                             .version = 2,
                                             .copy_size = COPY_SIZE,
                                             .body_size = used_size,
                                             .write = used_write,
                                             .read = used_read};
static const uint8_t key[JOURNAL_KEY_SIZE] = {7}, other_key[JOURNAL_KEY_SIZE] = {8};

struct folder {
    char path[32];
    int fd;
};

static void folder_make(struct folder *folder)
{
    (void)snprintf(folder->path, sizeof folder->path, "/tmp/sijil-journal-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
    folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder->fd >= 0);
}

static void folder_remove(struct folder *folder)
{
    (void)unlinkat(folder->fd, format.name, 0);
    (void)close(folder->fd);
    (void)rmdir(folder->path);
}
#define OWNED_FOLDER __attribute__((cleanup(folder_remove))) struct folder

/* A journal that has seen `changes` changes, and is closed again. */
static void make_journal(const struct folder *folder, unsigned changes)
{
    OWNED(journal) *journal = NULL;
    struct used used = {.since_2 = 1};
    struct error err = {0};

    assert_true(journal_create(folder->fd, &format, key, &used, &err).ok);
    if (!journal_open(folder->fd, &format, key, &used, &journal, &err).ok) fail_msg("%s", err.message);
    for (unsigned i = 0; i < changes; i++) {
        used.numbers[used.count++] = 100 + i;
        assert_true(journal_write(journal, &used, &err).ok);
    }
    assert_true(journal_generation(journal) == changes + 1);
}

static void read_file(const struct folder *folder, uint8_t bytes_out[2 * COPY_SIZE])
{
    OWNED_FD fd = openat(folder->fd, format.name, O_RDONLY | O_CLOEXEC);

    assert_int_equal(pread(fd, bytes_out, 2 * COPY_SIZE, 0), 2 * COPY_SIZE);
}

static void write_file(const struct folder *folder, const uint8_t *bytes, size_t length)
{
    OWNED_FD fd = openat(folder->fd, format.name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_int_equal(write(fd, bytes, length), length);
}

/* The number of changes; -1: refused, with the kind in `kind_out`. */
static int open_count(const struct folder *folder, const uint8_t with[JOURNAL_KEY_SIZE], enum error_kind *kind_out)
{
    OWNED(journal) *journal = NULL;
    struct used used;
    struct error err = {0};

    const struct result opened = journal_open(folder->fd, &format, with, &used, &journal, &err);
    *kind_out = err.kind;
    if (!opened.ok) return -1;
    assert_true(journal_generation(journal) == used.count + 1);
    return (int)used.count;
}

static void changes_are_kept(void **state)
{
    OWNED_FOLDER folder;
    OWNED(journal) *journal = NULL;
    struct used used;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    make_journal(&folder, 3);
    assert_true(journal_open(folder.fd, &format, key, &used, &journal, &err).ok);
    assert_true(used.count == 3 && used.numbers[0] == 100 && used.numbers[2] == 102 && used.since_2 == 1);
    assert_true(journal_generation(journal) == 4);
    assert_false(journal_is_broken(journal));
}

/* A crash while the third change is written: `at` bytes of one copy are new, and the bytes after them are old. */
static void a_crash_at_any_byte_leaves_a_state(void **state)
{
    OWNED_FOLDER folder;
    uint8_t old[2 * COPY_SIZE], new[2 * COPY_SIZE], torn[2 * COPY_SIZE], after[2 * COPY_SIZE];
    enum error_kind kind;

    (void)state;
    folder_make(&folder);
    make_journal(&folder, 2);
    read_file(&folder, old);
    make_journal(&folder, 3);
    read_file(&folder, new);
    for (size_t at = 0; at <= 2 * COPY_SIZE; at += at % COPY_SIZE < 130 ? 1 : 498) {
        memcpy(torn, old, sizeof torn);
        memcpy(torn, new, at);
        write_file(&folder, torn, sizeof torn);
        const int count = open_count(&folder, key, &kind);
        const bool first_is_new = memcmp(torn, new, COPY_SIZE) == 0;
        if (count != (first_is_new ? 3 : 2)) fail_msg("%zu bytes are new: %d", at, count);
        read_file(&folder, after); /* mended */
        assert_memory_equal(after, after + COPY_SIZE, COPY_SIZE);
    }
}

static void what_is_no_state_is_refused(void **state)
{
    OWNED_FOLDER folder;
    uint8_t good[2 * COPY_SIZE], bad[2 * COPY_SIZE];
    enum error_kind kind;

    (void)state;
    folder_make(&folder);
    assert_int_equal(open_count(&folder, key, &kind), -1);
    assert_int_equal(kind, ERROR_NOT_FOUND);
    make_journal(&folder, 2);
    read_file(&folder, good);
    assert_int_equal(open_count(&folder, other_key, &kind), -1);
    assert_int_equal(kind, ERROR_CORRUPT);
    for (size_t at = 0; at < JOURNAL_HEADER_SIZE + BODY_2 + JOURNAL_SEAL_SIZE; at++) { /* each byte of both */
        memcpy(bad, good, sizeof bad);
        bad[at] ^= 1;
        bad[COPY_SIZE + at] ^= 1;
        write_file(&folder, bad, sizeof bad);
        if (open_count(&folder, key, &kind) != -1 || kind != ERROR_CORRUPT) fail_msg("byte %zu", at);
    }
    write_file(&folder, good, COPY_SIZE - 1);
    assert_int_equal(open_count(&folder, key, &kind), -1);
    assert_int_equal(kind, ERROR_CORRUPT);
    write_file(&folder, good, 0);
    assert_int_equal(open_count(&folder, key, &kind), -1);
    assert_int_equal(kind, ERROR_CORRUPT);
}

/* A file that was cut short lacks a part of the second copy only: it was refused as a whole once. */
static void a_file_cut_short_is_mended(void **state)
{
    static const size_t lengths[] = {COPY_SIZE, COPY_SIZE + 5, 2 * COPY_SIZE * 6 / 10, 2 * COPY_SIZE - 1};
    uint8_t good[2 * COPY_SIZE], after[2 * COPY_SIZE];
    OWNED_FOLDER folder;
    enum error_kind kind;

    (void)state;
    folder_make(&folder);
    make_journal(&folder, 2);
    read_file(&folder, good);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        write_file(&folder, good, lengths[i]);
        if (open_count(&folder, key, &kind) != 2) fail_msg("%zu bytes", lengths[i]);
        read_file(&folder, after);
        assert_memory_equal(after, good, sizeof good);
    }
}

static void an_older_version_is_read_and_becomes_the_newer(void **state)
{
    struct journal_format older = format;
    struct used used = {.count = 1, .numbers = {42}, .since_2 = 9};
    uint8_t file[2 * COPY_SIZE];
    OWNED_FOLDER folder;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    older.version = 1;
    older.write = used_write_1;
    assert_true(journal_create(folder.fd, &older, key, &used, &err).ok);
    OWNED(journal) *journal = NULL;
    assert_true(journal_open(folder.fd, &format, key, &used, &journal, &err).ok);
    assert_true(used.count == 1 && used.numbers[0] == 42 && used.since_2 == 0);
    assert_true(journal_write(journal, &used, &err).ok);
    read_file(&folder, file);
    assert_true(file[4] == 2 && file[COPY_SIZE + 4] == 2);
}

static void one_process_has_it(void **state)
{
    OWNED_FOLDER folder;
    OWNED(journal) *journal = NULL;
    struct used used;
    enum error_kind kind;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    make_journal(&folder, 1);
    assert_true(journal_open(folder.fd, &format, key, &used, &journal, &err).ok);
    assert_int_equal(open_count(&folder, key, &kind), -1);
    assert_int_equal(kind, ERROR_CONFLICT);
}

/* The caller knows the later generation from elsewhere. */
static void an_older_file_has_a_smaller_generation(void **state)
{
    OWNED_FOLDER folder;
    uint8_t old[2 * COPY_SIZE];
    OWNED(journal) *journal = NULL;
    struct used used;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    make_journal(&folder, 1);
    read_file(&folder, old);
    make_journal(&folder, 4);
    write_file(&folder, old, sizeof old);
    assert_true(journal_open(folder.fd, &format, key, &used, &journal, &err).ok);
    assert_true(journal_generation(journal) == 2);
}

/* Each write and each fsync fails once: the old state or the new one is there, and this process refuses all later changes. */
static void failing_disks_break_no_promise(void **state)
{
    unsigned long nth = 1;

    (void)state;
    for (bool has_fired = true; has_fired; nth++) {
        OWNED_FOLDER folder;
        struct journal *journal = NULL;
        struct used used;
        enum error_kind kind;
        struct error err = {0};

        folder_make(&folder);
        make_journal(&folder, 2);
        assert_true(journal_open(folder.fd, &format, key, &used, &journal, &err).ok);
        used.count = 3;
        fault_arm(nth);
        const bool ok = journal_write(journal, &used, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        assert_int_equal(ok, !has_fired);
        assert_int_equal(journal_is_broken(journal), has_fired);
        assert_true(journal_generation(journal) == (ok ? 4 : 3));
        if (has_fired) assert_false(journal_write(journal, &used, &err).ok);
        journal_free(journal);
        assert_in_range(open_count(&folder, key, &kind), ok ? 3 : 2, 3);
    }
    assert_failures(nth - 2, 4);
}

static struct result create_and_open(void *context, struct error *err)
{
    const struct folder *folder = context;
    OWNED(journal) *journal = NULL;
    struct used used = {0};

    TRY(journal_create(folder->fd, &format, key, &used, err));
    return journal_open(folder->fd, &format, key, &used, &journal, err);
}

static void each_failure_is_said(void **state)
{
    OWNED_FOLDER folder;

    (void)state;
    folder_make(&folder);
    fail_each(create_and_open, &folder, ERROR_NONE, 10);
}

/* ---- a body that says how long it is ---- */

enum { LIST_MOST = 9000, LIST_COPY = 3 * 4096 };

/* `count` bytes that are all `value`. */
struct list {
    uint32_t count;
    uint8_t value;
};

static size_t list_most(uint8_t version)
{
    return version == 1 ? 4 + LIST_MOST : 0;
}

static size_t list_length(const uint8_t *body)
{
    return 4 + (size_t)load_u32(body);
}

static void list_write(const void *context, uint8_t *body_out)
{
    const struct list *list = context;

    store_u32(body_out, list->count);
    memset(body_out + 4, list->value, list->count);
}

static void list_read(uint8_t version, struct bytes body, void *state_out)
{
    struct list *list = state_out;

    assert_true(version == 1 && body.length == list_length(body.data));
    *list = (struct list){.count = load_u32(body.data)};
    for (size_t i = 4; i < body.length; i++) assert_int_equal(body.data[i], body.data[4]);
    if (list->count > 0) list->value = body.data[4];
}

static const struct journal_format list_format = {.name = "used",
                                                  .magic = "LIST",
                                                  .version = 1,
                                                  .copy_size = LIST_COPY,
                                                  .body_size = list_most,
                                                  .body_length = list_length,
                                                  .write = list_write,
                                                  .read = list_read};

static void expect_list(const struct folder *folder, uint32_t count, uint8_t value)
{
    OWNED(journal) *journal = NULL;
    struct list list = {.count = 0};
    struct error err = {0};

    if (!journal_open(folder->fd, &list_format, key, &list, &journal, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(list.count, count);
    assert_int_equal(list.value, value);
}

/* What an earlier, longer state has left behind a copy does not count, nor does a length that nothing has sealed. */
static void a_body_may_be_shorter(void **state)
{
    const struct list states[] = {{LIST_MOST, 1}, {5, 2}, {4096, 3}, {0, 0}, {7000, 4}, {1, 5}};
    OWNED_FOLDER folder;
    struct list list = {.count = 0};
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_true(journal_create(folder.fd, &list_format, key, &list, &err).ok);
    expect_list(&folder, 0, 0);
    for (size_t i = 0; i < COUNT(states); i++) {
        OWNED(journal) *journal = NULL;
        assert_true(journal_open(folder.fd, &list_format, key, &list, &journal, &err).ok);
        assert_true(journal_write(journal, &states[i], &err).ok);
        journal_free(journal);
        journal = NULL;
        expect_list(&folder, states[i].count, states[i].value);
    }
    for (uint32_t length = 0; length < 3; length++) {
        const uint32_t wrong[] = {2, LIST_MOST + 1, UINT32_MAX};
        uint8_t bytes[4];
        OWNED_FD fd = openat(folder.fd, "used", O_WRONLY | O_CLOEXEC);
        store_u32(bytes, wrong[length]);
        assert_int_equal(pwrite(fd, bytes, sizeof bytes, JOURNAL_HEADER_SIZE), sizeof bytes);
        expect_list(&folder, 1, 5); /* from the second copy, and the first is mended */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_are_kept),
        cmocka_unit_test(a_crash_at_any_byte_leaves_a_state),
        cmocka_unit_test(what_is_no_state_is_refused),
        cmocka_unit_test(a_file_cut_short_is_mended),
        cmocka_unit_test(an_older_version_is_read_and_becomes_the_newer),
        cmocka_unit_test(a_body_may_be_shorter),
        cmocka_unit_test(one_process_has_it),
        cmocka_unit_test(an_older_file_has_a_smaller_generation),
        cmocka_unit_test(failing_disks_break_no_promise),
        cmocka_unit_test(each_failure_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
