#include "gateway/pipeline/schema.h"

#include <string.h>

#define SAYING_MAX 512 /* bytes of the description of one member, with its words */

const struct schema schema_none = {.name = "none", .meaning = "no body"};
const struct schema schema_empty = {.name = "empty",
                                    .meaning = "an object without members",
                                    .content_type = "application/json",
                                    .flags = SCHEMA_MAY_BE_LEFT_OUT,
                                    .members = (const struct schema_member[]){{.name = NULL}}};
const struct schema schema_text = {.name = "text", .meaning = "text", .content_type = "text/plain; charset=utf-8"};
const struct schema schema_exposition = {.name = "exposition",
                                         .meaning = "metrics in the text format of Prometheus",
                                         .content_type = "text/plain; version=0.0.4; charset=utf-8"};
const struct schema schema_bytes = {.name = "bytes", .meaning = "bytes", .content_type = "application/octet-stream"};
const struct schema schema_json = {.name = "json", .meaning = "a JSON object", .content_type = "application/json"};
const struct schema schema_openapi = {
    .name = "openapi", .meaning = "a description in the form of OpenAPI 3", .content_type = "application/json"};
const struct schema schema_entry = {
    .name = "entry", .meaning = "an entry of the log, byte for byte", .content_type = "application/json"};
const struct schema schema_manifest = {.name = "manifest",
                                       .meaning = "a manifest or an index; an index has a media type of its own",
                                       .content_type = "application/vnd.oci.image.manifest.v1+json"};
const struct schema schema_index = {
    .name = "index", .meaning = "an index of referrers", .content_type = "application/vnd.oci.image.index.v1+json"};
PART(denied, "one reason for a refusal", HAS_TEXT("rule", REQUIRED, FORM_FREE, 0, 0, "the rule that says no"),
     HAS_TEXT("policy", REQUIRED, FORM_FREE, 0, 0, "the policy of the rule; `sys` and `rbac` are the registry's own"),
     HAS_TEXT("message", OPTIONAL, FORM_FREE, 0, 0, "the message of the rule, for people"),
     HAS_TEXT("missing", OPTIONAL, FORM_FREE, 0, 0, "a fact that the rule needs and that was not stated"),
     HAS_TEXT("failed", OPTIONAL, FORM_FREE, 0, 0, "the part of the rule that does not hold"))

SCHEMA_WITH(SCHEMA_IS_OPEN, problem, "an error (RFC 9457)", HAS_TEXT("type", REQUIRED, FORM_FREE, 0, 0, "always about:blank"),
            HAS_TEXT("title", REQUIRED, FORM_FREE, 1, 0, "what kind of error it is"),
            HAS_NUMBER("status", REQUIRED, 400, 599, "the status of the answer"),
            HAS_TEXT("detail", REQUIRED, FORM_FREE, 0, 0, "what to do about it"),
            HAS_TEXT("instance", REQUIRED, FORM_FREE, 1, 0, "the id of the request, also in X-Request-Id"),
            HAS_TEXT("rule", OPTIONAL, FORM_FREE, 0, 0, "of a refusal: the first rule that says no"),
            HAS_TEXT("policy", OPTIONAL, FORM_FREE, 0, 0, "of a refusal: the policy of that rule"),
            HAS_TEXT("decision", OPTIONAL, FORM_FREE, 0, 0, "of a refusal: the decision, by the id that the log has"),
            HAS_TEXT("asked", OPTIONAL, FORM_FREE, 1, 0, "of a refusal: what the rule says no to: action, name, operations"),
            HAS_LIST("denials", OPTIONAL, 0, schema_denied, "of a refusal: every rule that says no"))

SCHEMA_WITH(SCHEMA_IS_OPEN, errors, "an error, as OCI Distribution has it",
            HAS_ANY("errors", REQUIRED, "a list of objects with `code`, `message` and sometimes `detail`"))

