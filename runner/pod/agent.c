/* The agent of a run: a runner outside the pod decides everything, and this passes it on. It holds nothing but the token of its pod. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "runner/pod/agent_priv.h"
#include "runner/pod/meeting.h"
#include "runner/pod/probe.h"

#define TOKEN      "/run/sijil/token"
#define TOKEN_MAX  8192
#define PIECE      65536
#define ANSWER_MS  120000 /* until the runner has had the token reviewed */
#define WAIT_MS    600000 /* until the runner lets the command go: the inputs are there, and the registry was told */
#define CALLS      60
#define CALL_PAUSE 1

struct agent {
    struct meeting meeting;
    struct talk *talk;
    bool has_ended; /* the command; the outputs may be walked */
};

static volatile sig_atomic_t nobody_stops; /* stays 0: signals go to the payload, and the runner must hear of its end */
static struct pod_message message;
static struct talk_message heard;

/* ---- the runner ---- */

/* The runner listens before this pod is made, so this waits only for the network. */
static struct result call_runner(struct agent *agent, char *const words[3], struct error *err)
{
    for (unsigned call = 0;; call++) {
        if (talk_call(words[0], words[1], words[2], &agent->talk, err).ok) return SUCCESS;
        if (err->kind != ERROR_UNAVAILABLE || call == CALLS) return (struct result){.ok = false};
        (void)sleep(CALL_PAUSE);
    }
}

static struct result show_token(const struct agent *agent, struct error *err)
{
    struct buffer OWNED_BUFFER token = BUFFER(TOKEN_MAX);
    struct result done = file_read(TOKEN, &token, err);

    if (done.ok) done = talk_send(agent->talk, TALK_TOKEN, buffer_bytes(&token), err);
    if (token.data != NULL) explicit_bzero(token.data, token.length);
    return done;
}

static struct result expect(const struct agent *agent, enum talk_kind kind, int64_t patience_ms, struct error *err)
{
    TRY(talk_receive(agent->talk, patience_ms, &heard, err));
    if (heard.kind == kind) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "the runner has gone, or says something else");
}

/* ---- until the command begins ---- */

static struct result show_closed(struct agent *agent, struct error *err)
{
    char count[16];

    TRY(talk_texts(&heard, 0, err));
    TRY(meeting_find_addresses(&agent->meeting, heard.texts, heard.count, err));
    TRY(meeting_show_silence(&agent->meeting, err));
    TRY(meeting_wait(&agent->meeting, &nobody_stops, err));
    TRY(meeting_have_it_shown(&agent->meeting, &message, err));
    if (message.count < 4) return failure(err, ERROR_DENIED, "the payload's container does not say what its limits are");
    (void)snprintf(count, sizeof count, "%zu", agent->meeting.address_count);
    const char *texts[4 + PROBE_TEXTS_MAX] = {message.texts[1], message.texts[2], message.texts[3], count};
    const size_t devices = message.count - 4 < PROBE_TEXTS_MAX ? message.count - 4 : PROBE_TEXTS_MAX;
    memcpy(texts + 4, message.texts + 4, devices * sizeof texts[0]);
    return talk_send_texts(agent->talk, TALK_CLOSED, texts, 4 + devices, err);
}

static struct result prepare(struct agent *agent, struct error *err)
{
    TRY(show_token(agent, err));
    TRY(expect(agent, TALK_CHECK, ANSWER_MS, err));
    if (!show_closed(agent, err).ok) {
        struct error none;
        (void)talk_send(agent->talk, TALK_REFUSED, bytes_of_text(err->message), &none).ok;
        return (struct result){.ok = false};
    }
    TRY(agent_take_inputs(agent->talk, &heard, err));
    TRY(expect(agent, TALK_GO, WAIT_MS, err));
    TRY(talk_texts(&heard, 5, err));
    return meeting_let_it_go(&agent->meeting, heard.texts, heard.count, err);
}

/* ---- while it runs, and afterwards ---- */

static struct result pass_log(struct agent *agent, struct error *err)
{
    uint8_t piece[PIECE];
    const ssize_t length = read(agent->meeting.output, piece, sizeof piece);

