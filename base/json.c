#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static _Thread_local unsigned lacks;
static _Thread_local bool is_reading, has_lacked;

/* Without memory jansson drops characters of a text that it reads, perhaps its end, and then copies it up to there: it gets no memory for the copy. */
static void *take(size_t size)
{
    void *block = is_reading && has_lacked ? NULL : memory_resize(NULL, size);

    has_lacked = has_lacked || block == NULL;
    if (block == NULL) lacks++;
    return block;
}

/* Before main(): jansson must use our allocator from its first call on. */
__attribute__((constructor)) static void share_memory(void)
{
    json_set_alloc_funcs(take, free);
}

unsigned json_lacks(void)
{
    return lacks;
}

static bool ends_word(uint8_t letter)
{
    return letter <= ' ' || letter == ',' || letter == ':' || letter == '"' || letter == '[' || letter == ']' || letter == '{' ||
           letter == '}';
}

/* The length of the longest number or word outside strings. */
static size_t longest_word(struct bytes text)
{
    size_t longest = 0, length = 0;
    bool in_string = false;

    for (size_t i = 0; i < text.length; i++) {
        if (in_string && text.data[i] == '\\') i++;
        else if (text.data[i] == '"') in_string = !in_string;
        else if (!in_string) {
            length = ends_word(text.data[i]) ? 0 : length + 1;
            if (length > longest) longest = length;
        }
    }
    return longest;
}

/* Checks nesting and the number of values first, so that jansson never recurses deeper or allocates more than we allow. */
static struct result check_size(struct bytes text, struct error *err)
{
    size_t depth = 0, values = 0;
    bool in_string = false;

    for (size_t i = 0; i < text.length; i++) {
        const uint8_t letter = text.data[i];
        if (in_string) {
            if (letter == '\\') i++;
            if (letter == '"') in_string = false;
        } else if (letter == '"') {
            in_string = true;
        } else if (letter == '[' || letter == '{') {
            if (++depth > JSON_DEPTH_MAX) return failure(err, ERROR_LIMIT, "JSON nested deeper than %d levels", JSON_DEPTH_MAX);
            values++;
        } else if (letter == ',') {
            values++;
        } else if ((letter == ']' || letter == '}') && depth > 0) {
            depth--;
        }
    }
    if (values <= JSON_VALUES_MAX) return SUCCESS;
    return failure(err, ERROR_LIMIT, "JSON of %zu values; at most %d are read", values, JSON_VALUES_MAX);
}

#define WORD_MAX 40 /* no number that we read is longer */
#define FEED_MAX 14 /* jansson's buffer for a word is at least this long */

/* The text for jansson, in pieces. It ends early once jansson had no memory. */
struct feed {
    struct bytes pieces[3];
    size_t next;
    unsigned lacks;
};

static size_t feed(void *into, size_t room, void *context)
{
    struct feed *from = context;

    while (from->next < 3 && from->pieces[from->next].length == 0) from->next++;
    if (from->next == 3 || json_lacks() != from->lacks) return 0;
    struct bytes *piece = &from->pieces[from->next];
    const size_t length = piece->length < room ? piece->length : room;
    memcpy(into, piece->data, length);
    *piece = (struct bytes){piece->data + length, piece->length - length};
    return length;
}

/*
 * jansson 2.14 aborts the program if it has no memory for a number of fifteen or more characters. So jansson gets an array:
 * first a string that is longer than any number, then the text. After the string its buffer has room for any number.
 */
static json_t *load_with_room(struct bytes text, json_error_t *problem)
{
    const struct bytes before = bytes_of_text("[\"----------------------------------------------\",");
    struct feed from = {{before, text, bytes_of_text("]")}, 0, json_lacks()};
    OWNED_JSON both = json_load_callback(feed, &from, JSON_REJECT_DUPLICATES, problem);

    if (json_array_size(both) == 2) return json_incref(json_array_get(both, 1));
    if (both != NULL) { /* jansson has no complaint about several values in an array */
        *problem = (json_error_t){.line = 1, .column = (int)before.length};
        problem->text[JSON_ERROR_TEXT_LENGTH - 1] = (char)json_error_end_of_input_expected;
    }
    if (problem->line == 1) problem->column -= (int)before.length;
    return NULL;
}

static json_t *load(struct bytes text, size_t longest, json_error_t *problem)
{
    is_reading = true;
    has_lacked = false;
    json_t *value = longest > FEED_MAX
                        ? load_with_room(text, problem)
                        : json_loadb((const char *)text.data, text.length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, problem);
    is_reading = false;
    return value;
}

/* Our own words: those of jansson name its tokens, and quote the text. */
static struct result not_json(const json_error_t *problem, struct error *err)
{
    static const char *const words[] = {
        [json_error_premature_end_of_input] = "not JSON: it ends too early",
        [json_error_end_of_input_expected] = "not JSON: something stands behind the end",
        [json_error_invalid_utf8] = "not JSON: a character is not UTF-8",
        [json_error_duplicate_key] = "JSON in which a member is there twice",
        [json_error_null_character] = "JSON in which a text has the character NUL",
        [json_error_null_byte_in_key] = "JSON in which the name of a member has the character NUL",
        [json_error_numeric_overflow] = "JSON in which a number does not fit 64 bits",
    };
    const enum json_error_code code = json_error_code(problem);
    const char *word = (size_t)code < sizeof words / sizeof words[0] ? words[code] : NULL;

