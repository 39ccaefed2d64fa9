/* What both ways to a cluster need: Slurm's words, states, units and lists. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "runner/slurm/slurm_priv.h"

void slurm_copy_text(char *text_out, size_t size, const char *text)
{
    size_t length = 0;

    for (; text != NULL && text[length] != '\0' && length + 1 < size; length++)
        text_out[length] = text[length] >= ' ' && text[length] <= '~' ? text[length] : '?';
    text_out[length] = '\0';
}

bool slurm_is_word(const char *word)
{
    const struct bytes letters = bytes_of_text(word);

    return letters.length > 0 && letters.length <= SLURM_WORD_MAX && text_consists_of(letters, SLURM_WORD_LETTERS);
}

const char *slurm_state_name(enum slurm_state state)
{
    static const char *const names[] = {[SLURM_NONE] = "none",           [SLURM_WAITING] = "waiting", [SLURM_RUNNING] = "running",
                                        [SLURM_COMPLETED] = "completed", [SLURM_HELD] = "held",       [SLURM_FAILED] = "failed",
                                        [SLURM_CANCELLED] = "cancelled", [SLURM_TIMEOUT] = "timeout", [SLURM_LOST] = "lost"};

    return names[state];
}

enum slurm_state slurm_state_of(const char *word)
{
    static const struct {
        const char *word;
        enum slurm_state state;
    } words[] = {
        {"PENDING", SLURM_WAITING},    {"CONFIGURING", SLURM_WAITING},  {"REQUEUED", SLURM_WAITING},
        {"REQUEUE_HOLD", SLURM_HELD},  {"REQUEUE_FED", SLURM_WAITING},  {"SPECIAL_EXIT", SLURM_HELD},
        {"RESV_DEL_HOLD", SLURM_HELD}, {"RUNNING", SLURM_RUNNING},      {"COMPLETING", SLURM_RUNNING},
        {"SIGNALING", SLURM_RUNNING},  {"STAGE_OUT", SLURM_RUNNING},    {"STOPPED", SLURM_RUNNING},
        {"SUSPENDED", SLURM_RUNNING},  {"RESIZING", SLURM_RUNNING},     {"COMPLETED", SLURM_COMPLETED},
        {"FAILED", SLURM_FAILED},      {"OUT_OF_MEMORY", SLURM_FAILED}, {"CANCELLED", SLURM_CANCELLED},
        {"REVOKED", SLURM_CANCELLED},  {"TIMEOUT", SLURM_TIMEOUT},      {"DEADLINE", SLURM_TIMEOUT},
    };

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].word, word) == 0) return words[i].state;
    return SLURM_LOST; /* NODE_FAIL, BOOT_FAIL, PREEMPTED, and states that a later Slurm adds: the heartbeat decides */
}

enum slurm_state slurm_state_with(enum slurm_state state, const char *reason)
{
    const bool is_held = reason != NULL && strcasestr(reason, "held") != NULL;

    return state == SLURM_WAITING && is_held ? SLURM_HELD : state;
}

int64_t slurm_minutes(int64_t seconds)
{
    return seconds / 60 + (seconds % 60 > 0);
}

int64_t slurm_mebibytes(int64_t bytes)
{
    return (bytes >> 20) + ((bytes & 0xfffff) != 0);
}

int64_t slurm_bytes(int64_t mebibytes)
{
    return mebibytes < 0 || mebibytes > INT64_MAX >> 20 ? 0 : mebibytes << 20;
}

bool slurm_is_open(enum slurm_state state)
{
    return state == SLURM_WAITING || state == SLURM_HELD || state == SLURM_RUNNING;
}

void slurm_keep_newer(struct slurm_status *kept, const struct slurm_status *each)
{
    const bool is_open = slurm_is_open(each->state), was_open = slurm_is_open(kept->state);

    if (kept->state == SLURM_NONE || (is_open && !was_open) || (is_open == was_open && each->id > kept->id)) *kept = *each;
}

struct result slurm_script(const struct slurm_job *job, struct buffer *script, struct error *err)
{
    TRY(buffer_format(script, err, "#!/bin/sh\nexec srun --ntasks-per-node=1 --kill-on-bad-exit=1"));
    for (size_t i = 0; i < job->word_count; i++) TRY(buffer_format(script, err, " %s", job->words[i]));
    return buffer_add_text(script, "\n", err);
}

struct result slurm_jobs_keep(struct slurm_jobs *jobs, const char *name, const struct slurm_status *status, struct error *err)
{
    if (name == NULL || strncmp(name, jobs->prefix, strlen(jobs->prefix)) != 0 || strlen(name) >= SLURM_NAME_SIZE) return SUCCESS;
    for (size_t i = 0; i < jobs->count; i++) {
        if (strcmp(jobs->items[i].name, name) != 0) continue;
        slurm_keep_newer(&jobs->items[i].status, status);
        return SUCCESS;
    }
    if (jobs->count == SLURM_LISTED_MAX)
        return failure(err, ERROR_LIMIT, "the cluster shows more than %d jobs of this user", SLURM_LISTED_MAX);
    struct slurm_listed *kept = &jobs->items[jobs->count++];
    slurm_copy_text(kept->name, sizeof kept->name, name);
    kept->status = *status;
    return SUCCESS;
}
