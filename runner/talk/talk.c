/* Messages, their limits, and the time that they may take. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "runner/talk/talk_priv.h"
#include "runner/talk/talk_sockets.h"

bool talk_is_address(const char *text)
{
    struct sockaddr_storage address;
    socklen_t size = 0;

    return talk_fill_address(&address, &size, text, 0);
}

struct result talk_new(struct tls *tls, struct talk **talk_out, struct error *err)
{
    OWNED(talk) *talk = memory_zeroed(1, sizeof *talk);

    if (talk == NULL) {
        tls_free(tls);
        return failure(err, ERROR_NO_MEMORY, "no memory for a talk");
    }
    talk->tls = tls;
    *talk_out = GIVE(talk);
    return SUCCESS;
}

/* ---- sending ---- */

struct result talk_send(struct talk *talk, enum talk_kind kind, struct bytes content, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + TALK_SILENCE_MS;
    const uint8_t head[TALK_HEAD_SIZE] = {(uint8_t)kind, (uint8_t)(content.length >> 24), (uint8_t)(content.length >> 16),
                                          (uint8_t)(content.length >> 8), (uint8_t)content.length};

    if (content.length > TALK_MESSAGE_MAX) return failure(err, ERROR_LIMIT, "a message of a talk is too long");
    TRY(tls_write(talk->tls, (struct bytes){head, sizeof head}, until_ms, err));
    return tls_write(talk->tls, content, until_ms, err);
}

struct result talk_send_texts(struct talk *talk, enum talk_kind kind, const char *const *texts, size_t count, struct error *err)
{
    struct buffer OWNED_BUFFER content = BUFFER(TALK_MESSAGE_MAX);

    for (size_t i = 0; i < count; i++) TRY(buffer_add(&content, texts[i], strlen(texts[i]) + 1, err));
    return talk_send(talk, kind, buffer_bytes(&content), err);
}

/* ---- receiving ---- */

static struct result read_all(struct talk *talk, uint8_t *into, size_t length, int64_t until_ms, struct error *err)
{
    size_t got = 0;

    for (; length > 0; into += got, length -= got) {
        TRY(tls_read(talk->tls, into, length, until_ms, &got, err));
        if (got == 0) return failure(err, ERROR_UNAVAILABLE, "the other side of the talk has gone in the middle of a message");
    }
    return SUCCESS;
}

bool talk_is_ready(const struct talk *talk)
{
    return tls_has_more(talk->tls);
}

int talk_descriptor(const struct talk *talk)
{
    return tls_descriptor(talk->tls);
}

bool talk_head_read(const uint8_t head[TALK_HEAD_SIZE], enum talk_kind *kind_out, size_t *length_out)
{
    *kind_out = (enum talk_kind)head[0];
    *length_out = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
    return head[0] != 0 && strchr("tcsrfpwglbudeqkoxy", head[0]) != NULL && *length_out <= TALK_MESSAGE_MAX;
}

/* Once it has begun. */
static struct result read_message(struct talk *talk, int64_t until_ms, struct talk_message *message, struct error *err)
{
    uint8_t head[TALK_HEAD_SIZE], *room = NULL;
    enum talk_kind kind = TALK_END;
    size_t got = 0, length = 0;

    TRY(tls_read(talk->tls, head, 1, until_ms, &got, err));
    if (got == 0) return SUCCESS;
    TRY(read_all(talk, head + 1, sizeof head - 1, until_ms, err));
    if (!talk_head_read(head, &kind, &length)) return failure(err, ERROR_INVALID, "what came is no message of a talk");
    if (length > 0) {
        TRY(buffer_reserve(&message->content, length, &room, err));
        TRY(read_all(talk, room, length, until_ms, err));
        message->content.length += length;
    }
    message->kind = kind;
    return SUCCESS;
}

struct result talk_receive(struct talk *talk, int64_t patience_ms, struct talk_message *message, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + patience_ms;

    buffer_clear(&message->content);
    message->kind = TALK_END;
    message->count = 0;
    if (!talk_is_ready(talk) && !tls_waits(talk->tls, until_ms))
        return failure(err, ERROR_NOT_FOUND, "the other side says nothing");
    return read_message(talk, clock_monotonic_ms() + TALK_SILENCE_MS, message, err);
}

struct result talk_texts(struct talk_message *message, size_t least, struct error *err)
{
    const struct bytes content = buffer_bytes(&message->content);
    const char *texts = (const char *)content.data;

    message->count = 0;
    if (content.length > 0 && texts[content.length - 1] != '\0')
        return failure(err, ERROR_INVALID, "a text of a talk has no end");
    for (size_t at = 0; at < content.length; at += strlen(texts + at) + 1) {
        if (message->count == TALK_TEXTS_MAX) return failure(err, ERROR_INVALID, "a message of a talk has too many texts");
        message->texts[message->count++] = texts + at;
    }
    message->texts[message->count] = NULL;
    return message->count >= least ? SUCCESS : failure(err, ERROR_INVALID, "a message of a talk has too few texts");
}

void talk_free(struct talk *talk)
{
    if (talk == NULL) return;
    tls_free(talk->tls);
    free(talk);
}
