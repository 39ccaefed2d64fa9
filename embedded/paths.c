#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "base/uuid.h"
#include "embedded/embedded_priv.h"

#define LOCK_HELD_MS 2000  /* the holder runs, but may be about to end */
#define LOCK_LEFT_MS 30000 /* the holder was killed; its processes end well within this time */

struct result path_join(char path_out[PATH_SIZE], const char *folder, const char *name, struct error *err)
{
    if (strlen(folder) + 1 + strlen(name) >= PATH_SIZE)
        return failure(err, ERROR_LIMIT, "the path %.100s.../%s is too long", folder, name);
    (void)snprintf(path_out, PATH_SIZE, "%s/%s", folder, name);
    return SUCCESS;
}

struct result directory_make(const char *path, const struct user *owner, gid_t group, mode_t mode, struct error *err)
{
    struct stat found;

    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return failure(err, ERROR_UNAVAILABLE, "can't make the directory %s: %s", path, strerror(errno));
    OWNED_FD fd = -1;
    TRY(file_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &fd, err));
    TRY(file_status(fd, &found, err));
    if (found.st_uid != owner->uid && found.st_uid != geteuid())
        return failure(err, ERROR_DENIED, "%s belongs to another user: remove it, or choose another directory", path);
    if ((geteuid() == 0 && fchown(fd, owner->uid, group) != 0) || fchmod(fd, mode) != 0)
        return failure(err, ERROR_UNAVAILABLE, "can't give %s to %s: %s", path, owner->name, strerror(errno));
    return SUCCESS;
}

struct visit {
    const struct user *user;
    const char *directory;
};

/* As the user: finds the first directory of the path that the user may not enter. */
static struct result walk(void *context, struct error *err)
{
    const struct visit *visit = context;
    char path[PATH_SIZE];

    for (size_t i = 1;; i++) {
        const char letter = visit->directory[i];
        if (letter != '/' && letter != '\0') continue;
        memcpy(path, visit->directory, i);
        path[i] = '\0';
        if (access(path, X_OK) != 0)
            return failure(err, ERROR_DENIED,
                           "user %s can't enter %s: run chmod o+x %s, or choose a directory elsewhere, such as"
                           " /var/lib/sijil",
                           visit->user->name, path, path);
        if (letter == '\0') return SUCCESS;
    }
}

static struct result check_reach(const struct users *users, const char *directory, struct error *err)
{
    const struct user *all[] = {&users->gateway, &users->keyd, &users->postgres};

    for (size_t i = 0; users->separate && i < sizeof all / sizeof all[0]; i++) {
        struct visit visit = {.user = all[i], .directory = directory};
        TRY(step_run(all[i], walk, &visit, err));
    }
    return SUCCESS;
}

/* A first start that was cut short leaves its lock, and perhaps an id file without its final name. Other files with such a name are larger,
 * and do not belong to sijild. */
static struct result is_of_a_start(int directory, const char *name, bool *is_out, struct error *err)
{
    const bool has_name = strcmp(name, "lock") == 0 || strcmp(name, ".instance.new") == 0;
    struct stat found = {0};
    const struct result looked = has_name ? file_status_at(directory, name, &found, err) : SUCCESS;
    const bool is_gone = !looked.ok && err->kind == ERROR_NOT_FOUND; /* the other start has removed or renamed it meanwhile */

    if (!is_gone) TRY(looked);
    *is_out = is_gone || (has_name && S_ISREG(found.st_mode) && found.st_size < UUID_TEXT_SIZE);
    return SUCCESS;
}

static struct result check_entries(DIR *stream, const char *directory, struct error *err)
{
    const char *found = NULL;
    bool is_ours = false;

    for (;;) {
        TRY(file_list_next(stream, &found, err));
        if (found == NULL) return SUCCESS;
        TRY(is_of_a_start(dirfd(stream), found, &is_ours, err));
        if (!is_ours)
            return failure(err, ERROR_CONFLICT, "%s is not empty (%.40s) and was not made by sijild: choose another directory",
                           directory, found);
    }
}

static struct result check_empty(const char *directory, struct error *err)
{
    DIR *stream = opendir(directory);

    if (stream == NULL) return failure(err, ERROR_UNAVAILABLE, "can't read %s: %s", directory, strerror(errno));
    const struct result outcome = check_entries(stream, directory, err);
    (void)closedir(stream);
    return outcome;
}

