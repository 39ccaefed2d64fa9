/* The checkpoints of a leased run, while its program runs. */
#include <string.h>

#include "runner/serve/leased_priv.h"

#define END_MARGIN_MS 15000 /* for the result, before the lease ends */

struct result leased_take_checkpoints(void *context, int folder, struct error *err)
{
    struct leased *leased = context;
    const json_t *outputs = json_object_get(leased->verdict->spec->json, "outputs");

    if (leased->run.node != 0) return SUCCESS; /* as with outputs, the first node's alone count */
    const struct checkpoints_options options = {.http = &leased->worker->http,
                                                .session = leased->worker->session,
                                                .leased = &leased->run,
                                                .host = leased->worker->options->state->registry.host,
                                                .repository = json_text_of(json_array_get(outputs, 0), "repository"),
                                                .label = &leased->label,
                                                .limits = &leased->verdict->spec->limits,
                                                .until_ms = leased->ends_ms - END_MARGIN_MS};
    return checkpoints_start(&options, folder, &leased->checkpoints, err);
}

void leased_tell_checkpoints(struct leased *leased)
{
    char line[CHECKPOINTS_LINE_SIZE];

    if (leased->checkpoints == NULL || !checkpoints_say(leased->checkpoints, line)) return;
    if (leased->is_in_line) leased_add_log(leased, bytes_of_text("\n"));
    leased_add_log(leased, bytes_of_text(line));
}

void leased_end_checkpoints(struct leased *leased)
{
    const bool has_succeeded = leased->ended.end == SANDBOX_ENDED && leased->ended.exit == 0;

    if (leased->checkpoints == NULL) return;
    checkpoints_end(leased->checkpoints, !has_succeeded && !leased_is_left(leased));
    leased_tell_checkpoints(leased);
}
