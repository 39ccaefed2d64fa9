#include "audit/format/text_rules_priv.h"

#include <string.h>

#include "audit/format/leaf.h"
#include "audit/format/note.h"

/* The length of a code point that begins with this byte; 0: no code point begins so. */
static unsigned length_from(uint8_t first)
{
    if (first < 0x80) return 1;
    if (first < 0xc0) return 0;
    if (first < 0xe0) return 2;
    return first < 0xf0 ? 3 : first < 0xf8 ? 4 : 0;
}

/* The next code point, or -1 for bytes that are not UTF-8. */
static int32_t next_code_point(struct reader *reader)
{
    static const int32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000}; /* by length: a smaller value has a shorter form */
    const uint8_t first = reader_u8(reader);
    const unsigned length = length_from(first);
    int32_t point = length == 1 ? first : first & (0x7f >> length);

    if (length == 0) return -1;
    for (unsigned i = 1; i < length; i++) {
        const uint8_t byte = reader_u8(reader);
        if ((byte & 0xc0) != 0x80) return -1;
        point = (point << 6) | (byte & 0x3f);
    }
    const bool is_surrogate = point >= 0xd800 && point <= 0xdfff;
    return point < smallest[length] || is_surrogate || point > 0x10ffff ? -1 : point;
}

/* unicode.IsSpace, beyond the control characters: Go's readers refuse these in a name. */
static bool is_space(int32_t point)
{
    static const int32_t spaces[] = {0x20, 0x85, 0xa0, 0x1680, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000};

    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++)
        if (point == spaces[i]) return true;
    return point >= 0x2000 && point <= 0x200a;
}

bool leaf_text_is_valid(struct bytes text)
{
    struct reader reader = reader_of(text);

    while (reader.left.length > 0) {
        const int32_t point = next_code_point(&reader);
        if (point < 0x20 || point == 0x7f) return false;
    }
    return true;
}

bool note_name_is_valid(struct bytes name)
{
    struct reader reader = reader_of(name);

    if (name.length == 0) return false;
    while (reader.left.length > 0) {
        const int32_t point = next_code_point(&reader);
        if (point < 0x20 || point == '+' || is_space(point)) return false;
    }
    return true;
}

bool note_text_is_valid(struct bytes text)
{
    struct reader reader = reader_of(text);

    if (text.length == 0 || text.data[text.length - 1] != '\n') return false;
    while (reader.left.length > 0) {
        const int32_t point = next_code_point(&reader);
        if (point < 0x20 && point != '\n') return false;
    }
    return true;
}

bool next_line(struct bytes *left, struct bytes *line_out)
{
    const uint8_t *end = left->length == 0 ? NULL : memchr(left->data, '\n', left->length);

    if (end == NULL) return false;
    *line_out = (struct bytes){left->data, (size_t)(end - left->data)};
    *left = (struct bytes){end + 1, left->length - line_out->length - 1};
    return true;
}

struct bytes next_word(struct bytes *line)
{
    size_t length = 0;

    while (line->length > 0 && (line->data[0] == ' ' || line->data[0] == '\t'))
        *line = (struct bytes){line->data + 1, line->length - 1};
    while (length < line->length && line->data[length] != ' ' && line->data[length] != '\t') length++;
    const struct bytes word = {line->data, length};
    *line = (struct bytes){line->data + length, line->length - length};
    return word;
}
