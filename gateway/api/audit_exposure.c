/* GET /api/v1/audit/exposure: all that one credential has read, changed and made (docs/audit.md, "After a breach"). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/format/leaf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/uuid.h"
#include "gateway/api/audit_exposure_priv.h"
#include "registry/project.h"

#define QUESTION_MAX 4096

PART(exposed_next, "a credential that an event made or showed: ask for its exposure, too, from the time of the event on",
     HAS_WORD("kind", REQUIRED, "credential run", "the parameter that names it"),
     HAS_TEXT("name", REQUIRED, FORM_FREE, 1, 255, "of the robot, or the id of the run"))
PART(exposed_event, "an event of the credential", HAS_COUNT("seq", REQUIRED, "its number"),
     HAS_TIME("time", OPTIONAL, "when it was"),
     HAS_WORD("what", REQUIRED, "read changed made minted denied failed unreadable", "what was done"),
     HAS_TEXT("outcome", OPTIONAL, FORM_FREE, 1, 16, "allowed, denied, failed or completed"),
     HAS_TEXT("action", OPTIONAL, FORM_FREE, 1, 64, "of the first target"),
     HAS_TEXT("resource", OPTIONAL, FORM_FREE, 0, 0, "of the first target"),
     HAS_TEXTS("digests", REQUIRED, 0, 64, NULL, "that the event names"),
     HAS_TEXT("address", OPTIONAL, FORM_FREE, 1, 64, "of the client"),
     HAS_TEXT("actor", OPTIONAL, FORM_FREE, 1, 64, "the pseudonym"), HAS_TEXT("subject", OPTIONAL, FORM_FREE, 1, 255, "its name"),
     HAS_OBJECT("next", OPTIONAL, schema_exposed_next, "what it made"))
SCHEMA(exposure, "a page of the exposure of a credential",
       HAS_LIST("events", REQUIRED, 1000, schema_exposed_event, "oldest first"), HAS_NEXT,
       HAS_COUNT("searched_to", REQUIRED, "each event before this number was looked at"),
       HAS_COUNT("known_to", REQUIRED, "the search knows the events before this number"),
       HAS_COUNT("wanted_to", REQUIRED, "the answer is complete if known_to is not smaller; else ask again later"))

/* ---- the target ---- */

static struct result check_question(const struct request *request, struct error *err)
{
    struct uuid id;

    const char *credential = request_argument(request, "credential"), *run = request_argument(request, "run");
    if ((credential == NULL) == (run == NULL)) return failure(err, ERROR_INVALID, "credential, or run: one of them");
    if (run != NULL && !uuid_parse(bytes_of_text(run), &id)) return failure(err, ERROR_INVALID, "run is the id of a run");
    if (request->purpose == NULL)
        return failure(err, ERROR_INVALID, "purpose: an exposure concerns persons, so it needs the purpose, which is recorded");
    return SUCCESS;
}

/* The question goes into the sealed part of the event, as the conditions of a search do. */
struct result target_audit_exposure(struct request *request, struct lookup *lookup, struct error *err)
{
    static const char *const parts[] = {"credential", "run", "since", "until", "within"};
    struct buffer OWNED_BUFFER text = BUFFER(QUESTION_MAX);

    if (api_asks_for_credential(request, ACTION_AUDIT_READ)) return SUCCESS;
    TRY(target_audit_read(request, lookup, err));
    TRY(audit_read_purpose(request, err));
    TRY(check_question(request, err));
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        TRY(audit_write_condition(parts[i], request_argument(request, parts[i]), &text, err));
    request->search = arena_copy_text(request->arena, buffer_bytes(&text));
    return request->search == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for a question") : SUCCESS;
}

/* ---- what it made ---- */

/* The id that an event robot.rotate has: the event that made the robot has its name, too. False: it is another event. */
static bool rotated_id(const json_t *entry, char id_out[UUID_TEXT_SIZE])
{
    const char *action = json_text_of(entry, "act"), *outcome = json_text_of(entry, "out");
    struct bytes left = exposure_detail_of(json_text_of(entry, "res"));
    char word[256];

    return action != NULL && outcome != NULL && strcmp(action, "robot.rotate") == 0 && !exposure_has_failed(outcome) &&
           exposure_next_word(&left, word, sizeof word) && exposure_is_token(word, id_out);
}

