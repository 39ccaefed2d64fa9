/* The programs of Slurm, for clusters without slurmrestd. Never a shell: each word is an argument of its own. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "runner/slurm/slurm_priv.h"
#include "supervision/child_pipe.h"

#define PATIENCE_MS  60000
#define ARGUMENTS    20
#define WORD_SIZE    512
#define LINE_FIELDS  7
#define QUEUE_FIELDS 5
#define QUEUE_FORMAT "--Format=JobID:|,State:|,exit_code:|,NodeList:|,Reason:|"
#define LIST_FORMAT  "--Format=Name:64|,JobID:|,State:|,exit_code:|,NodeList:|,Reason:|"
#define INFO_FORMAT  "--Format=NodeList:|,StateLong:|,CPUs:|,Memory:|,Gres:|,Features:|,PartitionName:|"

/* The arguments of a program, each formatted into a separate array. */
struct command {
    size_t count;
    char words[ARGUMENTS][WORD_SIZE];
};

static void __attribute__((format(printf, 2, 3))) add(struct command *command, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    (void)vsnprintf(command->words[command->count++], WORD_SIZE, format, values);
    va_end(values);
}

struct printed {
    struct buffer *out, errors;
};

static struct result on_output(void *context, enum child_stream stream, struct bytes piece, struct error *err)
{
    struct printed *printed = context;

    return buffer_add(stream == CHILD_OUTPUT ? printed->out : &printed->errors, piece.data, piece.length, err);
}

static struct result read_output(struct child_output *output, struct error *err)
{
    for (bool open = true; open;) TRY(child_output_read(output, PATIENCE_MS, &open, err));
    return SUCCESS;
}

static struct result start(const struct slurm *slurm, struct command *command, int input, struct child_output *output,
                           pid_t *pid_out, struct error *err)
{
    char config[SLURM_PATH_SIZE + 16];
    char *arguments[ARGUMENTS + 1] = {NULL};
    char *environment[] = {(char[]){"PATH=/usr/bin:/bin"}, slurm->config[0] == '\0' ? NULL : config, NULL};
    struct child_descriptor ends[CHILD_STREAMS + 1];

    (void)snprintf(config, sizeof config, "SLURM_CONF=%s", slurm->config);
    for (size_t i = 0; i < command->count; i++) arguments[i] = command->words[i];
    child_output_ends(output, ends);
    ends[CHILD_STREAMS] = (struct child_descriptor){.from = input, .to = STDIN_FILENO};
    const struct child_options options = {.arguments = arguments,
                                          .environment = environment,
                                          .descriptors = ends,
                                          .descriptor_count = CHILD_STREAMS + 1,
                                          .death_signal = SIGKILL};
    return child_start(&options, pid_out, err);
}

static struct result check_status(const struct command *command, int status, const struct printed *printed, struct error *err)
{
    char said[SLURM_TEXT_SIZE], ended[CHILD_STATUS_TEXT_SIZE];

    if (status == 0) return SUCCESS;
    slurm_copy_text(said, sizeof said, buffer_text(&printed->errors));
    child_status_text(status, ended);
    return failure(err, ERROR_DENIED, "%.60s ended with %s: %s", command->words[0], ended, said);
}

static struct result run_and_read(const struct slurm *slurm, struct command *command, struct bytes input, struct printed *printed,
                                  struct error *err)
{
    const struct child_output_options kept = {.maximum = SLURM_ANSWER_MAX, .take = on_output, .context = printed};
    OWNED(child_output) *output = NULL;
    OWNED_FD read_end = -1;
    pid_t pid = 0;
    int status = -1;

    TRY(child_input(input, &read_end, err));
    TRY(child_output_new(&kept, &output, err));
    TRY(start(slurm, command, read_end, output, &pid, err));
    const struct result read = read_output(output, err);
    if (!read.ok || !child_wait(pid, PATIENCE_MS, &status)) (void)child_end(pid, SIGKILL, PATIENCE_MS, &status);
    TRY(read);
    if (child_output_dropped(output) > 0)
        return failure(err, ERROR_LIMIT, "%.60s printed more than %d MiB", command->words[0], SLURM_ANSWER_MAX >> 20);
    return check_status(command, status, printed, err);
}

static struct result run_program(const struct slurm *slurm, struct command *command, struct bytes input, struct buffer *out,
                                 struct error *err)
{
    struct printed printed = {out, BUFFER(SLURM_ANSWER_MAX)};
    const struct result ran = run_and_read(slurm, command, input, &printed, err);

    buffer_done(&printed.errors);
    return ran;
}

static struct command command_of(const struct slurm *slurm, const char *program)
{
    struct command command = {0};

    add(&command, "%s/%s", slurm->programs, program);
    return command;
}

struct result slurm_commands_discover(struct slurm *slurm, struct error *err)
{
    struct buffer OWNED_BUFFER out = BUFFER(SLURM_ANSWER_MAX);
    struct command command = command_of(slurm, "sinfo");

