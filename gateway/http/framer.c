#include "gateway/http/framer_priv.h"

#include <strings.h>

#define METHOD_MAX    32  /* the longest registered method has 17 letters */
#define ARGUMENTS_MAX 128 /* twice the limit of gateway/http/query.h: libmicrohttpd has memory for this many */
#define COOKIE_MAX    1024
#define LINES_MAX     2  /* empty ones before a request (RFC 9112 section 2.2) */
#define DIGITS_MAX    18 /* of a Content-Length */

static const char version[] = FRAMER_VERSION_TEXT, coding[] = "chunked";

/* Where passed bytes go: into the queue, or to a position that is never behind the byte under check. */
struct outlet {
    uint8_t *destination; /* NULL: all is queued */
    size_t length;
};

static void give(struct framer *framer, struct outlet *out, const void *bytes, size_t length)
{
    if (out->destination == NULL) {
        framer_queue(framer, bytes, length);
        return;
    }
    memmove(out->destination + out->length, bytes, length);
    out->length += length;
}

/* ---- The head ---- */

static void begin_head(struct framer *framer)
{
    framer->requests++;
    framer->header_bytes = framer->headers = framer->arguments = framer->empty_lines = 0;
    framer->is_old = framer->has_length = framer->is_chunked = framer->is_query = false;
    framer->left = 0;
    framer_enter(framer, FRAMER_METHOD);
}

/* Empty lines before a request are left out. */
static void take_start(struct framer *framer, uint8_t byte)
{
    if (byte == '\r' && framer->empty_lines < LINES_MAX) {
        framer->empty_lines++;
        framer->stage = FRAMER_START_LF;
    } else if (!framer_is_token_letter(byte)) {
        framer_refuse(framer, 400, "the method is not a token");
    } else {
        begin_head(framer);
        framer->count = 1;
    }
}

static void end_empty_line(struct framer *framer, uint8_t byte)
{
    framer_expect_lf(framer, byte, FRAMER_START);
}

static void take_method(struct framer *framer, uint8_t byte)
{
    if (byte == ' ' && framer->count > 0) framer_enter(framer, FRAMER_TARGET);
    else if (!framer_is_token_letter(byte) || framer->count >= METHOD_MAX)
        framer_refuse(framer, 400, "the method is not a token");
    else framer->count++;
}

/* In a path below /v2 the letter belongs to a repository's name in another alphabet; curl sends such names unescaped. */
static void refuse_letter(struct framer *framer)
{
    framer_refuse(framer, 400, "the request target holds a character that must be percent-encoded");
    framer->refusal.is_of_path = !framer->is_query;
}

static void take_request_target(struct framer *framer, uint8_t byte)
{
    if (byte == '?') framer->is_query = true;
    if (framer->is_query && byte == '&') framer->arguments++;
    if (byte == ' ' && framer->count > 0) framer_enter(framer, FRAMER_VERSION);
    else if (byte >= 0x80) refuse_letter(framer);
    else if (byte <= ' ' || byte == 0x7f)
        framer_refuse(framer, 400, "the request line is not METHOD TARGET HTTP/1.1, with one space between each");
    else if (++framer->count > framer->limits.path + framer->limits.query)
        framer_refuse(framer, 414, "the request target is too long");
    else if (framer->arguments >= ARGUMENTS_MAX) framer_refuse(framer, 414, "the query has too many arguments");
}

static void take_version(struct framer *framer, uint8_t byte)
{
    const size_t last = sizeof version - 2;

    if (framer->count > last && byte == '\r') framer->stage = FRAMER_LINE_LF;
    else if (framer->count > last) framer_refuse(framer, 400, "the request line does not end after the version");
    else if (framer->count == last && byte == '0') framer->is_old = true;
    else if (framer->count >= 5 && byte != (uint8_t)version[framer->count] && (byte == '.' || (byte >= '0' && byte <= '9')))
        framer_refuse(framer, 505, "HTTP/1.1 only");
    else if (byte != (uint8_t)version[framer->count])
        framer_refuse(framer, 400, "the request line is not METHOD TARGET HTTP/1.1, with one space between each");
    if (framer->stage == FRAMER_VERSION) framer->count++;
}

static void end_line(struct framer *framer, uint8_t byte)
{
    framer_expect_lf(framer, byte, FRAMER_LINE_START);
}

static void take_line_start(struct framer *framer, uint8_t byte)
{
    if (byte == '\r') {
        framer->stage = FRAMER_HEAD_LF;
    } else if (byte == ' ' || byte == '\t') {
        framer_refuse(framer, 400, "a header is folded");
    } else if (!framer_is_token_letter(byte)) {
        framer_refuse(framer, 400, "a header's name is not a token");
    } else if (++framer->headers > REQUEST_HEADERS_MAX) {
        framer_refuse(framer, 431, "too many headers");
    } else {
        framer_enter(framer, FRAMER_NAME);
        framer->name[framer->count++] = (char)byte;
    }
}

