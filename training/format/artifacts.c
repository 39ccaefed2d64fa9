#include "training/format/artifacts.h"

#include "base/json.h"

static void add_artifact(struct run_artifacts *artifacts, const char *role, const json_t *json)
{
    if (json == NULL || artifacts->count == RUN_ARTIFACTS_MAX) return;
    const char *name = json_text_of(json, "name");
    artifacts->each[artifacts->count].role = role;
    artifacts->each[artifacts->count].name = name == NULL ? role : name;
    artifacts->each[artifacts->count++].json = json;
}

struct run_artifacts run_spec_artifacts(const json_t *spec)
{
    static const char *const alone[] = {"code", "image", "resume"};
    const json_t *inputs = json_object_get(spec, "inputs");
    struct run_artifacts artifacts = {.count = 0};

    for (size_t i = 0; i < sizeof alone / sizeof alone[0]; i++)
        add_artifact(&artifacts, alone[i], json_object_get(spec, alone[i]));
    for (size_t i = 0; i < json_array_size(inputs); i++) add_artifact(&artifacts, "input", json_array_get(inputs, i));
    return artifacts;
}
