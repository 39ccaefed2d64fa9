#include "runner/sandbox/spec.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "runner/sandbox/variables.h"

#define COUNT(array)  (sizeof(array) / sizeof((array)[0]))
#define RULE_OF_NAMES "1 to 63 of a-z, 0-9, '-', '_' and '.', first a letter or digit"

bool run_spec_is_name(const char *name)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyz0123456789", all[] = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
    const struct bytes text = bytes_of_text(name);

    return text.length > 0 && text.length <= SPEC_NAME_MAX && strchr(first, name[0]) != NULL && text_consists_of(text, all);
}

static struct result must_be(struct error *err, const char *member, const char *rule)
{
    return failure(err, ERROR_INVALID, "%.80s must be %s", member, rule);
}

static struct result take_integer(const json_t *object, const char *name, const int64_t bounds[2], int64_t *value,
                                  struct error *err)
{
    const json_t *member = json_object_get(object, name);

    if (member == NULL) return SUCCESS;
    if (!json_is_integer(member) || json_integer_value(member) < bounds[0] || json_integer_value(member) > bounds[1])
        return failure(err, ERROR_INVALID, "%s must be a whole number from %lld to %lld", name, (long long)bounds[0],
                       (long long)bounds[1]);
    *value = json_integer_value(member);
    return SUCCESS;
}

/* Each member of `object` must be one of `names`. */
static struct result check_names(const json_t *object, const char *what, const char *const *names, size_t count,
                                 struct error *err)
{
    const char *key = NULL;
    json_t *value = NULL;

    json_object_foreach ((json_t *)(uintptr_t)object, key, value) {
        bool known = false;
        for (size_t i = 0; i < count && !known; i++) known = strcmp(key, names[i]) == 0;
        if (!known) return failure(err, ERROR_INVALID, "%s has a member '%.60s', which is unknown", what, key);
    }
    return SUCCESS;
}

static struct result take_limits(const json_t *json, struct sandbox_limits *limits, struct error *err)
{
    static const char *const names[] = {
#define X(name, least, most, initial, what) #name,
#include "runner/sandbox/limits.def"
#undef X
    };
    const json_t *object = json_object_get(json, "limits");