static enum framer_field field_of(const struct framer *framer)
{
    static const struct {
        const char *name;
        enum framer_field field;
    } known[] = {{"Content-Length", FRAMER_LENGTH}, {"Transfer-Encoding", FRAMER_CODING}, {"Cookie", FRAMER_COOKIE}};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (framer->count == strlen(known[i].name) && strncasecmp(framer->name, known[i].name, framer->count) == 0)
            return known[i].field;
    return FRAMER_OTHER;
}

static void begin_value(struct framer *framer)
{
    const bool is_framed = framer->has_length || framer->is_chunked;

    framer->field = field_of(framer);
    framer->has_length = framer->has_length || framer->field == FRAMER_LENGTH;
    framer->is_chunked = framer->is_chunked || framer->field == FRAMER_CODING;
    if (is_framed && (framer->field == FRAMER_LENGTH || framer->field == FRAMER_CODING))
        framer_refuse(framer, 400, "Content-Length and Transfer-Encoding exclude each other, and stand once");
    else if (framer->field == FRAMER_CODING && framer->is_old) framer_refuse(framer, 400, "HTTP/1.0 has no Transfer-Encoding");
    else framer_enter(framer, FRAMER_SPACES);
}

static void take_name(struct framer *framer, uint8_t byte)
{
    if (byte == ':') {
        begin_value(framer);
    } else if (!framer_is_token_letter(byte)) {
        framer_refuse(framer, 400, "a header's name is not a token");
    } else {
        if (framer->count < FRAMER_NAME_MAX) framer->name[framer->count] = (char)byte;
        framer->count++;
    }
}

static void take_length(struct framer *framer, uint8_t byte)
{
    if (byte < '0' || byte > '9' || (framer->count > 0 && framer->left == 0)) {
        framer_refuse(framer, 400, "Content-Length is not a number");
    } else if (framer->count >= DIGITS_MAX) {
        framer_refuse(framer, 413, "Content-Length is too large");
    } else {
        framer->left = 10 * framer->left + (uint64_t)(byte - '0');
    }
}

static void take_coding(struct framer *framer, uint8_t byte)
{
    const uint8_t small = byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte + ('a' - 'A')) : byte;

    if (framer->count >= sizeof coding - 1 || small != (uint8_t)coding[framer->count])
        framer_refuse(framer, 400, "the only Transfer-Encoding is chunked");
}

static void end_value(struct framer *framer)
{
    if (framer->field == FRAMER_LENGTH && framer->count == 0) framer_refuse(framer, 400, "Content-Length is not a number");
    else if (framer->field == FRAMER_CODING && framer->count != sizeof coding - 1)
        framer_refuse(framer, 400, "the only Transfer-Encoding is chunked");
    else framer->stage = FRAMER_LINE_LF;
}

static void take_value(struct framer *framer, uint8_t byte)
{
    if (byte == '\r') {
        end_value(framer);
        return;
    }
    if (!framer_is_value_letter(byte)) framer_refuse(framer, 400, "header lines end in CRLF, and hold printable ASCII");
    else if (framer->field == FRAMER_LENGTH) take_length(framer, byte);
    else if (framer->field == FRAMER_CODING) take_coding(framer, byte);
    else if (framer->field == FRAMER_COOKIE && framer->count >= COOKIE_MAX)
        framer_refuse(framer, 431, "cookies are not read here, and these are too large");
    if (framer->stage == FRAMER_VALUE) framer->count++;
}

/* RFC 9112 section 5: spaces before a value are not part of it. */
static void take_spaces(struct framer *framer, uint8_t byte)
{
    if (byte == ' ' || byte == '\t') return;
    framer->stage = FRAMER_VALUE;
    take_value(framer, byte);
}

static void end_head(struct framer *framer, uint8_t byte)
{
    framer_expect_lf(framer, byte, framer->is_chunked ? FRAMER_SIZE : framer->left > 0 ? FRAMER_BODY : FRAMER_START);
    framer->count = 0;
}

/* ---- All ---- */

