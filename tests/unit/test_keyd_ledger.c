/* The ledger of sijil-keyd: two copies, one owner, and what happens when a copy is damaged or the disk fails. */
#include "tests/unit/keyd_folder_fixture.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "keyd/ledger.h"
#include "keyd/ledger_format.h"
#include "keyd/run_ledger.h"

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

/* ---- the ledger of runs ---- */

enum { NOON_MS = 1000000 };

static struct run_promise promise_of(uint8_t subject, uint8_t digest)
{
    return (struct run_promise){
        .subject = {subject}, .digest = {digest}, .nonce = {9}, .from_ms = 1, .until_ms = 2, .keep_ms = NOON_MS + 10};
}

static bool is_kept(const struct folder *folder, uint8_t subject, uint8_t digest, int64_t now_ms)
{
    OWNED(run_ledger) *runs = NULL;
    struct run_promise found, wanted = promise_of(subject, digest);
    struct error err = {0};

    if (!run_ledger_open(folder->fd, ledger_key, NOON_MS, &runs, &err).ok) return false;
    return run_ledger_find(runs, wanted.subject, now_ms, &found) &&
           memcmp(found.digest, wanted.digest, sizeof found.digest) == 0 && found.nonce[0] == 9 && found.from_ms == 1 &&
           found.until_ms == 2;
}

