/* `sijil audit exposure`: all that a credential has read, changed and made, and what was done by what it made (docs/audit.md, "After a breach"). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"
#include "client/terminal.h"

#define PARTIES_MAX   1000 /* credentials that were made, directly or not */
#define PATH_ROOM     4096
#define EXPOSURE_WIDE 190 /* columns of a line with short names */

/* Somebody whose events are exposure: the credential itself, or what it made. */
struct party {
    bool is_run;
    char name[256];             /* of the credential, as the registry takes it; or the id of the run */
    int64_t since_ms, until_ms; /* until_ms: its events from then on are those of another party */
    char via[64];               /* "" of the credential itself; "robot.create 4711" */
};

struct exposure {
    struct invocation *invocation;
    struct session *session;
    struct party parties[PARTIES_MAX];
    size_t count, at; /* parties->at is being read */
    bool has_title, is_csv;
    bool is_narrow; /* two lines for each event */
    uint64_t read, changed, made, minted, refused;
    struct audit_searched incomplete; /* of an answer that was not complete, if there was one */
};

static void count(struct exposure *exposure, const char *kind)
{
    if (strcmp(kind, "read") == 0) exposure->read++;
    else if (strcmp(kind, "changed") == 0) exposure->changed++;
    else if (strcmp(kind, "made") == 0) exposure->made++;
    else if (strcmp(kind, "minted") == 0) exposure->minted++;
    else exposure->refused++;
}

/* ---- what it made ---- */

/* Whose secret was seen twice counts from the first time on, in whatever order these events are met. False: one of the first `count` parties has all. */
static bool is_new(const struct exposure *exposure, size_t count, struct party *party)
{
    party->until_ms = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct party *known = &exposure->parties[i];
        if (known->is_run == party->is_run && strcmp(known->name, party->name) == 0 && known->since_ms < party->until_ms)
            party->until_ms = known->since_ms;
    }
    return party->since_ms < party->until_ms;
}

static struct result add_party(struct exposure *exposure, struct party *party, struct error *err)
{
    if (!is_new(exposure, exposure->count, party)) return SUCCESS;
    if (exposure->count == PARTIES_MAX)
        return failure(err, ERROR_LIMIT, "it made more than %d robots and runs: ask for a shorter time", PARTIES_MAX);
    exposure->parties[exposure->count++] = *party;
    return SUCCESS;
}

/* A robot counts from the event on that showed its secret; a run from its request on. */
static struct result note_made(struct exposure *exposure, const json_t *event, int64_t time_ms, struct error *err)
{
    const json_t *next = json_object_get(event, "next");
    const char *kind = json_text_of(next, "kind"), *name = json_text_of(next, "name"), *action = json_text_of(event, "action");
    struct party party = {.since_ms = time_ms};

    if (kind == NULL || name == NULL || action == NULL || !text_copy(party.name, sizeof party.name, name)) return SUCCESS;
    party.is_run = strcmp(kind, "run") == 0;
    (void)snprintf(party.via, sizeof party.via, "%.32s %" PRId64, action, number_of(event, "seq"));
    return add_party(exposure, &party, err);
}

/* ---- rows ---- */

struct row {
    char time[AUDIT_TIME_SIZE], outcome[CELL_MAX], action[CELL_MAX], resource[CELL_MAX], address[CELL_MAX], actor[CELL_MAX];
    const char *kind, *via;
    int64_t sequence, time_ms;
};

static void print_columns(const struct exposure *exposure, const char *sequence, const struct row *row)
{
    (void)printf("%8s  %-29s  %-8s  ", sequence, row->time, row->kind);
    if (exposure->is_narrow)
        (void)printf("%s\n          %s  %s  %s  %s\n", row->action, row->resource, row->address, row->actor, row->via);
    else (void)printf("%-18s  %-60s  %-15s  %-24s  %s\n", row->action, row->resource, row->address, row->actor, row->via);
}

