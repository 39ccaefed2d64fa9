#include "documents/restriction_officers.h"

#include <string.h>

#include "crypto/digest.h"
#include "documents/format/officers.h"
#include "documents/format/signing_key.h"

/* The documents of officers of one organisation, and then the keys that they name. */
struct search {
    const char *organisation;
    int64_t now_ms;
    size_t named_count;
    struct {
        char key[ECDSA_THUMBPRINT_SIZE];
        uint8_t principal[DOCUMENT_DIGEST_SIZE];
    } named[RESTRICTION_OFFICERS_MAX];
    struct restriction_officers *found;
};

/* One that this version can't read is none. */
static struct result note_officer(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct search *search = context;
    struct error refused = {0};
    struct officer officer;

    (void)err;
    if (!document_is_in_force(pinned->document, search->now_ms) || !officer_read(pinned->document, &officer, &refused).ok ||
        strcmp(officer.on, search->organisation) != 0 || strcmp(officer.role, RESTRICTION_ROLE) != 0)
        return SUCCESS;
    if (officer.restrictions > search->found->number) search->found->number = officer.restrictions;
    if (search->named_count == RESTRICTION_OFFICERS_MAX) return SUCCESS;
    memcpy(search->named[search->named_count].key, officer.key, ECDSA_THUMBPRINT_SIZE);
    sha256_of(bytes_of_text(officer.principal), search->named[search->named_count++].principal);
    return SUCCESS;
}

static struct result note_key(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct search *search = context;
    struct restriction_officers *found = search->found;
    struct error refused = {0};
    struct signing_key key;

    (void)err;
    for (size_t i = 0; i < search->named_count && found->count < RESTRICTION_OFFICERS_MAX; i++) {
        if (strcmp(search->named[i].key, pinned->document->name) != 0 ||
            !document_is_in_force(pinned->document, search->now_ms) || !signing_key_read(pinned->document, &key, &refused).ok)
            continue;
        struct restriction_officer *officer = &found->each[found->count++];
        memcpy(officer->point, key.point, sizeof officer->point);
        memcpy(officer->principal, search->named[i].principal, sizeof officer->principal);
    }
    return SUCCESS;
}

struct result restriction_officers_find(struct document_view *view, const char *organisation, int64_t now_ms,
                                        struct restriction_officers *found_out, struct error *err)
{
    struct restriction_officers found = {.number = 1};
    struct search search = {.organisation = organisation, .now_ms = now_ms, .found = &found};
    const struct document_visit officers = {note_officer, &search}, keys = {note_key, &search};

    TRY(document_view_read(view, DOCUMENT_OFFICERS, &officers, err));
    TRY(document_view_read(view, DOCUMENT_SIGNING_KEY, &keys, err));
    *found_out = found;
    return SUCCESS;
}