static void promises_are_kept_until_they_end(void **state)
{
    const struct run_promise first = promise_of(1, 1), other = promise_of(1, 2);
    OWNED_FOLDER folder;
    OWNED(run_ledger) *runs = NULL;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_true(run_ledger_create(folder.fd, ledger_key, 0, &err).ok);
    assert_true(run_ledger_open(folder.fd, ledger_key, NOON_MS, &runs, &err).ok);
    assert_true(run_ledger_keep(runs, &first, NULL, NOON_MS, &err).ok);
    assert_true(run_ledger_keep(runs, &first, NULL, NOON_MS, &err).ok);
    assert_false(run_ledger_keep(runs, &other, NULL, NOON_MS, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_int_equal(run_ledger_since_ms(runs), 0);
    run_ledger_free(runs);
    runs = NULL;
    assert_true(is_kept(&folder, 1, 1, NOON_MS));
    assert_false(is_kept(&folder, 1, 1, NOON_MS + 10));
    assert_false(is_kept(&folder, 2, 1, NOON_MS));
}

/* Requests from before are refused, because nobody knows what was signed for them. */
static void a_lost_ledger_of_runs_is_made_anew(void **state)
{
    OWNED_FOLDER folder;
    OWNED(run_ledger) *runs = NULL, *again = NULL;
    struct run_ledger *second = NULL;
    uint8_t other_key[LEDGER_KEY_SIZE] = {8};
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_true(run_ledger_open(folder.fd, ledger_key, NOON_MS, &runs, &err).ok);
    assert_int_equal(run_ledger_since_ms(runs), NOON_MS);
    assert_false(run_ledger_open(folder.fd, ledger_key, NOON_MS, &second, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    run_ledger_free(runs);
    runs = NULL;
    assert_false(run_ledger_open(folder.fd, other_key, NOON_MS, &second, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    assert_true(run_ledger_open(folder.fd, ledger_key, NOON_MS + 5, &again, &err).ok);
    assert_int_equal(run_ledger_since_ms(again), NOON_MS);
}

/* Each write and each fsync fails once: no signature leaves then, and earlier promises stay. */
static void failing_disks_break_no_promise_of_runs(void **state)
{
    const struct run_promise first = promise_of(1, 1), second = promise_of(2, 2);
    unsigned long nth = 1;

    (void)state;
    for (bool has_fired = true; has_fired; nth++) {
        OWNED_FOLDER folder;
        struct run_ledger *runs = NULL;
        struct error err = {0};

        folder_make(&folder);
        assert_true(run_ledger_create(folder.fd, ledger_key, 0, &err).ok);
        assert_true(run_ledger_open(folder.fd, ledger_key, NOON_MS, &runs, &err).ok);
        assert_true(run_ledger_keep(runs, &first, NULL, NOON_MS, &err).ok);
        fault_arm(nth);
        const bool ok = run_ledger_keep(runs, &second, NULL, NOON_MS, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        assert_int_equal(ok, !has_fired);
        assert_int_equal(run_ledger_is_broken(runs), has_fired);
        if (has_fired) assert_false(run_ledger_keep(runs, &second, NULL, NOON_MS, &err).ok);
        run_ledger_free(runs);
        assert_true(is_kept(&folder, 1, 1, NOON_MS));
        if (ok) assert_true(is_kept(&folder, 2, 2, NOON_MS));
    }
    assert_failures(nth - 2, 4);
}

/* An order, and what follows from it. */
static struct run_promise order_of(uint8_t subject, uint32_t reserves)
{
    struct run_promise promise = promise_of(subject, subject);

    promise.reserves = reserves;
    return promise;
}

static enum error_kind keep(struct run_ledger *runs, const struct run_promise *promise, const struct run_follows *follows,
                            int64_t now_ms)
{
    struct error err = {0};

    return run_ledger_keep(runs, promise, follows, now_ms, &err).ok ? ERROR_NONE : err.kind;
}

/* At the edge an order is refused, and no lease or admission of an order that was signed. */
static void a_full_ledger_refuses_orders_alone(void **state)
{
    const struct run_promise large = order_of(1, RUN_PROMISES_MAX - 3), small = order_of(2, 1), third = order_of(3, 0);
    const struct run_promise lease = promise_of(4, 4), again = promise_of(5, 5), admission = promise_of(6, 6),
                             too_large = order_of(7, RUN_PROMISES_MAX);
    const struct run_follows of_small = {.order = {2}}, of_large = {.order = {1}, .is_last = true};
    OWNED_FOLDER folder;
    OWNED(run_ledger) *runs = NULL;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_true(run_ledger_create(folder.fd, ledger_key, 0, &err).ok);
    assert_true(run_ledger_open(folder.fd, ledger_key, NOON_MS, &runs, &err).ok);
    assert_int_equal(keep(runs, &too_large, NULL, NOON_MS), ERROR_LIMIT);
    assert_int_equal(keep(runs, &large, NULL, NOON_MS), ERROR_NONE);
    assert_int_equal(keep(runs, &small, NULL, NOON_MS), ERROR_NONE); /* the last two slots */
    assert_int_equal(keep(runs, &third, NULL, NOON_MS), ERROR_LIMIT);
    run_ledger_free(runs);
    runs = NULL;
    assert_true(run_ledger_open(folder.fd, ledger_key, NOON_MS, &runs, &err).ok); /* what is reserved is on the disk */
    assert_int_equal(keep(runs, &third, NULL, NOON_MS), ERROR_LIMIT);
    assert_int_equal(keep(runs, &lease, &of_small, NOON_MS), ERROR_NONE);
    assert_int_equal(keep(runs, &lease, &of_small, NOON_MS), ERROR_NONE);
    assert_int_equal(keep(runs, &again, &of_small, NOON_MS), ERROR_LIMIT); /* more than it reserved */
    assert_int_equal(keep(runs, &small, NULL, NOON_MS), ERROR_NONE);       /* the very same is signed again */
    assert_int_equal(keep(runs, &admission, &of_large, NOON_MS), ERROR_NONE);
    assert_int_equal(keep(runs, &third, NULL, NOON_MS), ERROR_NONE); /* nothing follows from the large one any more */
    assert_int_equal(keep(runs, &again, &of_small, NOON_MS), ERROR_NONE);
    assert_int_equal(keep(runs, &too_large, NULL, NOON_MS), ERROR_LIMIT);
    struct run_promise whole = order_of(8, RUN_PROMISES_MAX - 1);
    whole.keep_ms = NOON_MS + 30;
    assert_int_equal(keep(runs, &whole, NULL, NOON_MS + 9), ERROR_LIMIT);
    assert_int_equal(keep(runs, &whole, NULL, NOON_MS + 10), ERROR_NONE); /* all others have expired */
}

/* ---- a ledger of runs of version 1 ---- */

enum { OLD_BODY = 8 + 4096 * 104 };

static size_t old_size(uint8_t version)
{
    return version == 1 ? OLD_BODY : 0;
}

static void write_old(const void *context, uint8_t *body_out)
{
    const struct run_promise *promise = context;

    memset(body_out, 0, OLD_BODY);
    store_u64(body_out, 77); /* since */
    body_out += 8 + 4095 * 104;
    memcpy(body_out, promise->subject, 32);
    memcpy(body_out + 32, promise->digest, 32);
    memcpy(body_out + 64, promise->nonce, 16);
    store_u64(body_out + 80, (uint64_t)promise->from_ms);
    store_u64(body_out + 88, (uint64_t)promise->until_ms);
    store_u64(body_out + 96, (uint64_t)promise->keep_ms);
}

static void a_small_ledger_of_runs_grows(void **state)
{
    const struct journal_format old = {.name = RUN_LEDGER_FILE,
                                       .magic = "SJRL",
                                       .version = 1,
                                       .copy_size = (size_t)105 * 4096,
                                       .body_size = old_size,
                                       .write = write_old};
    const struct run_promise first = promise_of(1, 1), next = promise_of(2, 2);
    OWNED_FOLDER folder;
    OWNED(run_ledger) *runs = NULL;
    struct error err = {0};

    (void)state;
    folder_make(&folder);
    assert_true(journal_create(folder.fd, &old, ledger_key, &first, &err).ok);
    for (unsigned i = 0; i < 2; i++) assert_true(is_kept(&folder, 1, 1, NOON_MS));
    assert_true(run_ledger_open(folder.fd, ledger_key, NOON_MS, &runs, &err).ok);
    assert_int_equal(run_ledger_since_ms(runs), 77);
    assert_int_equal(keep(runs, &next, NULL, NOON_MS), ERROR_NONE);
    run_ledger_free(runs);
    runs = NULL;
    assert_true(is_kept(&folder, 1, 1, NOON_MS) && is_kept(&folder, 2, 2, NOON_MS));
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(promises_are_kept_until_they_end),
        cmocka_unit_test(a_full_ledger_refuses_orders_alone),
        cmocka_unit_test(a_small_ledger_of_runs_grows),
        cmocka_unit_test(a_lost_ledger_of_runs_is_made_anew),
        cmocka_unit_test(failing_disks_break_no_promise_of_runs),
        cmocka_unit_test(ledgers_belong_to_one_process_and_one_key_ring),
        cmocka_unit_test(failing_disks_break_no_promise),
        cmocka_unit_test(refused_changes_change_nothing),
    };

    return RUN_TABLE(damage_rows, one_damaged_copy_is_mended) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
