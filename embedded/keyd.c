#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "crypto/keyd_client.h"
#include "embedded/embedded_priv.h"

#define PASSPHRASE_MAX   1024 /* bytes; much longer than people type */
#define PASSPHRASE_BYTES 32   /* of randomness, in a generated one */
#define READY_WAIT_MS    30000
#define SYSTEM_FOLDER    "/var/lib/sijil-keyd"

static struct result choose_file(struct embedded *embedded, struct error *err)
{
    const char *given = embedded->options.passphrase_file;
    char folder[PATH_SIZE] = SYSTEM_FOLDER, name[64];

    if (given != NULL) {
        (void)snprintf(embedded->paths.passphrase, sizeof embedded->paths.passphrase, "%s", given);
        return SUCCESS;
    }
    if (embedded->users.separate) TRY(directory_make(folder, &embedded->users.keyd, embedded->users.keyd.gid, 0700, err));
    else TRY(secrets_own_folder(&embedded->users, "--passphrase-file", folder, err));
    (void)snprintf(name, sizeof name, "%s.passphrase", embedded->paths.id);
    return path_join(embedded->paths.passphrase, folder, name, err);
}

/* Writes under another name first, so that an empty or partial file never looks like the real one. */
static struct result write_passphrase(const struct embedded *embedded, struct error *err)
{
    const char *path = embedded->paths.passphrase;
    const struct user *owner = &embedded->users.keyd;
    OWNED(secret) *random = NULL;
    char text[2 * PASSPHRASE_BYTES + 2], fresh[PATH_SIZE + 4];
    OWNED_FD fd = -1;

    (void)snprintf(fresh, sizeof fresh, "%s.new", path);
    if (unlink(fresh) != 0 && errno != ENOENT)
        return failure(err, ERROR_UNAVAILABLE, "can't remove %s: %s", fresh, strerror(errno));
    TRY(secret_random(PASSPHRASE_BYTES, &random, err));
    TRY(file_open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, &fd, err));
    text_hex(random->bytes, random->length, text);
    text[sizeof text - 2] = '\n';
    const struct result written = file_write_all(fd, text, sizeof text - 1, err);
    secret_wipe(text, sizeof text);
    TRY(written);
    if (geteuid() == 0 && fchown(fd, owner->uid, owner->gid) != 0)
        return failure(err, ERROR_UNAVAILABLE, "can't give %s to %s: %s", fresh, owner->name, strerror(errno));
    TRY(file_sync(fd, err));
    /* The key ring is useless without this file, so its name must survive a power cut as its content does. */
    TRY(file_rename(fresh, path, err));
    log_line(LOG_INFO, "made a passphrase for the key ring: keep a copy of it elsewhere", "file", path, NULL);
    return SUCCESS;
}

static struct result read_as_keyd(void *context, struct error *err)
{
    const struct embedded *embedded = context;
    const char *path = embedded->paths.passphrase;

    if (access(path, R_OK) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "user %s can't read %s: run chown %s on it, and chmod o+x on the folders above it",
                   embedded->users.keyd.name, path, embedded->users.keyd.name);
}

/* A key ring without its passphrase is lost, so an existing ring never gets a new one. */
static struct result open_file(struct embedded *embedded, struct error *err)
{
    bool has_ring = false, is_there = false;
    char ring[PATH_SIZE];

    TRY(choose_file(embedded, err));
    TRY(path_join(ring, embedded->paths.keyd, "keyring", err));
    TRY(file_is_there(ring, &has_ring, err));
    TRY(file_is_there(embedded->paths.passphrase, &is_there, err));
    if (!is_there && has_ring)
        return failure(err, ERROR_NOT_FOUND,
                       "the key ring's passphrase %.120s is gone: put it back, or give --passphrase-file or"
                       " --passphrase-fd",
                       embedded->paths.passphrase);
    if (!is_there) TRY(write_passphrase(embedded, err));
    return step_run(&embedded->users.keyd, read_as_keyd, embedded, err);
}

static struct result read_passphrase(struct embedded *embedded, struct error *err)
{
    OWNED(secret) *text = NULL;
    size_t length = 0;

    TRY(secret_new(PASSPHRASE_MAX, &text, err));
    for (ssize_t count = 1; count > 0 && length < text->length; length += (size_t)count) {
        count = read(embedded->options.passphrase_fd, text->bytes + length, text->length - length);
        if (count < 0) return failure(err, ERROR_INVALID, "can't read the passphrase: %s", strerror(errno));
    }
    (void)close(embedded->options.passphrase_fd);
    if (length == 0 || length == text->length)
        return failure(err, ERROR_INVALID, "the passphrase must have 1 to %d bytes", PASSPHRASE_MAX - 1);
    return secret_copy((struct bytes){text->bytes, length}, &embedded->passphrase, err);
}

