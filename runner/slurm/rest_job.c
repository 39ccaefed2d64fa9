/* slurmrestd: jobs and nodes, in the words of the families v0.0.38 (numbers, one state) and v0.0.40 (objects, lists of states). */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "runner/slurm/slurm_priv.h"

#define OBJECTS_FROM 40 /* lists and objects in place of maps and texts */

/* ---- Starting ---- */

static json_t *environment_of(const struct slurm *slurm)
{
    static const char path[] = "/usr/bin:/bin";

    if (slurm->family >= OBJECTS_FROM) return json_pack("[s+]", "PATH=", path);
    return json_pack("{s:s}", "PATH", path);
}

static void add_text(json_t *job, const char *key, const char *value)
{
    if (value != NULL) (void)json_object_set_new(job, key, json_string(value));
}

static void add_gres(const struct slurm *slurm, json_t *job, const char *gres)
{
    char spelled[SLURM_TEXT_SIZE];

    if (gres == NULL) return;
    (void)snprintf(spelled, sizeof spelled, "gres/%s", gres);
    if (slurm->family >= OBJECTS_FROM) add_text(job, "tres_per_node", spelled);
    else add_text(job, "gres", gres);
}

/* If an answer was lost, and the search for the job came too early, a second job of this name is started. It waits for the first
 * (singleton). */
static json_t *job_of(const struct slurm *slurm, const struct slurm_job *job)
{
    char nodes[24];

    (void)snprintf(nodes, sizeof nodes, "%lld", (long long)job->nodes);
    json_t *made = json_pack("{s:s s:s s:I s:I s:I s:I s:s s:s s:s s:s s:b s:o}", "name", job->name, "dependency", "singleton",
                             "tasks", (json_int_t)job->nodes, "cpus_per_task", (json_int_t)job->cpus, "memory_per_node",
                             (json_int_t)slurm_mebibytes(job->memory_bytes), "time_limit", (json_int_t)slurm_minutes(job->time_s),
                             "current_working_directory", job->folder, "standard_input", "/dev/null", "standard_output",
                             "/dev/null", "standard_error", "/dev/null", "requeue", 0, "environment", environment_of(slurm));
    if (made == NULL) return NULL;
    if (slurm->family >= OBJECTS_FROM) add_text(made, "nodes", nodes);
    else (void)json_object_set_new(made, "nodes", json_integer(job->nodes));
    add_text(made, "partition", job->partition);
    add_text(made, "constraints", job->feature);
    add_gres(slurm, made, job->gres);
    return made;
}

static struct result body_of(const struct slurm *slurm, const struct slurm_job *job, json_t **body_out, struct error *err)
{
    struct buffer OWNED_BUFFER script = BUFFER(SLURM_SCRIPT_MAX);
    const unsigned lacks = json_lacks();

    TRY(slurm_script(job, &script, err));
    json_t *made = job_of(slurm, job);
    OWNED_JSON body = NULL;
    if (made != NULL && slurm->family >= OBJECTS_FROM) {
        add_text(made, "script", buffer_text(&script));
        body = json_pack("{s:o}", "job", made);
    } else if (made != NULL) body = json_pack("{s:o s:s}", "job", made, "script", buffer_text(&script));
    if (body == NULL || json_lacks() != lacks) return failure(err, ERROR_NO_MEMORY, "no memory for a job");
    *body_out = GIVE(body);
    return SUCCESS;
}

struct result slurm_rest_start(struct slurm *slurm, const struct slurm_job *job, struct slurm_status *status_out,
                               struct error *err)
{
    OWNED_JSON body = NULL;
    OWNED_JSON answer = NULL;
    struct slurm_status status = {.state = SLURM_WAITING};

    TRY(body_of(slurm, job, &body, err));
    TRY(slurm_rest_call(slurm, "POST", "/job/submit", body, &answer, err));
    if (!json_integer_of(answer, "job_id", &status.id) || status.id <= 0)
        return failure(err, ERROR_UNCERTAIN, "slurmrestd took a job and does not say its number");
    *status_out = status;
    return SUCCESS;
}

