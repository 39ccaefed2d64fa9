/* `sijil admin gc`, `admin project quota`, `admin project rules` and `admin uploads`: the content that a registry keeps, and its limits. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/local.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define RULES_MAX    32768
#define PATH_MAX_URL 1024

static struct result path_of_project(struct buffer *path, const char *project, const char *what, struct error *err)
{
    if (strchr(project, '/') == NULL) return failure(err, ERROR_INVALID, "'%.80s' is no ORGANISATION/PROJECT", project);
    return buffer_format(path, err, "/projects/%s/%s", project, what);
}

static struct result read_document(const char *path, json_t **document_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(RULES_MAX);

    TRY(local(file_read(path, &text, err), path, err));
    return local(json_read(buffer_bytes(&text), RULES_MAX, document_out, err), path, err);
}

/* ---- quota ---- */

/* "none", or a number, also with K, M, G or T for KiB, MiB, GiB or TiB; of seconds without. */
static struct result read_limit(const char *option, const char *text, bool is_time, json_t **limit_out, struct error *err)
{
    static const char units[] = "KMGT";
    const size_t length = strlen(text);
    const char *unit = length > 1 ? strchr(units, text[length - 1]) : NULL;
    const unsigned shift = unit == NULL ? 0 : 10 * (unsigned)(unit - units + 1);
    uint64_t number = 0;

    if (strcmp(text, "none") == 0) {
        *limit_out = json_null();
        return SUCCESS;
    }
    if (is_time && unit != NULL)
        return failure(err, ERROR_INVALID, "--%s %.30s: a whole number of seconds, such as 360000 for 100 hours, or none", option,
                       text);
    if (!text_to_u64((struct bytes){(const uint8_t *)text, unit == NULL ? length : length - 1}, (uint64_t)INT64_MAX >> shift,
                     &number))
        return failure(err, ERROR_INVALID, "--%s %.30s: a whole number, with K, M, G or T for 1024s of it, or none", option,
                       text);
    number <<= shift;
    *limit_out = json_integer((json_int_t)number);
    return *limit_out == NULL ? api_no_memory(err) : SUCCESS;
}

/* Sets the options' values in the quota. */
static struct result take_limits(const struct invocation *invocation, json_t *quota, bool *changes_out, struct error *err)
{
    static const struct {
        int letter;
        const char *option, *member;
        bool is_time; /* 1K would be 1024 seconds, which nobody means */
    } rows[] = {{'b', "bytes", "bytes", false},
                {'s', "sessions", "sessions", false},
                {'S', "sessions-per-client", "sessions_per_client", false},
                {'e', "events-per-minute", "events_per_minute", false},
                {'c', "cpu-seconds", "cpu_seconds", true},
                {'g', "gpu-seconds", "gpu_seconds", true}};

    bool changes = false;

    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *text = invocation_option(invocation, rows[i].letter);
        json_t *limit = NULL;
        if (text == NULL) continue;
        TRY(read_limit(rows[i].option, text, rows[i].is_time, &limit, err));
        if (json_object_set_new(quota, rows[i].member, limit) != 0) return api_no_memory(err);
        changes = true;
    }
    *changes_out = changes;
    return SUCCESS;
}

struct result command_project_quota(struct invocation *invocation, struct error *err)
{
    static const char *const shown_only[] = {"bytes_used",       "bytes_reserved",      "sessions_open",
                                             "ceiling",          "cpu_seconds_used",    "cpu_seconds_reserved",
                                             "gpu_seconds_used", "gpu_seconds_reserved"};
    struct buffer OWNED_BUFFER path = BUFFER(PATH_MAX_URL);
    OWNED_JSON limits = json_object();
    OWNED_JSON quota = NULL;
    OWNED_JSON answer = NULL;
    bool changes = false;

