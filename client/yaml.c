/* The lines have the structure of the value: a number for a scalar, [line, element...] for a list, {"": line, name: ...} for a mapping. */
#include "client/yaml.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>

#include "base/text.h"

#define NAME_MAX_BYTES  128 /* a variable's name is the longest name of a specification */
#define BYTE_ORDER_MARK "\xef\xbb\xbf"
#define WORD_SHOWN      40 /* bytes of a scalar in a message */

/* A mapping or a list that has not ended. Its values belong to the root. */
struct level {
    json_t *value, *lines;
    bool has_name;
    char name[NAME_MAX_BYTES + 1];
    unsigned line; /* of the name */
};

struct reading {
    const char *file;
    yaml_parser_t parser;
    struct level levels[JSON_DEPTH_MAX];
    size_t depth, documents;
    json_t *value, *lines; /* the root; owned */
    struct bytes text;
    size_t at, characters; /* how far has been looked for comments: bytes, and the characters that libyaml counts */
    unsigned line;         /* there, from 0 */
    unsigned block_line;   /* of the last scalar, if it is a block; 0 */
};

static void reading_done(struct reading *reading)
{
    yaml_parser_delete(&reading->parser);
    json_decref(reading->value);
    json_decref(reading->lines);
}
#define OWNED_READING __attribute__((cleanup(reading_done))) struct reading

#define OWNED_EVENT __attribute__((cleanup(yaml_event_delete))) yaml_event_t

static unsigned line_of(const yaml_event_t *event)
{
    return (unsigned)event->start_mark.line + 1;
}

static struct result wrong_at(const struct reading *reading, unsigned line, const char *what, const char *way_out,
                              struct error *err)
{
    return failure(err, ERROR_INVALID, "%.100s:%u: %s: %s", reading->file, line, what, way_out);
}

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory to read YAML");
}

/* ---- what a plain word means ---- */

enum meaning { MEANS_TEXT, MEANS_NOTHING, MEANS_TRUE, MEANS_FALSE, MEANS_INTEGER, MEANS_UNCLEAR };

static bool is_one_of(const char *word, const char *const *words)
{
    for (size_t i = 0; words[i] != NULL; i++)
        if (strcmp(word, words[i]) == 0) return true;
    return false;
}

static bool is_one_of_in_any_case(const char *word, const char *const *words)
{
    for (size_t i = 0; words[i] != NULL; i++)
        if (strcasecmp(word, words[i]) == 0) return true;
    return false;
}

/* Some readers make "not a number" of it: . -. ._ e1 .E5 */
static bool is_number_without_digits(const char *text, const char *behind_dots)
{
    const char *dot = strchr(text, '.');

    if (*behind_dots == '\0') return dot != NULL && dot == strrchr(text, '.');
    if (*behind_dots != 'e' && *behind_dots != 'E') return false;
    behind_dots += behind_dots[1] == '-' || behind_dots[1] == '+' ? 2 : 1;
    return *behind_dots != '\0' && text_consists_of(bytes_of_text(behind_dots), "0123456789");
}

/* A reader of YAML 1.1 or 1.2 may take it for a number or a time: 0x1F, 1_000, 1,000, +_1, ._5, 12:30, 2026-11-26, 1e3, .5, -.inf */
static bool is_like_number(const char *word)
{
    static const char *const odd[] = {".inf", ".nan", NULL};
    const char *after = word + (word[0] == '-' || word[0] == '+' ? 1 : 0);
    const char *behind_dots = after + strspn(after, "._");

    if (is_one_of_in_any_case(after, odd)) return true;
    if (*behind_dots < '0' || *behind_dots > '9') return is_number_without_digits(after, behind_dots);
    return text_consists_of(bytes_of_text(word), "0123456789+-_.,: abcdefABCDEFxXoOtTzZ");
}

static bool is_integer(const char *word, int64_t *number_out)
{
    const bool is_negative = word[0] == '-';
    uint64_t number = 0;

    if (!text_to_u64(bytes_of_text(word + is_negative), INT64_MAX, &number) || (is_negative && number == 0)) return false;
    *number_out = is_negative ? -(int64_t)number : (int64_t)number;
    return true;
}

