/* What events have made is stored, or an event has taken it away: tags and bindings. What the stored rows say is compared in log_check_rows.c. */
#include <stdio.h>
#include <string.h>

#include "audit/archive_priv.h"
#include "audit/format/row_told.h"
#include "audit/log_check_priv.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"

#define MADE_MAX    64                     /* rows that are looked up together */
#define DELETION_MS ((int64_t)3600 * 1000) /* that a deletion of a place may go on */

/* A row that an event has made. */
struct made {
    uint64_t sequence;
    char name[256];  /* the repository; the scope of a binding */
    char word[160];  /* the tag; the id of a binding */
    char about[160]; /* the digest; the holder of a binding */
};

struct made_list {
    bool are_tags;
    size_t count;
    struct made each[MADE_MAX];
};

/* Of a tile. */
struct removed {
    struct log_check *check;
    struct row_findings *findings;
    struct leaf leaf; /* searches read into check->leaf */
    struct made_list tags, bindings;
};

/* ---- what may have taken it away ---- */

static struct result is_later(struct log_check *check, const struct made *made, const struct check_wanted *wanted,
                              int64_t since_ms, bool *is_out, struct error *err)
{
    struct check_found found;

    check->looks_after = made->sequence;
    const struct result looked = check_find_last(check, wanted, &found, err);
    check->looks_after = 0;
    TRY(looked);
    *is_out = found.is_found && found.sequence > made->sequence && found.time_ms > since_ms;
    return SUCCESS;
}

/* A deletion of the place is recorded before it begins, and when it is done. One that has not ended may still go on, for a while. */
static struct result place_has_gone(struct log_check *check, const struct made *made, bool *has_out, struct error *err)
{
    static const char *const actions[] = {"organisation.delete", "project.delete", "repository.delete"};
    size_t length = 0;

    for (size_t i = 0; i < 3 && !*has_out && length < strlen(made->name); i++) {
        char name[sizeof made->name];
        length += length > 0;
        length += i == 2 ? strlen(made->name + length) : strcspn(made->name + length, "/");
        (void)snprintf(name, sizeof name, "%.*s", (int)length, made->name);
        const struct check_wanted wanted = {actions[i], name, SEARCH_ACTION, actions[i], NULL, 0};
        check->takes_completed = true;
        const struct result looked = is_later(check, made, &wanted, 0, has_out, err);
        check->takes_completed = false;
        TRY(looked);
        if (!*has_out) TRY(is_later(check, made, &wanted, clock_wall_ms() - DELETION_MS, has_out, err));
    }
    return SUCCESS;
}

/* A later push of the tag is looked at by itself; most tags that are gone were moved often, so it comes first. */
static struct result tag_has_gone(struct log_check *check, const struct made *made, bool *has_out, struct error *err)
{
    const struct check_wanted ends[] = {{"manifest.push", made->name, SEARCH_TAG, made->word, NULL, 0},
                                        {"tag.delete", made->name, SEARCH_TAG, made->word, NULL, 0},
                                        {"manifest.collect", made->name, SEARCH_DIGEST, made->about, NULL, 0},
                                        {"manifest.delete", made->name, SEARCH_DIGEST, made->about, NULL, 0},
                                        {"manifest.expire", made->name, SEARCH_DIGEST, made->about, NULL, 0},
                                        {"manifest.promote", made->name, SEARCH_TAG, made->word, NULL, 0}};

    for (size_t i = 0; i < sizeof ends / sizeof ends[0] && !*has_out; i++) TRY(is_later(check, made, &ends[i], 0, has_out, err));
    return *has_out ? SUCCESS : place_has_gone(check, made, has_out, err);
}

static struct result binding_was_ended(struct log_check *check, const struct made *made, bool *was_out, struct error *err)
{
    const struct check_wanted revoked = {"binding.revoke", NULL, SEARCH_DETAIL, made->word, NULL, 0};

    TRY(is_later(check, made, &revoked, 0, was_out, err));
    if (*was_out || strncmp(made->about, "robot:", 6) != 0) return SUCCESS;
    return check_is_ended(check, made->about + 6, was_out, err);
}

static struct result binding_has_gone(struct log_check *check, const struct made *made, bool *has_out, struct error *err)
{
    TRY(binding_was_ended(check, made, has_out, err));
    return *has_out ? SUCCESS : place_has_gone(check, made, has_out, err);
}

/* ---- rows ---- */

static struct result load_removed(struct log_check *check, const struct made_list *list, struct pg_rows **rows_out,
                                  struct error *err)
{
    struct bytes names[MADE_MAX], words[MADE_MAX];

    for (size_t i = 0; i < list->count; i++) {
        names[i] = bytes_of_text(list->each[i].name);
        words[i] = bytes_of_text(list->each[i].word);
    }
    return list->are_tags ? check_load_removed_tags(check->tiles.pg, names, words, list->count, rows_out, err)
                          : check_load_removed_bindings(check->tiles.pg, words, list->count, rows_out, err);
}

/* The event that took it away may be behind the index. One in a hole of the index is not looked for in the bytes of the log: each such search would read all of it. */
static struct result confirm(struct removed *removed, const struct made *made, bool is_tag, bool *has_gone, struct error *err)
{
    struct log_check *check = removed->check;
    bool is_known = false;

