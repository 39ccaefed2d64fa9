/* `sijil admin elevation ...`: a role for some hours, which a person asks for and another person grants. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"

#define HOURS_MAX 72
#define PATH_ROOM 1024

static struct result read_hours(struct invocation *invocation, const char *text, uint64_t *hours_out, struct error *err)
{
    if (text_to_u64(bytes_of_text(text), HOURS_MAX, hours_out) && *hours_out > 0) return SUCCESS;
    return line_check(invocation, failure(err, ERROR_INVALID, "--hours %.20s: a number from 1 to %d", text, HOURS_MAX));
}

struct result command_elevation_request(struct invocation *invocation, struct error *err)
{
    const char *hours = invocation_option(invocation, 'H'), *reason = invocation_option(invocation, 'r');
    OWNED_JSON answer = NULL;
    uint64_t number = 1;

    if (reason == NULL) return line_check(invocation, failure(err, ERROR_INVALID, "--reason TEXT: why, for whoever grants it"));
    if (hours != NULL) TRY(read_hours(invocation, hours, &number, err));
    OWNED_JSON body = json_pack("{s:s, s:s, s:I, s:s}", "role", invocation->operands[1], "scope", invocation->operands[2],
                                "hours", (json_int_t)number, "reason", reason);
    if (body == NULL) return line_check(invocation, failure(err, ERROR_INVALID, "a role, a scope or a reason that is not UTF-8"));
    TRY(api_call(invocation, "POST", "/elevations", body, &answer, err));
    return api_print(invocation, answer, err);
}

static const struct column columns[] = {{"ID", "id"},       {"STATE", "state"}, {"SUBJECT", "subject"}, {"ROLE", "role"},
                                        {"SCOPE", "scope"}, {"HOURS", "hours"}, {"UNTIL", "until"},     {"REASON", "reason"}};
#define COLUMN_COUNT (sizeof columns / sizeof columns[0])

struct result command_elevation_list(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);

    TRY(api_add_list(&path, "/elevations", invocation->operand_count > 1 ? invocation->operands[1] : "", err));
    return api_list(invocation, buffer_text(&path), "elevations", columns, COLUMN_COUNT, err);
}

/* A request that is looked for. */
struct search {
    const char *scope, *id;
    json_t *found; /* NULL: not yet */
};

static struct result look(void *context, const json_t *page, bool *is_enough_out, struct error *err)
{
    struct search *search = context;
    const json_t *rows = json_object_get(page, "elevations");

    (void)err;
    for (size_t i = 0; i < json_array_size(rows) && search->found == NULL; i++) {
        json_t *row = json_array_get(rows, i);
        const char *of = json_text_of(row, "id"), *on = json_text_of(row, "scope");
        if (of != NULL && on != NULL && strcmp(of, search->id) == 0 && strcmp(on, search->scope) == 0)
            search->found = json_incref(row);
    }
    *is_enough_out = search->found != NULL;
    return SUCCESS;
}

/* The request, as the registry shows it: what is granted is sent back word by word. */
static struct result find(struct session *session, const char *scope, const char *id, json_t **found_out, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    struct search search = {scope, id, NULL};

    TRY(api_add_list(&path, "/elevations", scope, err));
    TRY(buffer_format(&path, err, "%climit=1000", scope[0] == '\0' ? '?' : '&'));
    const struct page_walk walk = {buffer_text(&path), look, &search};
    TRY(api_walk(session, &walk, err));
    if (search.found == NULL)
        return failure(err, ERROR_NOT_FOUND, "there is no request %.40s on %.200s that you may see", id, scope);
    *found_out = search.found;
    return SUCCESS;
}

static void show(const json_t *row)
{
    static const char *const members[] = {"subject", "issuer", "role", "scope", "hours", "reason"};
    char cell[CELL_MAX];

    (void)printf("You grant:\n");
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        cell_text(json_object_get(row, members[i]), cell);
        (void)printf("  %-8s %s\n", members[i], cell);
    }
}

/* What the person says that it grants; the registry says the rest. */
static struct result read_said(struct invocation *invocation, uint64_t *hours_out, struct error *err)
{
    const char *hours = invocation_option(invocation, 'H');

    if (hours == NULL) return line_check(invocation, failure(err, ERROR_INVALID, "--hours HOURS: for how long you grant it"));
    TRY(read_hours(invocation, hours, hours_out, err));
    if (invocation_option(invocation, SIGN_WITH) == NULL ||
        (invocation_option(invocation, 'R') != NULL && invocation_option(invocation, 's') != NULL))
        return SUCCESS;
    return line_check(invocation,
                      failure(err, ERROR_INVALID, "--sign-with: say what you sign, with --role ROLE and --subject SUBJECT"));
}

static struct result check_row(const struct invocation *invocation, const json_t *row, uint64_t hours, struct error *err)
{
    const char *role = invocation_option(invocation, 'R'), *subject = invocation_option(invocation, 's');
    const char *asked = json_text_of(row, "role"), *by = json_text_of(row, "subject");
    int64_t wanted = 0;

    if (!json_integer_of(row, "hours", &wanted) || wanted < 0 || (uint64_t)wanted != hours)
        return failure(err, ERROR_CONFLICT, "the request is for %lld hours, and not for %llu: nothing was granted",
                       (long long)wanted, (unsigned long long)hours);
    if (role != NULL && (asked == NULL || strcmp(asked, role) != 0))
        return failure(err, ERROR_CONFLICT, "the request is for another role than %.60s: nothing was granted", role);
    if (subject == NULL || (by != NULL && strcmp(by, subject) == 0)) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "the request is of another person than %.100s: nothing was granted", subject);
}

struct result command_elevation_approve(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED(session) *session = NULL;
    OWNED_JSON row = NULL;
    OWNED_JSON answer = NULL;
    uint64_t hours = 0;

    TRY(read_said(invocation, &hours, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(find(session, invocation->operands[1], invocation->operands[2], &row, err));
    TRY(check_row(invocation, row, hours, err));
    OWNED_JSON body = json_pack("{s:O?, s:s, s:O?, s:O?, s:I}", "role", json_object_get(row, "role"), "scope",
                                invocation->operands[1], "issuer", json_object_get(row, "issuer"), "subject",
                                json_object_get(row, "subject"), "hours", (json_int_t)hours);
    if (body == NULL) return api_no_memory(err);
    if (!invocation->json) show(row);
    TRY(buffer_add_text(&path, "/elevations/", err));
    TRY(http_escape(&path, invocation->operands[2], err));
    TRY(buffer_add_text(&path, "/approval", err));
    TRY(api_call_in(session, "POST", buffer_text(&path), body, &answer, err));
    return api_print(invocation, answer, err);
}

struct result command_elevation_end(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED(session) *session = NULL;
    OWNED_JSON row = NULL;

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(find(session, invocation->operands[1], invocation->operands[2], &row, err));
    const char *role = json_text_of(row, "role");
    TRY(buffer_add_text(&path, "/elevations/", err));
    TRY(http_escape(&path, invocation->operands[2], err));
    TRY(buffer_add_text(&path, "?role=", err));
    TRY(http_escape(&path, role == NULL ? "" : role, err));
    TRY(audit_add_parameter(&path, "scope", invocation->operands[1], err));
    TRY(api_call_in(session, "DELETE", buffer_text(&path), NULL, NULL, err));
    if (!invocation->json) (void)fprintf(stderr, "ended %s\n", invocation->operands[2]);
    return SUCCESS;
}
