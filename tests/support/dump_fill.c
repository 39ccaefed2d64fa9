/*
 * dump_fill ENTRIES REPOSITORIES: writes the dump of a log that is made up to standard output, and the log's key to standard error. For measuring
 * `sijil-verify fsck` with logs of any size.
 */
#include "tests/support/made_dump.h"

static void take(void *context, struct bytes piece)
{
    (void)context;
    if (fwrite(piece.data, 1, piece.length, stdout) != piece.length) abort();
}

int main(int argc, char **argv)
{
    uint64_t count = 0, repositories = 0;
    struct buffer vkey;

    if (argc != 3 || !text_to_u64(bytes_of_text(argv[1]), UINT32_MAX, &count) ||
        !text_to_u64(bytes_of_text(argv[2]), UINT32_MAX, &repositories) || repositories == 0) {
        (void)fprintf(stderr, "usage: dump_fill ENTRIES REPOSITORIES\n");
        return 2;
    }
    made_dump(count, repositories, take, NULL, &vkey);
    (void)fprintf(stderr, "%s\n", buffer_text(&vkey));
    buffer_done(&vkey);
    return fflush(stdout) == 0 ? 0 : 1;
}
