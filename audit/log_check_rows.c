/* Tags and bindings stand in rows that are not signed. The last events about each say what it must be; the index of searches finds them. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/format/posting.h"
#include "audit/format/row_told.h"
#include "audit/format/search_terms.h"
#include "audit/log_check_priv.h"
#include "base/clock.h"
#include "base/text.h"

#define TRIES    3     /* of a row that changes while it is checked */
#define INDEX_MS 2000  /* that a row which differs waits for the index of searches; it is left to the next round then */
#define PAUSE_US 20000 /* between two looks */

#define ROBOT_WORD    160   /* more than a robot's name has */
#define END_MARGIN_MS 60000 /* that the end of a row is behind what its event tells, at most */

static bool has_word(const char *detail, const char *word)
{
    const size_t wanted = strlen(word);

    while (*detail != '\0') {
        const size_t length = strcspn(detail, " ");
        if (length == wanted && strncmp(detail, word, length) == 0) return true;
        detail += length;
        detail += strspn(detail, " ");
    }
    return false;
}

const char *check_word_at(const char *detail, unsigned place, char *word, size_t room)
{
    for (unsigned i = 0; i < place; i++) {
        detail += strcspn(detail, " ");
        detail += strspn(detail, " ");
    }
    (void)snprintf(word, room, "%.*s", (int)strcspn(detail, " "), detail);
    return word;
}

const char *check_word_after(const char *detail, const char *begins)
{
    const size_t length = strlen(begins);

    while (*detail != '\0') {
        if (strncmp(detail, begins, length) == 0) return detail + length;
        detail += strcspn(detail, " ");
        detail += strspn(detail, " ");
    }
    return NULL;
}

static bool is_wanted(const struct leaf *leaf, const struct check_wanted *wanted, struct check_found *found)
{
    for (size_t i = 0; i < leaf->target_count; i++) {
        const struct leaf_target *target = &leaf->targets[i];
        const size_t name = strcspn(target->resource, "#");
        const char *detail = target->resource[name] == '#' ? target->resource + name + 1 : "";
        const bool is_there =
            wanted->name == NULL || (strlen(wanted->name) == name && strncmp(wanted->name, target->resource, name) == 0);
        if (!is_there || strcmp(target->action, wanted->action) != 0 ||
            (wanted->field != SEARCH_ACTION && !has_word(detail, wanted->word)))
            continue;
        if (wanted->also != NULL && !has_word(detail, wanted->also)) continue;
        *found = (struct check_found){true, leaf->sequence, strcmp(leaf->actor, "system") == 0, leaf->time_ms, ""};
        (void)snprintf(found->detail, sizeof found->detail, "%s", detail);
        return true;
    }
    return false;
}

struct result check_look_at(struct log_check *check, uint64_t sequence, const struct check_wanted *wanted,
                            struct check_found *found, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    OWNED(archived_leaves) *archived = NULL;
    struct error why;

    TRY(check_load_entries(check->tiles.pg, sequence, 1, &rows, err));
    if (pg_rows_count(rows) != 1) return SUCCESS; /* check_rows() says that it is missing */
    TRY(archived_load(check->tiles.pg, rows, (const size_t[2]){0, CHECK_LEAF_COLUMN}, &archived, err));
    if (!leaf_read(archived_leaf(archived, rows, 0, CHECK_LEAF_COLUMN), &check->leaf, &why).ok)
        return why.kind == ERROR_NO_MEMORY ? failure(err, why.kind, "%s", why.message) : SUCCESS;
    const bool is_done = strcmp(check->leaf.outcome, check->takes_completed ? "completed" : "allowed") == 0;
    const bool did_it = is_done && strstr(check->leaf.reason.note, EVENT_OF_REPEAT) == NULL;
    if (did_it) (void)is_wanted(&check->leaf, wanted, found);
    return SUCCESS;
}

/* The places that all lists of a row have, from the newest on. */
static struct result look_into_block(struct log_check *check, const struct pg_rows *rows, size_t row,
                                     const struct check_wanted *wanted, struct check_found *found, struct error *err)
{
    const uint64_t first = (uint64_t)pg_int8(rows, row, 0) * POSTING_BLOCK;
    struct posting places = {.words = {0}};
    struct error ignored;

    if (!posting_add(&places, pg_bytes(rows, row, 1), &ignored).ok) return SUCCESS; /* log_check_terms() counts it */
    for (size_t list = 2; list <= 3; list++) {
        struct posting other = {.words = {0}};
        if (!posting_add(&other, pg_bytes(rows, row, list), &ignored).ok) return SUCCESS;
        posting_intersect(&places, &other);
    }
    for (unsigned place = POSTING_BLOCK; place-- > 0 && !found->is_found;)
        if (posting_has(&places, place) && (wanted->before == 0 || first + place < wanted->before))
            TRY(check_look_at(check, first + place, wanted, found, err));
    return SUCCESS;
}

