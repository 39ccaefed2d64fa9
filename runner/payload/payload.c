#include "runner/payload/payload.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "runner/devices/libraries.h"
#include "runner/sandbox/variables.h"

struct payload {
    const struct payload_options *options;
    struct sandbox_options run;
    char **command; /* of the specification */
    json_t *variables;
    struct sandbox_bind binds[DEVICE_NODES_MAX + LIBRARIES_MAX];
    struct driver_libraries libraries;
    char visible[sizeof "CUDA_VISIBLE_DEVICES=" + DEVICES_MAX * 48];
    const char *added[PAYLOAD_ADDED_MAX + 1];
};

static struct result take_command(struct payload *payload, struct error *err)
{
    const json_t *argv = payload->options->spec->argv;

    payload->run.arguments = payload->options->command;
    if (payload->options->command != NULL) return SUCCESS;
    if (argv == NULL) return failure(err, ERROR_INVALID, "there is no command: give one after --, or argv in the specification");
    payload->command = memory_zeroed(json_array_size(argv) + 1, sizeof *payload->command);
    if (payload->command == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a command");
    for (size_t i = 0; i < json_array_size(argv); i++)
        payload->command[i] = (char *)(uintptr_t)json_string_value(json_array_get(argv, i));
    payload->run.arguments = payload->command;
    return SUCCESS;
}

/* Inside, a node has its usual name, wherever the folder is. */
static void bind_nodes(struct payload *payload)
{
    const struct device_grant *grant = payload->options->grant;

    for (size_t i = 0; i < grant->node_count; i++) {
        struct sandbox_bind *bind = &payload->binds[i];
        (void)snprintf(bind->from, sizeof bind->from, "%s", grant->nodes[i]);
        (void)snprintf(bind->to, sizeof bind->to, "/dev%s", grant->nodes[i] + grant->folder_length);
        bind->kind = BIND_DEVICE;
    }
    payload->run.binds = payload->binds;
    payload->run.bind_count = grant->node_count;
}

/* The libraries must be those of the driver in the kernel, which an image can't have. In this machine's /usr they may lie where the linker does not look. */
static struct result bind_libraries(struct payload *payload, struct error *err)
{
    const struct device_grant *grant = payload->options->grant;
    struct error why = {0};

    if (grant->count == 0) return SUCCESS;
    if (!driver_libraries_find(grant->library, &payload->libraries, &why).ok)
        return payload->run.image == NULL ? SUCCESS : failure(err, why.kind, "%s", why.message);
    for (size_t i = 0; i < payload->libraries.count; i++) {
        struct sandbox_bind *bind = &payload->binds[payload->run.bind_count++];
        (void)snprintf(bind->from, sizeof bind->from, "%s", payload->libraries.libraries[i].path);
        (void)snprintf(bind->to, sizeof bind->to, LIBRARIES_IN_SANDBOX "/%s", payload->libraries.libraries[i].name);
        bind->kind = BIND_READ;
    }
    return SUCCESS;
}

/* A specification that sets the variable names the folder itself. */
static struct result add_library_path(const struct payload *payload, struct error *err)
{
    if (payload->libraries.count == 0 || json_object_get(payload->variables, "LD_LIBRARY_PATH") != NULL) return SUCCESS;
    if (json_object_set_new(payload->variables, "LD_LIBRARY_PATH", json_string(LIBRARIES_IN_SANDBOX)) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for the environment");
}

static struct result check_image(const struct run_spec *spec, struct error *err)
{
    return json_object_get(spec->json, "image") == NULL ? SUCCESS : image_tool_check(err);
}

static struct task_group group_of(const struct run_spec *spec)
{
    struct task_group group = {.nodes = 1, .tasks = 1};