struct result slurm_rest_cancel(struct slurm *slurm, int64_t id, struct error *err)
{
    OWNED_JSON answer = NULL;
    char path[64];

    (void)snprintf(path, sizeof path, "/job/%lld", (long long)id);
    const struct result called = slurm_rest_call(slurm, "DELETE", path, NULL, &answer, err);
    return !called.ok && err->kind == ERROR_NOT_FOUND ? SUCCESS : called; /* it has ended meanwhile */
}

/* ---- Finding ---- */

/* A number, or {"set": true, "infinite": false, "number": N}. */
static int64_t number_of(const json_t *object, const char *key)
{
    int64_t number = 0;

    if (json_integer_of(object, key, &number)) return number;
    if (json_integer_of(json_object_get(object, key), "number", &number)) return number;
    return 0;
}

/* A text, or a list of texts: the first is the state, and flags such as COMPLETING or REQUEUE_HOLD follow. */
static enum slurm_state state_in(const json_t *job)
{
    const json_t *said = json_object_get(job, "job_state");
    const char *word = json_string_value(json_is_array(said) ? json_array_get(said, 0) : said);
    enum slurm_state state = word == NULL ? SLURM_LOST : slurm_state_of(word);

    for (size_t i = 1; i < json_array_size(said) && state == SLURM_WAITING; i++) {
        const char *flag = json_string_value(json_array_get(said, i));
        if (flag != NULL && slurm_state_of(flag) == SLURM_HELD) state = SLURM_HELD;
    }
    state = slurm_state_with(state, json_text_of(job, "state_reason"));
    return slurm_state_with(state, json_text_of(job, "state_description"));
}

/* A wait status, or an object with return_code and signal. */
static void read_exit(const json_t *job, struct slurm_status *status)
{
    const json_t *code = json_object_get(job, "exit_code");

    if (json_is_object(code)) {
        status->exit = (int)(number_of(code, "return_code") & 0xff);
        status->signal = (int)(number_of(json_object_get(code, "signal"), "id") & 0x7f);
        return;
    }
    const json_int_t waited = json_integer_value(code);
    status->exit = (int)(waited >> 8 & 0xff);
    status->signal = (int)(waited & 0x7f);
}

static void read_job(const json_t *job, struct slurm_status *status)
{
    *status = (struct slurm_status){.state = state_in(job)};
    (void)json_integer_of(job, "job_id", &status->id);
    if (!slurm_is_open(status->state)) read_exit(job, status);
    slurm_copy_text(status->nodes, sizeof status->nodes, json_text_of(job, "nodes"));
    slurm_copy_text(status->reason, sizeof status->reason, json_text_of(job, "state_reason"));
}

/* Another user may have a job with one of our names. */
static bool is_of(const json_t *job, const char *user)
{
    const char *owner = json_text_of(job, "user_name");

    return owner == NULL || user[0] == '\0' || strcmp(owner, user) == 0;
}

struct result slurm_read_jobs(const json_t *answer, const char *user, const char *name, struct slurm_status *status_out,
                              struct error *err)
{
    const json_t *jobs = json_object_get(answer, "jobs"), *job;
    struct slurm_status newest = {.state = SLURM_NONE}, each;
    size_t i;

    if (!json_is_array(jobs)) return failure(err, ERROR_UNAVAILABLE, "slurmrestd's answer has no list of jobs");
    json_array_foreach (jobs, i, job) {
        const char *called = json_text_of(job, "name");
        if (called == NULL || strcmp(called, name) != 0 || !is_of(job, user)) continue;
        read_job(job, &each);
        slurm_keep_newer(&newest, &each);
    }
    *status_out = newest;
    return SUCCESS;
}

struct result slurm_read_all_jobs(const json_t *answer, const char *user, struct slurm_jobs *jobs, struct error *err)
{
    const json_t *list = json_object_get(answer, "jobs"), *job;
    struct slurm_status each;
    size_t i;