/* The ids of a page, each once and without a name. */
static struct result collect_ids(const struct exposure *exposure, const json_t *events, json_t *names, struct error *err)
{
    char id[UUID_TEXT_SIZE];

    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        if (!exposure_has(exposure, event) || !rotated_id(json_object_get(event, "entry"), id)) continue;
        if (json_object_get(names, id) == NULL && json_object_set_new(names, id, json_null()) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for the names of robots");
    }
    return SUCCESS;
}

/* "NAME ID", of the event that made a robot. */
static struct result take_name(void *context, struct bytes leaf_text, struct error *err)
{
    json_t *names = context;
    char name[256], id[256];
    struct leaf leaf;

    TRY(leaf_read(leaf_text, &leaf, err));
    struct bytes left = exposure_detail_of(leaf.targets[0].resource);
    if (!exposure_next_word(&left, name, sizeof name) || !exposure_next_word(&left, id, sizeof id) ||
        json_object_get(names, id) == NULL)
        return SUCCESS;
    return json_object_set_new(names, id, json_string(name)) == 0
               ? SUCCESS
               : failure(err, ERROR_NO_MEMORY, "no memory for the names of robots");
}

/* From the events that made them, which are older than the page, so the index knows them. A robot that was made before the log keeps its id as its name. */
static struct result name_robots(const struct request *request, const struct exposure *exposure, const json_t *events,
                                 json_t *names, struct error *err)
{
    const char *words[SEARCH_BY_WORDS_MAX], *id;
    struct search_words wanted = {.action = "robot.create", .words = words, .take = take_name, .context = names};
    json_t *name;

    TRY(collect_ids(exposure, events, names, err));
    json_object_foreach (names, id, name)
        if (wanted.count < SEARCH_BY_WORDS_MAX) words[wanted.count++] = id;
    if (wanted.count == 0) return SUCCESS;
    TRY(namespace_born(request->permit, exposure->source.pg, &wanted.from, err));
    return search_by_words(request->permit, &exposure->source, &wanted, err);
}

/* "NAME ID" of a robot; a request of a run has its digest before the run. */
static bool made_name(const json_t *entry, bool is_run, char *name, size_t size)
{
    struct bytes left = exposure_detail_of(json_text_of(entry, "res"));
    struct uuid ignored;

    while (exposure_next_word(&left, name, size))
        if (!is_run || uuid_parse(bytes_of_text(name), &ignored)) return true;
    return false;
}

/* A robot counts from the event on that showed its secret; a run from its request on. */
static struct result add_made(const json_t *names, const json_t *entry, json_t *row, struct error *err)
{
    const char *action = json_text_of(entry, "act"), *outcome = json_text_of(entry, "out");
    char name[256];

    if (action == NULL || outcome == NULL || exposure_has_failed(outcome)) return SUCCESS;
    const bool is_run = strcmp(action, "run.request") == 0;
    const bool is_robot = strcmp(action, "robot.create") == 0 || strcmp(action, "robot.rotate") == 0;
    if ((!is_run && !is_robot) || !made_name(entry, is_run, name, sizeof name)) return SUCCESS;
    const char *known = json_text_of(names, name);
    json_t *next = json_pack("{s:s, s:s}", "kind", is_run ? "run" : "credential", "name", known == NULL ? name : known);
    return json_object_set_new(row, "next", next) == 0 ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for a row");
}

/* ---- the answer ---- */

static struct result add_digests(const json_t *entry, json_t *digests, struct error *err)
{
    struct bytes left = exposure_detail_of(json_text_of(entry, "res"));
    char word[160]; /* sha512: and 128 digits */

