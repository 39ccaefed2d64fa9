#include "tests/support/driver_contract.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/blob.h"
#include "tests/support/unit.h"

/* ---- An extent with known content ---- */

struct writing {
    const struct driver_operations *operations;
    struct driver_extent *extent;
    uint32_t part;
    uint64_t seed, length;
};

static struct writing begin(struct driver *driver, const struct uuid *blob, const struct driver_history *history, uint64_t seed)
{
    struct writing writing = {.operations = driver->operations, .seed = seed};
    struct error err = {0};

    must(driver->operations->extent_create(driver, blob, history, &writing.extent, &err), &err);
    writing.part = driver->operations->extent_part(writing.extent);
    for (size_t i = 0; i < history->count; i++) assert_true(writing.part > history->pieces[i].part);
    return writing;
}

static struct result append(struct writing *writing, size_t length, struct error *err)
{
    uint8_t *content = malloc(length);

    assert_non_null(content);
    blob_test_fill(writing->seed, writing->length, content, length);
    const struct result result = writing->operations->extent_append(writing->extent, (struct bytes){content, length}, err);
    free(content);
    if (result.ok) writing->length += length;
    return result;
}

static void add(struct writing *writing, size_t length)
{
    struct error err = {0};

    must(append(writing, length, &err), &err);
}

static void sync_it(struct writing *writing)
{
    struct error err = {0};

    must(writing->operations->extent_sync(writing->extent, &err), &err);
}

static void finish(struct writing *writing)
{
    struct error err = {0};

    must(writing->operations->extent_finish(writing->extent, &err), &err);
    writing->operations->extent_close(writing->extent);
}

/* Bytes [from, to) of the extent are those of `seed`. */
static void check_range(struct driver *driver, struct driver_part *part, uint64_t seed, uint64_t from, uint64_t to)
{
    const size_t length = (size_t)(to - from);
    uint8_t *got = malloc(2 * length + 1);
    struct error err = {0};

    assert_non_null(got);
    blob_test_fill(seed, from, got + length, length);
    must(driver->operations->part_read(part, from, got, length, &err), &err);
    assert_memory_equal(got, got + length, length);
    free(got);
}

/* The extent has at least `length` bytes. */
static void check_extent(struct driver *driver, const struct uuid *blob, uint32_t number, uint64_t seed, uint64_t length)
{
    struct driver_part *part = NULL;
    struct error err = {0};

    must(driver->operations->part_open(driver, blob, number, &part, &err), &err);
    assert_true(driver->operations->part_size(part) >= length);
    for (uint64_t at = 0; at < length; at += 250000)
        check_range(driver, part, seed, at, at + 250000 < length ? at + 250000 : length);
    check_range(driver, part, seed, length - 8, length); /* in a reader's order: the end, the trailer before it, the start */
    check_range(driver, part, seed, length < 500 ? 0 : length - 500, length - 8);
    check_range(driver, part, seed, 0, length < 4096 ? length : 4096);
    for (uint64_t at = 1; at < length; at = at * 3 + 7) check_range(driver, part, seed, at, at + (length - at) / 50 + 1);
    driver->operations->part_close(part);
}

struct found {
    struct uuid blob;
    unsigned extents, small;
    uint64_t bytes;
};

static struct result look(void *context, const struct driver_entry *entry, struct error *err)
{
    struct found *found = context;

    (void)err;
    if (!uuid_equal(&entry->blob, &found->blob)) return SUCCESS;
    found->extents += entry->is_extent;
    found->small += !entry->is_extent;
    found->bytes += entry->size_bytes;
    assert_true(entry->modified_ms > INT64_C(1700000000000));
    return SUCCESS;
}

static struct found find(struct driver *driver, const struct uuid *blob)
{
    struct found found = {.blob = *blob};
    struct error err = {0};

    must(driver->operations->list(driver, look, &found, &err), &err);
    return found;
}

static void clear(struct driver *driver, const struct uuid *blob)
{
    struct error err = {0};

    must(driver->operations->remove(driver, blob, NULL, 0, &err), &err);
    const struct found found = find(driver, blob);
    assert_int_equal(found.extents + found.small, 0);
    must(driver->operations->remove(driver, blob, NULL, 0, &err), &err);
}

