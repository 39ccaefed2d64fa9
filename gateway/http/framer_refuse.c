#include "gateway/http/framer_priv.h"

static const char version[] = FRAMER_VERSION_TEXT;

void framer_queue(struct framer *framer, const char *text, size_t length)
{
    if (length > FRAMER_END_MAX - framer->queued_count) length = FRAMER_END_MAX - framer->queued_count;
    memcpy(framer->queued + framer->queued_count, text, length);
    framer->queued_count += length;
}

/* The shortest text that makes a whole request of what has passed so far. */
static void queue_end(struct framer *framer)
{
    static const char *const ends[FRAMER_STAGES] = {
        [FRAMER_START] = "X / HTTP/1.1\r\n\r\n",
        [FRAMER_START_LF] = "X / HTTP/1.1\r\n\r\n",
        [FRAMER_METHOD] = " / HTTP/1.1\r\n\r\n",
        [FRAMER_TARGET] = " HTTP/1.1\r\n\r\n",
        [FRAMER_LINE_LF] = "\n\r\n",
        [FRAMER_LINE_START] = "\r\n",
        [FRAMER_NAME] = "q:x\r\n\r\n",
        [FRAMER_SPACES] = "0\r\n\r\n",
        [FRAMER_VALUE] = "0\r\n\r\n",
        [FRAMER_HEAD_LF] = "\n",
        [FRAMER_SIZE] = "0\r\n\r\n",
        [FRAMER_EXTENSION] = "0\r\n\r\n",
        [FRAMER_SIZE_LF] = "0\r\n\r\n",
        [FRAMER_CHUNK_CR] = "\r\n0\r\n\r\n",
        [FRAMER_CHUNK_LF] = "\n0\r\n\r\n",
        [FRAMER_TRAILER_START] = "0\r\n\r\n",
        [FRAMER_TRAILER_NAME] = "0\r\n\r\n",
        [FRAMER_TRAILER_VALUE] = "0\r\n\r\n",
        [FRAMER_TRAILER_LF] = "0\r\n\r\n",
        [FRAMER_TRAILERS_LF] = "0\r\n\r\n",
    };
    const char *end = ends[framer->stage];

    if (framer->stage == FRAMER_TARGET && framer->count == 0) framer_queue(framer, "/", 1);
    if (framer->stage == FRAMER_VERSION) {
        if (framer->count < sizeof version - 1) framer_queue(framer, version + framer->count, sizeof version - 1 - framer->count);
        end = "\r\n\r\n";
    }
    if (end != NULL) framer_queue(framer, end, strlen(end));
}

void framer_refuse(struct framer *framer, unsigned status, const char *why)
{
    if (framer->stage == FRAMER_START || framer->stage == FRAMER_START_LF) framer->requests++;
    queue_end(framer);
    framer->held_count = 0;
    framer->refusal = (struct http_refusal){.status = status, .why = why};
    framer->stage = FRAMER_REFUSED;
}

void framer_expect_lf(struct framer *framer, uint8_t byte, enum framer_stage next)
{
    if (byte == '\n') framer->stage = next;
    else framer_refuse(framer, 400, "a line ends in CR alone");
}
