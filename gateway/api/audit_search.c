/* GET /api/v1/audit/events: lists of events, and searches for those that meet several conditions (docs/audit.md, "Searching"). */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "audit/action.h"
#include "audit/search.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/uuid.h"
#include "gateway/api/audit_priv.h"
#include "gateway/background/audit_index.h"
#include "registry/project.h"

#define BUDGET_MS     1000 /* of looking for events; then the answer says how far it got */
#define WAIT_INDEX_MS 2000 /* for the index to know the log as it was when the request came */
#define LOOK_EVERY_MS 2    /* at first */
#define DIGITS        "0123456789abcdef"

/* Whether the request has a condition that a list of one key does not have. */
static bool is_search(const struct request *request)
{
    for (unsigned i = 0; i < SEARCH_FIELD_COUNT; i++)
        if (request_argument(request, search_field_name((enum search_field)i)) != NULL) return true;
    return request_argument(request, "since") != NULL || request_argument(request, "until") != NULL;
}

/* ---- what is recorded about a search ---- */

/* "actor=alice&network=192.0.2.0/24"; an '&' or '%' in a value is written as in a URL. */
struct result audit_write_condition(const char *name, const char *value, struct buffer *text, struct error *err)
{
    if (value == NULL) return SUCCESS;
    TRY(buffer_format(text, err, "%s%s=", text->length == 0 ? "" : "&", name));
    for (; *value != '\0'; value++) {
        if (*value == '&' || *value == '%') TRY(buffer_format(text, err, "%%%02X", (unsigned)*value));
        else TRY(buffer_add_u8(text, (uint8_t)*value, err));
    }
    return SUCCESS;
}

static struct result write_argument(const struct request *request, const char *name, struct buffer *text, struct error *err)
{
    return audit_write_condition(name, request_argument(request, name), text, err);
}

static struct result write_search(const struct request *request, struct buffer *text, struct error *err)
{
    static const char *const others[] = {"key", "since", "until", "within", "by"};

    for (unsigned i = 0; i < SEARCH_FIELD_COUNT; i++)
        TRY(write_argument(request, search_field_name((enum search_field)i), text, err));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) TRY(write_argument(request, others[i], text, err));
    return SUCCESS;
}

/* The conditions may name persons, so they go into the sealed part of the event of this request. */
struct result target_audit_list(struct request *request, struct lookup *lookup, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(32768);

    TRY(target_audit_read(request, lookup, err));
    TRY(write_search(request, &text, err));
    TRY(audit_read_purpose(request, err));
    if (text.length == 0) return SUCCESS;
    request->search = arena_copy_text(request->arena, buffer_bytes(&text));
    return request->search == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for a search") : SUCCESS;
}

/* ---- conditions ---- */

static struct result check_digest(const char *what, const char *value, struct error *err)
{
    const bool is_long = strncmp(value, "sha512:", 7) == 0;

    if ((is_long || strncmp(value, "sha256:", 7) == 0) && strlen(value + 7) == (is_long ? 128 : 64) &&
        text_consists_of(bytes_of_text(value + 7), DIGITS))
        return SUCCESS;
    return failure(err, ERROR_INVALID, "%s is sha256: or sha512: and hexadecimal digits", what);
}

static struct result check_outcome(const char *value, struct error *err)
{
    static const char *const outcomes[] = {"allowed", "denied", "failed", "completed"};

    for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++)
        if (strcmp(value, outcomes[i]) == 0) return SUCCESS;
    return failure(err, ERROR_INVALID, "outcome is allowed, denied, failed or completed");
}

static bool is_pseudonym(const char *value)
{
    return (strlen(value) == 64 && text_consists_of(bytes_of_text(value), DIGITS)) || strcmp(value, "anonymous") == 0 ||
           strcmp(value, "system") == 0;
}

/* A value that no event can have would give an answer that looks complete. */
static struct result check_value(enum search_field field, const char *value, struct error *err)
{
    enum action action;
    struct uuid run;

    if (field == SEARCH_DIGEST || field == SEARCH_DECISION) return check_digest(search_field_name(field), value, err);
    if (field == SEARCH_OUTCOME) return check_outcome(value, err);
    if (field == SEARCH_ACTION && !action_find(bytes_of_text(value), &action))
        return failure(err, ERROR_INVALID, "there is no action \"%.64s\"; docs/api.md lists the actions of each route", value);
    if (field == SEARCH_TAG && strlen(value) > TAG_MAX)
        return failure(err, ERROR_INVALID, "a tag has at most %d characters", TAG_MAX);
    if (field == SEARCH_REQUEST && strlen(value) >= UUID_TEXT_SIZE)
        return failure(err, ERROR_INVALID, "request is an id of at most %d characters", UUID_TEXT_SIZE - 1);
    if (field == SEARCH_RUN && !uuid_parse(bytes_of_text(value), &run))
        return failure(err, ERROR_INVALID, "run is the id of a run");
    return SUCCESS;
}

