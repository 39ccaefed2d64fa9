#include "base/text.h"

#include <string.h>

bool text_to_u64(struct bytes text, uint64_t maximum, uint64_t *value_out)
{
    uint64_t value = 0;

    if (text.length == 0 || text.length > 20 || (text.length > 1 && text.data[0] == '0')) return false;
    for (size_t i = 0; i < text.length; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        const uint64_t digit = (uint64_t)(text.data[i] - '0');
        if (value > (UINT64_MAX - digit) / 10) return false;
        value = value * 10 + digit;
    }
    if (value > maximum) return false;
    *value_out = value;
    return true;
}

void text_hex(const uint8_t *data, size_t length, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < length; i++) {
        out[2 * i] = digits[data[i] >> 4];
        out[2 * i + 1] = digits[data[i] & 15];
    }
    out[2 * length] = '\0';
}

static int hex_value(uint8_t letter)
{
    if (letter >= '0' && letter <= '9') return letter - '0';
    if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
    return -1;
}

bool text_from_hex(struct bytes text, uint8_t *out, size_t length)
{
    if (text.length != 2 * length) return false;
    for (size_t i = 0; i < text.length; i++)
        if (hex_value(text.data[i]) < 0) return false;
    for (size_t i = 0; i < length; i++) out[i] = (uint8_t)(hex_value(text.data[2 * i]) * 16 + hex_value(text.data[2 * i + 1]));
    return true;
}

#define LETTERS_62 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

static const char *alphabet(enum base64_kind kind)
{
    return kind == BASE64_URL ? LETTERS_62 "-_" : LETTERS_62 "+/";
}

struct result text_base64(struct buffer *buffer, enum base64_kind kind, struct bytes data, struct error *err)
{
    const char *letters = alphabet(kind);
    const size_t tail = data.length % 3;
    const size_t padded = (data.length + 2) / 3 * 4;
    const size_t length = kind == BASE64_URL && tail > 0 ? padded - (3 - tail) : padded;
    uint8_t *destination = NULL;

    TRY(buffer_reserve(buffer, length, &destination, err));
    for (size_t out = 0, in = 0; out < length; in += 3) {
        const size_t left = data.length - in;
        const uint32_t group = (uint32_t)data.data[in] << 16 | (left > 1 ? (uint32_t)data.data[in + 1] << 8 : 0) |
                               (left > 2 ? (uint32_t)data.data[in + 2] : 0);
        for (unsigned i = 0; i < 4 && out < length; i++, out++)
            destination[out] = i <= left ? (uint8_t)letters[group >> (18 - 6 * i) & 63] : (uint8_t)'=';
    }
    buffer->length += length;
    return SUCCESS;
}

/* For a letter in the run of `length` letters from `first` on: `value` plus its position in the run; else 0. In constant time. */
static unsigned in_run(unsigned letter, unsigned first, unsigned length, unsigned value)
{
    return (0U - (unsigned)(letter - first < length)) & (letter - first + value);
}

/* -1: the letter is not in this alphabet. */
static int base64_value(const char *alphabet, uint8_t letter)
{
    return (int)(in_run(letter, 'A', 26, 1) | in_run(letter, 'a', 26, 27) | in_run(letter, '0', 10, 53) |
                 in_run(letter, (uint8_t)alphabet[62], 1, 63) | in_run(letter, (uint8_t)alphabet[63], 1, 64)) -
           1;
}

/* Removes the padding. */
static struct result trim_padding(enum base64_kind kind, struct bytes *text, struct error *err)
{
    const size_t whole = text->length;

    if (kind == BASE64_STANDARD) {
        if (whole % 4 != 0) return failure(err, ERROR_INVALID, "base64 without its padding");
        while (text->length > 0 && whole - text->length < 2 && text->data[text->length - 1] == '=') text->length--;
    }
    if (text->length % 4 == 1) return failure(err, ERROR_INVALID, "base64 of an impossible length");
    return SUCCESS;
}

/* The number of bytes that the letters encode, without padding. */
static size_t decoded_length(struct bytes letters)
{
    return letters.length / 4 * 3 + (letters.length % 4 == 0 ? 0 : letters.length % 4 - 1);
}

static struct result decode(enum base64_kind kind, struct bytes letters, uint8_t *destination, struct error *err)
{
    const char *const known = alphabet(kind);
    const size_t tail = letters.length % 4;
    uint32_t group = 0;
    size_t out = 0;

