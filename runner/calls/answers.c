#include "runner/calls/answers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "client/terminal.h"

#define TOKEN_MAX      12288
#define LIFETIME_MAX_S 2592000
#define EVERY_LEAST_MS 1000
#define EVERY_MOST_MS  60000

static struct result wrong(const char *member, struct error *err)
{
    return failure(err, ERROR_INVALID, "the registry's answer has no valid '%s': is it of another version?", member);
}

/* A text of the registry, made safe for a log. */
static bool take_text(const json_t *json, const char *name, char *text_out, size_t room)
{
    const char *text = json_text_of(json, name);

    if (text == NULL || strlen(text) >= room) return false;
    (void)snprintf(text_out, room, "%s", text);
    terminal_sanitize(text_out);
    return true;
}

struct result answer_read_heartbeat(struct bytes text, struct heartbeat_answer *answer_out, struct error *err)
{
    struct heartbeat_answer answer = {.stop = false};
    OWNED_JSON json = NULL;

    TRY(json_read(text, ANSWER_MAX, &json, err));
    const json_t *stop = json_object_get(json, "stop");
    if (!take_text(json, "state", answer.state, sizeof answer.state)) return wrong("state", err);
    if (!json_is_boolean(stop)) return wrong("stop", err);
    answer.stop = json_is_true(stop);
    if (json_object_get(json, "reason") != NULL && !take_text(json, "reason", answer.reason, sizeof answer.reason))
        return wrong("reason", err);
    if (!json_integer_of(json, "every_ms", &answer.every_ms)) return wrong("every_ms", err);
    if (answer.every_ms < EVERY_LEAST_MS) answer.every_ms = EVERY_LEAST_MS;
    if (answer.every_ms > EVERY_MOST_MS) answer.every_ms = EVERY_MOST_MS;
    *answer_out = answer;
    return SUCCESS;
}

static bool is_token(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=";

    return text != NULL && text[0] != '\0' && strlen(text) <= TOKEN_MAX && text_consists_of(bytes_of_text(text), letters);
}

struct result answer_read_token(struct bytes text, struct buffer *token, int64_t *lifetime_s_out, struct error *err)
{
    OWNED_JSON json = NULL;
    int64_t lifetime_s = 0;

    TRY(json_read(text, ANSWER_MAX, &json, err));
    const char *value = json_text_of(json, "access_token");
    if (!is_token(value)) return wrong("access_token", err);
    if (!json_integer_of(json, "expires_in", &lifetime_s) || lifetime_s < 1 || lifetime_s > LIFETIME_MAX_S)
        return wrong("expires_in", err);
    TRY(buffer_add_text(token, value, err));
    *lifetime_s_out = lifetime_s;
    return SUCCESS;
}

struct result answer_read_result(struct bytes text, char state_out[ANSWER_STATE_SIZE], struct error *err)
{
    OWNED_JSON json = NULL;
    char state[ANSWER_STATE_SIZE];

    TRY(json_read(text, ANSWER_MAX, &json, err));
    if (!take_text(json, "state", state, sizeof state)) return wrong("state", err);
    memcpy(state_out, state, sizeof state);
    return SUCCESS;
}

/* ---- the queue ---- */

static bool take_number(const json_t *json, const char *name, int64_t least, int64_t *number_out)
{
    return json_integer_of(json, name, number_out) && *number_out >= least;
}

static struct result read_regions(const json_t *list, struct queued_run *run, struct error *err)
{
    if (!json_is_array(list) || json_array_size(list) > QUEUE_REGIONS_MAX) return wrong("regions", err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *region = json_string_value(json_array_get(list, i));
        if (region == NULL || strlen(region) >= QUEUE_TEXT_SIZE) return wrong("regions", err);
        (void)snprintf(run->regions[run->region_count], QUEUE_TEXT_SIZE, "%s", region);
        terminal_sanitize(run->regions[run->region_count++]);
    }
    return SUCCESS;
}

/* The id becomes a part of a job's name, so it must be one. */
static struct result read_run(const json_t *json, struct queued_run *run, struct error *err)
{
    const char *id = json_text_of(json, "run"), *type = json_text_of(json, "device_type");
    const json_t *held = json_object_get(json, "held");
    struct uuid uuid;

    if (id == NULL || !uuid_parse(bytes_of_text(id), &uuid)) return wrong("run", err);
    uuid_format(&uuid, run->run);
    if (!json_is_boolean(held)) return wrong("held", err);
    run->is_held = json_is_true(held);
    if (!take_number(json, "attempt", 1, &run->attempt) || run->attempt > 100) return wrong("attempt", err);
    if (!take_number(json, "nodes", 1, &run->nodes)) return wrong("nodes", err);
    if (!take_number(json, "cpus", 1, &run->cpus)) return wrong("cpus", err);
    if (!take_number(json, "memory_bytes", 1, &run->memory_bytes)) return wrong("memory_bytes", err);
    if (!take_number(json, "time_s", 1, &run->time_s)) return wrong("time_s", err);
    if (!take_number(json, "devices", 0, &run->devices)) return wrong("devices", err);
    if (type != NULL && !take_text(json, "device_type", run->device_type, sizeof run->device_type))
        return wrong("device_type", err);
    return read_regions(json_object_get(json, "regions"), run, err);
}

static struct result read_runs(const json_t *list, struct queue_answer *answer, struct error *err)
{
    for (; answer->count < json_array_size(list); answer->count++)
        TRY(read_run(json_array_get(list, answer->count), &answer->runs[answer->count], err));
    return SUCCESS;
}

struct result answer_read_queue(struct bytes text, struct queue_answer *answer_out, struct error *err)
{
    struct queue_answer answer = {.count = 0};
    OWNED_JSON json = NULL;

    TRY(json_read(text, QUEUE_ANSWER_MAX, &json, err));
    const json_t *runs = json_object_get(json, "runs"), *more = json_object_get(json, "more");
    if (!json_is_array(runs) || json_array_size(runs) > QUEUE_RUNS_MAX) return wrong("runs", err);
    if (!json_is_boolean(more)) return wrong("more", err);
    answer.has_more = json_is_true(more);
    answer.runs = memory_zeroed(json_array_size(runs) + 1, sizeof *answer.runs);
    if (answer.runs == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list of runs");
    const struct result read = read_runs(runs, &answer, err);
    if (read.ok) *answer_out = answer;
    else queue_answer_done(&answer);
    return read;
}

void queue_answer_done(struct queue_answer *answer)
{
    free(answer->runs);
    *answer = (struct queue_answer){.count = 0};
}

struct result answer_read_offset(struct bytes text, uint64_t *offset_out, struct error *err)
{
    OWNED_JSON json = NULL;
    int64_t offset = -1;

    TRY(json_read(text, ANSWER_MAX, &json, err));
    if (!json_integer_of(json, "offset", &offset) || offset < 0) return wrong("offset", err);
    *offset_out = (uint64_t)offset;
    return SUCCESS;
}

/* The type of a problem (RFC 9457) is a URI reference that ends with its name. */
bool answer_is_suspension(struct bytes text)
{
    static const char name[] = "runner-suspended";
    OWNED_JSON json = NULL;
    struct error ignored = {0};

    if (!json_read(text, ANSWER_MAX, &json, &ignored).ok) return false;
    const char *type = json_text_of(json, "type");
    const size_t length = type == NULL ? 0 : strlen(type), end = sizeof name - 1;
    if (length < end || strcmp(type + length - end, name) != 0) return false;
    return length == end || strchr("/:#", type[length - end - 1]) != NULL;
}
