#include "gateway/http/inlet.h"

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

static void owe(struct inlet *inlet, const char *text, size_t length)
{
    if (length > INLET_END_MAX - inlet->owed_count) length = INLET_END_MAX - inlet->owed_count;
    memcpy(inlet->owed + inlet->owed_count, text, length);
    inlet->owed_count += length;
}

static void give(struct inlet *inlet, struct outlet *out, const void *bytes, size_t length)
{
    if (out->place == NULL) {
        owe(inlet, bytes, length);
        return;
    }
    memmove(out->place + out->length, bytes, length);
    out->length += length;
}

/* ---- Refusing ---- */

/* The shortest text that makes a whole request of what has passed so far. */
static void owe_end(struct inlet *inlet)
{
    static const char *const ends[INLET_STAGES] = {
        [INLET_START] = "X / HTTP/1.1\r\n\r\n", [INLET_START_LF] = "X / HTTP/1.1\r\n\r\n",
        [INLET_METHOD] = " / HTTP/1.1\r\n\r\n", [INLET_TARGET] = " HTTP/1.1\r\n\r\n",
        [INLET_LINE_LF] = "\n\r\n",  [INLET_LINE_START] = "\r\n",   [INLET_NAME] = "q:x\r\n\r\n", [INLET_BLANKS] = "0\r\n\r\n",
        [INLET_VALUE] = "0\r\n\r\n", [INLET_HEAD_LF] = "\n",        [INLET_SIZE] = "0\r\n\r\n",   [INLET_EXTENSION] = "0\r\n\r\n",
        [INLET_SIZE_LF] = "0\r\n\r\n", [INLET_CHUNK_CR] = "\r\n0\r\n\r\n", [INLET_CHUNK_LF] = "\n0\r\n\r\n",
        [INLET_TRAILER_START] = "0\r\n\r\n", [INLET_TRAILER_NAME] = "0\r\n\r\n", [INLET_TRAILER_VALUE] = "0\r\n\r\n",
        [INLET_TRAILER_LF] = "0\r\n\r\n", [INLET_TRAILERS_LF] = "0\r\n\r\n",
    };
    const char *end = ends[inlet->stage];

    if (inlet->stage == INLET_TARGET && inlet->count == 0) owe(inlet, "/", 1);
    if (inlet->stage == INLET_VERSION) {
        if (inlet->count < sizeof version - 1) owe(inlet, version + inlet->count, sizeof version - 1 - inlet->count);
        end = "\r\n\r\n";
    }
    if (end != NULL) owe(inlet, end, strlen(end));
}

static void refuse(struct inlet *inlet, unsigned status, const char *why)
{
    if (inlet->stage == INLET_START || inlet->stage == INLET_START_LF) inlet->requests++;
    owe_end(inlet);
    inlet->held_count = 0;
    inlet->refusal = (struct http_refusal){.status = status, .why = why};
    inlet->stage = INLET_REFUSED;
}

