#include "gateway/background/issuer_fetch.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"

/* The state of one attempt. */
struct attempt {
    struct outgoing *outgoing;
    const struct issuer_task *task;
    const atomic_bool *gives_up;
    struct issuer_answer *answer;
    json_t *calls;     /* of the report: each URL that was asked, and what it answered */
    json_t *keys;      /* NULL: no key set was read */
    bool is_elsewhere; /* the newest answer was 4xx: the document may be in another place */
};

void issuer_answer_done(struct issuer_answer *answer)
{
    buffer_done(&answer->jwks);
    buffer_done(&answer->report);
}

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory to ask an issuer");
}

static struct result take(void *context, long status, struct bytes piece, struct error *err)
{
    (void)status;
    return buffer_add(context, piece.data, piece.length, err);
}

/* Foreign text goes into logs and onto terminals. */
static void say(struct attempt *attempt, const char *what, const char *why)
{
    char *problem = attempt->answer->problem;

    (void)snprintf(problem, sizeof attempt->answer->problem, "%.250s: %.140s", what, why);
    for (char *at = problem; *at != '\0'; at++)
        if (*at < ' ' || *at > '~') *at = '?';
}

static void say_outcome(struct attempt *attempt, const char *url, const struct outgoing_outcome *outcome)
{
    char why[160];

    if (outcome->end == OUTGOING_FORBIDDEN) {
        (void)snprintf(why, sizeof why, "its name leads to no address that may be called: set issuer_networks");
    } else if (outcome->end == OUTGOING_TOO_LARGE) {
        (void)snprintf(why, sizeof why, "an answer of more than %d bytes", ISSUER_DOCUMENT_MAX);
    } else if (outcome->end != OUTGOING_ANSWERED) {
        (void)snprintf(why, sizeof why, "%.150s", outcome->reason);
    } else if (outcome->status >= 300 && outcome->status < 400) {
        (void)snprintf(why, sizeof why, "it answers %ld, and redirects are not followed", outcome->status);
    } else {
        (void)snprintf(why, sizeof why, "it answers %ld", outcome->status);
    }
    say(attempt, url, why);
}

static struct result note_call(struct attempt *attempt, const char *url, const struct outgoing_outcome *outcome,
                               struct error *err)
{
    json_t *call = json_pack("{s:s,s:o,s:s*}", "url", url, "status",
                             outcome->end == OUTGOING_ANSWERED ? json_integer(outcome->status) : json_null(), "problem",
                             attempt->answer->problem[0] == '\0' ? NULL : attempt->answer->problem);

    return call != NULL && json_array_append_new(attempt->calls, call) == 0 ? SUCCESS : no_memory(err);
}

/* Unless the answer is a complete 200, *got_out is false, and `problem` says why. */
static struct result get(struct attempt *attempt, const char *url, struct buffer *body, bool *got_out, struct error *err)
{
    static const struct outgoing_header headers[] = {{"Accept", "application/json"}, {"User-Agent", "sijild"}};
    struct outgoing_outcome outcome;
    const struct outgoing_request request = {.method = "GET",
                                             .url = url,
                                             .headers = headers,
                                             .header_count = sizeof headers / sizeof headers[0],
                                             .is_repeatable = true,
                                             .limits = {.connect_s = ISSUER_CALL_S,
                                                        .silence_s = ISSUER_CALL_S,
                                                        .slowest_rate = 1,
                                                        .whole_s = ISSUER_CALL_S,
                                                        .answer_bytes = ISSUER_DOCUMENT_MAX},
                                             .gives_up = attempt->gives_up,
                                             .take = take,
                                             .context = body};

    TRY(outgoing_call(attempt->outgoing, &request, &outcome, err));
    *got_out = outcome.end == OUTGOING_ANSWERED && outcome.status == 200;
    attempt->is_elsewhere = outcome.end == OUTGOING_ANSWERED && outcome.status >= 400 && outcome.status < 500;
    attempt->answer->problem[0] = '\0';
    if (!*got_out) say_outcome(attempt, url, &outcome);
    return note_call(attempt, url, &outcome, err);
}

/* What is wrong with an answer is a problem, and a lack of memory a failure. */
static struct result judge(struct attempt *attempt, const char *url, struct result read, const struct error *why,
                           struct error *err)
{
    if (read.ok) return SUCCESS;
    if (why->kind == ERROR_NO_MEMORY) return no_memory(err);
    say(attempt, url, why->message);
    return SUCCESS;
}

