/*
 * Calls runner/slurm from the command line:
 *     slurm_jobs URL TOKEN-FILE CONFIG start NAME FEATURE GRES SECONDS WORD...
 *     slurm_jobs URL TOKEN-FILE CONFIG find|cancel NAME KNOWN-ID
 * Prints: id state exit signal nodes reason. Exit status 1: an error, which it prints.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/slurm/slurm.h"

static const char *text_or_null(const char *text)
{
    return text[0] == '\0' ? NULL : text;
}

static struct result start(struct slurm *slurm, char **arguments, struct slurm_status *status, struct error *err)
{
    struct slurm_job job = {.name = arguments[0],
                            .partition = "train",
                            .feature = text_or_null(arguments[1]),
                            .gres = text_or_null(arguments[2]),
                            .time_s = strtoll(arguments[3], NULL, 10),
                            .folder = "/tmp",
                            .nodes = 1,
                            .cpus = 1,
                            .memory_bytes = INT64_C(64) << 20};

    for (char **word = arguments + 4; *word != NULL && job.word_count < SLURM_WORDS_MAX; word++)
        job.words[job.word_count++] = *word;
    return slurm_start(slurm, &job, status, err);
}

static struct result act(struct slurm *slurm, char **arguments, struct slurm_status *status, struct error *err)
{
    const int64_t known_id = strtoll(arguments[2], NULL, 10);

    if (strcmp(arguments[0], "start") == 0) return start(slurm, arguments + 1, status, err);
    if (strcmp(arguments[0], "cancel") == 0) TRY(slurm_cancel(slurm, arguments[1], known_id, err));
    return slurm_find(slurm, arguments[1], known_id, status, err);
}

int main(int argc, char **argv)
{
    struct slurm_status status = {0};
    struct error err = {0};

    if (argc < 7) return 2;
    const struct slurm_options options = {.url = argv[1], .user = "root", .token_file = argv[2], .config = argv[3]};
    OWNED(slurm) *slurm = NULL;
    if (!slurm_open(&options, &slurm, &err).ok || !act(slurm, argv + 4, &status, &err).ok) {
        (void)printf("%s: %s\n", error_kind_name(err.kind), err.message);
        return 1;
    }
    (void)printf("%lld %s %d %d %s %s\n", (long long)status.id, slurm_state_name(status.state), status.exit, status.signal,
                 status.nodes[0] == '\0' ? "-" : status.nodes, status.reason[0] == '\0' ? "-" : status.reason);
    return 0;
}