    for (size_t i = 0; i < letters.length; i++) {
        const int value = base64_value(known, letters.data[i]);
        if (value < 0) return failure(err, ERROR_INVALID, "a character that base64 does not have");
        group = group << 6 | (uint32_t)value;
        if (i % 4 == 0) continue;
        destination[out++] = (uint8_t)(group >> (6 - 2 * (i % 4)));
    }
    if ((tail == 2 && (group & 15) != 0) || (tail == 3 && (group & 3) != 0))
        return failure(err, ERROR_INVALID, "base64 with set trailing bits");
    return SUCCESS;
}

struct result text_from_base64(struct buffer *buffer, enum base64_kind kind, struct bytes text, struct error *err)
{
    uint8_t *destination = NULL;

    TRY(trim_padding(kind, &text, err));
    TRY(buffer_reserve(buffer, decoded_length(text), &destination, err));
    TRY(decode(kind, text, destination, err));
    buffer->length += decoded_length(text);
    return SUCCESS;
}

bool text_from_base64_exactly(enum base64_kind kind, struct bytes text, uint8_t *out, size_t length)
{
    struct error ignored;

    return trim_padding(kind, &text, &ignored).ok && decoded_length(text) == length && decode(kind, text, out, &ignored).ok;
}

bool text_consists_of(struct bytes text, const char *letters)
{
    for (size_t i = 0; i < text.length; i++)
        if (text.data[i] == '\0' || strchr(letters, text.data[i]) == NULL) return false;
    return true;
}

/* Unicode 15: Cc, Cf, Zl, Zp, the fillers, variation selectors and noncharacters of the first plane. */
static const struct {
    uint32_t from, to;
} unseen[] = {{0x0000, 0x001f},   {0x007f, 0x009f},   {0x00ad, 0x00ad},   {0x034f, 0x034f},   {0x0600, 0x0605},
              {0x061c, 0x061c},   {0x06dd, 0x06dd},   {0x070f, 0x070f},   {0x0890, 0x0891},   {0x08e2, 0x08e2},
              {0x115f, 0x1160},   {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2028, 0x202e},
              {0x2060, 0x206f},   {0x3164, 0x3164},   {0xd800, 0xdfff},   {0xfdd0, 0xfdef},   {0xfe00, 0xfe0f},
              {0xfeff, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xfffb},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd},
              {0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};

static bool is_visible(uint32_t letter)
{
    if ((letter & 0xfffe) == 0xfffe) return false; /* the noncharacters at the end of each plane */
    for (size_t i = 0; i < sizeof unseen / sizeof unseen[0]; i++)
        if (letter >= unseen[i].from && letter <= unseen[i].to) return false;
    return true;
}

bool text_is_visible(struct bytes text)
{
    for (size_t i = 0; i < text.length;) {
        const uint8_t first = text.data[i++];
        size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
        uint32_t letter = more == 0 ? first : first & (0x3fU >> more);
        for (; more > 0 && i < text.length; more--) letter = letter << 6 | (text.data[i++] & 0x3f);
        if (more > 0 || !is_visible(letter)) return false;
    }
    return true;
}

struct bytes text_cut(struct bytes *text, char end)
{
    const uint8_t *at = text->length == 0 ? NULL : memchr(text->data, end, text->length);
    const size_t length = at == NULL ? text->length : (size_t)(at - text->data);
    const struct bytes part = {text->data, length};
    const size_t used = at == NULL ? length : length + 1;

    *text = (struct bytes){text->data + used, text->length - used};
    return part;
}

bool text_copy(char *out, size_t size, const char *text)
{
    const size_t length = strlen(text), kept = length < size ? length : size - 1;

    memcpy(out, text, kept);
    out[kept] = '\0';
    return kept == length;
}

struct result text_copy_setting(char *out, size_t size, const char *what, const char *text, struct error *err)
{
    if (text_copy(out, size, text == NULL ? "" : text)) return SUCCESS;
    return failure(err, ERROR_INVALID, "%s is longer than %zu letters", what, size - 1);
}

bool bytes_equal_secret(struct bytes a, struct bytes b)
{
    volatile uint8_t difference = 0;

    if (a.length != b.length) return false;
    for (size_t i = 0; i < a.length; i++) difference = (uint8_t)(difference | (a.data[i] ^ b.data[i]));
    return difference == 0;
}