/* An issuer may have its metadata in one of two places. *keys_url_out stays "" if it is in none. */
static struct result find_keys_url(struct attempt *attempt, char keys_url_out[ISSUER_KEYS_URL_SIZE], struct error *err)
{
    struct issuer_metadata metadata = {.keys_url = ""};
    bool is_there = false;

    attempt->is_elsewhere = true;
    for (unsigned number = 0; number < ISSUER_METADATA_URLS && !is_there && attempt->is_elsewhere; number++) {
        struct buffer OWNED_BUFFER url = BUFFER(1024), body = BUFFER(ISSUER_DOCUMENT_MAX + 1);
        struct error why = {0};
        TRY(issuer_metadata_url(attempt->task->url, number, &url, err));
        TRY(get(attempt, buffer_text(&url), &body, &is_there, err));
        if (!is_there) continue;
        const struct result read = issuer_metadata_read(buffer_bytes(&body), attempt->task->url, &metadata, &why);
        TRY(judge(attempt, buffer_text(&url), read, &why, err));
    }
    (void)memcpy(keys_url_out, metadata.keys_url, ISSUER_KEYS_URL_SIZE);
    return SUCCESS;
}

/* Also makes the verifiers once: a point that is not on its curve shows only there. */
static struct result try_keys(const struct issuer_task *task, const char *jwks, struct error *err)
{
    struct issuer_record record = {
        .algorithms = task->algorithms, .types = ISSUER_TYPES, .lifetime_max_s = 1, .audience = "x", .jwks = jwks};
    OWNED(issuer) *issuer = NULL;

    (void)text_copy(record.url, sizeof record.url, task->url);
    return issuer_new(&record, &issuer, err);
}

static struct result fetch_keys(struct attempt *attempt, const char *keys_url, struct error *err)
{
    struct buffer OWNED_BUFFER body = BUFFER(ISSUER_DOCUMENT_MAX + 1);
    struct buffer *jwks = &attempt->answer->jwks;
    struct error why = {0};
    bool is_there = false;

    TRY(get(attempt, keys_url, &body, &is_there, err));
    if (!is_there) return SUCCESS;
    struct result read = issuer_keys_read(buffer_bytes(&body), attempt->task->algorithms, jwks, &attempt->keys, &why);
    if (read.ok) read = try_keys(attempt->task, buffer_text(jwks), &why);
    return judge(attempt, keys_url, read, &why, err);
}

static struct result write_report(struct attempt *attempt, const char *keys_url, struct error *err)
{
    OWNED_JSON report = json_pack("{s:s*,s:O,s:O*}", "keys_url", keys_url[0] == '\0' ? NULL : keys_url, "calls", attempt->calls,
                                  "keys", attempt->keys);
    struct error why = {0};

    if (report == NULL) return no_memory(err);
    if (json_write_canonical(&attempt->answer->report, report, &why).ok) return SUCCESS;
    if (why.kind == ERROR_NO_MEMORY) return no_memory(err);
    buffer_done(&attempt->answer->report); /* too long */
    return buffer_add_text(&attempt->answer->report, "{\"calls\":[]}", err);
}

static struct result make_attempt(struct attempt *attempt, struct error *err)
{
    char keys_url[ISSUER_KEYS_URL_SIZE] = "";

    (void)text_copy(keys_url, sizeof keys_url, attempt->task->keys_url);
    if (keys_url[0] == '\0') TRY(find_keys_url(attempt, keys_url, err));
    if (keys_url[0] != '\0') TRY(fetch_keys(attempt, keys_url, err));
    return write_report(attempt, keys_url, err);
}

struct result issuer_fetch(struct outgoing *outgoing, const struct issuer_task *task, const atomic_bool *gives_up,
                           struct issuer_answer *answer, struct error *err)
{
    struct attempt attempt = {.outgoing = outgoing, .task = task, .gives_up = gives_up, .answer = answer, .calls = json_array()};

    if (attempt.calls == NULL) return no_memory(err);
    answer->problem[0] = '\0';
    const struct result result = make_attempt(&attempt, err);
    json_decref(attempt.calls);
    json_decref(attempt.keys);
    return result;
}