static const struct step {
    void (*run)(struct framer *framer, uint8_t byte); /* NULL: bytes of a body, or after a refusal */
    bool passes;                                      /* a good byte goes on to libmicrohttpd */
} steps[FRAMER_STAGES] = {
    [FRAMER_START] = {take_start, true},
    [FRAMER_START_LF] = {end_empty_line, false},
    [FRAMER_METHOD] = {take_method, true},
    [FRAMER_TARGET] = {take_request_target, true},
    [FRAMER_VERSION] = {take_version, true},
    [FRAMER_LINE_LF] = {end_line, true},
    [FRAMER_LINE_START] = {take_line_start, true},
    [FRAMER_NAME] = {take_name, true},
    [FRAMER_SPACES] = {take_spaces, true},
    [FRAMER_VALUE] = {take_value, true},
    [FRAMER_HEAD_LF] = {end_head, true},
    [FRAMER_SIZE] = {framer_take_size, false},
    [FRAMER_EXTENSION] = {framer_take_extension, false},
    [FRAMER_SIZE_LF] = {framer_end_size, false},
    [FRAMER_CHUNK_CR] = {framer_begin_chunk_end, true},
    [FRAMER_CHUNK_LF] = {framer_end_chunk, true},
    [FRAMER_TRAILER_START] = {framer_take_trailer, false},
    [FRAMER_TRAILER_NAME] = {framer_take_trailer, false},
    [FRAMER_TRAILER_VALUE] = {framer_take_trailer, false},
    [FRAMER_TRAILER_LF] = {framer_end_trailer, false},
    [FRAMER_TRAILERS_LF] = {framer_end_trailers, false},
};

/* A chunk's digits go on as they arrived, without extensions; those of the last chunk once its trailers are known to be well-formed. */
static void give_size(struct framer *framer, struct outlet *out, const char *end)
{
    give(framer, out, framer->held, framer->held_count);
    give(framer, out, end, strlen(end));
    framer->held_count = 0;
}

static bool is_in_header(enum framer_stage stage)
{
    return stage >= FRAMER_LINE_START && stage <= FRAMER_HEAD_LF;
}

static void take(struct framer *framer, uint8_t byte, struct outlet *out)
{
    const enum framer_stage before = framer->stage;

    if (is_in_header(before) && ++framer->header_bytes > framer->limits.headers + 2)
        framer_refuse(framer, 431, "the headers are too large");
    else steps[before].run(framer, byte);
    if (framer->stage == FRAMER_REFUSED) return;
    if (before == FRAMER_SIZE_LF && framer->stage == FRAMER_CHUNK) give_size(framer, out, "\r\n");
    if (before == FRAMER_TRAILERS_LF) give_size(framer, out, "\r\n\r\n");
    if (steps[before].passes && framer->stage != FRAMER_START_LF) give(framer, out, &byte, 1);
}

static void give_run(struct framer *framer, struct outlet *out, const uint8_t *bytes, size_t length)
{
    if (out->destination + out->length == bytes) out->length += length; /* usually they are there already */
    else give(framer, out, bytes, length);
}

/* Skips the value of a header that the framer ignores, up to the first other byte or the limit, and returns how many bytes. */
static size_t skip_value(struct framer *framer, const uint8_t *bytes, size_t size, struct outlet *out)
{
    const size_t most = framer->limits.headers + 2 - framer->header_bytes, room = size < most ? size : most;
    size_t part = 0;

    if (framer->field != FRAMER_OTHER) return 0;
    while (part < room && framer_is_value_letter(bytes[part])) part++;
    framer->count += part;
    framer->header_bytes += part;
    give_run(framer, out, bytes, part);
    return part;
}

/* Skips bytes of a body unread, and returns how many. */
static size_t skip_body(struct framer *framer, const uint8_t *bytes, size_t size, struct outlet *out)
{
    const size_t part = size < framer->left ? size : (size_t)framer->left;

    if (framer->stage != FRAMER_BODY && framer->stage != FRAMER_CHUNK) return 0;
    give_run(framer, out, bytes, part);
    framer->left -= part;
    if (framer->left == 0) framer->stage = framer->stage == FRAMER_BODY ? FRAMER_START : FRAMER_CHUNK_CR;
    return part;
}

void framer_begin(struct framer *framer, const struct http_limits *limits)
{
    *framer = (struct framer){.limits = *limits};
}

bool framer_is_holding(const struct framer *framer)
{
    return framer->held_count > 0 || framer->queued_count > 0;
}

size_t framer_pass(struct framer *framer, uint8_t *destination, size_t size)
{
    struct outlet out = {destination, 0};

    for (size_t at = 0; at < size && framer->stage != FRAMER_REFUSED;) {
        const size_t skipped = framer->stage == FRAMER_VALUE ? skip_value(framer, destination + at, size - at, &out)
                                                             : skip_body(framer, destination + at, size - at, &out);
        at += skipped;
        if (skipped == 0) take(framer, destination[at++], &out);
    }
    return out.length;
}

void framer_pass_one(struct framer *framer, uint8_t byte)
{
    struct outlet out = {0};

    if (framer->stage == FRAMER_REFUSED) return;
    if (skip_body(framer, &byte, 1, &out) == 0) take(framer, byte, &out);
}

size_t framer_take_queued(struct framer *framer, uint8_t *destination, size_t room)
{
    const size_t part = room < framer->queued_count ? room : framer->queued_count;

    memcpy(destination, framer->queued, part);
    framer->queued_count -= part;
    memmove(framer->queued, framer->queued + part, framer->queued_count);
    return part;
}
