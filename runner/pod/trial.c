/* An agent for trials. Nothing may answer it at the addresses, although it has sockets: so the cluster's network obeys. The payload's side shows more, as it has
 * none (payload.c). */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "runner/pod/pod.h"
#include "runner/sandbox/closed.h"
#include "runner/sandbox/proof.h"

#define TERMINATION "/dev/termination-log"
#define PIECE       4096
#define LOOK_MS     500 /* for a signal that came just before */
#define SILENCE_MS  300 /* for each address */
#define EXTRA_MAX   8   /* the API, and the addresses of the command line; the others are those of proof_addresses() */

struct trial {
    const char *folder;
    char **command;
    size_t address_count;
    struct proof_address addresses[PROOF_ADDRESSES_MAX];
    int channel, output;
    int status;
};

static volatile sig_atomic_t was_told_to_stop;
static struct pod_message message;

static void on_signal(int number)
{
    (void)number;
    was_told_to_stop = 1;
}

/* ---- The addresses ---- */

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

static struct result take_words(struct trial *trial, char **words, struct error *err)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    struct proof_address extra[EXTRA_MAX];
    size_t count = 0;

    if (host == NULL || port == NULL) return failure(err, ERROR_DENIED, "the pod is not told where the Kubernetes API is");
    add_cluster(extra, &count, host, port);
    for (; words[0] != NULL && strcmp(words[0], "--") != 0; words += 2) {
        if (count == EXTRA_MAX || words[1] == NULL)
            return failure(err, ERROR_INVALID, "addresses are ADDRESS PORT, at most %d", EXTRA_MAX - 2);
        add(extra, &count, words[0], words[1]);
    }
    if (words[0] == NULL || words[1] == NULL) return failure(err, ERROR_INVALID, "a command is missing");
    trial->command = words + 1;
    trial->address_count = proof_addresses(extra, count, trial->addresses);
    return SUCCESS;
}

static struct result show_silence(const struct trial *trial, struct error *err)
{
    for (size_t i = 0; i < trial->address_count; i++)
        if (!closed_silent(trial->addresses[i].address, trial->addresses[i].port, SILENCE_MS))
            return failure(err, ERROR_DENIED, "the pod's network is open: %s answers at port %s", trial->addresses[i].address,
                           trial->addresses[i].port);
    return SUCCESS;
}

/* ---- The payload's side ---- */

static struct result listen_there(const char *folder, int *fd_out, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    OWNED_FD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (snprintf(address.sun_path, sizeof address.sun_path, "%s/" POD_SOCKET, folder) >= (int)sizeof address.sun_path)
        return failure(err, ERROR_INVALID, "the name of the folder is too long");
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 || chmod(address.sun_path, 0666) != 0 ||
        listen(fd, 1) != 0)
        return failure(err, ERROR_UNAVAILABLE, "the agent can't listen at %.100s: %s", address.sun_path, strerror(errno));
    *fd_out = fd;
    fd = -1;
    return SUCCESS;
}

/* The payload has a user of its own, so that it can't send signals to the agent or open its files. */
static struct result meet(struct trial *trial, struct error *err)
{
    struct ucred who = {0};
    socklen_t size = sizeof who;
    OWNED_FD listening = -1;

    TRY(listen_there(trial->folder, &listening, err));
    while ((trial->channel = accept4(listening, NULL, NULL, SOCK_CLOEXEC)) < 0)
        if (errno != EINTR || was_told_to_stop != 0)
            return failure(err, ERROR_UNAVAILABLE, "the payload's container has not begun");
    if (getsockopt(trial->channel, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.uid == getuid())
        return failure(err, ERROR_DENIED, "agent and payload are one user");
    return SUCCESS;
}

static struct result expect(struct trial *trial, const char *what, struct error *err)
{
    TRY(pod_receive(trial->channel, &message, err));
    if (pod_is(&message, what, 1)) return SUCCESS;
    if (pod_is(&message, "open", 2))
        return failure(err, ERROR_DENIED, "the payload's container is open: %.200s", message.texts[1]);
    return failure(err, ERROR_UNAVAILABLE, "the payload's container does not say %s", what);
}

static struct result have_it_shown(struct trial *trial, struct error *err)
{
    const char *texts[1 + 2 * PROOF_ADDRESSES_MAX] = {"check"};
    size_t count = 1;

