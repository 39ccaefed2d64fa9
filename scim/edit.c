/* Bodies and operations, for persons and groups. */
#include "scim/edit_priv.h"

#include <string.h>

#include "base/text.h"
#include "scim/user.h"

static struct result check_schemas(const json_t *body, const char *urn, struct error *err)
{
    const json_t *schemas = NULL;

    TRY(scim_member(body, "schemas", &schemas, err));
    for (size_t i = 0; i < json_array_size(schemas); i++) {
        const char *each = json_string_value(json_array_get(schemas, i));
        if (each != NULL && scim_name_is(bytes_of_text(each), urn)) return SUCCESS;
    }
    return failure(err, ERROR_INVALID, "invalidSyntax: schemas does not name %s", urn);
}

/* One operation of each member. Unknown members are refused, so nobody believes that something was kept. */
static struct result apply_members(const json_t *object, enum scim_operator operator, void * edit, scim_apply *apply,
                                   struct error *err)
{
    const char *name = NULL;
    json_t *value = NULL;

    json_object_foreach ((json_t *)(uintptr_t)object, name, value) {
        struct scim_operation operation = {.operator= operator, .value = value };
        const json_t *alone = NULL;
        struct bytes sub = {0};
        TRY(scim_member(object, name, &alone, err));
        if (!scim_attribute_find(bytes_of_text(name), &operation.path.attribute, &sub))
            return failure(err, ERROR_INVALID, "invalidPath: %.60s is no attribute of a User or a Group", name);
        if (sub.length > 0 && operation.path.attribute != SCIM_NOT_KEPT)
            return failure(err, ERROR_INVALID, "invalidPath: %.60s has no parts that can be set", name);
        TRY(apply(edit, &operation, err));
    }
    return SUCCESS;
}

struct result scim_body_read(const json_t *body, const char *urn, void *edit, scim_apply *apply, struct error *err)
{
    TRY(check_schemas(body, urn, err));
    return apply_members(body, SCIM_REPLACE, edit, apply, err);
}

static struct result read_operator(const json_t *json, enum scim_operator *operator_out, struct error *err)
{
    static const char *const words[] = {[SCIM_ADD] = "add", [SCIM_REPLACE] = "replace", [SCIM_REMOVE] = "remove"};
    const json_t *value = NULL;

    TRY(scim_member(json, "op", &value, err));
    const struct bytes word = bytes_of_text(json_is_string(value) ? json_string_value(value) : "");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (!scim_name_is(word, words[i])) continue;
        *operator_out = (enum scim_operator)i;
        return SUCCESS;
    }
    return failure(err, ERROR_INVALID, "invalidSyntax: op is add, replace or remove");
}

static struct result apply_one(const json_t *json, void *edit, scim_apply *apply, struct error *err)
{
    struct scim_operation operation = {.value = NULL};
    const json_t *path = NULL;

    if (!json_is_object(json)) return failure(err, ERROR_INVALID, "invalidSyntax: an operation is an object");
    TRY(read_operator(json, &operation.operator, err));
    TRY(scim_member(json, "value", &operation.value, err));
    TRY(scim_member(json, "path", &path, err));
    if (json_is_string(path)) {
        TRY(scim_path_read(json_string_value(path), &operation.path, err));
        if (operation.operator!= SCIM_REMOVE && operation.value == NULL)
            return failure(err, ERROR_INVALID, "invalidValue: an operation that adds or replaces has a value");
        return apply(edit, &operation, err);
    }
    if (path != NULL && !json_is_null(path)) return failure(err, ERROR_INVALID, "invalidPath: path is a text");
    if (operation.operator== SCIM_REMOVE) return failure(err, ERROR_INVALID, "noTarget: what is removed has a path");
    if (!json_is_object(operation.value))
        return failure(err, ERROR_INVALID, "invalidValue: without a path the value is an object");
    return apply_members(operation.value, operation.operator, edit, apply, err);
}

struct result scim_patch_read(const json_t *body, void *edit, scim_apply *apply, struct error *err)
{
    const json_t *operations = NULL;

    TRY(check_schemas(body, SCIM_PATCH_URN, err));
    TRY(scim_member(body, "Operations", &operations, err));
    if (!json_is_array(operations) || json_array_size(operations) == 0)
        return failure(err, ERROR_INVALID, "invalidSyntax: Operations is a list with at least one operation");
    if (json_array_size(operations) > SCIM_OPERATIONS_MAX)
        return failure(err, ERROR_INVALID, "tooMany: at most %d operations in one request", SCIM_OPERATIONS_MAX);
    for (size_t i = 0; i < json_array_size(operations); i++) TRY(apply_one(json_array_get(operations, i), edit, apply, err));
    return SUCCESS;
}

struct result scim_text_read(const json_t *value, const char *name, size_t least, size_t most, char *text_out, struct error *err)
{
    const char *text = json_is_null(value) && least == 0 ? "" : json_string_value(value);
    const size_t length = text == NULL ? 0 : strlen(text);

    if (text == NULL || length < least || length > most || (length > 0 && !text_is_visible(bytes_of_text(text))))
        return failure(err, ERROR_INVALID, "invalidValue: %s is a text of %zu to %zu bytes without control characters", name,
                       least, most);
    memcpy(text_out, text, length + 1);
    return SUCCESS;
}

struct result scim_flag_read(const json_t *value, const char *name, bool *flag_out, struct error *err)
{
    const struct bytes text = bytes_of_text(json_is_string(value) ? json_string_value(value) : "");

    *flag_out = json_is_true(value) || scim_name_is(text, "true");
    if (*flag_out || json_is_false(value) || scim_name_is(text, "false")) return SUCCESS;
    return failure(err, ERROR_INVALID, "invalidValue: %s is true or false", name);
}
