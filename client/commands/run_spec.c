#include "client/commands/run_spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/typo.h"
#include "client/commands/api_priv.h"
#include "client/yaml.h"
#include "training/format/form.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define RULE_SIZE    200 /* the longest demand of a shape, and the name of a member or two kinds */
#define PATH_SIZE    120 /* "environment." and a name of a variable that is shown cut */

/* What an artifact with a reference has until the registry has resolved it. */
#define ANY_REPOSITORY "any/repository/name"
#define ANY_DIGEST     "sha256:0000000000000000000000000000000000000000000000000000000000000000"

struct file {
    const char *name;
    struct report *report;
    json_t *spec, *lines; /* lines: NULL if they are not known */
};

/* "spec.yaml:12: " or "spec.yaml: " */
static void where_text(const struct file *file, unsigned line, char text_out[160])
{
    if (line > 0) (void)snprintf(text_out, 160, "%.120s:%u: ", file->name, line);
    else (void)snprintf(text_out, 160, "%.120s: ", file->name);
}

/* ---- the text ---- */

static bool is_json(struct bytes text)
{
    size_t at = 0;

    while (at < text.length && strchr(" \t\r\n", text.data[at]) != NULL && text.data[at] != '\0') at++;
    return at < text.length && text.data[at] == '{';
}

/* Almost all JSON is YAML, too: then the lines are those of the same values. */
static struct result find_lines(struct bytes text, struct file *file, struct error *err)
{
    OWNED_JSON value = NULL;
    OWNED_JSON lines = NULL;
    struct error none = {0};

    if (yaml_read(text, RUN_SPEC_MAX, file->name, &value, &lines, &none).ok && json_equal(value, file->spec)) {
        file->lines = GIVE(lines);
        return SUCCESS;
    }
    return none.kind == ERROR_NO_MEMORY ? api_no_memory(err) : SUCCESS;
}

/* What some editors put first. UTF-8 is read without it; of UTF-16 nothing could be read. */
static struct result skip_mark(struct bytes *text, const struct file *file, struct error *err)
{
    const uint8_t *data = text->data;

    if (text->length >= 2 && ((data[0] == 0xff && data[1] == 0xfe) || (data[0] == 0xfe && data[1] == 0xff)))
        return failure(err, ERROR_INVALID, "%.120s: it is UTF-16: save it as UTF-8", file->name);
    if (text->length >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) *text = (struct bytes){data + 3, text->length - 3};
    return SUCCESS;
}

static struct result read_text(struct bytes text, struct file *file, struct error *err)
{
    struct bytes bare = text;

    TRY(skip_mark(&bare, file, err));
    /* With its mark: yaml_read() passes over one mark, and would pass over a second one here. */
    if (!is_json(bare)) return yaml_read(text, RUN_SPEC_MAX, file->name, &file->spec, &file->lines, err);
    const struct result read = json_read(bare, RUN_SPEC_MAX, &file->spec, err);
    if (!read.ok) failure_name(file->name, err);
    TRY(read);
    return find_lines(bare, file, err);
}

/* ---- what is wrong, and where ---- */

static const json_t *step_into(const json_t *lines, const struct run_shape_step *step)
{
    return step->key == NULL ? yaml_element(lines, step->index) : yaml_member(lines, step->key);
}

/* "inputs[2].name"; "" for the whole specification. */
static void path_text(const struct run_shape_fault *fault, char path[PATH_SIZE])
{
    size_t used = 0;

    path[0] = '\0';
    for (size_t i = 0; i < fault->depth && used < PATH_SIZE; i++) {
        const struct run_shape_step *step = &fault->steps[i];
        used += (size_t)(step->key == NULL ? snprintf(path + used, PATH_SIZE - used, "[%zu]", step->index)
                                           : snprintf(path + used, PATH_SIZE - used, "%s%s", i == 0 ? "" : ".", step->key));
    }
}

static unsigned fault_line(const struct file *file, const struct run_shape_fault *fault)
{
    const json_t *lines = file->lines;

    for (size_t i = 0; i < fault->depth; i++) {
        const json_t *inside = step_into(lines, &fault->steps[i]);
        if (inside == NULL) break; /* a default, or what stands for a reference */
        lines = inside;
    }
    const json_t *unknown = fault->unknown == NULL ? NULL : yaml_member(lines, fault->unknown);
    return yaml_line(unknown == NULL ? lines : unknown);
}