    return failure(err, ERROR_INVALID, "%s (line %d, column %d)",
                   word == NULL ? "not JSON: a value, comma or bracket is wrong" : word, problem->line, problem->column);
}

struct result json_read(struct bytes text, size_t maximum, json_t **value_out, struct error *err)
{
    json_error_t problem;

    if (text.length > maximum)
        return failure(err, ERROR_LIMIT, "a JSON text of %zu bytes; at most %zu are read", text.length, maximum);
    const size_t word = longest_word(text);
    TRY(check_size(text, err));
    if (word > WORD_MAX) return failure(err, ERROR_INVALID, "not JSON: a number or word of %zu letters", word);
    if (text.length == 0) return failure(err, ERROR_INVALID, "not JSON: it is empty");
    const unsigned before = json_lacks();
    OWNED_JSON value = load(text, word, &problem);
    if (json_lacks() != before) return failure(err, ERROR_NO_MEMORY, "no memory to read JSON");
    if (value == NULL) return not_json(&problem, err);
    *value_out = GIVE(value);
    return SUCCESS;
}

static size_t skip_digits(struct bytes word, size_t at)
{
    while (at < word.length && word.data[at] >= '0' && word.data[at] <= '9') at++;
    return at;
}

enum number { NO_NUMBER, NUMBER_WITH_ROOM, NUMBER_WITHOUT_ROOM };

/* Whether 64 bits can't hold this whole number. */
static bool is_too_large(struct bytes digits, bool is_negative)
{
    static const char most[] = "9223372036854775807", least[] = "9223372036854775808";
    const size_t size = sizeof most - 1;

    if (digits.length != size) return digits.length > size;
    return memcmp(digits.data, is_negative ? least : most, size) > 0;
}

/* RFC 8259 section 6. An exponent may exceed the range of a double, so a number with one counts as a fraction; no member
 * that we read has one. -0 counts as a fraction because other readers take it for one (Rust's serde_json). */
static enum number number_of(struct bytes word)
{
    const size_t first = word.length > 0 && word.data[0] == '-' ? 1 : 0;
    const size_t whole = skip_digits(word, first);
    size_t at = whole;

    if (whole == first || (word.data[first] == '0' && whole > first + 1)) return NO_NUMBER;
    if (at == word.length) {
        const struct bytes digits = {word.data + first, whole - first};
        const bool is_minus_zero = first == 1 && digits.data[0] == '0';
        return is_minus_zero || is_too_large(digits, first == 1) ? NUMBER_WITHOUT_ROOM : NUMBER_WITH_ROOM;
    }
    if (word.data[at] == '.') {
        const size_t fraction = at + 1;
        at = skip_digits(word, fraction);
        if (at == fraction) return NO_NUMBER;
        if (at == word.length) return NUMBER_WITH_ROOM;
    }
    if (word.data[at] != 'e' && word.data[at] != 'E') return NO_NUMBER;
    at++;
    if (at < word.length && (word.data[at] == '+' || word.data[at] == '-')) at++;
    return at < word.length && skip_digits(word, at) == word.length ? NUMBER_WITHOUT_ROOM : NO_NUMBER;
}

/* The next number from `at` on that becomes a fraction; empty if there is none. */
static struct bytes next_without_room(struct bytes text, size_t at)
{
    bool in_string = false;

    for (size_t i = at; i < text.length; i++) {
        if (in_string && text.data[i] == '\\') i++;
        else if (text.data[i] == '"') in_string = !in_string;
        else if (!in_string && !ends_word(text.data[i])) {
            struct bytes word = {text.data + i, 0};
            while (i < text.length && !ends_word(text.data[i])) i++;
            word.length = (size_t)(text.data + i - word.data);
            if (word.length <= WORD_MAX && number_of(word) == NUMBER_WITHOUT_ROOM) return word;
            i--; /* the character after the word may begin a string */
        }
    }
    return (struct bytes){text.data + text.length, 0};
}

/* Copies the text, with a fraction in the place of each number that is to become one. */
static struct result put_fractions(struct buffer *copy, struct bytes text, struct error *err)
{
    size_t at = 0;

    for (struct bytes word = next_without_room(text, 0); word.length > 0; word = next_without_room(text, at)) {
        const size_t begin = (size_t)(word.data - text.data);
        TRY(buffer_add(copy, text.data + at, begin - at, err));
        TRY(buffer_format(copy, err, "%-*s", (int)word.length, "0.5")); /* as long as the number, for the column of an error */
        at = begin + word.length;
    }
    return buffer_add(copy, text.data + at, text.length - at, err);
}

