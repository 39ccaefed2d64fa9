#include "runner/payload/payload.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "runner/sandbox/variables.h"

struct payload {
    const struct payload_options *options;
    struct sandbox_options run;
    char **command; /* of the specification */
    json_t *variables;
    struct sandbox_bind binds[DEVICE_NODES_MAX];
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
        (void)snprintf(bind->to, sizeof bind->to, "/dev%s", strrchr(grant->nodes[i], '/'));
        bind->is_device = true;
    }
    payload->run.binds = payload->binds;
    payload->run.bind_count = grant->node_count;
}

static struct result make_variables(struct payload *payload, struct error *err)
{
    const struct payload_options *options = payload->options;
    size_t count = options->added_count;

    for (size_t i = 0; i < count; i++) payload->added[i] = options->added[i];
    if (options->grant->count > 0) {
        (void)snprintf(payload->visible, sizeof payload->visible, "CUDA_VISIBLE_DEVICES=%s", options->grant->visible);
        payload->added[count++] = payload->visible;
    }
    TRY(variables_make(options->spec->environment, payload->added, count, &payload->variables, err));
    payload->run.variables = payload->variables;
    return SUCCESS;
}

static struct result check_image(const struct run_spec *spec, struct error *err)
{
    if (json_object_get(spec->json, "image") == NULL) return SUCCESS;
    return failure(err, ERROR_INVALID,
                   "the specification asks for an image, and this runner gives its own /usr alone: leave image out");
}

struct result payload_check(const struct run_spec *spec, struct error *err)
{
    const json_t *json = spec->json;
    const char *network = json_text_of(json, "network");
    int64_t nodes = 1, tasks = 1;

    (void)json_integer_of(json, "nodes", &nodes);
    (void)json_integer_of(json, "tasks", &tasks);
    TRY(check_image(spec, err));
    if (nodes != 1 || tasks != 1 || (network != NULL && strcmp(network, "none") != 0))
        return failure(
            err, ERROR_INVALID,
            "the specification asks for %lld nodes with %lld tasks and the network %.16s, and this runner runs one task "
            "without a network",
            (long long)nodes, (long long)tasks, network == NULL ? "none" : network);
    if (json_object_get(json, "resume") == NULL) return SUCCESS;
    if (spec->input_count == RUN_INPUTS_MAX)
        return failure(err, ERROR_INVALID, "a specification with a checkpoint has at most %d inputs", RUN_INPUTS_MAX - 1);
    for (size_t i = 0; i < spec->input_count; i++)
        if (strcmp(spec->inputs[i], PAYLOAD_RESUME) == 0)
            return failure(err, ERROR_INVALID,
                           "an input is called " PAYLOAD_RESUME ", where the checkpoint of the specification lies");
    return SUCCESS;
}

static struct result run(struct payload *payload, struct sandbox_report *report, struct error *err)
{
    TRY(check_image(payload->options->spec, err));
    TRY(take_command(payload, err));
    bind_nodes(payload);
    TRY(make_variables(payload, err));
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
