#include "client/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "crypto/digest.h"

struct result layer_title(const char *path, char *title_out, size_t room, struct error *err)
{
    while (strncmp(path, "./", 2) == 0) path += 2;
    if (!title_is_safe(path)) {
        const char *slash = strrchr(path, '/');
        if (slash != NULL) path = slash + 1;
    }
    if (!title_is_safe(path) || strlen(path) >= room)
        return failure(err, ERROR_INVALID, "'%.100s' can't be the name of a layer; rename the file", path);
    memcpy(title_out, path, strlen(path) + 1);
    return SUCCESS;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), end_length = strlen(end);

    return length >= end_length && strcasecmp(text + length - end_length, end) == 0;
}

#define RAW_WEIGHTS "application/vnd.cncf.model.weight.v1.raw"

static const struct media_row {
    const char *type;
    const char *ends[16]; /* the last one is NULL */
} media_rows[] = {
    {"application/vnd.cncf.model.doc.v1.raw", {".md", ".pdf", ".rst", ".html", "LICENSE", "NOTICE", "README"}},
    {"application/vnd.cncf.model.weight.config.v1.raw", {".json", ".yaml", ".yml", ".toml", ".ini", ".txt", ".vocab", ".model"}},
    {"application/vnd.cncf.model.code.v1.raw",
     {".py", ".ipynb", ".sh", ".c", ".h", ".cpp", ".cu", ".go", ".java", ".jl", ".js", ".r", ".rs", ".ts"}},
    {"application/vnd.cncf.model.dataset.v1.raw", {".csv", ".tsv", ".jsonl", ".parquet", ".arrow"}},
};

const char *layer_media_type(const char *title, bool dataset)
{
    if (dataset) return "application/vnd.cncf.model.dataset.v1.raw";
    for (size_t i = 0; i < sizeof media_rows / sizeof media_rows[0]; i++)
        for (const char *const *end = media_rows[i].ends; *end != NULL; end++)
            if (ends_with(title, *end)) return media_rows[i].type;
    return RAW_WEIGHTS;
}

/* A model has one format, so it is that of all its weights. */
static bool is_onnx(const struct layer_file *files, size_t count)
{
    bool has_weights = false;

    for (size_t i = 0; i < count; i++) {
        if (strcmp(files[i].media_type, RAW_WEIGHTS) != 0) continue;
        if (!ends_with(files[i].title, ".onnx")) return false;
        has_weights = true;
    }
    return has_weights;
}

static struct result add_member(struct buffer *text, const char *before, const char *value, struct error *err)
{
    TRY(buffer_add_text(text, before, err));
    return json_write_string(text, bytes_of_text(value), err);
}

struct result layout_config(const char *name, const struct layer_file *files, size_t count, struct buffer *text,
                            struct error *err)
{
    TRY(add_member(text, "{\"descriptor\":{\"name\":", name, err));
    TRY(buffer_format(text, err, "},\"config\":{%s},\"modelfs\":{\"type\":\"layers\",\"diffIds\":[",
                      is_onnx(files, count) ? "\"format\":\"onnx\"" : ""));
    for (size_t i = 0; i < count; i++) TRY(add_member(text, i == 0 ? "" : ",", files[i].digest, err));
    return buffer_add_text(text, "]}}", err);
}

static struct result add_layer(struct buffer *text, const struct layer_file *file, struct error *err)
{
    TRY(add_member(text, "{\"mediaType\":", file->media_type, err));
    TRY(add_member(text, ",\"digest\":", file->digest, err));
    TRY(buffer_format(text, err, ",\"size\":%llu", (unsigned long long)file->size));
    /* Both names: oras and skopeo know the first, ModelPack's tools the second. */
    TRY(add_member(text, ",\"annotations\":{\"org.opencontainers.image.title\":", file->title, err));
    TRY(add_member(text, ",\"org.cncf.model.filepath\":", file->title, err));
    return buffer_add_text(text, "}}", err);
}

struct result layout_write(const struct layout *layout, struct buffer *text, struct error *err)
{
    const struct digest digest = digest_of(DIGEST_SHA256, layout->config);
    char digest_text[DIGEST_TEXT_SIZE];

