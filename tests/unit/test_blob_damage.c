/* Damage at rest: every field and record changed, cut, extended; each is found and named. */
#include "tests/unit/blob_damage_fixture.h"

/* Flips a bit, reads the blob, and restores the byte. */
static void flip(struct subject *subject, size_t file, size_t at, const char *name)
{
    const uint8_t flipped = subject->files[file].data[at] ^ (uint8_t)(1U << at % 8);
    char what[64];
    const int descriptor = open(subject->paths[file], O_WRONLY | O_CLOEXEC);

    assert_true(at < subject->files[file].length);
    (void)snprintf(what, sizeof what, "bit in byte %zu of file %zu", at, file);
    assert_int_equal(pwrite(descriptor, &flipped, 1, (off_t)at), 1);
    expect(subject, what, name);
    assert_int_equal(pwrite(descriptor, &subject->files[file].data[at], 1, (off_t)at), 1);
    close(descriptor);
}

static const struct field_row {
    const char *name;
    size_t from, to; /* every byte of these */
    const char *message;
} field_rows[] = {
    {"magic number", 0, 4, "header: the magic number"},
    {"suite", 4, 5, "header: the cipher suite"},
    {"record size", 5, 6, "header: the record size"},
    {"reserved bytes", 6, 8, "header: reserved"},
    {"blob id", 8, 24, "header: the blob id"},
    {"project id", 24, 40, "header: the project"},
    {"region tag", 40, 56, "header: the region"},
    {"commitment", 56, 88, "header: the commitment"},
    {"zeros", 88, 600, "header: the zeros"},
    {"the last zeros", 4000, 4096, "header: the zeros"},
};

static void a_bit_in_each_field_of_the_header(void **state)
{
    const struct field_row *row = *state;
    struct subject subject;

    subject_new(&subject, 1, 1);
    for (size_t at = row->from; at < row->to; at++) flip(&subject, 0, at, row->message);
    subject_done(&subject);
}

static void a_bit_in_each_record(void **state)
{
    static const size_t places[] = {0, 1, 15, 16, 499, 65519, 65520, 65535}; /* of content, then of the tag */
    struct subject subject;

    (void)state;
    subject_new(&subject, 1, 1);
    for (size_t record = 0; record < RECORDS; record++)
        for (size_t i = 0; i < COUNT(places); i++) {
            char name[32];
            size_t place = places[i];
            if (record == RECORDS - 1 && place > 1000) place = 1000 + place % 16; /* the last one is shorter */
            (void)snprintf(name, sizeof name, "record %zu:", record);
            flip(&subject, 0, 4096 + record * 65536 + place, name);
        }
    subject_done(&subject);
}

static void a_bit_in_each_byte_of_the_trailer(void **state)
{
    struct subject subject;

    (void)state;
    subject_new(&subject, 1, 1);
    const size_t end = subject.files[0].length, start = 4096 + 3 * 65536 + 1016;
    for (size_t at = start; at < end - 8; at++) flip(&subject, 0, at, "trailer");
    flip(&subject, 0, end - 8, "footer");
    flip(&subject, 0, end - 7, "footer");
    flip(&subject, 0, end - 6, "trailer");
    flip(&subject, 0, end - 5, "trailer"); /* a length that is possible, but another one */
    for (size_t at = end - 4; at < end; at++) flip(&subject, 0, at, "footer");
    subject_done(&subject);
}

static void a_bit_in_an_earlier_extent(void **state)
{
    struct subject subject;

    (void)state;
    subject_new(&subject, 1, 2);
    flip(&subject, 0, 0, "extent 0: header: the magic number");
    flip(&subject, 0, 60, "extent 0: header: the commitment");
    flip(&subject, 0, 4096 + 7, "record 0:");
    flip(&subject, 1, 60, "header: the commitment");
    flip(&subject, 1, 4096 + 7, "record 1:");
    flip(&subject, 1, 4096 + 2 * 65536 + 7, "record 3:");
    subject_done(&subject);
}

static void a_cut_anywhere(void **state)
{
    static const size_t lengths[] = {0, 1, 88, 4095, 4096, 4097, 4096 + 65536, 4096 + 65536 + 5, 4096 + 3 * 65536};
    struct subject subject;

    (void)state;
    subject_new(&subject, 1, 1);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        write_file(subject.paths[0], (struct bytes){subject.files[0].data, lengths[i]});
        expect(&subject, "a cut", lengths[i] < 4096 ? "header" : "footer");
    }
    for (size_t cut = 1; cut <= 200; cut++) {
        write_file(subject.paths[0], (struct bytes){subject.files[0].data, subject.files[0].length - cut});
        expect(&subject, "a cut of the trailer", "footer");
    }
    subject_done(&subject);

    subject_new(&subject, 1, 2);
    write_file(subject.paths[0], (struct bytes){subject.files[0].data, 4096 + 65535});
    expect(&subject, "a cut of the first extent", "extent 0: it is cut");
    write_file(subject.paths[0], (struct bytes){subject.files[0].data, 100});
    expect(&subject, "a cut of the first extent's header", "extent 0: header");
    subject_done(&subject);
}

static void something_added(void **state)
{
    static const size_t additions[] = {1, 8, 16, 4096, 65536};
    struct subject subject;
    struct error err = {0};
    static uint8_t zeros[65536];

    (void)state;
    subject_new(&subject, 1, 1);
    struct buffer OWNED_BUFFER longer = BUFFER(1 << 20);
    for (size_t i = 0; i < COUNT(additions); i++) {
        const size_t whole = subject.files[0].length, before_trailer = 4096 + 3 * 65536 + 1016;
        buffer_clear(&longer);
        must(buffer_add(&longer, subject.files[0].data, whole, &err), &err);
        must(buffer_add(&longer, zeros, additions[i], &err), &err);
        write_file(subject.paths[0], buffer_bytes(&longer));
        expect(&subject, "bytes at the end", "footer");
        buffer_clear(&longer); /* between the last record and the trailer */
        must(buffer_add(&longer, subject.files[0].data, before_trailer, &err), &err);
        must(buffer_add(&longer, zeros, additions[i], &err), &err);
        must(buffer_add(&longer, subject.files[0].data + before_trailer, whole - before_trailer, &err), &err);
        write_file(subject.paths[0], buffer_bytes(&longer));
        expect(&subject, "bytes before the trailer", "trailer: it does not follow the last record");
    }
    subject_done(&subject);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_bit_in_each_record),
        cmocka_unit_test(a_bit_in_each_byte_of_the_trailer),
        cmocka_unit_test(a_bit_in_an_earlier_extent),
        cmocka_unit_test(a_cut_anywhere),
        cmocka_unit_test(something_added),
    };

    return RUN_TABLE(field_rows, a_bit_in_each_field_of_the_header) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
