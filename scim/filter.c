#include "scim/filter.h"

#include <string.h>

#include "base/text.h"

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-$:."

static void skip(struct bytes *left, size_t count)
{
    *left = (struct bytes){left->data + count, left->length - count};
}

static void skip_blanks(struct bytes *left)
{
    while (left->length > 0 && left->data[0] == ' ') skip(left, 1);
}

/* The letters of a name or an operator; empty: there is none. A dot behind a bracket belongs to it, too. */
static struct bytes take_word(struct bytes *left)
{
    size_t length = 0;

    while (length < left->length && strchr(NAME_LETTERS, left->data[length]) != NULL && left->data[length] != '\0') length++;
    const struct bytes word = {left->data, length};
    skip(left, length);
    return word;
}

/* The length of a JSON string with its quotes; 0: it has no end. */
static size_t string_length(struct bytes left)
{
    for (size_t i = 1; i < left.length; i++) {
        if (left.data[i] == '\\') i++;
        else if (left.data[i] == '"') return i + 1;
    }
    return 0;
}

static struct result read_string(struct bytes quoted, char text_out[SCIM_NAME_MAX + 1], struct error *err)
{
    struct buffer OWNED_BUFFER list = BUFFER(SCIM_FILTER_MAX + 2);
    struct error wrong = {0};
    OWNED_JSON value = NULL;

    TRY(buffer_add_u8(&list, '[', err));
    TRY(buffer_add(&list, quoted.data, quoted.length, err));
    TRY(buffer_add_u8(&list, ']', err));
    if (!json_read(buffer_bytes(&list), SCIM_FILTER_MAX + 2, &value, &wrong).ok)
        return failure(err, wrong.kind == ERROR_NO_MEMORY ? ERROR_NO_MEMORY : ERROR_INVALID,
                       "invalidFilter: the text that is compared is no JSON string");
    const char *text = json_string_value(json_array_get(value, 0));
    if (text == NULL || json_array_size(value) != 1 || !text_copy(text_out, SCIM_NAME_MAX + 1, text))
        return failure(err, ERROR_INVALID, "invalidFilter: a text that is compared has at most %d bytes", SCIM_NAME_MAX);
    return SUCCESS;
}

static struct result read_value(struct bytes *left, struct scim_term *term, struct error *err)
{
    if (term->attribute == SCIM_ACTIVE) {
        const struct bytes word = take_word(left);
        term->flag = scim_name_is(word, "true");
        if (term->flag || scim_name_is(word, "false")) return SUCCESS;
        return failure(err, ERROR_INVALID, "invalidFilter: active is compared with true or false");
    }
    const size_t length = left->length > 0 && left->data[0] == '"' ? string_length(*left) : 0;
    if (length == 0) return failure(err, ERROR_INVALID, "invalidFilter: eq is followed by a text in quotes");
    TRY(read_string((struct bytes){left->data, length}, term->text, err));
    skip(left, length);
    return SUCCESS;
}

static struct result read_operator(struct bytes *left, struct error *err)
{
    skip_blanks(left);
    if (!scim_name_is(take_word(left), "eq")) return failure(err, ERROR_INVALID, "invalidFilter: the only comparison here is eq");
    if (left->length == 0 || left->data[0] != ' ') return failure(err, ERROR_INVALID, "invalidFilter: a blank follows eq");
    skip_blanks(left);
    return SUCCESS;
}

/* `members[value eq "ID"]` is the same as `members eq "ID"` and `members.value eq "ID"`. */
static struct result read_bracket(struct bytes *left, struct scim_term *term, struct error *err)
{
    skip(left, 1);
    if (term->attribute != SCIM_MEMBERS || !scim_name_is(take_word(left), "value"))
        return failure(err, ERROR_INVALID, "invalidFilter: brackets are for members[value eq \"ID\"] alone");
    TRY(read_operator(left, err));
    TRY(read_value(left, term, err));
    if (left->length == 0 || left->data[0] != ']') return failure(err, ERROR_INVALID, "invalidFilter: a bracket is not closed");
    skip(left, 1);
    return SUCCESS;
}