    if (limits == NULL) return api_no_memory(err);
    TRY(line_check(invocation, take_limits(invocation, limits, &changes, err)));
    TRY(line_check(invocation, path_of_project(&path, invocation->operands[1], "quota", err)));
    TRY(api_call(invocation, "GET", buffer_text(&path), NULL, &quota, err));
    if (!changes) return api_print(invocation, quota, err);
    for (size_t i = 0; i < COUNT(shown_only); i++) (void)json_object_del(quota, shown_only[i]);
    if (json_object_update(quota, limits) != 0) return api_no_memory(err);
    TRY(api_call(invocation, "PUT", buffer_text(&path), quota, &answer, err));
    return api_print(invocation, answer, err);
}

/* ---- rules ---- */

struct result command_project_rules(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_MAX_URL);
    OWNED_JSON rules = NULL;
    OWNED_JSON answer = NULL;

    TRY(line_check(invocation, path_of_project(&path, invocation->operands[1], "rules", err)));
    if (invocation->operand_count < 3) {
        TRY(api_call(invocation, "GET", buffer_text(&path), NULL, &answer, err));
        return api_print_json(answer, err);
    }
    TRY(read_document(invocation->operands[2], &rules, err));
    TRY(api_call(invocation, "PUT", buffer_text(&path), rules, &answer, err));
    return api_print_json(answer, err);
}

/* ---- open uploads ---- */

struct result command_uploads_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {
        {"ID", "id"},       {"REPOSITORY", "repository"}, {"ROBOT", "robot"},           {"SUBJECT", "subject"},
        {"BYTES", "bytes"}, {"BEGUN", "begun"},           {"IDLE SINCE", "idle_since"}, {"EXPIRES", "expires"}};
    const char *scope = invocation->operands[1];
    struct buffer OWNED_BUFFER path = BUFFER(PATH_MAX_URL);

    if (strchr(scope, '/') != NULL) TRY(line_check(invocation, path_of_project(&path, scope, "uploads", err)));
    else TRY(buffer_format(&path, err, "/organisations/%s/uploads", scope));
    return api_list(invocation, buffer_text(&path), "uploads", columns, COUNT(columns), err);
}

static struct result cancel(struct invocation *invocation, struct session *session, const char *id, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_MAX_URL);

    TRY(line_check(invocation, path_of_project(&path, invocation->operands[1], "uploads/", err)));
    TRY(http_escape(&path, id, err));
    TRY(api_call_in(session, "DELETE", buffer_text(&path), NULL, NULL, err));
    if (!invocation->json) {
        (void)fprintf(stderr, "cancelled %s\n", id);
        return SUCCESS;
    }
    OWNED_JSON object = json_pack("{s:s}", "cancelled", id);
    return object == NULL ? api_no_memory(err) : api_print_json(object, err);
}

struct result command_uploads_cancel(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    for (unsigned i = 2; i < invocation->operand_count; i++) TRY(cancel(invocation, session, invocation->operands[i], err));
    return SUCCESS;
}

/* ---- garbage collection ---- */

static struct result compose(const struct invocation *invocation, const char *project, json_t **body_out, struct error *err)
{
    const bool is_dry = invocation_option(invocation, 'n') != NULL;
    const char *rules = invocation_option(invocation, 'r');
    OWNED_JSON body = json_pack("{s:b}", "dry_run", is_dry ? 1 : 0);
    json_t *document = NULL;

    if (body == NULL) return api_no_memory(err);
    if (project != NULL && json_object_set_new(body, "project", json_string(project)) != 0) return api_no_memory(err);
    if (rules != NULL) {
        TRY(read_document(rules, &document, err));
        if (json_object_set_new(body, "rules", document) != 0) return api_no_memory(err);
    }
    *body_out = GIVE(body);
    return SUCCESS;
}

struct result command_gc(struct invocation *invocation, struct error *err)
{
    const char *project = invocation->operand_count > 1 ? invocation->operands[1] : NULL;
    OWNED_JSON body = NULL;

    TRY(compose(invocation, project, &body, err));
    return job_begin(invocation, "/collections", project, body, err);
}
