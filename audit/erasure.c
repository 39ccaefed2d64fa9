#include "audit/erasure.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "audit/erasure_jobs.h"
#include "audit/erasure_priv.h"
#include "audit/event_priv.h"
#include "audit/query_priv.h"
#include "audit/subject_priv.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"

#define LOOKED_AT 500 /* newest events, for one with a sealed part: those of the others were lost */
_Static_assert(ERASURE_NAME_SIZE == SUBJECT_TEXT_MAX + 1, "a name has room");

void erasure_person_wipe(struct erasure_person *person)
{
    secret_wipe(person, sizeof *person);
}

/* ---- the person behind a pseudonym ---- */

static uint64_t ordinal_of(const struct leaf *leaf, const char *key)
{
    for (size_t i = 0; i < leaf->key_count; i++)
        if (strcmp(leaf->keys[i].name, key) == 0) return leaf->keys[i].ordinal;
    return 0;
}

static bool read_names(struct bytes text, struct erasure_person *person)
{
    struct error ignored = {0};
    OWNED_JSON payload = NULL;

    if (!json_read(text, text.length, &payload, &ignored).ok) return false;
    const char *issuer = json_text_of(payload, "issuer"), *subject = json_text_of(payload, "subject");
    return subject != NULL && text_copy(person->issuer, sizeof person->issuer, issuer == NULL ? "" : issuer) &&
           text_copy(person->subject, sizeof person->subject, subject);
}

/* *is_found_out false: the sealed part is gone, or damaged. */
static struct result read_event(const struct search_source *source, struct audit_page *page, size_t index,
                                struct erasure_person *person, bool *is_found_out, struct error *err)
{
    const struct payload_opener opener = {source->keyd, source->origin, NULL};
    struct buffer OWNED_BUFFER text = BUFFER(TALLY_TEXT_MAX);
    struct leaf leaf;

    *is_found_out = false;
    TRY(leaf_read(audit_page_leaf(page, index), &leaf, err));
    const struct result opened = audit_page_payload_of(page, index, &leaf, &opener, &text, err);
    if (!opened.ok && err->kind != ERROR_CORRUPT) return opened;
    if (!opened.ok || text.length == 0) return SUCCESS;
    *is_found_out = read_names(buffer_bytes(&text), person);
    secret_wipe(text.data, text.length);
    person->witness = leaf.sequence;
    return SUCCESS;
}

static struct result read_newest(const struct audit_page *page, const char *key, struct erasure_person *person, struct error *err)
{
    struct leaf leaf;

    TRY(leaf_read(audit_page_leaf(page, 0), &leaf, err));
    person->events = ordinal_of(&leaf, key);
    person->newest = leaf.sequence;
    person->newest_ms = leaf.time_ms;
    return SUCCESS;
}

struct audit_selection erasure_own_events(const char *pseudonym)
{
    struct audit_selection selection = {.until = INT64_MAX, .key_count = 1, .actor = pseudonym};
    char key[sizeof "act:" + 64];

    (void)snprintf(key, sizeof key, "act:%.64s", pseudonym);
    leaf_key_id(key, selection.keys[0]);
    return selection;
}

static struct result newest_events(struct pg *pg, const char *pseudonym, struct audit_page **page_out, struct error *err)
{
    struct audit_selection selection = erasure_own_events(pseudonym);

    selection.limit = LOOKED_AT;
    return audit_page_select(pg, &selection, page_out, err);
}

/* A person that never acted: the row of a role, or of SCIM, names it. */
static struct result find_named(const struct search_source *source, const char *pseudonym, struct erasure_person *person_out,
                                struct error *err)
{
    struct error none = {0};
    struct erasure_row row;

    if (erasure_select_row(source->pg, pseudonym, &row, &none).ok) return failure(err, ERROR_CONFLICT, "the person was erased");
    return erasure_named_find(source, pseudonym, person_out, err);
}

struct result erasure_person_find(const struct permit *permit, enum action action, const struct search_source *source,
                                  const char *pseudonym, struct erasure_person *person_out, struct error *err)
{
    struct erasure_person person = {.events = 0};
    OWNED(audit_page) *page = NULL;
    bool is_found = false;
    char key[80];

    (void)permit_resource(permit, action);
    if (!erasure_is_pseudonym(pseudonym)) return failure(err, ERROR_NOT_FOUND, "no event has this pseudonym");
    memcpy(person.pseudonym, pseudonym, sizeof person.pseudonym);
    (void)snprintf(key, sizeof key, "act:%s", pseudonym);
    TRY(newest_events(source->pg, person.pseudonym, &page, err));
    if (audit_page_count(page) == 0) return find_named(source, pseudonym, person_out, err);
    TRY(read_newest(page, key, &person, err));
    for (size_t i = 0; i < audit_page_count(page) && !is_found; i++) TRY(read_event(source, page, i, &person, &is_found, err));
    if (!is_found)
        return failure(err, ERROR_CONFLICT,
                       "no sealed part names this person any more: the person was erased, or somebody removed the parts");
    *person_out = person;
    erasure_person_wipe(&person);
    return SUCCESS;
}

