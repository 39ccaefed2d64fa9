#include "runner/talk/talk_files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

#define PATH_MAX_BYTES 1200 /* a path of an output or an input, and "in/NAME/" before it */
#define NAME_MAX_BYTES 255
#define DEPTH_MAX      64
#define PIECE_SIZE     65536
#define NUMBER_SIZE    24
#define FILE_WORDS     3

/* ---- giving ---- */

static struct result send_content(struct talk *talk, const char *path, int fd, int64_t size, struct error *err)
{
    uint8_t piece[PIECE_SIZE];
    size_t got = 0;

    for (int64_t at = 0; at < size; at += (int64_t)got) {
        const int64_t left = size - at;
        TRY(file_read_some(fd, piece, left < PIECE_SIZE ? (size_t)left : PIECE_SIZE, (uint64_t)at, &got, err));
        if (got == 0) return failure(err, ERROR_CONFLICT, "%.160s became shorter while it was sent", path);
        TRY(talk_send(talk, TALK_PIECE, (struct bytes){piece, got}, err));
    }
    return SUCCESS;
}

struct result talk_send_file(struct talk *talk, const char *path, int64_t mode, int fd, int64_t size, struct error *err)
{
    char numbers[2][NUMBER_SIZE];
    const char *const texts[FILE_WORDS] = {path, numbers[0], numbers[1]};

    (void)snprintf(numbers[0], NUMBER_SIZE, "%d", (mode & 0111) != 0 ? 1 : 0);
    (void)snprintf(numbers[1], NUMBER_SIZE, "%lld", (long long)size);
    TRY(talk_send_texts(talk, TALK_FILE, texts, FILE_WORDS, err));
    return send_content(talk, path, fd, size, err);
}

/* ---- taking ---- */

bool talk_path_is_safe(const char *path)
{
    unsigned depth = 0;

    if (path[0] == '\0' || strlen(path) > PATH_MAX_BYTES) return false;
    for (const char *name = path;; name++) {
        const size_t length = strcspn(name, "/");
        const bool is_dots = (length == 1 && name[0] == '.') || (length == 2 && name[0] == '.' && name[1] == '.');
        if (length == 0 || length > NAME_MAX_BYTES || is_dots || ++depth > DEPTH_MAX) return false;
        name += length;
        if (*name == '\0') return true;
    }
}

static struct result make_folders(int folder, const char *path, struct error *err)
{
    char part[PATH_MAX_BYTES + 1];

    (void)snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdirat(folder, part, 0755) != 0 && errno != EEXIST)
            return failure(err, errno == ENOSPC ? ERROR_FULL : ERROR_UNAVAILABLE, "no folder %.160s: %s", part, strerror(errno));
        *slash = '/';
    }
    return SUCCESS;
}

static struct result open_new(int folder, const char *path, bool is_program, int *fd_out, struct error *err)
{
    struct open_how how = {.flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                           .mode = is_program ? 0755 : 0644,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    const long fd = syscall(SYS_openat2, folder, path, &how, sizeof how);

    if (fd < 0)
        return failure(err, errno == ENOSPC ? ERROR_FULL : ERROR_DENIED, "%.160s can't be made: %s", path, strerror(errno));
    *fd_out = (int)fd;
    return SUCCESS;
}

static struct result take_content(struct talk *talk, struct talk_message *message, int fd, int64_t size, struct error *err)
{
    while (size > 0) {
        TRY(talk_receive(talk, TALK_SILENCE_MS, message, err));
        const int64_t length = (int64_t)message->content.length;
        if (message->kind != TALK_PIECE || length == 0 || length > size)
            return failure(err, ERROR_INVALID, "a file of a talk is not as long as was said");
        TRY(file_write_all(fd, message->content.data, message->content.length, err));
        size -= length;
    }
    return SUCCESS;
}

static struct result read_head(struct talk_message *message, const struct talk_taking *taking, int64_t *size_out,
                               struct error *err)
{
    uint64_t size = 0;

    TRY(talk_texts(message, FILE_WORDS, err));
    if (!talk_path_is_safe(message->texts[0]))
        return failure(err, ERROR_DENIED, "a path of a talk leads out of its folder, or is too long");
    if (!text_to_u64(bytes_of_text(message->texts[2]), INT64_MAX, &size))
        return failure(err, ERROR_INVALID, "a file of a talk has no size");
    if (taking->files >= taking->files_max || (int64_t)size > taking->bytes)
        return failure(err, ERROR_LIMIT, "%.160s: the files of a talk are more than was said", message->texts[0]);
    *size_out = (int64_t)size;
    return SUCCESS;
}

struct result talk_take_file(struct talk *talk, struct talk_message *message, struct talk_taking *taking, struct error *err)
{
    OWNED_FD fd = -1;
    int64_t size = 0;

    TRY(read_head(message, taking, &size, err));
    const bool is_program = strcmp(message->texts[1], "1") == 0;
    TRY(make_folders(taking->folder, message->texts[0], err));
    TRY(open_new(taking->folder, message->texts[0], is_program, &fd, err));
    taking->files++;
    taking->bytes -= size;
    return take_content(talk, message, fd, size, err);
}