static const char *kind_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "a mapping";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a text";
    case JSON_INTEGER: return "a number";
    case JSON_REAL: return "a fraction";
    case JSON_TRUE:
    case JSON_FALSE: return "true or false";
    case JSON_NULL: break;
    }
    return "nothing";
}

static bool is_text_shape(const struct run_shape *shape)
{
    return shape->kind == SHAPE_TEXT || shape->kind == SHAPE_EXACT;
}

/* Whether the value is of another kind than its shape; "" if it is of the same kind. */
static const char *wanted_kind(const struct run_shape *shape, const json_t *value)
{
    if (is_text_shape(shape)) return json_is_string(value) ? "" : "a text";
    if (shape->kind == SHAPE_LIST) return json_is_array(value) ? "" : "a list";
    if (shape->kind == SHAPE_OBJECT || shape->kind == SHAPE_MAP) return json_is_object(value) ? "" : "a mapping";
    if (shape->kind == SHAPE_INTEGER) return json_is_integer(value) ? "" : "a whole number";
    return "";
}

static const char *way_out(const struct run_shape *shape, const json_t *value)
{
    if (is_text_shape(shape) && (json_is_number(value) || json_is_boolean(value))) return "put it in quotes";
    if (shape->kind == SHAPE_INTEGER && json_is_string(value)) return "write a whole number without quotes and units";
    if (shape->kind == SHAPE_LIST && !json_is_array(value)) return "write a list, also of one value: [value]";
    if (shape->kind == SHAPE_MAP || shape->kind == SHAPE_OBJECT) return "man sijil, and docs/formats/run.md, have its members";
    return "docs/formats/run.md has its form";
}

/* The known members of the object, or the most similar one. */
static void suggest(const struct file *file, const struct run_shape_fault *fault)
{
    const char *nearest = NULL;
    char text[300] = "known are"; /* the members of a specification have 140 letters */
    unsigned best = TYPO_BEST;
    size_t used = strlen(text);

    for (size_t i = 0; i < fault->shape->member_count; i++) {
        const char *name = fault->shape->members[i].name;
        if (typo_is_near(fault->unknown, name, &best)) nearest = name;
        if (used < sizeof text) used += (size_t)snprintf(text + used, sizeof text - used, " %s", name);
    }
    if (nearest != NULL) (void)snprintf(text, sizeof text, "did you mean %s?", nearest);
    report_explain(file->report, "try", text);
}

/* "a list, and this is a text; 1 to 256 texts", "a whole number from 1 to 64, and this is a text", or what the shape demands. */
static void rule_text(const struct run_shape_fault *fault, char text[RULE_SIZE])
{
    const char *must = fault->shape->must == NULL ? "" : fault->shape->must, *kind = wanted_kind(fault->shape, fault->value);
    const bool says_kind = fault->shape->kind == SHAPE_INTEGER; /* its demand does already */

    if (kind[0] == '\0') (void)snprintf(text, RULE_SIZE, "%s", must);
    else if (says_kind) (void)snprintf(text, RULE_SIZE, "%s, and this is %s", must, kind_of(fault->value));
    else
        (void)snprintf(text, RULE_SIZE, "%s, and this is %s%s%s", kind, kind_of(fault->value), must[0] == '\0' ? "" : "; ", must);
}

static struct result tell(const struct file *file, const struct run_shape_fault *fault, struct error *err)
{
    char path[PATH_SIZE], where[160], text[RULE_SIZE];

    path_text(fault, path);
    where_text(file, fault_line(file, fault), where);
    const char *gap = path[0] == '\0' ? "" : ": ";
    if (fault->unknown != NULL && fault->shape->kind == SHAPE_MAP) {
        report_explain(file->report, "try", "a name such as LEARNING_RATE");
        return failure(err, ERROR_INVALID, "%s%s%s'%.40s': %.80s", where, path, gap, fault->unknown, fault->shape->must);
    }
    if (fault->unknown != NULL) {
        suggest(file, fault);
        return failure(err, ERROR_INVALID, "%s%s%sthe member %.40s is not known", where, path, gap, fault->unknown);
    }
    if (fault->missing != NULL) {
        (void)snprintf(text, sizeof text, "add %s: %s", fault->missing,
                       fault->shape->must == NULL ? "docs/formats/run.md has its members" : fault->shape->must);
        report_explain(file->report, "try", text);
        return failure(err, ERROR_INVALID, "%s%s%s%s is missing", where, path, gap, fault->missing);
    }
    rule_text(fault, text);
    report_explain(file->report, "try", way_out(fault->shape, fault->value));
    return failure(err, ERROR_INVALID, "%s%s%s%.110s", where, path, gap, text);
}