static enum meaning meaning_of(const char *word, int64_t *number_out)
{
    static const char *const nothing[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const yes[] = {"true", "True", "TRUE", NULL}, *const no[] = {"false", "False", "FALSE", NULL};
    static const char *const unclear[] = {"null", "true", "false", "y", "yes", "n", "no", "on", "off", "<<", "=", NULL};

    if (is_one_of(word, nothing)) return MEANS_NOTHING;
    if (is_one_of(word, yes)) return MEANS_TRUE;
    if (is_one_of(word, no)) return MEANS_FALSE;
    if (is_one_of_in_any_case(word, unclear) || word[0] == ':') return MEANS_UNCLEAR; /* ":a" is no text for Ruby */
    if (is_integer(word, number_out)) return MEANS_INTEGER;
    return is_like_number(word) ? MEANS_UNCLEAR : MEANS_TEXT;
}

/* ---- the tree ---- */

static struct result put(struct reading *reading, json_t *value, json_t *lines, struct error *err)
{
    struct level *level = reading->depth == 0 ? NULL : &reading->levels[reading->depth - 1];
    int failed = 0;

    if (level == NULL) {
        reading->value = value;
        reading->lines = lines;
    } else if (json_is_array(level->value)) {
        failed |= json_array_append_new(level->value, value);
        failed |= json_array_append_new(level->lines, lines);
    } else {
        failed |= json_object_set_new(level->value, level->name, value);
        failed |= json_object_set_new(level->lines, level->name, lines);
        level->has_name = false;
    }
    return failed != 0 || value == NULL || lines == NULL ? no_memory(err) : SUCCESS;
}

/* The line of a member is that of its name. */
static unsigned line_for(const struct reading *reading, const yaml_event_t *event)
{
    const struct level *level = reading->depth == 0 ? NULL : &reading->levels[reading->depth - 1];

    return level != NULL && level->has_name ? level->line : line_of(event);
}

static bool wants_name(const struct reading *reading)
{
    const struct level *level = reading->depth == 0 ? NULL : &reading->levels[reading->depth - 1];

    return level != NULL && json_is_object(level->value) && !level->has_name;
}

static struct result check_marks(const struct reading *reading, const yaml_event_t *event, const yaml_char_t *anchor,
                                 const yaml_char_t *tag, struct error *err)
{
    if (anchor != NULL)
        return wrong_at(reading, line_of(event), "an anchor (&)", "write the value out wherever it is needed", err);
    if (tag != NULL) return wrong_at(reading, line_of(event), "a tag (!)", "leave it out; quotes make a text", err);
    return SUCCESS;
}

static struct result begin(struct reading *reading, const yaml_event_t *event, bool is_list, struct error *err)
{
    const unsigned line = line_for(reading, event);
    json_t *value = is_list ? json_array() : json_object(), *lines = is_list ? json_array() : json_object();

    if (wants_name(reading) || reading->depth == JSON_DEPTH_MAX) {
        const bool is_deep = reading->depth == JSON_DEPTH_MAX;
        json_decref(value);
        json_decref(lines);
        return is_deep ? failure(err, ERROR_LIMIT, "%.100s:%u: nested deeper than %d levels", reading->file, line, JSON_DEPTH_MAX)
                       : wrong_at(reading, line, "a name that is a list or a mapping", "names are texts", err);
    }
    TRY(put(reading, value, lines, err));
    reading->levels[reading->depth++] = (struct level){.value = value, .lines = lines};
    if ((is_list ? json_array_append_new(lines, json_integer(line)) : json_object_set_new(lines, "", json_integer(line))) == 0)
        return SUCCESS;
    return no_memory(err);
}

static struct result take_name(struct reading *reading, const yaml_event_t *event, const char *word, struct error *err)
{
    struct level *level = &reading->levels[reading->depth - 1];
    const size_t length = event->data.scalar.length;
    const bool is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    int64_t ignored = 0;

    if (length == 0 || length > NAME_MAX_BYTES || strlen(word) != length)
        return wrong_at(reading, line_of(event), "a name of no letters, or of too many", "a name has 1 to 128 bytes, and no NUL",
                        err);
    if (is_plain && meaning_of(word, &ignored) != MEANS_TEXT)
        return wrong_at(reading, line_of(event), "a name that not every reader takes for a text", "put it in quotes", err);
    if (json_object_get(level->value, word) != NULL)
        return failure(err, ERROR_INVALID, "%.100s:%u: '%.40s' is there twice: the first one is in line %u", reading->file,
                       line_of(event), word, yaml_line(yaml_member(level->lines, word)));
    (void)snprintf(level->name, sizeof level->name, "%s", word);
    level->line = line_of(event);
    level->has_name = true;
    return SUCCESS;
}

static struct result unclear(const struct reading *reading, const yaml_event_t *event, const char *word, struct error *err)
{
    return failure(err, ERROR_INVALID,
                   "%.80s:%u: '%.*s' has another meaning for other readers of YAML: put it in quotes, or write true, false or a "
                   "whole number",
                   reading->file, line_of(event), WORD_SHOWN, word);
}

static json_t *plain_value(enum meaning meaning, const char *word, int64_t number)
{
    switch (meaning) {
    case MEANS_NOTHING: return json_null();
    case MEANS_TRUE: return json_true();
    case MEANS_FALSE: return json_false();
    case MEANS_INTEGER: return json_integer(number);
    case MEANS_TEXT:
    case MEANS_UNCLEAR: break;
    }
    return json_string(word);
}

static void note_block(struct reading *reading, const yaml_event_t *event)
{
    const yaml_scalar_style_t style = event->data.scalar.style;

    reading->block_line = style == YAML_LITERAL_SCALAR_STYLE || style == YAML_FOLDED_SCALAR_STYLE ? line_of(event) : 0;
}

static struct result take_scalar(struct reading *reading, const yaml_event_t *event, struct error *err)
{
    const char *word = (const char *)event->data.scalar.value;
    int64_t number = 0;