static const struct schema_spelling spellings[SCHEMA_FORM_COUNT] = {
#define X(constant, format, pattern, word) [constant] = {format, pattern, word},
    SCHEMA_FORMS(X)
#undef X
};

struct schema_spelling schema_spelling(enum schema_form form)
{
    return spellings[form];
}

bool schema_next_word(const char **at, struct bytes *word_out)
{
    const char *word = *at + strspn(*at, " ");

    *word_out = (struct bytes){(const uint8_t *)word, strcspn(word, " ")};
    *at = word + word_out->length;
    return word_out->length > 0;
}

static struct result say_words(const char *words, struct buffer *buffer, struct error *err)
{
    const char *between = "one of ";

    for (struct bytes word; schema_next_word(&words, &word); between = ", ") {
        TRY(buffer_add_text(buffer, between, err));
        TRY(buffer_add(buffer, word.data, word.length, err));
    }
    return SUCCESS;
}

static struct result say_text(const struct schema_member *member, struct buffer *buffer, struct error *err)
{
    if (member->words != NULL) return say_words(member->words, buffer, err);
    TRY(buffer_format(buffer, err, "%s %s",
                      member->form == FORM_ID || member->form == FORM_PROJECT || member->form == FORM_NAMESPACE ? "an" : "a",
                      spellings[member->form].word));
    if (member->most == 0 || member->least == member->most || member->form == FORM_TIME) return SUCCESS;
    if (member->least == 0) return buffer_format(buffer, err, " of at most %lld bytes", (long long)member->most);
    return buffer_format(buffer, err, " of %lld to %lld bytes", (long long)member->least, (long long)member->most);
}

static struct result say_number(const struct schema_member *member, struct buffer *buffer, struct error *err)
{
    if (member->most == INT64_MAX) return buffer_format(buffer, err, "a whole number from %lld", (long long)member->least);
    return buffer_format(buffer, err, "a whole number from %lld to %lld", (long long)member->least, (long long)member->most);
}

static struct result say_value(const struct schema_member *member, struct buffer *buffer, struct error *err)
{
    switch (member->type) {
    case SCHEMA_TEXT: return say_text(member, buffer, err);
    case SCHEMA_NUMBER: return say_number(member, buffer, err);
    case SCHEMA_FLAG: return buffer_add_text(buffer, "true or false", err);
    case SCHEMA_OBJECT: return buffer_format(buffer, err, "an object: %s", member->of->name);
    case SCHEMA_LIST: return buffer_format(buffer, err, "a list of objects: %s", member->of->name);
    case SCHEMA_LIST_OF_TEXTS:
        TRY(buffer_add_text(buffer, "a list of texts", err));
        if (member->words == NULL) return SUCCESS;
        TRY(buffer_add_text(buffer, ", each ", err));
        return say_words(member->words, buffer, err);
    case SCHEMA_ANY: break;
    }
    return buffer_add_text(buffer, "JSON", err);
}

struct result schema_say(const struct schema_member *member, struct buffer *buffer, struct error *err)
{
    TRY(say_value(member, buffer, err));
    return (member->presence & NULLABLE) != 0 ? buffer_add_text(buffer, ", or null", err) : SUCCESS;
}

bool schema_has_word(const char *words, const char *word)
{
    for (struct bytes next; schema_next_word(&words, &next);)
        if (bytes_equal(next, bytes_of_text(word))) return true;
    return false;
}

static bool text_fits(const struct schema_member *member, const json_t *value)
{
    const char *text = json_string_value(value);
    const int64_t length = (int64_t)json_string_length(value);

    if (text == NULL) return false;
    if (member->words != NULL) return schema_has_word(member->words, text);
    return length >= member->least && (member->most == 0 || length <= member->most);
}

static bool number_fits(const struct schema_member *member, const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= member->least && json_integer_value(value) <= member->most;
}