static void expect_lf(struct inlet *inlet, uint8_t byte, enum inlet_stage next)
{
    if (byte == '\n') inlet->stage = next;
    else refuse(inlet, 400, "a line ends in CR alone");
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

static void enter(struct inlet *inlet, enum inlet_stage stage)
{
    inlet->stage = stage;
    inlet->count = 0;
}

static void begin_head(struct inlet *inlet)
{
    inlet->requests++;
    inlet->header_bytes = inlet->headers = inlet->arguments = inlet->empty_lines = 0;
    inlet->is_old = inlet->has_length = inlet->is_chunked = inlet->is_query = false;
    inlet->left = 0;
    enter(inlet, INLET_METHOD);
}

/* Empty lines before a request are left out. */
static void take_start(struct inlet *inlet, uint8_t byte)
{
    if (byte == '\r' && inlet->empty_lines < LINES_MAX) {
        inlet->empty_lines++;
        inlet->stage = INLET_START_LF;
    } else if (!is_token_letter(byte)) {
        refuse(inlet, 400, "the method is not a token");
    } else {
        begin_head(inlet);
        inlet->count = 1;
    }
}

static void end_empty_line(struct inlet *inlet, uint8_t byte)
{
    expect_lf(inlet, byte, INLET_START);
}

static void take_method(struct inlet *inlet, uint8_t byte)
{
    if (byte == ' ' && inlet->count > 0) enter(inlet, INLET_TARGET);
    else if (!is_token_letter(byte) || inlet->count >= METHOD_MAX) refuse(inlet, 400, "the method is not a token");
    else inlet->count++;
}

/* In a path below /v2 it is a repository's name in another alphabet, as curl sends it. */
static void refuse_letter(struct inlet *inlet)
{
    refuse(inlet, 400, "the request target holds a character that must be percent-encoded");
    inlet->refusal.is_of_path = !inlet->is_query;
}

static void take_target(struct inlet *inlet, uint8_t byte)
{
    if (byte == '?') inlet->is_query = true;
    if (inlet->is_query && byte == '&') inlet->arguments++;
    if (byte == ' ' && inlet->count > 0) enter(inlet, INLET_VERSION);
    else if (byte >= 0x80) refuse_letter(inlet);
    else if (byte <= ' ' || byte == 0x7f) refuse(inlet, 400, "the request line is not METHOD TARGET HTTP/1.1, with one blank between each");
    else if (++inlet->count > inlet->limits.path + inlet->limits.query) refuse(inlet, 414, "the request target is too long");
    else if (inlet->arguments >= ARGUMENTS_MAX) refuse(inlet, 414, "the query has too many arguments");
}

static void take_version(struct inlet *inlet, uint8_t byte)
{
    const size_t last = sizeof version - 2;

    if (inlet->count > last && byte == '\r') inlet->stage = INLET_LINE_LF;
    else if (inlet->count > last) refuse(inlet, 400, "the request line does not end after the version");
    else if (inlet->count == last && byte == '0') inlet->is_old = true;
    else if (inlet->count >= 5 && byte != (uint8_t)version[inlet->count] && (byte == '.' || (byte >= '0' && byte <= '9')))
        refuse(inlet, 505, "HTTP/1.1 only");
    else if (byte != (uint8_t)version[inlet->count]) refuse(inlet, 400, "the request line is not METHOD TARGET HTTP/1.1, with one blank between each");
    if (inlet->stage == INLET_VERSION) inlet->count++;
}

static void end_line(struct inlet *inlet, uint8_t byte)
{
    expect_lf(inlet, byte, INLET_LINE_START);
}

static void take_line_start(struct inlet *inlet, uint8_t byte)
{
    if (byte == '\r') {
        inlet->stage = INLET_HEAD_LF;
    } else if (byte == ' ' || byte == '\t') {
        refuse(inlet, 400, "a header is folded");
    } else if (!is_token_letter(byte)) {
        refuse(inlet, 400, "a header's name is not a token");
    } else if (++inlet->headers > REQUEST_HEADERS_MAX) {
        refuse(inlet, 431, "too many headers");
    } else {
        enter(inlet, INLET_NAME);
        inlet->name[inlet->count++] = (char)byte;
    }
}

static enum inlet_field field_of(const struct inlet *inlet)
{
    static const struct {
        const char *name;
        enum inlet_field field;
    } known[] = {{"Content-Length", INLET_LENGTH}, {"Transfer-Encoding", INLET_CODING}, {"Cookie", INLET_COOKIE}};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (inlet->count == strlen(known[i].name) && strncasecmp(inlet->name, known[i].name, inlet->count) == 0) return known[i].field;
    return INLET_OTHER;
}

static void begin_value(struct inlet *inlet)
{
    const bool is_framed = inlet->has_length || inlet->is_chunked;

    inlet->field = field_of(inlet);
    inlet->has_length = inlet->has_length || inlet->field == INLET_LENGTH;
    inlet->is_chunked = inlet->is_chunked || inlet->field == INLET_CODING;
    if (is_framed && (inlet->field == INLET_LENGTH || inlet->field == INLET_CODING))
        refuse(inlet, 400, "Content-Length and Transfer-Encoding exclude each other, and stand once");
    else if (inlet->field == INLET_CODING && inlet->is_old) refuse(inlet, 400, "HTTP/1.0 has no Transfer-Encoding");
    else enter(inlet, INLET_BLANKS);
}

static void take_name(struct inlet *inlet, uint8_t byte)
{
    if (byte == ':') {
        begin_value(inlet);
    } else if (!is_token_letter(byte)) {
        refuse(inlet, 400, "a header's name is not a token");
    } else {
        if (inlet->count < INLET_NAME_MAX) inlet->name[inlet->count] = (char)byte;
        inlet->count++;
    }
}

static void take_length(struct inlet *inlet, uint8_t byte)
{
    if (byte < '0' || byte > '9' || (inlet->count > 0 && inlet->left == 0)) {
        refuse(inlet, 400, "Content-Length is not a number");
    } else if (inlet->count >= DIGITS_MAX) {
        refuse(inlet, 413, "Content-Length is too large");
    } else {
        inlet->left = 10 * inlet->left + (uint64_t)(byte - '0');
    }
}

static void take_coding(struct inlet *inlet, uint8_t byte)
{
    const uint8_t small = byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte + ('a' - 'A')) : byte;

    if (inlet->count >= sizeof coding - 1 || small != (uint8_t)coding[inlet->count]) refuse(inlet, 400, "the only Transfer-Encoding is chunked");
}

