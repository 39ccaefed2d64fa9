#include "policy/shape_priv.h"

#include <string.h>

#include "policy/document.h"

/* The position of the check in the value. The path is composed only for an error. */
struct json_pointer {
    const struct json_pointer *up;
    const char *name;
};

#define PATH_MAX_BYTES 120 /* leaves room for the reason in an error's message */

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the shapes in policy/shapes.c */
static size_t path_write(const struct json_pointer *pointer, char *path, size_t at)
{
    if (pointer->up != NULL) {
        at = path_write(pointer->up, path, at);
        if (at + 1 < PATH_MAX_BYTES) path[at++] = '.'; /* the id of a rule may be long */
    }
    const size_t length = strlen(pointer->name);
    const size_t room = PATH_MAX_BYTES - 1 - at;
    const size_t taken = length < room ? length : room;
    memcpy(path + at, pointer->name, taken);
    return at + taken;
}

static struct result wrong(const struct json_pointer *pointer, enum error_kind kind, const char *what, struct error *err)
{
    char path[PATH_MAX_BYTES] = {0};

    (void)path_write(pointer, path, 0);
    return failure(err, kind, "%s: %s", path, what);
}

static struct result expected(const struct json_pointer *pointer, const char *what, struct error *err)
{
    char path[PATH_MAX_BYTES] = {0};

    (void)path_write(pointer, path, 0);
    return failure(err, ERROR_INVALID, "%s: %s expected", path, what);
}

/* The message goes to logs and terminals, so only a name of plain characters is repeated in it. */
bool shape_name_is_plain(const char *key)
{
    const size_t length = strlen(key);

    return length >= 1 && length <= 40 &&
           strspn(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") == length;
}

/* What is wrong with an exception is a warning of decisions, whose words are the same everywhere. */
static bool is_of_exception(const struct json_pointer *pointer)
{
    while (pointer->up != NULL) pointer = pointer->up;
    return strncmp(pointer->name, "exception", strlen("exception")) == 0;
}

static struct result expected_not(const struct json_pointer *pointer, const char *what, const char *text, struct error *err)
{
    char path[PATH_MAX_BYTES] = {0};

    if (text == NULL || !shape_name_is_plain(text) || is_of_exception(pointer)) return expected(pointer, what, err);
    (void)path_write(pointer, path, 0);
    return failure(err, ERROR_INVALID, "%s: %s expected, and not %s", path, what, text);
}

int word_index(const char *const *words, const char *text)
{
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(words[i], text) == 0) return i;
    return -1;
}

static bool text_holds(const struct shape *shape, const json_t *value)
{
    if (json_typeof(value) != JSON_STRING) return false;
    const char *text = json_string_value(value);
    if (shape->words != NULL) return word_index(shape->words, text) >= 0;
    const struct bytes bytes = {(const uint8_t *)text, json_string_length(value)};
    return shape->holds == NULL ? bytes.length > 0 : shape->holds(bytes);
}

static bool scalar_holds(const struct shape *shape, const json_t *value)
{
    if (shape->kind == SHAPE_TEXT) return text_holds(shape, value);
    if (shape->kind == SHAPE_BOOLEAN) return json_typeof(value) == JSON_TRUE || json_typeof(value) == JSON_FALSE;
    if (shape->kind == SHAPE_ANYTHING) return true;
    return json_typeof(value) == JSON_INTEGER && json_integer_value(value) >= shape->low &&
           json_integer_value(value) <= shape->high;
}

static struct result check(const struct shape *shape, const json_t *value, const struct json_pointer *pointer, struct error *err);

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the shapes in policy/shapes.c */
static struct result check_list(const struct shape *shape, const json_t *value, const struct json_pointer *pointer,
                                struct error *err)
{
    if (json_typeof(value) != JSON_ARRAY || json_array_size(value) < shape->least) return expected(pointer, shape->what, err);
    if (json_array_size(value) > shape->most) return wrong(pointer, ERROR_LIMIT, "more members than are taken", err);
    for (size_t i = 0; i < json_array_size(value); i++) TRY(check(shape->each, json_array_get(value, i), pointer, err));
    return SUCCESS;
}

