#include "cmd/passphrase.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { PASSPHRASE_MAX = 4096 };

/* Reads a descriptor to its end, then cuts the text after the first line. */
static struct result read_line(int fd, struct secret *line, struct error *err)
{
    size_t length = 0;

    for (;;) {
        const ssize_t got = read(fd, line->bytes + length, line->length - length);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return failure(err, ERROR_UNAVAILABLE, "the passphrase can't be read: %s", strerror(errno));
        if (got == 0 || (length += (size_t)got) == line->length) break;
    }
    const uint8_t *end = memchr(line->bytes, '\n', length);
    line->length = end == NULL ? length : (size_t)(end - line->bytes);
    if (line->length == 0 || length == PASSPHRASE_MAX)
        return failure(err, ERROR_INVALID, "the passphrase must have 1 to %d bytes", PASSPHRASE_MAX - 1);
    return SUCCESS;
}

static struct result read_private_file(const char *path, struct secret *line, struct error *err)
{
    OWNED_FD file = -1;
    struct stat about;

    TRY(file_open(path, O_RDONLY, 0, &file, err));
    TRY(file_status(file, &about, err));
    if ((about.st_mode & 077) != 0) return failure(err, ERROR_DENIED, "others may read the passphrase: chmod 600 %s", path);
    return read_line(file, line, err);
}

struct result passphrase_read(const struct passphrase_source *source, struct secret **passphrase_out, struct error *err)
{
    OWNED(secret) *line = NULL;

    TRY(secret_new(PASSPHRASE_MAX, &line, err));
    if (source->has_fd) TRY(read_line((int)source->fd, line, err));
    else TRY(read_private_file(source->file, line, err));
    if (source->has_fd && source->fd > 2) (void)close((int)source->fd);
    *passphrase_out = GIVE(line);
    return SUCCESS;
}

struct result passphrase_open_directory(const char *path, int *directory_out, struct error *err)
{
    OWNED_FD directory = -1;
    struct stat about;

    TRY(file_open(path, O_RDONLY | O_DIRECTORY, 0, &directory, err));
    TRY(file_status(directory, &about, err));
    if (about.st_uid != geteuid() || (about.st_mode & 077) != 0)
        return failure(err, ERROR_DENIED, "%s must belong to user %u alone: chown it, and chmod 700", path, geteuid());
    *directory_out = directory;
    directory = -1;
    return SUCCESS;
}

void passphrase_close_inherited(const struct passphrase_source *source)
{
    const unsigned kept = source->fd;

    if (!source->has_fd || kept < 3) {
        (void)close_range(3, ~0U, 0);
        return;
    }
    if (kept > 3) (void)close_range(3, kept - 1, 0);
    (void)close_range(kept + 1, ~0U, 0);
}