    TRY(expect(trial, "hello", err));
    for (size_t i = 0; i < trial->address_count; i++) {
        texts[count++] = trial->addresses[i].address;
        texts[count++] = trial->addresses[i].port;
    }
    TRY(pod_send(trial->channel, texts, count, NULL, err));
    return expect(trial, "closed", err);
}

static struct result let_it_go(struct trial *trial, struct error *err)
{
    static const char *const variables[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8"};
    const char *texts[POD_TEXTS_MAX] = {"go"};
    int outputs[2] = {-1, -1};
    size_t count = 2;
    char words[8];

    for (char **word = trial->command; *word != NULL && count < POD_TEXTS_MAX - 4; word++) texts[count++] = *word;
    (void)snprintf(words, sizeof words, "%zu", count - 2);
    texts[1] = words;
    for (size_t i = 0; i < 4; i++) texts[count++] = variables[i];
    if (pipe2(outputs, O_CLOEXEC) != 0) return failure(err, ERROR_UNAVAILABLE, "no pipe: %s", strerror(errno));
    const int ends[2] = {outputs[1], outputs[1]};
    const struct result sent = pod_send(trial->channel, texts, count, ends, err);
    (void)close(outputs[1]);
    trial->output = outputs[0];
    return sent;
}

/* ---- While it runs ---- */

static void pass_on(struct trial *trial)
{
    uint8_t piece[PIECE];
    const ssize_t length = read(trial->output, piece, sizeof piece);

    if (length > 0) (void)!write(STDOUT_FILENO, piece, (size_t)length);
    if (length > 0 || (length < 0 && errno == EINTR)) return;
    file_close_owned(&trial->output);
    trial->output = -1;
}

static struct result read_end(struct trial *trial, struct error *err)
{
    uint64_t code = 0;

    if (pod_is(&message, "failed", 2))
        return failure(err, ERROR_UNAVAILABLE, "the payload's container: %.200s", message.texts[1]);
    if (!pod_is(&message, "ended", 3) || !text_to_u64(bytes_of_text(message.texts[1]), 255, &code))
        return failure(err, ERROR_UNAVAILABLE, "the payload's container ended without a word");
    trial->status = (int)code;
    return SUCCESS;
}

static struct result await_end(struct trial *trial, struct error *err)
{
    const char *const stop[] = {"stop"};
    struct error none;

    for (bool was_stopped = false;;) {
        struct pollfd polled[2] = {{.fd = trial->channel, .events = POLLIN}, {.fd = trial->output, .events = POLLIN}};
        const int found = poll(polled, 2, LOOK_MS);
        if (was_told_to_stop != 0 && !was_stopped) (void)pod_send(trial->channel, stop, 1, NULL, &none).ok;
        was_stopped = was_told_to_stop != 0;
        if (found <= 0) continue;
        if (polled[1].revents != 0) pass_on(trial);
        else if (polled[0].revents != 0) break; /* when all output was passed on */
    }
    TRY(pod_receive(trial->channel, &message, err));
    return read_end(trial, err);
}

static struct result run(struct trial *trial, char **words, struct error *err)
{
    TRY(take_words(trial, words, err));
    TRY(show_silence(trial, err));
    TRY(meet(trial, err));
    TRY(have_it_shown(trial, err));
    TRY(let_it_go(trial, err));
    return await_end(trial, err);
}

static void leave_word(const struct trial *trial, const char *wrong)
{
    struct buffer OWNED_BUFFER text = BUFFER(PIECE);
    OWNED_FD fd = open(TERMINATION, O_WRONLY | O_CLOEXEC);
    struct error none;

    struct result written =
        wrong != NULL
            ? buffer_add_text(&text, wrong, &none)
            : buffer_format(&text, &none, "closed: no privilege, no token, %zu addresses out of reach:", trial->address_count);
    for (size_t i = 0; i < trial->address_count && wrong == NULL && written.ok; i++)
        written = buffer_format(&text, &none, " %s:%s", trial->addresses[i].address, trial->addresses[i].port);
    if (fd >= 0 && written.ok) (void)file_write_all(fd, text.data, text.length, &none).ok;
    (void)printf("sijil-pod: %s\n", buffer_text(&text));
}

int pod_trial(const char *folder, char **words)
{
    const struct sigaction action = {.sa_handler = on_signal};
    struct trial trial = {.folder = folder, .channel = -1, .output = -1, .status = POD_CLOSED};
    struct error err = {0};

    (void)sigaction(SIGTERM, &action, NULL);
    const bool is_done = run(&trial, words, &err).ok;
    leave_word(&trial, is_done ? NULL : err.message);
    file_close_owned(&trial.channel);
    file_close_owned(&trial.output);
    return is_done ? trial.status : POD_CLOSED;
}
