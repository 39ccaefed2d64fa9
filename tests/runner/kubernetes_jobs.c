/*
 * Calls runner/kubernetes from the command line:
 *     kubernetes_jobs URL CA TOKEN-FILE NAMESPACE start RUN ATTEMPT [NAME=VALUE]... -- WORD...
 *     kubernetes_jobs URL CA TOKEN-FILE NAMESPACE find|cancel RUN ATTEMPT
 *     kubernetes_jobs URL CA TOKEN-FILE NAMESPACE place
 *     kubernetes_jobs URL CA TOKEN-FILE NAMESPACE sweep RUNNER
 *     kubernetes_jobs URL CA TOKEN-FILE NAMESPACE review TOKEN-FILE POD-UID NODE-UID
 * Prints a JSON object. Exit status 1: an error, which it prints as "KIND: MESSAGE".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "runner/kubernetes/kubernetes.h"

static void take_setting(struct kubernetes_job *job, const char *name, const char *value)
{
    const struct {
        const char *name, **text;
        int64_t *number;
    } rows[] = {
        {"agent", &job->agent_image, NULL},   {"payload", &job->payload_image, NULL}, {"queue", &job->queue, NULL},
        {"region", &job->region, NULL},       {"device", &job->device, NULL},         {"runner", &job->runner, NULL},
        {"cpus", NULL, &job->cpus},           {"memory", NULL, &job->memory_bytes},   {"deadline", NULL, &job->deadline_s},
        {"output", NULL, &job->output_bytes}, {"grace", NULL, &job->grace_s},         {"devices", NULL, &job->devices}};

    if (strcmp(name, "tasks") == 0) job->has_tasks = true;
    if (strcmp(name, "jurisdiction") == 0) job->jurisdictions[job->jurisdiction_count++] = value;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, name) != 0) continue;
        if (rows[i].text != NULL) *rows[i].text = value;
        else *rows[i].number = strtoll(value, NULL, 10);
    }
}

static struct kubernetes_job job_of(char **arguments)
{
    struct kubernetes_job job = {.run = arguments[0],
                                 .attempt = (int)strtol(arguments[1], NULL, 10),
                                 .cpus = 1,
                                 .memory_bytes = INT64_C(64) << 20,
                                 .input_bytes = 1 << 20,
                                 .output_bytes = 1 << 20,
                                 .deadline_s = 60,
                                 .grace_s = 2};
    char **word = arguments + 2;

    for (; *word != NULL && strcmp(*word, "--") != 0; word++) {
        char *equals = strchr(*word, '=');
        if (equals == NULL) exit(2);
        *equals = '\0';
        take_setting(&job, *word, equals + 1);
    }
    for (; *word != NULL && word[1] != NULL && job.word_count < KUBERNETES_WORDS_MAX; word++)
        job.words[job.word_count++] = word[1];
    return job;
}

static struct result review(struct kubernetes *kubernetes, char **arguments, struct error *err)
{
    OWNED_JSON nodes = json_pack("[s]", arguments[2]);
    const struct kubernetes_holder holder = {.account = KUBERNETES_ACCOUNT, .pod_uid = arguments[1], .node_uids = nodes};
    struct buffer OWNED_BUFFER token = BUFFER(65536);

    TRY(file_read(arguments[0], &token, err));
    return kubernetes_review(kubernetes, buffer_bytes(&token), &holder, err);
}

static struct result act(struct kubernetes *kubernetes, char **arguments, struct kubernetes_status *status, struct error *err)
{
    if (strcmp(arguments[0], "place") == 0) return kubernetes_check_place(kubernetes, err);
    if (strcmp(arguments[0], "sweep") == 0) return kubernetes_sweep(kubernetes, arguments[1], &(size_t){0}, err);
    if (strcmp(arguments[0], "review") == 0) return review(kubernetes, arguments + 1, err);
    const struct kubernetes_job job = job_of(arguments + 1);
    if (strcmp(arguments[0], "start") == 0) return kubernetes_start(kubernetes, &job, status, err);
    if (strcmp(arguments[0], "cancel") == 0) TRY(kubernetes_cancel(kubernetes, &job, err));
    return kubernetes_find(kubernetes, &job, status, err);
}

int main(int argc, char **argv)
{
    struct kubernetes_status status = {.state = KUBERNETES_NONE};
    struct error err = {0};

    if (argc < 6) return 2;
    const struct kubernetes_options options = {.url = argv[1], .ca_file = argv[2], .token_file = argv[3], .space = argv[4]};
    OWNED(kubernetes) *kubernetes = NULL;
    if (!kubernetes_open(&options, &kubernetes, &err).ok || !act(kubernetes, argv + 5, &status, &err).ok) {
        (void)printf("%s: %s\n", error_kind_name(err.kind), err.message);
        return 1;
    }
    OWNED_JSON shown =
        json_pack("{s:s s:s s:i s:i s:s s:s s:s s:s s:s}", "version", kubernetes_version(kubernetes), "state",
                  kubernetes_state_name(status.state), "exit", status.exit, "signal", status.signal, "uid", status.uid, "pod_uid",
                  status.pod_uid, "node", status.node, "reason", status.reason, "message", status.message);
    return json_dumpf(shown, stdout, 0) == 0 ? 0 : 2;
}