    *limits = sandbox_limits_default;
    if (object == NULL) return SUCCESS;
    if (!json_is_object(object)) return must_be(err, "limits", "an object");
    TRY(check_names(object, "limits", names, COUNT(names), err));
#define X(name, least, most, initial, what) \
    TRY(take_integer(object, #name, (const int64_t[]){(least), (most)}, &limits->name, err));
#include "runner/sandbox/limits.def"
#undef X
    return SUCCESS;
}

static bool is_word(const json_t *value)
{
    return json_is_string(value) && json_string_length(value) <= SPEC_TEXT_MAX;
}

static struct result take_command(struct run_spec *spec, struct error *err)
{
    size_t at = 0;
    json_t *word = NULL;

    spec->argv = json_object_get(spec->json, "argv");
    if (spec->argv == NULL) return SUCCESS;
    if (!json_is_array(spec->argv) || json_array_size(spec->argv) == 0 || json_array_size(spec->argv) > SPEC_WORDS_MAX)
        return must_be(err, "argv", "1 to 256 texts");
    json_array_foreach (spec->argv, at, word)
        if (!is_word(word)) return must_be(err, "argv", "texts of at most 4096 bytes");
    return json_string_length(json_array_get(spec->argv, 0)) == 0 ? must_be(err, "argv", "a program and its arguments") : SUCCESS;
}

static struct result take_environment(struct run_spec *spec, struct error *err)
{
    const char *name = NULL;
    json_t *value = NULL;

    spec->environment = json_object_get(spec->json, "environment");
    if (spec->environment == NULL) return SUCCESS;
    if (!json_is_object(spec->environment) || json_object_size(spec->environment) > SPEC_VARIABLES_MAX)
        return must_be(err, "environment", "an object of at most 128 variables");
    json_object_foreach (spec->environment, name, value) {
        if (!variable_is_name(name))
            return failure(err, ERROR_INVALID, "environment: '%.60s' is no name: 1 to 128 of A-Z, 0-9 and '_', first no digit",
                           name);
        if (!is_word(value)) return must_be(err, name, "a text of at most 4096 bytes");
    }
    return SUCCESS;
}

static struct result take_inputs(struct run_spec *spec, struct error *err)
{
    const json_t *inputs = json_object_get(spec->json, "inputs");
    size_t at = 0;
    json_t *input = NULL;

    if (inputs == NULL) return SUCCESS;
    if (!json_is_array(inputs) || json_array_size(inputs) > SPEC_INPUTS_MAX)
        return must_be(err, "inputs", "a list of at most 64 artifacts");
    json_array_foreach (inputs, at, input) {
        const char *name = json_text_of(input, "name");
        if (name == NULL || !run_spec_is_name(name)) return must_be(err, "the name of an input", RULE_OF_NAMES);
        spec->inputs[spec->input_count++] = name;
    }
    return SUCCESS;
}

static struct result take_text(const json_t *object, const char *name, char *text, size_t room, struct error *err)
{
    const json_t *member = json_object_get(object, name);

    if (member == NULL) return SUCCESS;
    if (!json_is_string(member) || json_string_length(member) == 0 || json_string_length(member) >= room)
        return failure(err, ERROR_INVALID, "devices: %s must be a text of 1 to %zu bytes", name, room - 1);
    memcpy(text, json_string_value(member), json_string_length(member) + 1);
    return SUCCESS;
}

static struct result take_devices(const struct run_spec *spec, struct device_request *devices, struct error *err)
{
    static const char *const names[] = {"count", "type", "memory_bytes", "mig"};
    const json_t *object = json_object_get(spec->json, "devices");

    if (object == NULL) return SUCCESS;
    if (!json_is_object(object)) return must_be(err, "devices", "an object");
    TRY(check_names(object, "devices", names, COUNT(names), err));
    TRY(take_integer(object, "count", (const int64_t[]){1, 64}, &devices->count, err));
    TRY(take_integer(object, "memory_bytes", (const int64_t[]){0, INT64_MAX}, &devices->memory_bytes, err));
    TRY(take_text(object, "type", devices->type, sizeof devices->type, err));
    TRY(take_text(object, "mig", devices->mig, sizeof devices->mig, err));
    return devices->count == 0 ? must_be(err, "count of devices", "there") : SUCCESS;
}

static struct result take_isolation(struct run_spec *spec, struct error *err)
{
    const json_t *member = json_object_get(spec->json, "isolation");

    if (member == NULL) return SUCCESS;
    if (!json_is_string(member) || !isolation_find(json_string_value(member), &spec->isolation))
        return must_be(err, "isolation", "rlimits, cgroup-v1 or cgroup-v2");
    return SUCCESS;
}

/* The members of a request's `spec`. */
static const char *const members[] = {"code",        "image",         "inputs",    "resume",   "outputs", "argv",
                                      "environment", "limits",        "devices",   "nodes",    "tasks",   "network",
                                      "pool",        "jurisdictions", "isolation", "assurance"};

static struct result take_all(struct run_spec *spec, struct error *err)
{
    if (!json_is_object(spec->json)) return must_be(err, "a specification", "a JSON object");
    TRY(check_names(spec->json, "the specification", members, COUNT(members), err));
    TRY(take_limits(spec->json, &spec->limits, err));
    TRY(take_command(spec, err));
    TRY(take_environment(spec, err));
    TRY(take_inputs(spec, err));
    TRY(take_devices(spec, &spec->devices, err));
    return take_isolation(spec, err);
}

struct result run_spec_read(struct bytes text, struct run_spec **spec_out, struct error *err)
{
    OWNED(run_spec) *spec = memory_zeroed(1, sizeof *spec);

    if (spec == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a specification");
    TRY(json_read(text, SPEC_MAX, &spec->json, err));
    TRY(take_all(spec, err));
    *spec_out = GIVE(spec);
    return SUCCESS;
}

void run_spec_free(struct run_spec *spec)
{
    if (spec == NULL) return;
    json_decref(spec->json);
    free(spec);
}
