/* An agent for trials. It has sockets, and no address answers: this shows that the cluster's network enforces the policy. The payload's side
 * shows more, because it has no sockets (payload.c). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "runner/pod/meeting.h"

#define TERMINATION "/dev/termination-log"
#define PIECE       4096
#define LOOK_MS     500 /* for a signal that came just before */

struct trial {
    struct meeting meeting;
    char **command;
    int status;
};

static volatile sig_atomic_t was_told_to_stop;
static struct pod_message message;

static void on_signal(int number)
{
    (void)number;
    was_told_to_stop = 1;
}

static struct result take_words(struct trial *trial, char **words, struct error *err)
{
    size_t count = 0;

    while (words[count] != NULL && strcmp(words[count], "--") != 0) count++;
    if (words[count] == NULL || words[count + 1] == NULL) return failure(err, ERROR_INVALID, "a command is missing");
    trial->command = words + count + 1;
    return meeting_find_addresses(&trial->meeting, (const char *const *)words, count, err);
}

static struct result let_it_go(struct trial *trial, struct error *err)
{
    static const char *const variables[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8"};
    const char *texts[POD_TEXTS_MAX] = {"", "0", "1", "0"};
    size_t count = 4;
    char words[8];

    for (char **word = trial->command; *word != NULL && count < POD_TEXTS_MAX - 8; word++) texts[count++] = *word;
    (void)snprintf(words, sizeof words, "%zu", count - 4);
    texts[0] = words;
    for (size_t i = 0; i < 4; i++) texts[count++] = variables[i];
    return meeting_let_it_go(&trial->meeting, texts, count, err);
}

/* ---- While it runs ---- */

static void pass_on(struct trial *trial)
{
    uint8_t piece[PIECE];
    const ssize_t length = read(trial->meeting.output, piece, sizeof piece);

    if (length > 0) (void)!write(STDOUT_FILENO, piece, (size_t)length);
    if (length > 0 || (length < 0 && errno == EINTR)) return;
    file_close_owned(&trial->meeting.output);
    trial->meeting.output = -1;
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

/* Waits for the end of the command. Messages of the payload's side before the end are for runners, and are ignored. */
static struct result await_end(struct trial *trial, struct error *err)
{
    const char *const stop[] = {"stop"};
    struct meeting *meeting = &trial->meeting;
    struct error none;

    for (bool was_stopped = false;;) {
        struct pollfd polled[2] = {{.fd = meeting->channel, .events = POLLIN}, {.fd = meeting->output, .events = POLLIN}};
        const int found = poll(polled, 2, LOOK_MS);
        if (was_told_to_stop != 0 && !was_stopped) (void)pod_send(meeting->channel, stop, 1, NULL, &none).ok;
        was_stopped = was_told_to_stop != 0;
        if (found <= 0) continue;
        if (polled[1].revents != 0) {
            pass_on(trial);
            continue;
        }
        if (polled[0].revents == 0) continue; /* all output was passed on before its end is read */
        TRY(pod_receive(meeting->channel, &message, err));
        if (!pod_is(&message, "use", 1) && !pod_is(&message, "beat", 1)) return read_end(trial, err);
    }
}

static struct result run(struct trial *trial, char **words, struct error *err)
{
    TRY(take_words(trial, words, err));
    TRY(meeting_show_silence(&trial->meeting, err));
    TRY(meeting_listen(&trial->meeting, err));
    TRY(meeting_wait(&trial->meeting, &was_told_to_stop, err));
    TRY(meeting_have_it_shown(&trial->meeting, &message, err));
    TRY(let_it_go(trial, err));
    return await_end(trial, err);
}

static void leave_word(const struct meeting *meeting, const char *wrong)
{
    struct buffer OWNED_BUFFER text = BUFFER(PIECE);
    OWNED_FD fd = open(TERMINATION, O_WRONLY | O_CLOEXEC);
    struct error none;

    struct result written =
        wrong != NULL
            ? buffer_add_text(&text, wrong, &none)
            : buffer_format(&text, &none, "closed: no privilege, no token, %zu addresses out of reach:", meeting->address_count);
    for (size_t i = 0; i < meeting->address_count && wrong == NULL && written.ok; i++)
        written = buffer_format(&text, &none, " %s:%s", meeting->addresses[i].address, meeting->addresses[i].port);
    if (fd >= 0 && written.ok) (void)file_write_all(fd, text.data, text.length, &none).ok;
    (void)printf("sijil-pod: %s\n", buffer_text(&text));
}

int pod_trial(const char *folder, char **words)
{
    const struct sigaction action = {.sa_handler = on_signal};
    struct trial trial = {.meeting = MEETING(folder), .status = POD_CLOSED};
    struct error err = {0};

    (void)sigaction(SIGTERM, &action, NULL);
    const bool is_done = run(&trial, words, &err).ok;
    leave_word(&trial.meeting, is_done ? NULL : err.message);
    meeting_done(&trial.meeting);
    return is_done ? trial.status : POD_CLOSED;
}