/* Adds the arguments that name the key ring and open it. */
static struct result add_common(struct embedded *embedded, size_t *count, struct error *err)
{
    TRY(embedded_add_argument(embedded, PROCESS_KEYD, count, err, "%s", embedded->paths.keyd_program));
    TRY(embedded_add_argument(embedded, PROCESS_KEYD, count, err, "--directory=%s", embedded->paths.keyd));
    if (embedded->passphrase != NULL) return embedded_add_argument(embedded, PROCESS_KEYD, count, err, "--passphrase-fd=3");
    return embedded_add_argument(embedded, PROCESS_KEYD, count, err, "--passphrase-file=%s", embedded->paths.passphrase);
}

/* The name of the log never changes, so it must not depend on the machine's address or name. */
static struct result make_ring(struct embedded *embedded, struct process *process, struct error *err)
{
    bool has_ring = false;
    char ring[PATH_SIZE];
    size_t count = 0;

    TRY(path_join(ring, embedded->paths.keyd, "keyring", err));
    TRY(file_is_there(ring, &has_ring, err));
    if (has_ring) return SUCCESS;
    TRY(add_common(embedded, &count, err));
    TRY(embedded_add_argument(embedded, PROCESS_KEYD, &count, err, "--init"));
    TRY(embedded_add_argument(embedded, PROCESS_KEYD, &count, err, "--origin=%.8s.sijil.local/audit", embedded->paths.id));
    log_line(LOG_INFO, "making the key ring", "directory", embedded->paths.keyd, NULL);
    return process_run(process, embedded->paths.lock, err);
}

struct result keyd_prepare(struct embedded *embedded, struct error *err)
{
    size_t count = 0;

    if (embedded->options.passphrase_fd >= 0) TRY(read_passphrase(embedded, err));
    else TRY(open_file(embedded, err));
    struct process *process = &embedded->processes[PROCESS_KEYD];
    *process = (struct process){
        .name = "sijil-keyd",
        .user = &embedded->users.keyd,
        .death_signal = SIGTERM,
        .stop_signal = SIGTERM,
        .arguments = embedded->arguments[PROCESS_KEYD],
        .input = embedded->passphrase,
    };
    TRY(make_ring(embedded, process, err));
    TRY(add_common(embedded, &count, err));
    TRY(embedded_add_argument(embedded, PROCESS_KEYD, &count, err, "--socket=%s", embedded->paths.keyd_socket));
    if (embedded->options.witness_patience != 0)
        TRY(embedded_add_argument(embedded, PROCESS_KEYD, &count, err, "--witness-patience=%u",
                                  (unsigned)embedded->options.witness_patience));
    if (embedded->recovers) TRY(embedded_add_argument(embedded, PROCESS_KEYD, &count, err, "--one-officer"));
    TRY(embedded_add_argument(embedded, PROCESS_KEYD, &count, err, "--allow-uid=%u", (unsigned)embedded->users.gateway.uid));
    return embedded_add_argument(embedded, PROCESS_KEYD, &count, err, "--socket-group=%u", (unsigned)embedded->users.gateway.gid);
}

/* Runs as the gateway's user, because sijil-keyd accepts only that one. */
static struct result call(void *context, struct error *err)
{
    const struct embedded *embedded = context;
    OWNED(keyd_client) *client = NULL;
    struct keyd_identity identity;

    TRY(keyd_client_new(embedded->paths.keyd_socket, 2000, &client, err));
    return keyd_identify(client, &identity, err);
}

struct result keyd_start(struct embedded *embedded, struct error *err)
{
    struct process *process = &embedded->processes[PROCESS_KEYD];
    const int64_t until_ms = clock_monotonic_ms() + READY_WAIT_MS;

    if (unlink(embedded->paths.keyd_socket) != 0 && errno != ENOENT)
        return failure(err, ERROR_UNAVAILABLE, "can't remove %s: %s", embedded->paths.keyd_socket, strerror(errno));
    TRY(process_start(process, embedded->paths.lock, err));
    for (bool is_there = false;;) {
        TRY(file_is_there(embedded->paths.keyd_socket, &is_there, err));
        if (is_there) return step_run(&embedded->users.gateway, call, embedded, err);
        if (!process_is_running(process))
            return failure(err, ERROR_UNAVAILABLE, "sijil-keyd does not start: its last log line says why");
        if (step_is_interrupted() || clock_monotonic_ms() > until_ms)
            return failure(err, ERROR_UNAVAILABLE, "sijil-keyd is not ready in time");
        (void)usleep(20000);
    }
}
