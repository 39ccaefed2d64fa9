#include "runner/sandbox/variables.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "runner/sandbox/nodes.h"
#include "training/format/form.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char digits[] = "0123456789";

/* Each payload gets these. An order may also set LD_PRELOAD and the like, since they take effect only inside. */
static const struct {
    const char *name, *value;
} usual[] = {{"PATH", "/usr/local/bin:/usr/bin:/bin"},
             {"HOME", "/tmp"},
             {"TMPDIR", "/tmp"},
             {"LANG", "C.UTF-8"},
             {"TZ", "UTC"},
             {"SIJIL_CODE", "/code"},
             {"SIJIL_INPUTS", "/in"},
             {"SIJIL_OUTPUTS", "/out"},
             {"SIJIL_CHECKPOINTS", "/checkpoints"},
             {"SIJIL_HEARTBEAT", "/run/sijil/heartbeat"}};

/*
 * The variables that a node may add: facts of the machine that the requester can't know. A value consists of `letters`, and is at
 * most `most` bytes.
 */
static const struct addition {
    const char *name, *letters;
    size_t most;
} additions[] = {{"OMP_NUM_THREADS", digits, 4},
                 {"OPENBLAS_NUM_THREADS", digits, 4},
                 {"MKL_NUM_THREADS", digits, 4},
                 {"CUDA_VISIBLE_DEVICES", "0123456789abcdefABCDEFGPUMI-/,", 1024},
                 {"NVIDIA_VISIBLE_DEVICES", "0123456789abcdefABCDEFGPUMI-/,", 1024},
                 {"MALLOC_ARENA_MAX", digits, 4}};

static struct result set(json_t *variables, const char *name, const char *value, struct error *err)
{
    if (json_object_set_new(variables, name, json_string(value)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for the environment");
    return SUCCESS;
}

static struct result set_usual(json_t *variables, struct error *err)
{
    for (size_t i = 0; i < COUNT(usual); i++) TRY(set(variables, usual[i].name, usual[i].value, err));
    return SUCCESS;
}

static struct result set_ordered(json_t *variables, const json_t *ordered, struct error *err)
{
    const char *name = NULL;
    json_t *value = NULL;

    json_object_foreach ((json_t *)(uintptr_t)ordered, name, value) {
        if (strncmp(name, "SIJIL_", 6) == 0)
            return failure(err, ERROR_INVALID, "environment: names that begin with SIJIL_ are the sandbox's own: rename %.60s",
                           name);
        TRY(set(variables, name, json_string_value(value), err));
    }
    return SUCCESS;
}

static const struct addition *find_addition(const char *text, size_t length)
{
    for (size_t i = 0; i < COUNT(additions); i++)
        if (strlen(additions[i].name) == length && strncmp(additions[i].name, text, length) == 0) return &additions[i];
    return NULL;
}

static struct result add(json_t *variables, const char *text, struct error *err)
{
    const char *equals = strchr(text, '=');
    const struct addition *addition = equals == NULL ? NULL : find_addition(text, (size_t)(equals - text));

    if (addition == NULL)
        return failure(err, ERROR_DENIED, "a node may not add the variable '%.60s': put it into the specification's environment",
                       text);
    const struct bytes value = bytes_of_text(equals + 1);
    if (value.length == 0 || value.length > addition->most || !text_consists_of(value, addition->letters))
        return failure(err, ERROR_INVALID, "%s must be 1 to %zu of %s", addition->name, addition->most, addition->letters);
    if (json_object_get(variables, addition->name) != NULL)
        return failure(err, ERROR_DENIED, "a node may not replace %s, which the specification sets", addition->name);
    return set(variables, addition->name, equals + 1, err);
}

struct result variables_make(const json_t *ordered, const char *const *added, size_t count, json_t **variables_out,
                             struct error *err)
{
    OWNED_JSON variables = json_object();

    if (variables == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the environment");
    TRY(set_usual(variables, err));
    if (ordered != NULL) TRY(set_ordered(variables, ordered, err));
    for (size_t i = 0; i < count; i++) TRY(add(variables, added[i], err));
    *variables_out = GIVE(variables);
    return SUCCESS;
}

/* ---- tasks ---- */

#define MASTER_PORT "29500" /* torchrun's; the sandbox has its own ports */

static struct result set_new(json_t *variables, const char *name, const char *value, struct error *err)
{
    assert(form_task_variable(name)); /* so no request has it */
    if (json_object_get(variables, name) != NULL)
        return failure(err, ERROR_INVALID, "environment: %s is set for each task: leave it out", name);
    return set(variables, name, value, err);
}

static struct result set_count(json_t *variables, const char *name, int64_t value, struct error *err)
{
    char text[24]; /* a 64-bit number */

    (void)snprintf(text, sizeof text, "%lld", (long long)value);
    return set_new(variables, name, text, err);
}

struct result variables_add_tasks(json_t *variables, const struct task_group *group, struct error *err)
{
    static const char *const ranks[] = {"RANK", "ROLE_RANK", "LOCAL_RANK"};
    const struct {
        const char *name;
        int64_t value;
    } counts[] = {{"WORLD_SIZE", group->nodes * group->tasks},
                  {"ROLE_WORLD_SIZE", group->nodes * group->tasks},
                  {"LOCAL_WORLD_SIZE", group->tasks},
                  {"GROUP_RANK", group->node},
                  {"GROUP_WORLD_SIZE", group->nodes},
                  {"TORCHELASTIC_RESTART_COUNT", 0},
                  {"TORCHELASTIC_MAX_RESTARTS", 0}};

    char master[NODES_ADDRESS_SIZE] = "127.0.0.1";

    if (group->is_joined) nodes_address_text(0, master);
    TRY(set_new(variables, "MASTER_ADDR", master, err));
    TRY(set_new(variables, "MASTER_PORT", MASTER_PORT, err));
    for (size_t i = 0; i < COUNT(counts); i++) TRY(set_count(variables, counts[i].name, counts[i].value, err));
    for (size_t i = 0; i < COUNT(ranks); i++) {
        TRY(set_count(variables, ranks[i], i < 2 ? group->node * group->tasks : 0, err));
        if (group->tasks > 1) (void)json_object_del(variables, ranks[i]); /* sijil-inside sets it for each */
    }
    return SUCCESS;
}
