/* `sijil admin scrub`, `rewrap`, `job`, `keys`, and the end of `gc`: begins, follows and stops jobs; deletion certificates. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/local.h"
#include "client/terminal.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_over(const json_t *job)
{
    return json_object_get(job, "ended") != NULL;
}

/* A job, and the project that it belongs to; NULL: the registry. */
struct job_reference {
    const char *id, *project;
};

/* One line; on a terminal each line replaces the one before. */
static void show(const json_t *job, bool is_last)
{
    const int64_t done = number_of(job, "bytes_done"), total = number_of(job, "bytes_total");
    const json_t *report = json_object_get(job, "report");
    char state[CELL_MAX], phase[CELL_MAX], waits[CELL_MAX];

    cell_text(json_object_get(job, "state"), state);
    cell_text(json_object_get(job, "phase"), phase);
    (void)fprintf(stderr, "%s%s, %s: %" PRId64 " of %" PRId64, isatty(STDERR_FILENO) ? "\r\033[K" : "", state, phase,
                  number_of(job, "done"), number_of(job, "total"));
    if (total > 0) (void)fprintf(stderr, ", %.1f of %.1f MiB", (double)done / 1048576.0, (double)total / 1048576.0);
    if (report == NULL) (void)fprintf(stderr, ", %" PRId64 " found", number_of(job, "found"));
    else
        (void)fprintf(stderr, ", garbage: %" PRId64 " manifests, %" PRId64 " blobs, %" PRId64 " bytes",
                      number_of(report, "manifests"), number_of(report, "blobs"), number_of(report, "bytes"));
    if (json_object_get(job, "waits_for") != NULL) {
        cell_text(json_object_get(job, "waits_for"), waits);
        (void)fprintf(stderr, " (%s: %s)", is_over(job) ? "because" : "waits", waits);
    }
    if (is_last || !isatty(STDERR_FILENO)) (void)fputc('\n', stderr);
}

static struct result add_project(struct buffer *path, const char *project, struct error *err)
{
    if (project == NULL) return SUCCESS;
    TRY(buffer_add_text(path, "?project=", err));
    return http_escape(path, project, err);
}

static struct result job_path(struct buffer *path, const struct job_reference *reference, const char *what, struct error *err)
{
    TRY(buffer_add_text(path, "/jobs/", err));
    TRY(http_escape(path, reference->id, err));
    TRY(buffer_add_text(path, what, err));
    return add_project(path, reference->project, err);
}

static struct job_reference reference_of(const struct invocation *invocation)
{
    return (struct job_reference){.id = invocation->operands[1], .project = invocation_option(invocation, 'P')};
}

static struct result print_findings(struct invocation *invocation, const struct job_reference *reference, struct error *err)
{
    static const struct column columns[] = {
        {"KIND", "kind"}, {"NAME", "name"}, {"DIGEST", "digest"}, {"OBJECT", "subject"}, {"WHAT", "detail"}};
    struct buffer OWNED_BUFFER path = BUFFER(1024);

    TRY(job_path(&path, reference, "/findings", err));
    return api_list(invocation, buffer_text(&path), "findings", columns, COUNT(columns), err);
}

/* ---- the report of a collection ---- */

static void print_member(const json_t *row, const char *name, const char *member)
{
    char cell[CELL_MAX];

    cell_text(json_object_get(row, member), cell);
    (void)printf("%s%s", name, cell);
}

static void print_rows(const json_t *rows, const struct column *members, size_t count)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        for (size_t m = 0; m < count; m++) print_member(json_array_get(rows, i), members[m].title, members[m].member);
        (void)putchar('\n');
    }
}

static void print_report(const json_t *job)
{
    static const struct column removed[] = {{"", "repository"}, {"@", "digest"}, {"  ", "why"}};
    static const struct column projects[] = {
        {"", "name"}, {"  manifests ", "manifests"}, {"  tags ", "tags"}, {"  blobs ", "blobs"}, {"  bytes ", "bytes"}};
    static const struct column unmet[] = {{"unmet: ", "repository"}, {"  ", "why"}};
    const json_t *report = json_object_get(job, "report");

    print_rows(json_object_get(report, "removed"), removed, COUNT(removed));
    print_rows(json_object_get(report, "unmet"), unmet, COUNT(unmet));
    print_rows(json_object_get(report, "projects"), projects, COUNT(projects));
    (void)printf("%s: %" PRId64 " manifests with %" PRId64 " tags, %" PRId64 " of %" PRId64 " blobs, %" PRId64 " bytes, %" PRId64
                 " sessions\n",
                 json_is_true(json_object_get(job, "dry_run")) ? "would be removed" : "removed", number_of(report, "manifests"),
                 number_of(report, "tags"), number_of(report, "blobs"), number_of(report, "blobs_looked_at"),
                 number_of(report, "bytes"), number_of(report, "sessions"));
    if (json_is_false(json_object_get(report, "is_whole")))
        (void)printf("there is more than one report tells; the figures are lower bounds\n");
}