    TRY(check_await_index(check, &is_known, err));
    *has_gone = !is_known;
    return is_known ? (is_tag ? tag_has_gone : binding_has_gone)(check, made, has_gone, err) : SUCCESS;
}

static struct result judge(struct removed *removed, const struct made *made, bool is_tag, struct error *err)
{
    bool has_gone = false;
    char name[sizeof made->name + sizeof made->word], fault[96]; /* a sentence and a number */

    TRY((is_tag ? tag_has_gone : binding_has_gone)(removed->check, made, &has_gone, err));
    if (!has_gone) TRY(confirm(removed, made, is_tag, &has_gone, err));
    if (has_gone) return SUCCESS;
    (void)snprintf(name, sizeof name, "%s%s%s", is_tag ? made->name : "", is_tag ? ":" : "", made->word);
    (void)snprintf(fault, sizeof fault, "by entry %llu: it is not stored, and no event has %s it",
                   (unsigned long long)made->sequence, is_tag ? "removed" : "ended");
    check_note_row(removed->findings, is_tag ? "tag" : "binding", name, fault);
    return SUCCESS;
}

static struct result look_up(struct removed *removed, struct made_list *list, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    if (list->count == 0) return SUCCESS;
    TRY(load_removed(removed->check, list, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++)
        TRY(judge(removed, &list->each[(size_t)pg_int8(rows, i, 0) - 1], list->are_tags, err));
    list->count = 0;
    return SUCCESS;
}

/* ---- events ---- */

static struct result add(struct removed *removed, struct made_list *list, const struct made *made, struct error *err)
{
    if (list->count == MADE_MAX) TRY(look_up(removed, list, err));
    list->each[list->count++] = *made;
    return SUCCESS;
}

/* "DIGEST TAG ..." */
static struct result add_tags(struct removed *removed, struct made *made, const char *detail, struct error *err)
{
    (void)check_word_at(detail, 0, made->about, sizeof made->about);
    if (strchr(made->about, ':') == NULL) return SUCCESS;
    for (unsigned place = 1; *check_word_at(detail, place, made->word, sizeof made->word) != '\0'; place++)
        TRY(add(removed, &removed->tags, made, err));
    return SUCCESS;
}

/* "ROLE HOLDER ID ..."; a binding of a first start has no id there. */
static struct result add_binding(struct removed *removed, struct made *made, const char *detail, struct error *err)
{
    struct uuid ignored;

    (void)check_word_at(detail, 1, made->about, sizeof made->about);
    (void)check_word_at(detail, 2, made->word, sizeof made->word);
    if (!uuid_parse(bytes_of_text(made->word), &ignored)) return SUCCESS;
    return add(removed, &removed->bindings, made, err);
}

static struct result add_target(struct removed *removed, const struct leaf_target *target, struct error *err)
{
    const size_t length = strcspn(target->resource, "#");
    const char *detail = target->resource[length] == '#' ? target->resource + length + 1 : "";
    struct made made = {.sequence = removed->leaf.sequence};

    if (length >= sizeof made.name) return SUCCESS;
    (void)snprintf(made.name, sizeof made.name, "%.*s", (int)length, target->resource);
    if (strcmp(target->action, "binding.create") == 0) return add_binding(removed, &made, detail, err);
    if (strcmp(target->action, "manifest.push") != 0 && strcmp(target->action, "manifest.promote") != 0) return SUCCESS;
    return add_tags(removed, &made, detail, err);
}

static struct result look_at_events(struct removed *removed, uint64_t first, uint64_t end, struct error *err)
{
    static const size_t columns[2] = {0, CHECK_LEAF_COLUMN};
    struct log_check *check = removed->check;
    OWNED(archived_leaves) *archived = NULL;
    OWNED(pg_rows) *rows = NULL;
    struct error ignored;

    TRY(check_load_makers(check->tiles.pg, first, end, &rows, err));
    archived = archived_share(check->archived, rows, columns);
    if (archived == NULL) TRY(archived_load(check->tiles.pg, rows, columns, &archived, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        if (!leaf_read(archived_leaf(archived, rows, i, CHECK_LEAF_COLUMN), &removed->leaf, &ignored).ok)
            continue; /* check_rows() counts it */
        if (strstr(removed->leaf.reason.note, EVENT_OF_REPEAT) != NULL) continue;
        for (size_t k = 0; k < removed->leaf.target_count; k++) TRY(add_target(removed, &removed->leaf.targets[k], err));
    }
    TRY(look_up(removed, &removed->tags, err));
    return look_up(removed, &removed->bindings, err);
}

struct result log_check_removed(struct log_check *check, uint64_t index, struct row_findings *findings, struct error *err)
{
    const uint64_t first = index * TILE_WIDTH, end = first + TILE_WIDTH;
    struct removed *removed = memory_zeroed(1, sizeof *removed);

    if (removed == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for checking rows");
    removed->check = check;
    removed->findings = findings;
    removed->tags.are_tags = true;
    const struct result looked = look_at_events(removed, first, end < check->size ? end : check->size, err);
    free(removed);
    return looked;
}