static bool list_fits(const struct schema_member *member, const json_t *value)
{
    const int64_t count = (int64_t)json_array_size(value);

    if (!json_is_array(value) || count < member->least || (member->most != 0 && count > member->most)) return false;
    if (member->type != SCHEMA_LIST_OF_TEXTS) return true;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const char *text = json_string_value(json_array_get(value, i));
        if (text == NULL || (member->words != NULL && !schema_has_word(member->words, text))) return false;
    }
    return true;
}

/* The members of an object, and of the objects of a list, are checked afterwards against their own schema. */
static bool value_fits(const struct schema_member *member, const json_t *value)
{
    if (json_is_null(value) && member->type != SCHEMA_ANY) return (member->presence & NULLABLE) != 0;
    switch (member->type) {
    case SCHEMA_TEXT: return text_fits(member, value);
    case SCHEMA_NUMBER: return number_fits(member, value);
    case SCHEMA_FLAG: return json_is_boolean(value);
    case SCHEMA_OBJECT: return json_is_object(value);
    case SCHEMA_LIST:
    case SCHEMA_LIST_OF_TEXTS: return list_fits(member, value);
    case SCHEMA_ANY: break;
    }
    return true;
}

static struct result not_so(const struct schema_member *member, const char *how, struct error *err)
{
    struct buffer OWNED_BUFFER saying = BUFFER(SAYING_MAX);

    TRY(schema_say(member, &saying, err));
    return failure(err, ERROR_INVALID, "\"%s\" %s%s", member->name, how, buffer_text(&saying));
}

static struct result check_names(const struct schema *schema, const json_t *value, struct error *err)
{
    struct buffer OWNED_BUFFER names = BUFFER(SAYING_MAX);
    json_t *known = json_object(), *object = (json_t *)(uintptr_t)value, *each; /* jansson's iterators take no const */
    const char *name, *unknown = NULL;

    for (size_t i = 0; i < schema->count; i++) (void)json_object_set_new(known, schema->members[i].name, json_true());
    json_object_foreach (object, name, each)
        if (json_object_get(known, name) == NULL && unknown == NULL) unknown = name;
    const bool is_whole = json_object_size(known) == schema->count;
    json_decref(known);
    if (!is_whole) return failure(err, ERROR_NO_MEMORY, "no memory to look at a body");
    if (unknown == NULL) return SUCCESS;
    for (size_t i = 0; i < schema->count; i++)
        TRY(buffer_format(&names, err, "%s%s", i == 0 ? "" : ", ", schema->members[i].name));
    return failure(err, ERROR_INVALID, "there is no member \"%.40s\" here; there %s %s", unknown,
                   schema->count == 0 ? "is" : "are:", schema->count == 0 ? "none" : buffer_text(&names));
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the schemas, which are constant */
static struct result check_inside(const struct schema_member *member, const json_t *value, struct error *err)
{
    if (member->type == SCHEMA_OBJECT && !json_is_null(value)) return schema_check(member->of, value, err);
    if (member->type != SCHEMA_LIST) return SUCCESS;
    for (size_t i = 0; i < json_array_size(value); i++) TRY(schema_check(member->of, json_array_get(value, i), err));
    return SUCCESS;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as the schemas, which are constant */
struct result schema_check(const struct schema *schema, const json_t *value, struct error *err)
{
    if (!json_is_object(value)) return failure(err, ERROR_INVALID, "%s is a JSON object", schema->meaning);
    if ((schema->flags & SCHEMA_IS_READ_ELSEWHERE) != 0) return SUCCESS;
    if ((schema->flags & SCHEMA_IS_OPEN) == 0) TRY(check_names(schema, value, err));
    for (size_t i = 0; i < schema->count; i++) {
        const struct schema_member *member = &schema->members[i];
        const json_t *found = json_object_get(value, member->name);
        if (found == NULL && (member->presence & REQUIRED) != 0) return not_so(member, "is missing; it is ", err);
        if (found == NULL) continue;
        if (!value_fits(member, found)) return not_so(member, "has to be ", err);
        TRY(check_inside(member, found, err));
    }
    return SUCCESS;
}
