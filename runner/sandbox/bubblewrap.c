#include "runner/sandbox/bubblewrap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define PATH_SIZE       1024
#define IMAGE_PLACES    256 /* an image has some 20 */
#define HEARTBEAT_BYTES 65536
#define COUNT(array)    (sizeof(array) / sizeof((array)[0]))

static struct result add(struct buffer *arguments, const char *const *words, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++) TRY(buffer_add(arguments, words[i], strlen(words[i]) + 1, err));
    return SUCCESS;
}
#define ADD(arguments, err, ...) \
    TRY(add((arguments), (const char *const[]){__VA_ARGS__}, COUNT(((const char *const[]){__VA_ARGS__})), (err)))

static const char *const first[] = {
    "--unshare-all", "--unshare-user", "--disable-userns",  "--uid",         "1000",       "--gid",      "1000",
    "--hostname",    BUBBLEWRAP_NAME,  "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL",
};

static bool is_link(const char *path, char *target, size_t size)
{
    const ssize_t length = readlink(path, target, size - 1);

    if (length > 0) target[length] = '\0';
    return length > 0;
}

/* A folder becomes a read-only mount, a link a link: /bin is one on Debian. Nothing happens if `from` is not there. */
static struct result show(struct buffer *arguments, const char *from, const char *to, struct error *err)
{
    char target[PATH_SIZE];

    if (is_link(from, target, sizeof target)) ADD(arguments, err, "--symlink", target, to);
    else ADD(arguments, err, "--ro-bind-try", from, to);
    return SUCCESS;
}

