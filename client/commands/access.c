/* `sijil admin access review`: who can do what, when it was last used, and how to remove what nobody uses. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/audit_priv.h"
#include "client/commands/commands_priv.h"

#define DAY_MS          INT64_C(86400000)
#define ENDING_DAYS_MAX 36500
#define REMOVE_SIZE     640

static const struct column columns[] = {{"PRINCIPAL", "name"}, {"ISSUER", "issuer"},        {"PERSON", "person"},
                                        {"ROLE", "role"},      {"VERSION", "role_version"}, {"SCOPE", "scope"},
                                        {"ORIGIN", "origin"},  {"GRANTED", "granted"},      {"EXPIRES", "expires"},
                                        {"USED", "last_used"}, {"EVENT", "last_event"},     {"DEACTIVATED", "deactivated"},
                                        {"REMOVE", "remove"}};
#define COLUMN_COUNT (sizeof columns / sizeof columns[0])

/* The command that ends the role. A document ends as a whole: sign a version without the grant to keep the others. */
static void write_command(const struct invocation *invocation, const json_t *role, char command_out[REMOVE_SIZE])
{
    const char *host = invocation->operands[0], *origin = json_text_of(role, "origin"),
               *document = json_text_of(role, "document");
    const char *id = json_text_of(role, "id");
    const char *colon = document == NULL ? NULL : strchr(document, ':');

    command_out[0] = '\0';
    if (origin == NULL || id == NULL) return;
    if (strcmp(origin, "binding") == 0)
        (void)snprintf(command_out, REMOVE_SIZE, "sijil admin binding revoke %.200s %.40s", host, id);
    else if (strcmp(origin, "group") == 0 && document != NULL)
        (void)snprintf(command_out, REMOVE_SIZE, "sijil admin groups revoke %.200s %.70s --key KEY.pem", host, document);
    else if (strcmp(origin, "break-glass") == 0 && document != NULL)
        (void)snprintf(command_out, REMOVE_SIZE, "sijil admin break-glass end %.200s %.70s --key KEY.pem --reason REASON", host,
                       document);
    else if (colon != NULL && colon == document)
        (void)snprintf(command_out, REMOVE_SIZE, "sijil ci rule revoke %.200s %.130s --key KEY.pem", host, colon + 1);
    else if (colon != NULL)
        (void)snprintf(command_out, REMOVE_SIZE, "sijil ci rule revoke %.200s %.130s --scope %.*s --key KEY.pem", host, colon + 1,
                       (int)(colon - document < 130 ? colon - document : 130), document);
}

/* --ending DAYS; false: it is no number of days. */
static bool read_ending(const struct invocation *invocation, int64_t *until_ms_out)
{
    const char *days = invocation_option(invocation, 'e');
    uint64_t number = 0;

    *until_ms_out = INT64_MAX;
    if (days == NULL) return true;
    if (!text_to_u64(bytes_of_text(days), ENDING_DAYS_MAX, &number)) return false;
    *until_ms_out = clock_wall_ms() + (int64_t)number * DAY_MS;
    return true;
}

static bool ends_before(const json_t *role, int64_t until_ms)
{
    const char *expires = json_text_of(role, "expires");
    int64_t end_ms = 0;

    return until_ms == INT64_MAX || (expires != NULL && clock_parse(bytes_of_text(expires), &end_ms) && end_ms < until_ms);
}

static struct result take_page(const struct invocation *invocation, const json_t *answer, json_t *rows, struct error *err)
{
    const json_t *roles = json_object_get(answer, "roles");
    const bool only_unused = invocation_option(invocation, 'u') != NULL,
               only_endless = invocation_option(invocation, 'E') != NULL;
    char command[REMOVE_SIZE];
    int64_t until_ms = 0;

    (void)read_ending(invocation, &until_ms); /* checked before */
    if (!json_is_array(roles)) return failure(err, ERROR_INVALID, "the registry answered without 'roles'");
    for (size_t i = 0; i < json_array_size(roles); i++) {
        json_t *role = json_array_get(roles, i);
        const bool is_unused = json_is_true(json_object_get(role, "unused"));
        if (only_unused && !is_unused) continue;
        if (only_endless && json_object_get(role, "expires") != NULL) continue;
        if (!ends_before(role, until_ms)) continue;
        write_command(invocation, role, command);
        if ((is_unused && command[0] != '\0' && json_object_set_new(role, "remove", json_string(command)) != 0) ||
            json_array_append(rows, role) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for a review");
    }
    return SUCCESS;
}

static struct result first_path(const struct invocation *invocation, struct buffer *path, struct error *err)
{
    const char *days = invocation_option(invocation, 'd');

