#include "training/format/shape.h"

#include <assert.h>
#include <string.h>

/* What is checked, and where. */
struct path {
    const char *name;
    bool may_lack;                 /* members may be absent */
    bool any_order;                /* of lists */
    struct run_shape_fault *fault; /* or NULL */
};

static void enter(struct path at, const char *key, size_t index)
{
    if (at.fault == NULL) return;
    assert(at.fault->depth < RUN_SHAPE_STEPS_MAX);
    at.fault->steps[at.fault->depth++] = (struct run_shape_step){key, index};
}

static void leave(struct path at)
{
    if (at.fault != NULL) at.fault->depth--;
}

static void note(struct path at, const json_t *value, const struct run_shape *shape)
{
    if (at.fault == NULL) return;
    at.fault->value = value;
    at.fault->shape = shape;
}

static struct result wrong(const json_t *value, const struct run_shape *shape, struct path at, struct error *err)
{
    note(at, value, shape);
    return failure(err, ERROR_INVALID, "%.80s: %s", at.name, shape->must);
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

static struct result check(const json_t *value, const struct run_shape *shape, struct path at, struct error *err);

static struct result not_known(const json_t *value, const struct run_shape *shape, const char *key, struct path at,
                               struct error *err)
{
    note(at, value, shape);
    if (at.fault != NULL) at.fault->unknown = key;
    return failure(err, ERROR_INVALID, "%.80s: the member %.80s is not known", at.name, key);
}

static struct result is_missing(const json_t *value, const struct run_shape_member *member, struct path at, struct error *err)
{
    note(at, value, member->shape);
    if (at.fault != NULL) at.fault->missing = member->name;
    return failure(err, ERROR_INVALID, "%.80s: %s is missing", at.name, member->name);
}

static struct result check_inside(const json_t *value, const struct run_shape *shape, struct path at, const char *key,
                                  struct error *err)
{
    const struct path inside = {key, at.may_lack, at.any_order, at.fault};

    enter(at, key, 0);
    TRY(check(value, shape, inside, err));
    leave(at);
    return SUCCESS;
}

static struct result excluded(const json_t *value, const struct run_shape_clash *clash, struct path at, struct error *err)
{
    const json_t *member = json_object_get(value, clash->member);

    enter(at, clash->member, 0);
    if (clash->key == NULL) return wrong(member, clash->rule, (struct path){.name = clash->member, .fault = at.fault}, err);
    note(at, member, clash->rule);
    if (at.fault != NULL) at.fault->unknown = clash->key;
    return failure(err, ERROR_INVALID, "%.80s: '%.80s': %s", clash->member, clash->key, clash->rule->must);
}

static struct result check_object(const json_t *value, const struct run_shape *shape, struct path at, struct error *err)
{
    const char *key;
    json_t *each;

    if (!json_is_object(value)) {
        note(at, value, shape);
        return failure(err, ERROR_INVALID, "%.80s: an object", at.name);
    }
    json_object_foreach ((json_t *)(uintptr_t)value, key, each)
        if (member_of(shape, key) == NULL) return not_known(value, shape, key, at, err);
    for (size_t i = 0; i < shape->member_count; i++) {
        const struct run_shape_member *member = &shape->members[i];
        const json_t *present = json_object_get(value, member->name);
        if (present != NULL) TRY(check_inside(present, member->shape, at, member->name, err));
        else if (!member->may_be_absent && !at.may_lack) return is_missing(value, member, at, err);
    }
    struct run_shape_clash clash = {.key = NULL};
    return shape->clash == NULL || !shape->clash(value, &clash) ? SUCCESS : excluded(value, &clash, at, err);
}

static const char *key_of(const json_t *element, const char *sorted_by)
{
    return json_string_value(sorted_by[0] == '\0' ? element : json_object_get(element, sorted_by));
}

static struct result check_list(const json_t *value, const struct run_shape *shape, struct path at, struct error *err)
{
    if (!json_is_array(value) || !is_within(shape, json_array_size(value))) return wrong(value, shape, at, err);
    for (size_t i = 0; i < json_array_size(value); i++) {
        enter(at, NULL, i);
        TRY(check(json_array_get(value, i), i == 0 && shape->first != NULL ? shape->first : shape->element, at, err));
        leave(at);
        if (i == 0 || shape->sorted_by == NULL || at.any_order) continue;
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

    if (!json_is_object(value) || !is_within(shape, json_object_size(value))) return wrong(value, shape, at, err);
    json_object_foreach ((json_t *)(uintptr_t)value, key, each) {
        if (!shape->fits(key)) {
            if (at.fault != NULL) at.fault->unknown = key;
            return wrong(value, shape, at, err);
        }
        TRY(check_inside(each, shape->element, at, key, err));
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
    return fits ? SUCCESS : wrong(value, shape, at, err);
}

struct result run_shape_check(const json_t *value, const struct run_shape *shape, const char *name, struct error *err)
{
    return check(value, shape, (struct path){.name = name}, err);
}

struct result run_shape_check_draft(const json_t *value, const struct run_shape *shape, const char *name, struct error *err)
{
    return check(value, shape, (struct path){.name = name, .may_lack = true, .any_order = true}, err);
}

struct result run_shape_locate(const json_t *value, const struct run_shape *shape, const char *name,
                               struct run_shape_fault *fault, struct error *err)
{
    *fault = (struct run_shape_fault){.depth = 0};
    return check(value, shape, (struct path){.name = name, .any_order = true, .fault = fault}, err);
}
