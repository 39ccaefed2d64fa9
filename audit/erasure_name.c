/* From the name of a person to the pseudonym. Somebody that never acted gets one, if a role or SCIM names it: docs/erasure.md. */
#include <stdio.h>
#include <string.h>

#include "audit/erasure_priv.h"
#include "audit/event_priv.h"
#include "audit/query_priv.h"
#include "audit/subject_priv.h"
#include "base/text.h"

#define HEX_DIGITS "0123456789abcdef"

bool erasure_is_pseudonym(const char *text)
{
    return strlen(text) == 64 && text_consists_of(bytes_of_text(text), HEX_DIGITS);
}

/* Who has the name: `found` persons. If a role or SCIM names the last one, the row is in `named`. */
struct wanted {
    const struct search_source *source;
    const char *subject;
    char pseudonym[65];
    unsigned found;
    struct erasure_named named;
    bool is_named;
};

static struct result try_issuer(struct wanted *wanted, const char *issuer, struct error *err)
{
    const char *const names[2] = {issuer, wanted->subject};
    OWNED(secret) *key = NULL;
    bool is_named = false;
    const struct result opened = subject_key_find(wanted->source->keyd, wanted->source->pg, names, false, &key, err);

    if (!opened.ok && err->kind != ERROR_NOT_FOUND) return opened;
    if (opened.ok) subject_pseudonym(names, key, wanted->pseudonym);
    TRY(erasure_select_role(wanted->source->pg, names, &wanted->named, &is_named, err));
    wanted->is_named |= is_named;
    wanted->found += opened.ok || is_named ? 1 : 0;
    return SUCCESS;
}

static struct result try_all(struct wanted *wanted, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(search_select_issuers(wanted->source->pg, wanted->subject, SEARCH_VALUES_MAX, &rows, err));
    TRY(try_issuer(wanted, REGISTRY_ISSUER, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) TRY(try_issuer(wanted, pg_text(rows, i, 0), err));
    return SUCCESS;
}

static struct result has_acted(struct pg *pg, const char *pseudonym, bool *has_out, struct error *err)
{
    struct audit_selection selection = erasure_own_events(pseudonym);
    OWNED(audit_page) *page = NULL;

    selection.limit = 1;
    TRY(audit_page_select(pg, &selection, &page, err));
    *has_out = audit_page_count(page) > 0;
    return SUCCESS;
}

/* The key comes first: if the person acts meanwhile, its events have the same pseudonym. A key may be there without an event. */
static struct result give_pseudonym(struct wanted *wanted, struct error *err)
{
    const char *const names[2] = {wanted->named.issuer, wanted->subject};
    OWNED(secret) *key = NULL;
    bool has = false;

    TRY(subject_key_find(wanted->source->keyd, wanted->source->pg, names, true, &key, err));
    TRY(keyd_subject_index(wanted->source->keyd, names[0], names[1], wanted->named.index, err));
    subject_pseudonym(names, key, wanted->pseudonym);
    TRY(has_acted(wanted->source->pg, wanted->pseudonym, &has, err));
    return has ? SUCCESS : erasure_insert_named(wanted->source->pg, wanted->pseudonym, &wanted->named, err);
}

static struct result check_found(const struct wanted *wanted, struct error *err)
{
    if (wanted->found == 0)
        return failure(err, ERROR_NOT_FOUND, "nobody of this name has acted here, and neither a role nor SCIM names it");
    if (wanted->found > 1)
        return failure(err, ERROR_CONFLICT, "%u issuers have a subject of this name: say which with the issuer", wanted->found);
    return SUCCESS;
}

struct result erasure_pseudonym(const struct permit *permit, const struct search_source *source, const struct erasure_name *name,
                                char pseudonym_out[65], struct error *err)
{
    struct wanted wanted = {.source = source, .subject = name->subject};

    (void)permit_resource(permit, name->action);
    if (name->subject[0] == '\0' || strlen(name->subject) > SUBJECT_TEXT_MAX)
        return failure(err, ERROR_INVALID, "the name of a person has 1 to %d bytes", SUBJECT_TEXT_MAX);
    if (name->issuer == NULL && erasure_is_pseudonym(name->subject)) {
        memcpy(pseudonym_out, name->subject, sizeof wanted.pseudonym);
        return SUCCESS;
    }
    if (name->issuer == NULL) TRY(try_all(&wanted, err));
    else TRY(try_issuer(&wanted, name->issuer[0] == '\0' ? REGISTRY_ISSUER : name->issuer, err));
    TRY(check_found(&wanted, err));
    if (wanted.is_named) TRY(give_pseudonym(&wanted, err));
    memcpy(pseudonym_out, wanted.pseudonym, sizeof wanted.pseudonym);
    return SUCCESS;
}

static struct result check_named(const struct search_source *source, const struct erasure_person *person, const uint8_t index[32],
                                 struct error *err)
{
    const char *const names[2] = {person->issuer, person->subject};
    OWNED(secret) *key = NULL;
    uint8_t own[32];
    char pseudonym[65];

    TRY(keyd_subject_index(source->keyd, names[0], names[1], own, err));
    TRY(subject_key_find(source->keyd, source->pg, names, false, &key, err));
    subject_pseudonym(names, key, pseudonym);
    if (memcmp(own, index, sizeof own) == 0 && strcmp(pseudonym, person->pseudonym) == 0) return SUCCESS;
    return failure(err, ERROR_CORRUPT, "the row of a person without events names somebody else: somebody has changed it");
}

struct result erasure_named_find(const struct search_source *source, const char *pseudonym, struct erasure_person *person_out,
                                 struct error *err)
{
    struct erasure_person person;
    uint8_t index[32];

    TRY(erasure_select_named(source->pg, pseudonym, &person, index, err));
    const struct result checked = check_named(source, &person, index, err);
    if (checked.ok) *person_out = person;
    erasure_person_wipe(&person);
    return checked;
}
