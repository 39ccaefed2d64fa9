/* `sijil admin scrub`, `rewrap`, `job`, `keys`: work that takes hours, begun, followed, stopped; certificates. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "client/api_priv.h"
#include "client/commands_priv.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_over(const json_t *job)
{
    return json_object_get(job, "ended") != NULL;
}

/* One line; on a terminal each takes the place of the one before. */
static void show(const json_t *job, bool is_last)
{
    const int64_t done = number_of(job, "bytes_done"), total = number_of(job, "bytes_total");
    char state[CELL_MAX], phase[CELL_MAX], waits[CELL_MAX];

    cell_text(json_object_get(job, "state"), state);
    cell_text(json_object_get(job, "phase"), phase);
    (void)fprintf(stderr, "%s%s, %s: %" PRId64 " of %" PRId64, isatty(STDERR_FILENO) ? "\r\033[K" : "", state, phase,
                  number_of(job, "done"), number_of(job, "total"));
    if (total > 0) (void)fprintf(stderr, ", %.1f of %.1f MiB", (double)done / 1048576.0, (double)total / 1048576.0);
    (void)fprintf(stderr, ", %" PRId64 " found", number_of(job, "found"));
    if (json_object_get(job, "waits_for") != NULL) {
        cell_text(json_object_get(job, "waits_for"), waits);
        (void)fprintf(stderr, " (%s: %s)", is_over(job) ? "because" : "waits", waits);
    }
    if (is_last || !isatty(STDERR_FILENO)) (void)fputc('\n', stderr);
}

static struct result job_path(struct buffer *path, const char *id, const char *what, struct error *err)
{
    TRY(buffer_add_text(path, "/jobs/", err));
    TRY(http_escape(path, id, err));
    return buffer_add_text(path, what, err);
}

static struct result print_findings(struct invocation *invocation, const char *id, struct error *err)
{
    static const struct column columns[] = {
        {"KIND", "kind"}, {"NAME", "name"}, {"DIGEST", "digest"}, {"OBJECT", "subject"}, {"WHAT", "detail"}};
    struct buffer OWNED_BUFFER path = BUFFER(1024);

    TRY(job_path(&path, id, "/findings", err));
    return api_list(invocation, buffer_text(&path), "findings", columns, COUNT(columns), err);
}

/* What was found decides the exit status: a script shall not have to read a table. */
static struct result conclude(struct invocation *invocation, const json_t *job, const char *id, struct error *err)
{
    char state[CELL_MAX];

    cell_text(json_object_get(job, "state"), state);
    if (invocation->json) TRY(api_print_json(job, err));
    else if (number_of(job, "found") > 0) TRY(print_findings(invocation, id, err));
    if (strcmp(state, "completed") != 0) return failure(err, ERROR_UNAVAILABLE, "the job was not completed: %s", state);
    if (number_of(job, "found") > 0)
        return failure(err, ERROR_CORRUPT, "%" PRId64 " findings; 'sijil admin job findings HOST %.40s' has them",
                       number_of(job, "found"), id);
    return SUCCESS;
}

/* Each look is an event of the log: often at first, then every few seconds. */
static void rest(unsigned looks)
{
    const struct timespec short_while = {.tv_nsec = 500000000}, long_while = {.tv_sec = 5};

    (void)nanosleep(looks < 10 ? &short_while : &long_while, NULL);
}

static struct result follow(struct invocation *invocation, const char *id, struct error *err)
{
    OWNED(session) *session = NULL;
    struct buffer OWNED_BUFFER path = BUFFER(1024);

    TRY(job_path(&path, id, "", err));
    TRY(session_open(invocation, invocation->operands[0], &session, err));
    for (unsigned looks = 0;; looks++) {
        OWNED_JSON job = NULL;
        TRY(api_call_in(session, "GET", buffer_text(&path), NULL, &job, err));
        if (!invocation->json) show(job, is_over(job));
        if (is_over(job)) return conclude(invocation, job, id, err);
        rest(looks);
    }
}

static struct result begin(struct invocation *invocation, const char *path, const json_t *body, struct error *err)
{
    OWNED_JSON answer = NULL;
    char id[CELL_MAX];

    if (body == NULL) return failure(err, ERROR_INVALID, "a region that is not UTF-8, or no memory");
    TRY(api_call(invocation, "POST", path, body, &answer, err));
    cell_text(json_object_get(answer, "id"), id);
    if (invocation_option(invocation, 'd') != NULL) return api_print(invocation, answer, err);
    (void)fprintf(stderr, "job %s; it goes on also when this ends\n", id);
    return follow(invocation, id, err);
}

struct result command_scrub(struct invocation *invocation, struct error *err)
{
    const char *region = invocation_option(invocation, 'r'), *rate = invocation_option(invocation, 'b');
    OWNED_JSON body = json_object();
    uint64_t bytes = 0;

    if (rate != NULL && (!text_to_u64(bytes_of_text(rate), INT64_MAX, &bytes) || bytes == 0))
        return failure(err, ERROR_INVALID, "--rate %.20s: bytes in a second", rate);
    if ((region != NULL && json_object_set_new(body, "region", json_string(region)) != 0) ||
        (rate != NULL && json_object_set_new(body, "bytes_per_second", json_integer((json_int_t)bytes)) != 0) ||
        (invocation_option(invocation, 'g') != NULL && json_object_set_new(body, "digest", json_true()) != 0))
        return failure(err, ERROR_INVALID, "a region that is not UTF-8, or no memory");
    return begin(invocation, "/scrubs", body, err);
}

struct result command_rewrap(struct invocation *invocation, struct error *err)
{
    OWNED_JSON body = json_object();

    return begin(invocation, "/rewraps", body, err);
}

struct result command_job_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"ID", "id"},     {"KIND", "kind"}, {"REGION", "region"}, {"STATE", "state"},
                                            {"DONE", "done"}, {"OF", "total"},  {"FOUND", "found"},   {"REQUESTED", "requested"}};

    return api_list(invocation, "/jobs", "jobs", columns, COUNT(columns), err);
}

struct result command_job_show(struct invocation *invocation, struct error *err)
{
    OWNED_JSON job = NULL;
    struct buffer OWNED_BUFFER path = BUFFER(1024);

    if (invocation_option(invocation, 'f') != NULL) return follow(invocation, invocation->operands[1], err);
    TRY(job_path(&path, invocation->operands[1], "", err));
    TRY(api_call(invocation, "GET", buffer_text(&path), NULL, &job, err));
    return api_print(invocation, job, err);
}

struct result command_job_findings(struct invocation *invocation, struct error *err)
{
    return print_findings(invocation, invocation->operands[1], err);
}

struct result command_job_stop(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(1024);

    TRY(job_path(&path, invocation->operands[1], "", err));
    TRY(api_call(invocation, "DELETE", buffer_text(&path), NULL, NULL, err));
    if (!invocation->json) (void)fprintf(stderr, "stops: %s\n", invocation->operands[1]);
    return SUCCESS;
}

struct result command_keys(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"VERSION", "version"}, {"STATE", "state"},      {"BLOBS", "blobs"},
                                            {"PROJECTS", "projects"}, {"UPLOADS", "uploads"}};

    return api_list(invocation, "/keys", "versions", columns, COUNT(columns), err);
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
    if (output == NULL) return api_print_json(answer, err);
    TRY(json_write_canonical(&text, answer, err));
    TRY(buffer_add_u8(&text, '\n', err));
    return file_replace(output, buffer_bytes(&text), 0644, err);
}
