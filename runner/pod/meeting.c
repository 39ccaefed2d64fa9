#include "runner/pod/meeting.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "runner/sandbox/closed.h"

#define SILENCE_MS 300 /* for each address */

/* ---- the addresses ---- */

static void add(struct proof_address *extra, size_t *count, const char *address, const char *port)
{
    (void)snprintf(extra[*count].address, sizeof extra[*count].address, "%.47s", address);
    (void)snprintf(extra[*count].port, sizeof extra[*count].port, "%.5s", port);
    ++*count;
}

/* The API has the first address of the services' network, and the cluster's name server the tenth, by custom. */
static void add_cluster(struct proof_address *extra, size_t *count, const char *host, const char *port)
{
    const size_t length = strlen(host);
    char server[PROOF_TEXT_SIZE];

    add(extra, count, host, port);
    if (length < 3 || length + 2 > sizeof server || strcmp(host + length - 2, ".1") != 0) return;
    (void)snprintf(server, sizeof server, "%.46s0", host);
    add(extra, count, server, "53");
}

struct result meeting_find_addresses(struct meeting *meeting, const char *const *words, size_t count, struct error *err)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    struct proof_address extra[MEETING_EXTRA_MAX + 2];
    size_t found = 0;

    if (host == NULL || port == NULL) return failure(err, ERROR_DENIED, "the pod is not told where the Kubernetes API is");
    if (count % 2 != 0 || count > (size_t)2 * MEETING_EXTRA_MAX)
        return failure(err, ERROR_INVALID, "addresses are ADDRESS PORT, at most %d", MEETING_EXTRA_MAX);
    add_cluster(extra, &found, host, port);
    for (size_t i = 0; i < count; i += 2) add(extra, &found, words[i], words[i + 1]);
    meeting->address_count = proof_addresses(extra, found, meeting->addresses);
    return SUCCESS;
}

struct result meeting_show_silence(const struct meeting *meeting, struct error *err)
{
    for (size_t i = 0; i < meeting->address_count; i++)
        if (!closed_silent(meeting->addresses[i].address, meeting->addresses[i].port, SILENCE_MS))
            return failure(err, ERROR_DENIED, "the pod's network is open: %s answers at port %s", meeting->addresses[i].address,
                           meeting->addresses[i].port);
    return SUCCESS;
}

/* ---- the payload's side ---- */

struct result meeting_listen(struct meeting *meeting, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    OWNED_FD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (snprintf(address.sun_path, sizeof address.sun_path, "%s/" POD_SOCKET, meeting->folder) >= (int)sizeof address.sun_path)
        return failure(err, ERROR_INVALID, "the name of the folder is too long");
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 || chmod(address.sun_path, 0666) != 0 ||
        listen(fd, 1) != 0)
        return failure(err, ERROR_UNAVAILABLE, "the agent can't listen at %.100s: %s", address.sun_path, strerror(errno));
    meeting->listening = fd;
    fd = -1;
    return SUCCESS;
}

/* The payload has a user of its own, so that it can't send signals to the agent or open its files. */
struct result meeting_wait(struct meeting *meeting, const volatile sig_atomic_t *stops, struct error *err)
{
    struct ucred who = {0};
    socklen_t size = sizeof who;

    while ((meeting->channel = accept4(meeting->listening, NULL, NULL, SOCK_CLOEXEC)) < 0)
        if (errno != EINTR || *stops != 0) return failure(err, ERROR_UNAVAILABLE, "the payload's container has not begun");
    if (getsockopt(meeting->channel, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.uid == getuid())
        return failure(err, ERROR_DENIED, "agent and payload are one user");
    return SUCCESS;
}

static struct result expect(struct meeting *meeting, const char *what, struct pod_message *message, struct error *err)
{
    TRY(pod_receive(meeting->channel, message, err));
    if (pod_is(message, what, 1)) return SUCCESS;
    if (pod_is(message, "open", 2))
        return failure(err, ERROR_DENIED, "the payload's container is open: %.200s", message->texts[1]);
    return failure(err, ERROR_UNAVAILABLE, "the payload's container does not say %s", what);
}

struct result meeting_have_it_shown(struct meeting *meeting, struct pod_message *message, struct error *err)
{
    const char *texts[1 + 2 * PROOF_ADDRESSES_MAX] = {"check"};
    size_t count = 1;

    TRY(expect(meeting, "hello", message, err));
    for (size_t i = 0; i < meeting->address_count; i++) {
        texts[count++] = meeting->addresses[i].address;
        texts[count++] = meeting->addresses[i].port;
    }
    TRY(pod_send(meeting->channel, texts, count, NULL, err));
    return expect(meeting, "closed", message, err);
}

struct result meeting_let_it_go(struct meeting *meeting, const char *const *texts, size_t count, struct error *err)
{
    const char *all[POD_TEXTS_MAX] = {"go"};
    int outputs[2] = {-1, -1};

    if (count >= POD_TEXTS_MAX) return failure(err, ERROR_LIMIT, "a command has too many words and variables");
    memcpy(all + 1, texts, count * sizeof *texts);
    if (pipe2(outputs, O_CLOEXEC) != 0) return failure(err, ERROR_UNAVAILABLE, "no pipe: %s", strerror(errno));
    const int ends[2] = {outputs[1], outputs[1]};
    const struct result sent = pod_send(meeting->channel, all, count + 1, ends, err);
    (void)close(outputs[1]);
    meeting->output = outputs[0];
    return sent;
}

void meeting_done(struct meeting *meeting)
{
    file_close_owned(&meeting->channel);
    file_close_owned(&meeting->listening);
    file_close_owned(&meeting->output);
}