static void print_table(struct exposure *exposure, const struct row *row)
{
    static const struct row titles = {.time = "TIME",
                                      .kind = "WHAT",
                                      .action = "ACTION",
                                      .resource = "RESOURCE",
                                      .address = "ADDRESS",
                                      .actor = "ACTOR",
                                      .via = "MADE BY"};
    char sequence[24];

    if (!exposure->has_title) print_columns(exposure, "SEQ", &titles);
    (void)snprintf(sequence, sizeof sequence, "%" PRId64, row->sequence);
    print_columns(exposure, sequence, row);
}

static void print_csv_title(struct exposure *exposure)
{
    if (!exposure->has_title) (void)printf("seq,time,what,outcome,action,resource,address,actor,made_by\r\n");
    exposure->has_title = true;
}

static void print_csv(struct exposure *exposure, const struct row *row)
{
    char utc[CLOCK_TEXT_SIZE], number[24];

    print_csv_title(exposure);
    clock_format(row->time_ms, utc);
    (void)snprintf(number, sizeof number, "%" PRId64, row->sequence);
    const char *const cells[] = {number,        utc,          row->kind,  row->outcome, row->action,
                                 row->resource, row->address, row->actor, row->via};
    audit_print_csv(cells, sizeof cells / sizeof cells[0]);
}

/* The row as the registry wrote it, and by which event the party was made. */
static struct result print_json(const json_t *event, const struct row *row, struct error *err)
{
    OWNED_JSON shown = json_copy((json_t *)(uintptr_t)event);

    if (shown == NULL || (row->via[0] != '\0' && json_object_set_new(shown, "made_by", json_string(row->via)) != 0))
        return failure(err, ERROR_NO_MEMORY, "no memory for a row");
    (void)json_object_del(shown, "next");
    return api_print_json(shown, err);
}

static struct result print_row(struct exposure *exposure, const json_t *event, int64_t time_ms, struct error *err)
{
    const json_t *subject = json_object_get(event, "subject");
    struct row row = {.kind = json_text_of(event, "what"), .via = exposure->parties[exposure->at].via, .time_ms = time_ms};

    if (row.kind == NULL) return failure(err, ERROR_INVALID, "the registry answered without what was done");
    row.sequence = number_of(event, "seq");
    audit_time_text(row.time_ms, row.time);
    cell_text(json_object_get(event, "outcome"), row.outcome);
    cell_text(json_object_get(event, "action"), row.action);
    cell_text(json_object_get(event, "resource"), row.resource);
    cell_text(json_object_get(event, "address"), row.address);
    cell_text(subject != NULL ? subject : json_object_get(event, "actor"), row.actor);
    count(exposure, row.kind);
    if (exposure->invocation->json) TRY(print_json(event, &row, err));
    else if (exposure->is_csv) print_csv(exposure, &row);
    else print_table(exposure, &row);
    exposure->has_title = true;
    return SUCCESS;
}

/* ---- which events ---- */

static struct result visit(void *context, const json_t *event, struct error *err)
{
    struct exposure *exposure = context;
    const struct party *party = &exposure->parties[exposure->at];
    const char *time = json_text_of(event, "time");
    int64_t time_ms = 0;

    if (time != NULL && !clock_parse(bytes_of_text(time), &time_ms))
        return failure(err, ERROR_INVALID, "the registry answered with a time that can't be read");
    if (time_ms < party->since_ms || time_ms >= party->until_ms) return SUCCESS;
    TRY(print_row(exposure, event, time_ms, err));
    return note_made(exposure, event, time_ms, err);
}

static struct result add_range(const struct invocation *invocation, struct buffer *path, struct error *err)
{
    static const struct {
        int letter;
        const char *name;
    } times[] = {{'f', "since"}, {'t', "until"}};

    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        struct buffer OWNED_BUFFER value = BUFFER(256);
        TRY(audit_time_of(invocation_option(invocation, times[i].letter), &value, err));
        if (value.length > 0) TRY(audit_add_parameter(path, times[i].name, buffer_text(&value), err));
    }
    if (invocation_option(invocation, 'w') != NULL)
        return audit_add_parameter(path, "within", invocation_option(invocation, 'w'), err);
    return SUCCESS;
}

