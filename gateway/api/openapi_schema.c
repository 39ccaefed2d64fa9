/* Schemas of bodies as JSON Schema 2020-12, the version that OpenAPI 3.1 uses. */
#include <string.h>

#include "gateway/api/openapi_priv.h"

static void set(json_t *object, const char *name, json_t *value)
{
    (void)json_object_set_new(object, name, value);
}

static json_t *list_of_words(const char *words)
{
    json_t *list = json_array();

    for (struct bytes word; schema_next_word(&words, &word);)
        (void)json_array_append_new(list, json_stringn((const char *)word.data, word.length));
    return list;
}

/* A form with a format or a pattern determines the length of the text, so it gets no length limits. */
static void describe_text(const struct schema_member *member, json_t *value)
{
    const struct schema_spelling spelling = schema_spelling(member->form);

    if (member->words != NULL) set(value, "enum", list_of_words(member->words));
    if (spelling.format != NULL) set(value, "format", json_string(spelling.format));
    if (member->form == FORM_SIGNED_TIME) set(value, "x-sijil-as-signed", json_true());
    if (spelling.pattern != NULL) set(value, "pattern", json_string(spelling.pattern));
    if (member->words != NULL || (member->form != FORM_FREE && member->form != FORM_NAME && member->form != FORM_PROJECT &&
                                  member->form != FORM_NAMESPACE))
        return;
    if (member->least > 0) set(value, "minLength", json_integer(member->least));
    if (member->most > 0) set(value, "maxLength", json_integer(member->most));
}

static void describe_list(const struct schema_member *member, json_t *value)
{
    if (member->least > 0) set(value, "minItems", json_integer(member->least));
    if (member->most > 0) set(value, "maxItems", json_integer(member->most));
    if (member->type != SCHEMA_LIST_OF_TEXTS) return;
    json_t *items = json_pack("{s:s}", "type", "string");
    if (member->words != NULL) set(items, "enum", list_of_words(member->words));
    set(value, "items", items);
}

static const char *type_of(const struct schema_member *member)
{
    static const char *const names[] = {
        [SCHEMA_TEXT] = "string", [SCHEMA_NUMBER] = "integer",      [SCHEMA_FLAG] = "boolean", [SCHEMA_OBJECT] = "object",
        [SCHEMA_LIST] = "array",  [SCHEMA_LIST_OF_TEXTS] = "array", [SCHEMA_ANY] = NULL};
    return names[member->type];
}

json_t *openapi_value(const struct schema_member *member)
{
    json_t *value = json_object();
    const char *type = type_of(member);

    if (type != NULL)
        set(value, "type", (member->presence & NULLABLE) != 0 ? json_pack("[s, s]", type, "null") : json_string(type));
    if (member->type == SCHEMA_TEXT) describe_text(member, value);
    if (member->type == SCHEMA_LIST || member->type == SCHEMA_LIST_OF_TEXTS) describe_list(member, value);
    if (member->type == SCHEMA_NUMBER) {
        set(value, "format", json_string("int64"));
        set(value, "minimum", json_integer(member->least));
        set(value, "maximum", json_integer(member->most));
    }
    return value;
}

json_t *openapi_ascii_value(const struct schema_member *member)
{
    json_t *value = openapi_value(member);

    if (member->type == SCHEMA_TEXT && member->words == NULL && member->form == FORM_FREE)
        set(value, "pattern", json_string("^[ -~]*$"));
    return value;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the schemas, which are constant */
static json_t *describe_member(json_t *schemas, const struct schema_member *member, bool is_of_body)
{
    json_t *value = member->type == SCHEMA_OBJECT ? openapi_schema(schemas, member->of, is_of_body) : openapi_value(member);

    if (member->type == SCHEMA_LIST) set(value, "items", openapi_schema(schemas, member->of, is_of_body));
    set(value, "description", json_string(member->meaning));
    return value;
}

/*
 * Request bodies allow no other members, because the server refuses them. Answers may get more members in later versions, and
 * a client must accept them.
 */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as the schemas, which are constant */
static json_t *describe(json_t *schemas, const struct schema *schema, bool is_of_body)
{
    json_t *required = json_array(), *properties = json_object();
    json_t *value = json_pack("{s:s, s:s}", "type", "object", "description", schema->meaning);

    for (size_t i = 0; i < schema->count; i++) {
        const struct schema_member *member = &schema->members[i];
        set(properties, member->name, describe_member(schemas, member, is_of_body));
        if ((member->presence & REQUIRED) != 0) (void)json_array_append_new(required, json_string(member->name));
    }
    set(value, "properties", properties);
    if (json_array_size(required) > 0) set(value, "required", required);
    else json_decref(required);
    if ((schema->flags & SCHEMA_IS_OPEN) != 0) set(value, "additionalProperties", json_true());
    else if (is_of_body) set(value, "additionalProperties", json_false());
    return value;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the schemas, which are constant */
json_t *openapi_schema(json_t *schemas, const struct schema *schema, bool is_of_body)
{
    if (json_object_get(schemas, schema->name) == NULL) set(schemas, schema->name, describe(schemas, schema, is_of_body));
    return json_pack("{s:o}", "$ref", json_sprintf("#/components/schemas/%s", schema->name));
}

json_t *openapi_content(json_t *schemas, const struct schema *schema, bool is_of_body)
{
    if (schema->content_type == NULL) return NULL;
    if (schema->members != NULL)
        return json_pack("{s:{s:o}}", schema->content_type, "schema", openapi_schema(schemas, schema, is_of_body));
    json_t *value = json_pack("{s:s}", "type", strstr(schema->content_type, "json") != NULL ? "object" : "string");
    if (schema == &schema_bytes)
        set(value, "format", json_string("binary")); /* generators of clients leave out a body without it */
    return json_pack("{s:{s:o}}", schema->content_type, "schema", value);
}