/* Actions and outcomes may be several, with commas between. Other values may have commas. */
static struct result read_values(const char *text, struct search_condition *condition, struct error *err)
{
    const bool is_list = condition->field == SEARCH_ACTION || condition->field == SEARCH_OUTCOME;
    struct bytes left = bytes_of_text(text);
    char value[SEARCH_VALUE_MAX + 1];

    do {
        const struct bytes part = is_list ? text_cut(&left, ',') : left;
        if (!is_list) left.length = 0;
        if (part.length > SEARCH_VALUE_MAX)
            return failure(err, ERROR_INVALID, "%s has 1 to %d bytes", search_field_name(condition->field), SEARCH_VALUE_MAX);
        if (part.length > 0) memcpy(value, part.data, part.length);
        value[part.length] = '\0';
        TRY(check_value(condition->field, value, err));
        TRY(search_condition_add(condition, value, err));
    } while (left.length > 0);
    return SUCCESS;
}

/* A pseudonym is in each leaf, and names nobody. */
static bool is_personal(enum search_field field, const char *value)
{
    if (search_field_is_blind(field)) return true;
    return field == SEARCH_ACTOR && !is_pseudonym(value);
}

static struct result check_purpose(const struct request *request, enum search_field field, const char *value, struct error *err)
{
    if (request->purpose != NULL || !is_personal(field, value)) return SUCCESS;
    return failure(err, ERROR_INVALID, "purpose: a search by %s concerns persons, so it needs the purpose, which is recorded",
                   search_field_name(field));
}

struct result audit_search_actor(const struct request *request, const struct search_source *source, const char *value,
                                 struct search_condition *condition, struct error *err)
{
    if (is_pseudonym(value)) return search_condition_add(condition, value, err);
    return search_add_name(request->permit, source, value, condition, err);
}

static struct result read_condition(const struct request *request, const struct search_source *source, enum search_field field,
                                    struct search *search, struct error *err)
{
    const char *value = request_argument(request, search_field_name(field));
    struct search_condition *condition = &search->conditions[search->condition_count];

    if (value == NULL) return SUCCESS;
    TRY(check_purpose(request, field, value, err));
    search->condition_count++;
    condition->field = field;
    return field == SEARCH_ACTOR ? audit_search_actor(request, source, value, condition, err)
                                 : read_values(value, condition, err);
}

static struct result read_time(const struct request *request, const char *name, int64_t *time_ms, struct error *err)
{
    const char *text = request_argument(request, name);

    if (text == NULL || clock_parse(bytes_of_text(text), time_ms)) return SUCCESS;
    return failure(err, ERROR_INVALID, "%s is a time such as 2026-11-20T10:39:46Z (RFC 3339)", name);
}

struct result audit_search_times(const struct request *request, struct search *search, struct error *err)
{
    TRY(read_time(request, "since", &search->since_ms, err));
    return read_time(request, "until", &search->until_ms, err);
}

void audit_search_init(struct search *search, size_t limit)
{
    *search =
        (struct search){.ascending = true, .until = INT64_MAX, .until_ms = INT64_MAX, .budget_ms = BUDGET_MS, .limit = limit};
}

struct result audit_search_read(const struct request *request, const struct search_source *source, const char *after,
                                struct search *search, struct error *err)
{
    struct audit_filter filter = {.from = 0};

    TRY(audit_filter_read(request, after, &filter, err));
    search->ascending = filter.ascending;
    search->from = filter.from;
    search->until = filter.until;
    TRY(audit_search_times(request, search, err));
    if (filter.key != NULL) search_condition_of_key(filter.key, &search->conditions[search->condition_count++]);
    for (unsigned i = 0; i < SEARCH_FIELD_COUNT; i++) TRY(read_condition(request, source, (enum search_field)i, search, err));
    return SUCCESS;
}

/* ---- the answer ---- */

/* The index is written behind the log. A search waits for it; if that takes too long, the answer says how far the index goes. */
static struct result await_index(const struct request *request, struct pg *pg, uint64_t *size_out, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + WAIT_INDEX_MS;
    struct timespec rest = {.tv_nsec = LOOK_EVERY_MS * 1000000L};
    uint64_t known = 0, size = 0;

    TRY(search_known(request->permit, pg, &known, size_out, err));
    while (known < *size_out && clock_monotonic_ms() < until_ms) {
        audit_index_wake(request->gateway->audit_index);
        (void)nanosleep(&rest, NULL);
        if (rest.tv_nsec < 20000000L) rest.tv_nsec += rest.tv_nsec / 2;
        TRY(search_known(request->permit, pg, &known, &size, err));
    }
    return SUCCESS;
}

