/*
 * runner/slurm/slurm_priv.h -- shared by the sources of this folder: the two interfaces of a cluster, and Slurm's words for
 * states.
 */
#pragma once

#include "base/json.h"
#include "outgoing/call.h"
#include "runner/slurm/slurm.h"

#define SLURM_ANSWER_MAX (16 << 20)
#define SLURM_PATH_SIZE  256
#define SLURM_OLDEST     38 /* Debian 12's 22.05 */
#define SLURM_NEWEST     45
#define SLURM_SCRIPT_MAX 8192
/* Of one word of a job, which no shell changes. */
#define SLURM_WORD_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._:=,@%+-"
#define SLURM_WORD_MAX     255

struct slurm {
    struct outgoing *outgoing; /* NULL: through the programs */
    char origin[SLURM_PATH_SIZE];
    char place[SLURM_PATH_SIZE]; /* as the operator wrote it, for errors */
    char user[SLURM_NAME_SIZE];
    char token_file[SLURM_PATH_SIZE], programs[SLURM_PATH_SIZE], config[SLURM_PATH_SIZE];
    int family; /* 38: v0.0.38 */
    char version[SLURM_NAME_SIZE];
    const atomic_bool *gives_up;
};

/** Copies at most size - 1 letters; characters other than printable ASCII become '?'. */
void slurm_copy_text(char *text_out, size_t size, const char *text);
/** The state for one of Slurm's words; SLURM_LOST for an unknown one. */
enum slurm_state slurm_state_of(const char *word);
/** SLURM_HELD for a waiting job whose reason says so: "JobHeldUser", "launch failed requeued held"; NULL: no reason. */
enum slurm_state slurm_state_with(enum slurm_state state, const char *reason);
/** The batch script of a job, which starts its words once on each node. */
RESULT slurm_script(const struct slurm_job *job, struct buffer *script, struct error *err);
int64_t slurm_minutes(int64_t seconds);
int64_t slurm_mebibytes(int64_t bytes);
/** 0 for an impossible number of MiB. */
int64_t slurm_bytes(int64_t mebibytes);
/** Copies `each` to *kept if it has priority: an open job over an ended one; of two equal ones the newer. */
void slurm_keep_newer(struct slurm_status *kept, const struct slurm_status *each);

/** A list that slurm_list() collects. */
struct slurm_jobs {
    const char *prefix; /* of the names that belong to it */
    size_t count;
    struct slurm_listed *items; /* SLURM_LISTED_MAX */
};
/** Keeps the job if its name begins with the prefix: one of each name, as slurm_keep_newer(). */
RESULT slurm_jobs_keep(struct slurm_jobs *jobs, const char *name, const struct slurm_status *status, struct error *err);

/* --- slurmrestd --- */

/** Finds the newest family of versions that the cluster has; sets `family` and `version`. */
RESULT slurm_rest_discover(struct slurm *slurm, struct error *err);
/** One call; `body` NULL: none. An answer with errors is an error, with Slurm's own words. */
RESULT slurm_rest_call(struct slurm *slurm, const char *method, const char *path, const json_t *body, json_t **answer_out,
                       struct error *err);
RESULT slurm_rest_start(struct slurm *slurm, const struct slurm_job *job, struct slurm_status *status_out, struct error *err);
RESULT slurm_rest_find(struct slurm *slurm, const char *name, int64_t known_id, struct slurm_status *status_out,
                       struct error *err);
RESULT slurm_rest_list(struct slurm *slurm, struct slurm_jobs *jobs, struct error *err);
RESULT slurm_rest_cancel(struct slurm *slurm, int64_t id, struct error *err);
RESULT slurm_rest_nodes(struct slurm *slurm, struct slurm_node **nodes_out, size_t *count_out, struct error *err);

/** The parts that read answers, for fuzzing: jobs and nodes of any family. The newest job of this name of `user` ("": of all). */
RESULT slurm_read_jobs(const json_t *answer, const char *user, const char *name, struct slurm_status *status_out,
                       struct error *err);
/** Adds the jobs of `user` ("": of all) to the list. */
RESULT slurm_read_all_jobs(const json_t *answer, const char *user, struct slurm_jobs *jobs, struct error *err);
RESULT slurm_read_nodes(const json_t *answer, struct slurm_node **nodes_out, size_t *count_out, struct error *err);
/** Why an answer is an error, in Slurm's words; false: it is no error. */
bool slurm_read_errors(const json_t *answer, char text_out[SLURM_TEXT_SIZE]);

/* --- the programs --- */

RESULT slurm_commands_discover(struct slurm *slurm, struct error *err);
RESULT slurm_commands_start(struct slurm *slurm, const struct slurm_job *job, struct slurm_status *status_out, struct error *err);
RESULT slurm_commands_find(struct slurm *slurm, const char *name, struct slurm_status *status_out, struct error *err);
RESULT slurm_commands_list(struct slurm *slurm, struct slurm_jobs *jobs, struct error *err);
RESULT slurm_commands_cancel(struct slurm *slurm, const char *name, struct error *err);
RESULT slurm_commands_nodes(struct slurm *slurm, struct slurm_node **nodes_out, size_t *count_out, struct error *err);
/** The lines of `squeue` and `sinfo`, for fuzzing. */
RESULT slurm_read_queue(struct bytes text, struct slurm_status *status_out, struct error *err);
RESULT slurm_read_all_queue(struct bytes text, struct slurm_jobs *jobs, struct error *err);
RESULT slurm_read_info(struct bytes text, struct slurm_node **nodes_out, size_t *count_out, struct error *err);
