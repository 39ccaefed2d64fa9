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

#define PARTIES_MAX  1000 /* credentials that were made, directly or not */
#define PATH_ROOM    4096
#define THUMBPRINT   43 /* characters of an x5t#S256 */
#define BASE64_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

/* Somebody whose events are exposure: the credential itself, or what it made. */
struct party {
    enum party_kind { PARTY_ACTOR, PARTY_RUN, PARTY_TOKEN, PARTY_CERTIFICATE } kind;
    char name[256]; /* of an actor; id of a run; id of a token, or the id of the request that it was made for; thumbprint */
    char actor[80]; /* of a token: the pseudonym that it acts as */
    int64_t since_ms, until_ms; /* until_ms: its events from then on are those of another party */
    char via[64];               /* "" of the credential itself; "robot.create 4711" */
};

struct exposure {
    struct invocation *invocation;
    struct session *session;
    struct party parties[PARTIES_MAX];
    size_t count, at; /* parties->at is being read */
    bool has_title, is_csv;
    uint64_t read, changed, made, minted, refused;
};

/* ---- what an event is ---- */

static const char *kind_of(const json_t *entry)
{
    const char *outcome = json_text_of(entry, "out"), *action = json_text_of(entry, "act");

    if (outcome == NULL || action == NULL) return "unreadable";
    if (strcmp(outcome, "denied") == 0 || strcmp(outcome, "failed") == 0) return outcome;
    if (strcmp(action, "token.mint") == 0 || strcmp(action, "run.token") == 0) return "minted";
    switch (number_of(entry, "cls") % 100) {
    case 1: return "made";
    case 2: return "read";
    default: return "changed";
    }
}

static void count(struct exposure *exposure, const char *kind)
{
    if (strcmp(kind, "read") == 0) exposure->read++;
    else if (strcmp(kind, "changed") == 0) exposure->changed++;
    else if (strcmp(kind, "made") == 0) exposure->made++;
    else if (strcmp(kind, "minted") == 0) exposure->minted++;
    else exposure->refused++;
}

/* ---- what it made ---- */

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

static struct bytes detail_of(const json_t *entry)
{
    const char *resource = json_text_of(entry, "res"), *hash = resource == NULL ? NULL : strchr(resource, '#');

    return bytes_of_text(hash == NULL ? "" : hash + 1);
}

