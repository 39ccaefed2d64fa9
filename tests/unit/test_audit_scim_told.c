/* What events of every version tell of the rows of SCIM, and which two events of one person or group contradict each other. */
#include "tests/support/unit.h"

#include <string.h>

#include "audit/format/scim_told.h"

#define ID "11111111-1111-4111-8111-111111111111"
#define A  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B  "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C  "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

static const struct told_row {
    const char *name, *action, *detail;
    bool tells, is_deleted;
    unsigned state;
    const char *identity, *link, *members, *was, *pseudonym;
} rows[] = {
    {"a person", "scim.create", ID " active as=" A " link=" B " " C, true, false, SCIM_ACTIVE_NOW + 1, A, B, "", "", C},
    {"a person without a subject", "scim.create", ID " inactive as=" A " " C, true, false, SCIM_INACTIVE_NOW + 1, A, "", "", "",
     C},
    {"a person that is deleted", "scim.end", ID " deleted as=" A " " C, true, false, SCIM_DELETED_NOW + 1, A, "", "", "", C},
    {"an event without an externalId", "scim.change", ID " active " C, true, false, SCIM_ACTIVE_NOW + 1, "", "", "", "", C},
    {"an event without a state", "scim.change", ID " " C, true, false, 0, "", "", "", "", C},
    {"an event that failed early", "scim.change", ID, true, false, 0, "", "", "", "", ""},
    {"a token", "token.mint", "registry:admin:* groups 2 person=" ID " as=" A " link=" B " " C, true, false, 0, A, B, "", "", C},
    {"a token without a scope", "token.mint", "groups 0 person=" ID " as=" A " link=" B " " C, true, false, 0, A, B, "", "", C},
    {"a token that joins nobody", "token.mint", "registry:admin:* groups 2", false, false, 0, "", "", "", "", ""},
    {"a token without a detail", "token.mint", NULL, false, false, 0, "", "", "", "", ""},
    {"an empty detail", "scim.create", "", false, false, 0, "", "", "", "", ""},
    {"words without values", "scim.create", ID " active as= link= ", true, false, SCIM_ACTIVE_NOW + 1, "", "", "", "", ""},
    {"a group", "scim.group", ID " members=" A, true, false, 0, "", "", A, "", ""},
    {"a group that changes", "scim.group", ID " members=" A " was=" B, true, false, 0, "", "", A, B, ""},
    {"a group that is deleted", "scim.group", ID " deleted was=" B, true, true, 0, "", "", "", B, ""},
    {"a group of an earlier version", "scim.group", ID, true, false, 0, "", "", "", "", ""},
    {"another action", "scim.look", ID " active", false, false, 0, "", "", "", "", ""},
};

static void check_row(void **state)
{
    const struct told_row *row = *state;
    struct scim_told told = {.state = 0};

    assert_int_equal(scim_told_read(row->action, row->detail, &told), row->tells);
    if (!row->tells) return;
    assert_true(bytes_equal(told.id, bytes_of_text(ID)));
    assert_int_equal(told.is_group, strcmp(row->action, SCIM_TOLD_GROUP) == 0);
    assert_int_equal(told.is_deleted, row->is_deleted);
    assert_int_equal(told.state, row->state);
    assert_true(bytes_equal(told.identity, bytes_of_text(row->identity)) && bytes_equal(told.link, bytes_of_text(row->link)));
    assert_true(bytes_equal(told.members, bytes_of_text(row->members)) && bytes_equal(told.was, bytes_of_text(row->was)));
    assert_true(bytes_equal(told.pseudonym, bytes_of_text(row->pseudonym)));
}

static const struct pair_row {
    const char *name, *first_action, *first, *action, *event, *says; /* says NULL: they agree */
} pairs[] = {
    {"members that stayed", "scim.group", ID " members=" A, "scim.group", ID " members=" B " was=" A, NULL},
    {"members that somebody changed", "scim.group", ID " members=" A, "scim.group", ID " members=" C " was=" B, "other members"},
    {"a group of an earlier version", "scim.group", ID, "scim.group", ID " members=" B " was=" A, NULL},
    {"the same person", "scim.create", ID " active as=" A " " C, "scim.end", ID " inactive as=" A " " C, NULL},
    {"another externalId", "scim.create", ID " active as=" A " " C, "scim.change", ID " active as=" B " " C,
     "another externalId"},
    {"another pseudonym", "scim.create", ID " active " C, "scim.change", ID " active as=" B " " A, "another externalId"},
    {"a token of another person", "scim.create", ID " active " C, "token.mint", "groups 0 person=" ID " as=" B " link=" B " " A,
     "another externalId"},
    {"a token that tells a person of an earlier version", "scim.create", ID " " C, "token.mint",
     "groups 0 person=" ID " as=" B " link=" B " " C, NULL},
};

static void check_pair(void **state)
{
    static const uint8_t secret[TABLE_KEY_SIZE] = {7};
    const struct pair_row *row = *state;
    struct scim_told first, event;

    assert_true(scim_told_read(row->first_action, row->first, &first) && scim_told_read(row->action, row->event, &event));
    const struct scim_left earlier = scim_told_left(&first, secret), later = scim_told_left(&event, secret);
    const char *fault = scim_left_fault(&earlier, &later);
    if (row->says == NULL) assert_null(fault);
    else assert_true(fault != NULL && strncmp(fault, row->says, strlen(row->says)) == 0);
}

int main(void)
{
    return RUN_TABLE(rows, check_row) + RUN_TABLE(pairs, check_pair);
}
