#include "gateway/http/framer.h"

#include <string.h>
#include <strings.h>

#define METHOD_MAX    32  /* the longest that is registered has 17 letters */
#define ARGUMENTS_MAX 128 /* twice what gateway/http/query.h takes: libmicrohttpd has memory for that many */
#define COOKIE_MAX    1024
#define LINES_MAX     2   /* empty ones before a request (RFC 9112 section 2.2) */
#define DIGITS_MAX    18  /* of a Content-Length */

static const char version[] = "HTTP/1.1", coding[] = "chunked";

/* Where the bytes go that pass: never behind the one that is being looked at, or into what is owed. */
struct outlet {
    uint8_t *place; /* NULL: all is owed */
    size_t length;
};

static void owe(struct framer *framer, const char *text, size_t length)
{
    if (length > FRAMER_END_MAX - framer->owed_count) length = FRAMER_END_MAX - framer->owed_count;
    memcpy(framer->owed + framer->owed_count, text, length);
    framer->owed_count += length;
}

static void give(struct framer *framer, struct outlet *out, const void *bytes, size_t length)
{
    if (out->place == NULL) {
        owe(framer, bytes, length);
        return;
    }
    memmove(out->place + out->length, bytes, length);
    out->length += length;
}

/* ---- Refusing ---- */

/* The shortest text that makes a whole request of what has passed so far. */
static void owe_end(struct framer *framer)
{
    static const char *const ends[FRAMER_STAGES] = {
        [FRAMER_START] = "X / HTTP/1.1\r\n\r\n", [FRAMER_START_LF] = "X / HTTP/1.1\r\n\r\n",
        [FRAMER_METHOD] = " / HTTP/1.1\r\n\r\n", [FRAMER_TARGET] = " HTTP/1.1\r\n\r\n",
        [FRAMER_LINE_LF] = "\n\r\n",  [FRAMER_LINE_START] = "\r\n",   [FRAMER_NAME] = "q:x\r\n\r\n", [FRAMER_BLANKS] = "0\r\n\r\n",
        [FRAMER_VALUE] = "0\r\n\r\n", [FRAMER_HEAD_LF] = "\n",        [FRAMER_SIZE] = "0\r\n\r\n",   [FRAMER_EXTENSION] = "0\r\n\r\n",
        [FRAMER_SIZE_LF] = "0\r\n\r\n", [FRAMER_CHUNK_CR] = "\r\n0\r\n\r\n", [FRAMER_CHUNK_LF] = "\n0\r\n\r\n",
        [FRAMER_TRAILER_START] = "0\r\n\r\n", [FRAMER_TRAILER_NAME] = "0\r\n\r\n", [FRAMER_TRAILER_VALUE] = "0\r\n\r\n",
        [FRAMER_TRAILER_LF] = "0\r\n\r\n", [FRAMER_TRAILERS_LF] = "0\r\n\r\n",
    };
    const char *end = ends[framer->stage];

    if (framer->stage == FRAMER_TARGET && framer->count == 0) owe(framer, "/", 1);
    if (framer->stage == FRAMER_VERSION) {
        if (framer->count < sizeof version - 1) owe(framer, version + framer->count, sizeof version - 1 - framer->count);
        end = "\r\n\r\n";
    }
    if (end != NULL) owe(framer, end, strlen(end));
}

static void refuse(struct framer *framer, unsigned status, const char *why)
{
    if (framer->stage == FRAMER_START || framer->stage == FRAMER_START_LF) framer->requests++;
    owe_end(framer);
    framer->held_count = 0;
    framer->refusal = (struct http_refusal){.status = status, .why = why};
    framer->stage = FRAMER_REFUSED;
}

static void expect_lf(struct framer *framer, uint8_t byte, enum framer_stage next)
{
    if (byte == '\n') framer->stage = next;
    else refuse(framer, 400, "a line ends in CR alone");
}

/* ---- The head ---- */

/* RFC 9110 section 5.6.2. */
static bool is_token_letter(uint8_t byte)
{
    return byte > ' ' && byte < 0x7f && strchr("\"(),/:;<=>?@[\\]{}", byte) == NULL;
}

/* Printable ASCII and tabs: other bytes have no meaning that two readers share (RFC 9110 section 5.5). */
static bool is_value_letter(uint8_t byte)
{
    return (byte >= ' ' && byte < 0x7f) || byte == '\t';
}

static void enter(struct framer *framer, enum framer_stage stage)
{
    framer->stage = stage;
    framer->count = 0;
}

static void begin_head(struct framer *framer)
{
    framer->requests++;
    framer->header_bytes = framer->headers = framer->arguments = framer->empty_lines = 0;
    framer->is_old = framer->has_length = framer->is_chunked = framer->is_query = false;
    framer->left = 0;
    enter(framer, FRAMER_METHOD);
}

