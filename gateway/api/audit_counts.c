/* GET /api/v1/audit/counts: how many events a search finds, by action, rule, actor or time (docs/audit.md, "Searching"). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/format/leaf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "gateway/api/audit_priv.h"

#define COUNTS_BUDGET_MS 1000
#define COUNTS_ROWS_MAX  500 /* of an answer: then it ends, with "next" */
#define ROWS_OF_EVENT    (LEAF_RULES_MAX + 1)
#define PAGE_EVENTS      256
#define OPENED_MAX       4 /* events of an actor that are opened for its name: it may be erased, or have none */
#define PAYLOAD_ROOM     ((size_t)64 << 10)

PART(event_count, "events that have this in common",
     HAS_WORD("by", REQUIRED, "action rule actor minute quarter", "what they have in common"),
     HAS_TEXT("name", REQUIRED, FORM_FREE, 1, 128,
              "the action, the rule, the pseudonym, or the time at which the minute or the quarter of an hour begins"),
     HAS_COUNT("events", REQUIRED, "how many there are"), HAS_COUNT("allowed", REQUIRED, "of them"),
     HAS_COUNT("denied", REQUIRED, "of them"), HAS_COUNT("failed", REQUIRED, "of them"),
     HAS_COUNT("completed", REQUIRED, "of them"), HAS_TIME("first", REQUIRED, "when the first one was"),
     HAS_TIME("last", REQUIRED, "when the last one was"),
     HAS_TEXT("subject", OPTIONAL, FORM_FREE, 1, 255, "with a purpose: the name of the actor"))
SCHEMA(event_counts, "how many events a search finds, or a part of its events",
       HAS_LIST("counts", REQUIRED, COUNTS_ROWS_MAX, schema_event_count, "in the order of the search"),
       HAS_COUNT("events", REQUIRED, "that were counted here"), HAS_NEXT,
       HAS_COUNT("searched_to", REQUIRED, "ascending: each event before this number was searched; else each one from it on"),
       HAS_COUNT("known_to", REQUIRED, "the search knows the events before this number"),
       HAS_COUNT("wanted_to", REQUIRED, "the counts are complete if known_to is not smaller; else ask again later"))

enum by { BY_ACTION, BY_RULE, BY_ACTOR, BY_MINUTE, BY_QUARTER, BY_COUNT };
static const char *const by_names[BY_COUNT] = {"action", "rule", "actor", "minute", "quarter"};

/* One question. */
struct tally {
    const struct request *request;
    struct search search;
    struct search_source source;
    bool by[BY_COUNT];
    json_t *rows; /* by "BY NAME" */
    uint64_t events;
    struct leaf leaf; /* the event that is counted */
};

static struct result read_by(const struct request *request, struct tally *tally, struct error *err)
{
    const char *text = request_argument(request, "by");
    struct bytes left = bytes_of_text(text == NULL ? "" : text);

    do {
        const struct bytes part = text_cut(&left, ',');
        unsigned by = 0;
        while (by < BY_COUNT && !bytes_equal(part, bytes_of_text(by_names[by]))) by++;
        if (by == BY_COUNT)
            return failure(err, ERROR_INVALID, "by is action, rule, actor, minute or quarter, or several of these with commas");
        tally->by[by] = true;
    } while (left.length > 0);
    return SUCCESS;
}

/* ---- rows ---- */

static bool add_one(json_t *row, const char *member)
{
    json_t *number = json_object_get(row, member);

    return number != NULL && json_integer_set(number, json_integer_value(number) + 1) == 0;
}

static struct result row_of(struct tally *tally, enum by by, const char *name, json_t **row_out, struct error *err)
{
    char key[192];

    (void)snprintf(key, sizeof key, "%s %s", by_names[by], name);
    *row_out = json_object_get(tally->rows, key);
    if (*row_out != NULL) return SUCCESS;
    json_t *row = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:I, s:I}", "by", by_names[by], "name", name, "events", 0,
                            "allowed", 0, "denied", 0, "failed", 0, "completed", 0, "first", (json_int_t)tally->leaf.time_ms,
                            "last", (json_int_t)tally->leaf.time_ms);
    *row_out = row;
    if (row != NULL && json_object_set_new(tally->rows, key, row) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for counts");
}

static struct result count_in(struct tally *tally, enum by by, const char *name, json_t **row_out, struct error *err)
{
    const json_int_t time_ms = tally->leaf.time_ms;
    json_t *row = NULL;

    TRY(row_of(tally, by, name, &row, err));
    json_t *first = json_object_get(row, "first"), *last = json_object_get(row, "last");
    if (json_integer_value(first) > time_ms) (void)json_integer_set(first, time_ms);
    if (json_integer_value(last) < time_ms) (void)json_integer_set(last, time_ms);
    *row_out = row;
    if (add_one(row, "events") && (tally->leaf.outcome[0] == '\0' || add_one(row, tally->leaf.outcome))) return SUCCESS;
    return failure(err, ERROR_CORRUPT, "an event has another outcome than there are");
}

