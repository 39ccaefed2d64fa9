#include "client/files.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "client/local.h"

static struct result make_room(struct file_list *list, struct error *err)
{
    const size_t wanted = list->room == 0 ? 16 : 2 * list->room;

    if (list->count < list->room) return SUCCESS;
    if (list->count == PUSH_FILES_MAX)
        return failure(err, ERROR_LIMIT, "more than %d files; push them as several artifacts", PUSH_FILES_MAX);
    struct layer_file *longer = memory_resize(list->files, wanted * sizeof *longer);
    if (longer == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for %zu files", wanted);
    list->files = longer;
    list->room = wanted;
    return SUCCESS;
}

static struct result open_folder(const struct pushed_folder *folder, int *fd_out, struct error *err)
{
    OWNED_FD fd = -1;
    struct stat status;

    TRY(local(file_open(folder->path, O_PATH | O_DIRECTORY, 0, &fd, err), folder->path, err));
    TRY(local(file_status(fd, &status, err), folder->path, err));
    if (status.st_dev != folder->device || status.st_ino != folder->inode)
        return failure(err, ERROR_INVALID, "%.150s became another folder meanwhile", folder->path);
    *fd_out = fd;
    fd = -1;
    return SUCCESS;
}

/* Opens the file by the user's path or below its folder. */
static struct result open_file(const struct layer_file *file, int flags, int *fd_out, struct error *err)
{
    OWNED_FD folder = -1;

    if (file->folder == NULL) return local(file_open(file->path, flags, 0, fd_out, err), file->path, err);
    TRY(open_folder(file->folder, &folder, err));
    const struct result opened = local(file_open_beneath(folder, file->title, flags, fd_out, err), file->path, err);
    if (!opened.ok && err->kind == ERROR_DENIED)
        return failure(err, ERROR_INVALID, "%.150s is a link out of the folder: take it out, or push with --follow-links",
                       file->path);
    return opened;
}

/* Never blocks on a file that is not regular, such as a pipe. */
static struct result open_regular(const struct layer_file *file, int flags, int *fd_out, struct stat *status, struct error *err)
{
    OWNED_FD fd = -1;

    TRY(open_file(file, flags, &fd, err));
    TRY(local(file_status(fd, status, err), file->path, err));
    if (!S_ISREG(status->st_mode))
        return failure(err, ERROR_INVALID,
                       "%.150s is neither a regular file nor a folder; take it out, or name the files one by one", file->path);
    *fd_out = fd;
    fd = -1;
    return SUCCESS;
}

struct result file_list_open(const struct layer_file *file, int *fd_out, struct error *err)
{
    struct stat status;

    return open_regular(file, O_RDONLY | O_NONBLOCK | O_NOCTTY, fd_out, &status, err);
}

static struct result read_size(struct layer_file *file, struct error *err)
{
    OWNED_FD fd = -1;
    struct stat status;