static struct result read_term(struct bytes *left, struct scim_term *term, struct error *err)
{
    struct bytes sub = {0};

    const struct bytes name = take_word(left);
    const bool is_known = scim_attribute_find(name, &term->attribute, &sub);
    const bool has_sub = sub.length > 0 && !(term->attribute == SCIM_MEMBERS && scim_name_is(sub, "value"));
    if (!is_known || has_sub || term->attribute == SCIM_READ_ONLY || term->attribute == SCIM_NOT_KEPT)
        return failure(err, ERROR_INVALID,
                       "invalidFilter: what can be compared is id, externalId, userName, displayName, active and members");
    if (sub.length == 0 && left->length > 0 && left->data[0] == '[') return read_bracket(left, term, err);
    TRY(read_operator(left, err));
    return read_value(left, term, err);
}

struct result scim_filter_read(const char *text, struct scim_filter *filter_out, struct error *err)
{
    struct bytes left = bytes_of_text(text);
    struct scim_filter filter = {0};

    if (left.length > SCIM_FILTER_MAX)
        return failure(err, ERROR_INVALID, "invalidFilter: a filter has at most %d bytes", SCIM_FILTER_MAX);
    for (;;) {
        skip_blanks(&left);
        if (filter.count == SCIM_TERMS_MAX)
            return failure(err, ERROR_INVALID, "invalidFilter: a filter has at most %d comparisons", SCIM_TERMS_MAX);
        TRY(read_term(&left, &filter.terms[filter.count], err));
        filter.count++;
        if (left.length == 0) break;
        skip_blanks(&left);
        if (!scim_name_is(take_word(&left), "and") || left.length == 0 || left.data[0] != ' ')
            return failure(err, ERROR_INVALID, "invalidFilter: comparisons are joined by and");
    }
    *filter_out = filter;
    return SUCCESS;
}

/* ---- paths ---- */

static struct result no_path(struct error *err)
{
    return failure(err, ERROR_INVALID, "invalidPath: the path names no attribute of a User or a Group");
}

/* What is in brackets of an attribute that is not kept is not read; texts in it may have brackets. */
static bool skip_bracket(struct bytes *left)
{
    while (left->length > 0 && left->data[0] != ']') {
        const size_t length = left->data[0] == '"' ? string_length(*left) : 1;
        if (length == 0) return false;
        skip(left, length);
    }
    if (left->length == 0) return false;
    skip(left, 1);
    return true;
}

static struct result read_selection(struct bytes *left, struct scim_path *path, struct error *err)
{
    struct scim_term term = {.attribute = path->attribute};
    struct error wrong = {0};

    if (path->attribute != SCIM_MEMBERS) return skip_bracket(left) && path->attribute == SCIM_NOT_KEPT ? SUCCESS : no_path(err);
    if (!read_bracket(left, &term, &wrong).ok)
        return wrong.kind == ERROR_NO_MEMORY
                   ? failure(err, ERROR_NO_MEMORY, "no memory for a path")
                   : failure(err, ERROR_INVALID, "invalidPath: members are named as members[value eq \"ID\"]");
    path->has_value = true;
    memcpy(path->value, term.text, sizeof path->value);
    return SUCCESS;
}

struct result scim_path_read(const char *text, struct scim_path *path_out, struct error *err)
{
    struct bytes left = bytes_of_text(text), sub = {0};
    struct scim_path path = {0};

    if (left.length > SCIM_FILTER_MAX) return no_path(err);
    if (!scim_attribute_find(take_word(&left), &path.attribute, &sub)) return no_path(err);
    if (sub.length > 0 && path.attribute != SCIM_NOT_KEPT && path.attribute != SCIM_READ_ONLY) return no_path(err);
    if (left.length > 0 && left.data[0] == '[') {
        TRY(read_selection(&left, &path, err));
        const struct bytes more = take_word(&left); /* ".value" */
        if (more.length > 0 && (path.attribute == SCIM_MEMBERS || more.data[0] != '.')) return no_path(err);
    }
    if (left.length > 0) return no_path(err);
    *path_out = path;
    return SUCCESS;
}