struct result erasure_person_events(const struct permit *permit, enum action action, struct pg *pg,
                                    const struct audit_filter *filter, struct audit_page **page_out, struct error *err)
{
    assert(filter->key != NULL && strncmp(filter->key, "act:", 4) == 0);
    struct audit_selection selection = erasure_own_events(filter->key + 4);

    (void)permit_resource(permit, action);
    if (filter->limit == 0 || filter->limit > AUDIT_PAGE_MAX || filter->from > INT64_MAX || filter->until > INT64_MAX)
        return failure(err, ERROR_INVALID, "a page has 1 to %d events", AUDIT_PAGE_MAX - 1);
    selection.ascending = filter->ascending;
    selection.from = filter->from;
    selection.until = filter->until;
    selection.limit = filter->limit;
    return audit_page_select(pg, &selection, page_out, err);
}

struct result erasure_count_blind(const struct permit *permit, enum action action, struct pg *pg,
                                  const struct erasure_person *person, int64_t *count_out, struct error *err)
{
    (void)permit_resource(permit, action);
    return erasure_select_blind(pg, person->witness, count_out, err);
}

struct result erasure_row_find(const struct permit *permit, enum action action, struct pg *pg, const char *pseudonym,
                               struct erasure_row *row_out, struct error *err)
{
    (void)permit_resource(permit, action);
    return erasure_select_row(pg, pseudonym, row_out, err);
}

struct result erasure_row_now(struct pg *pg, const char *pseudonym, struct erasure_row *row_out, struct error *err)
{
    return erasure_select_row(pg, pseudonym, row_out, err);
}

/* ---- the steps ---- */

static void require(const struct permit *permit, const char *pseudonym)
{
    const struct resource *where = permit_resource(permit, ACTION_SUBJECT_ERASE);

    assert(where->kind == RESOURCE_SYSTEM && strcmp(where->detail, pseudonym) == 0);
}

struct result erasure_thin(const struct permit *permit, struct pg *pg, const struct erasure_person *person, int64_t *gone_out,
                           struct error *err)
{
    require(permit, person->pseudonym);
    if (person->witness == ERASURE_NO_WITNESS) {
        *gone_out = 0;
        return SUCCESS;
    }
    return erasure_delete_blind(pg, person, permit_sequence(permit), gone_out, err);
}

struct result erasure_begin(const struct permit *permit, struct pg *pg, const struct erasure_begin *begin, struct error *err)
{
    require(permit, begin->pseudonym);
    return begin->witness == ERASURE_NO_WITNESS ? erasure_delete_named_key(pg, begin, permit_sequence(permit), err)
                                                : erasure_delete_key(pg, begin, permit_sequence(permit), err);
}

struct result erasure_rename(const struct permit *permit, struct pg *pg, const struct erasure_person *person, struct error *err)
{
    require(permit, person->pseudonym);
    return person->issuer[0] == '\0' ? SUCCESS : erasure_rename_roles(pg, person, err);
}

struct result erasure_forget(const struct permit *permit, struct pg *pg, const char *pseudonym, uint64_t *next, struct error *err)
{
    struct audit_selection selection = erasure_own_events(pseudonym);
    OWNED(audit_page) *page = NULL;
    int64_t numbers[ERASURE_STEP];

    require(permit, pseudonym);
    selection.ascending = true;
    selection.from = *next;
    selection.limit = ERASURE_STEP;
    TRY(audit_page_select(pg, &selection, &page, err));
    const size_t count = audit_page_count(page);
    for (size_t i = 0; i < count; i++) numbers[i] = (int64_t)audit_page_sequence(page, i);
    if (count > 0) TRY(erasure_delete_payloads(pg, pseudonym, numbers, count, err));
    *next = count < ERASURE_STEP ? (uint64_t)INT64_MAX : (uint64_t)numbers[count - 1] + 1;
    return SUCCESS;
}

struct result erasure_end(const struct permit *permit, struct pg *pg, const char *pseudonym, uint64_t ended, struct error *err)
{
    require(permit, pseudonym);
    return erasure_close(pg, pseudonym, ended, err);
}

/* ---- what the verifier asks ---- */

/* The gateways' database role can't write this table, but its owner can: the event decides. */
struct result erasure_is_recorded(struct pg *pg, const char *pseudonym, bool *is_recorded_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct error why = {0};
    char resource[80];
    struct leaf leaf;

    *is_recorded_out = false;
    TRY(erasure_select_event(pg, pseudonym, &rows, err));
    if (pg_rows_count(rows) == 0 || !leaf_read(pg_bytes(rows, 0, 0), &leaf, &why).ok) return SUCCESS;
    (void)snprintf(resource, sizeof resource, "#%s", pseudonym);
    *is_recorded_out = strcmp(leaf.targets[0].action, action_name(ACTION_SUBJECT_ERASE)) == 0 &&
                       strcmp(leaf.outcome, "allowed") == 0 && strcmp(leaf.targets[0].resource, resource) == 0;
    return SUCCESS;
}