/* The iterators of jansson take no const pointer, although they change nothing. */
static json_t *iterable(const json_t *value)
{
    return (json_t *)(uintptr_t)value;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the shapes in policy/shapes.c */
static struct result check_map(const struct shape *shape, const json_t *value, const struct json_pointer *pointer,
                               struct error *err)
{
    const struct json_pointer member = {pointer, "*"};
    const char *key;
    json_t *each;

    if (json_typeof(value) != JSON_OBJECT) return expected(pointer, shape->what, err);
    if (json_object_size(value) > shape->most) return wrong(pointer, ERROR_LIMIT, "more members than are taken", err);
    json_object_foreach (iterable(value), key, each) {
        if (shape->key_holds != NULL && !shape->key_holds(bytes_of_text(key)))
            return wrong(pointer, ERROR_INVALID, "a name that is not of the form that is wanted", err);
    }
    json_object_foreach (iterable(value), key, each) TRY(check(shape->each, each, &member, err));
    return SUCCESS;
}

static bool is_known(const struct shape *shape, const char *key)
{
    for (const struct shape_member *member = shape->members; member->name != NULL; member++)
        if (strcmp(member->name, key) == 0) return true;
    return false;
}

static struct result check_names(const struct shape *shape, const json_t *value, const struct json_pointer *pointer,
                                 struct error *err)
{
    const char *unknown = NULL, *key;
    json_t *each;
    char path[PATH_MAX_BYTES] = {0};

    json_object_foreach (iterable(value), key, each)
        if (!is_known(shape, key) && (unknown == NULL || strcmp(key, unknown) < 0)) unknown = key;
    if (unknown == NULL) return SUCCESS;
    (void)path_write(pointer, path, 0);
    return failure(err, ERROR_INVALID, "%s: a member that is not known: %s", path,
                   shape_name_is_plain(unknown) ? unknown : "(its name has other letters)");
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the shapes in policy/shapes.c */
static struct result check_object(const struct shape *shape, const json_t *value, const struct json_pointer *pointer,
                                  struct error *err)
{
    if (json_typeof(value) != JSON_OBJECT) return expected(pointer, shape->what, err);
    TRY(check_names(shape, value, pointer, err));
    for (const struct shape_member *member = shape->members; member->name != NULL; member++) {
        const struct json_pointer below = {pointer, member->name};
        if (member->is_required && json_object_get(value, member->name) == NULL)
            return wrong(&below, ERROR_INVALID, "is missing", err);
    }
    for (const struct shape_member *member = shape->members; member->name != NULL; member++) {
        const struct json_pointer below = {pointer, member->name};
        const json_t *each = json_object_get(value, member->name);
        if (each != NULL) TRY(check(member->shape, each, &below, err));
    }
    return SUCCESS;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the shapes in policy/shapes.c */
static struct result check(const struct shape *shape, const json_t *value, const struct json_pointer *pointer, struct error *err)
{
    if (shape->kind == SHAPE_LIST) return check_list(shape, value, pointer, err);
    if (shape->kind == SHAPE_MAP) return check_map(shape, value, pointer, err);
    if (shape->kind == SHAPE_OBJECT) return check_object(shape, value, pointer, err);
    if (!scalar_holds(shape, value)) return expected_not(pointer, shape->what, json_string_value(value), err);
    if (shape->kind == SHAPE_TEXT && json_string_length(value) > POLICY_TEXT_MAX)
        return wrong(pointer, ERROR_LIMIT, "a longer text than is taken", err);
    return SUCCESS;
}

struct result shape_check(const struct shape *shape, const json_t *value, const char *where, struct error *err)
{
    const struct json_pointer pointer = {NULL, where};

    return check(shape, value, &pointer, err);
}
