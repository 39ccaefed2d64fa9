#include "runner/image/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "client/terminal.h"
#include "runner/image/tree.h"
#include "runner/sandbox/variables.h"

#define LAYOUT       "image"
#define ROOT         "root"
#define FILE_BYTES   4096 /* an image may have one file for so many of its bytes: files of real images are larger on average */
#define FILES_MORE   10000
#define FILES_MOST   1000000
#define UNPACK_S     3600
#define UNPACK_BYTES (INT64_C(2) << 30) /* memory */
#define SAID_MAX     1024

static const char layout_file[] = "{\"imageLayoutVersion\":\"1.0.0\"}";

struct result image_tool_check(struct error *err)
{
    if (access(IMAGE_TOOL, X_OK) == 0) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND,
                   "the specification asks for an image, and this machine has no " IMAGE_TOOL ": install Debian's package umoci");
}

/* ---- the layout (image-spec, image-layout.md) ---- */

static struct result make_folder(int folder, const char *name, int *fd_out, struct error *err)
{
    if (mkdirat(folder, name, 0755) != 0 || fchmodat(folder, name, 0755, 0) != 0)
        return failure(err, errno == ENOSPC ? ERROR_FULL : ERROR_UNAVAILABLE, "no folder for an image: %s", strerror(errno));
    return file_open_at(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, fd_out, err);
}

static struct result write_file(int folder, const char *name, struct bytes content, struct error *err)
{
    OWNED_FD file = -1;

    TRY(file_open_at(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0444, &file, err));
    TRY(file_write_all(file, content.data, content.length, err));
    return fchmod(file, 0444) == 0 ? SUCCESS : failure(err, ERROR_UNAVAILABLE, "a file of an image: %s", strerror(errno));
}

static struct result check_size(const struct image_options *options, const struct image_plan *plan, struct error *err)
{
    int64_t bytes = plan->config.size;

    for (size_t i = 0; i < plan->count; i++) bytes += plan->layers[i].size;
    if (bytes <= options->bytes_max) return SUCCESS;
    return failure(err, ERROR_LIMIT, "the image has %lld bytes, and this runner takes at most %lld", (long long)bytes,
                   (long long)options->bytes_max);
}

/* Two layers may be the same blob. */
static struct result fetch_part(const struct image_options *options, const struct image_part *part, int blobs, struct error *err)
{
    struct stat about;

    if (fstatat(blobs, image_part_name(part), &about, AT_SYMLINK_NOFOLLOW) == 0) return SUCCESS;
    TRY(options->source->blob(options->source->context, part, blobs, image_part_name(part), err));
    if (fchmodat(blobs, image_part_name(part), 0444, 0) == 0) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "a blob of an image: %s", strerror(errno));
}

static struct result write_index(int layout, int blobs, const struct image_plan *plan, struct error *err)
{
    struct buffer OWNED_BUFFER manifest = BUFFER(IMAGE_MANIFEST_MAX), index = BUFFER(4096);
    struct image_part part = {.size = 0};

    TRY(image_plan_write(plan, &manifest, err));
    const struct digest digest = digest_of(DIGEST_SHA256, buffer_bytes(&manifest));
    digest_format(&digest, part.digest);
    TRY(write_file(blobs, image_part_name(&part), buffer_bytes(&manifest), err));
    TRY(buffer_format(
        &index, err,
        "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"digest\":\"%s\","
        "\"size\":%zu,\"annotations\":{\"org.opencontainers.image.ref.name\":\"" LAYOUT "\"}}]}",
        part.digest, manifest.length));
    TRY(write_file(layout, "index.json", buffer_bytes(&index), err));
    return write_file(layout, "oci-layout", bytes_of_text(layout_file), err);
}

struct result image_fetch(const struct image_options *options, const struct sandbox_folder *folder, struct error *err)
{
    struct buffer OWNED_BUFFER manifest = BUFFER(IMAGE_MANIFEST_MAX);
    struct image_plan plan;
    OWNED_FD layout = -1;
    OWNED_FD all = -1;
    OWNED_FD blobs = -1;

    TRY(copy_remove(folder->fd, LAYOUT, err));
    TRY(make_folder(folder->fd, LAYOUT, &layout, err));
    TRY(make_folder(layout, "blobs", &all, err));
    TRY(make_folder(all, "sha256", &blobs, err));
    TRY(options->source->manifest(options->source->context, &manifest, err));
    TRY(image_plan_read(buffer_bytes(&manifest), &plan, err));
    TRY(check_size(options, &plan, err));
    TRY(fetch_part(options, &plan.config, blobs, err));
    for (size_t i = 0; i < plan.count; i++) TRY(fetch_part(options, &plan.layers[i], blobs, err));
    return write_index(layout, blobs, &plan, err);
}

/* ---- unpacking ---- */

struct unpacking {
    const struct image_options *options;
    struct tree_limits limits;
    int root;
    volatile sig_atomic_t stops;
    struct error too_much; /* kind: ERROR_NONE, or why it was stopped */
    struct buffer said;
};