struct result check_find_last(struct log_check *check, const struct check_wanted *wanted, struct check_found *found,
                              struct error *err)
{
    const int64_t word = search_key(wanted->field, bytes_of_text(wanted->word));
    const bool has_name = wanted->name != NULL && wanted->name[0] != '\0';
    const int64_t keys[3] = {word, search_key(SEARCH_ACTION, bytes_of_text(wanted->action)),
                             has_name ? search_key(SEARCH_RESOURCE, bytes_of_text(wanted->name)) : word};
    int64_t before = wanted->before == 0 ? INT64_MAX : (int64_t)((wanted->before - 1) / POSTING_BLOCK) + 1;
    const int64_t floor = (int64_t)(check->looks_after / POSTING_BLOCK);

    if (check->looks_without_index) return check_find_without_index(check, wanted, found, err);
    *found = (struct check_found){.is_found = false};
    for (size_t count = 1; count > 0 && before > floor && !found->is_found;) {
        OWNED(pg_rows) *rows = NULL;
        TRY(check_load_blocks(check->tiles.pg, keys, before, &rows, err));
        count = pg_rows_count(rows);
        for (size_t i = 0; i < count && !found->is_found; i++) TRY(look_into_block(check, rows, i, wanted, found, err));
        if (count > 0) before = pg_int8(rows, count - 1, 0);
    }
    return SUCCESS;
}

/* ---- tags ---- */

struct row_of_tag {
    const char *repository, *tag, *digest;
};

/* *fault_out NULL: the events lead to this row. */
static struct result judge_tag(struct log_check *check, const struct row_of_tag *row, const char **fault_out, struct error *err)
{
    const struct check_wanted pushes[] = {{"manifest.push", row->repository, SEARCH_TAG, row->tag, NULL, 0},
                                          {"manifest.promote", row->repository, SEARCH_TAG, row->tag, NULL, 0}};
    const struct check_wanted ends[] = {{"tag.delete", row->repository, SEARCH_TAG, row->tag, NULL, 0},
                                        {"manifest.delete", row->repository, SEARCH_DIGEST, row->digest, NULL, 0}};
    char digest[160]; /* the longest digest has 135 */
    struct check_found pushed, promoted, ended;

    *fault_out = "no event has pushed it";
    TRY(check_find_last(check, &pushes[0], &pushed, err));
    TRY(check_find_last(check, &pushes[1], &promoted, err));
    if (promoted.is_found && (!pushed.is_found || promoted.sequence > pushed.sequence)) pushed = promoted;
    if (!pushed.is_found) return SUCCESS;
    *fault_out = "the last push has another manifest under it";
    if (strcmp(check_word_at(pushed.detail, 0, digest, sizeof digest), row->digest) != 0) return SUCCESS;
    *fault_out = "it was deleted";
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        TRY(check_find_last(check, &ends[i], &ended, err));
        if (ended.is_found && ended.sequence > pushed.sequence) return SUCCESS;
    }
    *fault_out = NULL;
    return SUCCESS;
}

struct result check_await_index(struct log_check *check, bool *is_there_out, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + INDEX_MS;
    uint64_t size = 0, indexed = 0;

    TRY(check_load_size(check->tiles.pg, &size, err));
    for (;;) {
        TRY(check_load_indexed(check->tiles.pg, &indexed, err));
        *is_there_out = indexed >= size;
        if (*is_there_out || clock_monotonic_ms() > until_ms) return SUCCESS;
        (void)usleep(PAUSE_US);
    }
}

void check_note_row(struct row_findings *findings, const char *kind, const char *name, const char *fault)
{
    if (findings->count++ == 0) (void)snprintf(findings->first, sizeof findings->first, "the %s %.200s: %s", kind, name, fault);
}

/*
 * Event and row of a change are committed together. So a row, whose events are in the index, and which still stands when the last of them was found, is
 * wrong if they differ. A row that changes meanwhile is looked at again.
 */
static struct result confirm_tag(struct log_check *check, const struct uuid *repository, struct row_of_tag row,
                                 const char **fault_out, struct error *err)
{
    char digest[160]; /* the longest digest has 135 */

    (void)snprintf(digest, sizeof digest, "%s", row.digest);
    row.digest = digest;
    for (unsigned try = 0; try < TRIES; try++) {
        OWNED(pg_rows) *now = NULL;
        bool is_known = false;
        TRY(check_await_index(check, &is_known, err));
        if (!is_known) break;
        TRY(judge_tag(check, &row, fault_out, err));
        if (*fault_out == NULL) return SUCCESS;
        TRY(check_load_tag(check->tiles.pg, repository, row.tag, &now, err));
        if (pg_rows_count(now) == 0) break;
        if (strcmp(digest, pg_text(now, 0, 0)) == 0) return SUCCESS;
        (void)snprintf(digest, sizeof digest, "%s", pg_text(now, 0, 0));
    }
    *fault_out = NULL;
    return SUCCESS;
}

