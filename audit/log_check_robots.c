/* Secrets of robots, and the groups of logins, stand in rows that are not signed. Events tell them as digests. */
#include <stdio.h>
#include <string.h>

#include "audit/format/row_told.h"
#include "audit/log_check_priv.h"

struct row_of_robot {
    char secret[ROW_TOLD_DIGITS + 1], previous[ROW_TOLD_DIGITS + 1]; /* digests; previous "": none counts */
    int64_t end_ms;
};

static struct row_of_robot read_robot(const struct pg_rows *rows, size_t i)
{
    struct row_of_robot row = {.end_ms = pg_time_ms(rows, i, 3)};

    (void)snprintf(row.secret, sizeof row.secret, "%s", pg_text(rows, i, 1));
    (void)snprintf(row.previous, sizeof row.previous, "%s", pg_text(rows, i, 2));
    return row;
}

/* The newest event that gave the robot a secret, before this entry (0: of all). */
static struct result find_giving(struct log_check *check, const char *id, uint64_t before, struct check_found *last,
                                 struct error *err)
{
    static const char *const actions[] = {"robot.create", "robot.rotate", "administrator.replace"};
    struct check_found found;

    *last = (struct check_found){.is_found = false};
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        const struct check_wanted wanted = {actions[i], NULL, SEARCH_DETAIL, id, NULL, before};
        TRY(check_find_last(check, &wanted, &found, err));
        if (found.is_found && (!last->is_found || found.sequence > last->sequence)) *last = found;
    }
    return SUCCESS;
}

/* An event of an earlier version tells no secret. */
static bool tells_other(const struct check_found *found, const char *digest)
{
    const char *told = check_word_after(found->detail, ROBOT_TOLD_SECRET);

    return told != NULL && (strlen(digest) != ROW_TOLD_DIGITS || strncmp(told, digest, ROW_TOLD_DIGITS) != 0);
}

/* *fault_out NULL: the events lead to this row. */
static struct result judge(struct log_check *check, const char *id, const struct row_of_robot *row, const char **fault_out,
                           struct error *err)
{
    struct check_found last, earlier;
    bool is_ended = false;

    TRY(find_giving(check, id, 0, &last, err));
    *fault_out = "no event has made it";
    if (!last.is_found) return SUCCESS;
    *fault_out = "its newest event tells another secret";
    if (tells_other(&last, row->secret)) return SUCCESS;
    *fault_out = "its newest event tells another end";
    if (!check_end_is_told(&last, row->end_ms)) return SUCCESS;
    TRY(check_is_ended(check, id, &is_ended, err));
    *fault_out = is_ended ? "it was revoked, or another administrator took its place" : NULL;
    if (is_ended || row->previous[0] == '\0') return SUCCESS;
    TRY(find_giving(check, id, last.sequence, &earlier, err));
    if (!earlier.is_found || tells_other(&earlier, row->previous))
        *fault_out = "a secret counts as the one before, and the event before tells another";
    return SUCCESS;
}

/* Event and row of a rotation are committed together. A row that changes meanwhile is left to the next round. */
static struct result confirm(struct log_check *check, const struct uuid *id, const struct row_of_robot *row,
                             const char **fault_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    char text[UUID_TEXT_SIZE];
    bool is_known = false;

    uuid_format(id, text);
    TRY(check_await_index(check, &is_known, err));
    check->looks_without_index = true; /* which may have holes since the round began */
    const struct result judged = is_known ? judge(check, text, row, fault_out, err) : SUCCESS;
    check->looks_without_index = false;
    TRY(judged);
    TRY(check_load_robots(check->tiles.pg, &(struct binding_cursor){false, {{0}}}, id, &rows, err));
    if (!is_known || pg_rows_count(rows) == 0) {
        *fault_out = NULL;
        return SUCCESS;
    }
    const struct row_of_robot now = read_robot(rows, 0);
    if (strcmp(now.secret, row->secret) != 0 || strcmp(now.previous, row->previous) != 0 || now.end_ms != row->end_ms)
        *fault_out = NULL;
    return SUCCESS;
}

static struct result check_robots(struct log_check *check, struct binding_cursor *cursor, size_t *count_out,
                                  struct row_findings *findings, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(check_load_robots(check->tiles.pg, cursor, NULL, &rows, err));
    *count_out = pg_rows_count(rows);
    for (size_t i = 0; i < *count_out; i++) {
        const struct uuid id = pg_uuid(rows, i, 0);
        const struct row_of_robot row = read_robot(rows, i);
        const char *fault = NULL;
        char text[UUID_TEXT_SIZE];
        uuid_format(&id, text);
        TRY(judge(check, text, &row, &fault, err));
        if (fault != NULL) TRY(confirm(check, &id, &row, &fault, err));
        if (fault != NULL) TRY(check_doubt(check, findings, "robot", &id, fault, err));
    }
    if (*count_out > 0) *cursor = (struct binding_cursor){true, pg_uuid(rows, *count_out - 1, 0)};
    return SUCCESS;
}

static struct result check_logins(struct log_check *check, struct row_findings *findings, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(check_load_logins(check->tiles.pg, &rows, err));
    findings->untold += (uint64_t)pg_int8(rows, 0, 1);
    if (pg_int8(rows, 0, 0) == 0) return SUCCESS;
    check_note_row(findings, "row of a login's groups", "(group_login)",
                   "the event that it names tells other groups, or it ends later");
    findings->count += (uint64_t)pg_int8(rows, 0, 0) - 1;
    return SUCCESS;
}

struct result log_check_rights(struct log_check *check, struct rights_cursor *cursor, size_t *count_out,
                               struct row_findings *findings, struct error *err)
{
    *count_out = 0;
    check->rights = cursor;
    if (!cursor->has_robots) TRY(log_check_bindings(check, &cursor->binding, count_out, findings, err));
    if (*count_out > 0) return SUCCESS;
    cursor->has_robots = true;
    TRY(check_robots(check, &cursor->robot, count_out, findings, err));
    return *count_out > 0 ? SUCCESS : check_logins(check, findings, err);
}