/* /etc/alternatives: links of /usr lead through it. */
static const char *const of_machine[] = {
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache", "/etc/alternatives"};

static struct result show_machine(const struct bubblewrap_view *view, struct buffer *arguments, struct error *err)
{
    char passwd[PATH_SIZE];

    (void)snprintf(passwd, sizeof passwd, "%s/passwd", view->work);
    for (size_t i = 0; i < COUNT(of_machine); i++) TRY(show(arguments, of_machine[i], of_machine[i], err));
    ADD(arguments, err, "--ro-bind", passwd, "/etc/passwd");
    return SUCCESS;
}

static struct result show_hosts(const struct bubblewrap_view *view, struct buffer *arguments, struct error *err)
{
    char hosts[PATH_SIZE];

    if (!view->has_hosts) return SUCCESS;
    (void)snprintf(hosts, sizeof hosts, "%s/hosts", view->work);
    ADD(arguments, err, "--ro-bind", hosts, "/etc/hosts");
    return SUCCESS;
}

/* Folders of the sandbox's own; /sys shows this machine, and /run may have sockets. */
static const char *const own_places[] = {"proc", "dev", "sys", "run", "tmp", "in", "out", "checkpoints", "code"};

static bool is_own(const char *name)
{
    for (size_t i = 0; i < COUNT(own_places); i++)
        if (strcmp(name, own_places[i]) == 0) return true;
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* bwrap follows links of the source, so a link of the image becomes the same link in the sandbox, where it leads nowhere else. */
static struct result show_of_image(const struct bubblewrap_view *view, const char *name, struct buffer *arguments,
                                   struct error *err)
{
    char from[PATH_SIZE], to[PATH_SIZE], target[PATH_SIZE];
    struct stat about;

    TRY(file_status_at(view->root, name, &about, err));
    (void)snprintf(from, sizeof from, "%s/root/%s", view->work, name);
    (void)snprintf(to, sizeof to, "/%s", name);
    if (!S_ISLNK(about.st_mode)) {
        ADD(arguments, err, "--ro-bind", from, to);
        return SUCCESS;
    }
    const ssize_t length = readlinkat(view->root, name, target, sizeof target - 1);
    if (length <= 0 || length == sizeof target - 1)
        return failure(err, ERROR_INVALID, "the link /%.100s of the image can't be used", name);
    target[length] = '\0';
    ADD(arguments, err, "--symlink", target, to);
    return SUCCESS;
}

static struct result show_image(const struct bubblewrap_view *view, struct buffer *arguments, struct error *err)
{
    OWNED_LISTING listing = file_list(view->root);
    char passwd[PATH_SIZE];
    const char *name = NULL;

    if (listing == NULL) return failure(err, ERROR_UNAVAILABLE, "the image can't be listed: %s", strerror(errno));
    for (size_t count = 0;; count++) {
        TRY(file_list_next(listing, &name, err));
        if (name == NULL) break;
        if (count == IMAGE_PLACES)
            return failure(err, ERROR_LIMIT, "the image has more than %d folders at its top", IMAGE_PLACES);
        if (!is_own(name)) TRY(show_of_image(view, name, arguments, err));
    }
    (void)snprintf(passwd, sizeof passwd, "%s/passwd", view->work);
    ADD(arguments, err, "--ro-bind", passwd, "/etc/passwd");
    return SUCCESS;
}

static struct result add_memory_file_system(struct buffer *arguments, int64_t bytes, const char *path, struct error *err)
{
    char size[24]; /* a 64-bit number */

    (void)snprintf(size, sizeof size, "%lld", (long long)bytes);
    ADD(arguments, err, "--size", size, "--tmpfs", path);
    return SUCCESS;
}

/* /dev/shm apart from /dev, so that it has a size and /dev can be read-only. */
static struct result add_file_systems(const struct bubblewrap_view *view, struct buffer *arguments, struct error *err)
{
    ADD(arguments, err, "--proc", "/proc", "--dev", "/dev");
    TRY(add_memory_file_system(arguments, view->limits->memory_bytes, "/dev/shm", err));
    TRY(add_memory_file_system(arguments, view->limits->memory_bytes, "/tmp", err));
    TRY(add_memory_file_system(arguments, view->limits->output_bytes, "/out", err));
    /* The two newest that are finished, and the next one. */
    TRY(add_memory_file_system(arguments, 3 * view->limits->output_bytes, "/checkpoints", err));
    return add_memory_file_system(arguments, HEARTBEAT_BYTES, "/run/sijil", err);
}

static const char *const bind_options[] = {[BIND_READ] = "--ro-bind", [BIND_WRITE] = "--bind", [BIND_DEVICE] = "--dev-bind"};

static struct result add_given(const struct bubblewrap_view *view, struct buffer *arguments, struct error *err)
{
    char from[PATH_SIZE], to[PATH_SIZE];

    (void)snprintf(from, sizeof from, "%s/inside", view->work);
    ADD(arguments, err, "--ro-bind", from, BUBBLEWRAP_INSIDE, "--dir", "/in", "--dir", "/code");
    (void)snprintf(from, sizeof from, "%s/code", view->work);
    if (view->has_code) ADD(arguments, err, "--ro-bind", from, "/code");
    for (size_t i = 0; i < view->input_count; i++) {
        (void)snprintf(from, sizeof from, "%s/in/%s", view->work, view->inputs[i]);
        (void)snprintf(to, sizeof to, "/in/%s", view->inputs[i]);
        ADD(arguments, err, "--ro-bind", from, to);
    }
    for (size_t i = 0; i < view->bind_count; i++)
        ADD(arguments, err, bind_options[view->binds[i].kind], view->binds[i].from, view->binds[i].to);
    return SUCCESS;
}

struct result bubblewrap_arguments(const struct bubblewrap_view *view, struct buffer *arguments, struct error *err)
{
    const char *name = NULL;
    json_t *value = NULL;
    char filter[16]; /* a descriptor */

    (void)snprintf(filter, sizeof filter, "%d", view->filter);
    TRY(add(arguments, first, COUNT(first), err));
    TRY((view->root < 0 ? show_machine : show_image)(view, arguments, err));
    TRY(show_hosts(view, arguments, err));
    TRY(add_file_systems(view, arguments, err));
    TRY(add_given(view, arguments, err));
    json_object_foreach ((json_t *)(uintptr_t)view->variables, name, value)
        ADD(arguments, err, "--setenv", name, json_string_value(value));
    ADD(arguments, err, "--seccomp", filter, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/code");
    return SUCCESS;
}
