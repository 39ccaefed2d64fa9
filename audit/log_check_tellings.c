/* What events tell of the rows of SCIM, read from the events: whether the log agrees with itself, whether the rows are there, and whether subjects of tokens are told. */
#include <stdio.h>
#include <string.h>

#include "audit/archive_priv.h"
#include "audit/format/scim_told.h"
#include "audit/log_check_priv.h"
#include "base/text.h"
#include "crypto/random.h"

#define CREATED "scim.create"

/* One event. The search for others reads into check->leaf, so this is a copy. */
struct telling {
    uint64_t sequence;
    char action[32], detail[LEAF_RESOURCE_MAX + 1];
    char id[UUID_TEXT_SIZE];
    char actor[65];
    struct scim_told told; /* views into detail */
};

static bool read_telling(const struct leaf *leaf, size_t target, struct telling *telling)
{
    const char *detail = strchr(leaf->targets[target].resource, '#');

    telling->sequence = leaf->sequence;
    memcpy(telling->actor, leaf->actor, sizeof telling->actor);
    if (detail == NULL || !text_copy(telling->action, sizeof telling->action, leaf->targets[target].action)) return false;
    (void)snprintf(telling->detail, sizeof telling->detail, "%s", detail + 1);
    if (!scim_told_read(telling->action, telling->detail, &telling->told)) return false;
    (void)snprintf(telling->id, sizeof telling->id, "%.*s", (int)telling->told.id.length, (const char *)telling->told.id.data);
    return true;
}

/* ---- the time before an event ---- */

/* Of a group the event before this one; of a person the one that made it, which has its pseudonym and mostly its externalId. */
static struct result judge_earlier(struct log_check *check, const struct telling *telling, const char **fault_out,
                                   struct error *err)
{
    const struct check_wanted wanted = {
        telling->told.is_group ? SCIM_TOLD_GROUP : CREATED, "", SEARCH_DETAIL, telling->id, NULL, telling->sequence};
    uint8_t secret[TABLE_KEY_SIZE];
    struct check_found earlier;
    struct scim_told told;

    *fault_out = NULL;
    if (telling->sequence == 0) return SUCCESS;
    TRY(check_find_last(check, &wanted, &earlier, err));
    if (!earlier.is_found || !scim_told_read(wanted.action, earlier.detail, &told)) return SUCCESS;
    random_bytes(secret, sizeof secret);
    const struct scim_left before = scim_told_left(&told, secret), event = scim_told_left(&telling->told, secret);
    *fault_out = scim_left_fault(&before, &event);
    return SUCCESS;
}

/* ---- the rows from an event on ---- */

static struct result find_later(struct log_check *check, const struct telling *telling, const char *action, struct bytes word,
                                bool *is_found_out, struct error *err)
{
    char text[sizeof SCIM_LINK + 2 * SHA256_SIZE];
    const struct check_wanted wanted = {action, "", SEARCH_DETAIL, text, NULL, 0};
    struct check_found found = {.is_found = false};

    (void)snprintf(text, sizeof text, "%.*s", (int)word.length, (const char *)word.data);
    if (word.length > 0) TRY(check_find_last(check, &wanted, &found, err));
    *is_found_out = found.is_found && found.sequence > telling->sequence;
    return SUCCESS;
}

static struct result has_person(struct log_check *check, const struct telling *telling, bool *has_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct uuid id;

    *has_out = true; /* what is no id has no row */
    if (!uuid_parse(bytes_of_text(telling->id), &id)) return SUCCESS;
    TRY(check_load_person(check->tiles.pg, &id, &rows, err));
    *has_out = pg_rows_count(rows) > 0;
    return SUCCESS;
}

/* The person has another id if it was made again. */
static struct result judge_person(struct log_check *check, const struct telling *telling, const char **fault_out,
                                  struct error *err)
{
    bool is_there = false;

    TRY(has_person(check, telling, &is_there, err));
    if (!is_there) TRY(find_later(check, telling, CREATED, telling->told.pseudonym, &is_there, err));
    if (!is_there) TRY(find_later(check, telling, "subject.erase", telling->told.pseudonym, &is_there, err));
    if (!is_there && telling->told.pseudonym.length > 0) *fault_out = "it is not stored, and no event has erased it";
    return SUCCESS;
}