    if (length > 0) return talk_send(agent->talk, TALK_LOG, (struct bytes){piece, (size_t)length}, err);
    if (length < 0 && errno == EINTR) return SUCCESS;
    file_close_owned(&agent->meeting.output);
    agent->meeting.output = -1;
    return SUCCESS;
}

static struct result pass_word(struct agent *agent, struct error *err)
{
    static const struct {
        const char *word;
        enum talk_kind kind;
    } rows[] = {{"use", TALK_USE}, {"beat", TALK_BEAT}, {"devices", TALK_DEVICES}, {"ended", TALK_ENDED}};

    TRY(pod_receive(agent->meeting.channel, &message, err));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!pod_is(&message, rows[i].word, 2)) continue;
        if (rows[i].kind == TALK_ENDED) agent->has_ended = true;
        return talk_send_texts(agent->talk, rows[i].kind, message.texts + 1, message.count - 1, err);
    }
    const char *why = pod_is(&message, "failed", 2) ? message.texts[1] : "the payload's container ended without a word";
    (void)talk_send(agent->talk, TALK_REFUSED, bytes_of_text(why), err).ok;
    return failure(err, ERROR_UNAVAILABLE, "%.200s", why);
}

static struct result obey(struct agent *agent, bool *is_over, struct error *err)
{
    static const char *const stop[] = {"stop"}, *const kill[] = {"kill"};
    const int channel = agent->meeting.channel;
    struct error none;

    TRY(talk_receive(agent->talk, 0, &heard, err));
    if (heard.kind == TALK_WALK && !agent->has_ended)
        return failure(err, ERROR_INVALID, "the runner asks for outputs of a command that runs");
    if (heard.kind == TALK_WALK) return agent_give_outputs(agent->talk, &heard, err);
    if (heard.kind == TALK_STOP) (void)pod_send(channel, stop, 1, NULL, &none).ok;
    else if (heard.kind == TALK_KILL) (void)pod_send(channel, kill, 1, NULL, &none).ok;
    else if (heard.kind == TALK_BYE) *is_over = true;
    else return failure(err, ERROR_UNAVAILABLE, "the runner has gone, or says something else");
    return SUCCESS;
}

/* The end of the command is passed on only after all of its output. */
static struct result serve(struct agent *agent, struct error *err)
{
    for (bool is_over = false; !is_over;) {
        struct pollfd polled[3] = {{.fd = talk_descriptor(agent->talk), .events = POLLIN},
                                   {.fd = agent->meeting.output, .events = POLLIN},
                                   {.fd = agent->has_ended ? -1 : agent->meeting.channel, .events = POLLIN}};
        const bool is_ready = talk_is_ready(agent->talk);
        if (poll(polled, 3, is_ready ? 0 : -1) < 0 && errno != EINTR)
            return failure(err, ERROR_UNAVAILABLE, "nothing can be waited for: %s", strerror(errno));
        if (is_ready || polled[0].revents != 0) {
            const struct result obeyed = obey(agent, &is_over, err);
            if (!obeyed.ok && err->kind != ERROR_NOT_FOUND) return obeyed;
        }
        if (polled[1].revents != 0) TRY(pass_log(agent, err));
        else if (polled[2].revents != 0) TRY(pass_word(agent, err));
    }
    return SUCCESS;
}

static struct result run(struct agent *agent, char *const words[3], struct error *err)
{
    TRY(meeting_listen(&agent->meeting, err)); /* so the payload's side ends, too, if the runner does not let this agent in */
    TRY(call_runner(agent, words, err));
    TRY(prepare(agent, err));
    return serve(agent, err);
}

int pod_agent(const char *folder, char *const words[3])
{
    const struct sigaction ignored = {.sa_handler = SIG_IGN};
    struct agent agent = {.meeting = MEETING(folder)};
    struct error err = {0};

    (void)sigaction(SIGTERM, &ignored, NULL);
    (void)sigaction(SIGPIPE, &ignored, NULL);
    heard = TALK_MESSAGE;
    const bool is_done = run(&agent, words, &err).ok;
    if (!is_done) (void)fprintf(stderr, "sijil-pod: %s\n", err.message);
    meeting_done(&agent.meeting); /* the payload's side ends all that is left */
    talk_free(agent.talk);
    buffer_done(&heard.content);
    return is_done ? 0 : POD_CLOSED;
}
