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
#include "gateway/api/audit_priv.h"

#define THUMBPRINT   43 /* characters of an x5t#S256 */
#define BASE64_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
#define LOOKS_MAX    10 /* of a search for one event: each takes a second at most */
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

/* What the events are found by; of a token and a certificate what is sealed beside them is compared, too. */
struct exposure {
    enum { OF_ACTOR, OF_RUN, OF_TOKEN, OF_CERTIFICATE } kind;
    const char *name;
    struct search_source source;
    struct search search;
};

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

/* ---- words of an event ---- */

/* The next word of the detail behind "#"; false at the end. */
static bool next_word(struct bytes *left, char *word, size_t size)
{
    while (left->length > 0) {
        const struct bytes part = text_cut(left, ' ');
        if (part.length == 0 || part.length >= size) continue;
        memcpy(word, part.data, part.length);
        word[part.length] = '\0';
        return true;
    }
    return false;
}

static struct bytes detail_of(const char *resource)
{
    const char *hash = resource == NULL ? NULL : strchr(resource, '#');

    return bytes_of_text(hash == NULL ? "" : hash + 1);
}

static bool has_failed(const char *outcome)
{
    return strcmp(outcome, "denied") == 0 || strcmp(outcome, "failed") == 0;
}

static const char *kind_of(const json_t *entry)
{
    const char *outcome = json_text_of(entry, "out"), *action = json_text_of(entry, "act");
    int64_t class = 0;

    if (outcome == NULL || action == NULL || !json_integer_of(entry, "cls", &class)) return "unreadable";
    if (has_failed(outcome)) return outcome;
    if (strcmp(action, "token.mint") == 0 || strcmp(action, "run.token") == 0) return "minted";
    switch (class % 100) {
    case 1: return "made";
    case 2: return "read";
    default: return "changed";
    }
}

/* ---- single events that are looked up ---- */

struct wanted {
    const char *actions[2];
    enum search_field field;
    const char *value;
};

static struct result add_conditions(const struct wanted *wanted, struct search *search, struct error *err)
{
    search->condition_count = 2;
    search->conditions[0].field = SEARCH_ACTION;
    for (size_t i = 0; i < 2 && wanted->actions[i] != NULL; i++)
        TRY(search_condition_add(&search->conditions[0], wanted->actions[i], err));
    search->conditions[1].field = wanted->field;
    return search_condition_add(&search->conditions[1], wanted->value, err);
}

static struct result look(const struct request *request, const struct search_source *source, struct search *search,
                          struct leaf *leaf_out, struct error *err)
{
    struct search_progress progress = {.is_done = false};

    for (unsigned i = 0; i < LOOKS_MAX && !progress.is_done; i++, search->from = progress.searched) {
        OWNED(audit_page) *page = NULL;
        TRY(audit_search_page(request, source, search, &page, &progress, err));
        if (audit_page_count(page) > 0) return leaf_read(audit_page_leaf(page, 0), leaf_out, err);
    }
    if (progress.known < progress.wanted)
        return failure(err, ERROR_UNAVAILABLE,
                       "the index of searches does not have the whole log yet: ask again in some minutes");
    return failure(err, ERROR_NOT_FOUND, "there is no such event");
}

/* The first event that is wanted. ERROR_NOT_FOUND. */
static struct result find_event(const struct request *request, const struct search_source *source, const struct wanted *wanted,
                                struct leaf *leaf_out, struct error *err)
{
    struct search *search = memory_zeroed(1, sizeof *search);

    if (search == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a search");
    audit_search_init(search, 1);
    struct result found = add_conditions(wanted, search, err);
    if (found.ok) found = look(request, source, search, leaf_out, err);
    free(search);
    return found;
}

/* ---- the credential ---- */

/* A token's id is that of the request that asked for it, a dot, and a random part; either is enough to name it. */
static bool is_token(const char *text, char request_out[UUID_TEXT_SIZE])
{
    const char *dot = strchr(text, '.');
    const size_t length = dot == NULL ? strlen(text) : (size_t)(dot - text);
    struct uuid id;

    if (length != UUID_TEXT_SIZE - 1 || !uuid_parse((struct bytes){(const uint8_t *)text, length}, &id)) return false;
    memcpy(request_out, text, length);
    request_out[length] = '\0';
    return true;
}

static struct result by_token(const struct request *request, const char *id, struct exposure *exposure, struct error *err)
{
    const struct wanted wanted = {{"token.mint", "run.token"}, SEARCH_REQUEST, id};
    struct search_condition *condition = &exposure->search.conditions[exposure->search.condition_count++];
    struct leaf leaf;

    exposure->kind = OF_TOKEN;
    condition->field = SEARCH_ACTOR;
    const struct result found = find_event(request, &exposure->source, &wanted, &leaf, err);
    if (!found.ok && err->kind == ERROR_NOT_FOUND)
        return failure(err, ERROR_NOT_FOUND,
                       "no event made a token of this id: its first 36 characters are the id of the request");
    TRY(found);
    return search_condition_add(condition, leaf.actor, err);
}

static struct result read_credential(const struct request *request, struct exposure *exposure, struct error *err)
{
    struct search *search = &exposure->search;
    char id[UUID_TEXT_SIZE];