static void end_value(struct inlet *inlet)
{
    if (inlet->field == INLET_LENGTH && inlet->count == 0) refuse(inlet, 400, "Content-Length is not a number");
    else if (inlet->field == INLET_CODING && inlet->count != sizeof coding - 1) refuse(inlet, 400, "the only Transfer-Encoding is chunked");
    else inlet->stage = INLET_LINE_LF;
}

static void take_value(struct inlet *inlet, uint8_t byte)
{
    if (byte == '\r') {
        end_value(inlet);
        return;
    }
    if (!is_value_letter(byte)) refuse(inlet, 400, "header lines end in CRLF, and hold printable ASCII");
    else if (inlet->field == INLET_LENGTH) take_length(inlet, byte);
    else if (inlet->field == INLET_CODING) take_coding(inlet, byte);
    else if (inlet->field == INLET_COOKIE && inlet->count >= COOKIE_MAX) refuse(inlet, 431, "cookies are not read here, and these are too large");
    if (inlet->stage == INLET_VALUE) inlet->count++;
}

/* RFC 9112 section 5: blanks before a value are no part of it. */
static void take_blanks(struct inlet *inlet, uint8_t byte)
{
    if (byte == ' ' || byte == '\t') return;
    inlet->stage = INLET_VALUE;
    take_value(inlet, byte);
}

static void end_head(struct inlet *inlet, uint8_t byte)
{
    expect_lf(inlet, byte, inlet->is_chunked ? INLET_SIZE : inlet->left > 0 ? INLET_BODY : INLET_START);
    inlet->count = 0;
}

/* ---- Chunks: RFC 9112 section 7.1 ---- */

static int digit_of(uint8_t byte)
{
    if (byte >= '0' && byte <= '9') return byte - '0';
    if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
    return -1;
}

static void take_size(struct inlet *inlet, uint8_t byte)
{
    const int digit = digit_of(byte);

    if (digit >= 0 && inlet->held_count < INLET_HELD_MAX) {
        inlet->left = (inlet->held_count == 0 ? 0 : 16 * inlet->left) + (uint64_t)digit;
        inlet->held[inlet->held_count++] = (char)byte;
    } else if (digit >= 0) {
        refuse(inlet, 413, "a chunk's size has too many digits");
    } else if (inlet->held_count > 0 && byte == ';') {
        enter(inlet, INLET_EXTENSION);
    } else if (inlet->held_count > 0 && byte == '\r') {
        inlet->stage = INLET_SIZE_LF;
    } else {
        refuse(inlet, 400, "a chunk's size is a hexadecimal number, and its line ends in CRLF");
    }
}