static const struct driver_history nothing = {0};

/* ---- The contract ---- */

void contract_an_extent_is_read_as_it_was_written(const struct driver_contract *contract)
{
    const size_t sizes[] = {1,
                            4096,
                            contract->unit - 1,
                            contract->unit,
                            contract->unit + 1,
                            3 * contract->unit,
                            7 * contract->unit + 17,
                            12 * contract->unit};
    struct error err = {0};

    for (size_t i = 0; i < COUNT(sizes); i++)
        for (size_t pieces = 1; pieces <= 5; pieces += 4) {
            const struct uuid blob = uuid_random();
            struct driver_part *part = NULL;
            uint8_t byte;
            struct writing writing = begin(contract->driver, &blob, &nothing, i);
            for (size_t piece = 0; piece < pieces && sizes[i] >= 5; piece++) add(&writing, sizes[i] / pieces);
            if (writing.length < sizes[i]) add(&writing, (size_t)(sizes[i] - writing.length));
            finish(&writing);
            if (sizes[i] > 8) check_extent(contract->another, &blob, writing.part, i, sizes[i]);
            must(contract->driver->operations->part_open(contract->driver, &blob, writing.part, &part, &err), &err);
            assert_int_equal(contract->driver->operations->part_size(part), sizes[i]);
            assert_false(contract->driver->operations->part_read(part, sizes[i], &byte, 1, &err).ok);
            assert_int_equal(err.kind, ERROR_CORRUPT);
            contract->driver->operations->part_ahead(part, 0, 100);
            contract->driver->operations->part_forget(part, 0, 100);
            contract->driver->operations->part_close(part);
            assert_int_equal(find(contract->driver, &blob).bytes, sizes[i]);
            clear(contract->driver, &blob);
        }
}

void contract_many_syncs_lose_nothing(const struct driver_contract *contract)
{
    const struct uuid blob = uuid_random();
    struct writing writing = begin(contract->driver, &blob, &nothing, 5);

    for (size_t i = 0; i < 150; i++) { /* more small objects than a driver keeps */
        add(&writing, 1 + contract->unit / 100);
        sync_it(&writing);
        sync_it(&writing);
    }
    finish(&writing);
    check_extent(contract->another, &blob, writing.part, 5, writing.length);
    const struct found found = find(contract->driver, &blob);
    assert_int_equal(found.small, 0);
    assert_int_equal(found.bytes, writing.length);
    clear(contract->driver, &blob);
}

void contract_another_goes_on_where_a_writer_was_synced(const struct driver_contract *contract)
{
    const size_t lengths[] = {1000, contract->unit, 2 * contract->unit + 5, 5 * contract->unit, 9 * contract->unit + 1};

    for (size_t i = 0; i < COUNT(lengths); i++) {
        const struct uuid blob = uuid_random();
        struct driver_piece piece = {.offset = 0};
        const struct driver_history history = {.pieces = &piece, .count = 1, .offset = lengths[i]};
        struct writing first = begin(contract->driver, &blob, &nothing, 1);
        add(&first, lengths[i] - 500);
        sync_it(&first);
        add(&first, 500);
        sync_it(&first);
        add(&first, 2 * contract->unit); /* bytes that no checkpoint has */
        piece.part = first.part;
        contract->driver->operations->extent_close(first.extent);
        struct writing second = begin(contract->another, &blob, &history, 2);
        add(&second, 3 * contract->unit);
        finish(&second);
        check_extent(contract->driver, &blob, first.part, 1, lengths[i]);
        check_extent(contract->driver, &blob, second.part, 2, 3 * contract->unit);
        clear(contract->driver, &blob);
    }
}