    while (exposure_next_word(&left, word, sizeof word)) {
        if (strncmp(word, "sha256:", 7) != 0 && strncmp(word, "sha512:", 7) != 0) continue;
        if (json_array_append_new(digests, json_string(word)) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a row");
    }
    return SUCCESS;
}

static struct result add_row(const json_t *names, const json_t *event, json_t *rows, struct error *err)
{
    const json_t *entry = json_object_get(event, "entry"), *who = json_object_get(event, "who");
    int64_t time_ms = 0;
    OWNED_JSON row = json_pack("{s:O, s:s, s:[], s:O*, s:O*, s:O*, s:O*, s:O*, s:O*}", "seq", json_object_get(event, "seq"),
                               "what", exposure_kind_of(entry), "digests", "outcome", json_object_get(entry, "out"), "action",
                               json_object_get(entry, "act"), "resource", json_object_get(entry, "res"), "address",
                               json_object_get(who, "address"), "actor", json_object_get(entry, "actor"), "subject",
                               json_object_get(who, "subject"));

    if (row == NULL || (json_integer_of(entry, "ts", &time_ms) && !api_set_time(row, "time", time_ms)))
        return failure(err, ERROR_NO_MEMORY, "no memory for a row");
    TRY(add_digests(entry, json_object_get(row, "digests"), err));
    TRY(add_made(names, entry, row, err));
    return json_array_append(rows, row) == 0 ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for a row");
}

static struct result add_rows(const struct request *request, const struct exposure *exposure, const json_t *events, json_t *rows,
                              struct error *err)
{
    OWNED_JSON names = json_object();

    if (names == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the names of robots");
    TRY(name_robots(request, exposure, events, names, err));
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        if (!exposure_has(exposure, event)) continue;
        TRY(add_row(names, event, rows, err));
    }
    return SUCCESS;
}

/* The events with what is sealed beside them, as a list of events shows them. */
static struct result read_events(const struct request *request, struct audit_page *page, size_t *shown, json_t **events_out,
                                 struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(EVENTS_BYTES_MAX);

    TRY(audit_events_write(request, page, false, shown, &text, err));
    TRY(buffer_add_text(&text, "}", err));
    const struct result read = json_read(buffer_bytes(&text), EVENTS_BYTES_MAX, events_out, err);
    secret_wipe(text.data, text.length);
    return read;
}

static struct result answer(struct request *request, const struct exposure *exposure, struct audit_page *page,
                            struct search_progress progress, struct error *err)
{
    size_t shown = exposure->search.limit - 1;
    OWNED_JSON events = NULL;
    char next[AUDIT_NEXT_SIZE];

    TRY(read_events(request, page, &shown, &events, err));
    audit_search_next(&exposure->search, page, shown, &progress, next);
    OWNED_JSON value =
        json_pack("{s:[], s:I, s:I, s:I, s:s*}", "events", "searched_to", (json_int_t)progress.searched, "known_to",
                  (json_int_t)progress.known, "wanted_to", (json_int_t)progress.wanted, "next", next[0] == '\0' ? NULL : next);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an exposure");
    TRY(add_rows(request, exposure, json_object_get(events, "events"), json_object_get(value, "events"), err));
    response_json(request, 200, value);
    if (next[0] != '\0') TRY(api_link_next(request, next, err));
    response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

static struct result run(struct request *request, struct exposure *exposure, struct error *err)
{
    OWNED(audit_page) *page = NULL;
    struct search_progress progress;
    struct api_page asked;
    int64_t after = -1;

    if (!api_page(request, &asked)) return SUCCESS;
    audit_search_init(&exposure->search, asked.limit + 1);
    TRY(api_after_number(&asked, &after, err));
    exposure->search.from = (uint64_t)(after + 1);
    TRY(exposure_read(request, exposure, err));
    TRY(audit_search_page(request, &exposure->source, &exposure->search, &page, &progress, err));
    return answer(request, exposure, page, progress, err);
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    struct exposure *exposure = memory_zeroed(1, sizeof *exposure);

    if (exposure == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an exposure");
    exposure->source = (struct search_source){pg, request->gateway->keyd, request->gateway->origin};
    const struct result result = run(request, exposure, err);
    free(exposure);
    return result;
}

const struct handler handler_audit_exposure = {.handle = handle};
