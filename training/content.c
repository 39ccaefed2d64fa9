#include "training/content.h"

#include <string.h>

static bool is_in(const json_t *artifact, const char *repository)
{
    const char *name = json_text_of(artifact, "repository");

    return name != NULL && strcmp(name, repository) == 0;
}

size_t run_order_digests(const struct run_envelope *order, const char *repository, struct bytes digests_out[RUN_ARTIFACTS_MAX])
{
    const struct run_artifacts artifacts = run_spec_artifacts(run_member(order, "spec"));
    size_t count = 0;

    for (size_t i = 0; i < artifacts.count; i++)
        if (is_in(artifacts.each[i].json, repository))
            digests_out[count++] = bytes_of_text(json_text_of(artifacts.each[i].json, "digest"));
    return count;
}

const char *run_order_resume(const struct run_envelope *order, const char *repository)
{
    const json_t *resume = run_member(order, "spec.resume");
    const char *project = run_text(order, "project");
    const size_t length = strlen(project);

    if (resume == NULL || !is_in(resume, repository)) return NULL;
    return strncmp(repository, project, length) == 0 && repository[length] == '/' ? json_text_of(resume, "digest") : NULL;
}

bool run_order_writes(const struct run_envelope *order, const char *repository)
{
    const json_t *outputs = run_member(order, "spec.outputs");

    for (size_t i = 0; i < json_array_size(outputs); i++)
        if (is_in(json_array_get(outputs, i), repository)) return true;
    return false;
}

const char *run_first_output(const struct run_envelope *run)
{
    return json_text_of(json_array_get(run_member(run, "spec.outputs"), 0), "repository");
}

int64_t run_order_log_bytes(const struct run_envelope *order)
{
    return run_integer(order, "spec.limits.log_bytes");
}

int64_t run_order_checkpoint_max(const struct run_envelope *order)
{
    return run_integer(order, "spec.limits.output_bytes");
}

/* Each limit is below 2^53, so the sum fits. */
int64_t run_order_upload_max(const struct run_envelope *order, int64_t node)
{
    const int64_t products = (int64_t)json_array_size(run_member(order, "spec.outputs")) + 2;
    const int64_t checkpoints = (RUN_CHECKPOINTS_KEPT + 1) * (run_order_checkpoint_max(order) + RUN_CONFIG_MAX);

    if (node > 0) return run_order_log_bytes(order) + RUN_CONFIG_MAX;
    return run_integer(order, "spec.limits.output_bytes") + run_order_log_bytes(order) + products * RUN_CONFIG_MAX + checkpoints;
}