    TRY(open_regular(file, O_PATH, &fd, &status, err));
    file->size = (uint64_t)status.st_size;
    return SUCCESS;
}

NO_LEAK_BEGIN /* an element of the list, which file_list_done() frees */
    static struct result
    add_file(struct file_list *list, const char *path, const char *name, const struct pushed_folder *folder, bool is_dataset,
             struct error *err)
{
    TRY(make_room(list, err));
    struct layer_file *file = &list->files[list->count];
    *file = (struct layer_file){.folder = folder};
    TRY(layer_title(name, file->title, sizeof file->title, err));
    file->path = memory_copy_text(path, strlen(path));
    if (file->path == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a name");
    list->count++; /* from here on the list owns the name */
    file->media_type = layer_media_type(file->title, is_dataset);
    return read_size(file, err);
}
NO_LEAK_END

static int by_name(const FTSENT **left, const FTSENT **right)
{
    return strcmp((*left)->fts_name, (*right)->fts_name);
}

/* The listing of one folder. */
struct listing {
    struct file_list *list;
    FTS *tree;
    size_t below;                       /* letters of a path before the part below the folder */
    const struct pushed_folder *folder; /* NULL: links that leave it are followed */
    bool is_dataset;
};

static struct result add_entry(const struct listing *listing, FTSENT *entry, struct error *err)
{
    switch (entry->fts_info) {
    case FTS_D:
        if (strcmp(entry->fts_name, ".git") == 0 && fts_set(listing->tree, entry, FTS_SKIP) == 0)
            (void)fprintf(stderr, "left out: %s\n", entry->fts_path);
        return SUCCESS;
    case FTS_DP: return SUCCESS;
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS: return failure(err, ERROR_INVALID, "%.150s: %s", entry->fts_path, strerror(entry->fts_errno));
    default: break;
    }
    const char *name = entry->fts_path + listing->below;
    if (!title_is_safe(name)) return failure(err, ERROR_INVALID, "'%.150s' can't be the name of a layer; rename the file", name);
    return add_file(listing->list, entry->fts_path, name, listing->folder, listing->is_dataset, err);
}

static struct result add_tree(const struct listing *listing, struct error *err)
{
    errno = 0;
    for (FTSENT *entry; (entry = fts_read(listing->tree)) != NULL; errno = 0) TRY(add_entry(listing, entry, err));
    return errno == 0 ? SUCCESS : failure(err, ERROR_INVALID, "can't list a folder: %s", strerror(errno));
}

static struct result note_folder(struct file_list *list, const char *path, const struct stat *status, struct error *err)
{
    struct pushed_folder *folder = memory_zeroed(1, sizeof *folder);
    size_t length = strlen(path);

    while (length > 1 && path[length - 1] == '/') length--;
    char *copy = folder == NULL ? NULL : memory_copy_text(path, length);
    if (copy == NULL) free(folder);
    if (copy == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to list %.150s", path);
    *folder = (struct pushed_folder){.next = list->folders, .path = copy, .device = status->st_dev, .inode = status->st_ino};
    list->folders = folder;
    return SUCCESS;
}

static struct result add_folder(struct file_list *list, const struct pushed_folder *folder, bool is_dataset, struct error *err)
{
    char *const roots[] = {folder->path, NULL};
    const bool is_root = strcmp(folder->path, "/") == 0;
    const struct listing listing = {.list = list,
                                    .folder = list->follows_links ? NULL : folder,
                                    .is_dataset = is_dataset,
                                    .tree = fts_open(roots, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name),
                                    .below = is_root ? 1 : strlen(folder->path) + 1};
    const size_t before = list->count;

    if (listing.tree == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to list %.150s", folder->path);
    const struct result added = add_tree(&listing, err);
    (void)fts_close(listing.tree);
    TRY(added);
    if (list->count == before) return failure(err, ERROR_INVALID, "there is no file in the folder %.150s", folder->path);
    return SUCCESS;
}

struct result file_list_add(struct file_list *list, const char *path, bool is_dataset, struct error *err)
{
    struct stat status;

    if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode)) return add_file(list, path, path, NULL, is_dataset, err);
    TRY(note_folder(list, path, &status, err));
    return add_folder(list, list->folders, is_dataset, err);
}

struct result file_list_check(const struct file_list *list, struct error *err)
{
    for (size_t i = 0; i < list->count; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(list->files[i].title, list->files[j].title) == 0)
                return failure(err, ERROR_INVALID, "two files would be called '%.100s'; push them from a folder above both",
                               list->files[i].title);
    return SUCCESS;
}

void file_list_done(struct file_list *list)
{
    for (size_t i = 0; i < list->count; i++) free((char *)(uintptr_t)list->files[i].path);
    free(list->files);
    for (struct pushed_folder *folder = list->folders, *next; folder != NULL; folder = next) {
        next = folder->next;
        free(folder->path);
        free(folder);
    }
    *list = (struct file_list){.count = 0};
}
