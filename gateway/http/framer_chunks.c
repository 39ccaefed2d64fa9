/* Chunked bodies: RFC 9112 section 7.1. */
#include "gateway/http/framer_priv.h"

static int digit_of(uint8_t byte)
{
    if (byte >= '0' && byte <= '9') return byte - '0';
    if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
    return -1;
}

void framer_take_size(struct framer *framer, uint8_t byte)
{
    const int digit = digit_of(byte);

    if (digit >= 0 && framer->held_count < FRAMER_HELD_MAX) {
        framer->left = (framer->held_count == 0 ? 0 : 16 * framer->left) + (uint64_t)digit;
        framer->held[framer->held_count++] = (char)byte;
    } else if (digit >= 0) {
        framer_refuse(framer, 413, "a chunk's size has too many digits");
    } else if (framer->held_count > 0 && byte == ';') {
        framer_enter(framer, FRAMER_EXTENSION);
    } else if (framer->held_count > 0 && byte == '\r') {
        framer->stage = FRAMER_SIZE_LF;
    } else {
        framer_refuse(framer, 400, "a chunk's size is a hexadecimal number, and its line ends in CRLF");
    }
}

void framer_take_extension(struct framer *framer, uint8_t byte)
{
    if (byte == '\r') framer->stage = FRAMER_SIZE_LF;
    else if (!framer_is_value_letter(byte)) framer_refuse(framer, 400, "a chunk's line ends in CRLF, and holds printable ASCII");
    else if (++framer->count > FRAMER_EXTENSION_MAX) framer_refuse(framer, 400, "the extensions of a chunk are too long");
}

void framer_end_size(struct framer *framer, uint8_t byte)
{
    framer_expect_lf(framer, byte, framer->left > 0 ? FRAMER_CHUNK : FRAMER_TRAILER_START);
    framer->count = 0;
}

void framer_begin_chunk_end(struct framer *framer, uint8_t byte)
{
    if (byte == '\r') framer->stage = FRAMER_CHUNK_LF;
    else framer_refuse(framer, 400, "a chunk is longer than it says, or does not end in CRLF");
}

void framer_end_chunk(struct framer *framer, uint8_t byte)
{
    framer_expect_lf(framer, byte, FRAMER_SIZE);
}

void framer_take_trailer(struct framer *framer, uint8_t byte)
{
    if (++framer->count > FRAMER_TRAILERS_MAX) {
        framer_refuse(framer, 431, "the trailers are too large");
    } else if (framer->stage == FRAMER_TRAILER_START) {
        if (byte == '\r') framer->stage = FRAMER_TRAILERS_LF;
        else if (framer_is_token_letter(byte)) framer->stage = FRAMER_TRAILER_NAME;
        else framer_refuse(framer, 400, "a trailer's name is not a token");
    } else if (framer->stage == FRAMER_TRAILER_NAME) {
        if (byte == ':') framer->stage = FRAMER_TRAILER_VALUE;
        else if (!framer_is_token_letter(byte)) framer_refuse(framer, 400, "a trailer's name is not a token");
    } else {
        if (byte == '\r') framer->stage = FRAMER_TRAILER_LF;
        else if (!framer_is_value_letter(byte)) framer_refuse(framer, 400, "trailers end in CRLF, and hold printable ASCII");
    }
}

void framer_end_trailer(struct framer *framer, uint8_t byte)
{
    framer_expect_lf(framer, byte, FRAMER_TRAILER_START);
}

void framer_end_trailers(struct framer *framer, uint8_t byte)
{
    framer_expect_lf(framer, byte, FRAMER_START);
}