    TRY(check_marks(reading, event, event->data.scalar.anchor, event->data.scalar.tag, err));
    if (wants_name(reading)) return take_name(reading, event, word, err);
    if (strlen(word) != event->data.scalar.length)
        return wrong_at(reading, line_of(event), "a text with the character NUL", "leave it out", err);
    note_block(reading, event);
    const bool is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    const enum meaning meaning = is_plain ? meaning_of(word, &number) : MEANS_TEXT;
    if (meaning == MEANS_UNCLEAR) return unclear(reading, event, word, err);
    return put(reading, plain_value(meaning, word, number), json_integer(line_for(reading, event)), err);
}

static struct result begin_document(struct reading *reading, const yaml_event_t *event, struct error *err)
{
    if (reading->documents++ == 0) return SUCCESS;
    return wrong_at(reading, line_of(event), "a second document", "one file is one specification", err);
}

/* Marks of libyaml count characters. The text before a mark was found to be UTF-8. */
static void go_on(struct reading *reading)
{
    if (reading->text.data[reading->at] == '\n') reading->line++;
    reading->at++;
    while (reading->at < reading->text.length && (reading->text.data[reading->at] & 0xC0) == 0x80) reading->at++;
    reading->characters++;
}

/* At the beginning, or with a blank before it. */
static bool is_comment_for_all(const struct reading *reading)
{
    const uint8_t before = reading->at == 0 ? '\n' : reading->text.data[reading->at - 1];

    return before == ' ' || before == '\t' || before == '\n';
}

/* "a"#b and [1,#b: a comment for libyaml, and an error for others, as YAML demands a blank before it. Comments are between events. */
static struct result check_comments(struct reading *reading, const yaml_event_t *event, struct error *err)
{
    bool is_in_comment = false;

    while (reading->characters < event->start_mark.index && reading->at < reading->text.length) {
        const uint8_t here = reading->text.data[reading->at];
        if (here == '\n') is_in_comment = false;
        if (here == '#' && !is_in_comment) {
            if (!is_comment_for_all(reading))
                return wrong_at(reading, reading->line + 1, "a comment (#) without a blank before it", "put a blank before it",
                                err);
            is_in_comment = true;
        }
        go_on(reading);
    }
    while (reading->characters < event->end_mark.index && reading->at < reading->text.length) go_on(reading);
    return SUCCESS;
}

static struct result take(struct reading *reading, const yaml_event_t *event, struct error *err)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT: return begin_document(reading, event, err);
    case YAML_ALIAS_EVENT:
        return wrong_at(reading, line_of(event), "an alias (*)", "write the value out wherever it is needed", err);
    case YAML_SCALAR_EVENT: return take_scalar(reading, event, err);
    case YAML_SEQUENCE_START_EVENT:
        TRY(check_marks(reading, event, event->data.sequence_start.anchor, event->data.sequence_start.tag, err));
        return begin(reading, event, true, err);
    case YAML_MAPPING_START_EVENT:
        TRY(check_marks(reading, event, event->data.mapping_start.anchor, event->data.mapping_start.tag, err));
        return begin(reading, event, false, err);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: reading->depth--; return SUCCESS;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT: break;
    }
    return SUCCESS;
}

/* ---- the events ---- */

static struct result not_yaml(const struct reading *reading, struct error *err)
{
    const yaml_parser_t *parser = &reading->parser;
    const bool has_tab = parser->problem != NULL && strstr(parser->problem, "cannot start any token") != NULL;