static struct result check_tag(struct log_check *check, const struct pg_rows *rows, size_t i, struct row_findings *findings,
                               struct error *err)
{
    const struct uuid repository = pg_uuid(rows, i, 0);
    const struct row_of_tag row = {pg_text(rows, i, 2), pg_text(rows, i, 1), pg_text(rows, i, 3)};
    const char *fault = NULL;
    char name[400]; /* a repository and a tag */

    TRY(judge_tag(check, &row, &fault, err));
    if (fault != NULL) TRY(confirm_tag(check, &repository, row, &fault, err));
    if (fault == NULL) return SUCCESS;
    (void)snprintf(name, sizeof name, "%.255s:%.128s", row.repository, row.tag);
    check_note_row(findings, "tag", name, fault);
    return SUCCESS;
}

struct result log_check_tags(struct log_check *check, struct tag_cursor *cursor, size_t *count_out, struct row_findings *findings,
                             struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(check_load_tags(check->tiles.pg, cursor, &rows, err));
    const size_t count = pg_rows_count(rows);
    for (size_t i = 0; i < count; i++) TRY(check_tag(check, rows, i, findings, err));
    if (count > 0) {
        cursor->repository = pg_uuid(rows, count - 1, 0);
        (void)snprintf(cursor->tag, sizeof cursor->tag, "%s", pg_text(rows, count - 1, 1));
    }
    *count_out = count;
    return SUCCESS;
}

/* ---- bindings ---- */

struct row_of_binding {
    const char *id, *role, *holder, *scope, *subject; /* subject: a digest */
    int64_t end_ms;                                   /* 0: none */
};

static bool is_grant(const struct check_found *found, const struct row_of_binding *row)
{
    char word[128]; /* "robot:" and a UUID, or a role */

    return found->is_found && strcmp(check_word_at(found->detail, 0, word, sizeof word), row->role) == 0 &&
           strcmp(check_word_at(found->detail, 1, word, sizeof word), row->holder) == 0;
}

/*
 * The end is made when the transaction begins, by the database's clock. The time of the event is a little later, and much later where the log's clock was ahead once.
 * Such a row, or one that somebody shortened, gives less than what was granted.
 */
bool check_end_is_told(const struct check_found *found, int64_t end_ms)
{
    const char *lifetime = check_word_after(found->detail, ROW_TOLD_LIFETIME);
    char digits[16]; /* more seconds than a role or a robot may last */
    uint64_t lifetime_s = 0;

    if (lifetime == NULL) return true;
    (void)check_word_at(lifetime, 0, digits, sizeof digits);
    if (!text_to_u64(bytes_of_text(digits), LEAF_INTEGER_MAX / 1000, &lifetime_s)) return false;
    const int64_t told_ms = found->time_ms + (int64_t)lifetime_s * 1000;
    if (lifetime_s == 0) return end_ms == 0;
    return end_ms > 0 && end_ms <= told_ms + END_MARGIN_MS;
}

/* Of an earlier version it tells no subject. */
static bool is_told(const struct check_found *found, const struct row_of_binding *row)
{
    const char *subject = check_word_after(found->detail, BINDING_TOLD_SUBJECT);

    if (subject != NULL && (strlen(row->subject) != ROW_TOLD_DIGITS || strncmp(subject, row->subject, ROW_TOLD_DIGITS) != 0))
        return false;
    return check_end_is_told(found, row->end_ms);
}

/* Bindings of a first start have an event without their id, or only that of their robot. */
static struct result is_of_start(struct log_check *check, const struct row_of_binding *row, bool *is_out, struct error *err)
{
    const char *robot = strncmp(row->holder, "robot:", 6) == 0 ? row->holder + 6 : "-";
    const struct check_wanted granted = {"binding.create", row->scope, SEARCH_DETAIL, row->holder, row->role, 0};
    const struct check_wanted made[] = {{"robot.create", "", SEARCH_DETAIL, robot, NULL, 0},
                                        {"administrator.replace", "", SEARCH_DETAIL, robot, NULL, 0}};
    const bool is_first =
        row->scope[0] == '\0' && (strcmp(row->role, "registry-admin") == 0 || strcmp(row->role, "auditor") == 0);
    struct check_found found;

    TRY(check_find_last(check, &granted, &found, err));
    *is_out = is_grant(&found, row) && found.is_of_system;
    for (size_t i = 0; i < sizeof made / sizeof made[0] && is_first && !*is_out; i++) {
        TRY(check_find_last(check, &made[i], &found, err));
        *is_out = found.is_found && found.is_of_system;
    }
    return SUCCESS;
}