/* A person that was made again has another id, and keeps the subjects of its tokens. They go with an erasure: its event names the pseudonym of the person, or of the subject. */
static struct result is_erased(struct log_check *check, const struct telling *telling, bool *is_erased_out, struct error *err)
{
    const struct check_wanted wanted = {CREATED, "", SEARCH_DETAIL, telling->id, NULL, 0};
    struct scim_told told = {.state = 0};
    struct check_found made;

    TRY(find_later(check, telling, "subject.erase", bytes_of_text(telling->actor), is_erased_out, err));
    if (*is_erased_out) return SUCCESS;
    TRY(check_find_last(check, &wanted, &made, err));
    if (made.is_found) (void)scim_told_read(CREATED, made.detail, &told);
    return find_later(check, telling, "subject.erase", told.pseudonym, is_erased_out, err);
}

static struct result judge_link(struct log_check *check, const struct telling *telling, const char **fault_out, struct error *err)
{
    const struct bytes word = {telling->told.link.data - strlen(SCIM_LINK), telling->told.link.length + strlen(SCIM_LINK)};
    OWNED(pg_rows) *rows = NULL;
    bool has_gone = false;

    TRY(check_load_link_of(check->tiles.pg, telling->sequence, &rows, err));
    if (pg_rows_count(rows) > 0) return SUCCESS;
    TRY(find_later(check, telling, SCIM_TOLD_MINT, word, &has_gone, err)); /* told again */
    if (!has_gone) TRY(is_erased(check, telling, &has_gone, err));
    if (!has_gone) *fault_out = "a subject of its tokens that an event joins with it is not stored so";
    return SUCCESS;
}

static struct result judge_group(struct log_check *check, const struct telling *telling, const char **fault_out,
                                 struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    bool has_later = false;
    struct uuid id;

    if (telling->told.is_deleted || telling->told.members.length == 0 || !uuid_parse(bytes_of_text(telling->id), &id))
        return SUCCESS;
    TRY(check_load_group(check->tiles.pg, &id, &rows, err));
    if (pg_rows_count(rows) > 0) return SUCCESS;
    TRY(find_later(check, telling, SCIM_TOLD_GROUP, bytes_of_text(telling->id), &has_later, err));
    if (!has_later) *fault_out = "it is not stored, and no event has deleted it";
    return SUCCESS;
}

static struct result judge(struct log_check *check, const struct telling *telling, const char **fault_out, struct error *err)
{
    const bool creates = strcmp(telling->action, CREATED) == 0;

    *fault_out = NULL;
    if (!creates) TRY(judge_earlier(check, telling, fault_out, err));
    if (*fault_out == NULL && telling->told.is_group) TRY(judge_group(check, telling, fault_out, err));
    if (*fault_out == NULL && creates) TRY(judge_person(check, telling, fault_out, err));
    if (*fault_out == NULL && telling->told.link.length > 0) TRY(judge_link(check, telling, fault_out, err));
    return SUCCESS;
}

/* A later event, which the index does not have yet, may tell that a row went. */
static struct result check_telling(struct log_check *check, const struct telling *telling, struct row_findings *findings,
                                   struct error *err)
{
    const char *fault = NULL;
    char text[200]; /* a fault and a number */
    bool is_known = false;

    TRY(judge(check, telling, &fault, err));
    if (fault == NULL) return SUCCESS;
    TRY(check_await_index(check, &is_known, err));
    if (!is_known) return SUCCESS;
    TRY(judge(check, telling, &fault, err));
    if (fault == NULL) return SUCCESS;
    (void)snprintf(text, sizeof text, "by entry %llu: %s", (unsigned long long)telling->sequence, fault);
    check_note_row(findings, telling->told.is_group ? "group of SCIM" : "person of SCIM", telling->id, text);
    return SUCCESS;
}

struct result log_check_tellings(struct log_check *check, uint64_t index, struct row_findings *findings, struct error *err)
{
    const uint64_t first = index * TILE_WIDTH, end = first + TILE_WIDTH;
    OWNED(pg_rows) *rows = NULL;
    struct telling telling;
    struct error ignored;

