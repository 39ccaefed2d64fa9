/* What a request asks for. */
#include <string.h>

#include "training/format/shapes_priv.h"

#define TEXT(smallest, largest, what)                                              \
    {                                                                              \
        .kind = SHAPE_TEXT, .least = (smallest), .most = (largest), .must = (what) \
    }

static const struct run_shape_member artifact_members[] = {{"repository", &run_shape_repository, false},
                                                           {"digest", &run_shape_digest, false}};
static const struct run_shape artifact = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(artifact_members)};

static const struct run_shape_member input_members[] = {
    {"name", &run_shape_name, false}, {"repository", &run_shape_repository, false}, {"digest", &run_shape_digest, false}};
static const struct run_shape input = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(input_members)};
static const struct run_shape inputs = {
    .kind = SHAPE_LIST, .least = 0, .most = 64, .element = &input, .sorted_by = "name", .must = "at most 64 artifacts"};

static const struct run_shape output_name = {.kind = SHAPE_TEXT,
                                             .least = 1,
                                             .most = 63,
                                             .fits = form_output_name,
                                             .must = "the name of an output, neither log nor metrics"};
static const struct run_shape media_type = {
    .kind = SHAPE_TEXT,
    .least = 3,
    .most = 127,
    .fits = form_output_type,
    .must = "a media type of 3 to 127 bytes: type/subtype, and none of application/vnd.sijil.run-..."};
static const struct run_shape_member output_members[] = {
    {"name", &output_name, false}, {"repository", &run_shape_repository, false}, {"type", &media_type, false}};
static const struct run_shape output = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(output_members)};
static const struct run_shape outputs = {
    .kind = SHAPE_LIST, .least = 1, .most = 16, .element = &output, .sorted_by = "name", .must = "1 to 16 outputs"};

static const struct run_shape word = TEXT(0, 4096, "at most 4096 bytes");
static const struct run_shape program = TEXT(1, 4096, "the program: 1 to 4096 bytes");
static const struct run_shape argv = {
    .kind = SHAPE_LIST, .least = 1, .most = 256, .element = &word, .first = &program, .must = "1 to 256 texts"};
static const struct run_shape environment = {
    .kind = SHAPE_MAP,
    .least = 0,
    .most = 128,
    .fits = form_variable,
    .element = &word,
    .must = "at most 128 variables, names of A-Z, 0-9 and '_' that do not begin with SIJIL_"};

#define X(name, smallest, largest, initial, what) \
    static const struct run_shape limit_##name = NUMBER(smallest, largest, "a whole number from " #smallest " to " #largest);
#include "training/format/limits.def"
#undef X
static const struct run_shape_member limit_members[] = {
#define X(name, smallest, largest, initial, what) {#name, &limit_##name, false},
#include "training/format/limits.def"
#undef X
};
static const struct run_shape limits = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(limit_members)};

static const struct run_shape device_count = NUMBER(1, 64, "1 to 64");
static const struct run_shape device_type = TEXT(1, 63, "1 to 63 bytes");
static const struct run_shape mig = TEXT(1, 31, "1 to 31 bytes");
static const struct run_shape_member device_members[] = {{"count", &device_count, false},
                                                         {"type", &device_type, false},
                                                         {"memory_bytes", &run_shape_count, false},
                                                         {"mig", &mig, true}};
static const struct run_shape devices = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(device_members)};

static const struct run_shape nodes = NUMBER(1, 256, "1 to 256");
static const struct run_shape tasks = NUMBER(1, 64, "1 to 64");
static const struct run_shape network = {
    .kind = SHAPE_TEXT, .least = 4, .most = 5, .fits = form_network, .must = "none or tasks"};
static const struct run_shape assurance = NUMBER(1, 4, "1 to 4");
static const struct run_shape_member spec_members[] = {{"code", &artifact, false},
                                                       {"image", &artifact, true},
                                                       {"inputs", &inputs, false},
                                                       {"resume", &artifact, true},
                                                       {"outputs", &outputs, false},
                                                       {"argv", &argv, false},
                                                       {"environment", &environment, false},
                                                       {"limits", &limits, false},
                                                       {"devices", &devices, true},
                                                       {"nodes", &nodes, false},
                                                       {"tasks", &tasks, false},
                                                       {"network", &network, false},
                                                       {"pool", &run_shape_name, false},
                                                       {"jurisdictions", &run_shape_jurisdictions, false},
                                                       {"isolation", &run_shape_isolation, false},
                                                       {"assurance", &assurance, false}};

/* Both would be /in/resume. */
static bool has_two_called_resume(const json_t *spec)
{
    const json_t *list = json_object_get(spec, "inputs");

    if (json_object_get(spec, "resume") == NULL) return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_text_of(json_array_get(list, i), "name");
        if (name != NULL && strcmp(name, "resume") == 0) return true;
    }
    return false;
}

static int64_t count_of(const json_t *spec, const char *name)
{
    const json_t *count = json_object_get(spec, name);

    return count == NULL ? 1 : json_integer_value(count);
}

/* The runner would refuse it for good. NULL: none. */
static const char *variable_of_tasks(const json_t *spec)
{
    const char *name = NULL, *reach = json_text_of(spec, "network");
    const json_t *value = NULL;

    if (count_of(spec, "tasks") == 1 && count_of(spec, "nodes") == 1 && (reach == NULL || strcmp(reach, "tasks") != 0))
        return NULL;
    json_object_foreach (json_object_get(spec, "environment"), name, value)
        if (form_task_variable(name)) return name;
    return NULL;
}

static bool spec_clashes(const json_t *spec, struct run_shape_clash *clash_out)
{
    static const struct run_shape named = {.kind = SHAPE_LIST,
                                           .must = "none is called resume, where the checkpoint lies (/in/resume)"};
    static const struct run_shape given = {.kind = SHAPE_MAP, .must = "each task of this run gets its own: leave it out"};
    const char *variable = variable_of_tasks(spec);

    if (variable != NULL) *clash_out = (struct run_shape_clash){"environment", variable, &given};
    else if (has_two_called_resume(spec)) *clash_out = (struct run_shape_clash){"inputs", NULL, &named};
    else return false;
    return true;
}

const struct run_shape run_shape_spec = {.kind = SHAPE_OBJECT, SHAPE_MEMBERS(spec_members), .clash = spec_clashes};