/* fsck_rows.c has the same: the administrator that the server itself has made ends with the next one, without an event of its own. */
static struct result is_replaced(struct log_check *check, const char *robot, bool *is_out, struct error *err)
{
    const struct check_wanted made[] = {{"robot.create", "", SEARCH_DETAIL, robot, NULL, 0},
                                        {"administrator.replace", "", SEARCH_DETAIL, robot, NULL, 0}};
    char name[ROBOT_WORD];
    struct check_found found = {.is_found = false}, next;

    for (size_t i = 0; i < sizeof made / sizeof made[0] && !found.is_found; i++)
        TRY(check_find_last(check, &made[i], &found, err));
    *is_out = false;
    if (!found.is_found || !found.is_of_system) return SUCCESS;
    (void)check_word_at(found.detail, 0, name, sizeof name);
    TRY(check_find_last(check, &(struct check_wanted){"administrator.replace", "", SEARCH_DETAIL, name, NULL, 0}, &next, err));
    *is_out = next.is_found && next.is_of_system && next.sequence > found.sequence;
    return SUCCESS;
}

struct result check_is_ended(struct log_check *check, const char *robot, bool *is_ended_out, struct error *err)
{
    const struct check_wanted revoked = {"robot.revoke", NULL, SEARCH_DETAIL, robot, NULL, 0};
    struct check_found found;

    TRY(check_find_last(check, &revoked, &found, err));
    *is_ended_out = found.is_found;
    return found.is_found ? SUCCESS : is_replaced(check, robot, is_ended_out, err);
}

static struct result judge_binding(struct log_check *check, const struct row_of_binding *row, const char **fault_out,
                                   struct error *err)
{
    const struct check_wanted granted = {"binding.create", row->scope, SEARCH_DETAIL, row->id, NULL, 0},
                              revoked = {"binding.revoke", NULL, SEARCH_DETAIL, row->id, NULL, 0};
    bool is_of_start_now = false, is_ended = false;
    struct check_found found;

    *fault_out = "no event has granted it, with this role, holder and scope";
    TRY(check_find_last(check, &granted, &found, err));
    if (!is_grant(&found, row)) TRY(is_of_start(check, row, &is_of_start_now, err));
    if (!is_grant(&found, row) && !is_of_start_now) return SUCCESS;
    *fault_out = "the event that granted it tells another subject, or another end";
    if (is_grant(&found, row) && !is_told(&found, row)) return SUCCESS;
    *fault_out = "it was revoked, or its robot was";
    TRY(check_find_last(check, &revoked, &found, err));
    if (found.is_found) return SUCCESS;
    if (strncmp(row->holder, "robot:", 6) == 0) TRY(check_is_ended(check, row->holder + 6, &is_ended, err));
    if (!is_ended) *fault_out = NULL;
    return SUCCESS;
}

/* A binding is made once and ends once, so what the events say when the index has them holds as long as the row gives rights. */
static struct result check_binding(struct log_check *check, const struct pg_rows *rows, size_t i, struct row_findings *findings,
                                   struct error *err)
{
    const struct uuid id = pg_uuid(rows, i, 0);
    char text[UUID_TEXT_SIZE];
    const struct row_of_binding row = {text,
                                       pg_text(rows, i, 1),
                                       pg_text(rows, i, 2),
                                       pg_text(rows, i, 3),
                                       pg_text(rows, i, 4),
                                       pg_is_null(rows, i, 5) ? 0 : pg_time_ms(rows, i, 5)};
    const char *fault = NULL;
    bool is_known = false, is_live = false;

    uuid_format(&id, text);
    TRY(judge_binding(check, &row, &fault, err));
    if (fault == NULL) return SUCCESS;
    TRY(check_await_index(check, &is_known, err));
    if (!is_known) return SUCCESS;
    check->looks_without_index = true; /* which may have holes since the round began */
    const struct result judged = judge_binding(check, &row, &fault, err);
    check->looks_without_index = false;
    TRY(judged);
    TRY(check_load_live(check->tiles.pg, &id, &is_live, err));
    return fault != NULL && is_live ? check_doubt(check, findings, "binding", &id, fault, err) : SUCCESS;
}

struct result log_check_bindings(struct log_check *check, struct binding_cursor *cursor, size_t *count_out,
                                 struct row_findings *findings, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(check_load_bindings(check->tiles.pg, cursor, &rows, err));
    const size_t count = pg_rows_count(rows);
    for (size_t i = 0; i < count; i++) TRY(check_binding(check, rows, i, findings, err));
    if (count > 0) *cursor = (struct binding_cursor){true, pg_uuid(rows, count - 1, 0)};
    *count_out = count;
    return SUCCESS;
}