/* Empty lines before a request are left out. */
static void take_start(struct framer *framer, uint8_t byte)
{
    if (byte == '\r' && framer->empty_lines < LINES_MAX) {
        framer->empty_lines++;
        framer->stage = FRAMER_START_LF;
    } else if (!is_token_letter(byte)) {
        refuse(framer, 400, "the method is not a token");
    } else {
        begin_head(framer);
        framer->count = 1;
    }
}

static void end_empty_line(struct framer *framer, uint8_t byte)
{
    expect_lf(framer, byte, FRAMER_START);
}

static void take_method(struct framer *framer, uint8_t byte)
{
    if (byte == ' ' && framer->count > 0) enter(framer, FRAMER_TARGET);
    else if (!is_token_letter(byte) || framer->count >= METHOD_MAX) refuse(framer, 400, "the method is not a token");
    else framer->count++;
}

/* In a path below /v2 it is a repository's name in another alphabet, as curl sends it. */
static void refuse_letter(struct framer *framer)
{
    refuse(framer, 400, "the request target holds a character that must be percent-encoded");
    framer->refusal.is_of_path = !framer->is_query;
}

static void take_target(struct framer *framer, uint8_t byte)
{
    if (byte == '?') framer->is_query = true;
    if (framer->is_query && byte == '&') framer->arguments++;
    if (byte == ' ' && framer->count > 0) enter(framer, FRAMER_VERSION);
    else if (byte >= 0x80) refuse_letter(framer);
    else if (byte <= ' ' || byte == 0x7f) refuse(framer, 400, "the request line is not METHOD TARGET HTTP/1.1, with one blank between each");
    else if (++framer->count > framer->limits.path + framer->limits.query) refuse(framer, 414, "the request target is too long");
    else if (framer->arguments >= ARGUMENTS_MAX) refuse(framer, 414, "the query has too many arguments");
}

static void take_version(struct framer *framer, uint8_t byte)
{
    const size_t last = sizeof version - 2;

    if (framer->count > last && byte == '\r') framer->stage = FRAMER_LINE_LF;
    else if (framer->count > last) refuse(framer, 400, "the request line does not end after the version");
    else if (framer->count == last && byte == '0') framer->is_old = true;
    else if (framer->count >= 5 && byte != (uint8_t)version[framer->count] && (byte == '.' || (byte >= '0' && byte <= '9')))
        refuse(framer, 505, "HTTP/1.1 only");
    else if (byte != (uint8_t)version[framer->count]) refuse(framer, 400, "the request line is not METHOD TARGET HTTP/1.1, with one blank between each");
    if (framer->stage == FRAMER_VERSION) framer->count++;
}

static void end_line(struct framer *framer, uint8_t byte)
{
    expect_lf(framer, byte, FRAMER_LINE_START);
}

static void take_line_start(struct framer *framer, uint8_t byte)
{
    if (byte == '\r') {
        framer->stage = FRAMER_HEAD_LF;
    } else if (byte == ' ' || byte == '\t') {
        refuse(framer, 400, "a header is folded");
    } else if (!is_token_letter(byte)) {
        refuse(framer, 400, "a header's name is not a token");
    } else if (++framer->headers > REQUEST_HEADERS_MAX) {
        refuse(framer, 431, "too many headers");
    } else {
        enter(framer, FRAMER_NAME);
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
        if (framer->count == strlen(known[i].name) && strncasecmp(framer->name, known[i].name, framer->count) == 0) return known[i].field;
    return FRAMER_OTHER;
}

static void begin_value(struct framer *framer)
{
    const bool is_framed = framer->has_length || framer->is_chunked;

    framer->field = field_of(framer);
    framer->has_length = framer->has_length || framer->field == FRAMER_LENGTH;
    framer->is_chunked = framer->is_chunked || framer->field == FRAMER_CODING;
    if (is_framed && (framer->field == FRAMER_LENGTH || framer->field == FRAMER_CODING))
        refuse(framer, 400, "Content-Length and Transfer-Encoding exclude each other, and stand once");
    else if (framer->field == FRAMER_CODING && framer->is_old) refuse(framer, 400, "HTTP/1.0 has no Transfer-Encoding");
    else enter(framer, FRAMER_BLANKS);
}

static void take_name(struct framer *framer, uint8_t byte)
{
    if (byte == ':') {
        begin_value(framer);
    } else if (!is_token_letter(byte)) {
        refuse(framer, 400, "a header's name is not a token");
    } else {
        if (framer->count < FRAMER_NAME_MAX) framer->name[framer->count] = (char)byte;
        framer->count++;
    }
}

static void take_length(struct framer *framer, uint8_t byte)
{
    if (byte < '0' || byte > '9' || (framer->count > 0 && framer->left == 0)) {
        refuse(framer, 400, "Content-Length is not a number");
    } else if (framer->count >= DIGITS_MAX) {
        refuse(framer, 413, "Content-Length is too large");
    } else {
        framer->left = 10 * framer->left + (uint64_t)(byte - '0');
    }
}

static void take_coding(struct framer *framer, uint8_t byte)
{
    const uint8_t small = byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte + ('a' - 'A')) : byte;

    if (framer->count >= sizeof coding - 1 || small != (uint8_t)coding[framer->count]) refuse(framer, 400, "the only Transfer-Encoding is chunked");
}

