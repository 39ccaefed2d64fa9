#include "runner/sandbox/outputs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"
#include "client/terminal.h"

#define PIECE_SIZE 262144
#define HOLES_MAX  65536 /* bytes that a file system may leave out, because of its blocks */
#define BLOCK      512   /* of st_blocks (stat(2)) */

struct step {
    struct output_walk *walk;
    char path[OUTPUT_PATH_MAX];
    size_t length;
    unsigned depth;
    uint8_t *piece;
};

const char *output_name_breaks(const char *name)
{
    if (strlen(name) > OUTPUT_NAME_MAX) return "a name has at most 128 bytes";
    if (!terminal_is_printable(name)) return "a name is UTF-8 without characters that steer a terminal";
    if (name[0] == ' ' || name[strlen(name) - 1] == ' ') return "a name neither begins nor ends with a blank";
    return NULL;
}

/* `path` may have broken the rule of names. */
static struct result refuse(const struct step *step, enum error_kind kind, const char *rule, struct error *err)
{
    char shown[160];

    (void)snprintf(shown, sizeof shown, "%.150s", step->path);
    terminal_sanitize(shown);
    return failure(err, kind, "%s %s: %s", step->walk->what, shown[0] == '\0' ? "folder" : shown, rule);
}

static struct result open_entry(const struct step *step, int folder, const char *name, int *fd_out, struct error *err)
{
    struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
    const long fd = fault_is_due(FAULT_FILE) ? -1 : syscall(SYS_openat2, folder, name, &how, sizeof how);

    if (fd < 0) return refuse(step, errno == ENOENT ? ERROR_CONFLICT : ERROR_UNAVAILABLE, "it can't be opened", err);
    *fd_out = (int)fd;
    return SUCCESS;
}

static const char *kind_breaks(const struct step *step, const struct stat *about)
{
    const bool is_linked = S_ISREG(about->st_mode) && about->st_nlink != 1;

    if (S_ISLNK(about->st_mode)) return "a symbolic link is not taken: put the file itself there";
    if (!S_ISREG(about->st_mode) && !S_ISDIR(about->st_mode))
        return "only files and folders are taken: no pipe, socket or device";
    if ((about->st_mode & (S_ISUID | S_ISGID | S_ISVTX)) != 0) return "no setuid, setgid or sticky bit is taken";
    if (is_linked && !step->walk->rules.takes_links) return "a file with more than one name (hard link) is not taken";
    return NULL;
}

static bool is_sparse(const struct stat *about)
{
    return about->st_size > about->st_blocks * BLOCK + HOLES_MAX;
}

static struct result check_amount(struct step *step, const struct stat *about, struct error *err)
{
    struct output_walk *walk = step->walk;

    if (++walk->files > walk->rules.files_max)
        return refuse(step, ERROR_LIMIT, "there are more files and folders than the limit allows", err);
    if (!S_ISREG(about->st_mode)) return SUCCESS;
    if (about->st_size > walk->rules.bytes_max - walk->bytes)
        return refuse(step, ERROR_LIMIT, "all files together are larger than the limit allows", err);
    if (is_sparse(about)) return refuse(step, ERROR_DENIED, "a file with holes (sparse) is not taken", err);
    walk->bytes += about->st_size;
    return SUCCESS;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec && a->st_nlink == b->st_nlink;
}

static struct result hash_file(struct step *step, int fd, int64_t size, struct digest *digest_out, struct error *err)
{
    OWNED(hasher) *hasher = NULL;
    size_t got = 0;

    TRY(hasher_new(DIGEST_SHA256, &hasher, err));
    for (int64_t at = 0; at < size; at += (int64_t)got) {
        TRY(file_read_some(fd, step->piece, PIECE_SIZE, (uint64_t)at, &got, err));
        if (got == 0) return refuse(step, ERROR_CONFLICT, "it became shorter while it was read", err);
        hasher_add(hasher, (struct bytes){step->piece, got});
    }
    if (hasher_length(hasher) != (uint64_t)size) return refuse(step, ERROR_CONFLICT, "it became longer while it was read", err);
    *digest_out = hasher_digest(hasher);
    return SUCCESS;
}

static struct result take_file(struct step *step, int fd, const struct stat *about, struct error *err)
{
    struct output_file file = {.path = step->path, .size = about->st_size, .fd = fd};
    struct stat after;

    file.mode = (about->st_mode & 0111) != 0 ? 0755 : 0644;
    TRY(hash_file(step, fd, about->st_size, &file.digest, err));
    TRY(file_status(fd, &after, err));
    if (!is_same(about, &after)) return refuse(step, ERROR_CONFLICT, "it changed while it was read", err);
    return step->walk->take(step->walk->context, &file, err);
}