static void take_extension(struct inlet *inlet, uint8_t byte)
{
    if (byte == '\r') inlet->stage = INLET_SIZE_LF;
    else if (!is_value_letter(byte)) refuse(inlet, 400, "a chunk's line ends in CRLF, and holds printable ASCII");
    else if (++inlet->count > INLET_EXTENSION_MAX) refuse(inlet, 400, "the extensions of a chunk are too long");
}

static void end_size(struct inlet *inlet, uint8_t byte)
{
    expect_lf(inlet, byte, inlet->left > 0 ? INLET_CHUNK : INLET_TRAILER_START);
    inlet->count = 0;
}

static void begin_chunk_end(struct inlet *inlet, uint8_t byte)
{
    if (byte == '\r') inlet->stage = INLET_CHUNK_LF;
    else refuse(inlet, 400, "a chunk is longer than it says, or does not end in CRLF");
}

static void end_chunk(struct inlet *inlet, uint8_t byte)
{
    expect_lf(inlet, byte, INLET_SIZE);
}

static void take_trailer(struct inlet *inlet, uint8_t byte)
{
    if (++inlet->count > INLET_TRAILERS_MAX) {
        refuse(inlet, 431, "the trailers are too large");
    } else if (inlet->stage == INLET_TRAILER_START) {
        if (byte == '\r') inlet->stage = INLET_TRAILERS_LF;
        else if (is_token_letter(byte)) inlet->stage = INLET_TRAILER_NAME;
        else refuse(inlet, 400, "a trailer's name is not a token");
    } else if (inlet->stage == INLET_TRAILER_NAME) {
        if (byte == ':') inlet->stage = INLET_TRAILER_VALUE;
        else if (!is_token_letter(byte)) refuse(inlet, 400, "a trailer's name is not a token");
    } else {
        if (byte == '\r') inlet->stage = INLET_TRAILER_LF;
        else if (!is_value_letter(byte)) refuse(inlet, 400, "trailers end in CRLF, and hold printable ASCII");
    }
}

static void end_trailer(struct inlet *inlet, uint8_t byte)
{
    expect_lf(inlet, byte, INLET_TRAILER_START);
}

static void end_trailers(struct inlet *inlet, uint8_t byte)
{
    expect_lf(inlet, byte, INLET_START);
}

/* ---- All ---- */

static const struct step {
    void (*run)(struct inlet *inlet, uint8_t byte); /* NULL: bytes of a body, or nobody's */
    bool passes;                                    /* the byte goes on if it was good */
} steps[INLET_STAGES] = {
    [INLET_START] = {take_start, true},          [INLET_START_LF] = {end_empty_line, false},
    [INLET_METHOD] = {take_method, true},        [INLET_TARGET] = {take_target, true},
    [INLET_VERSION] = {take_version, true},      [INLET_LINE_LF] = {end_line, true},
    [INLET_LINE_START] = {take_line_start, true}, [INLET_NAME] = {take_name, true},
    [INLET_BLANKS] = {take_blanks, true},        [INLET_VALUE] = {take_value, true},
    [INLET_HEAD_LF] = {end_head, true},          [INLET_SIZE] = {take_size, false},
    [INLET_EXTENSION] = {take_extension, false}, [INLET_SIZE_LF] = {end_size, false},
    [INLET_CHUNK_CR] = {begin_chunk_end, true},  [INLET_CHUNK_LF] = {end_chunk, true},
    [INLET_TRAILER_START] = {take_trailer, false}, [INLET_TRAILER_NAME] = {take_trailer, false},
    [INLET_TRAILER_VALUE] = {take_trailer, false}, [INLET_TRAILER_LF] = {end_trailer, false},
    [INLET_TRAILERS_LF] = {end_trailers, false},
};

