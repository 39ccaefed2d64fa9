/* Whether a person of SCIM may come in, and who is in a group, stands in rows that are not signed. The last event about it says what it must be. */
#include <string.h>

#include "audit/format/scim_state.h"
#include "audit/log_check_priv.h"
#include "base/text.h"

static const char *const states[SCIM_STATE_COUNT] = {
    [SCIM_INACTIVE_NOW] = SCIM_STATE_INACTIVE, [SCIM_ACTIVE_NOW] = SCIM_STATE_ACTIVE, [SCIM_DELETED_NOW] = SCIM_STATE_DELETED};

/* An event of an earlier version tells no state. */
static bool agrees(const struct check_found *last, enum scim_state state)
{
    char word[80]; /* a state, or a pseudonym */
    bool is_told = false;

    (void)check_word_at(last->detail, 1, word, sizeof word);
    for (size_t i = 0; i < SCIM_STATE_COUNT; i++) is_told = is_told || strcmp(word, states[i]) == 0;
    return !is_told || strcmp(word, states[state]) == 0;
}

/* *fault_out NULL: the events lead to this row. */
static struct result judge(struct log_check *check, const char *id, enum scim_state state, const char **fault_out,
                           struct error *err)
{
    static const char *const actions[] = {"scim.create", "scim.change", "scim.end"};
    struct check_found last = {.is_found = false}, found;

    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        const struct check_wanted wanted = {actions[i], "", SEARCH_DETAIL, id, NULL};
        TRY(check_find_last(check, &wanted, &found, err));
        if (found.is_found && (!last.is_found || found.sequence > last.sequence)) last = found;
    }
    *fault_out = !last.is_found         ? "no event has made it"
                 : agrees(&last, state) ? NULL
                                        : "its last event says whether it may come in, and the row says something else";
    return SUCCESS;
}

/* Event and row of a change are committed together. A row that changes meanwhile is left to the next round. */
static struct result confirm(struct log_check *check, const struct uuid *id, enum scim_state state, const char **fault_out,
                             struct error *err)
{
    OWNED(pg_rows) *now = NULL;
    char text[UUID_TEXT_SIZE];
    bool is_known = false;

    uuid_format(id, text);
    TRY(check_await_index(check, &is_known, err));
    if (is_known) TRY(judge(check, text, state, fault_out, err));
    TRY(check_load_person(check->tiles.pg, id, &now, err));
    if (!is_known || pg_rows_count(now) == 0 || pg_int8(now, 0, 0) != (int64_t)state) *fault_out = NULL;
    return SUCCESS;
}

static struct result check_person(struct log_check *check, const struct pg_rows *rows, size_t i, struct row_findings *findings,
                                  struct error *err)
{
    const struct uuid id = pg_uuid(rows, i, 1);
    const enum scim_state state = (enum scim_state)pg_int8(rows, i, 2);
    const char *fault = NULL;
    char text[UUID_TEXT_SIZE];

    uuid_format(&id, text);
    TRY(judge(check, text, state, &fault, err));
    if (fault != NULL) TRY(confirm(check, &id, state, &fault, err));
    if (fault != NULL) check_note_row(findings, "person of SCIM", text, fault);
    return SUCCESS;
}

/* ---- groups ---- */

#define MEMBERS_SIZE (2 * SHA256_SIZE + 1)

static void read_members(const struct pg_rows *rows, size_t row, size_t column, char members_out[MEMBERS_SIZE])
{
    const struct bytes members = pg_bytes(rows, row, column);

    members_out[0] = '\0';
    if (members.length == SHA256_SIZE) text_hex(members.data, members.length, members_out);
}

/* An event of an earlier version has the id of the group alone. */
static struct result judge_group(struct log_check *check, const char *id, const char *members, const char **fault_out,
                                 struct error *err)
{
    const struct check_wanted wanted = {"scim.group", "", SEARCH_DETAIL, id, NULL};
    const size_t length = strlen(SCIM_MEMBERS_NOW);
    struct check_found last;
    char word[80]; /* what the group is from then on */

    TRY(check_find_last(check, &wanted, &last, err));
    *fault_out = "no event has made it";
    if (!last.is_found) return SUCCESS;
    (void)check_word_at(last.detail, 1, word, sizeof word);
    *fault_out = "it was deleted";
    if (strcmp(word, SCIM_STATE_DELETED) == 0) return SUCCESS;
    *fault_out = "its last event left other members in it, or another externalId";
    if (strncmp(word, SCIM_MEMBERS_NOW, length) == 0 && strcmp(word + length, members) != 0) return SUCCESS;
    *fault_out = NULL;
    return SUCCESS;
}

static struct result confirm_group(struct log_check *check, const struct uuid *id, const char *members, const char **fault_out,
                                   struct error *err)
{
    OWNED(pg_rows) *now = NULL;
    char text[UUID_TEXT_SIZE], stored[MEMBERS_SIZE] = "";
    bool is_known = false;

    uuid_format(id, text);
    TRY(check_await_index(check, &is_known, err));
    if (is_known) TRY(judge_group(check, text, members, fault_out, err));
    TRY(check_load_group(check->tiles.pg, id, &now, err));
    if (pg_rows_count(now) == 1) read_members(now, 0, 0, stored);
    if (!is_known || pg_rows_count(now) == 0 || strcmp(stored, members) != 0) *fault_out = NULL;
    return SUCCESS;
}

static struct result check_group(struct log_check *check, const struct pg_rows *rows, size_t i, struct row_findings *findings,
                                 struct error *err)
{
    const struct uuid id = pg_uuid(rows, i, 0);
    char text[UUID_TEXT_SIZE], members[MEMBERS_SIZE];
    const char *fault = NULL;

    uuid_format(&id, text);
    read_members(rows, i, 1, members);
    TRY(judge_group(check, text, members, &fault, err));
    if (fault != NULL) TRY(confirm_group(check, &id, members, &fault, err));
    if (fault != NULL) check_note_row(findings, "group of SCIM", text, fault);
    return SUCCESS;
}

static struct result check_groups(struct log_check *check, struct scim_cursor *cursor, size_t *count_out,
                                  struct row_findings *findings, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(check_load_groups(check->tiles.pg, cursor->has_group ? &cursor->group : NULL, &rows, err));
    *count_out = pg_rows_count(rows);
    for (size_t i = 0; i < *count_out; i++) TRY(check_group(check, rows, i, findings, err));
    if (*count_out > 0) cursor->group = pg_uuid(rows, *count_out - 1, 0);
    cursor->has_group = true;
    return SUCCESS;
}

/* ---- all ---- */

struct result log_check_persons(struct log_check *check, struct scim_cursor *cursor, size_t *count_out,
                                struct row_findings *findings, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    if (!cursor->has_group) TRY(check_load_persons(check->tiles.pg, cursor->person, &rows, err));
    const size_t count = rows == NULL ? 0 : pg_rows_count(rows);
    if (count == 0) return check_groups(check, cursor, count_out, findings, err);
    for (size_t i = 0; i < count; i++) TRY(check_person(check, rows, i, findings, err));
    cursor->person = pg_int8(rows, count - 1, 0);
    *count_out = count;
    return SUCCESS;
}