static struct result walk_folder(struct step *step, int folder, struct error *err);

static struct result take_entry(struct step *step, int folder, const char *name, struct error *err)
{
    const char *broken = output_name_breaks(name);
    struct stat before, about;
    OWNED_FD fd = -1;

    if (broken != NULL) return refuse(step, ERROR_DENIED, broken, err);
    TRY(file_status_at(folder, name, &before, err));
    broken = kind_breaks(step, &before);
    if (broken != NULL) return refuse(step, ERROR_DENIED, broken, err);
    TRY(open_entry(step, folder, name, &fd, err));
    TRY(file_status(fd, &about, err));
    if (about.st_ino != before.st_ino || about.st_dev != before.st_dev || kind_breaks(step, &about) != NULL)
        return refuse(step, ERROR_CONFLICT, "it was replaced while it was read", err);
    TRY(check_amount(step, &about, err));
    return S_ISDIR(about.st_mode) ? walk_folder(step, fd, err) : take_file(step, fd, &about, err);
}

/* The names of a folder, each a heap copy. The walk counts them before they are kept, so the list is bounded. */
struct names {
    char **list;
    size_t count, room;
};

static void names_done(struct names *names)
{
    for (size_t i = 0; i < names->count; i++) free(names->list[i]);
    free(names->list);
}
#define OWNED_NAMES __attribute__((cleanup(names_done))) struct names

static struct result keep_name(struct names *names, const char *name, struct error *err)
{
    if (names->count == names->room) {
        char **larger = memory_resize(names->list, (names->room + 64) * 2 * sizeof *larger);
        if (larger == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the names of outputs");
        names->list = larger;
        names->room = (names->room + 64) * 2;
    }
    char *copy = memory_copy_text(name, strlen(name));
    if (copy == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the name of an output");
    names->list[names->count++] = copy;
    return SUCCESS;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static struct result list_names(const struct step *step, int folder, struct names *names, struct error *err)
{
    const int64_t room = step->walk->rules.files_max - step->walk->files;
    OWNED_LISTING listing = file_list(folder);
    const char *name = NULL;

    if (listing == NULL) return refuse(step, ERROR_UNAVAILABLE, "the folder can't be listed", err);
    for (;;) {
        TRY(file_list_next(listing, &name, err));
        if (name == NULL) break;
        if ((int64_t)names->count >= room)
            return refuse(step, ERROR_LIMIT, "there are more files and folders than the limit allows", err);
        TRY(keep_name(names, name, err));
    }
    if (names->count > 0) qsort(names->list, names->count, sizeof *names->list, compare);
    return SUCCESS;
}

static bool enter(struct step *step, const char *name)
{
    const size_t size = strlen(name), slash = step->length > 0 ? 1 : 0;

    if (step->length + slash + size >= sizeof step->path) return false;
    if (slash == 1) step->path[step->length] = '/';
    memcpy(step->path + step->length + slash, name, size + 1);
    step->length += slash + size;
    return true;
}

static struct result walk_folder(struct step *step, int folder, struct error *err)
{
    const size_t length = step->length;
    OWNED_NAMES names = {0};

    if (step->depth == OUTPUT_DEPTH_MAX) return refuse(step, ERROR_LIMIT, "folders are at most 16 deep", err);
    TRY(list_names(step, folder, &names, err));
    step->depth++;
    for (size_t i = 0; i < names.count; i++) {
        if (!enter(step, names.list[i])) return refuse(step, ERROR_LIMIT, "a path in it has more than 1023 bytes", err);
        TRY(take_entry(step, folder, names.list[i], err));
        step->length = length;
        step->path[length] = '\0';
    }
    step->depth--;
    return SUCCESS;
}

static void piece_done(struct step *step)
{
    free(step->piece);
}

struct result output_walk_entry(struct output_walk *walk, int folder, const char *name, struct error *err)
{
    __attribute__((cleanup(piece_done))) struct step step = {.walk = walk, .piece = memory_zeroed(1, PIECE_SIZE)};

    if (step.piece == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to read outputs");
    if (!enter(&step, name)) return refuse(&step, ERROR_LIMIT, "a path in it has more than 1023 bytes", err);
    return take_entry(&step, folder, name, err);
}

struct result output_walk(struct output_walk *walk, int folder, struct error *err)
{
    __attribute__((cleanup(piece_done))) struct step step = {.walk = walk, .piece = memory_zeroed(1, PIECE_SIZE)};

    if (step.piece == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to read outputs");
    return walk_folder(&step, folder, err);
}