/* ---- following a job ---- */

/* Findings decide the exit status, so that a script need not parse a table. */
static struct result conclude(struct invocation *invocation, const json_t *job, const struct job_reference *reference,
                              struct error *err)
{
    char state[CELL_MAX];

    cell_text(json_object_get(job, "state"), state);
    if (invocation->json) TRY(api_print_json(job, err));
    else if (json_object_get(job, "report") != NULL) print_report(job);
    else if (number_of(job, "found") > 0) TRY(print_findings(invocation, reference, err));
    if (strcmp(state, "completed") != 0) return failure(err, ERROR_INVALID, "the job was not completed: %s", state);
    if (number_of(job, "found") > 0)
        return failure(err, ERROR_CORRUPT, "%" PRId64 " findings; 'sijil admin job findings HOST %.40s' has them",
                       number_of(job, "found"), reference->id);
    return SUCCESS;
}

void look_rest(unsigned looks)
{
    const long pause_ms = looks < 6 ? 100L << looks : 5000;
    const struct timespec pause = {.tv_sec = pause_ms / 1000, .tv_nsec = pause_ms % 1000 * 1000000};

    (void)nanosleep(&pause, NULL);
}

static struct result follow(struct invocation *invocation, const struct job_reference *reference, struct error *err)
{
    OWNED(session) *session = NULL; /* one for all looks, because each login is an event too */
    struct buffer OWNED_BUFFER path = BUFFER(1024);

    TRY(job_path(&path, reference, "", err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    for (unsigned looks = 0;; looks++) {
        OWNED_JSON job = NULL;
        TRY(api_call_in(session, "GET", buffer_text(&path), NULL, &job, err));
        if (!invocation->json) show(job, is_over(job));
        if (is_over(job)) return conclude(invocation, job, reference, err);
        look_rest(looks);
    }
}

struct result job_begin(struct invocation *invocation, const char *path, const char *project, const json_t *body,
                        struct error *err)
{
    OWNED_JSON answer = NULL;
    char id[CELL_MAX];

    if (body == NULL) return failure(err, ERROR_INVALID, "a region that is not UTF-8, or no memory");
    TRY(api_call(invocation, "POST", path, body, &answer, err));
    cell_text(json_object_get(answer, "id"), id);
    if (invocation_option(invocation, 'd') != NULL) return api_print(invocation, answer, err);
    if (!invocation->json) (void)fprintf(stderr, "job %s; it goes on also when this ends\n", id);
    return follow(invocation, &(struct job_reference){.id = id, .project = project}, err);
}

struct result command_scrub(struct invocation *invocation, struct error *err)
{
    const char *region = invocation_option(invocation, 'r'), *rate = invocation_option(invocation, 'b');
    OWNED_JSON body = json_object();
    uint64_t bytes = 0;

    if (rate != NULL && (!text_to_u64(bytes_of_text(rate), INT64_MAX, &bytes) || bytes == 0))
        return line_check(invocation, failure(err, ERROR_INVALID, "--rate %.20s: bytes in a second", rate));
    if ((region != NULL && json_object_set_new(body, "region", json_string(region)) != 0) ||
        (rate != NULL && json_object_set_new(body, "bytes_per_second", json_integer((json_int_t)bytes)) != 0) ||
        (invocation_option(invocation, 'g') != NULL && json_object_set_new(body, "digest", json_true()) != 0))
        return failure(err, ERROR_INVALID, "a region that is not UTF-8, or no memory");
    return job_begin(invocation, "/scrubs", NULL, body, err);
}

struct result command_rewrap(struct invocation *invocation, struct error *err)
{
    OWNED_JSON body = json_object();

    return job_begin(invocation, "/rewraps", NULL, body, err);
}

struct result command_job_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"ID", "id"},           {"KIND", "kind"},   {"REGION", "region"},
                                            {"PROJECT", "project"}, {"STATE", "state"}, {"DONE", "done"},
                                            {"OF", "total"},        {"FOUND", "found"}, {"REQUESTED", "requested"}};
    struct buffer OWNED_BUFFER path = BUFFER(1024);

    TRY(buffer_add_text(&path, "/jobs", err));
    TRY(add_project(&path, invocation_option(invocation, 'P'), err));
    return api_list(invocation, buffer_text(&path), "jobs", columns, COUNT(columns), err);
}

