/* sijil-verify fsck: whether a dump of a log is the signed log, and whether all rows follow from it. */
#include "cmd/sijil_verify_fsck.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "audit/format/fsck.h"
#include "base/file.h"
#include "base/text.h"

#define BLOCK_SIZE ((size_t)1 << 20)

/* What can't be read as a dump of this log is not verified: the verifier's own key was read before. */
static struct result as_verdict(struct result checked, struct error *err)
{
    if (!checked.ok && err->kind == ERROR_INVALID) err->kind = ERROR_DENIED;
    return checked;
}

static struct result read_memory(const char *text, uint64_t *bytes_out, struct error *err)
{
    static const char units[] = "KMGT";
    const size_t length = strlen(text), digits = strspn(text, "0123456789");
    const char *unit = digits + 1 == length ? strchr(units, text[digits]) : NULL;
    uint64_t value = 0;

    if (!text_to_u64((struct bytes){(const uint8_t *)text, digits}, FSCK_MEMORY_MAX, &value) ||
        (digits != length && unit == NULL))
        return failure(err, ERROR_INVALID, "--memory is a number of bytes, with K, M, G or T behind it: 256M");
    *bytes_out = unit == NULL ? value : value << (10 * (unsigned)(unit - units + 1));
    if (*bytes_out < FSCK_MEMORY_MIN || *bytes_out > FSCK_MEMORY_MAX ||
        *bytes_out >> (unit == NULL ? 0 : 10 * (unit - units + 1)) != value)
        return failure(err, ERROR_INVALID, "--memory is from 64M to 1T");
    return SUCCESS;
}

static struct result read_options(const struct fsck_request *request, struct fsck_options *options, struct error *err)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t threads = processors < 1 ? 1 : (uint64_t)processors;

    if (threads > FSCK_THREADS_MAX) threads = FSCK_THREADS_MAX;
    *options = (struct fsck_options){.vkey = bytes_of_text(request->key), .memory = FSCK_MEMORY_DEFAULT};
    if (request->memory != NULL) TRY(read_memory(request->memory, &options->memory, err));
    if (request->threads != NULL && (!text_to_u64(bytes_of_text(request->threads), FSCK_THREADS_MAX, &threads) || threads == 0))
        return failure(err, ERROR_INVALID, "--threads is a number from 1 to %d", FSCK_THREADS_MAX);
    options->threads = (unsigned)threads;
    return SUCCESS;
}

static struct result feed_all(int fd, const char *name, struct fsck *fsck, struct error *err)
{
    struct buffer OWNED_BUFFER block = BUFFER(BLOCK_SIZE);
    uint8_t *into = NULL;

    TRY(buffer_reserve(&block, BLOCK_SIZE, &into, err));
    for (;;) {
        const ssize_t count = read(fd, into, BLOCK_SIZE);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return failure(err, ERROR_UNAVAILABLE, "%.180s: %s", name, strerror(errno));
        if (count == 0) return SUCCESS;
        TRY(as_verdict(fsck_feed(fsck, (struct bytes){into, (size_t)count}, err), err));
    }
}

static struct result check_passes(int fd, const char *name, struct fsck *fsck, struct error *err)
{
    for (bool again = true; again;) {
        TRY(feed_all(fd, name, fsck, err));
        TRY(as_verdict(fsck_end_pass(fsck, &again, err), err));
        if (again && lseek(fd, 0, SEEK_SET) != 0)
            return failure(
                err, ERROR_LIMIT,
                "%.100s has more entries than fit into the memory, so it must be read again: give a file, or more --memory",
                name);
    }
    return SUCCESS;
}

static struct result check(const struct fsck_request *request, struct fsck *fsck, struct error *err)
{
    OWNED_FD fd = -1;

    if (strcmp(request->file, "-") == 0) return check_passes(STDIN_FILENO, "standard input", fsck, err);
    TRY(file_open(request->file, O_RDONLY, 0, &fd, err));
    return check_passes(fd, request->file, fsck, err);
}

struct result fsck_file(const struct fsck_request *request, struct buffer *answer, bool *is_sound_out, struct error *err)
{
    OWNED(fsck) *fsck = NULL;
    struct fsck_options options;

    TRY(read_options(request, &options, err));
    TRY(fsck_new(&options, &fsck, err));
    TRY(check(request, fsck, err));
    const struct fsck_report *report = fsck_report(fsck);
    *is_sound_out = fsck_report_count(report) == 0 || request->heads;
    if (request->heads) return fsck_heads_text(report, answer, err);
    return request->json ? fsck_report_json(report, answer, err) : fsck_report_text(report, answer, err);
}