static void end_value(struct framer *framer)
{
    if (framer->field == FRAMER_LENGTH && framer->count == 0) refuse(framer, 400, "Content-Length is not a number");
    else if (framer->field == FRAMER_CODING && framer->count != sizeof coding - 1) refuse(framer, 400, "the only Transfer-Encoding is chunked");
    else framer->stage = FRAMER_LINE_LF;
}

static void take_value(struct framer *framer, uint8_t byte)
{
    if (byte == '\r') {
        end_value(framer);
        return;
    }
    if (!is_value_letter(byte)) refuse(framer, 400, "header lines end in CRLF, and hold printable ASCII");
    else if (framer->field == FRAMER_LENGTH) take_length(framer, byte);
    else if (framer->field == FRAMER_CODING) take_coding(framer, byte);
    else if (framer->field == FRAMER_COOKIE && framer->count >= COOKIE_MAX) refuse(framer, 431, "cookies are not read here, and these are too large");
    if (framer->stage == FRAMER_VALUE) framer->count++;
}

/* RFC 9112 section 5: blanks before a value are no part of it. */
static void take_blanks(struct framer *framer, uint8_t byte)
{
    if (byte == ' ' || byte == '\t') return;
    framer->stage = FRAMER_VALUE;
    take_value(framer, byte);
}

static void end_head(struct framer *framer, uint8_t byte)
{
    expect_lf(framer, byte, framer->is_chunked ? FRAMER_SIZE : framer->left > 0 ? FRAMER_BODY : FRAMER_START);
    framer->count = 0;
}

/* ---- Chunks: RFC 9112 section 7.1 ---- */

static int digit_of(uint8_t byte)
{
    if (byte >= '0' && byte <= '9') return byte - '0';
    if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
    return -1;
}

static void take_size(struct framer *framer, uint8_t byte)
{
    const int digit = digit_of(byte);

    if (digit >= 0 && framer->held_count < FRAMER_HELD_MAX) {
        framer->left = (framer->held_count == 0 ? 0 : 16 * framer->left) + (uint64_t)digit;
        framer->held[framer->held_count++] = (char)byte;
    } else if (digit >= 0) {
        refuse(framer, 413, "a chunk's size has too many digits");
    } else if (framer->held_count > 0 && byte == ';') {
        enter(framer, FRAMER_EXTENSION);
    } else if (framer->held_count > 0 && byte == '\r') {
        framer->stage = FRAMER_SIZE_LF;
    } else {
        refuse(framer, 400, "a chunk's size is a hexadecimal number, and its line ends in CRLF");
    }
}

static void take_extension(struct framer *framer, uint8_t byte)
{
    if (byte == '\r') framer->stage = FRAMER_SIZE_LF;
    else if (!is_value_letter(byte)) refuse(framer, 400, "a chunk's line ends in CRLF, and holds printable ASCII");
    else if (++framer->count > FRAMER_EXTENSION_MAX) refuse(framer, 400, "the extensions of a chunk are too long");
}

static void end_size(struct framer *framer, uint8_t byte)
{
    expect_lf(framer, byte, framer->left > 0 ? FRAMER_CHUNK : FRAMER_TRAILER_START);
    framer->count = 0;
}

static void begin_chunk_end(struct framer *framer, uint8_t byte)
{
    if (byte == '\r') framer->stage = FRAMER_CHUNK_LF;
    else refuse(framer, 400, "a chunk is longer than it says, or does not end in CRLF");
}

static void end_chunk(struct framer *framer, uint8_t byte)
{
    expect_lf(framer, byte, FRAMER_SIZE);
}

static void take_trailer(struct framer *framer, uint8_t byte)
{
    if (++framer->count > FRAMER_TRAILERS_MAX) {
        refuse(framer, 431, "the trailers are too large");
    } else if (framer->stage == FRAMER_TRAILER_START) {
        if (byte == '\r') framer->stage = FRAMER_TRAILERS_LF;
        else if (is_token_letter(byte)) framer->stage = FRAMER_TRAILER_NAME;
        else refuse(framer, 400, "a trailer's name is not a token");
    } else if (framer->stage == FRAMER_TRAILER_NAME) {
        if (byte == ':') framer->stage = FRAMER_TRAILER_VALUE;
        else if (!is_token_letter(byte)) refuse(framer, 400, "a trailer's name is not a token");
    } else {
        if (byte == '\r') framer->stage = FRAMER_TRAILER_LF;
        else if (!is_value_letter(byte)) refuse(framer, 400, "trailers end in CRLF, and hold printable ASCII");
    }
}