/* A writer that wakes up late never changes the valid extents, whether or not its calls fail. */
void contract_one_that_wakes_up_late_changes_nothing(const struct driver_contract *contract)
{
    const size_t lengths[] = {1000, contract->unit, 4 * contract->unit + 5};

    for (size_t i = 0; i < 2 * COUNT(lengths); i++) {
        const struct uuid blob = uuid_random();
        const size_t length = lengths[i / 2];
        struct driver_piece piece = {.offset = 0};
        const struct driver_history history = {.pieces = &piece, .count = 1, .offset = length};
        struct error err = {0};
        struct writing late = begin(contract->driver, &blob, &nothing, 1);
        add(&late, length);
        sync_it(&late);
        piece.part = late.part;
        struct writing crashed = begin(contract->another, &blob, &history, 2);
        contract->another->operations->extent_close(crashed.extent);

        struct result result = append(&late, contract->unit / 2, &err);
        if (result.ok) result = contract->driver->operations->extent_sync(late.extent, &err);
        struct writing second = begin(contract->another, &blob, &history, 3); /* from the same offset */
        add(&second, 2 * contract->unit);
        sync_it(&second);
        if (result.ok) result = append(&late, 3 * contract->unit, &err);
        if (result.ok) result = contract->driver->operations->extent_sync(late.extent, &err);
        if (result.ok && i % 2 == 0) result = contract->driver->operations->extent_finish(late.extent, &err);
        contract->driver->operations->extent_close(late.extent);
        (void)result;
        finish(&second);
        check_extent(contract->driver, &blob, late.part, 1, length);
        check_extent(contract->driver, &blob, second.part, 3, 2 * contract->unit);
        clear(contract->driver, &blob);
    }
}

void contract_two_may_go_on_from_the_same_place(const struct driver_contract *contract)
{
    const struct uuid blob = uuid_random();
    struct driver_piece piece = {.offset = 0};
    const struct driver_history history = {.pieces = &piece, .count = 1, .offset = 3 * contract->unit};
    struct writing first = begin(contract->driver, &blob, &nothing, 1);

    add(&first, 3 * contract->unit);
    sync_it(&first);
    piece.part = first.part;
    contract->driver->operations->extent_close(first.extent);
    struct writing one = begin(contract->driver, &blob, &history, 2), other = begin(contract->another, &blob, &history, 3);
    assert_int_not_equal(one.part, other.part);
    add(&one, 2 * contract->unit);
    add(&other, 2 * contract->unit);
    finish(&one);
    finish(&other);
    check_extent(contract->driver, &blob, first.part, 1, 3 * contract->unit);
    check_extent(contract->driver, &blob, one.part, 2, 2 * contract->unit);
    check_extent(contract->driver, &blob, other.part, 3, 2 * contract->unit);
    clear(contract->driver, &blob);
}

void contract_going_on_twice_is_fine(const struct driver_contract *contract)
{
    const struct uuid blob = uuid_random();
    struct driver_piece pieces[4] = {{0}};
    uint64_t place = 0;

    for (size_t i = 0; i < COUNT(pieces); i++) {
        const struct driver_history history = {.pieces = pieces, .count = i, .offset = place};
        struct writing writing = begin(i % 2 == 0 ? contract->driver : contract->another, &blob, &history, i);
        add(&writing, contract->unit + i * 1000);
        sync_it(&writing);
        pieces[i] = (struct driver_piece){place, writing.part};
        place += writing.length;
        if (i + 1 < COUNT(pieces)) contract->driver->operations->extent_close(writing.extent);
        else finish(&writing);
    }
    for (size_t i = 0; i < COUNT(pieces); i++)
        check_extent(contract->driver, &blob, pieces[i].part, i, contract->unit + i * 1000);
    clear(contract->driver, &blob);
}

void contract_discarding_leaves_nothing(const struct driver_contract *contract)
{
    const size_t lengths[] = {1000, 2 * contract->unit + 1, 9 * contract->unit};

    for (size_t i = 0; i < 2 * COUNT(lengths); i++) {
        const struct uuid blob = uuid_random();
        struct writing writing = begin(contract->driver, &blob, &nothing, 1);
        add(&writing, lengths[i / 2]);
        if (i % 2 == 0) sync_it(&writing);
        contract->driver->operations->extent_discard(writing.extent);
        const struct found found = find(contract->driver, &blob);
        assert_int_equal(found.extents + found.small, 0);
    }
    contract->driver->operations->extent_discard(NULL);
    contract->driver->operations->extent_close(NULL);
    contract->driver->operations->part_close(NULL);
}

