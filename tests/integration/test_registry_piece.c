/* Sealed pieces: objects of a region that are no blobs (registry/upload/piece.h). */
#include "tests/integration/registry_fixture.h"

#include "registry/upload/piece.h"

#define LENGTH 100000

static struct resource place(void)
{
    struct resource where = fixture_repository(&fixture.models, "logs/of-runs");

    where.organisation = fixture.organisation;
    return where;
}

static struct sealed_piece seal(const struct resource *where, struct bytes content)
{
    struct sealed_piece piece;

    MUST(piece_seal(fixture.registry, fixture.stack->pg, where, content, &piece, &err));
    return piece;
}

static void must_read(const struct resource *where, const struct sealed_piece *piece, struct bytes content, uint64_t offset,
                      size_t length)
{
    const struct piece_range range = {offset, length};
    struct buffer OWNED_BUFFER into = BUFFER(PIECE_MAX);

    MUST(piece_read(fixture.registry, where, piece, &range, &into, &err));
    assert_int_equal(into.length, length);
    assert_memory_equal(into.data, content.data + offset, length);
}

/* Also by another gateway, which has to ask sijil-keyd for the key. */
static void a_piece_is_read_in_parts(void **state)
{
    char digest[DIGEST_TEXT_SIZE];
    uint8_t *data = fixture_content(1, LENGTH, digest);
    const struct resource where = place();
    const struct bytes content = {data, LENGTH};

    (void)state;
    const struct sealed_piece piece = seal(&where, content);
    must_read(&where, &piece, content, 0, LENGTH);
    must_read(&where, &piece, content, LENGTH - 1, 1);
    fixture_restart();
    must_read(&where, &piece, content, 65500, 100);
    free(data);
}

/* Until it has a row of its own, its object is removed after a day, also after a crash. */
static void an_object_without_a_row_goes(void **state)
{
    const struct resource where = place();
    char sql[200], id[UUID_TEXT_SIZE];

    (void)state;
    const struct sealed_piece piece = seal(&where, bytes_of_text("a line\n"));
    uuid_format(&piece.key.id, id);
    (void)snprintf(sql, sizeof sql,
                   "SELECT abandoned_at BETWEEN now() + interval '23 hours' AND now() + interval '25 hours' FROM abandoned_object"
                   " WHERE blob_id = '%s'",
                   id);
    assert_string_equal(ask(sql), "t");
    assert_string_equal(ask("SELECT count(*) FROM blob"), "0");
}

/* A short line could be guessed from the digest of a piece, if that were the digest of the line. */
static void a_digest_tells_nothing(void **state)
{
    const struct bytes line = bytes_of_text("password: hunter2\n");
    const struct digest plain = digest_of(DIGEST_SHA256, line);
    const struct resource where = place();

    (void)state;
    const struct sealed_piece one = seal(&where, line), other = seal(&where, line);
    assert_string_not_equal(one.digest, other.digest);
    assert_false(digest_equal(&one.content.digest, &plain) || digest_equal(&other.content.digest, &plain));
}

/* What a row says is believed only if it fits the object. */
static void another_row_opens_nothing(void **state)
{
    const struct bytes line = bytes_of_text("of the project models\n");
    const struct piece_range range = {0, line.length};
    struct resource where = place(), elsewhere = where;
    struct buffer OWNED_BUFFER into = BUFFER(PIECE_MAX);
    struct sealed_piece piece = seal(&where, line), altered = piece;

    (void)state;
    elsewhere.project = fixture.other;
    fixture_restart(); /* so that no key is in memory */
    MUST_FAIL(ERROR_CORRUPT, piece_read(fixture.registry, &elsewhere, &piece, &range, &into, &err));
    altered.key.commitment[0] ^= 1;
    MUST_FAIL(ERROR_CORRUPT, piece_read(fixture.registry, &where, &altered, &range, &into, &err));
    altered = piece;
    altered.content.length++;
    MUST_FAIL(ERROR_CORRUPT, piece_read(fixture.registry, &where, &altered, &range, &into, &err));
    (void)snprintf(where.region, sizeof where.region, "test/nowhere");
    MUST_FAIL(ERROR_UNAVAILABLE, piece_read(fixture.registry, &where, &piece, &range, &into, &err));
    assert_int_equal(into.length, 0);
}

static struct result seal_and_read(const struct resource *where, struct error *err)
{
    const struct bytes line = bytes_of_text("each call may fail\n");
    const struct piece_range range = {0, line.length};
    struct buffer OWNED_BUFFER into = BUFFER(PIECE_MAX);
    struct sealed_piece piece;

    TRY(piece_seal(fixture.registry, fixture.stack->pg, where, line, &piece, err));
    TRY(piece_read(fixture.registry, where, &piece, &range, &into, err));
    assert_true(bytes_equal(buffer_bytes(&into), line));
    return SUCCESS;
}

/* Some failures do no harm, such as of a hint to the file system: then the content is right all the same. */
static void each_call_may_fail(void **state)
{
    const struct resource where = place();
    unsigned long nth = 1, failures = 0;

    (void)state;
    for (bool has_fired = true; has_fired; nth++) {
        struct error why = {0};
        fault_arm(nth);
        const bool ok = seal_and_read(&where, &why).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        if (!ok && (!has_fired || why.kind == ERROR_NONE)) fail_msg("failure %lu: %s", nth, why.message);
        if (pg_is_broken(fixture.stack->pg)) MUST(pg_reopen(fixture.stack->pg, &err));
        failures += !ok;
    }
    assert_failures(failures, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_piece_is_read_in_parts), cmocka_unit_test(an_object_without_a_row_goes),
        cmocka_unit_test(a_digest_tells_nothing),   cmocka_unit_test(another_row_opens_nothing),
        cmocka_unit_test(each_call_may_fail),
    };

    return cmocka_run_group_tests(tests, fixture_set_up, fixture_tear_down);
}
