#include "training/format/spec.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "training/format/shapes_priv.h"

const struct run_limits run_limits_default = {
#define X(name, least, most, initial, what) .name = (initial),
#include "training/format/limits.def"
#undef X
};

static void take_integer(const json_t *object, const char *name, int64_t *value)
{
    const json_t *member = json_object_get(object, name);

    if (member != NULL) *value = json_integer_value(member);
}

/* The shape has checked already that the text fits. */
static void take_text(const json_t *object, const char *name, char *text, size_t room)
{
    const json_t *member = json_object_get(object, name);

    if (member != NULL && json_string_length(member) < room)
        memcpy(text, json_string_value(member), json_string_length(member) + 1);
}

static void take_devices(const json_t *object, struct run_devices *devices)
{
    if (object == NULL) return;
    take_integer(object, "count", &devices->count);
    take_integer(object, "memory_bytes", &devices->memory_bytes);
    take_text(object, "type", devices->type, sizeof devices->type);
    take_text(object, "mig", devices->mig, sizeof devices->mig);
}

static void take_all(struct run_spec *spec)
{
    const json_t *limits = json_object_get(spec->json, "limits"), *inputs = json_object_get(spec->json, "inputs");
    const char *isolation = json_text_of(spec->json, "isolation");

    spec->limits = run_limits_default;
#define X(name, least, most, initial, what) take_integer(limits, #name, &spec->limits.name);
#include "training/format/limits.def"
#undef X
    if (isolation != NULL) (void)isolation_find(isolation, &spec->isolation);
    spec->argv = json_object_get(spec->json, "argv");
    spec->environment = json_object_get(spec->json, "environment");
    spec->input_count = json_array_size(inputs);
    for (size_t i = 0; i < spec->input_count; i++) spec->inputs[i] = json_text_of(json_array_get(inputs, i), "name");
    take_devices(json_object_get(spec->json, "devices"), &spec->devices);
}

/* A draft may lack members, but an input without a name, or devices without a count, would mean nothing. */
static struct result check_draft(const json_t *json, struct error *err)
{
    const json_t *inputs = json_object_get(json, "inputs"), *devices = json_object_get(json, "devices");

    TRY(run_shape_check_draft(json, &run_shape_spec, "the specification", err));
    for (size_t i = 0; i < json_array_size(inputs); i++)
        if (json_object_get(json_array_get(inputs, i), "name") == NULL)
            return failure(err, ERROR_INVALID, "inputs: the name of an input is missing");
    if (devices != NULL && json_object_get(devices, "count") == NULL)
        return failure(err, ERROR_INVALID, "devices: count is missing");
    return SUCCESS;
}

struct result run_spec_read(struct bytes text, struct run_spec **spec_out, struct error *err)
{
    OWNED(run_spec) *spec = memory_zeroed(1, sizeof *spec);

    if (spec == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a specification");
    TRY(json_read(text, RUN_SPEC_MAX, &spec->json, err));
    TRY(check_draft(spec->json, err));
    take_all(spec);
    *spec_out = GIVE(spec);
    return SUCCESS;
}

struct result run_spec_locate(const json_t *spec, struct run_shape_fault *fault, struct error *err)
{
    return run_shape_locate(spec, &run_shape_spec, "the specification", fault, err);
}

void run_spec_free(struct run_spec *spec)
{
    if (spec == NULL) return;
    json_decref(spec->json);
    free(spec);
}