/* Whose secret was seen twice counts from the first time on, in whatever order these events are met. False: one of the first `count` parties has all. */
static bool is_new(const struct exposure *exposure, size_t count, struct party *party)
{
    party->until_ms = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct party *known = &exposure->parties[i];
        if (known->kind == party->kind && strcmp(known->name, party->name) == 0 && known->since_ms < party->until_ms)
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
static struct result note_made(struct exposure *exposure, const json_t *event, struct error *err)
{
    const json_t *entry = json_object_get(event, "entry");
    const char *action = json_text_of(entry, "act"), *outcome = json_text_of(entry, "out");
    struct party party = {.kind = PARTY_ACTOR, .since_ms = number_of(entry, "ts")};
    struct bytes left = detail_of(entry);

    if (action == NULL || outcome == NULL || strcmp(outcome, "denied") == 0 || strcmp(outcome, "failed") == 0) return SUCCESS;
    const bool is_run = strcmp(action, "run.request") == 0;
    const bool is_robot = strcmp(action, "robot.create") == 0 || strcmp(action, "robot.rotate") == 0;
    if ((!is_run && !is_robot) || !next_word(&left, party.name, sizeof party.name)) return SUCCESS;
    if (is_run) party.kind = PARTY_RUN;
    (void)snprintf(party.via, sizeof party.via, "%.32s %" PRId64, action, number_of(event, "seq"));
    return add_party(exposure, &party, err);
}

/* ---- rows ---- */

struct row {
    char time[AUDIT_TIME_SIZE], outcome[CELL_MAX], action[CELL_MAX], resource[CELL_MAX], address[CELL_MAX], actor[CELL_MAX];
    const char *kind, *via;
    int64_t sequence, time_ms;
};

static void print_table(struct exposure *exposure, const struct row *row)
{
    if (!exposure->has_title)
        (void)printf("%8s  %-29s  %-8s  %-18s  %-60s  %-15s  %-24s  %s\n", "SEQ", "TIME", "WHAT", "ACTION", "RESOURCE", "ADDRESS",
                     "ACTOR", "MADE BY");
    (void)printf("%8" PRId64 "  %-29s  %-8s  %-18s  %-60s  %-15s  %-24s  %s\n", row->sequence, row->time, row->kind, row->action,
                 row->resource, row->address, row->actor, row->via);
}

static void print_csv(struct exposure *exposure, const struct row *row)
{
    char utc[CLOCK_TEXT_SIZE], number[24];

    if (!exposure->has_title) (void)printf("seq,time,what,outcome,action,resource,address,actor,made_by\r\n");
    clock_format(row->time_ms, utc);
    (void)snprintf(number, sizeof number, "%" PRId64, row->sequence);
    const char *const cells[] = {number,        utc,          row->kind,  row->outcome, row->action,
                                 row->resource, row->address, row->actor, row->via};
    audit_print_csv(cells, sizeof cells / sizeof cells[0]);
}

static struct result digests_of(const json_t *entry, json_t *digests, struct error *err)
{
    struct bytes left = detail_of(entry);
    char word[160]; /* sha512: and 128 digits */

    while (next_word(&left, word, sizeof word)) {
        if (strncmp(word, "sha256:", 7) != 0 && strncmp(word, "sha512:", 7) != 0) continue;
        if (json_array_append_new(digests, json_string(word)) != 0) return failure(err, ERROR_NO_MEMORY, "no memory for a row");
    }
    return SUCCESS;
}

static struct result print_json(const json_t *event, const struct row *row, struct error *err)
{
    const json_t *entry = json_object_get(event, "entry"), *who = json_object_get(event, "who");
    char utc[CLOCK_TEXT_SIZE];
    OWNED_JSON digests = json_array();

    clock_format(row->time_ms, utc);
    if (digests == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a row");
    TRY(digests_of(entry, digests, err));
    OWNED_JSON shown =
        json_pack("{s:I, s:s, s:s, s:O?, s:O?, s:O?, s:O, s:O*, s:O?, s:O*, s:s*}", "seq", (json_int_t)row->sequence, "time", utc,
                  "what", row->kind, "outcome", json_object_get(entry, "out"), "action", json_object_get(entry, "act"),
                  "resource", json_object_get(entry, "res"), "digests", digests, "address", json_object_get(who, "address"),
                  "actor", json_object_get(entry, "actor"), "subject", json_object_get(who, "subject"), "made_by",
                  row->via[0] == '\0' ? NULL : row->via);
    return shown == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for a row") : api_print_json(shown, err);
}

static struct result print_row(struct exposure *exposure, const json_t *event, struct error *err)
{
    const json_t *entry = json_object_get(event, "entry"), *who = json_object_get(event, "who"),
                 *subject = json_object_get(who, "subject");
    struct row row = {.kind = kind_of(entry), .via = exposure->parties[exposure->at].via};

    row.sequence = number_of(event, "seq");
    row.time_ms = number_of(entry, "ts");
    audit_time_text(row.time_ms, row.time);
    cell_text(json_object_get(entry, "out"), row.outcome);
    cell_text(json_object_get(entry, "act"), row.action);
    cell_text(json_object_get(entry, "res"), row.resource);
    cell_text(json_object_get(who, "address"), row.address);
    cell_text(subject != NULL ? subject : json_object_get(entry, "actor"), row.actor);
    count(exposure, row.kind);
    if (exposure->invocation->json) TRY(print_json(event, &row, err));
    else if (exposure->is_csv) print_csv(exposure, &row);
    else print_table(exposure, &row);
    exposure->has_title = true;
    return SUCCESS;
}

/* ---- which events ---- */

/* A token's id is that of the request that asked for it, a dot, and a random part; either is enough to name it. */
static bool is_of_token(const json_t *who, const char *token)
{
    const char *id = json_text_of(who, "token");
    const size_t length = strlen(token);

    return id != NULL && strncmp(id, token, length) == 0 && (id[length] == '\0' || id[length] == '.');
}

static bool is_exposed(const struct party *party, const json_t *event)
{
    const json_t *who = json_object_get(event, "who");
    const char *certificate = json_text_of(who, "certificate");
    const int64_t time_ms = number_of(json_object_get(event, "entry"), "ts");

    if (time_ms < party->since_ms || time_ms >= party->until_ms) return false;
    if (party->kind == PARTY_TOKEN) return is_of_token(who, party->name);
    return party->kind != PARTY_CERTIFICATE || (certificate != NULL && strcmp(certificate, party->name) == 0);
}

static struct result visit(void *context, const json_t *event, struct error *err)
{
    struct exposure *exposure = context;

    if (!is_exposed(&exposure->parties[exposure->at], event)) return SUCCESS;
    TRY(print_row(exposure, event, err));
    return note_made(exposure, event, err);
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
        TRY(audit_add_parameter(path, "within", invocation_option(invocation, 'w'), err));
    return audit_add_parameter(path, "purpose", invocation_option(invocation, 'p'), err);
}

static struct result read_party(struct exposure *exposure, const struct party *party, struct error *err)
{
    const struct audit_visitor visitor = {visit, exposure};
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    struct audit_searched searched;

    TRY(buffer_add_text(&path, "/audit/events?order=ascending", err));
    if (party->kind == PARTY_ACTOR) TRY(audit_add_parameter(&path, "actor", party->name, err));
    if (party->kind == PARTY_TOKEN) TRY(audit_add_parameter(&path, "actor", party->actor, err));
    if (party->kind == PARTY_RUN) TRY(audit_add_parameter(&path, "run", party->name, err));
    TRY(add_range(exposure->invocation, &path, err));
    const struct audit_query query = {buffer_text(&path), true, 0};
    return audit_fetch_events(exposure->invocation, exposure->session, &query, &visitor, &searched, err);
}

/* ---- the credential ---- */

/* An event that is looked up: its conditions, and what is taken from it. */
struct lookup {
    const char *action, *condition, *value;
    struct result (*take)(void *context, const json_t *event, struct error *err);
};
struct found {
    char text[256];
};

static struct result take_actor(void *context, const json_t *event, struct error *err)
{
    struct found *found = context;
    const char *actor = json_text_of(json_object_get(event, "entry"), "actor");

    (void)err;
    if (actor != NULL) (void)text_copy(found->text, sizeof found->text, actor);
    return SUCCESS;
}

static struct result take_name(void *context, const json_t *event, struct error *err)
{
    struct found *found = context;
    struct bytes left = detail_of(json_object_get(event, "entry"));

    (void)err;
    (void)next_word(&left, found->text, sizeof found->text);
    return SUCCESS;
}

static struct result find_text(struct exposure *exposure, const struct lookup *wanted, struct found *found, struct error *err)
{
    const struct audit_visitor visitor = {wanted->take, found};
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    struct audit_searched searched;

    found->text[0] = '\0';
    TRY(buffer_add_text(&path, "/audit/events?order=ascending", err));
    TRY(audit_add_parameter(&path, "action", wanted->action, err));
    TRY(audit_add_parameter(&path, wanted->condition, wanted->value, err));
    if (invocation_option(exposure->invocation, 'w') != NULL)
        TRY(audit_add_parameter(&path, "within", invocation_option(exposure->invocation, 'w'), err));
    TRY(audit_add_parameter(&path, "purpose", invocation_option(exposure->invocation, 'p'), err));
    const struct audit_query query = {buffer_text(&path), true, 0};
    return audit_fetch_events(exposure->invocation, exposure->session, &query, &visitor, &searched, err);
}

static bool is_uuid_before_dot(const char *text, char id_out[37])
{
    const char *dot = strchr(text, '.');
    const size_t length = dot == NULL ? strlen(text) : (size_t)(dot - text);
    struct uuid id;

    if (length != 36 || !uuid_parse((struct bytes){(const uint8_t *)text, length}, &id)) return false;
    memcpy(id_out, text, length);
    id_out[length] = '\0';
    return true;
}

static struct result token_party(struct exposure *exposure, const char *request, struct party *party, struct error *err)
{
    const struct lookup wanted = {"token.mint,run.token", "request", request, take_actor};
    struct found found;

    TRY(find_text(exposure, &wanted, &found, err));
    if (found.text[0] == '\0')
        return failure(err, ERROR_NOT_FOUND,
                       "no event made a token of this id: its first 36 characters are the id of the request");
    party->kind = PARTY_TOKEN;
    return text_copy(party->actor, sizeof party->actor, found.text)
               ? SUCCESS
               : failure(err, ERROR_INVALID, "the registry answered with a pseudonym that is too long");
}

static struct result first_party(struct exposure *exposure, const char *credential, struct error *err)
{
    struct party party = {.kind = PARTY_ACTOR};
    char request[37];

    if (!text_copy(party.name, sizeof party.name, credential))
        return failure(err, ERROR_INVALID, "the name of a credential has at most %zu bytes", sizeof party.name - 1);
    if (is_uuid_before_dot(credential, request)) TRY(token_party(exposure, request, &party, err));
    else if (strlen(credential) == THUMBPRINT && text_consists_of(bytes_of_text(credential), BASE64_CHARS))
        party.kind = PARTY_CERTIFICATE;
    return add_party(exposure, &party, err);
}

/* robot.rotate has the robot's id alone; the event that made the robot has its name. */
static struct result name_robot(struct exposure *exposure, struct party *party, struct error *err)
{
    const struct lookup wanted = {"robot.create", "detail", party->name, take_name};
    struct found found;
    char id[37];

    if (party->kind != PARTY_ACTOR || !is_uuid_before_dot(party->name, id)) return SUCCESS;
    TRY(find_text(exposure, &wanted, &found, err));
    if (found.text[0] != '\0') (void)text_copy(party->name, sizeof party->name, found.text);
    return SUCCESS;
}

static struct result read_all(struct exposure *exposure, struct error *err)
{
    for (exposure->at = 0; exposure->at < exposure->count; exposure->at++) {
        struct party *party = &exposure->parties[exposure->at];
        if (exposure->at > 0) TRY(name_robot(exposure, party, err));
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

static struct result check_line(struct invocation *invocation, struct error *err)
{
    if (invocation_option(invocation, 'p') == NULL)
        return failure(err, ERROR_INVALID, "--purpose is needed: why you look; it is recorded, sealed");
    if (invocation_option(invocation, 'C') != NULL && invocation->json)
        return failure(err, ERROR_INVALID, "--csv and --json are two forms: give one");
    return SUCCESS;
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
    struct result done = command_session(invocation, invocation->operands[0], &session, err);
    exposure->session = session;
    if (done.ok) done = first_party(exposure, invocation->operands[1], err);
    if (done.ok) done = read_all(exposure, err);
    if (done.ok) tell_counts(exposure);
    free(exposure);
    return done;
}