/* The events of the page are shown; or, if it has none, the place where the search goes on. "" at the end. */
void audit_search_next(const struct search *search, const struct audit_page *page, size_t shown, struct search_progress *progress,
                       char next_out[AUDIT_NEXT_SIZE])
{
    const bool is_cut = shown < audit_page_count(page);

    next_out[0] = '\0';
    if (is_cut && shown == 0) progress->searched = audit_page_sequence(page, 0) + (search->ascending ? 0 : 1);
    if (is_cut && shown > 0) progress->searched = audit_page_sequence(page, shown - 1) + (search->ascending ? 1 : 0);
    if (is_cut || !progress->is_done)
        (void)snprintf(next_out, AUDIT_NEXT_SIZE, "%lld", (long long)progress->searched - (search->ascending ? 1 : 0));
}

static struct result answer(struct request *request, const struct search *search, struct audit_page *page,
                            struct search_progress progress, bool with_facts, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(EVENTS_BYTES_MAX);
    size_t shown = search->limit - 1;
    char next[AUDIT_NEXT_SIZE];

    TRY(audit_events_write(request, page, with_facts, &shown, &text, err));
    audit_search_next(search, page, shown, &progress, next);
    TRY(buffer_format(&text, err, ",\"searched_to\":%llu,\"known_to\":%llu,\"wanted_to\":%llu",
                      (unsigned long long)progress.searched, (unsigned long long)progress.known,
                      (unsigned long long)progress.wanted));
    return audit_events_answer(request, next[0] == '\0' ? NULL : next, &text, err);
}

struct result audit_search_page(const struct request *request, const struct search_source *source, struct search *search,
                                struct audit_page **page_out, struct search_progress *progress_out, struct error *err)
{
    uint64_t born = 0;

    TRY(namespace_born(request->permit, source->pg, &born, err));
    if (search->from < born) search->from = born;
    TRY(await_index(request, source->pg, &search->size, err));
    return search_run(request->permit, source, search, page_out, progress_out, err);
}

static struct result run(struct request *request, const struct search_source *source, struct search *search, bool with_facts,
                         struct error *err)
{
    OWNED(audit_page) *page = NULL;
    struct search_progress progress;
    struct api_page asked;

    if (!api_page(request, &asked)) return SUCCESS;
    audit_search_init(search, asked.limit + 1);
    TRY(audit_search_read(request, source, asked.after, search, err));
    TRY(audit_search_page(request, source, search, &page, &progress, err));
    if (with_facts) TRY(audit_page_load_facts(page, source->pg, err));
    return answer(request, search, page, progress, with_facts, err);
}

static struct result search(struct request *request, struct pg *pg, struct error *err)
{
    const struct search_source source = {pg, request->gateway->keyd, request->gateway->origin};
    bool with_facts = false;

    if (!audit_wants_facts(request, &with_facts)) return SUCCESS;
    struct search *asked = memory_zeroed(1, sizeof *asked);
    if (asked == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a search");
    const struct result result = run(request, &source, asked, with_facts, err);
    free(asked);
    return result;
}

/* ---- lists ---- */

static struct result answer_page(struct request *request, const struct audit_page *page, size_t shown, struct buffer *text,
                                 struct error *err)
{
    char next[21]; /* 2^64 in decimal */

    if (shown == 0 || shown == audit_page_count(page)) return audit_events_answer(request, NULL, text, err);
    (void)snprintf(next, sizeof next, "%llu", (unsigned long long)audit_page_sequence(page, shown - 1));
    return audit_events_answer(request, next, text, err);
}

static struct result list(struct request *request, struct pg *pg, struct error *err)
{
    OWNED(audit_page) *page = NULL;
    struct buffer OWNED_BUFFER text = BUFFER(EVENTS_BYTES_MAX);
    struct audit_filter filter = {.from = 0};
    struct api_page asked;
    uint64_t born = 0;
    bool with_facts = false;

    if (!api_page(request, &asked) || !audit_wants_facts(request, &with_facts)) return SUCCESS;
    TRY(audit_filter_read(request, asked.after, &filter, err));
    TRY(namespace_born(request->permit, pg, &born, err));
    if (filter.from < born) filter.from = born;
    size_t shown = asked.limit;
    filter.limit = shown + 1;
    TRY(audit_list(request->permit, pg, &filter, &page, err));
    if (with_facts) TRY(audit_page_load_facts(page, pg, err));
    TRY(audit_events_write(request, page, with_facts, &shown, &text, err));
    return answer_page(request, page, shown, &text, err);
}

static struct result handle_list(struct request *request, struct pg *pg, struct error *err)
{
    return is_search(request) ? search(request, pg, err) : list(request, pg, err);
}

const struct handler handler_audit_list = {.handle = handle_list};