static void watch(void *context, const struct cgroup_use *use)
{
    struct unpacking *unpacking = context;
    const volatile sig_atomic_t *cancelled = unpacking->options->run->cancelled;

    (void)use;
    if (cancelled != NULL && *cancelled != 0) unpacking->stops = 1;
    if (!tree_measure(unpacking->root, &unpacking->limits, &unpacking->too_much).ok) unpacking->stops = 1;
}

static void take_said(void *context, bool is_error, struct bytes piece)
{
    struct unpacking *unpacking = context;
    const size_t room = unpacking->said.maximum - unpacking->said.length;
    struct error ignored;

    (void)is_error;
    (void)buffer_add(&unpacking->said, piece.data, piece.length < room ? piece.length : room, &ignored).ok;
}

/* umoci writes "   x what: why". */
static struct result say_why(struct unpacking *unpacking, const struct sandbox_report *report, struct error *err)
{
    char shown[160];

    if (report->end == SANDBOX_MEMORY)
        return failure(err, ERROR_INVALID, "the image can't be unpacked with %lld bytes of memory", (long long)UNPACK_BYTES);
    if (report->end == SANDBOX_TIMEOUT) return failure(err, ERROR_INVALID, "the image can't be unpacked within %d s", UNPACK_S);
    (void)snprintf(shown, sizeof shown, "%s", buffer_text(&unpacking->said));
    shown[strcspn(shown, "\n")] = '\0';
    terminal_sanitize(shown);
    const char *said = buffer_text(&unpacking->said);
    const enum error_kind kind = strstr(said, "no space left") != NULL    ? ERROR_FULL
                                 : strstr(said, "file too large") != NULL ? ERROR_LIMIT /* RLIMIT_FSIZE */
                                                                          : ERROR_INVALID;
    return failure(err, kind, "the image can't be unpacked:%.150s", shown);
}

static struct result judge(struct unpacking *unpacking, const struct sandbox_report *report, struct error *err)
{
    if (unpacking->too_much.kind != ERROR_NONE) {
        *err = unpacking->too_much;
        return (struct result){.ok = false};
    }
    if (report->end == SANDBOX_CANCELLED)
        return failure(err, ERROR_UNAVAILABLE, "the run was cancelled while its image was unpacked");
    if (report->exit != 0) return say_why(unpacking, report, err);
    return tree_settle(unpacking->root, &unpacking->limits, err);
}

static struct result run_tool(struct unpacking *unpacking, const struct sandbox_folder *folder, struct sandbox_report *report,
                              struct error *err)
{
    static const char *const words[] = {IMAGE_TOOL, "--log=error",    "raw",   "unpack", "--rootless",
                                        "--image",  "/image:" LAYOUT, "/tree", NULL};
    const struct sandbox_options *run = unpacking->options->run;
    const struct run_limits limits = {.time_s = UNPACK_S,
                                      .cpus = 4,
                                      .memory_bytes = UNPACK_BYTES,
                                      .output_bytes = unpacking->limits.bytes_max, /* of each file, too */
                                      .output_files = 1,
                                      .log_bytes = SAID_MAX,
                                      .processes = 512};
    struct sandbox_bind binds[] = {{.to = "/image", .kind = BIND_READ}, {.to = "/tree", .kind = BIND_WRITE}};
    OWNED_JSON variables = NULL;

    (void)snprintf(binds[0].from, sizeof binds[0].from, "%s/" LAYOUT, folder->path);
    (void)snprintf(binds[1].from, sizeof binds[1].from, "%s/" ROOT, folder->path);
    TRY(variables_make(NULL, NULL, 0, &variables, err));
    const struct sandbox_options options = {.limits = &limits,
                                            .isolation = run->isolation,
                                            .cgroup = run->cgroup,
                                            .arguments = (char *const *)(uintptr_t)words,
                                            .variables = variables,
                                            .work = run->work,
                                            .user = run->user,
                                            .inside = run->inside,
                                            .bind_count = 2,
                                            .binds = binds,
                                            .address_count = run->address_count,
                                            .addresses = run->addresses,
                                            .unpacks = true,
                                            .log = take_said,
                                            .each_second = watch,
                                            .context = unpacking,
                                            .cancelled = &unpacking->stops};
    return sandbox_run(&options, report, err);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

struct result image_unpack(const struct image_options *options, const struct sandbox_folder *folder, struct error *err)
{
    const int64_t bytes_max = options->bytes_max;
    struct unpacking unpacking = {
        .options = options,
        .limits = {.bytes_max = bytes_max, .files_max = smaller(bytes_max / FILE_BYTES + FILES_MORE, FILES_MOST)},
        .said = BUFFER(SAID_MAX)};
    struct sandbox_report report = {.exit = 0};
    OWNED_FD root = -1;

    TRY(copy_remove(folder->fd, ROOT, err));
    TRY(make_folder(folder->fd, ROOT, &root, err));
    if (geteuid() == 0 && fchown(root, folder->user->uid, folder->user->gid) != 0)
        return failure(err, ERROR_UNAVAILABLE, "no folder for an image: %s", strerror(errno));
    unpacking.root = root;
    struct result done = run_tool(&unpacking, folder, &report, err);
    if (done.ok) done = judge(&unpacking, &report, err);
    buffer_done(&unpacking.said);
    TRY(done);
    return copy_remove(folder->fd, LAYOUT, err);
}