    (void)json_integer_of(spec->json, "nodes", &group.nodes);
    (void)json_integer_of(spec->json, "tasks", &group.tasks);
    return group;
}

static bool has_network_of_tasks(const struct run_spec *spec)
{
    const char *network = json_text_of(spec->json, "network");

    return network != NULL && strcmp(network, "tasks") == 0;
}

int64_t payload_nodes(const struct run_spec *spec)
{
    return group_of(spec).nodes;
}

bool payload_joins_nodes(const struct run_spec *spec)
{
    return payload_nodes(spec) > 1 && has_network_of_tasks(spec);
}

/* The nodes of one attempt are different machines: only a registry gathers them. */
static struct result check_alone(const struct run_spec *spec, struct error *err)
{
    if (payload_nodes(spec) == 1) return SUCCESS;
    return failure(err, ERROR_INVALID, "the specification asks for %lld nodes, and this runs on one: ask for tasks instead",
                   (long long)payload_nodes(spec));
}

static struct result check_nodes(const struct run_spec *spec, const struct payload_place *place, struct error *err)
{
    if (payload_nodes(spec) == 1 || (place->joins_nodes && !place->in_pod)) return SUCCESS;
    return failure(err, ERROR_INVALID, "the specification asks for %lld nodes, and this runner joins none: %s",
                   (long long)payload_nodes(spec),
                   place->in_pod ? "pods don't reach each other" : "it serves without --tunnel-listen");
}

static struct result add_tasks(struct payload *payload, struct error *err)
{
    struct task_group group = group_of(payload->options->spec);

    group.node = payload->options->node;
    group.is_joined = payload_joins_nodes(payload->options->spec);
    if (group.tasks == 1 && group.nodes == 1 && !has_network_of_tasks(payload->options->spec)) return SUCCESS;
    return variables_add_tasks(payload->variables, &group, err);
}

static struct result make_variables(struct payload *payload, struct error *err)
{
    const struct payload_options *options = payload->options;
    size_t count = options->added_count;

    for (size_t i = 0; i < count; i++) payload->added[i] = options->added[i];
    if (options->grant->visible[0] != '\0') { /* a pod has its own devices and no others */
        (void)snprintf(payload->visible, sizeof payload->visible, "CUDA_VISIBLE_DEVICES=%s", options->grant->visible);
        payload->added[count++] = payload->visible;
    }
    TRY(variables_make(options->spec->environment, payload->added, count, &payload->variables, err));
    TRY(add_tasks(payload, err));
    TRY(add_library_path(payload, err));
    payload->run.variables = payload->variables;
    return SUCCESS;
}

struct result payload_check(const struct run_spec *spec, const struct payload_place *place, struct error *err)
{
    const json_t *json = spec->json;

    if (!place->in_pod) TRY(check_image(spec, err)); /* the cluster fetches the image of a pod */
    TRY(check_nodes(spec, place, err));
    if (json_object_get(json, "resume") == NULL) return SUCCESS;
    if (spec->input_count == RUN_INPUTS_MAX)
        return failure(err, ERROR_INVALID, "a specification with a checkpoint has at most %d inputs", RUN_INPUTS_MAX - 1);
    for (size_t i = 0; i < spec->input_count; i++)
        if (strcmp(spec->inputs[i], PAYLOAD_RESUME) == 0)
            return failure(err, ERROR_INVALID,
                           "an input is called " PAYLOAD_RESUME ", where the checkpoint of the specification lies");
    return SUCCESS;
}

static struct result run_in_pod(struct payload *payload, struct sandbox_report *report, struct error *err)
{
    TRY(take_command(payload, err));
    TRY(make_variables(payload, err));
    return attend_run(payload->options->pod, &payload->run, report, err);
}

static struct result run(struct payload *payload, struct sandbox_report *report, struct error *err)
{
    const struct run_spec *spec = payload->options->spec;

    if (!payload->options->is_leased) TRY(check_alone(spec, err));
    payload->run.tasks = (unsigned)group_of(spec).tasks;
    payload->run.joins_tasks = payload->run.tasks > 1 || has_network_of_tasks(spec);
    if (payload->options->pod != NULL) return run_in_pod(payload, report, err);
    if (payload->run.image == NULL && json_object_get(spec->json, "image") != NULL)
        return failure(err, ERROR_INVALID, "the specification asks for an image: say where it is with --image");
    TRY(take_command(payload, err));
    bind_nodes(payload);
    TRY(bind_libraries(payload, err));
    TRY(make_variables(payload, err));
    payload->run.node = payload->options->node;
    payload->run.nodes = payload_nodes(spec);
    if (!payload_joins_nodes(spec)) payload->run.device = NULL;
    return sandbox_run(&payload->run, report, err);
}

struct result payload_run(const struct payload_options *options, struct sandbox_report *report_out, json_t **variables_out,
                          struct error *err)
{
    struct payload payload = {.options = options, .run = options->sandbox};

    payload.run.limits = &options->spec->limits;
    const struct result done = run(&payload, report_out, err);
    free(payload.command);
    if (done.ok) *variables_out = payload.variables;
    else json_decref(payload.variables);
    return done;
}
