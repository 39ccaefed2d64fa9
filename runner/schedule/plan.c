#include "runner/schedule/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define OWN_LETTERS    8
#define REGION_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

/* Each job that came to nothing doubles the time until the next one. */
static void note_failure(struct plan_memory *memory, int64_t now_ms)
{
    const unsigned doubled = memory->tries < 6 ? memory->tries : 6;

    memory->tries++;
    memory->next_ms = now_ms + ((int64_t)PLAN_LEAST_MS << doubled);
    memory->since_ms = 0;
}

static enum plan_act cancel_in_time(const struct plan_view *view, struct plan_memory *memory)
{
    if (memory->since_ms == 0) memory->since_ms = view->now_ms;
    if (view->now_ms - memory->since_ms < view->patience_ms) return PLAN_NOTHING;
    memory->since_ms = 0;
    return PLAN_CANCEL;
}

/* Its end is counted once. */
static void note_end(const struct plan_view *view, struct plan_memory *memory)
{
    if (view->job->state == SLURM_NONE || view->job->id == memory->ended_id) return;
    memory->ended_id = view->job->id;
    note_failure(memory, view->now_ms);
}

static enum plan_act decide_waiting(const struct plan_view *view, struct plan_memory *memory)
{
    if (view->job->state == SLURM_WAITING) {
        memory->since_ms = 0; /* a job that was started again by Slurm has its own time */
        return PLAN_NOTHING;
    }
    if (slurm_is_open(view->job->state)) {
        const enum plan_act act = cancel_in_time(view, memory);
        if (act == PLAN_CANCEL) note_end(view, memory);
        return act;
    }
    note_end(view, memory);
    memory->since_ms = 0;
    return view->now_ms < memory->next_ms ? PLAN_NOTHING : PLAN_START;
}

enum plan_act plan_decide(const struct plan_view *view, struct plan_memory *memory)
{
    switch (view->need) {
    case PLAN_WAITS: return decide_waiting(view, memory);
    case PLAN_HELD: *memory = (struct plan_memory){.since_ms = 0}; return PLAN_NOTHING;
    case PLAN_GONE: break;
    }
    if (!slurm_is_open(view->job->state)) return PLAN_NOTHING;
    return view->job->state == SLURM_RUNNING ? cancel_in_time(view, memory) : PLAN_CANCEL;
}

void plan_prefix(const char *own, char prefix_out[SLURM_NAME_SIZE])
{
    (void)snprintf(prefix_out, SLURM_NAME_SIZE, "sijil-%.*s-", OWN_LETTERS, own);
}

void plan_name(const char *own, const char *run, int64_t attempt, char name_out[SLURM_NAME_SIZE])
{
    (void)snprintf(name_out, SLURM_NAME_SIZE, "sijil-%.*s-%.36s-%d", OWN_LETTERS, own, run, (int)attempt);
}

struct result plan_features(const char *const *regions, size_t count, struct buffer *features, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct bytes left = bytes_of_text(regions[i]);
        TRY(buffer_add_text(features, i == 0 ? "region" : "|region", err));
        while (left.length > 0) {
            const struct bytes part = text_cut(&left, '/');
            if (part.length == 0 || !text_consists_of(part, REGION_LETTERS))
                return failure(err, ERROR_INVALID, "no node can have a feature for the region %.63s", regions[i]);
            TRY(buffer_format(features, err, "-%.*s", (int)part.length, (const char *)part.data));
        }
    }
    return SUCCESS;
}