static struct result check_directory(const char *path, const struct users *users, struct error *err)
{
    char marker[PATH_SIZE];
    bool is_ours = false;

    TRY(path_join(marker, path, "instance", err));
    TRY(file_is_there(marker, &is_ours, err));
    if (!is_ours) TRY(check_empty(path, err));
    TRY(directory_make(path, &users->self, users->self.gid, users->separate ? 0711 : 0700, err));
    return check_reach(users, path, err);
}

/* Returns the real path. If only the last part is missing, it is made, and removed again if the start can't use it. */
static struct result open_directory(const char *name, const struct users *users, char path_out[PATH_SIZE], struct error *err)
{
    char real[PATH_MAX];
    const bool made = mkdir(name, 0700) == 0;

    if (!made && errno != EEXIST)
        return failure(err, ERROR_NOT_FOUND, "can't make %s: %s; make the folder above it first", name, strerror(errno));
    if (realpath(name, real) == NULL) return failure(err, ERROR_UNAVAILABLE, "can't open %s: %s", name, strerror(errno));
    const struct result usable =
        strlen(real) > DIRECTORY_MAX
            ? failure(err, ERROR_LIMIT, "the path of %.60s... is longer than %d letters", real, DIRECTORY_MAX)
            : check_directory(real, users, err);
    if (!usable.ok && made) (void)rmdir(name);
    TRY(usable);
    memcpy(path_out, real, strlen(real) + 1);
    return SUCCESS;
}

/* The supervisor whose number is in the lock; 0 if it does not run any more. */
static pid_t holder_of(int lock)
{
    char text[16] = "";
    size_t length = 0;
    uint64_t number = 0;
    struct error ignored;

    if (!file_read_some(lock, text, sizeof text - 1, 0, &length, &ignored).ok) return 0;
    if (!text_to_u64((struct bytes){(const uint8_t *)text, length}, INT32_MAX, &number)) return 0;
    return number > 0 && (kill((pid_t)number, 0) == 0 || errno == EPERM) ? (pid_t)number : 0;
}

static struct result wait_for_lock(int lock, const char *directory, struct error *err)
{
    const int64_t begun_ms = clock_monotonic_ms();

    while (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        const pid_t holder = holder_of(lock);
        if (clock_monotonic_ms() - begun_ms > (holder != 0 ? LOCK_HELD_MS : LOCK_LEFT_MS))
            return failure(err, ERROR_CONFLICT, "%s is in use by another sijild (process %d): stop that first", directory,
                           (int)holder);
        if (step_is_interrupted()) return failure(err, ERROR_UNAVAILABLE, "interrupted");
        (void)usleep(50000);
    }
    return SUCCESS;
}

static struct result take_lock(const char *directory, int *lock_out, struct error *err)
{
    char path[PATH_SIZE], text[16];
    OWNED_FD lock = -1;

    TRY(path_join(path, directory, "lock", err));
    TRY(file_open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600, &lock, err));
    TRY(wait_for_lock(lock, directory, err));
    const int length = snprintf(text, sizeof text, "%d", (int)getpid());
    if (ftruncate(lock, 0) != 0) return failure(err, ERROR_UNAVAILABLE, "%s: %s", path, strerror(errno));
    TRY(file_write_at(lock, text, (size_t)length, 0, err));
    *lock_out = lock;
    lock = -1;
    return SUCCESS;
}

/* The id stays when the directory is moved; its file also shows that sijild made the directory. */
static struct result open_id(struct paths *paths, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(64);
    char path[PATH_SIZE];
    bool is_there = false;
    struct uuid id;

    TRY(path_join(path, paths->directory, "instance", err));
    TRY(file_is_there(path, &is_there, err));
    if (!is_there) {
        id = uuid_random();
        uuid_format(&id, paths->id);
        return file_replace(path, bytes_of_text(paths->id), 0644, err);
    }
    TRY(file_read(path, &text, err));
    if (!uuid_parse(buffer_bytes(&text), &id))
        return failure(err, ERROR_CORRUPT, "%s does not hold an id: restore it from a backup", path);
    uuid_format(&id, paths->id);
    return SUCCESS;
}

/* Each program has a folder for its sockets; the gateway's group may pass through it. */
static struct result make_run(const struct users *users, struct paths *paths, struct error *err)
{
    const char *own = getenv("XDG_RUNTIME_DIR");
    char name[48];
    const gid_t group = users->gateway.gid;
    const mode_t mode = users->separate ? 02710 : 0700; /* setgid: a socket made there belongs to the gateway's group */

