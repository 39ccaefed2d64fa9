#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "runner/slurm/slurm_priv.h"

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789-"

/* ---- Opening ---- */

static struct result take_text(char *into, size_t size, const char *what, const char *text, struct error *err)
{
    const int length = snprintf(into, size, "%s", text == NULL ? "" : text);

    if (length < 0 || (size_t)length >= size) return failure(err, ERROR_INVALID, "%s has more than %zu letters", what, size - 1);
    return SUCCESS;
}

static struct result open_rest(struct slurm *slurm, const struct slurm_options *options, struct error *err)
{
    static const char local[] = "unix:";
    const bool is_local = strncmp(options->url, local, sizeof local - 1) == 0;
    const struct outgoing_options rules = {
        .reach = OUTGOING_ANY, .ca_file = options->ca_file, .socket = is_local ? options->url + sizeof local - 1 : NULL};

    TRY(take_text(slurm->origin, sizeof slurm->origin, "the URL of slurmrestd", is_local ? "http://localhost" : options->url,
                  err));
    TRY(take_text(slurm->place, sizeof slurm->place, "the URL of slurmrestd", options->url, err));
    TRY(outgoing_new(&rules, &slurm->outgoing, err));
    return slurm_rest_discover(slurm, err);
}

struct result slurm_open(const struct slurm_options *options, struct slurm **slurm_out, struct error *err)
{
    OWNED(slurm) *slurm = memory_zeroed(1, sizeof *slurm);

    if (slurm == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a cluster");
    slurm->gives_up = options->gives_up;
    TRY(take_text(slurm->user, sizeof slurm->user, "the name of Slurm's user", options->user, err));
    TRY(take_text(slurm->token_file, sizeof slurm->token_file, "the path of Slurm's token", options->token_file, err));
    TRY(take_text(slurm->programs, sizeof slurm->programs, "the folder of Slurm's programs",
                  options->programs == NULL ? "/usr/bin" : options->programs, err));
    TRY(take_text(slurm->config, sizeof slurm->config, "the path of slurm.conf", options->config, err));
    if (strcmp(options->url, "commands:") == 0) TRY(slurm_commands_discover(slurm, err));
    else if (strncmp(options->url, "https://", 8) == 0 || strncmp(options->url, "unix:/", 6) == 0)
        TRY(open_rest(slurm, options, err));
    else
        return failure(err, ERROR_INVALID,
                       "Slurm is reached at https://HOST:PORT, unix:/PATH, or commands: for sbatch and squeue");
    *slurm_out = GIVE(slurm);
    return SUCCESS;
}

const char *slurm_version(const struct slurm *slurm)
{
    return slurm->version;
}

void slurm_free(struct slurm *slurm)
{
    if (slurm == NULL) return;
    outgoing_free(slurm->outgoing);
    free(slurm);
}

/* ---- Jobs ---- */

static struct result check_name(const char *name, struct error *err)
{
    const struct bytes letters = bytes_of_text(name);

    if (letters.length > 0 && letters.length < SLURM_NAME_SIZE && text_consists_of(letters, NAME_LETTERS)) return SUCCESS;
    return failure(err, ERROR_INVALID, "a job's name has 1 to 63 of a-z, 0-9 and '-'");
}

static bool is_word_or_none(const char *word)
{
    return word == NULL || slurm_is_word(word);
}

/* Words with '|' between. No shell reads them: they are JSON, or an argument of a program. */
static bool is_choice(const char *words)
{
    struct bytes left = bytes_of_text(words);

    if (left.length == 0 || left.length > SLURM_WORD_MAX || left.data[left.length - 1] == '|') return false;
    while (left.length > 0) {
        const struct bytes word = text_cut(&left, '|');
        if (word.length == 0 || !text_consists_of(word, SLURM_WORD_LETTERS)) return false;
    }
    return true;
}

static struct result check_job(const struct slurm_job *job, struct error *err)
{
    TRY(check_name(job->name, err));
    if (!is_word_or_none(job->partition) || (job->feature != NULL && !is_choice(job->feature)) || !is_word_or_none(job->gres) ||
        !slurm_is_word(job->folder))
        return failure(err, ERROR_INVALID, "a job's partition, feature, gres and folder have only a-z, A-Z, 0-9 and /._:=,@%%+-");
    if (job->word_count == 0 || job->word_count > SLURM_WORDS_MAX || job->words[0][0] != '/')
        return failure(err, ERROR_INVALID, "a job starts a program by its whole path, with at most %d arguments",
                       SLURM_WORDS_MAX - 1);
    for (size_t i = 0; i < job->word_count; i++)
        if (!slurm_is_word(job->words[i]))
            return failure(err, ERROR_INVALID, "argument %zu of a job has a letter that a shell may change", i);
    return SUCCESS;
}

struct result slurm_start(struct slurm *slurm, const struct slurm_job *job, struct slurm_status *status_out, struct error *err)
{
    TRY(check_job(job, err));
    TRY(slurm_find(slurm, job->name, 0, status_out, err));
    if (slurm_is_open(status_out->state)) return SUCCESS;
    return slurm->outgoing == NULL ? slurm_commands_start(slurm, job, status_out, err)
                                   : slurm_rest_start(slurm, job, status_out, err);
}

struct result slurm_find(struct slurm *slurm, const char *name, int64_t known_id, struct slurm_status *status_out,
                         struct error *err)
{
    TRY(check_name(name, err));
    return slurm->outgoing == NULL ? slurm_commands_find(slurm, name, status_out, err)
                                   : slurm_rest_find(slurm, name, known_id, status_out, err);
}

/* ---- Lists ---- */

struct result slurm_list(struct slurm *slurm, const char *prefix, struct slurm_listed **jobs_out, size_t *count_out,
                         struct error *err)
{
    struct slurm_jobs jobs = {.prefix = prefix};

    TRY(check_name(prefix, err));
    jobs.items = memory_zeroed(SLURM_LISTED_MAX, sizeof *jobs.items);
    if (jobs.items == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list of jobs");
    const struct result listed =
        slurm->outgoing == NULL ? slurm_commands_list(slurm, &jobs, err) : slurm_rest_list(slurm, &jobs, err);
    if (!listed.ok) {
        free(jobs.items);
        return listed;
    }
    *jobs_out = jobs.items;
    *count_out = jobs.count;
    return SUCCESS;
}

struct result slurm_cancel(struct slurm *slurm, const char *name, int64_t known_id, struct error *err)
{
    struct slurm_status status;

    if (slurm->outgoing == NULL) {
        TRY(check_name(name, err));
        return slurm_commands_cancel(slurm, name, err);
    }
    TRY(slurm_find(slurm, name, known_id, &status, err));
    if (!slurm_is_open(status.state)) return SUCCESS;
    return slurm_rest_cancel(slurm, status.id, err);
}

struct result slurm_nodes(struct slurm *slurm, struct slurm_node **nodes_out, size_t *count_out, struct error *err)
{
    return slurm->outgoing == NULL ? slurm_commands_nodes(slurm, nodes_out, count_out, err)
                                   : slurm_rest_nodes(slurm, nodes_out, count_out, err);
}
