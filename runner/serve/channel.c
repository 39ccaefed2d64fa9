#include "runner/serve/channel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "client/terminal.h"

struct result channel_open(int ends_out[2], struct error *err)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_out) == 0) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "no sockets for a worker: %s", strerror(errno));
}

static bool has_end(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

static bool is_list(const struct device_names *devices)
{
    if (devices->count > DEVICES_MAX) return false;
    for (size_t i = 0; i < devices->count; i++)
        if (!has_end(devices->uuids[i], sizeof devices->uuids[i])) return false;
    return true;
}

static bool has_texts(const struct channel_question *question)
{
    return has_end(question->order, sizeof question->order) && has_end(question->audience, sizeof question->audience) &&
           has_end(question->check, sizeof question->check) && has_end(question->reason, sizeof question->reason);
}

static ssize_t receive(int channel, void *message, size_t size, int flags)
{
    ssize_t length = -1;

    do length = recv(channel, message, size, flags | MSG_TRUNC);
    while (length < 0 && errno == EINTR);
    return length;
}

static bool send_whole(int channel, const void *message, size_t size)
{
    ssize_t sent = -1;

    do sent = send(channel, message, size, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)size;
}

struct result channel_ask(int channel, const struct channel_question *question, struct channel_answer *answer_out,
                          struct error *err)
{
    struct channel_answer answer;

    if (!send_whole(channel, question, sizeof *question) ||
        receive(channel, &answer, sizeof answer, 0) != (ssize_t)sizeof answer || !has_end(answer.why, sizeof answer.why) ||
        !has_end(answer.envelope, sizeof answer.envelope))
        return failure(err, ERROR_UNAVAILABLE, "the process that serves does not answer");
    if (answer.refused != ERROR_NONE) return failure(err, answer.refused, "%s", answer.why);
    *answer_out = answer;
    return SUCCESS;
}

struct result channel_refusal(const struct run_envelope *lease, const struct order_refusal *refusal,
                              struct channel_question *question_out, struct error *err)
{
    const char *reason = refusal->reason[0] == '\0' ? refusal->check : refusal->reason;
    struct channel_question question = {.topic = CHANNEL_REFUSE};

    if (!uuid_parse(bytes_of_text(run_text(lease, "run")), &question.lease.run))
        return failure(err, ERROR_INVALID, "a lease names no run");
    run_digest_bytes(lease, question.lease.digest);
    (void)snprintf(question.audience, sizeof question.audience, "%s", run_text(lease, "audience"));
    (void)snprintf(question.check, sizeof question.check, "%s", refusal->check);
    (void)snprintf(question.reason, sizeof question.reason, "%s", reason);
    terminal_sanitize(question.reason);
    *question_out = question;
    return SUCCESS;
}

struct result channel_refuse(int channel, const struct run_envelope *lease, const struct order_refusal *refusal,
                             char envelope_out[CHANNEL_ENVELOPE_SIZE], struct error *err)
{
    struct channel_question question;
    struct channel_answer answer;

    TRY(channel_refusal(lease, refusal, &question, err));
    TRY(channel_ask(channel, &question, &answer, err));
    memcpy(envelope_out, answer.envelope, CHANNEL_ENVELOPE_SIZE);
    return SUCCESS;
}

bool channel_hear(int channel, struct channel_question *question_out)
{
    struct channel_question question;

    if (receive(channel, &question, sizeof question, MSG_DONTWAIT) != (ssize_t)sizeof question) return false;
    if (question.topic > CHANNEL_REFUSE || !has_texts(&question) || !is_list(&question.uses) || question.cpus < 0 ||
        question.memory_bytes < 0)
        return false;
    *question_out = question;
    return true;
}

bool channel_reply(int channel, const struct channel_answer *answer)
{
    return send_whole(channel, answer, sizeof *answer);
}