    (void)snprintf(name, sizeof name, "sijil-%ld-%.8s", (long)users->self.uid, paths->id);
    TRY(path_join(paths->run,
                  users->separate                                    ? "/run"
                  : own != NULL && own[0] == '/' && strlen(own) < 40 ? own
                                                                     : "/tmp",
                  name, err));
    TRY(path_join(paths->postgres_run, paths->run, "pg", err));
    TRY(path_join(paths->keyd_run, paths->run, "keyd", err));
    TRY(path_join(paths->keyd_socket, paths->keyd_run, "socket", err));
    TRY(directory_make(paths->run, &users->self, users->self.gid, users->separate ? 0711 : 0700, err));
    TRY(directory_make(paths->postgres_run, &users->postgres, group, mode, err));
    return directory_make(paths->keyd_run, &users->keyd, group, mode, err);
}

static struct result make_folders(const struct users *users, struct paths *paths, struct error *err)
{
    char postgres[PATH_SIZE], regions[PATH_SIZE];
    const mode_t passable = users->separate ? 0711 : 0700;

    TRY(path_join(postgres, paths->directory, "postgres", err));
    TRY(path_join(paths->data, postgres, "data", err));
    TRY(path_join(paths->postgres_output, postgres, "start.log", err));
    TRY(path_join(paths->keyd, paths->directory, "keyd", err));
    TRY(path_join(regions, paths->directory, "regions", err));
    TRY(path_join(paths->region, regions, "main", err));
    TRY(path_join(paths->delivery, paths->directory, "delivery", err));
    TRY(path_join(paths->tls, paths->directory, "tls", err));
    TRY(path_join(paths->officer, paths->directory, "officer", err));
    TRY(path_join(paths->authority, paths->directory, "ca.pem", err));

    TRY(directory_make(postgres, &users->postgres, users->postgres.gid, 0700, err));
    TRY(directory_make(paths->keyd, &users->keyd, users->keyd.gid, 0700, err));
    TRY(directory_make(regions, &users->gateway, users->gateway.gid, 0700, err));
    TRY(directory_make(paths->region, &users->gateway, users->gateway.gid, 0700, err));
    TRY(directory_make(paths->delivery, &users->gateway, users->gateway.gid, 0750, err));
    TRY(directory_make(paths->tls, &users->self, users->self.gid, passable, err));
    return directory_make(paths->officer, &users->self, users->self.gid, passable, err);
}

/* Looks beside sijild, then where packages put it. */
static struct result find_keyd(const struct embedded_options *options, struct paths *paths, struct error *err)
{
    char own[PATH_SIZE] = "";
    bool is_there = false;

    if (options->program != NULL) return path_join(paths->keyd_program, options->program, "sijil-keyd", err);
    const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    char *slash = length > 0 ? strrchr(own, '/') : NULL;
    if (slash == NULL) return failure(err, ERROR_UNAVAILABLE, "can't read /proc/self/exe: %s", strerror(errno));
    *slash = '\0';
    TRY(path_join(paths->keyd_program, own, "sijil-keyd", err));
    TRY(file_is_there(paths->keyd_program, &is_there, err));
    if (!is_there) return failure(err, ERROR_NOT_FOUND, "%s is missing: it belongs beside sijild", paths->keyd_program);
    return SUCCESS;
}

struct result paths_open(const struct embedded_options *options, const struct users *users, struct paths *paths_out,
                         struct error *err)
{
    struct paths paths = {.lock = -1};

    TRY(open_directory(options->directory, users, paths.directory, err));
    TRY(find_keyd(options, &paths, err));
    OWNED_FD lock = -1;
    TRY(take_lock(paths.directory, &lock, err));
    TRY(open_id(&paths, err));
    TRY(make_folders(users, &paths, err));
    TRY(secrets_open(options, users, &paths, err));
    TRY(make_run(users, &paths, err));
    paths.lock = lock;
    lock = -1;
    *paths_out = paths;
    return SUCCESS;
}

void paths_leave(const struct paths *paths)
{
    (void)unlink(paths->keyd_socket);
    (void)rmdir(paths->keyd_run);
    (void)rmdir(paths->postgres_run);
    (void)rmdir(paths->run);
}