/* A chunk's digits go on as they came, without extensions; those of the last chunk once its trailers were found good. */
static void give_size(struct inlet *inlet, struct outlet *out, const char *end)
{
    give(inlet, out, inlet->held, inlet->held_count);
    give(inlet, out, end, strlen(end));
    inlet->held_count = 0;
}

static bool is_in_header(enum inlet_stage stage)
{
    return stage >= INLET_LINE_START && stage <= INLET_HEAD_LF;
}

static void take(struct inlet *inlet, uint8_t byte, struct outlet *out)
{
    const enum inlet_stage before = inlet->stage;

    if (is_in_header(before) && ++inlet->header_bytes > inlet->limits.headers + 2) refuse(inlet, 431, "the headers are too large");
    else steps[before].run(inlet, byte);
    if (inlet->stage == INLET_REFUSED) return;
    if (before == INLET_SIZE_LF && inlet->stage == INLET_CHUNK) give_size(inlet, out, "\r\n");
    if (before == INLET_TRAILERS_LF) give_size(inlet, out, "\r\n\r\n");
    if (steps[before].passes && inlet->stage != INLET_START_LF) give(inlet, out, &byte, 1);
}

static void give_run(struct inlet *inlet, struct outlet *out, const uint8_t *bytes, size_t length)
{
    if (out->place + out->length == bytes) out->length += length; /* as a rule they stand there already */
    else give(inlet, out, bytes, length);
}

/* The letters of a value that means nothing here, up to what is no letter or beyond the limit; how many there were. */
static size_t skip_value(struct inlet *inlet, const uint8_t *bytes, size_t size, struct outlet *out)
{
    const size_t most = inlet->limits.headers + 2 - inlet->header_bytes, room = size < most ? size : most;
    size_t part = 0;

    if (inlet->field != INLET_OTHER) return 0;
    while (part < room && is_value_letter(bytes[part])) part++;
    inlet->count += part;
    inlet->header_bytes += part;
    give_run(inlet, out, bytes, part);
    return part;
}

/* Bytes of a body, which nobody looks at; how many there were. */
static size_t skip_body(struct inlet *inlet, const uint8_t *bytes, size_t size, struct outlet *out)
{
    const size_t part = size < inlet->left ? size : (size_t)inlet->left;

    if (inlet->stage != INLET_BODY && inlet->stage != INLET_CHUNK) return 0;
    give_run(inlet, out, bytes, part);
    inlet->left -= part;
    if (inlet->left == 0) inlet->stage = inlet->stage == INLET_BODY ? INLET_START : INLET_CHUNK_CR;
    return part;
}

void inlet_begin(struct inlet *inlet, const struct http_limits *limits)
{
    *inlet = (struct inlet){.limits = *limits};
}

bool inlet_is_holding(const struct inlet *inlet)
{
    return inlet->held_count > 0 || inlet->owed_count > 0;
}

size_t inlet_pass(struct inlet *inlet, uint8_t *place, size_t size)
{
    struct outlet out = {place, 0};

    for (size_t at = 0; at < size && inlet->stage != INLET_REFUSED;) {
        const size_t skipped = inlet->stage == INLET_VALUE ? skip_value(inlet, place + at, size - at, &out) : skip_body(inlet, place + at, size - at, &out);
        at += skipped;
        if (skipped == 0) take(inlet, place[at++], &out);
    }
    return out.length;
}

void inlet_pass_one(struct inlet *inlet, uint8_t byte)
{
    struct outlet out = {0};

    if (inlet->stage == INLET_REFUSED) return;
    if (skip_body(inlet, &byte, 1, &out) == 0) take(inlet, byte, &out);
}

size_t inlet_pay(struct inlet *inlet, uint8_t *place, size_t room)
{
    const size_t part = room < inlet->owed_count ? room : inlet->owed_count;

    memcpy(place, inlet->owed, part);
    inlet->owed_count -= part;
    memmove(inlet->owed, inlet->owed + part, inlet->owed_count);
    return part;
}
