/* Brings labels to the repositories of outputs, before the order. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "registry/brought_label.h"
#include "training/label_priv.h"
#include "training/label_stated_priv.h"
#include "training/run_priv.h"

struct label_change {
    struct change change;
    struct brought_label row;
};

static struct result run_label(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct label_change *self = (const struct label_change *)(const void *)change; /* its first member */

    return brought_label_insert(permit, pg, &self->row, err);
}

static struct result record(const struct run_bundle_source *source, const struct run_wish *wish, const char *output,
                            struct bytes label, struct error *err)
{
    struct action_pair pair = {.action = ACTION_RUN_LABEL};

    decider_resolve(source->decider, output, &pair.resource);
    uuid_format(&wish->run, pair.resource.detail);
    struct label_change change = {.change = {.run = run_label, .raises_epoch = true},
                                  .row = {.action = ACTION_RUN_LABEL,
                                          .where = &pair.resource,
                                          .run = &wish->run,
                                          .label = label,
                                          .may_lock = wish->approvals > 0}};
    return run_record(source->sequencer, &pair, &change.change, err);
}

/* ERROR_LIMIT is the run's own fault, and so its end. */
static struct result bring(const struct run_bundle_source *source, const struct run_wish *wish, const struct carried_query *query,
                           char reason_out[RUN_REASON_SIZE], bool *brought_out, struct error *err)
{
    struct carried_label answer = {.label = BUFFER(RUN_LABEL_TEXT_MAX)};
    struct error why = {0};

    struct result result = decider_carried_label(source->decider, query, &answer, &why);
    if (result.ok && !answer.is_carried && !answer.is_allowed)
        (void)snprintf(reason_out, RUN_REASON_SIZE, "%.120s can't take the label of all that the run reads: rule %.60s",
                       query->output, answer.rule);
    else if (result.ok && !answer.is_carried) result = record(source, wish, query->output, buffer_bytes(&answer.label), &why);
    buffer_done(&answer.label);
    if (!result.ok && why.kind == ERROR_LIMIT) (void)snprintf(reason_out, RUN_REASON_SIZE, "%.250s", why.message);
    else if (!result.ok) return failure(err, why.kind, "%s", why.message);
    else if (!answer.is_carried && answer.is_allowed) *brought_out = true;
    return SUCCESS;
}

/*
 * What the runner will state in the manifests of outputs: their repositories must have it, whatever is missing among the labels of names. Too much for a label,
 * or a stored one that can't be read, is the run's end.
 */
static struct result write_stated(const struct run_bundle_source *source, const struct run_wish *wish, struct buffer *stated,
                                  char reason_out[RUN_REASON_SIZE], struct error *err)
{
    const struct run_floor_query query = {.order = wish->request, .at_ms = clock_wall_ms()};
    OWNED(run_floor) *floor = NULL;
    struct error why = {0};

    if (run_floor_now(source->pg, source->decider, &query, &floor, &why).ok) return run_floor_write(floor, stated, err);
    if (why.kind != ERROR_DENIED && why.kind != ERROR_CORRUPT) return failure(err, why.kind, "%s", why.message);
    (void)snprintf(reason_out, RUN_REASON_SIZE, "%.250s", why.message);
    return SUCCESS;
}

struct result run_label_bring(const struct run_bundle_source *source, const struct run_wish *wish,
                              char reason_out[RUN_REASON_SIZE], struct error *err)
{
    const json_t *outputs = run_member(wish->request, "spec.outputs");
    struct buffer OWNED_BUFFER stated = BUFFER(RUN_LABEL_TEXT_MAX);
    struct run_uses uses;
    bool is_brought = false;

    reason_out[0] = '\0';
    TRY(write_stated(source, wish, &stated, reason_out, err));
    run_uses_of(wish->request, &uses);
    for (size_t i = 0; i < json_array_size(outputs) && reason_out[0] == '\0'; i++) {
        const char *output = json_text_of(json_array_get(outputs, i), "repository");
        const struct carried_query query = {.output = output,
                                            .uses = uses.names,
                                            .use_count = uses.count,
                                            .stated = buffer_text(&stated),
                                            .now_ms = clock_wall_ms()};
        TRY(bring(source, wish, &query, reason_out, &is_brought, err));
    }
    return is_brought ? failure(err, ERROR_CONFLICT, "the repositories of the outputs have other labels now") : SUCCESS;
}