struct result command_job_show(struct invocation *invocation, struct error *err)
{
    const struct job_reference reference = reference_of(invocation);
    OWNED_JSON job = NULL;
    struct buffer OWNED_BUFFER path = BUFFER(1024);

    if (invocation_option(invocation, 'f') != NULL) return follow(invocation, &reference, err);
    TRY(job_path(&path, &reference, "", err));
    TRY(api_call(invocation, "GET", buffer_text(&path), NULL, &job, err));
    return api_print(invocation, job, err);
}

struct result command_job_findings(struct invocation *invocation, struct error *err)
{
    const struct job_reference reference = reference_of(invocation);

    return print_findings(invocation, &reference, err);
}

struct result command_job_stop(struct invocation *invocation, struct error *err)
{
    const struct job_reference reference = reference_of(invocation);
    struct buffer OWNED_BUFFER path = BUFFER(1024);

    TRY(job_path(&path, &reference, "", err));
    TRY(api_call(invocation, "DELETE", buffer_text(&path), NULL, NULL, err));
    if (!invocation->json) {
        (void)fprintf(stderr, "stops: %s\n", reference.id);
        return SUCCESS;
    }
    OWNED_JSON object = json_pack("{s:s}", "stopping", reference.id);
    return object == NULL ? failure(err, ERROR_INVALID, "an id that is not UTF-8, or no memory") : api_print_json(object, err);
}

static long long count_in(const json_t *object, const char *name)
{
    return (long long)json_integer_value(json_object_get(object, name));
}

static struct result print_tokens(const json_t *tokens, struct error *err)
{
    const json_t *scopes = json_object_get(tokens, "scopes");
    const long long unexplained = count_in(tokens, "unexplained"), lost = count_in(tokens, "lost");
    const char *key;
    char name[CELL_MAX];
    json_t *value;

    if (!json_is_object(scopes)) return failure(err, ERROR_INVALID, "the registry answered without 'tokens'");
    (void)printf("\ntokens       %lld signed, %lld recorded\n", count_in(tokens, "signed"), count_in(tokens, "recorded"));
    json_object_foreach ((json_t *)(uintptr_t)scopes, key, value) {
        (void)snprintf(name, sizeof name, "%s", key);
        terminal_sanitize(name);
        (void)printf("  %-15s %lld\n", name, (long long)json_integer_value(value));
    }
    if (lost > 0) (void)printf("  at most %lld more were signed before sijil-keyd was killed\n", lost);
    if (unexplained > 0)
        (void)printf("  %lld of them stand in no event: a program that may speak with sijil-keyd asked for them past the log\n",
                     unexplained);
    return SUCCESS;
}

struct result command_keys(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {
        {"VERSION", "version"}, {"STATE", "state"}, {"BLOBS", "blobs"}, {"PROJECTS", "projects"}, {"UPLOADS", "uploads"}};

    OWNED_JSON answer = NULL;

    TRY(api_call(invocation, "GET", "/keys", NULL, &answer, err));
    if (invocation->json) return api_print_json(answer, err);
    TRY(api_rows(invocation, answer, "versions", columns, COUNT(columns), err));
    TRY(print_tokens(json_object_get(answer, "tokens"), err));
    (void)printf("\nunwraps      %lld keys left sijil-keyd; counted, not matched with events\n", count_in(answer, "unwraps"));
    return SUCCESS;
}

struct result command_deletion_certificate(struct invocation *invocation, struct error *err)
{
    const char *output = invocation_option(invocation, 'o');
    struct buffer OWNED_BUFFER path = BUFFER(1024);
    struct buffer OWNED_BUFFER text = BUFFER((size_t)2 << 20);
    OWNED_JSON answer = NULL;

    TRY(buffer_format(&path, err, "/projects/%s/deletions/", invocation->operands[1]));
    TRY(http_escape(&path, invocation->operands[2], err));
    TRY(api_call(invocation, "GET", buffer_text(&path), NULL, &answer, err));
    if (output == NULL || strcmp(output, "-") == 0) return api_print_json(answer, err);
    TRY(json_write_canonical(&text, answer, err));
    TRY(buffer_add_u8(&text, '\n', err));
    return api_output(invocation, output, buffer_bytes(&text), err);
}