    add(&command, "--version");
    TRY(run_program(slurm, &command, (struct bytes){0}, &out, err));
    struct bytes text = buffer_bytes(&out);
    const struct bytes line = text_cut(&text, '\n');
    char version[SLURM_NAME_SIZE / 2];
    (void)snprintf(version, sizeof version, "%.*s", (int)(line.length < sizeof version ? line.length : sizeof version - 1),
                   line.data == NULL ? "" : (const char *)line.data);
    (void)snprintf(slurm->version, sizeof slurm->version, "commands, ");
    slurm_copy_text(slurm->version + strlen(slurm->version), sizeof slurm->version - strlen(slurm->version), version);
    return SUCCESS;
}

static void add_limits(struct command *command, const struct slurm_job *job)
{
    add(command, "--nodes=%lld", (long long)job->nodes);
    add(command, "--ntasks=%lld", (long long)job->nodes);
    add(command, "--cpus-per-task=%lld", (long long)job->cpus);
    add(command, "--mem=%lldM", (long long)slurm_mebibytes(job->memory_bytes));
    add(command, "--time=%lld", (long long)slurm_minutes(job->time_s));
    if (job->partition != NULL) add(command, "--partition=%s", job->partition);
    if (job->feature != NULL) add(command, "--constraint=%s", job->feature);
    if (job->gres != NULL) add(command, "--gres=%s", job->gres);
}

struct result slurm_commands_start(struct slurm *slurm, const struct slurm_job *job, struct slurm_status *status_out,
                                   struct error *err)
{
    struct buffer OWNED_BUFFER script = BUFFER(SLURM_SCRIPT_MAX), out = BUFFER(SLURM_ANSWER_MAX);
    struct slurm_status status = {.state = SLURM_WAITING};
    struct command command = command_of(slurm, "sbatch");
    uint64_t id = 0;

    add(&command, "--parsable");
    add(&command, "--job-name=%s", job->name);
    add(&command, "--dependency=singleton"); /* a second job of the name waits for the first */
    add(&command, "--chdir=%s", job->folder);
    add(&command, "--output=/dev/null");
    add(&command, "--error=/dev/null");
    add(&command, "--export=NONE");
    add(&command, "--no-requeue");
    add_limits(&command, job);
    TRY(slurm_script(job, &script, err));
    TRY(run_program(slurm, &command, buffer_bytes(&script), &out, err));
    struct bytes text = buffer_bytes(&out), line = text_cut(&text, '\n');
    if (!text_to_u64(text_cut(&line, ';'), INT64_MAX, &id))
        return failure(err, ERROR_UNCERTAIN, "sbatch does not say the job's number");
    status.id = (int64_t)id;
    *status_out = status;
    return SUCCESS;
}

struct result slurm_commands_cancel(struct slurm *slurm, const char *name, struct error *err)
{
    struct buffer OWNED_BUFFER out = BUFFER(SLURM_ANSWER_MAX);
    struct command command = command_of(slurm, "scancel");

    add(&command, "--me");
    add(&command, "--name=%s", name);
    return run_program(slurm, &command, (struct bytes){0}, &out, err);
}

/* ---- Lines ---- */

static void copy_field(struct bytes field, char *text_out, size_t size)
{
    char text[SLURM_NODES_SIZE];

    while (field.length > 0 && field.data[field.length - 1] == ' ') field.length--;
    (void)snprintf(text, sizeof text, "%.*s", (int)(field.length < sizeof text ? field.length : sizeof text - 1),
                   field.data == NULL ? "" : (const char *)field.data);
    slurm_copy_text(text_out, size, text);
}

static bool cut_fields(struct bytes line, size_t count, struct bytes fields_out[LINE_FIELDS])
{
    for (size_t i = 0; i < count; i++) {
        if (line.length == 0) return false;
        fields_out[i] = text_cut(&line, '|');
    }
    return true;
}

static int64_t number_in(struct bytes field)
{
    uint64_t number = 0;

    return text_to_u64(field, INT64_MAX, &number) ? (int64_t)number : 0;
}

/* squeue's exit_code: a wait status; in newer versions the exit status, ':' and a signal. */
static void read_exit(struct bytes field, struct slurm_status *status)
{
    const struct bytes first = text_cut(&field, ':');
    const int64_t number = number_in(first);

    if (field.length > 0) {
        status->exit = (int)(number & 0xff);
        status->signal = (int)(number_in(field) & 0x7f);
        return;
    }
    status->exit = (int)(number >> 8 & 0xff);
    status->signal = (int)(number & 0x7f);
}

static struct result read_job(struct bytes line, struct slurm_status *status_out, struct error *err)
{
    struct bytes fields[LINE_FIELDS];
    char state[SLURM_NAME_SIZE];
    struct slurm_status status = {0};