struct result json_read_any_number(struct bytes text, size_t maximum, json_t **value_out, struct error *err)
{
    if (text.length > maximum || next_without_room(text, 0).length == 0) return json_read(text, maximum, value_out, err);
    struct buffer OWNED_BUFFER copy = BUFFER(text.length + text.length / 2 + 1); /* two characters, -0, become three */
    TRY(put_fractions(&copy, text, err));
    return json_read(buffer_bytes(&copy), copy.length, value_out, err);
}

static struct result write_escape(struct buffer *buffer, uint8_t letter, struct error *err)
{
    static const char short_forms[] = "\bb\tt\nn\ff\rr\"\"\\\\";

    for (size_t i = 0; i + 1 < sizeof short_forms; i += 2)
        if (short_forms[i] == (char)letter) return buffer_format(buffer, err, "\\%c", short_forms[i + 1]);
    return buffer_format(buffer, err, "\\u%04x", letter);
}

struct result json_write_string(struct buffer *buffer, struct bytes text, struct error *err)
{
    size_t plain = 0;

    TRY(buffer_add_u8(buffer, '"', err));
    for (size_t i = 0; i < text.length; i++) {
        const uint8_t letter = text.data[i];
        if (letter >= 0x20 && letter != '"' && letter != '\\') continue;
        TRY(buffer_add(buffer, text.data + plain, i - plain, err));
        TRY(write_escape(buffer, letter, err));
        plain = i + 1;
    }
    TRY(buffer_add(buffer, text.data + plain, text.length - plain, err));
    return buffer_add_u8(buffer, '"', err);
}

/* RFC 8785 3.2.3 sorts by UTF-16 units. That is the order of code points, except between astral and U+E000.. characters. */
static int compare_utf16(const char *a, const char *b)
{
    for (; *a != '\0' && *a == *b; a++, b++) continue;
    const uint8_t left = (uint8_t)*a, right = (uint8_t)*b;
    const bool left_astral = left >= 0xf0, right_astral = right >= 0xf0;
    if (left_astral != right_astral && (left_astral ? right : left) >= 0xee) return left_astral ? -1 : 1;
    return (left > right) - (left < right);
}

static int compare_keys(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;

    return compare_utf16(*left, *right);
}

/* NOLINTNEXTLINE(misc-no-recursion): json_read() bounds the depth */
static struct result write_object(struct buffer *buffer, const json_t *object, struct error *err)
{
    const size_t count = json_object_size(object);
    const char **keys = memory_zeroed(count + 1, sizeof *keys);
    if (keys == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for %zu JSON keys", count);

    size_t next = 0;
    for (void *at = json_object_iter((json_t *)(uintptr_t)object); at != NULL;
         at = json_object_iter_next((json_t *)(uintptr_t)object, at))
        keys[next++] = json_object_iter_key(at);
    qsort(keys, count, sizeof *keys, compare_keys);

    struct result result = buffer_add_u8(buffer, '{', err);
    for (size_t i = 0; i < count && result.ok; i++) {
        if (i > 0) result = buffer_add_u8(buffer, ',', err);
        if (result.ok) result = json_write_string(buffer, bytes_of_text(keys[i]), err);
        if (result.ok) result = buffer_add_u8(buffer, ':', err);
        if (result.ok) result = json_write_canonical(buffer, json_object_get(object, keys[i]), err);
    }
    if (result.ok) result = buffer_add_u8(buffer, '}', err);
    free(keys);
    return result;
}

/* NOLINTNEXTLINE(misc-no-recursion): json_read() bounds the depth */
static struct result write_array(struct buffer *buffer, const json_t *array, struct error *err)
{
    TRY(buffer_add_u8(buffer, '[', err));
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (i > 0) TRY(buffer_add_u8(buffer, ',', err));
        TRY(json_write_canonical(buffer, json_array_get(array, i), err));
    }
    return buffer_add_u8(buffer, ']', err);
}

/* NOLINTNEXTLINE(misc-no-recursion): json_read() bounds the depth */
struct result json_write_canonical(struct buffer *buffer, const json_t *value, struct error *err)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return write_object(buffer, value, err);
    case JSON_ARRAY: return write_array(buffer, value, err);
    case JSON_STRING:
        return json_write_string(buffer, (struct bytes){(const uint8_t *)json_string_value(value), json_string_length(value)},
                                 err);
    case JSON_INTEGER: return buffer_format(buffer, err, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    case JSON_TRUE: return buffer_add_text(buffer, "true", err);
    case JSON_FALSE: return buffer_add_text(buffer, "false", err);
    case JSON_NULL: return buffer_add_text(buffer, "null", err);
    case JSON_REAL: break;
    }
    return failure(err, ERROR_INVALID, "a number with a fraction has no canonical form here");
}

const char *json_text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

bool json_integer_of(const json_t *object, const char *key, int64_t *value_out)
{
    const json_t *member = json_object_get(object, key);

    if (!json_is_integer(member)) return false;
    *value_out = json_integer_value(member);
    return true;
}