/* The name is sealed beside the events. */
static struct result add_subject(const struct tally *tally, struct audit_page *page, size_t index, json_t *row, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(PAYLOAD_ROOM);
    OWNED_JSON payload = NULL;
    struct error ignored;

    if (tally->request->purpose == NULL || json_object_get(row, "subject") != NULL) return SUCCESS;
    if (json_integer_value(json_object_get(row, "events")) > OPENED_MAX) return SUCCESS;
    const struct result opened = audit_page_payload(page, index, tally->source.keyd, tally->source.origin, &text, err);
    if (!opened.ok && err->kind != ERROR_CORRUPT) return opened;
    if (!opened.ok || text.length == 0 || !json_read(buffer_bytes(&text), PAYLOAD_ROOM, &payload, &ignored).ok) return SUCCESS;
    const json_t *subject = json_object_get(payload, "subject");
    if (!json_is_string(subject) || json_string_length(subject) == 0) return SUCCESS;
    if (json_object_set_new(row, "subject", json_copy((json_t *)(uintptr_t)subject)) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for counts");
}

static struct result count_time(struct tally *tally, enum by by, struct error *err)
{
    const int64_t step_ms = by == BY_MINUTE ? 60000 : 900000; /* no zone begins its hours elsewhere than at a quarter */
    char begin[CLOCK_TEXT_SIZE];
    json_t *row = NULL;

    clock_format(tally->leaf.time_ms - tally->leaf.time_ms % step_ms, begin);
    return count_in(tally, by, begin, &row, err);
}

static struct result count_event(struct tally *tally, struct audit_page *page, size_t index, struct error *err)
{
    const struct leaf_reason *reason = &tally->leaf.reason;
    json_t *row = NULL;

    if (tally->by[BY_ACTION]) TRY(count_in(tally, BY_ACTION, tally->leaf.targets[0].action, &row, err));
    for (size_t i = 0; i < reason->rule_count && tally->by[BY_RULE]; i++)
        TRY(count_in(tally, BY_RULE, reason->rules[i], &row, err));
    if (tally->by[BY_ACTOR]) {
        TRY(count_in(tally, BY_ACTOR, tally->leaf.actor, &row, err));
        TRY(add_subject(tally, page, index, row, err));
    }
    if (tally->by[BY_MINUTE]) TRY(count_time(tally, BY_MINUTE, err));
    return tally->by[BY_QUARTER] ? count_time(tally, BY_QUARTER, err) : SUCCESS;
}

/* An event of a later version is one, and has nothing in common with others. */
static struct result count_page(struct tally *tally, struct audit_page *page, size_t *shown_out, struct error *err)
{
    size_t i = 0;

    for (; i < audit_page_count(page) && json_object_size(tally->rows) + ROWS_OF_EVENT + BY_COUNT <= COUNTS_ROWS_MAX; i++) {
        tally->events++;
        if (!audit_page_is_readable(page, i)) continue;
        TRY(leaf_read(audit_page_leaf(page, i), &tally->leaf, err));
        TRY(count_event(tally, page, i, err));
    }
    *shown_out = i;
    return SUCCESS;
}

/* ---- the answer ---- */

static void go_on(struct search *search, uint64_t searched)
{
    if (search->ascending) search->from = searched;
    else search->until = searched;
}

/* Page after page, for a second, or until there are too many rows. What the index knows is as the first page says. */
static struct result count_all(struct tally *tally, struct search_progress *progress, char next_out[AUDIT_NEXT_SIZE],
                               struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + COUNTS_BUDGET_MS;
    struct search *search = &tally->search;
    OWNED(audit_page) *page = NULL;
    struct search_progress now;
    size_t shown = 0;

    TRY(audit_search_page(tally->request, &tally->source, search, &page, progress, err));
    now = *progress;
    TRY(count_page(tally, page, &shown, err));
    while (!now.is_done && shown == audit_page_count(page) && clock_monotonic_ms() < until_ms) {
        go_on(search, now.searched);
        search->budget_ms = (unsigned)(until_ms - clock_monotonic_ms() + 1);
        audit_page_free(page);
        page = NULL;
        TRY(search_run(tally->request->permit, &tally->source, search, &page, &now, err));
        TRY(count_page(tally, page, &shown, err));
    }
    audit_search_next(search, page, shown, &now, next_out);
    progress->searched = now.searched;
    return SUCCESS;
}

static struct result list_rows(const struct tally *tally, json_t *list, struct error *err)
{
    const char *key;
    json_t *row;

    json_object_foreach (tally->rows, key, row) {
        const int64_t first_ms = json_integer_value(json_object_get(row, "first")),
                      last_ms = json_integer_value(json_object_get(row, "last"));
        if (!api_set_time(row, "first", first_ms) || !api_set_time(row, "last", last_ms) || json_array_append(list, row) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for counts");
    }
    return SUCCESS;
}

static struct result answer(struct request *request, struct tally *tally, struct error *err)
{
    struct search_progress progress;
    char next[AUDIT_NEXT_SIZE];

    TRY(count_all(tally, &progress, next, err));
    OWNED_JSON value = json_pack("{s:[], s:I, s:I, s:I, s:I, s:s*}", "counts", "events", (json_int_t)tally->events, "searched_to",
                                 (json_int_t)progress.searched, "known_to", (json_int_t)progress.known, "wanted_to",
                                 (json_int_t)progress.wanted, "next", next[0] == '\0' ? NULL : next);
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for counts");
    TRY(list_rows(tally, json_object_get(value, "counts"), err));
    response_json(request, 200, value);
    if (next[0] != '\0') TRY(api_link_next(request, next, err));
    response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

static struct result run(struct request *request, struct tally *tally, struct error *err)
{
    const char *after = request_argument(request, "after");

    TRY(read_by(request, tally, err));
    audit_search_init(&tally->search, PAGE_EVENTS);
    TRY(audit_search_read(request, &tally->source, after == NULL ? "" : after, &tally->search, err));
    return answer(request, tally, err);
}

static struct result handle(struct request *request, struct pg *pg, struct error *err)
{
    struct tally *tally = memory_zeroed(1, sizeof *tally);

    if (tally == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for counts");
    tally->request = request;
    tally->source = (struct search_source){pg, request->gateway->keyd, request->gateway->origin};
    tally->rows = json_object();
    const struct result result =
        tally->rows == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for counts") : run(request, tally, err);
    json_decref(tally->rows);
    free(tally);
    return result;
}

const struct handler handler_audit_counts = {.handle = handle};