    TRY(check_load_tellings(check->tiles.pg, first, end < check->size ? end : check->size, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        if (!leaf_read(pg_bytes(rows, i, CHECK_LEAF_COLUMN), &check->leaf, &ignored).ok) continue; /* check_rows() counts it */
        const bool tells = read_telling(&check->leaf, 0, &telling);
        if (tells) TRY(check_telling(check, &telling, findings, err));
    }
    return SUCCESS;
}

/* ---- subjects of tokens ---- */

struct row_of_link {
    int64_t number;
    bool names_event;
    uint64_t entry;
    char id[UUID_TEXT_SIZE], link[2 * SHA256_SIZE + 1];
};

static struct row_of_link read_link(const struct pg_rows *rows, size_t row)
{
    struct row_of_link link = {.number = pg_int8(rows, row, 0), .names_event = !pg_is_null(rows, row, 2), .link = ""};
    const struct uuid id = pg_uuid(rows, row, 1);
    const struct bytes digest = pg_bytes(rows, row, 3);

    if (link.names_event) link.entry = (uint64_t)pg_int8(rows, row, 2);
    uuid_format(&id, link.id);
    if (digest.length == SHA256_SIZE) text_hex(digest.data, digest.length, link.link);
    return link;
}

/* Of a person whose first event tells the externalId, each subject is told. Others may be from an earlier version. */
static struct result judge_untold(struct log_check *check, const struct row_of_link *row, const char **fault_out,
                                  struct error *err)
{
    const struct check_wanted wanted = {CREATED, "", SEARCH_DETAIL, row->id, NULL, 0};
    struct scim_told told = {.state = 0};
    struct check_found made;

    TRY(check_find_last(check, &wanted, &made, err));
    if (made.is_found) (void)scim_told_read(CREATED, made.detail, &told);
    *fault_out = told.identity.length > 0 ? "no event tells that a subject of tokens is joined with it" : NULL;
    return SUCCESS;
}

static struct result judge_told(struct log_check *check, const struct row_of_link *row, const char **fault_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct telling telling;
    struct error ignored;

    *fault_out = "the event that a subject of its tokens names does not tell it";
    TRY(check_load_tellings(check->tiles.pg, row->entry, row->entry + 1, &rows, err));
    if (pg_rows_count(rows) != 1 || !leaf_read(pg_bytes(rows, 0, CHECK_LEAF_COLUMN), &check->leaf, &ignored).ok) return SUCCESS;
    if (read_telling(&check->leaf, 0, &telling) && bytes_equal(telling.told.link, bytes_of_text(row->link))) *fault_out = NULL;
    return SUCCESS;
}

static struct result judge_row(struct log_check *check, const struct row_of_link *row, const char **fault_out, struct error *err)
{
    return row->names_event ? judge_told(check, row, fault_out, err) : judge_untold(check, row, fault_out, err);
}

/* A row that has changed meanwhile is left to the next round. */
static struct result confirm(struct log_check *check, const struct row_of_link *row, const char **fault_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    bool is_known = false;

    TRY(check_await_index(check, &is_known, err));
    TRY(check_load_link(check->tiles.pg, row->number, &rows, err));
    const struct row_of_link now = pg_rows_count(rows) == 0 ? (struct row_of_link){.number = 0} : read_link(rows, 0);
    const bool is_same = strcmp(now.link, row->link) == 0 && now.names_event == row->names_event && now.entry == row->entry;
    if (is_known && is_same) return judge_row(check, row, fault_out, err);
    *fault_out = NULL;
    return SUCCESS;
}

struct result log_check_links(struct log_check *check, struct scim_cursor *cursor, size_t *count_out,
                              struct row_findings *findings, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    cursor->has_link = true;
    TRY(check_load_links(check->tiles.pg, cursor->link, &rows, err));
    *count_out = pg_rows_count(rows);
    for (size_t i = 0; i < *count_out; i++) {
        const struct row_of_link row = read_link(rows, i);
        const char *fault = NULL;
        TRY(judge_row(check, &row, &fault, err));
        if (fault != NULL) TRY(confirm(check, &row, &fault, err));
        if (fault != NULL) check_note_row(findings, "person of SCIM", row.id, fault);
        else if (!row.names_event) findings->untold++;
        cursor->link = row.number;
    }
    return SUCCESS;
}