static struct result read_party(struct exposure *exposure, const struct party *party, struct error *err)
{
    const struct audit_visitor visitor = {visit, exposure};
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    struct audit_searched searched;

    TRY(buffer_add_text(&path, "/audit/exposure", err));
    TRY(audit_add_purpose(exposure->invocation, '?', &path, err));
    TRY(audit_add_parameter(&path, party->is_run ? "run" : "credential", party->name, err));
    TRY(add_range(exposure->invocation, &path, err));
    const struct audit_query query = {buffer_text(&path), true, 0, false};
    TRY(audit_fetch_events(exposure->invocation, exposure->session, &query, &visitor, &searched, err));
    if (searched.known < searched.wanted) exposure->incomplete = searched;
    return SUCCESS;
}

static struct result first_party(struct exposure *exposure, const char *credential, struct error *err)
{
    struct party party = {.is_run = false};

    if (!text_copy(party.name, sizeof party.name, credential))
        return failure(err, ERROR_INVALID, "the name of a credential has at most %zu bytes", sizeof party.name - 1);
    return add_party(exposure, &party, err);
}

static struct result read_all(struct exposure *exposure, struct error *err)
{
    for (exposure->at = 0; exposure->at < exposure->count; exposure->at++) {
        struct party *party = &exposure->parties[exposure->at];
        if (!is_new(exposure, exposure->at, party)) continue;
        TRY(read_party(exposure, party, err));
    }
    return SUCCESS;
}

static void tell_counts(const struct exposure *exposure)
{
    (void)fprintf(stderr,
                  "%" PRIu64 " read, %" PRIu64 " changed, %" PRIu64 " made, %" PRIu64 " tokens, %" PRIu64
                  " refused or failed; %zu robots and runs were made or shown their secrets\n",
                  exposure->read, exposure->changed, exposure->made, exposure->minted, exposure->refused, exposure->count - 1);
}

/* A name that nobody has gives the same answer as one that did nothing: the registry doesn't tell which. */
static void tell_nothing(const struct exposure *exposure)
{
    if (exposure->read + exposure->changed + exposure->made + exposure->minted + exposure->refused > 0) return;
    (void)fprintf(
        stderr,
        "The log has no event of %s in this time. Is it spelt as there? A robot is robot$NAME or robot$ORGANISATION+NAME;\n"
        "`sijil audit actors` shows the names and pseudonyms that have events.\n",
        exposure->parties[0].name);
}

static struct result check_line(struct invocation *invocation, struct error *err)
{
    if (invocation_option(invocation, 'p') == NULL)
        return failure(err, ERROR_INVALID, "--purpose is needed: why you look; it is recorded, sealed");
    TRY(audit_check_form(invocation, err));
    return audit_check_times(invocation, "ft", err);
}

struct result command_audit_exposure(struct invocation *invocation, struct error *err)
{
    struct exposure *exposure = NULL;
    OWNED(session) *session = NULL;

    TRY(line_check(invocation, check_line(invocation, err)));
    exposure = memory_zeroed(1, sizeof *exposure);
    if (exposure == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an exposure");
    exposure->invocation = invocation;
    exposure->is_csv = invocation_option(invocation, 'C') != NULL;
    exposure->is_narrow = terminal_is_narrow(EXPOSURE_WIDE);
    struct result done = command_session(invocation, invocation->operands[0], &session, err);
    exposure->session = session;
    if (done.ok) done = first_party(exposure, invocation->operands[1], err);
    if (done.ok) done = read_all(exposure, err);
    if (done.ok && exposure->is_csv) print_csv_title(exposure);
    if (done.ok) tell_counts(exposure);
    if (done.ok) done = audit_check_whole(&exposure->incomplete, err);
    if (done.ok) tell_nothing(exposure);
    free(exposure);
    return done;
}