/* The commit of a closed blob was lost, so the upload continues from its last checkpoint. */
void contract_a_finished_extent_may_be_followed(const struct driver_contract *contract)
{
    const struct uuid blob = uuid_random();
    struct driver_piece piece = {.offset = 0};
    const struct driver_history history = {.pieces = &piece, .count = 1, .offset = contract->unit};
    struct writing first = begin(contract->driver, &blob, &nothing, 1);

    add(&first, contract->unit);
    sync_it(&first);
    add(&first, contract->unit);
    piece.part = first.part;
    finish(&first);
    struct writing second = begin(contract->another, &blob, &history, 2);
    add(&second, contract->unit);
    finish(&second);
    check_extent(contract->driver, &blob, first.part, 1, contract->unit);
    check_extent(contract->driver, &blob, second.part, 2, contract->unit);
    clear(contract->driver, &blob);
}

void contract_small_objects_are_kept_apart(const struct driver_contract *contract)
{
    const struct driver_operations *operations = contract->driver->operations;
    const struct uuid blob = uuid_random(), other = uuid_random();
    struct buffer content = BUFFER(100), tight = BUFFER(3);
    struct error err = {0};

    must(operations->small_put(contract->driver, &blob, "c1", bytes_of_text("first"), &err), &err);
    must(operations->small_put(contract->driver, &other, "c1", bytes_of_text("another blob"), &err), &err);
    must(operations->small_put(contract->driver, &blob, "c0123456789abcdef0123456789abcdef", bytes_of_text("second"), &err),
         &err);
    assert_false(operations->small_put(contract->another, &blob, "c1", bytes_of_text("again"), &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    must(operations->small_get(contract->another, &blob, "c1", &content, &err), &err);
    assert_string_equal(buffer_text(&content), "first");
    assert_false(operations->small_get(contract->driver, &blob, "c1", &tight, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_int_equal(find(contract->driver, &blob).small, 2);
    must(operations->small_remove(contract->driver, &blob, "c1", &err), &err);
    must(operations->small_remove(contract->driver, &blob, "c1", &err), &err);
    assert_false(operations->small_get(contract->driver, &blob, "c1", &content, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    buffer_done(&content);
    buffer_done(&tight);
    clear(contract->driver, &blob);
    assert_int_equal(find(contract->driver, &other).small, 1);
    clear(contract->driver, &other);
}

void contract_removing_keeps_what_is_named(const struct driver_contract *contract)
{
    const struct uuid blob = uuid_random();
    uint32_t kept[2] = {0};
    struct error err = {0};

    for (size_t i = 0; i < 5; i++) {
        struct writing writing = begin(contract->driver, &blob, &nothing, i);
        add(&writing, i == 4 ? 9 * contract->unit : 1000);
        if (i == 3) {
            sync_it(&writing);
            contract->driver->operations->extent_close(writing.extent);
            continue;
        }
        finish(&writing);
        if (i == 1 || i == 4) kept[i / 4] = writing.part;
    }
    must(contract->driver->operations->small_put(contract->driver, &blob, "c1", bytes_of_text("first"), &err), &err);
    must(contract->driver->operations->remove(contract->another, &blob, kept, 2, &err), &err);
    const struct found found = find(contract->driver, &blob);
    assert_int_equal(found.small, 0);
    assert_int_equal(found.bytes, 1000 + 9 * contract->unit);
    check_extent(contract->driver, &blob, kept[0], 1, 1000);
    check_extent(contract->driver, &blob, kept[1], 4, 9 * contract->unit);
    clear(contract->driver, &blob);
}

void contract_what_is_not_there_is_said(const struct driver_contract *contract)
{
    const struct uuid blob = uuid_random();
    struct driver_part *part = NULL;
    struct error err = {0};

    assert_false(contract->driver->operations->part_open(contract->driver, &blob, 7, &part, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    assert_null(part);
}
