/* Text and values on a page. */
#include <inttypes.h>
#include <string.h>

#include "base/terminal_text.h"
#include "residency/residency_priv.h"

#define SHORT_WORD  24 /* a time */
#define VALUE_DEPTH 8  /* facts and conditions have four levels; deeper ones are shown as JSON */

static const char *entity_of(char letter)
{
    switch (letter) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

struct result page_clean(const char *text, struct buffer *clean, struct error *err)
{
    TRY(buffer_add_text(clean, text, err));
    if (clean->length > 0) terminal_sanitize((char *)clean->data);
    return SUCCESS;
}

struct result page_text(const char *text, struct buffer *page, struct error *err)
{
    struct buffer OWNED_BUFFER clean = BUFFER(RESIDENCY_REPORT_MAX);

    TRY(page_clean(text, &clean, err));
    for (size_t i = 0; i < clean.length; i++) {
        const char *entity = entity_of((char)clean.data[i]);
        if (entity != NULL) TRY(buffer_add_text(page, entity, err));
        else TRY(buffer_add_u8(page, clean.data[i], err));
    }
    return SUCCESS;
}

struct result page_lines(const char *text, struct buffer *page, struct error *err)
{
    struct buffer OWNED_BUFFER line = BUFFER(RESIDENCY_REPORT_MAX);

    for (; *text != '\0'; text += *text == '\n') {
        const size_t length = strcspn(text, "\n");
        buffer_clear(&line);
        TRY(buffer_add(&line, text, length, err));
        TRY(page_text(buffer_text(&line), page, err));
        text += length;
        if (*text == '\n') TRY(buffer_add_u8(page, '\n', err));
    }
    return SUCCESS;
}

/*
 * What has no letter of another script runs from left to right, whatever the page does: else a line break in a date or a digest moves its
 * hyphen. A short word stays in one line, and a long one, such as a digest, breaks anywhere.
 */
struct result page_isolated(const char *text, struct buffer *page, struct error *err)
{
    const size_t length = strlen(text);
    size_t longest = 0;
    bool is_ascii = true;

    for (size_t i = 0; i < length; i++) is_ascii = is_ascii && (unsigned char)text[i] < 0x80;
    for (const char *word = text; *word != '\0'; word += strspn(word, " ")) {
        const size_t letters = strcspn(word, " ");
        if (letters > longest) longest = letters;
        word += letters;
    }
    const char *class_name = longest > SHORT_WORD ? " class=\"long\"" : longest == length && length > 0 ? " class=\"short\"" : "";
    TRY(buffer_format(page, err, "<bdi%s%s>", is_ascii ? " dir=\"ltr\"" : "", class_name));
    TRY(page_text(text, page, err));
    return buffer_add_text(page, "</bdi>", err);
}

static struct result write_value(const json_t *value, unsigned depth, struct buffer *text, struct error *err);

static struct result write_list(const json_t *list, unsigned depth, struct buffer *text, struct error *err)
{
    if (json_array_size(list) == 0 && depth > 0) return buffer_add_u8(text, '-', err); /* "attrs: -" */
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (i > 0) TRY(buffer_add_text(text, ", ", err));
        TRY(write_value(json_array_get(list, i), depth + 1, text, err));
    }
    return SUCCESS;
}

static struct result write_object(const json_t *object, unsigned depth, struct buffer *text, struct error *err)
{
    const char *member = NULL, *between = "";
    json_t *value = NULL;

    if (depth > 0) TRY(buffer_add_u8(text, '(', err));
    json_object_foreach ((json_t *)(uintptr_t)object, member, value) {
        TRY(buffer_format(text, err, "%s%s: ", between, member));
        TRY(write_value(value, depth + 1, text, err));
        between = "; ";
    }
    return depth > 0 ? buffer_add_u8(text, ')', err) : SUCCESS;
}

static struct result write_value(const json_t *value, unsigned depth, struct buffer *text, struct error *err)
{
    if (value == NULL) return SUCCESS;
    if (json_is_string(value)) return buffer_add_text(text, json_string_value(value), err);
    if (json_is_integer(value)) return buffer_format(text, err, "%" PRId64, (int64_t)json_integer_value(value));
    if (depth < VALUE_DEPTH && json_is_array(value)) return write_list(value, depth, text, err);
    if (depth < VALUE_DEPTH && json_is_object(value)) return write_object(value, depth, text, err);
    return json_write_canonical(text, value, err);
}

struct result page_value(const json_t *value, struct buffer *text, struct error *err)
{
    return write_value(value, 0, text, err);
}