    if (!cut_fields(line, QUEUE_FIELDS, fields))
        return failure(err, ERROR_UNAVAILABLE, "squeue printed a line that can't be read");
    copy_field(fields[1], state, sizeof state);
    status.id = number_in(fields[0]);
    status.state = slurm_state_of(state);
    read_exit(fields[2], &status);
    copy_field(fields[3], status.nodes, sizeof status.nodes);
    copy_field(fields[4], status.reason, sizeof status.reason);
    status.state = slurm_state_with(status.state, status.reason);
    *status_out = status;
    return SUCCESS;
}

struct result slurm_read_queue(struct bytes text, struct slurm_status *status_out, struct error *err)
{
    struct slurm_status newest = {.state = SLURM_NONE}, each;

    while (text.length > 0) {
        const struct bytes line = text_cut(&text, '\n');
        if (line.length == 0) continue;
        TRY(read_job(line, &each, err));
        slurm_keep_newer(&newest, &each);
    }
    *status_out = newest;
    return SUCCESS;
}

/* The name, then the same fields. */
struct result slurm_read_all_queue(struct bytes text, struct slurm_jobs *jobs, struct error *err)
{
    struct slurm_status each;
    char name[SLURM_NAME_SIZE];

    while (text.length > 0) {
        struct bytes line = text_cut(&text, '\n');
        if (line.length == 0) continue;
        copy_field(text_cut(&line, '|'), name, sizeof name);
        TRY(read_job(line, &each, err));
        TRY(slurm_jobs_keep(jobs, name, &each, err));
    }
    return SUCCESS;
}

static struct command queue_command(const struct slurm *slurm)
{
    struct command command = command_of(slurm, "squeue");

    add(&command, "--me");
    add(&command, "--noheader");
    add(&command, "--states=all");
    return command;
}

struct result slurm_commands_list(struct slurm *slurm, struct slurm_jobs *jobs, struct error *err)
{
    struct buffer OWNED_BUFFER out = BUFFER(SLURM_ANSWER_MAX);
    struct command command = queue_command(slurm);

    add(&command, LIST_FORMAT);
    TRY(run_program(slurm, &command, (struct bytes){0}, &out, err));
    return slurm_read_all_queue(buffer_bytes(&out), jobs, err);
}

struct result slurm_commands_find(struct slurm *slurm, const char *name, struct slurm_status *status_out, struct error *err)
{
    struct buffer OWNED_BUFFER out = BUFFER(SLURM_ANSWER_MAX);
    struct command command = queue_command(slurm);

    add(&command, "--name=%s", name);
    add(&command, QUEUE_FORMAT);
    TRY(run_program(slurm, &command, (struct bytes){0}, &out, err));
    return slurm_read_queue(buffer_bytes(&out), status_out, err);
}

static struct result read_node(struct bytes line, struct slurm_node *node, struct error *err)
{
    struct bytes fields[LINE_FIELDS];

    if (!cut_fields(line, LINE_FIELDS, fields)) return failure(err, ERROR_UNAVAILABLE, "sinfo printed a line that can't be read");
    *node = (struct slurm_node){.cpus = number_in(fields[2])};
    copy_field(fields[0], node->name, sizeof node->name);
    copy_field(fields[1], node->state, sizeof node->state);
    copy_field(fields[4], node->gres, sizeof node->gres);
    copy_field(fields[5], node->features, sizeof node->features);
    copy_field(fields[6], node->partitions, sizeof node->partitions);
    node->memory_bytes = slurm_bytes(number_in(fields[3]));
    return SUCCESS;
}

static struct result read_nodes(struct bytes text, struct slurm_node *nodes, size_t *count_out, struct error *err)
{
    size_t count = 0;

    while (text.length > 0) {
        const struct bytes line = text_cut(&text, '\n');
        if (line.length == 0) continue;
        if (count == SLURM_NODES_MAX) return failure(err, ERROR_LIMIT, "the cluster has more than %d nodes", SLURM_NODES_MAX);
        TRY(read_node(line, &nodes[count++], err));
    }
    *count_out = count;
    return SUCCESS;
}

struct result slurm_read_info(struct bytes text, struct slurm_node **nodes_out, size_t *count_out, struct error *err)
{
    struct slurm_node *nodes = memory_zeroed(SLURM_NODES_MAX, sizeof *nodes);

    if (nodes == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for nodes");
    const struct result read = read_nodes(text, nodes, count_out, err);
    if (read.ok) *nodes_out = nodes;
    else free(nodes);
    return read;
}

struct result slurm_commands_nodes(struct slurm *slurm, struct slurm_node **nodes_out, size_t *count_out, struct error *err)
{
    struct buffer OWNED_BUFFER out = BUFFER(SLURM_ANSWER_MAX);
    struct command command = command_of(slurm, "sinfo");

    add(&command, "--noheader");
    add(&command, "--Node");
    add(&command, INFO_FORMAT);
    TRY(run_program(slurm, &command, (struct bytes){0}, &out, err));
    return slurm_read_info(buffer_bytes(&out), nodes_out, count_out, err);
}