static void end_trailer(struct framer *framer, uint8_t byte)
{
    expect_lf(framer, byte, FRAMER_TRAILER_START);
}

static void end_trailers(struct framer *framer, uint8_t byte)
{
    expect_lf(framer, byte, FRAMER_START);
}

/* ---- All ---- */

static const struct step {
    void (*run)(struct framer *framer, uint8_t byte); /* NULL: bytes of a body, or nobody's */
    bool passes;                                    /* the byte goes on if it was good */
} steps[FRAMER_STAGES] = {
    [FRAMER_START] = {take_start, true},          [FRAMER_START_LF] = {end_empty_line, false},
    [FRAMER_METHOD] = {take_method, true},        [FRAMER_TARGET] = {take_target, true},
    [FRAMER_VERSION] = {take_version, true},      [FRAMER_LINE_LF] = {end_line, true},
    [FRAMER_LINE_START] = {take_line_start, true}, [FRAMER_NAME] = {take_name, true},
    [FRAMER_BLANKS] = {take_blanks, true},        [FRAMER_VALUE] = {take_value, true},
    [FRAMER_HEAD_LF] = {end_head, true},          [FRAMER_SIZE] = {take_size, false},
    [FRAMER_EXTENSION] = {take_extension, false}, [FRAMER_SIZE_LF] = {end_size, false},
    [FRAMER_CHUNK_CR] = {begin_chunk_end, true},  [FRAMER_CHUNK_LF] = {end_chunk, true},
    [FRAMER_TRAILER_START] = {take_trailer, false}, [FRAMER_TRAILER_NAME] = {take_trailer, false},
    [FRAMER_TRAILER_VALUE] = {take_trailer, false}, [FRAMER_TRAILER_LF] = {end_trailer, false},
    [FRAMER_TRAILERS_LF] = {end_trailers, false},
};

/* A chunk's digits go on as they came, without extensions; those of the last chunk once its trailers were found good. */
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

    if (is_in_header(before) && ++framer->header_bytes > framer->limits.headers + 2) refuse(framer, 431, "the headers are too large");
    else steps[before].run(framer, byte);
    if (framer->stage == FRAMER_REFUSED) return;
    if (before == FRAMER_SIZE_LF && framer->stage == FRAMER_CHUNK) give_size(framer, out, "\r\n");
    if (before == FRAMER_TRAILERS_LF) give_size(framer, out, "\r\n\r\n");
    if (steps[before].passes && framer->stage != FRAMER_START_LF) give(framer, out, &byte, 1);
}

static void give_run(struct framer *framer, struct outlet *out, const uint8_t *bytes, size_t length)
{
    if (out->place + out->length == bytes) out->length += length; /* as a rule they stand there already */
    else give(framer, out, bytes, length);
}

/* The letters of a value that means nothing here, up to what is no letter or beyond the limit; how many there were. */
static size_t skip_value(struct framer *framer, const uint8_t *bytes, size_t size, struct outlet *out)
{
    const size_t most = framer->limits.headers + 2 - framer->header_bytes, room = size < most ? size : most;
    size_t part = 0;

    if (framer->field != FRAMER_OTHER) return 0;
    while (part < room && is_value_letter(bytes[part])) part++;
    framer->count += part;
    framer->header_bytes += part;
    give_run(framer, out, bytes, part);
    return part;
}

/* Bytes of a body, which nobody looks at; how many there were. */
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
    return framer->held_count > 0 || framer->owed_count > 0;
}

size_t framer_pass(struct framer *framer, uint8_t *place, size_t size)
{
    struct outlet out = {place, 0};

    for (size_t at = 0; at < size && framer->stage != FRAMER_REFUSED;) {
        const size_t skipped = framer->stage == FRAMER_VALUE ? skip_value(framer, place + at, size - at, &out) : skip_body(framer, place + at, size - at, &out);
        at += skipped;
        if (skipped == 0) take(framer, place[at++], &out);
    }
    return out.length;
}

void framer_pass_one(struct framer *framer, uint8_t byte)
{
    struct outlet out = {0};

    if (framer->stage == FRAMER_REFUSED) return;
    if (skip_body(framer, &byte, 1, &out) == 0) take(framer, byte, &out);
}

size_t framer_pay(struct framer *framer, uint8_t *place, size_t room)
{
    const size_t part = room < framer->owed_count ? room : framer->owed_count;

    memcpy(place, framer->owed, part);
    framer->owed_count -= part;
    memmove(framer->owed, framer->owed + part, framer->owed_count);
    return part;
}
