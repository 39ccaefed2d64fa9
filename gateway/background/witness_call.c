#include "gateway/background/witness_call.h"

#include <stdio.h>
#include <string.h>

#include "audit/format/merkle.h"
#include "base/text.h"

#define CONNECT_S 5
#define WHOLE_S   10 /* an answer costs a witness one fsync */
#define URL_MAX   (WITNESS_POLICY_URL_SIZE + 16)

static struct result take(void *context, long status, struct bytes piece, struct error *err)
{
    (void)status;
    return buffer_add(context, piece.data, piece.length, err);
}

/* The first line of an answer, for a log: without characters that a terminal would obey. */
static void quote(struct bytes answer, char *text, size_t room)
{
    size_t length = 0;

    while (length + 1 < room && length < answer.length && answer.data[length] >= 0x20 && answer.data[length] < 0x7f) {
        text[length] = (char)answer.data[length];
        length++;
    }
    text[length] = '\0';
}

static struct result take_size(struct bytes answer, struct witness_reply *reply)
{
    if (answer.length > 0 && answer.data[answer.length - 1] == '\n') answer.length--;
    if (text_to_u64(answer, MERKLE_SIZE_MAX, &reply->size)) {
        reply->end = WITNESS_KNOWS_OTHER;
        (void)snprintf(reply->why, sizeof reply->why, "it knows a log of %llu entries", (unsigned long long)reply->size);
        return SUCCESS;
    }
    reply->end = WITNESS_LIED;
    (void)snprintf(reply->why, sizeof reply->why, "its answer 409 has no size");
    return SUCCESS;
}

static struct result take_cosignature(const struct witness_submission *submission, struct bytes answer,
                                      struct witness_reply *reply, struct error *err)
{
    struct error why = {0};

    reply->end = WITNESS_COSIGNED;
    if (witness_answer_read(submission->note, answer, &submission->witness->key, &reply->line, &reply->time_s, &why).ok)
        return SUCCESS;
    if (why.kind == ERROR_NO_MEMORY) return failure(err, why.kind, "%s", why.message);
    reply->end = WITNESS_LIED;
    (void)snprintf(reply->why, sizeof reply->why, "it has answered 200 without a good cosignature: %.140s", why.message);
    return SUCCESS;
}

static bool means_later(long status)
{
    return status == 408 || status == 429 || status >= 500;
}

static struct result read_answer(const struct witness_submission *submission, const struct outgoing_outcome *outcome,
                                 struct bytes answer, struct witness_reply *reply, struct error *err)
{
    char said[300];

    if (outcome->end != OUTGOING_ANSWERED) {
        reply->end = WITNESS_AWAY;
        (void)snprintf(reply->why, sizeof reply->why, "it can't be reached: %.150s", outcome->reason);
        return SUCCESS;
    }
    if (outcome->status == 200) return take_cosignature(submission, answer, reply, err);
    if (outcome->status == 409) return take_size(answer, reply);
    reply->end = means_later(outcome->status) ? WITNESS_AWAY : WITNESS_REFUSED;
    quote(answer, said, sizeof said);
    (void)snprintf(reply->why, sizeof reply->why, "it has answered %ld: %s", outcome->status, said);
    return SUCCESS;
}

struct result witness_call(const struct witness_submission *submission, struct witness_reply *reply, struct error *err)
{
    static const struct outgoing_header headers[] = {{"Content-Type", "text/plain; charset=utf-8"}, {"User-Agent", "sijild"}};
    struct buffer OWNED_BUFFER answer = BUFFER(WITNESS_ANSWER_BYTES_MAX);
    const char *prefix = submission->witness->url;
    const size_t length = strlen(prefix);
    struct outgoing_outcome outcome;
    char url[URL_MAX];

    (void)snprintf(url, sizeof url, "%s%sadd-checkpoint", prefix, length > 0 && prefix[length - 1] == '/' ? "" : "/");
    const struct outgoing_request request = {.method = "POST",
                                             .url = url,
                                             .headers = headers,
                                             .header_count = sizeof headers / sizeof headers[0],
                                             .with_body = true,
                                             .body = submission->body,
                                             .is_repeatable =
                                                 true, /* the same checkpoint twice is cosigned twice, or answered 409 */
                                             .limits = {.connect_s = CONNECT_S,
                                                        .silence_s = WHOLE_S,
                                                        .slowest_rate = 1,
                                                        .whole_s = WHOLE_S,
                                                        .answer_bytes = WITNESS_ANSWER_BYTES_MAX},
                                             .gives_up = submission->gives_up,
                                             .take = take,
                                             .context = &answer};
    TRY(outgoing_call(submission->outgoing, &request, &outcome, err));
    return read_answer(submission, &outcome, buffer_bytes(&answer), reply, err);
}
