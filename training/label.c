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

/* Too much for one label is the run's own end: whoever may push to an input could else hold up each runner that asks for work. */
static struct result check_output(struct decider *decider, const struct carried_query *query, char reason_out[RUN_REASON_SIZE],
                                  struct error *err)
{
    struct carried_label answer;
    struct error why = {0};

    const struct result asked = decider_carried_label(decider, query, &answer, &why);
    if (!asked.ok && why.kind != ERROR_LIMIT) return failure(err, why.kind, "%s", why.message);
    if (!asked.ok)
        (void)snprintf(reason_out, RUN_REASON_SIZE, "what the run reads has more labels than %.100s can take: %.100s",
                       query->output, why.message);
    else if (!answer.is_carried)
        (void)snprintf(reason_out, RUN_REASON_SIZE, "what the run reads has a stricter label than %.150s since the order",
                       query->output);
    return SUCCESS;
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
        TRY(check_output(decider, &query, reason_out, err));
    }
    return SUCCESS;
}