    if (parser->error == YAML_MEMORY_ERROR) return no_memory(err);
    if (parser->error == YAML_READER_ERROR)
        return failure(err, ERROR_INVALID, "%.100s: byte %zu is not UTF-8 of visible characters", reading->file,
                       parser->problem_offset);
    return failure(err, ERROR_INVALID, "%.100s:%zu: not YAML: %.80s%s", reading->file, parser->problem_mark.line + 1,
                   parser->problem == NULL ? "it can't be read" : parser->problem,
                   has_tab ? "; indent with blanks, not with tabs" : "");
}

static struct result read_all(struct reading *reading, struct error *err)
{
    for (;;) {
        OWNED_EVENT event = {.type = YAML_NO_EVENT};
        if (yaml_parser_parse(&reading->parser, &event) != 1) return not_yaml(reading, err);
        TRY(check_comments(reading, &event, err));
        if (event.type == YAML_STREAM_END_EVENT) break;
        TRY(take(reading, &event, err));
    }
    if (reading->block_line > 0 && reading->text.data[reading->text.length - 1] != '\n')
        return wrong_at(reading, reading->block_line, "a block (| or >) at the end of a file that ends without a line feed",
                        "end the file with a line feed", err);
    if (reading->value != NULL) return SUCCESS;
    return failure(err, ERROR_INVALID, "%.100s: nothing is in it", reading->file);
}

/* ---- the characters ---- */

/* Readers disagree on what these are as they stand: a line's end, a part of a text or of a comment, or nothing. */
static const struct odd_character {
    const char *bytes, *what, *way_out;
} odd_characters[] = {
    {"\xc2\x85", "the character U+0085", "leave it out, or write \\u0085 in double quotes"},
    {"\xe2\x80\xa8", "the character U+2028", "leave it out, or write \\u2028 in double quotes"},
    {"\xe2\x80\xa9", "the character U+2029", "leave it out, or write \\u2029 in double quotes"},
    {BYTE_ORDER_MARK, "the character U+FEFF", "leave it out, or write \\uFEFF in double quotes"},
    {"\r", "a carriage return without a line feed", "end lines with a line feed, or write \\r in double quotes"},
};

static bool begins_with(struct bytes text, const char *what)
{
    return text.length >= strlen(what) && memcmp(text.data, what, strlen(what)) == 0;
}

static const struct odd_character *odd_character_at(struct bytes text)
{
    if (begins_with(text, "\r\n")) return NULL;
    for (size_t i = 0; i < sizeof odd_characters / sizeof odd_characters[0]; i++)
        if (begins_with(text, odd_characters[i].bytes)) return &odd_characters[i];
    return NULL;
}

/* libyaml ends a line at most of them, and so it finds members where other readers see a comment. */
static struct result check_characters(const struct reading *reading, struct bytes text, struct error *err)
{
    unsigned line = 1;

    for (size_t at = 0; at < text.length; at++) {
        const struct odd_character *odd = odd_character_at((struct bytes){text.data + at, text.length - at});
        if (odd != NULL) return wrong_at(reading, line, odd->what, odd->way_out, err);
        if (text.data[at] == '\n') line++;
    }
    return SUCCESS;
}

struct result yaml_read(struct bytes text, size_t maximum, const char *name, json_t **value_out, json_t **lines_out,
                        struct error *err)
{
    const unsigned lacks = json_lacks();
    const size_t mark = begins_with(text, BYTE_ORDER_MARK) ? strlen(BYTE_ORDER_MARK) : 0; /* libyaml would count it as a column */
    OWNED_READING reading = {.file = name, .text = {text.data + mark, text.length - mark}};

    if (yaml_parser_initialize(&reading.parser) != 1) return no_memory(err);
    if (text.length > maximum)
        return failure(err, ERROR_LIMIT, "%.100s has %zu bytes; at most %zu are read", name, text.length, maximum);
    TRY(check_characters(&reading, reading.text, err));
    yaml_parser_set_encoding(&reading.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reading.parser, reading.text.data, reading.text.length);
    TRY(read_all(&reading, err));
    if (json_lacks() != lacks) return no_memory(err);
    *value_out = GIVE(reading.value);
    *lines_out = GIVE(reading.lines);
    return SUCCESS;
}

/* ---- lines ---- */

unsigned yaml_line(const json_t *lines)
{
    if (json_is_array(lines)) lines = json_array_get(lines, 0);
    else if (json_is_object(lines)) lines = json_object_get(lines, "");
    return (unsigned)json_integer_value(lines);
}

const json_t *yaml_member(const json_t *lines, const char *name)
{
    return json_object_get(lines, name);
}

const json_t *yaml_element(const json_t *lines, size_t index)
{
    return json_array_get(lines, index + 1);
}
