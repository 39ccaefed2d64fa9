#include "runner/jobs/job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

#define BACKLOG  64
#define WORD_MAX 16

struct job_door {
    int listener;
    uid_t caller;
    struct sockaddr_un address;
};

static struct result name_address(const char *path, struct sockaddr_un *address, struct error *err)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int length = snprintf(address->sun_path, sizeof address->sun_path, "%s", path);
    if (length > 0 && (size_t)length < sizeof address->sun_path) return SUCCESS;
    return failure(err, ERROR_INVALID, "the path of the socket for jobs has 1 to %zu letters", sizeof address->sun_path - 1);
}

/* ---- the runner ---- */

/* Everybody may connect; the kernel names the user of a connection, and that decides. A runner's folder has one runner, so nobody uses an old socket. */
static struct result listen_at(struct job_door *door, struct error *err)
{
    const char *path = door->address.sun_path;

    door->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (door->listener < 0) return failure(err, ERROR_UNAVAILABLE, "no socket for jobs: %s", strerror(errno));
    (void)unlink(path);
    if (bind(door->listener, (const struct sockaddr *)&door->address, sizeof door->address) != 0 || chmod(path, 0666) != 0 ||
        listen(door->listener, BACKLOG) != 0)
        return failure(err, ERROR_UNAVAILABLE, "the socket %s can't be made: %s", path, strerror(errno));
    return SUCCESS;
}

struct result job_door_open(const char *path, uid_t caller, struct job_door **door_out, struct error *err)
{
    OWNED(job_door) *door = memory_zeroed(1, sizeof *door);

    if (door == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a socket");
    door->listener = -1;
    door->caller = caller;
    TRY(name_address(path, &door->address, err));
    TRY(listen_at(door, err));
    *door_out = GIVE(door);
    return SUCCESS;
}

int job_door_descriptor(const struct job_door *door)
{
    return door->listener;
}

static bool is_welcome(const struct job_door *door, int connection)
{
    struct ucred peer;
    socklen_t size = sizeof peer;

    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
    return peer.uid == 0 || peer.uid == geteuid() || peer.uid == door->caller;
}

int job_door_accept(const struct job_door *door)
{
    for (;;) {
        const int connection = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (connection < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
        if (connection < 0 || is_welcome(door, connection)) return connection;
        (void)close(connection);
    }
}

void job_door_free(struct job_door *door)
{
    if (door == NULL) return;
    if (door->listener >= 0) {
        (void)close(door->listener);
        (void)unlink(door->address.sun_path);
    }
    free(door);
}

enum job_word job_hear(int connection, struct job_wish *wish_out, struct error *err)
{
    uint8_t line[WISH_MAX + 1];
    const ssize_t length = recv(connection, line, sizeof line, MSG_DONTWAIT);

    if (length < 0 && (errno == EAGAIN || errno == EINTR)) return JOB_SILENT;
    if (length <= 0) {
        (void)failure(err, ERROR_UNAVAILABLE, "the job has ended").ok;
        return JOB_GONE;
    }
    return job_wish_read((struct bytes){line, (size_t)length}, wish_out, err).ok ? JOB_WISHES : JOB_GONE;
}

/* A job says nothing more after its wish. */
bool job_is_gone(int connection)
{
    uint8_t byte;
    const ssize_t length = recv(connection, &byte, sizeof byte, MSG_DONTWAIT);

    return length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR);
}

void job_dismiss(int connection, const char *word)
{
    (void)send(connection, word, strlen(word), MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)close(connection);
}

/* ---- the job ---- */

static struct result hear_runner(int connection, const volatile sig_atomic_t *stops, bool *ran_out, struct error *err)
{
    char word[WORD_MAX] = "";

    for (;;) {
        const ssize_t length = *stops != 0 ? -1 : recv(connection, word, sizeof word - 1, 0);
        if (*stops != 0) return failure(err, ERROR_CONFLICT, "the job was told to end");
        if (length < 0 && errno == EINTR) continue;
        if (length <= 0) return failure(err, ERROR_UNAVAILABLE, "the runner of this node has ended");
        *ran_out = strcmp(word, JOB_RAN) == 0;
        return SUCCESS;
    }
}

struct result job_wait(const char *path, struct bytes wish, const volatile sig_atomic_t *stops, bool *ran_out, struct error *err)
{
    OWNED_FD connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un address;

    TRY(name_address(path, &address, err));
    if (connection < 0 || connect(connection, (const struct sockaddr *)&address, sizeof address) != 0)
        return failure(err, ERROR_UNAVAILABLE, "no runner takes jobs at %s: %s", path, strerror(errno));
    if (send(connection, wish.data, wish.length, MSG_NOSIGNAL) != (ssize_t)wish.length)
        return failure(err, ERROR_UNAVAILABLE, "the runner of this node does not take the job: %s", strerror(errno));
    return hear_runner(connection, stops, ran_out, err);
}