    TRY(buffer_add_text(path, "/access/review?limit=200", err));
    if (invocation->operand_count > 1) TRY(audit_add_parameter(path, "scope", invocation->operands[1], err));
    return days == NULL ? SUCCESS : audit_add_parameter(path, "unused_days", days, err);
}

/* What the pages say beside the roles. */
struct facts {
    struct audit_searched searched;
    bool by_bindings; /* alone, administrators and officers are made */
};

/* The page that knew the least of the log counts. */
static void take_facts(const json_t *answer, struct facts *facts)
{
    const uint64_t known = (uint64_t)number_of(answer, "known_to"), wanted = (uint64_t)number_of(answer, "wanted_to");
    const char *officers = json_text_of(answer, "officers");

    facts->by_bindings = officers != NULL && strcmp(officers, "bindings") == 0;
    if (facts->searched.wanted != 0 && (facts->searched.known < facts->searched.wanted || known >= wanted)) return;
    facts->searched.known = known;
    facts->searched.wanted = wanted;
}

struct reviewing {
    const struct invocation *invocation;
    json_t *rows;
    struct facts *facts;
};

static struct result take(void *context, const json_t *page, bool *is_enough_out, struct error *err)
{
    const struct reviewing *reviewing = context;

    (void)is_enough_out;
    take_facts(page, reviewing->facts);
    return take_page(reviewing->invocation, page, reviewing->rows, err);
}

static struct result get_all(struct invocation *invocation, json_t *rows, struct facts *facts, struct error *err)
{
    struct reviewing reviewing = {invocation, rows, facts};
    struct buffer OWNED_BUFFER path = BUFFER(4096);
    OWNED(session) *session = NULL;

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(first_path(invocation, &path, err));
    const struct page_walk walk = {buffer_text(&path), take, &reviewing};
    return api_walk(session, &walk, err);
}

static void show_removals(const json_t *rows)
{
    bool is_first = true;

    for (size_t i = 0; i < json_array_size(rows); i++) {
        const char *command = json_text_of(json_array_get(rows, i), "remove");
        if (command == NULL) continue;
        if (is_first) (void)printf("\nNobody uses these roles. To remove one:\n");
        is_first = false;
        (void)printf("    %s\n", command);
    }
}

static bool has(const json_t *rows, const char *member)
{
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (json_object_get(json_array_get(rows, i), member) != NULL) return true;
    return false;
}

static void show_officers(const json_t *rows, const struct facts *facts)
{
    if (facts->by_bindings)
        (void)fprintf(stderr, "bindings alone make administrators and officers here: no document of officers is needed yet\n");
    if (has(rows, "bound_as"))
        (void)fprintf(
            stderr, "an unsigned-officer is bound to more, and no document of officers makes that count (bound_as in --json)\n");
    if (has(rows, "one_person"))
        (void)fprintf(stderr, "administrator is one person, whoever uses it: nobody checks what it does\n");
}

struct result command_access_review(struct invocation *invocation, struct error *err)
{
    OWNED_JSON rows = json_array();
    struct facts facts = {.searched = {.events = 0}};
    int64_t until_ms = 0;

    if (!read_ending(invocation, &until_ms))
        return line_check(invocation, failure(err, ERROR_INVALID, "--ending DAYS: a number of days"));
    if (rows == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a review");
    TRY(get_all(invocation, rows, &facts, err));
    if (invocation->json) {
        TRY(api_print_json(rows, err));
    } else if (invocation_option(invocation, 'C') != NULL) {
        audit_print_csv_rows(rows, columns, COLUMN_COUNT);
    } else {
        TRY(api_print_rows(invocation, rows, columns, COLUMN_COUNT - 1, err));
        show_removals(rows);
        show_officers(rows, &facts);
        (void)fprintf(stderr, "uses in events before number %" PRIu64 " are known\n", facts.searched.known);
    }
    return audit_check_whole(&facts.searched, err);
}
