#include "training/label_priv.h"

#include <stdio.h>
#include <string.h>

void run_uses_of(const struct run_envelope *envelope, struct run_uses *uses_out)
{
    const struct run_artifacts artifacts = run_spec_artifacts(run_member(envelope, "spec"));
    struct run_uses uses = {.count = artifacts.count};

    for (size_t i = 0; i < artifacts.count; i++) uses.names[i] = json_text_of(artifacts.each[i].json, "repository");
    *uses_out = uses;
}

struct result run_label_check(struct decider *decider, const struct run_envelope *envelope, int64_t now_ms,
                              char reason_out[RUN_REASON_SIZE], struct error *err)
{
    const json_t *outputs = run_member(envelope, "spec.outputs");
    struct run_uses uses;

    reason_out[0] = '\0';
    run_uses_of(envelope, &uses);
    for (size_t i = 0; i < json_array_size(outputs) && reason_out[0] == '\0'; i++) {
        const char *output = json_text_of(json_array_get(outputs, i), "repository");
        const struct carried_query query = {
            .output = output, .uses = uses.names, .use_count = uses.count, .now_ms = now_ms, .only_checks = true};
        struct carried_label answer;
        TRY(decider_carried_label(decider, &query, &answer, err));
        if (!answer.is_carried)
            (void)snprintf(reason_out, RUN_REASON_SIZE, "what the run reads has a stricter label than %.150s since the order",
                           output);
    }
    return SUCCESS;
}