    if (!json_is_array(list)) return failure(err, ERROR_UNAVAILABLE, "slurmrestd's answer has no list of jobs");
    json_array_foreach (list, i, job) {
        if (!is_of(job, user)) continue;
        read_job(job, &each);
        TRY(slurm_jobs_keep(jobs, json_text_of(job, "name"), &each, err));
    }
    return SUCCESS;
}

struct result slurm_rest_list(struct slurm *slurm, struct slurm_jobs *jobs, struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(slurm_rest_call(slurm, "GET", "/jobs", NULL, &answer, err));
    return slurm_read_all_jobs(answer, slurm->user, jobs, err);
}

struct result slurm_rest_find(struct slurm *slurm, const char *name, int64_t known_id, struct slurm_status *status_out,
                              struct error *err)
{
    OWNED_JSON answer = NULL;
    char path[64] = "/jobs";

    if (known_id > 0) (void)snprintf(path, sizeof path, "/job/%lld", (long long)known_id);
    const struct result called = slurm_rest_call(slurm, "GET", path, NULL, &answer, err);
    if (!called.ok && err->kind == ERROR_NOT_FOUND) {
        *status_out = (struct slurm_status){.state = SLURM_NONE};
        return SUCCESS;
    }
    TRY(called);
    return slurm_read_jobs(answer, slurm->user, name, status_out, err);
}

/* ---- Nodes ---- */

/* A text, or a list of texts, which becomes one with commas. */
static void copy_list(const json_t *object, const char *key, char *text_out, size_t size)
{
    const json_t *said = json_object_get(object, key);
    char all[SLURM_TEXT_SIZE] = "";
    size_t length = 0;

    for (size_t i = 0; i < json_array_size(said) && length < sizeof all - 1; i++) {
        const char *word = json_string_value(json_array_get(said, i));
        const int added = snprintf(all + length, sizeof all - length, "%s%s", i == 0 ? "" : ",", word == NULL ? "?" : word);
        length += added > 0 ? (size_t)added : 0;
    }
    slurm_copy_text(text_out, size, json_is_array(said) ? all : json_string_value(said));
}

static void read_node(const json_t *said, struct slurm_node *node)
{
    slurm_copy_text(node->name, sizeof node->name, json_text_of(said, "name"));
    copy_list(said, "state", node->state, sizeof node->state);
    copy_list(said, "active_features", node->features, sizeof node->features);
    copy_list(said, "partitions", node->partitions, sizeof node->partitions);
    slurm_copy_text(node->gres, sizeof node->gres, json_text_of(said, "gres"));
    node->cpus = number_of(said, "cpus");
    node->memory_bytes = slurm_bytes(number_of(said, "real_memory"));
}

struct result slurm_read_nodes(const json_t *answer, struct slurm_node **nodes_out, size_t *count_out, struct error *err)
{
    const json_t *said = json_object_get(answer, "nodes");
    const size_t count = json_array_size(said);

    if (!json_is_array(said)) return failure(err, ERROR_UNAVAILABLE, "slurmrestd's answer has no list of nodes");
    if (count > SLURM_NODES_MAX) return failure(err, ERROR_LIMIT, "the cluster has more than %d nodes", SLURM_NODES_MAX);
    struct slurm_node *nodes = memory_zeroed(count + 1, sizeof *nodes);
    if (nodes == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for nodes");
    for (size_t i = 0; i < count; i++) read_node(json_array_get(said, i), &nodes[i]);
    *nodes_out = nodes;
    *count_out = count;
    return SUCCESS;
}

struct result slurm_rest_nodes(struct slurm *slurm, struct slurm_node **nodes_out, size_t *count_out, struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(slurm_rest_call(slurm, "GET", "/nodes", NULL, &answer, err));
    return slurm_read_nodes(answer, nodes_out, count_out, err);
}