    if (is_token(exposure->name, id)) return by_token(request, id, exposure, err);
    if (strlen(exposure->name) == THUMBPRINT && text_consists_of(bytes_of_text(exposure->name), BASE64_CHARS)) {
        exposure->kind = OF_CERTIFICATE;
        return SUCCESS;
    }
    struct search_condition *condition = &search->conditions[search->condition_count++];
    condition->field = SEARCH_ACTOR;
    return audit_search_actor(request, &exposure->source, exposure->name, condition, err);
}

static struct result read_question(const struct request *request, struct exposure *exposure, struct error *err)
{
    const char *run = request_argument(request, "run");

    TRY(audit_search_times(request, &exposure->search, err));
    exposure->name = run == NULL ? request_argument(request, "credential") : run;
    if (run == NULL) return read_credential(request, exposure, err);
    exposure->kind = OF_RUN;
    struct search_condition *condition = &exposure->search.conditions[exposure->search.condition_count++];
    condition->field = SEARCH_RUN;
    return search_condition_add(condition, run, err);
}

static bool is_exposed(const struct exposure *exposure, const json_t *who)
{
    const char *token = json_text_of(who, "token"), *certificate = json_text_of(who, "certificate");
    const size_t length = strlen(exposure->name);

    if (exposure->kind == OF_CERTIFICATE) return certificate != NULL && strcmp(certificate, exposure->name) == 0;
    if (exposure->kind != OF_TOKEN) return true;
    return token != NULL && strncmp(token, exposure->name, length) == 0 && (token[length] == '\0' || token[length] == '.');
}

/* ---- what it made ---- */

/* robot.rotate has the robot's id alone; the event that made the robot has its name. */
static struct result name_robot(const struct request *request, const struct exposure *exposure, char name[256], struct error *err)
{
    const struct wanted wanted = {{"robot.create"}, SEARCH_DETAIL, name};
    struct leaf leaf;
    char id[UUID_TEXT_SIZE];

    if (!is_token(name, id)) return SUCCESS;
    const struct result found = find_event(request, &exposure->source, &wanted, &leaf, err);
    if (!found.ok) return err->kind == ERROR_NOT_FOUND ? SUCCESS : found;
    struct bytes left = detail_of(leaf.targets[0].resource);
    (void)next_word(&left, name, 256);
    return SUCCESS;
}

/* A robot counts from the event on that showed its secret; a run from its request on. */
static struct result add_made(const struct request *request, const struct exposure *exposure, const json_t *entry, json_t *row,
                              struct error *err)
{
    const char *action = json_text_of(entry, "act"), *outcome = json_text_of(entry, "out");
    struct bytes left = detail_of(json_text_of(entry, "res"));
    char name[256];

    if (action == NULL || outcome == NULL || has_failed(outcome)) return SUCCESS;
    const bool is_run = strcmp(action, "run.request") == 0;
    const bool is_robot = strcmp(action, "robot.create") == 0 || strcmp(action, "robot.rotate") == 0;
    if ((!is_run && !is_robot) || !next_word(&left, name, sizeof name)) return SUCCESS;
    if (is_robot) TRY(name_robot(request, exposure, name, err));
    json_t *next = json_pack("{s:s, s:s}", "kind", is_run ? "run" : "credential", "name", name);
    return json_object_set_new(row, "next", next) == 0 ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for a row");
}

/* ---- the answer ---- */

static struct result add_digests(const json_t *entry, json_t *digests, struct error *err)
{
    struct bytes left = detail_of(json_text_of(entry, "res"));
    char word[160]; /* sha512: and 128 digits */

    while (next_word(&left, word, sizeof word)) {
        if (strncmp(word, "sha256:", 7) != 0 && strncmp(word, "sha512:", 7) != 0) continue;
        if (json_array_append_new(digests, json_string(word)) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a row");
    }
    return SUCCESS;
}

static struct result add_row(const struct request *request, const struct exposure *exposure, const json_t *event, json_t *rows,
                             struct error *err)
{
    const json_t *entry = json_object_get(event, "entry"), *who = json_object_get(event, "who");
    int64_t time_ms = 0;
    OWNED_JSON row =
        json_pack("{s:O, s:s, s:[], s:O*, s:O*, s:O*, s:O*, s:O*, s:O*}", "seq", json_object_get(event, "seq"), "what",
                  kind_of(entry), "digests", "outcome", json_object_get(entry, "out"), "action", json_object_get(entry, "act"),
                  "resource", json_object_get(entry, "res"), "address", json_object_get(who, "address"), "actor",
                  json_object_get(entry, "actor"), "subject", json_object_get(who, "subject"));

    if (row == NULL || (json_integer_of(entry, "ts", &time_ms) && !api_set_time(row, "time", time_ms)))
        return failure(err, ERROR_NO_MEMORY, "no memory for a row");
    TRY(add_digests(entry, json_object_get(row, "digests"), err));
    TRY(add_made(request, exposure, entry, row, err));
    return json_array_append(rows, row) == 0 ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for a row");
}

static struct result add_rows(const struct request *request, const struct exposure *exposure, const json_t *events, json_t *rows,
                              struct error *err)
{
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        if (!is_exposed(exposure, json_object_get(event, "who"))) continue;
        TRY(add_row(request, exposure, event, rows, err));
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
    TRY(read_question(request, exposure, err));
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