    digest_format(&digest, digest_text);
    TRY(add_member(
        text, "{\"schemaVersion\":2,\"mediaType\":\"" IMAGE_MANIFEST_TYPE "\",\"artifactType\":", layout->artifact_type, err));
    TRY(buffer_format(text, err, ",\"config\":{\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":%zu},\"layers\":[",
                      layout->config_type, digest_text, layout->config.length));
    for (size_t i = 0; i < layout->count; i++) {
        if (i > 0) TRY(buffer_add_u8(text, ',', err));
        TRY(add_layer(text, &layout->files[i], err));
    }
    TRY(buffer_add_u8(text, ']', err));
    if (json_object_size(layout->annotations) > 0) {
        TRY(buffer_add_text(text, ",\"annotations\":", err));
        TRY(json_write_canonical(text, layout->annotations, err));
    }
    return buffer_add_u8(text, '}', err);
}

struct result layout_manifest(const struct layer_file *files, size_t count, struct bytes config, const json_t *annotations,
                              struct buffer *text, struct error *err)
{
    const struct layout layout = {.artifact_type = MODEL_ARTIFACT_TYPE,
                                  .config_type = MODEL_CONFIG_TYPE,
                                  .config = config,
                                  .files = files,
                                  .count = count,
                                  .annotations = annotations};

    return layout_write(&layout, text, err);
}

/* Opens the folder that contains the last part of `title`. */
static struct result open_folder_of(int folder, const char *title, bool make, int *fd_out, const char **last_out,
                                    struct error *err)
{
    OWNED_FD here = -1;
    char part[NAME_MAX + 1];

    TRY(file_open_at(folder, ".", O_RDONLY | O_DIRECTORY, 0, &here, err));
    for (const char *slash; (slash = strchr(title, '/')) != NULL; title = slash + 1) {
        OWNED_FD next = -1;
        const size_t length = (size_t)(slash - title);
        memcpy(part, title, length);
        part[length] = '\0';
        if (make && mkdirat(here, part, 0777) != 0 && errno != EEXIST)
            return failure(err, ERROR_UNAVAILABLE, "can't make the folder %.100s: %s", part, strerror(errno));
        const struct result opened = file_open_at(here, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &next, err);
        if (!opened.ok && faccessat(here, part, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return failure(err, ERROR_INVALID, "%.150s is not a folder that may be used: is it a link, or a file?", part);
        TRY(opened);
        (void)close(here);
        here = next;
        next = -1;
    }
    *fd_out = here;
    here = -1;
    *last_out = title;
    return SUCCESS;
}

struct result title_open(int folder, const char *title, int flags, int *fd_out, struct error *err)
{
    OWNED_FD parent = -1;
    const char *last = NULL;

    if (!title_is_path(title))
        return failure(err, ERROR_INVALID, "'%.100s' would leave the target folder, or has control characters", title);
    TRY(open_folder_of(folder, title, (flags & O_CREAT) != 0, &parent, &last, err));
    return file_open_at(parent, last, flags | O_NOFOLLOW, 0666, fd_out, err);
}

struct result title_check_place(int folder, const char *title, struct error *err)
{
    OWNED_FD parent = -1;
    const char *last = NULL;
    struct stat status = {.st_mode = S_IFREG};

    struct result found = open_folder_of(folder, title, false, &parent, &last, err);
    if (found.ok) found = file_status_at(parent, last, &status, err);
    if (!found.ok) return err->kind == ERROR_NOT_FOUND ? SUCCESS : found;
    if (S_ISREG(status.st_mode) || S_ISLNK(status.st_mode)) return SUCCESS;
    return failure(err, ERROR_INVALID, "%.150s is there already, and is no file: it would be in the way", title);
}

struct result title_rename(int folder, const char *from, const char *to, struct error *err)
{
    OWNED_FD parent = -1;
    const char *last = NULL;

    TRY(open_folder_of(folder, to, false, &parent, &last, err));
    const char *from_last = strrchr(from, '/') == NULL ? from : strrchr(from, '/') + 1;
    return file_rename_at(parent, from_last, last, err);
}