/* ---- references ---- */

json_t *run_spec_artifact(const json_t *spec, size_t index)
{
    static const char *const names[] = {"code", "image", "resume"};

    for (size_t i = 0; i < COUNT(names); i++) {
        json_t *artifact = json_object_get(spec, names[i]);
        if (artifact != NULL && index-- == 0) return artifact;
    }
    return json_array_get(json_object_get(spec, "inputs"), index);
}

/* Where an artifact is, for messages. */
static void step_to(const json_t *spec, const json_t *artifact, struct run_shape_fault *fault)
{
    const json_t *inputs = json_object_get(spec, "inputs");
    static const char *const names[] = {"code", "image", "resume"};

    for (size_t i = 0; i < COUNT(names); i++)
        if (json_object_get(spec, names[i]) == artifact) fault->steps[fault->depth++] = (struct run_shape_step){names[i], 0};
    for (size_t i = 0; i < json_array_size(inputs); i++) {
        if (json_array_get(inputs, i) != artifact) continue;
        fault->steps[fault->depth++] = (struct run_shape_step){"inputs", 0};
        fault->steps[fault->depth++] = (struct run_shape_step){NULL, i};
    }
}

/* organisation/project/name, before the tag or the digest. */
static bool names_repository(const char *reference)
{
    const char *slash = strrchr(reference, '/');
    char repository[256]; /* as the format has it */

    if (slash == NULL) return false;
    const size_t length = (size_t)(slash - reference) + strcspn(slash, ":@");
    if (length >= sizeof repository) return false;
    (void)snprintf(repository, sizeof repository, "%.*s", (int)length, reference);
    return form_repository(repository);
}

/* Of a reference as `sijil push` prints it. */
static bool begins_with_host(const char *reference)
{
    const size_t first = strcspn(reference, "/");

    return strncmp(reference, "localhost/", strlen("localhost/")) == 0 || memchr(reference, ':', first) != NULL ||
           memchr(reference, '.', first) != NULL;
}

static struct result check_reference(const struct file *file, const json_t *artifact, struct error *err)
{
    const json_t *reference = json_object_get(artifact, "reference");
    struct run_shape_fault fault = {.depth = 0};
    char path[PATH_SIZE], where[160];

    if (reference == NULL) return SUCCESS;
    const bool has_both = json_object_get(artifact, "digest") != NULL || json_object_get(artifact, "repository") != NULL;
    const char *text = json_string_value(reference);
    if (text != NULL && !has_both && names_repository(text) && !begins_with_host(text)) return SUCCESS;
    step_to(file->spec, artifact, &fault);
    path_text(&fault, path);
    where_text(file, fault_line(file, &fault), where);
    report_explain(file->report, "try",
                   text != NULL && begins_with_host(text) ? "leave out the registry's host: reference: acme/models/code:v1"
                                                          : "reference: acme/models/code:v1");
    return failure(err, ERROR_INVALID, "%s%s: %s", where, path,
                   has_both ? "either reference, or repository and digest"
                            : "reference: a text, organisation/project/name:tag, in small letters");
}

/* A copy in which each reference is replaced by what it will be resolved to. */
static struct result stand_in(const struct file *file, json_t **whole_out, struct error *err)
{
    OWNED_JSON whole = json_deep_copy(file->spec);
    json_t *artifact;

    if (whole == NULL) return api_no_memory(err);
    for (size_t i = 0; (artifact = run_spec_artifact(whole, i)) != NULL; i++) {
        TRY(check_reference(file, run_spec_artifact(file->spec, i), err));
        if (json_object_get(artifact, "reference") == NULL) continue;
        if (json_object_del(artifact, "reference") != 0 ||
            json_object_set_new(artifact, "repository", json_string(ANY_REPOSITORY)) != 0 ||
            json_object_set_new(artifact, "digest", json_string(ANY_DIGEST)) != 0)
            return api_no_memory(err);
    }
    *whole_out = GIVE(whole);
    return SUCCESS;
}

/* ---- lists ---- */

static const struct sorted_list {
    const char *name, *by; /* by: a member of its elements; NULL: they are texts */
} lists[] = {{"inputs", "name"}, {"outputs", "name"}, {"jurisdictions", NULL}};

static const char *key_of(const json_t *element, const char *by)
{
    return json_string_value(by == NULL ? element : json_object_get(element, by));
}

