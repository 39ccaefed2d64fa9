/* Each record that is read is written again to the byte; a check of any bytes ends, and a dump that it takes has an entry or a finding for each number. */
#include <assert.h>
#include <string.h>

#include "audit/format/fsck.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VKEY "test.example/audit+41592fc6+AepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs"

struct copy {
    struct dump_writer *writer;
    struct buffer out;
};

static struct result write_again(void *context, const struct dump_record *record, struct error *err)
{
    struct copy *copy = context;

    return record->type == DUMP_END ? dump_writer_end(copy->writer, &copy->out, err)
                                    : dump_writer_add(copy->writer, record, &copy->out, err);
}

static void compare(struct bytes dump)
{
    OWNED(dump_reader) *reader = NULL;
    OWNED(dump_writer) *writer = NULL;
    struct error err;

    if (!dump_reader_new(&reader, &err).ok || !dump_writer_new(&writer, &err).ok) return;
    struct copy copy = {writer, BUFFER(dump.length + 1)};
    assert(dump_writer_begin(writer, &copy.out, &err).ok || dump.length < sizeof DUMP_MAGIC);
    if (dump_reader_feed(reader, dump, write_again, &copy, &err).ok && dump_reader_end(reader, &err).ok)
        assert(bytes_equal(buffer_bytes(&copy.out), dump));
    buffer_done(&copy.out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct fsck_options options = {bytes_of_text(VKEY), FSCK_MEMORY_MIN, 1};
    OWNED(fsck) *fsck = NULL;
    struct error err;
    bool again = true;

    compare((struct bytes){data, size});
    if (!fsck_new(&options, &fsck, &err).ok) return 0;
    for (unsigned passes = 0; again && passes < 4; passes++) /* a number beyond the fourth window is possible, and slow */
        if (!fsck_feed(fsck, (struct bytes){data, size / 2}, &err).ok ||
            !fsck_feed(fsck, (struct bytes){data + size / 2, size - size / 2}, &err).ok || !fsck_end_pass(fsck, &again, &err).ok)
            return 0;
    const struct fsck_report *report = fsck_report(fsck);
    assert(report->shown <= FSCK_FINDINGS_SHOWN && fsck_report_count(report) >= report->shown);
    for (size_t i = 1; i < report->shown; i++) assert(report->first[i - 1].number <= report->first[i].number);
    return 0;
}
