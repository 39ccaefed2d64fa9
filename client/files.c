#include "client/files.h"

#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"

static struct result make_room(struct file_list *list, struct error *err)
{
    const size_t wanted = list->room == 0 ? 16 : 2 * list->room;

    if (list->count < list->room) return SUCCESS;
    if (list->count == PUSH_FILES_MAX) return failure(err, ERROR_LIMIT, "more than %d files; push them as several artifacts", PUSH_FILES_MAX);
    struct layer_file *longer = memory_resize(list->files, wanted * sizeof *longer);
    if (longer == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for %zu files", wanted);
    list->files = longer;
    list->room = wanted;
    return SUCCESS;
}

static struct result add_file(struct file_list *list, const char *path, const char *name, bool is_dataset, struct error *err)
{
    struct stat status;

    TRY(make_room(list, err));
    struct layer_file *file = &list->files[list->count];
    *file = (struct layer_file){.path = NULL};
    TRY(layer_title(name, file->title, sizeof file->title, err));
    if (stat(path, &status) != 0)
        return failure(err, errno == ENOENT ? ERROR_NOT_FOUND : ERROR_INVALID, "%.150s: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return failure(err, ERROR_INVALID, "%.150s is neither a regular file nor a folder; take it out, or name the files one by one", path);
    file->path = memory_copy_text(path, strlen(path));
    if (file->path == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a name");
    file->size = (uint64_t)status.st_size;
    file->media_type = layer_media_type(file->title, is_dataset);
    list->count++;
    return SUCCESS;
}

static int by_name(const FTSENT **left, const FTSENT **right)
{
    return strcmp((*left)->fts_name, (*right)->fts_name);
}

static struct result add_entry(struct file_list *list, FTS *tree, FTSENT *entry, size_t below, bool is_dataset, struct error *err)
{
    switch (entry->fts_info) {
    case FTS_D:
        if (strcmp(entry->fts_name, ".git") == 0 && fts_set(tree, entry, FTS_SKIP) == 0)
            (void)fprintf(stderr, "left out: %s\n", entry->fts_path);
        return SUCCESS;
    case FTS_DP: return SUCCESS;
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS: return failure(err, ERROR_INVALID, "%.150s: %s", entry->fts_path, strerror(entry->fts_errno));
    default: break;
    }
    const char *name = entry->fts_path + below;
    if (!title_is_safe(name)) return failure(err, ERROR_INVALID, "'%.150s' can't be the name of a layer; rename the file", name);
    return add_file(list, entry->fts_path, name, is_dataset, err);
}

static struct result add_tree(struct file_list *list, FTS *tree, size_t below, bool is_dataset, struct error *err)
{
    errno = 0;
    for (FTSENT *entry; (entry = fts_read(tree)) != NULL; errno = 0) TRY(add_entry(list, tree, entry, below, is_dataset, err));
    return errno == 0 ? SUCCESS : failure(err, ERROR_INVALID, "can't list a folder: %s", strerror(errno));
}

static struct result add_folder(struct file_list *list, const char *path, bool is_dataset, struct error *err)
{
    size_t length = strlen(path);

    while (length > 1 && path[length - 1] == '/') length--;
    OWNED_STRING root = memory_copy_text(path, length);
    char *const roots[] = {root, NULL};
    FTS *tree = root == NULL ? NULL : fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    if (tree == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to list %.150s", path);
    const size_t before = list->count;
    const struct result added = add_tree(list, tree, length == 1 && path[0] == '/' ? 1 : length + 1, is_dataset, err);
    (void)fts_close(tree);
    TRY(added);
    if (list->count == before) return failure(err, ERROR_INVALID, "there is no file in the folder %.150s", path);
    return SUCCESS;
}

struct result file_list_add(struct file_list *list, const char *path, bool is_dataset, struct error *err)
{
    struct stat status;

    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) return add_folder(list, path, is_dataset, err);
    return add_file(list, path, path, is_dataset, err);
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
    *list = (struct file_list){.count = 0};
}