static struct result check_once(const struct file *file, const struct sorted_list *list, struct error *err)
{
    const json_t *elements = json_object_get(file->spec, list->name), *lines = yaml_member(file->lines, list->name);
    char where[160];

    for (size_t i = 0; i < json_array_size(elements); i++) {
        const char *key = key_of(json_array_get(elements, i), list->by);
        for (size_t k = 0; k < i; k++) {
            if (strcmp(key_of(json_array_get(elements, k), list->by), key) != 0) continue;
            where_text(file, yaml_line(yaml_element(lines, i)), where);
            report_explain(file->report, "try", "give each a name of its own");
            return failure(err, ERROR_INVALID, "%s%s[%zu]: '%.63s' is there twice", where, list->name, i, key);
        }
    }
    return SUCCESS;
}

static int compare_texts(const void *a, const void *b)
{
    const json_t *const *one = a, *const *other = b;

    return strcmp(key_of(*one, NULL), key_of(*other, NULL));
}

static int compare_names(const void *a, const void *b)
{
    const json_t *const *one = a, *const *other = b;

    return strcmp(key_of(*one, "name"), key_of(*other, "name"));
}

static struct result sort(json_t *spec, const struct sorted_list *list, struct error *err)
{
    json_t *elements = json_object_get(spec, list->name), *each[RUN_INPUTS_MAX]; /* the longest list */
    const size_t count = json_array_size(elements);
    OWNED_JSON sorted = json_array();

    for (size_t i = 0; i < count; i++) each[i] = json_array_get(elements, i);
    if (count > 1) qsort(each, count, sizeof each[0], list->by == NULL ? compare_texts : compare_names);
    for (size_t i = 0; i < count; i++)
        if (json_array_append(sorted, each[i]) != 0) return api_no_memory(err);
    return json_object_set(spec, list->name, sorted) == 0 ? SUCCESS : api_no_memory(err);
}

/* ---- the whole ---- */

static struct result add_defaults(json_t *spec, struct error *err)
{
    OWNED_JSON defaults = json_pack("{s:{}, s:[], s:i, s:i, s:s, s:i, s:s}", "environment", "inputs", "nodes", 1, "tasks", 1,
                                    "network", "none", "assurance", 1, "pool", "default");

    return defaults == NULL || json_object_update_missing(spec, defaults) != 0 ? api_no_memory(err) : SUCCESS;
}

static struct result check(const struct file *file, struct error *err)
{
    OWNED_JSON whole = NULL;
    struct run_shape_fault fault;

    TRY(stand_in(file, &whole, err));
    if (!run_spec_locate(whole, &fault, err).ok) return tell(file, &fault, err);
    for (size_t i = 0; i < COUNT(lists); i++) TRY(check_once(file, &lists[i], err));
    return SUCCESS;
}

/* For editors. Nothing of it is signed. */
static struct result drop_schema(const struct file *file, struct error *err)
{
    const json_t *schema = json_object_get(file->spec, "$schema");
    char where[160];

    if (schema == NULL) return SUCCESS;
    if (json_is_string(schema)) return json_object_del(file->spec, "$schema") == 0 ? SUCCESS : api_no_memory(err);
    where_text(file, yaml_line(yaml_member(file->lines, "$schema")), where);
    return failure(err, ERROR_INVALID, "%s$schema: a text, the address of the JSON Schema, and this is %s", where,
                   kind_of(schema));
}

static struct result parse(struct bytes text, struct file *file, struct error *err)
{
    TRY(read_text(text, file, err));
    if (!json_is_object(file->spec)) {
        report_explain(file->report, "try", "begin with the members argv, code, outputs and limits; examples/digits has one");
        return failure(err, ERROR_INVALID, "%.120s: a specification is a mapping of members (docs/runs.md)", file->name);
    }
    TRY(drop_schema(file, err));
    TRY(add_defaults(file->spec, err));
    TRY(check(file, err));
    for (size_t i = 0; i < COUNT(lists); i++) TRY(sort(file->spec, &lists[i], err));
    return SUCCESS;
}

struct result run_spec_parse(struct bytes text, const char *name, struct report *report, json_t **spec_out, struct error *err)
{
    const unsigned lacks = json_lacks();
    struct file file = {.name = name, .report = report};
    struct result parsed = parse(text, &file, err);

    if (json_lacks() != lacks) parsed = api_no_memory(err); /* what lacks a member for this reason is not wrong */
    json_decref(file.lines);
    if (parsed.ok) *spec_out = GIVE(file.spec);
    json_decref(file.spec);
    return parsed;
}
