/* Where secrets of people and TLS keys are: outside the directory, so that a copy of the directory has none. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "crypto/secret.h"
#include "embedded/embedded_priv.h"

#define SYSTEM_FOLDER    "/var/lib/sijil-secrets"
#define PRIVATE_FILE_MAX ((size_t)16 << 10) /* a key in PEM, or admin.json, has less than 2 KiB */

/* $XDG_DATA_HOME/sijil, or its default below the home folder. */
struct result secrets_own_folder(const struct users *users, const char *option, char folder_out[PATH_SIZE], struct error *err)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    char part[PATH_SIZE];

    if (data == NULL || data[0] != '/') {
        if (home == NULL || home[0] != '/') return failure(err, ERROR_INVALID, "HOME is not set: set it, or give %s", option);
        TRY(path_join(part, home, ".local", err));
        TRY(file_make_directory(part, 0700, err));
        TRY(path_join(part, home, ".local/share", err));
        TRY(file_make_directory(part, 0700, err));
        data = part;
    }
    TRY(path_join(folder_out, data, "sijil", err));
    return directory_make(folder_out, &users->self, users->self.gid, 0700, err);
}

static struct result check_outside(const char *folder, const char *directory, struct error *err)
{
    const size_t length = strlen(directory);
    char real[PATH_MAX];

    if (realpath(folder, real) == NULL) return failure(err, ERROR_UNAVAILABLE, "can't open %s: %s", folder, strerror(errno));
    if (strncmp(real, directory, length) == 0 && (real[length] == '/' || real[length] == '\0'))
        return failure(err, ERROR_INVALID, "--secrets-dir must lie outside %s: a copy of it shall hold no secret", directory);
    return SUCCESS;
}

/* The gateway's user may pass through the folder to the server's key; all other files in it belong to the supervisor. */
static struct result choose_folder(const struct embedded_options *options, const struct users *users, struct paths *paths,
                                   struct error *err)
{
    const mode_t passable = users->separate ? 0711 : 0700;
    char folder[PATH_SIZE] = SYSTEM_FOLDER;

    if (options->secrets_folder != NULL) (void)snprintf(folder, sizeof folder, "%s", options->secrets_folder);
    if (options->secrets_folder != NULL) TRY(file_make_directory(folder, passable, err)); /* an existing one stays as it is */
    else if (users->separate) TRY(directory_make(folder, &users->self, users->self.gid, passable, err));
    else TRY(secrets_own_folder(users, "--secrets-dir", folder, err));
    TRY(check_outside(folder, paths->directory, err));
    TRY(path_join(paths->secrets, folder, paths->id, err));
    return directory_make(paths->secrets, &users->self, users->self.gid, passable, err);
}

/* The new file is complete and has the old one's owner before the old one is removed. */
static struct result copy_out(const char *inside, const char *outside, const struct stat *was, struct error *err)
{
    OWNED(secret) *memory = NULL;
    OWNED_FD file = -1;

    TRY(file_open(inside, O_RDONLY | O_NOFOLLOW, 0, &file, err));
    if (was->st_size <= 0 || (uint64_t)was->st_size > PRIVATE_FILE_MAX)
        return failure(err, ERROR_LIMIT, "%s is not a file of ours", inside);
    TRY(secret_new((size_t)was->st_size, &memory, err));
    TRY(file_read_at(file, memory->bytes, memory->length, 0, err));
    TRY(file_replace(outside, secret_bytes(memory), 0600, err));
    if (geteuid() == 0 && chown(outside, was->st_uid, was->st_gid) != 0)
        return failure(err, ERROR_UNAVAILABLE, "can't give %s to its owner: %s", outside, strerror(errno));
    log_line(LOG_INFO, "moved a secret out of the directory; older copies of that still hold it", "file", outside, NULL);
    return SUCCESS;
}

/* Replaces an existing file in one step. */
static struct result write_link(const char *inside, const char *outside, struct error *err)
{
    char fresh[PATH_SIZE + 4];

    (void)snprintf(fresh, sizeof fresh, "%s.new", inside);
    if (unlink(fresh) != 0 && errno != ENOENT)
        return failure(err, ERROR_UNAVAILABLE, "can't remove %s: %s", fresh, strerror(errno));
    if (fault_is_due(FAULT_FILE) || symlink(outside, fresh) != 0)
        return failure(err, ERROR_UNAVAILABLE, "can't make the link %s: %s", fresh, strerror(errno));
    return file_rename(fresh, inside, err);
}

static struct result check_link(const char *inside, const char *outside, struct error *err)
{
    char target[PATH_SIZE] = "";

    const ssize_t length = readlink(inside, target, sizeof target - 1);
    if (length > 0 && strcmp(target, outside) == 0) return SUCCESS;
    return failure(err, ERROR_CONFLICT,
                   "%.80s leads to %.80s: give --secrets-dir with the folder above that one's, or remove the link", inside,
                   target);
}

/* Leaves a link in place of the file, for people and for scripts that use the old path. */
static struct result keep_outside(const char *inside, const char *outside, struct error *err)
{
    struct stat found;

    const bool is_there = lstat(inside, &found) == 0;
    if (!is_there && errno != ENOENT) return failure(err, ERROR_UNAVAILABLE, "can't look at %s: %s", inside, strerror(errno));
    if (is_there && S_ISLNK(found.st_mode)) return check_link(inside, outside, err);
    if (is_there && !S_ISREG(found.st_mode)) return failure(err, ERROR_CONFLICT, "%s is not a file", inside);
    if (is_there) TRY(copy_out(inside, outside, &found, err));
    return write_link(inside, outside, err);
}

static struct result settle(const char *folder, const char *name, const char *secrets, char path_out[PATH_SIZE],
                            struct error *err)
{
    char inside[PATH_SIZE];

    TRY(path_join(inside, folder, name, err));
    TRY(path_join(path_out, secrets, name, err));
    return keep_outside(inside, path_out, err);
}

struct result secrets_open(const struct embedded_options *options, const struct users *users, struct paths *paths,
                           struct error *err)
{
    TRY(choose_folder(options, users, paths, err));
    TRY(settle(paths->directory, "admin.json", paths->secrets, paths->admin, err));
    TRY(settle(paths->officer, "approver.pem", paths->secrets, paths->approver, err));
    TRY(settle(paths->tls, "ca.key", paths->secrets, paths->authority_key, err));
    TRY(settle(paths->tls, "server.key", paths->secrets, paths->server_key, err));
    TRY(settle(paths->directory, "trainer.json", paths->secrets, paths->trainer, err));
    TRY(settle(paths->officer, "trainer.pem", paths->secrets, paths->trainer_key, err));
    TRY(settle(paths->officer, "administrator.pem", paths->secrets, paths->administrator_key, err));
    TRY(settle(paths->directory, "runner", paths->secrets, paths->runner, err));
    TRY(path_join(paths->runner_mark, paths->secrets, "runner.enrolled", err));
    TRY(path_join(paths->runner_state, paths->runner, "state", err));
    TRY(path_join(paths->runner_document, paths->runner_state, "document.json", err));
    return path_join(paths->runner_work, paths->runner, "work", err);
}
