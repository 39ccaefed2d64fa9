/* The ledger of sijil-keyd: two copies, one owner, and what happens when a copy is damaged or the disk fails. */
#include "tests/unit/keyd_folder_fixture.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "keyd/ledger.h"
#include "keyd/ledger_format.h"

/* ---- ledger ---- */

static const uint8_t ledger_key[LEDGER_KEY_SIZE] = {7};

static struct result set_size(const void *context, struct ledger_state *state, struct error *err)
{
    const uint64_t *size = context;

    if (*size < state->log_size) return failure(err, ERROR_CORRUPT, "smaller");
    state->log_size = *size;
    return SUCCESS;
}

static struct result grow(struct ledger *ledger, uint64_t size, struct error *err)
{
    return ledger_change(ledger, set_size, &size, err);
}

static uint64_t size_on_disk(const struct folder *folder)
{
    OWNED(ledger) *ledger = NULL;
    struct ledger_state state;
    struct error err = {0};

    if (!ledger_open(folder->fd, ledger_key, &ledger, &err).ok) return UINT64_MAX;
    ledger_read(ledger, &state);
    return state.log_size;
}

static const struct damage_row {
    const char *name;
    size_t at, length; /* bytes that are overwritten */
    uint64_t size;     /* the size found after that; UINT64_MAX: refused */
} damage_rows[] = {
    {"nothing", 0, 0, 9},
    {"the first copy", 20, 1, 9},
    {"the second copy", LEDGER_COPY_SIZE + 20, 1, 9},
    {"both copies", 0, 2 * LEDGER_COPY_SIZE, UINT64_MAX},
    {"the code of the first copy", LEDGER_USED_SIZE - 1, 1, 9},
    {"what is behind a copy", LEDGER_USED_SIZE, 8, 9},
};

static void one_damaged_copy_is_mended(void **state)
{
    const struct damage_row *row = *state;
    OWNED_FOLDER folder;
    uint8_t noise[2 * LEDGER_COPY_SIZE];
    struct ledger *ledger = NULL;
    struct error err = {0};

    folder_make(&folder);
    assert_true(ledger_create(folder.fd, ledger_key, &err).ok);
    assert_true(ledger_open(folder.fd, ledger_key, &ledger, &err).ok);
    assert_true(grow(ledger, 9, &err).ok);
    ledger_free(ledger);
    memset(noise, 0xa5, sizeof noise);
    OWNED_FD fd = openat(folder.fd, LEDGER_FILE, O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(fd, noise, row->length, (off_t)row->at), row->length);
    assert_true(size_on_disk(&folder) == row->size);
    if (row->size == UINT64_MAX) return;

    /* It was repaired, so now the other copy may be damaged. */
    const off_t other = row->at < LEDGER_COPY_SIZE ? LEDGER_COPY_SIZE : 0;
    assert_int_equal(pwrite(fd, noise, 100, other), 100);
    assert_true(size_on_disk(&folder) == 9);
}

static void ledgers_belong_to_one_process_and_one_key_ring(void **state)
{
    OWNED_FOLDER folder;
    OWNED(ledger) *ledger = NULL;
    struct ledger *second = NULL;
    uint8_t other_key[LEDGER_KEY_SIZE] = {8};
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_false(ledger_open(folder.fd, ledger_key, &second, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_true(ledger_create(folder.fd, ledger_key, &err).ok);
    assert_false(ledger_open(folder.fd, other_key, &second, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_true(ledger_open(folder.fd, ledger_key, &ledger, &err).ok);
    assert_false(ledger_open(folder.fd, ledger_key, &second, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_null(second);
}

/* Each write and each fsync fails once. An unreported change may be there or not; a reported one always is. */
static void failing_disks_break_no_promise(void **state)
{
    unsigned long nth = 1;

    (void)state;
    for (bool has_fired = true; has_fired; nth++) {
        OWNED_FOLDER folder;
        struct ledger *ledger = NULL;
        struct error err = {0};

        folder_make(&folder);
        assert_true(ledger_create(folder.fd, ledger_key, &err).ok);
        assert_true(ledger_open(folder.fd, ledger_key, &ledger, &err).ok);
        assert_true(grow(ledger, 5, &err).ok);
        fault_arm(nth);
        const bool ok = grow(ledger, 6, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        assert_int_equal(ok, !has_fired);
        if (has_fired) { /* this process refuses all later changes */
            assert_false(grow(ledger, 7, &err).ok);
            assert_int_equal(err.kind, ERROR_UNAVAILABLE);
        }
        ledger_free(ledger);
        assert_in_range(size_on_disk(&folder), ok ? 6 : 5, 6);
    }
    assert_failures(nth - 2, 4);
}

static void refused_changes_change_nothing(void **state)
{
    OWNED_FOLDER folder;
    OWNED(ledger) *ledger = NULL;
    struct ledger_state now;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_true(ledger_create(folder.fd, ledger_key, &err).ok);
    assert_true(ledger_open(folder.fd, ledger_key, &ledger, &err).ok);
    assert_true(grow(ledger, 5, &err).ok);
    assert_false(grow(ledger, 4, &err).ok);
    ledger_read(ledger, &now);
    assert_int_equal(now.log_size, 5);
    assert_true(grow(ledger, 6, &err).ok);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(ledgers_belong_to_one_process_and_one_key_ring),
        cmocka_unit_test(failing_disks_break_no_promise),
        cmocka_unit_test(refused_changes_change_nothing),
    };

    return RUN_TABLE(damage_rows, one_damaged_copy_is_mended) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
