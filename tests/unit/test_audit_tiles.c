/* The names of tiles and bundles, and the body that witnesses get. */
#include "tests/support/audit_vectors.h"

#include "audit/format/add_checkpoint.h"
#include "audit/format/checkpoint.h"
#include "audit/format/note.h"
#include "audit/format/tile.h"

/* Accepted names with what they mean. */
static const struct name_row {
    const char *path;
    bool is_entries;
    unsigned level, width;
    uint64_t index;
} names[] = {
    {"0/000", false, 0, 256, 0},
    {"0/999", false, 0, 256, 999},
    {"0/x001/000", false, 0, 256, 1000},
    {"1/x001/x234/067.p/1", false, 1, 1, 1234067},
    {"63/000.p/255", false, 63, 255, 0},
    {"entries/273.p/112", true, 0, 112, 273},
    {"entries/x018/x446/x744/x073/x709/x551/615", true, 0, 256, UINT64_MAX},
};

static void names_are_read_and_written(void **state)
{
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        struct tile_name name;
        char path[TILE_PATH_MAX];
        assert_true(tile_name_read(names[i].path, &name, &err).ok);
        assert_int_equal(name.is_entries, names[i].is_entries);
        assert_int_equal(name.level, names[i].level);
        assert_int_equal(name.width, names[i].width);
        assert_true(name.index == names[i].index);
        tile_name_write(&name, path);
        assert_string_equal(path + strlen("tile/"), names[i].path);
    }
}

static void another_spelling_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "0",
        "0/",
        "/000",
        "0/0",
        "0/00",
        "0/0000",
        "00/000",
        "64/000",
        "-1/000",
        "data/000",
        "entries",
        "entries/",
        "Entries/000",
        "0/x000/001",
        "0/x001/0",
        "0/x001",
        "0/x001/",
        "0/001/000",
        "0/1000",
        "0/x001/x000",
        "0/000/",
        "0/000.p",
        "0/000.p/",
        "0/000.p/0",
        "0/000.p/00",
        "0/000.p/01",
        "0/000.p/256",
        "0/000.p/1/",
        "0/000.q/1",
        "0/000.p/1x",
        " 0/000",
        "0/000 ",
        "0/x018/x446/x744/x073/x709/x551/616",      /* 2^64 */
        "0/x001/x000/x000/x000/x000/x000/x000/000", /* eight groups */
    };
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct tile_name name;
        if (tile_name_read(bad[i], &name, &err).ok) fail_msg("accepted: %s", bad[i]);
        assert_int_equal(err.kind, ERROR_INVALID);
    }
}

static void a_log_has_these_widths(void **state)
{
    static const struct {
        uint64_t size, index;
        unsigned level, width; /* 0: there is no such tile */
    } rows[] = {
        {0, 0, 0, 0},
        {1, 0, 0, 1},
        {255, 0, 0, 255},
        {256, 0, 0, 256},
        {256, 1, 0, 0},
        {256, 0, 1, 1},
        {257, 1, 0, 1},
        {255, 0, 1, 0},
        {65535, 0, 2, 0},
        {65536, 0, 2, 1},
        {65536, 0, 1, 256},
        {70000, 273, 0, 112},
        {70000, 1, 1, 17},
        {70000, 2, 1, 0},
        {70000, 274, 0, 0},
        {UINT64_MAX >> 1, 0, 7, 127},
        {UINT64_MAX >> 1, 0, 8, 0},
        {UINT64_MAX >> 1, 1, 7, 0},
        {70000, UINT64_MAX, 0, 0},
        {70000, 0, 63, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct tile_name name = {.level = rows[i].level, .index = rows[i].index};
        const struct tile_name bundle = {.is_entries = true, .index = rows[i].index};
        assert_int_equal(tile_name_available(&name, rows[i].size), rows[i].width);
        if (rows[i].level == 0) assert_int_equal(tile_name_available(&bundle, rows[i].size), rows[i].width);
    }
}

/* V4 of the contract: from 3 to 8. */
static void the_body_of_the_vector_is_read_and_written(void **state)
{
    const char *body = json_text_of(vector(vectors, "witness_add_checkpoint_3_to_8"), "body");
    struct buffer OWNED_BUFFER again = BUFFER(ADD_CHECKPOINT_MAX);
    static struct note note;
    struct add_checkpoint request;
    struct checkpoint checkpoint;
    struct merkle_hash leaves[8];
    struct error err = {0};

    (void)state;
    read_tree8(leaves);
    assert_true(add_checkpoint_read(bytes_of_text(body), &request, &err).ok);
    assert_int_equal(request.old_size, 3);
    assert_int_equal(request.proof.count, 4);
    assert_true(note_read(request.note, &note, &err).ok && checkpoint_read(note.text, &checkpoint, &err).ok);
    const struct merkle_hash old = tree_hash(leaves, 3);
    assert_true(merkle_verify_consistency(3, checkpoint.size, &old, &checkpoint.root, &request.proof));
    assert_true(add_checkpoint_write(&request, &again, &err).ok);
    assert_string_equal(buffer_text(&again), body);
}

#define HASH "ApjRIpBtz8EIkstTpzmS/FufST6kybrbJ7eRtBJ6f+c=\n"

static void a_bad_body_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "old",
        "old ",
        "old \n\n",
        "old 1",
        "old 1\n",
        "old 01\n\nx",
        "old -1\n\nx",
        "Old 1\n\nx",
        "old 1 \n\nx",
        "new 1\n\nx",
        "old 9223372036854775808\n\nx",
        "old 1\n" HASH,
        "old 1\n" HASH "x\n\nx",
        "old 1\nApjRIpBtz8EIkstTpzmS/FufST6kybrbJ7eRtBJ6f+c\n\nx",
        "old 1\n" HASH " \n\nx",
    };
    struct buffer OWNED_BUFFER long_one = BUFFER(2 * ADD_CHECKPOINT_MAX);
    struct add_checkpoint request;
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (add_checkpoint_read(bytes_of_text(bad[i]), &request, &err).ok) fail_msg("accepted: %s", bad[i]);
        assert_int_equal(err.kind, ERROR_INVALID);
    }
    assert_true(buffer_add_text(&long_one, "old 1\n", &err).ok);
    for (unsigned i = 0; i < MERKLE_PROOF_MAX; i++) assert_true(buffer_add_text(&long_one, HASH, &err).ok);
    const size_t most = long_one.length;
    assert_true(buffer_add_text(&long_one, "\nx", &err).ok);
    assert_true(add_checkpoint_read(buffer_bytes(&long_one), &request, &err).ok);
    assert_int_equal(request.proof.count, MERKLE_PROOF_MAX);
    buffer_truncate(&long_one, most);
    assert_true(buffer_add_text(&long_one, HASH "\nx", &err).ok);
    assert_false(add_checkpoint_read(buffer_bytes(&long_one), &request, &err).ok);
    while (long_one.length <= ADD_CHECKPOINT_MAX) assert_true(buffer_add_text(&long_one, HASH, &err).ok);
    assert_false(add_checkpoint_read(buffer_bytes(&long_one), &request, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read_and_written), cmocka_unit_test(another_spelling_is_refused),
        cmocka_unit_test(a_log_has_these_widths),     cmocka_unit_test(the_body_of_the_vector_is_read_and_written),
        cmocka_unit_test(a_bad_body_is_refused),
    };

    read_vectors();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    json_decref(vectors);
    return failed;
}
