/* Whether a person of SCIM may come in, who it is, and who is in a group, stands in rows that are not signed. The last event about it says what it must be. */
#include <stdio.h>
#include <string.h>

#include "audit/format/scim_told.h"
#include "audit/log_check_priv.h"
#include "base/text.h"

/* What a row says. */
struct row_of_person {
    enum scim_state state;
    bool names_event;
    char identity[2 * SHA256_SIZE + 1];
};

static void read_digest(struct bytes digest, char text_out[2 * SHA256_SIZE + 1])
{
    text_out[0] = '\0';
    if (digest.length == SHA256_SIZE) text_hex(digest.data, digest.length, text_out);
}

static struct row_of_person read_row(const struct pg_rows *rows, size_t row, size_t column)
{
    struct row_of_person person = {.state = (enum scim_state)pg_int8(rows, row, column),
                                   .names_event = pg_bool(rows, row, column + 1)};

    read_digest(pg_bytes(rows, row, column + 2), person.identity);
    return person;
}

static bool is_same_row(const struct row_of_person *a, const struct row_of_person *b)
{
    return a->state == b->state && a->names_event == b->names_event && strcmp(a->identity, b->identity) == 0;
}

/* A person of an earlier version is told by a token, unless an event of SCIM came since. */
static struct result find_telling(struct log_check *check, const char *id, struct check_found *found, struct error *err)
{
    char word[sizeof SCIM_PERSON + UUID_TEXT_SIZE];
    const struct check_wanted wanted = {SCIM_TOLD_MINT, "", SEARCH_DETAIL, word, NULL, 0};

    (void)snprintf(word, sizeof word, SCIM_PERSON "%s", id);
    return check_find_last(check, &wanted, found, err);
}

/* An event of an earlier version tells no state, and no externalId. */
static struct result judge_row(struct log_check *check, const char *id, const struct row_of_person *row,
                               const struct check_found *last, const char **fault_out, struct error *err)
{
    struct scim_told told = {.state = 0};
    struct check_found minted;

    (void)scim_told_read("scim.change", last->detail, &told);
    *fault_out = "its last event says whether it may come in, and the row says something else";
    if (told.state != 0 && told.state != (unsigned)row->state + 1) return SUCCESS;
    if (told.identity.length == 0) {
        TRY(find_telling(check, id, &minted, err));
        if (minted.is_found) (void)scim_told_read(SCIM_TOLD_MINT, minted.detail, &told);
    }
    *fault_out = "its row names an event that tells its externalId, and none does";
    if (told.identity.length == 0 && row->names_event) return SUCCESS;
    *fault_out = "an event tells another externalId";
    if (told.identity.length > 0 && !bytes_equal(told.identity, bytes_of_text(row->identity))) return SUCCESS;
    *fault_out = NULL;
    return SUCCESS;
}

/* *fault_out NULL: the events lead to this row. */
static struct result judge(struct log_check *check, const char *id, const struct row_of_person *row, const char **fault_out,
                           struct error *err)
{
    static const char *const actions[] = {"scim.create", "scim.change", "scim.end"};
    struct check_found last = {.is_found = false}, found;

    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        const struct check_wanted wanted = {actions[i], "", SEARCH_DETAIL, id, NULL, 0};
        TRY(check_find_last(check, &wanted, &found, err));
        if (found.is_found && (!last.is_found || found.sequence > last.sequence)) last = found;
    }
    *fault_out = "no event has made it";
    return last.is_found ? judge_row(check, id, row, &last, fault_out, err) : SUCCESS;
}

/* Event and row of a change are committed together. A row that changes meanwhile is left to the next round. */
static struct result confirm(struct log_check *check, const struct uuid *id, const struct row_of_person *row,
                             const char **fault_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    char text[UUID_TEXT_SIZE];
    bool is_known = false;

    uuid_format(id, text);
    TRY(check_await_index(check, &is_known, err));
    if (is_known) TRY(judge(check, text, row, fault_out, err));
    TRY(check_load_person(check->tiles.pg, id, &rows, err));
    const struct row_of_person now = pg_rows_count(rows) == 0 ? *row : read_row(rows, 0, 0);
    if (!is_known || pg_rows_count(rows) == 0 || !is_same_row(&now, row)) *fault_out = NULL;
    return SUCCESS;
}

static struct result check_person(struct log_check *check, const struct pg_rows *rows, size_t i, struct row_findings *findings,
                                  struct error *err)
{
    const struct uuid id = pg_uuid(rows, i, 1);
    const struct row_of_person row = read_row(rows, i, 2);
    const char *fault = NULL;
    char text[UUID_TEXT_SIZE];

    uuid_format(&id, text);
    TRY(judge(check, text, &row, &fault, err));
    if (fault != NULL) TRY(confirm(check, &id, &row, &fault, err));
    if (fault != NULL) check_note_row(findings, "person of SCIM", text, fault);
    if (!row.names_event) findings->untold++;
    return SUCCESS;
}

/* ---- groups ---- */

#define MEMBERS_SIZE (2 * SHA256_SIZE + 1)

/* An event of an earlier version has the id of the group alone. */
static struct result judge_group(struct log_check *check, const char *id, const char *members, const char **fault_out,
                                 struct error *err)
{
    const struct check_wanted wanted = {SCIM_TOLD_GROUP, "", SEARCH_DETAIL, id, NULL, 0};
    struct scim_told told;
    struct check_found last;

    TRY(check_find_last(check, &wanted, &last, err));
    *fault_out = "no event has made it";
    if (!last.is_found || !scim_told_read(SCIM_TOLD_GROUP, last.detail, &told)) return SUCCESS;
    *fault_out = "it was deleted";
    if (told.is_deleted) return SUCCESS;
    *fault_out = "its last event left other members in it, or another externalId";
    if (told.members.length > 0 && !bytes_equal(told.members, bytes_of_text(members))) return SUCCESS;
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
    if (pg_rows_count(now) == 1) read_digest(pg_bytes(now, 0, 0), stored);
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
    read_digest(pg_bytes(rows, i, 1), members);
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

    if (!cursor->has_link) TRY(check_load_persons(check->tiles.pg, cursor->person, &rows, err));
    const size_t count = rows == NULL ? 0 : pg_rows_count(rows);
    *count_out = 0;
    if (count == 0 && !cursor->has_group) TRY(log_check_links(check, cursor, count_out, findings, err));
    if (count == 0) return *count_out > 0 ? SUCCESS : check_groups(check, cursor, count_out, findings, err);
    for (size_t i = 0; i < count; i++) TRY(check_person(check, rows, i, findings, err));
    cursor->person = pg_int8(rows, count - 1, 0);
    *count_out = count;
    return SUCCESS;
}
