#include "training/format/shape.h"

#include <string.h>

static struct result wrong(const struct run_shape *shape, const char *name, struct error *err)
{
    return failure(err, ERROR_INVALID, "%.80s: %s", name, shape->must);
}

static bool is_within(const struct run_shape *shape, uint64_t count)
{
    return count >= (uint64_t)shape->least && count <= (uint64_t)shape->most;
}

static bool is_text(const json_t *value, const struct run_shape *shape)
{
    const char *text = json_string_value(value);

    return text != NULL && is_within(shape, json_string_length(value)) && (shape->fits == NULL || shape->fits(text));
}

static const struct run_shape_member *member_of(const struct run_shape *shape, const char *name)
{
    for (size_t i = 0; i < shape->member_count; i++)
        if (strcmp(shape->members[i].name, name) == 0) return &shape->members[i];
    return NULL;
}

/* What is checked, and where; `is_draft`: members may be absent, and lists are in any order. */
struct path {
    const char *name;
    bool is_draft;
};

static struct result check(const json_t *value, const struct run_shape *shape, struct path at, struct error *err);

static struct result check_object(const json_t *value, const struct run_shape *shape, struct path at, struct error *err)
{
    const char *key;
    json_t *each;

    if (!json_is_object(value)) return failure(err, ERROR_INVALID, "%.80s: an object", at.name);
    json_object_foreach ((json_t *)(uintptr_t)value, key, each)
        if (member_of(shape, key) == NULL)
            return failure(err, ERROR_INVALID, "%.80s: the member %.80s is not known", at.name, key);
    for (size_t i = 0; i < shape->member_count; i++) {
        const struct run_shape_member *member = &shape->members[i];
        const json_t *present = json_object_get(value, member->name);
        if (present != NULL) TRY(check(present, member->shape, (struct path){member->name, at.is_draft}, err));
        else if (!member->may_be_absent && !at.is_draft)
            return failure(err, ERROR_INVALID, "%.80s: %s is missing", at.name, member->name);
    }
    return SUCCESS;
}

static const char *key_of(const json_t *element, const char *sorted_by)
{
    return json_string_value(sorted_by[0] == '\0' ? element : json_object_get(element, sorted_by));
}

static struct result check_list(const json_t *value, const struct run_shape *shape, struct path at, struct error *err)
{
    if (!json_is_array(value) || !is_within(shape, json_array_size(value))) return wrong(shape, at.name, err);
    for (size_t i = 0; i < json_array_size(value); i++) {
        TRY(check(json_array_get(value, i), shape->element, at, err));
        if (i == 0 || shape->sorted_by == NULL || at.is_draft) continue;
        if (strcmp(key_of(json_array_get(value, i - 1), shape->sorted_by), key_of(json_array_get(value, i), shape->sorted_by)) >=
            0)
            return failure(err, ERROR_INVALID, "%.80s: sorted, and no two equal", at.name);
    }
    return SUCCESS;
}

static struct result check_map(const json_t *value, const struct run_shape *shape, struct path at, struct error *err)
{
    const char *key;
    json_t *each;

    if (!json_is_object(value) || !is_within(shape, json_object_size(value))) return wrong(shape, at.name, err);
    json_object_foreach ((json_t *)(uintptr_t)value, key, each) {
        if (!shape->fits(key)) return wrong(shape, at.name, err);
        TRY(check(each, shape->element, (struct path){key, at.is_draft}, err));
    }
    return SUCCESS;
}

static bool is_integer(const json_t *value, const struct run_shape *shape)
{
    return json_is_integer(value) && json_integer_value(value) >= shape->least && json_integer_value(value) <= shape->most;
}

static struct result check(const json_t *value, const struct run_shape *shape, struct path at, struct error *err)
{
    bool fits = false;

    switch (shape->kind) {
    case SHAPE_OBJECT: return check_object(value, shape, at, err);
    case SHAPE_LIST: return check_list(value, shape, at, err);
    case SHAPE_MAP: return check_map(value, shape, at, err);
    case SHAPE_TEXT: fits = is_text(value, shape); break;
    case SHAPE_EXACT: fits = json_is_string(value) && strcmp(json_string_value(value), shape->text) == 0; break;
    case SHAPE_INTEGER: fits = is_integer(value, shape); break;
    case SHAPE_FLAG: fits = json_is_boolean(value); break;
    }
    return fits ? SUCCESS : wrong(shape, at.name, err);
}

struct result run_shape_check(const json_t *value, const struct run_shape *shape, const char *name, struct error *err)
{
    return check(value, shape, (struct path){name, false}, err);
}

struct result run_shape_check_draft(const json_t *value, const struct run_shape *shape, const char *name, struct error *err)
{
    return check(value, shape, (struct path){name, true}, err);
}
