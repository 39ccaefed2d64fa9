/* Slurm's answers, as JSON and as lines: accepted values are within their bounds, and have only allowed letters. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runner/slurm/slurm_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text, size_t size)
{
    assert(strlen(text) < size);
    for (; *text != '\0'; text++) assert(*text >= ' ' && *text <= '~');
}

static void check_status(const struct slurm_status *status)
{
    check_text(status->nodes, sizeof status->nodes);
    check_text(status->reason, sizeof status->reason);
    assert(status->exit >= 0 && status->exit <= 255 && status->signal >= 0 && status->signal <= 127);
    assert(slurm_state_name(status->state) != NULL);
}

static void check_nodes(struct slurm_node *nodes, size_t count)
{
    assert(count <= SLURM_NODES_MAX);
    for (size_t i = 0; i < count; i++) {
        check_text(nodes[i].name, sizeof nodes[i].name);
        check_text(nodes[i].state, sizeof nodes[i].state);
        check_text(nodes[i].features, sizeof nodes[i].features);
        check_text(nodes[i].gres, sizeof nodes[i].gres);
        check_text(nodes[i].partitions, sizeof nodes[i].partitions);
        assert(nodes[i].memory_bytes >= 0);
    }
    free(nodes);
}

static void check_list(const struct slurm_jobs *jobs)
{
    assert(jobs->count <= SLURM_LISTED_MAX);
    for (size_t i = 0; i < jobs->count; i++) {
        check_text(jobs->items[i].name, sizeof jobs->items[i].name);
        assert(strncmp(jobs->items[i].name, jobs->prefix, strlen(jobs->prefix)) == 0);
        check_status(&jobs->items[i].status);
    }
}

/* As slurm_list(), from either way. */
static void list_jobs(const json_t *answer, struct bytes text)
{
    struct slurm_jobs jobs = {.prefix = "rest-"};
    struct error err = {0};

    jobs.items = memory_zeroed(SLURM_LISTED_MAX, sizeof *jobs.items);
    assert(jobs.items != NULL);
    if (answer != NULL) (void)slurm_read_all_jobs(answer, "root", &jobs, &err).ok;
    else (void)slurm_read_all_queue(text, &jobs, &err).ok;
    check_list(&jobs);
    free(jobs.items);
}

static void look_at_json(struct bytes text)
{
    OWNED_JSON answer = NULL;
    struct slurm_status status;
    struct slurm_node *nodes = NULL;
    size_t count = 0;
    struct error err = {0};
    char reason[SLURM_TEXT_SIZE];

    if (!json_read_any_number(text, SLURM_ANSWER_MAX, &answer, &err).ok) return;
    if (slurm_read_errors(answer, reason)) check_text(reason, sizeof reason);
    if (slurm_read_jobs(answer, "", "rest-good", &status, &err).ok) check_status(&status);
    if (slurm_read_nodes(answer, &nodes, &count, &err).ok) check_nodes(nodes, count);
    list_jobs(answer, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes text = {data, size};
    struct slurm_status status;
    struct slurm_node *nodes = NULL;
    size_t count = 0;
    struct error err = {0};

    look_at_json(text);
    if (slurm_read_queue(text, &status, &err).ok) check_status(&status);
    list_jobs(NULL, text);
    if (slurm_read_info(text, &nodes, &count, &err).ok) check_nodes(nodes, count);
    return 0;
}
